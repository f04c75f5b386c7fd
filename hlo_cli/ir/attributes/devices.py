"""The groups of devices in a collective operation.

Mirrors xla/hlo/ir/replica_group.h: groups are listed, made by an iota, or along the axes of a mesh.
"""

from __future__ import annotations

from math import prod

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.mesh import AxisRef, IotaTransform, Mesh
from hlo_cli.ir.index_text import index_text
from hlo_cli.source import HloError

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CollectiveDeviceList:
    """Groups as a list; an empty list means one group of all devices.

    >>> str(CollectiveDeviceList(((0, 1), (2, 3))))
    '{{0,1},{2,3}}'
    """

    listed: Groups

    def __str__(self) -> str:
        return index_text(map(index_text, self.listed))

    def groups(self, device_count: int) -> Groups:
        """The groups for a number of devices.

        >>> CollectiveDeviceList(()).groups(3)
        ((0, 1, 2),)
        """
        return self.listed or (tuple(range(device_count)),)


@dataclass(frozen=True, slots=True)
class IotaReplicaGroupList:
    """A number of groups of equal size, filled in order.

    >>> groups = IotaReplicaGroupList(2, 4, IotaTransform((4, 2), (1, 0)))
    >>> str(groups), groups.groups(8)
    ('[2,4]<=[4,2]T(1,0)', ((0, 2, 4, 6), (1, 3, 5, 7)))
    """

    num_replica_groups: int
    num_devices_per_group: int
    transform: IotaTransform

    def __str__(self) -> str:
        return f"[{self.num_replica_groups},{self.num_devices_per_group}]<={self.transform}"

    def groups(self, device_count: int) -> Groups:
        """The groups; the number of devices is known from the iota."""
        if prod(self.transform.reshape_dims) != self.num_replica_groups * self.num_devices_per_group:
            positions = self.num_replica_groups * self.num_devices_per_group
            raise HloError(f"{self} has {positions} positions but {prod(self.transform.reshape_dims)} devices")
        devices, size = self.transform.devices(), self.num_devices_per_group
        return tuple(devices[i * size : (i + 1) * size] for i in range(self.num_replica_groups))


@dataclass(frozen=True, slots=True)
class MeshAxesReplicaGroupList:
    """Groups of the devices of a mesh that differ only along some of its axes.

    >>> from hlo_cli.ir.attributes.mesh import MeshAxis
    >>> groups = MeshAxesReplicaGroupList(Mesh((MeshAxis("x", 2), MeshAxis("y", 2))), (AxisRef("x"),))
    >>> str(groups), groups.groups(4)
    ("mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3)))
    """

    mesh: Mesh
    axes: tuple[AxisRef, ...]

    def __str__(self) -> str:
        return f"{self.mesh} {index_text(self.axes)}"

    def groups(self, device_count: int) -> Groups:
        """The groups; the number of devices is known from the mesh."""
        return self.mesh.groups(self.axes)


ReplicaGroups = CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList
