"""The part of an array on each device: its shape, its bytes, and the slice of the array that it holds.

Mirrors `HloSharding::TileShape`, `TileOffsetForDevice`, and `TileLimitForDevice` of xla/hlo/ir/hlo_sharding.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_cli.analysis.sharding.placement import Placement, placement_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    Mesh,
    NamedSharding,
    Sharding,
    ShardingType,
    TupleSharding,
    check_count,
)
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, Shape, ShapeIndex
from hlo_cli.source import HloError, counted


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of an array on a device: from `starts` to `limits`, exclusive, in each dimension.

    `tile` is its place in the grid of tiles, and `copy` numbers the devices that have the same tile, in their order.
    All devices allocate the shape of a whole tile; at the end of a dimension less of it holds data, or nothing.

    >>> shard = Shard(5, (2, 1), 0, (6, 3), (9, 6))
    >>> shard.sizes, shard.slices, shard.is_empty
    ((3, 3), (slice(6, 9, None), slice(3, 6, None)), False)
    """

    device: int
    tile: tuple[int, ...]
    copy: int
    starts: tuple[int, ...]
    limits: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of elements with data in each dimension."""
        return tuple(limit - start for start, limit in zip(self.starts, self.limits, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index of the part in an array of numpy or JAX."""
        return tuple(map(slice, self.starts, self.limits))

    @property
    def is_empty(self) -> bool:
        """Whether the device holds padding alone."""
        return 0 in self.sizes


def shards(
    shape: Shape, sharding: Sharding | NamedSharding | Placement, *, device_count: int | None = None
) -> tuple[Shard, ...]:
    """The part of an array on each device that holds any of it, in the order of devices.

    A sharding without a list of devices, such as `{replicated}`, is on devices 0 to `device_count` - 1. The parts of a
    manual sharding are of the given shape, which is that of one device already. HloError if the shape is not an array,
    if its rank is not that of the sharding, or if the devices are unknown.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> found = shards(parse_shape("f32[5]"), sharding_of("{devices=[4]3,2,1,0}"))
    >>> [(each.device, each.starts, each.limits) for each in found]
    [(0, (5,), (5,)), (1, (4,), (5,)), (2, (2,), (4,)), (3, (0,), (2,))]
    """
    array = array_of(shape)
    if UNBOUNDED in array.dimensions:
        raise HloError(f"{array.to_string(layout=False)} has a dimension of unknown size")
    placement = sharding if isinstance(sharding, Placement) else placement_of(sharding)
    if placement.kind is ShardingType.UNKNOWN:
        raise HloError("an unknown sharding does not place the array on devices")
    if not placement.is_tiled:
        count = devices_of(sharding) or device_count
        if placement.kind is not ShardingType.MAXIMAL and not count:
            raise HloError(f"{placement.kind} sharding does not list its devices", hint="give device_count")
        devices = placement.devices or tuple(range(check_count(count or 0)))
        zeros = (0,) * array.rank
        return tuple(Shard(device, zeros, copy, zeros, array.sizes) for copy, device in enumerate(devices))
    return tuple(sorted(_tiled(array.sizes, placement), key=lambda shard: shard.device))


def tiles_of(placement: Placement) -> tuple[Shard, ...]:
    """The tile of each device, as the part of an array with one element in each tile; none without tiles.

    >>> from hlo_cli import sharding_of
    >>> [(each.device, each.tile) for each in tiles_of(placement_of(sharding_of("{devices=[2,2]<=[2,2]T(1,0)}")))]
    [(0, (0, 0)), (1, (1, 0)), (2, (0, 1)), (3, (1, 1))]
    """
    if not placement.is_tiled:
        return ()
    return tuple(sorted(_tiled(placement.parts, placement), key=lambda shard: shard.device))


def shard_shape(shape: ArrayShape, placement: Placement) -> ArrayShape:
    """The shape that each device allocates, in the layout of the whole array; HloError if the ranks differ.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> print(shard_shape(parse_shape("f32[10,6]{0,1}"), placement_of(sharding_of("{devices=[4,2]<=[8]}"))))
    f32[3,3]{0,1}
    """
    if not placement.is_tiled:
        return shape
    sizes = placement.shard_sizes(shape.sizes)
    if sizes == shape.sizes:
        return shape
    sizes = tuple(d if d == UNBOUNDED else size for d, size in zip(shape.dimensions, sizes, strict=True))
    layout = replace(shape.layout, split_configs=()) if shape.layout.split_configs else shape.layout
    return replace(shape, dimensions=sizes, layout=layout)


def shard_bytes(shape: ArrayShape, placement: Placement) -> int:
    """The bytes that each device allocates, with the padding of tiles in the layout of the whole array.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> placement = placement_of(sharding_of("{devices=[2,4]<=[8]}"))
    >>> shard_bytes(parse_shape("f32[1000,512]{1,0:T(8,128)}"), placement)
    258048
    """
    return shard_shape(shape, placement).padded_bytes


def whole_sizes(sizes: Sequence[int], placement: Placement) -> tuple[int, ...] | None:
    """The sizes of the array whose shard has these sizes, an upper bound if it is uneven; None if the ranks differ.

    >>> from hlo_cli import sharding_of
    >>> whole_sizes((1024, 64), placement_of(sharding_of("{devices=[2,32,4]<=[256] last_tile_dim_replicate}")))
    (2048, 2048)
    """
    if not placement.is_tiled:
        return tuple(sizes)
    if len(sizes) != len(placement.parts):
        return None
    return tuple(size * parts for size, parts in zip(sizes, placement.parts, strict=True))


def devices_of(sharding: Sharding | NamedSharding | Placement) -> int | None:
    """The number of devices that the sharding or its mesh lists; None if it does not.

    >>> from hlo_cli import sharding_of
    >>> devices_of(sharding_of("{devices=[4,2]<=[8]}")), devices_of(sharding_of("{replicated}"))
    (8, None)
    """
    if isinstance(sharding, NamedSharding):
        return sharding.mesh.device_count if isinstance(sharding.mesh, Mesh) else None
    if isinstance(sharding, Placement):
        return len(sharding.devices) if sharding.is_tiled else None
    is_tiled = sharding.type is ShardingType.TILED and sharding.tiles is not None
    return sharding.tiles.device_count if is_tiled and sharding.tiles is not None else None


def leaf_shardings(
    shape: Shape, sharding: AnySharding
) -> tuple[tuple[ShapeIndex, Shape, Sharding | NamedSharding], ...]:
    """Each leaf of a shape with its index and its sharding; a sharding that is not a tuple is that of all leaves.

    HloError if a tuple of shardings has another number of elements.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> for index, leaf, sharding in leaf_shardings(parse_shape("(f32[8], s32[])"), sharding_of("{replicated}")):
    ...     print(index, leaf, sharding)
    (0,) f32[8]{0} {replicated}
    (1,) s32[] {replicated}
    """
    leaves = list(shape.leaves)
    if not isinstance(sharding, TupleSharding):
        return tuple((index, leaf, sharding) for index, leaf in leaves)
    if len(leaves) != len(sharding.elements):
        found = "1 leaf" if len(leaves) == 1 else f"{len(leaves):,} leaves"
        listed = counted(len(sharding.elements), "shardings")
        raise HloError(f"{listed} for {found} of {shape.to_string(layout=False)}")
    return tuple((index, leaf, each) for (index, leaf), each in zip(leaves, sharding.elements, strict=True))


def array_of(shape: Shape) -> ArrayShape:
    """The array of a shape, also of a buffer; HloError if it is another kind of shape."""
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        raise HloError(f"{shape.to_string(layout=False)} is not an array")
    return array


def _tiled(sizes: Sequence[int], placement: Placement) -> Iterator[Shard]:
    tile_sizes = placement.shard_sizes(sizes)
    shared = len(placement.devices) // max(placement.tiles, 1)
    indices: list[tuple[int, ...]] = [()]
    for parts in placement.parts:
        indices = [(*index, part) for index in indices for part in range(parts)]
    for number, index in enumerate(indices):
        starts = tuple(min(k * s, n) for k, s, n in zip(index, tile_sizes, sizes, strict=True))
        limits = tuple(min((k + 1) * s, n) for k, s, n in zip(index, tile_sizes, sizes, strict=True))
        for copy, device in enumerate(placement.devices[number * shared : (number + 1) * shared]):
            yield Shard(device, index, copy, starts, limits)
