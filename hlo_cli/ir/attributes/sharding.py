"""Which device holds which part of a value: meshes, orders and groups of devices, and shardings over them.

Mirrors xla/hlo/ir/hlo_sharding.h, named_sharding.h, and mesh_and_axis.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from itertools import pairwise
from math import prod
from typing import Final

from hlo_cli.dataclass import dataclass, text_in_brackets
from hlo_cli.ir.attributes.enumerations import ReductionKind
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.notation import index_text, tuple_text
from hlo_cli.ir.shape import annotate_indices
from hlo_cli.source import HloError

# --- meshes and orders of devices ---
# Devices in order: iota with a reshape and a transpose, and meshes with named axes.
#
# Mirrors `IotaTileAssignment` of xla/hlo/ir/tile_assignment.h and xla/hlo/ir/mesh_and_axis.h.


MAX_DEVICES: Final = 1 << 22
"""The longest list of devices that is expanded; no machine has so many."""


@dataclass(frozen=True, slots=True)
class IotaTransform:
    """The numbers from 0 on, reshaped to `dims` and transposed.

    >>> transform = IotaTransform((2, 3), (1, 0))
    >>> str(transform), transform.devices()
    ('[2,3]T(1,0)', (0, 3, 1, 4, 2, 5))
    """

    reshape_dims: tuple[int, ...]
    transpose_perm: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        dims = index_text(self.reshape_dims, "[]")
        return dims if len(self.reshape_dims) == 1 else f"{dims}T{tuple_text(self.transpose_perm)}"

    @property
    def is_permutation(self) -> bool:
        """Whether the new order is a permutation of the dimensions."""
        return sorted(self.transpose_perm) == list(range(len(self.reshape_dims)))

    def devices(self) -> tuple[int, ...]:
        """The numbers one by one; HloError if the order is invalid, or there are too many."""
        if not self.is_permutation:
            raise HloError(f"{self} is not a permutation")
        return permuted(range(check_count(prod(self.reshape_dims))), self.reshape_dims, self.transpose_perm)


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of a mesh."""

    name: str
    size: int

    def __str__(self) -> str:
        return f"'{self.name}'={self.size}"


@dataclass(frozen=True, slots=True)
class AxisRef:
    """An axis of a mesh by name, or a part of it: `size` devices, after `pre_size` of them.

    >>> str(AxisRef("x")), str(AxisRef("x", 2, 4))
    ("'x'", "'x':(2)4")
    """

    name: str
    pre_size: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        return f"'{self.name}'" if self.size is None else f"'{self.name}':({self.pre_size}){self.size}"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices in a grid with named axes; `device_ids` lists them if they are not in ascending order.

    >>> mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 2)), IotaTransform((2, 2), (1, 0)))
    >>> str(mesh), mesh.devices()
    ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0))", (0, 2, 1, 3))
    """

    axes: tuple[MeshAxis, ...]
    device_ids: tuple[int, ...] | IotaTransform | None = None

    def __str__(self) -> str:
        mesh = f"mesh[{','.join(map(str, self.axes))}]"
        if self.device_ids is None:
            return mesh
        ids = self.device_ids
        listed = str(ids) if isinstance(ids, IotaTransform) else ",".join(map(str, ids))
        return f"{mesh}, device_ids=({listed})"

    @property
    def device_count(self) -> int:
        """The number of devices in the mesh."""
        return prod(axis.size for axis in self.axes)

    def size_of(self, axis: AxisRef) -> int:
        """The number of devices along an axis, or along a part of one."""
        return axis.size or next(whole.size for whole in self.axes if whole.name == axis.name)

    def devices(self) -> tuple[int, ...]:
        """The devices in the order of the grid, the last axis minor."""
        match self.device_ids:
            case None:
                return tuple(range(check_count(self.device_count)))
            case IotaTransform() as transform:
                return transform.devices()
            case listed:
                return listed

    def groups(self, axes: Sequence[AxisRef]) -> tuple[tuple[int, ...], ...]:
        """The devices that differ only along these axes, in the order of the axes.

        >>> Mesh((MeshAxis("x", 2), MeshAxis("y", 4))).groups([AxisRef("y", 2, 2)])
        ((0, 1), (2, 3), (4, 5), (6, 7))
        """
        if (problem := self.problem_with([axes])) is not None:
            raise HloError(f"{self}: {problem}")
        devices = self.arranged(axes)
        length = prod(self.size_of(axis) for axis in axes)
        return tuple(devices[index : index + length] for index in range(0, len(devices), length))

    def arranged(self, axes: Sequence[AxisRef]) -> tuple[int, ...]:
        """All devices in row-major order with these axes last, in the given order; the others keep theirs.

        HloError if the mesh lists another number of devices than it has positions, or has an axis of size 0.

        >>> Mesh((MeshAxis("x", 2), MeshAxis("y", 2))).arranged([AxisRef("x")])
        (0, 2, 1, 3)
        """
        if (empty := next((axis for axis in self.axes if axis.size < 1), None)) is not None:
            raise HloError(f"axis {empty.name} of the mesh has no devices")
        devices = self.devices()
        if len(devices) != self.device_count:
            raise HloError(f"{self} has {self.device_count} positions but {len(devices)} devices")
        parts = self._parts(axes)
        used = [parts.index((axis.name, axis.pre_size or 1, self.size_of(axis))) for axis in axes]
        order = [*(i for i in range(len(parts)) if i not in used), *used]
        return permuted(devices, [size for _, _, size in parts], order)

    def problem_with(self, used: Sequence[Sequence[AxisRef]]) -> str | None:
        """The reason why these lists of axes conflict, or None: none may overlap, and adjacent parts must be merged.

        >>> Mesh((MeshAxis("x", 2),)).problem_with([[AxisRef("x")], [AxisRef("x")]])
        'axis x is used more than once'
        """
        for axes in used:
            for a, b in pairwise(axes):
                # so that there is one way to write each sharding
                if a.name == b.name and (a.pre_size or 1) * self.size_of(a) == (b.pre_size or 1):
                    return f"{a}, {b} must be written as one axis, {self._merged(a, b)}"
        parts = sorted((a.name, a.pre_size or 1, self.size_of(a)) for axes in used for a in axes)
        for (name, pre, size), (other, next_pre, _) in pairwise(parts):
            if name == other and pre * size > next_pre:
                return f"axis {name} is used more than once"
        return None

    def _merged(self, a: AxisRef, b: AxisRef) -> AxisRef:
        """Adjacent parts of an axis as one."""
        whole, size = AxisRef(a.name), self.size_of(a) * self.size_of(b)
        return whole if size == self.size_of(whole) else AxisRef(a.name, a.pre_size, size)

    def _parts(self, used: Sequence[AxisRef]) -> list[tuple[str, int, int]]:
        """Every axis split at the ends of the used parts: name, size before the part, size of the part."""
        parts: list[tuple[str, int, int]] = []
        for axis in self.axes:
            refs = [ref for ref in used if ref.name == axis.name and ref.size is not None]
            ends = {(ref.pre_size or 1) * self.size_of(ref) for ref in refs}
            cuts = sorted({1, axis.size, *(ref.pre_size or 1 for ref in refs), *ends})
            parts.extend((axis.name, pre, end // pre) for pre, end in pairwise(cuts))
            if axis.size == 1:  # no cut has two ends then, but a used axis must be found
                parts.append((axis.name, 1, 1))
        return parts


def permuted(values: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The values of an array of these dimensions in row-major order, after a transpose."""
    strides = [prod(dims[d + 1 :]) for d in range(len(dims))]
    offsets = [0]
    for d in order:
        stride, size = strides[d], dims[d]
        offsets = [offset + i * stride for offset in offsets for i in range(size)]
    return tuple([values[offset] for offset in offsets])


def check_count(count: int) -> int:
    """The count itself; HloError if it is too large to be expanded."""
    if count > MAX_DEVICES:
        raise HloError(f"{count:,} devices are too many to list")
    return count


# --- groups of devices ---
# The groups of devices in a collective operation.
#
# Mirrors xla/hlo/ir/replica_group.h: groups are listed, made by an iota, or along the axes of a mesh.


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
        # `replica_groups={}`, as XLA prints all devices in one group
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

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
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


# --- shardings over named axes ---
# Shardings over the named axes of a mesh. Mirrors xla/hlo/ir/named_sharding.h.


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The axes along which one dimension is partitioned; an open one may be partitioned further.

    >>> str(DimensionSharding((AxisRef("x"),), is_closed=False))
    "{'x', ?}"
    """

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True

    def __str__(self) -> str:
        return _listed([*map(str, self.axes), *([] if self.is_closed else ["?"])])


@dataclass(frozen=True, slots=True)
class MaximalMesh:
    """A mesh of a single device; `word` is its name in text, which XLA of 2026 changed to single_device.

    >>> str(MaximalMesh(3))
    'maximal_mesh[device_id=3]'
    """

    device_id: int
    word: str = field(default="maximal_mesh", compare=False)

    def __str__(self) -> str:
        return f"{self.word}[device_id={self.device_id}]"


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """A mesh, the axes of each dimension, and the replicated, unreduced, and manual axes.

    `whole` is the keyword of a sharding without partitioned dimensions: replicated, unreduced, or manual.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    >>> sharding = NamedSharding(mesh, (DimensionSharding((AxisRef("x"),)), DimensionSharding()))
    >>> str(sharding), sharding.tile_counts(2)
    ("{mesh['x'=2,'y'=4], [{'x'}, {}]}", (2, 1))
    """

    mesh: Mesh | MaximalMesh
    dim_shardings: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    manual_axes: tuple[AxisRef, ...] = ()
    reduction: ReductionKind | None = None
    whole: str = ""
    metadata: tuple[Metadata, ...] = ()

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        parts = [str(self.mesh)]
        reduction = self.reduction or ""
        if self.whole:
            parts.append(f"{self.whole}={reduction}" if reduction else self.whole)
        elif isinstance(self.mesh, Mesh):
            parts.append(f"[{', '.join(map(str, self.dim_shardings))}]")
        if self.replicated_axes:
            parts.append(f"replicated={_listed(self.replicated_axes)}")
        if self.unreduced_axes:
            parts.append(f"unreduced={reduction}{_listed(self.unreduced_axes)}")
        if self.manual_axes:
            parts.append(f"manual={_listed(self.manual_axes)}")
        if self.metadata:
            parts.append(f"metadata={{{', '.join(map(str, self.metadata))}}}")
        return "{" + ", ".join(parts) + "}"

    def tile_counts(self, rank: int) -> tuple[int, ...]:
        """The number of partitions of each dimension of an array of this rank."""
        if isinstance(self.mesh, MaximalMesh):
            return (1,) * rank
        size_of = self.mesh.size_of
        counts = tuple(prod(size_of(axis) for axis in dimension.axes) for dimension in self.dim_shardings[:rank])
        return counts + (1,) * (rank - len(counts))

    @property
    def problem(self) -> str | None:
        """The reason why XLA rejects the sharding, or None."""
        if isinstance(self.mesh, MaximalMesh):
            return None
        names = [axis.name for axis in self.mesh.axes]
        lists = {"replicated": self.replicated_axes, "unreduced": self.unreduced_axes, "manual": self.manual_axes}
        for name, axes in lists.items():
            positions = [(names.index(axis.name), axis.pre_size or 1) for axis in axes]
            if any(a >= b for a, b in pairwise(positions)):
                return f"axes of {name} must be in mesh order"
        return self.mesh.problem_with([*(dimension.axes for dimension in self.dim_shardings), *lists.values()])


def _listed(items: list[str] | tuple[AxisRef, ...]) -> str:
    return "{" + ", ".join(map(str, items)) + "}"


# --- shardings ---
# The part of a value on each device.
#
# Mirrors xla/hlo/ir/hlo_sharding.h. A sharding over the named axes of a mesh is a `NamedSharding`.


class ShardingType(StrEnum):
    """The data on a device: a copy, everything on one device, as the program decides, a shard, or a partial sum."""

    REPLICATED = "replicated"
    MAXIMAL = "maximal"
    MANUAL = "manual"
    UNKNOWN = "unknown"
    UNREDUCED = "unreduced"
    TILED = "devices"


@dataclass(frozen=True, slots=True)
class TileAssignment:
    """The device of each tile: `devices` lists them in row-major order, or is the iota that generates them.

    >>> tiles = TileAssignment((2, 2), IotaTransform((2, 2), (1, 0)))
    >>> str(tiles), tiles.device_ids()
    ('[2,2]<=[2,2]T(1,0)', (0, 2, 1, 3))
    """

    dimensions: tuple[int, ...]
    devices: tuple[int, ...] | IotaTransform

    def __str__(self) -> str:
        dimensions = index_text(self.dimensions, "[]")
        if isinstance(self.devices, IotaTransform):
            return f"{dimensions}<={self.devices}"
        return dimensions + ",".join(map(str, self.devices))

    @property
    def device_count(self) -> int:
        """The number of tiles, each on a device of its own."""
        return prod(self.dimensions)

    def device_ids(self) -> tuple[int, ...]:
        """The devices one by one."""
        check_count(self.device_count)
        return self.devices.devices() if isinstance(self.devices, IotaTransform) else self.devices


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Values of one group have the same sharding, or similar ones.

    >>> str(ShardGroup(3, is_like=True))
    'shard_like 3'
    """

    id: int
    is_like: bool = False

    def __str__(self) -> str:
        return f"shard_{'like' if self.is_like else 'as'} {self.id}"


@dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of one array. A tiled one has its tiles, and the meanings of the last tile dimensions.

    >>> str(Sharding(ShardingType.TILED, TileAssignment((2, 2), (0, 1, 2, 3)), replicate_on_last_tile_dim=True))
    '{devices=[2,2]0,1,2,3 last_tile_dim_replicate}'
    """

    type: ShardingType
    tiles: TileAssignment | None = None
    device: int | None = None
    replicate_on_last_tile_dim: bool = False
    last_tile_dims: tuple[ShardingType, ...] = ()
    reduction: ReductionKind | None = None
    group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        items = [f"devices={self.tiles}" if self.type is ShardingType.TILED else str(self.type)]
        if self.type is ShardingType.MAXIMAL:
            items.append(f"device={self.device}")
        if self.reduction is not None:
            items[0] += f"={self.reduction}"
        if self.replicate_on_last_tile_dim:
            items.append("last_tile_dim_replicate")
        if self.last_tile_dims:
            items.append("last_tile_dims={" + ", ".join(self.last_tile_dims) + "}")
        if self.group is not None:
            items.append(str(self.group))
        if self.metadata:
            listed = ", ".join(map(str, self.metadata))
            items.append(f"metadata={listed if len(self.metadata) == 1 else f'{{{listed}}}'}")
        return "{" + " ".join(items) + "}"

    def tile_counts(self, rank: int) -> tuple[int, ...]:
        """The number of partitions of each dimension of an array of this rank.

        >>> tiles = TileAssignment((2, 1, 2), IotaTransform((4,)))
        >>> Sharding(ShardingType.TILED, tiles, replicate_on_last_tile_dim=True).tile_counts(2)
        (2, 1)
        """
        return self.tiles.dimensions[:rank] if self.tiles is not None else (1,) * rank

    @property
    def problem(self) -> str | None:
        """The reason why XLA rejects the sharding, or None."""
        if self.type is not ShardingType.TILED:
            return self._problem_of_whole()
        if self.tiles is None or not self.tiles.dimensions:
            return "expected devices or one of replicated, maximal, manual, unknown, or unreduced"
        if self.replicate_on_last_tile_dim and self.last_tile_dims:
            return "last_tile_dim_replicate cannot be used with last_tile_dims"
        if (count := len(self.last_tile_dims)) > len(self.tiles.dimensions):
            return f"{count} last_tile_dims but {len(self.tiles.dimensions)} tile dimensions"
        if isinstance(self.tiles.devices, IotaTransform):
            return None
        if len(self.tiles.devices) < 2:
            return "expected more than one device"
        return "expected non-negative sizes" if min(self.tiles.dimensions) < 0 else None

    def _problem_of_whole(self) -> str | None:
        if self.type is ShardingType.MAXIMAL:
            return None if self.device is not None else "maximal sharding needs exactly one device"
        has_devices = self.device is not None or (
            self.tiles is not None and not isinstance(self.tiles.devices, IotaTransform)
        )
        return f"{self.type} sharding cannot have devices" if has_devices else None


@dataclass(frozen=True, slots=True)
class TupleSharding:
    """A sharding for each leaf of a tuple.

    >>> str(TupleSharding((Sharding(ShardingType.REPLICATED), Sharding(ShardingType.MANUAL))))
    '{{replicated}, {manual}}'
    """

    elements: tuple[Sharding | NamedSharding, ...]

    def __repr__(self) -> str:
        return text_in_brackets(self)

    def __str__(self) -> str:
        return "{" + annotate_indices([str(element) for element in self.elements]) + "}"


@dataclass(frozen=True, slots=True)
class Domain:
    """The shardings on both sides of a `domain` instruction.

    >>> str(Domain(Sharding(ShardingType.REPLICATED), Sharding(ShardingType.MAXIMAL, device=0)))
    '{kind="sharding", entry={replicated}, exit={maximal device=0}}'
    """

    entry: Sharding | NamedSharding | TupleSharding
    exit: Sharding | NamedSharding | TupleSharding

    def __str__(self) -> str:
        return f'{{kind="sharding", entry={self.entry}, exit={self.exit}}}'


AnySharding = Sharding | NamedSharding | TupleSharding
