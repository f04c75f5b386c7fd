"""An array on devices: its placement, the shape of a shard, the bytes, and the axes that divide it."""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.default_layout import default_layout, default_order
from hlo_cli.analysis.sharding.placement import Placement, placement_of
from hlo_cli.analysis.sharding.shards import Shard, devices_of, shard_shape, shards
from hlo_cli.analysis.sharding.spec import PlacementAxes, mesh_of_tiles, placement_axes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AxisRef, Mesh, NamedSharding, Sharding, ShardingType
from hlo_cli.ir.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class ShardedArray:
    """The whole `shape`, its placement, and the `shard` that each device allocates.

    `devices` is None if neither the sharding nor a mesh lists them. Without a mesh, `mesh` is the one of the tiles
    alone, with axes axis0, axis1, …. `axes` is None if no mesh explains the tiles.
    """

    shape: ArrayShape
    placement: Placement
    shard: ArrayShape
    devices: int | None
    mesh: Mesh | None
    axes: PlacementAxes | None
    is_mesh_of_tiles: bool = False

    @property
    def holders(self) -> int | None:
        """The number of devices that hold any part of the array."""
        return 1 if self.placement.kind is ShardingType.MAXIMAL else self.devices

    @property
    def copies(self) -> int | None:
        """The number of devices with the same data."""
        return self.devices if self.placement.kind is ShardingType.REPLICATED else self.placement.copies

    @property
    def padding(self) -> float:
        """The share of padding in all devices' bytes: of uneven tiles, and of the layout."""
        stored = self.shard.padded_bytes * self.placement.tiles
        return 1 - self.shape.logical_bytes / stored if stored else 0.0

    @property
    def dimension_axes(self) -> tuple[tuple[AxisRef, ...] | None, ...]:
        """The axes along which each dimension is divided; None where unknown."""
        if self.axes is None:
            return tuple(() if parts == 1 else None for parts in self.placement.parts) or ((),) * self.shape.rank
        return (*self.axes.dimensions, *((),) * (self.shape.rank - len(self.axes.dimensions)))

    @property
    def is_even(self) -> bool:
        """Whether every device holds a whole tile."""
        parts = self.placement.parts
        return all(size % part == 0 for size, part in zip(self.shape.sizes, parts, strict=False))

    def shards(self) -> tuple[Shard, ...]:
        """The part on each device; HloError if the sharding does not place the array."""
        return shards(self.shape, self.placement, device_count=self.devices)

    def tpu_shard(self, generation: str = USUAL_TPU) -> ArrayShape | None:
        """The shard in the layout that the compiler of a TPU chooses by default; None if it is unknown."""
        order = default_order(self.shard, generation=generation)
        if order is None:
            return None
        layout = default_layout(self.shard, generation=generation, minor_to_major=order)
        return replace(self.shard, layout=layout)


def sharded_array(
    shape: ArrayShape,
    sharding: Sharding | NamedSharding,
    mesh: Mesh | None = None,
    *,
    device_count: int | None = None,
) -> ShardedArray:
    """The array on the devices of a sharding, with names of axes from a mesh; HloError if the ranks differ.

    A sharding that does not list its devices is on all devices of the mesh, or on `device_count`.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> found = sharded_array(parse_shape("f32[10,6]"), sharding_of("{devices=[4,2]<=[8]}"))
    >>> print(found.shard, found.devices, round(found.padding, 3), [axis.name for (axis,) in found.dimension_axes])
    f32[3,3]{1,0} 8 0.167 ['axis0', 'axis1']
    """
    placement = placement_of(sharding)
    if mesh is None and isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        mesh = sharding.mesh
    made = mesh_of_tiles(placement) if mesh is None else None
    devices = devices_of(sharding) or (mesh.device_count if mesh is not None else device_count)
    known = mesh if mesh is not None else made
    axes = placement_axes(placement, known) if known is not None else None
    return ShardedArray(shape, placement, shard_shape(shape, placement), devices, known, axes, made is not None)
