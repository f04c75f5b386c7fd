"""Which device holds which part of an array, in whatever form a sharding is written; in numbers and in words.

Every spelling becomes one normal form, and back: the shortest text, or the PartitionSpec on a mesh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import Final, NamedTuple, cast

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.tpu_layout import default_order, default_tpu_layout
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items, library
from hlo_cli.ir.attributes.enumerations import ReductionKind
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    AxisRef,
    IotaTransform,
    MaximalMesh,
    Mesh,
    MeshAxis,
    NamedSharding,
    Sharding,
    ShardingType,
    TileAssignment,
    TupleSharding,
    check_count,
    permuted,
)
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, Shape, ShapeIndex, as_shape
from hlo_cli.source import HloError, counted, expect, wrong_type

# --- placements ---
# Every spelling of a sharding in one form, the normal one.
#
# Mirrors xla/hlo/ir/hlo_sharding.cc, xla/hlo/ir/tile_assignment.cc, and the conversion of a named sharding to tiles in
# xla/hlo/ir/named_sharding.cc.


# hlo_sharding.cc sorts subgroups in this order: manual, unreduced, replicated.
_SUBGROUP_ORDER: Final = (ShardingType.MANUAL, ShardingType.UNREDUCED, ShardingType.REPLICATED)
"""Subgroups in the order of the normal form."""


class Subgroup(NamedTuple):
    """Devices that have the same tile: what they are to each other, and how many they are."""

    kind: ShardingType
    size: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A sharding in normal form; two shardings that place an array alike are equal.

    A tiled one (`kind` is TILED) has the number of `parts` of each dimension, the `subgroups` of devices that have the
    same tile in the order manual, unreduced, replicated, and `devices` in row-major order of parts and subgroups. A
    maximal one has its only device in `devices`; the others have neither.

    >>> Placement(ShardingType.TILED, (2, 1), (Subgroup(ShardingType.REPLICATED, 2),), (0, 1, 2, 3)).copies
    2
    """

    kind: ShardingType
    parts: tuple[int, ...] = ()
    subgroups: tuple[Subgroup, ...] = ()
    devices: tuple[int, ...] = ()
    reduction: ReductionKind | None = None

    @property
    def tiles(self) -> int:
        """The number of distinct parts of the array."""
        return prod(self.parts)

    @property
    def copies(self) -> int:
        """The number of devices that hold the same data; 1 for a tiled array without replication."""
        return self.size_of(ShardingType.REPLICATED)

    @property
    def sharers(self) -> int:
        """The number of devices that have the same tile, whatever they are to each other."""
        return prod(group.size for group in self.subgroups)

    @property
    def is_tiled(self) -> bool:
        """Whether the array has tiles, and thus a list of devices."""
        return self.kind is ShardingType.TILED

    def size_of(self, kind: ShardingType) -> int:
        """The number of devices of the subgroup of this kind, 1 if there is none."""
        return next((group.size for group in self.subgroups if group.kind is kind), 1)

    def rank_problem(self, rank: int) -> str | None:
        """The reason why an array of this rank cannot be placed so; None if it can.

        >>> Placement(ShardingType.TILED, (2,), (), (0, 1)).rank_problem(0)
        'the sharding divides 1 dimension, but the array has 0'
        """
        if not self.is_tiled or len(self.parts) == rank:
            return None
        return f"the sharding divides {counted(len(self.parts), 'dimensions')}, but the array has {rank}"

    def shard_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the part that each device allocates, rounded up; HloError if the number of dimensions differs.

        >>> Placement(ShardingType.TILED, (4, 2), (), tuple(range(8))).shard_sizes((10, 6))
        (3, 3)
        """
        if not self.is_tiled:
            return tuple(sizes)
        if (problem := self.rank_problem(len(sizes))) is not None:
            raise HloError(problem)
        return tuple(-(-size // parts) for size, parts in zip(sizes, self.parts, strict=True))


def placement_of(sharding: Sharding | NamedSharding) -> Placement:
    """The sharding of one array in normal form; HloError if its devices do not fit its tiles.

    >>> from hlo_cli.ir.attributes.sharding import IotaTransform
    >>> tiles = TileAssignment((2, 1, 2), IotaTransform((2, 2), (1, 0)))
    >>> placement_of(Sharding(ShardingType.TILED, tiles, last_tile_dims=(ShardingType.REPLICATED,))).devices
    (0, 2, 1, 3)
    """
    if isinstance(sharding, NamedSharding):
        return _of_named(sharding)
    if sharding.type is ShardingType.MAXIMAL:
        return Placement(sharding.type, devices=() if sharding.device is None else (sharding.device,))
    if sharding.type is not ShardingType.TILED or sharding.tiles is None:
        return Placement(sharding.type, reduction=sharding.reduction)
    if min(sharding.tiles.dimensions, default=0) < 1:
        raise HloError(
            f"expected at least one tile in each dimension, found {index_text(sharding.tiles.dimensions, '[]')}"
        )
    kinds = (ShardingType.REPLICATED,) if sharding.replicate_on_last_tile_dim else sharding.last_tile_dims
    rank = len(sharding.tiles.dimensions) - len(kinds)
    dimensions = sharding.tiles.dimensions
    groups = [Subgroup(kind, size) for kind, size in zip(kinds, dimensions[rank:], strict=True)]
    return _normal(dimensions[:rank], groups, _devices_of(sharding.tiles), _reduction_of(sharding))


def _devices_of(tiles: TileAssignment) -> tuple[int, ...]:
    devices, count = tiles.device_ids(), tiles.device_count
    is_listed = not isinstance(tiles.devices, IotaTransform)
    if len(devices) < count or (len(devices) > count and not is_listed):
        raise HloError(f"{counted(count, 'tiles')} but {counted(len(devices), 'devices')}")
    devices = devices[:count]  # XLA ignores listed devices beyond the tiles
    # XLA checks lists only: an iota cannot repeat an id.
    if is_listed and len(set(devices)) < count:
        twice = next(device for device, times in Counter(devices).items() if times > 1)
        raise HloError(f"device {twice} is listed more than once")
    return devices


def _reduction_of(sharding: Sharding) -> ReductionKind | None:
    """The reduction of an unreduced sharding; before it had one of its own, metadata named it."""
    if sharding.reduction is not None:
        return sharding.reduction
    # Shardy's name for the reduction in metadata, before ReductionKind was in the text.
    names = [each.op_name.lower() for each in sharding.metadata if each.op_type == "sdy::reduction_op"]
    return next((kind for kind in ReductionKind for name in names if name == kind), None)


def _of_named(sharding: NamedSharding) -> Placement:
    mesh = sharding.mesh
    if isinstance(mesh, MaximalMesh):
        return Placement(ShardingType.MAXIMAL, devices=(mesh.device_id,))
    if sharding.whole:
        return Placement(ShardingType(sharding.whole), reduction=sharding.reduction)
    cut = [axis for dimension in sharding.dim_shardings for axis in dimension.axes]
    used = [*cut, *sharding.manual_axes, *sharding.unreduced_axes]
    arranged = mesh.arranged(used)
    sizes = [prod(map(mesh.size_of, axes)) for axes in (sharding.manual_axes, sharding.unreduced_axes)]
    parts = sharding.tile_counts(len(sharding.dim_shardings))
    copies = mesh.device_count // (prod(parts) * prod(sizes))
    # What no dimension, manual, or unreduced axis takes is replicated, named or not (named_sharding.cc).
    tiles = prod(parts) * prod(sizes)
    devices = permuted(arranged, (copies, tiles), (1, 0))
    listed = (bool(sharding.manual_axes), bool(sharding.unreduced_axes), copies > 1)
    sized = zip(_SUBGROUP_ORDER, (*sizes, copies), listed, strict=True)
    groups = [Subgroup(kind, size) for kind, size, is_listed in sized if is_listed]
    # Nothing is cut and no axis is special: plain replicated, as in the normal form of hlo_sharding.cc.
    if not groups and prod(parts) == 1:
        return Placement(ShardingType.REPLICATED)
    return _normal(parts, groups, devices, sharding.reduction)


def _normal(
    parts: tuple[int, ...], groups: Sequence[Subgroup], devices: tuple[int, ...], reduction: ReductionKind | None
) -> Placement:
    """The tiles with their subgroups sorted and joined; a plain kind if nothing is cut and all are of one kind."""
    # Groups of size 1 go, unless all are of size 1: they still tell the kind.
    kept = [kind for kind in _SUBGROUP_ORDER if any(group.kind is kind and group.size > 1 for group in groups)]
    kinds = kept or list(dict.fromkeys(group.kind for group in groups))
    if prod(parts) == 1 and len(kinds) == 1:
        return Placement(kinds[0], reduction=reduction)
    if unknown := next((group.kind for group in groups if group.kind not in _SUBGROUP_ORDER), None):
        raise HloError(f"a subgroup of tiles cannot be {unknown}")
    positions = [at for kind in _SUBGROUP_ORDER for at, group in enumerate(groups) if group.kind is kind]
    sizes = [*parts, *(group.size for group in groups)]
    arranged = permuted(devices, sizes, [*range(len(parts)), *(len(parts) + at for at in positions)])
    joined = tuple(Subgroup(kind, prod(g.size for g in groups if g.kind is kind)) for kind in kept)
    copies = prod(group.size for group in joined if group.kind is ShardingType.REPLICATED)
    # Order within copies means nothing, so XLA sorts it; two texts then compare equal.
    if copies > 1:
        arranged = tuple(
            device for at in range(0, len(arranged), copies) for device in sorted(arranged[at : at + copies])
        )
    return Placement(ShardingType.TILED, parts, joined, arranged, reduction)


# --- shards ---
# The part of an array on each device: its shape, its bytes, and the slice of the array that it holds.
#
# Mirrors `HloSharding::TileShape`, `TileOffsetForDevice`, and `TileLimitForDevice` of xla/hlo/ir/hlo_sharding.cc.


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
    shape: Shape | str, sharding: AnySharding | Placement | str, *, device_count: int | None = None
) -> tuple[Shard, ...]:
    """The part of an array on each device that holds any of it, in the order of devices.

    A sharding without a list of devices, such as `{replicated}`, is on devices 0 to `device_count` - 1. The parts of a
    manual sharding are of the given shape, which is that of one device already. HloError if the shape is not an array,
    if its rank is not that of the sharding, or if the devices are unknown.

    The shape and the sharding can be texts.

    >>> found = shards("f32[5]", "{devices=[4]3,2,1,0}")
    >>> [(each.device, each.starts, each.limits) for each in found]
    [(0, (5,), (5,)), (1, (4,), (5,)), (2, (2,), (4,)), (3, (0,), (2,))]
    """
    array = array_of(shape)
    if UNBOUNDED in array.dimensions:
        raise HloError(f"{array.to_string(layout=False)} has a dimension of unknown size")
    given = as_sharding(sharding, array.rank)
    expect(int | None, "a number of devices", device_count)
    if isinstance(given, TupleSharding):
        raise HloError("a tuple of shardings is of a tuple, not of an array", hint="pass the sharding of each element")
    placement = given if isinstance(given, Placement) else placement_of(given)
    if placement.kind is ShardingType.UNKNOWN:
        raise HloError("an unknown sharding does not place the array on devices")
    if not placement.is_tiled:
        count = devices_of(given) or device_count
        if placement.kind is not ShardingType.MAXIMAL and not count:
            raise HloError(f"{placement.kind} sharding does not list its devices", hint="give device_count")
        devices = placement.devices or tuple(range(check_count(count or 0)))
        zeros = (0,) * array.rank
        return Items(Shard(device, zeros, copy, zeros, array.sizes) for copy, device in enumerate(devices))
    return Items(sorted(_tiled(array.sizes, placement), key=lambda shard: shard.device))


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
    # Split configs are positions in the whole array; none of them is valid for a shard.
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
        leaf_count = "1 leaf" if len(leaves) == 1 else f"{len(leaves):,} leaves"
        listed = counted(len(sharding.elements), "shardings")
        raise HloError(f"{listed} for {leaf_count} of {shape.to_string(layout=False)}")
    return tuple((index, leaf, each) for (index, leaf), each in zip(leaves, sharding.elements, strict=True))


def array_of(shape: Shape | str) -> ArrayShape:
    """The array of a shape, also of a buffer; HloError if it is another kind of shape."""
    shape = as_shape(shape)
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        raise HloError(f"{shape.to_string(layout=False)} is not an array")
    return array


def as_sharding(sharding: AnySharding | Placement | str, rank: int | None = None) -> AnySharding | Placement:
    """The sharding itself, or that in a text, as `sharding_of` reads it; TypeError if it is something else.

    >>> print(as_sharding("{devices=[2]<=[2]}"))
    {devices=[2]<=[2]}
    """
    if isinstance(sharding, str):
        return cast(AnySharding, library().sharding_of(sharding, rank=rank))
    if not isinstance(sharding, Sharding | NamedSharding | TupleSharding | Placement):
        raise wrong_type("a sharding or its text", sharding, 'such as "{devices=[2,4]<=[8]}"')
    return sharding


def _tiled(sizes: Sequence[int], placement: Placement) -> Iterator[Shard]:
    tile_sizes = placement.shard_sizes(sizes)
    shared = len(placement.devices) // max(placement.tiles, 1)
    indices: list[tuple[int, ...]] = [()]
    for parts in placement.parts:
        indices = [(*index, part) for index in indices for part in range(parts)]
    for number, index in enumerate(indices):
        # Tiles of an uneven array may start beyond its end: such devices hold nothing
        # (HloSharding::TileOffsetForDevice).
        starts = tuple(min(k * s, n) for k, s, n in zip(index, tile_sizes, sizes, strict=True))
        limits = tuple(min((k + 1) * s, n) for k, s, n in zip(index, tile_sizes, sizes, strict=True))
        for copy, device in enumerate(placement.devices[number * shared : (number + 1) * shared]):
            yield Shard(device, index, copy, starts, limits)


# --- the shortest spelling ---
# An iota where one generates the devices, else their list.
#
# Mirrors `CanonicalizeIotaDims` of xla/hlo/ir/tile_assignment.cc.


def sharding_of_placement(placement: Placement) -> Sharding:
    """The sharding that XLA prints for a placement.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> named = sharding_of("{mesh['x'=2,'y'=4], [{'y'}, {}]}")
    >>> print(sharding_of_placement(placement_of(named)))
    {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
    """
    if placement.kind is ShardingType.MAXIMAL:
        return Sharding(placement.kind, device=placement.devices[0] if placement.devices else None)
    if not placement.is_tiled:
        return Sharding(placement.kind, reduction=placement.reduction)
    kinds = tuple(group.kind for group in placement.subgroups)
    dimensions = (*placement.parts, *(group.size for group in placement.subgroups))
    devices = iota_of(placement.devices) or placement.devices
    is_replicated = kinds == (ShardingType.REPLICATED,)
    metadata: tuple[Metadata, ...] = ()
    if placement.reduction is not None:
        # hlo_sharding.cc of older releases has only metadata for it; the reader accepts both.
        metadata = (Metadata(op_type="sdy::reduction_op", op_name=placement.reduction.upper()),)
    return Sharding(
        ShardingType.TILED,
        TileAssignment(dimensions, devices),
        replicate_on_last_tile_dim=is_replicated,
        last_tile_dims=() if is_replicated else kinds,
        metadata=metadata,
    )


def iota_of(devices: Sequence[int]) -> IotaTransform | None:
    """The shortest iota that generates these devices, None if there is none.

    >>> print(iota_of((0, 4, 1, 5, 2, 6, 3, 7)), iota_of((0, 1, 2, 3)), iota_of((0, 2, 3, 1)))
    [2,4]T(1,0) [4] None
    """
    strides = _strides_of(devices)
    if strides is None:
        return None
    placed = sorted(strides, key=lambda each: -each[0])
    # Strides in ascending order must be the products of the sizes before: else the ids are no iota.
    expected = 1
    for stride, size in reversed(placed):
        if stride != expected:
            return None
        expected *= size
    return IotaTransform(tuple(size for _, size in placed) or (1,), tuple(map(placed.index, strides)) or (0,))


def _strides_of(devices: Sequence[int]) -> list[tuple[int, int]] | None:
    """The stride and the size of each dimension of an array of devices in row-major order, as few as possible.

    None if the devices are no such array.

    >>> _strides_of((0, 4, 1, 5)), _strides_of((0, 1, 2, 3)), _strides_of((0, 2, 3, 1))
    ([(1, 2), (4, 2)], [(1, 4)], None)
    """
    strides, length = list[tuple[int, int]](), 1
    while length < len(devices):
        stride, size = devices[length], 2
        while length * size < len(devices) and devices[length * size] == stride * size:
            size += 1
        if len(devices) % (length * size):
            return None
        strides.append((stride, size))
        length *= size
    expected = [0]
    for stride, size in strides:
        expected = [base + stride * step for step in range(size) for base in expected]
    return strides[::-1] if expected == list(devices) else None


# --- axes of dimensions ---
# Axes of a mesh for each dimension of an array: the PartitionSpec of a placement, found from its devices.
#
# Mirrors `parse_flatten_op_sharding` of jax/_src/sharding_impls.py, and finds parts of axes too.


Spec = tuple[tuple[AxisRef, ...], ...]
"""The axes of each dimension, major to minor."""


class _Part(NamedTuple):
    """A part of an axis: the axis, the product of the parts above it, its size, and its stride in the mesh."""

    axis: int
    pre_size: int
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class PlacementAxes:
    """The axes of a mesh that explain a placement: of each dimension, and of each subgroup that is not replicated.

    `copies` are the axes, or parts of axes, along which devices hold the same data.
    """

    dimensions: Spec
    subgroups: tuple[tuple[ShardingType, tuple[AxisRef, ...]], ...]
    copies: tuple[AxisRef, ...]


def partition_spec(placement: Placement, mesh: Mesh) -> Spec | None:
    """The axes of the mesh along which each dimension is divided; None if the axes do not explain the placement.

    Axes of size 1 are left out. A part of an axis has `pre_size` and `size`. A placement with manual or unreduced
    subgroups has no spec.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> placement = placement_of(sharding_of("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"))
    >>> partition_spec(placement, Mesh((MeshAxis("data", 2), MeshAxis("model", 4))))
    ((AxisRef(name='model', pre_size=None, size=None),), ())
    """
    axes = placement_axes(placement, mesh)
    return None if axes is None or axes.subgroups else axes.dimensions


def placement_axes(placement: Placement, mesh: Mesh) -> PlacementAxes | None:
    """The axes of the mesh that explain a placement; None if they do not.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> mesh = Mesh((MeshAxis("data", 2), MeshAxis("model", 4)))
    >>> found = placement_axes(placement_of(sharding_of("{devices=[2,4]<=[8] last_tile_dims={manual}}")), mesh)
    >>> [(kind, axis.name) for kind, axes in found.subgroups for axis in axes]
    [(<ShardingType.MANUAL: 'manual'>, 'model')]
    """
    if not placement.is_tiled:
        return _axes_of_undivided(placement, mesh)
    devices = mesh.devices()
    shared = placement.copies
    tile_of = {device: position // shared for position, device in enumerate(placement.devices)}
    # A mesh that has other devices, or lists some twice, cannot name anything.
    if not len(placement.devices) == len(devices) == mesh.device_count or any(
        device not in tile_of for device in devices
    ):
        return None
    tiles = [tile_of[device] for device in devices]
    groups = [group for group in placement.subgroups if group.kind is not ShardingType.REPLICATED]
    sizes = (*placement.parts, *(group.size for group in groups))
    cut = _cut_axes(mesh, tiles, sizes) if tiles[0] == 0 else None
    if cut is None or (parts_by_dimension := _parts_by_dimension(tiles, cut, sizes)) is None:
        return None
    axes = [_joined_axes(parts, mesh) for parts in parts_by_dimension]
    unused = [part for part in cut if not any(part in parts for parts in parts_by_dimension)]
    rank = len(placement.parts)
    named = zip((group.kind for group in groups), axes[rank:], strict=True)
    return PlacementAxes(tuple(axes[:rank]), tuple(named), _joined_axes(unused, mesh))


def _axes_of_undivided(placement: Placement, mesh: Mesh) -> PlacementAxes | None:
    """The axes of a placement that divides nothing: one kind of subgroup along all of them."""
    axes = tuple(AxisRef(axis.name) for axis in mesh.axes if axis.size > 1)
    match placement.kind:
        case ShardingType.REPLICATED:
            return PlacementAxes((), (), axes)
        case ShardingType.MANUAL | ShardingType.UNREDUCED:
            return PlacementAxes((), ((placement.kind, axes),), ())
        case _:
            return None


def mesh_of_tiles(placement: Placement) -> Mesh | None:
    """The coarsest mesh whose axes, named axis0, axis1, …, explain the tiles; None if no row-major mesh does.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> print(mesh_of_tiles(placement_of(sharding_of("{devices=[4,2]<=[8]}"))))
    mesh['axis0'=4,'axis1'=2]
    """
    devices = placement.devices
    if not placement.is_tiled or sorted(devices) != list(range(len(devices))):
        # Ids of a row-major mesh are 0 to n - 1; a permuted mesh cannot be told from the tiles alone.
        return None
    sizes = (*placement.parts, *(group.size for group in placement.subgroups))
    borders = {1, len(devices)}
    for d, size in enumerate(sizes):
        stride = prod(sizes[d + 1 :])
        along = _strides_of([devices[index * stride] - devices[0] for index in range(size)])
        if along is None:
            return None
        borders |= {border for step, count in along for border in (step, step * count)}
    ordered = sorted(borders, reverse=True)
    if ordered[-1] < 1 or any(a % b for a, b in pairwise(ordered)):
        return None
    mesh = Mesh(tuple(MeshAxis(f"axis{index}", a // b) for index, (a, b) in enumerate(pairwise(ordered))))
    return mesh if mesh.axes and placement_axes(placement, mesh) is not None else None


def spec_text(spec: Spec, *, rank: int | None = None) -> str:
    """The spec as Python code, with all dimensions if the `rank` is given.

    >>> spec_text(((AxisRef("data"),), (), (AxisRef("x"), AxisRef("y"))))
    "P('data', None, ('x', 'y'))"
    >>> spec_text((), rank=2), spec_text(())
    ('P(None, None)', 'P()')
    """
    dimensions = [*spec, *((),) * ((rank or 0) - len(spec))]
    texts = ["None" if not axes else _axes_code(axes) for axes in dimensions]
    return f"P({', '.join(texts)})"


def has_parts(spec: Spec) -> bool:
    """Whether a dimension is divided along a part of an axis, for which JAX has no PartitionSpec.

    >>> has_parts(((AxisRef("data", 1, 2),),))
    True
    """
    return any(axis.size is not None for axes in spec for axis in axes)


def _axes_code(axes: Sequence[AxisRef]) -> str:
    names = [repr(axis.name) if axis.size is None else f"'{axis.name}:({axis.pre_size}){axis.size}'" for axis in axes]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _cut_axes(mesh: Mesh, tiles: Sequence[int], sizes: Sequence[int]) -> list[_Part] | None:
    """The axes of the mesh, cut where a part of one begins or ends to change the index of a tile along a dimension.

    None if the index along an axis is no sum over parts of it.
    """
    parts, stride = list[_Part](), 1
    for number in reversed(range(len(mesh.axes))):
        size = mesh.axes[number].size
        along = [tiles[index * stride] for index in range(size)]
        borders = {1, size}
        for d, count in enumerate(sizes):
            weight = prod(sizes[d + 1 :])
            steps = _strides_of([tile // weight % count for tile in along])
            if steps is None:
                return None
            borders.update(accumulate((count for _, count in reversed(steps)), mul))
        ordered = sorted(borders)
        if any(below % above for above, below in pairwise(ordered)):
            return None
        parts += [_Part(number, size // below, below // above, above * stride) for above, below in pairwise(ordered)]
        stride *= size
    return parts[::-1]


def _parts_by_dimension(tiles: Sequence[int], cut: Sequence[_Part], parts: Sequence[int]) -> list[list[_Part]] | None:
    """The parts of axes that divide each dimension, major to minor; None if tiles are not a sum over parts of axes."""
    strides = [prod(parts[position + 1 :]) for position in range(len(parts))]
    weighted_parts: list[list[tuple[int, _Part]]] = [[] for _ in parts]
    for part in cut:
        weight = tiles[part.stride]
        changed = [d for d, size in enumerate(parts) if weight // strides[d] % size]
        # An axis part that changes two dimensions divides neither: no PartitionSpec has that.
        if len(changed) > 1:
            return None
        for d in changed:
            weighted_parts[d].append((weight, part))
    for d, weighted in enumerate(weighted_parts):
        weighted.sort(key=lambda each: -each[0])
        expected = strides[d] * parts[d]
        for weight, part in weighted:
            if weight * part.size != expected:
                return None
            expected = weight
        if expected != strides[d]:
            return None
    # Weights at single places can agree by chance, so the sum is compared for every device.
    predicted = [0] * len(tiles)
    for weight, part in (each for weighted in weighted_parts for each in weighted):
        for position in range(len(tiles)):
            predicted[position] += weight * (position // part.stride % part.size)
    return [[part for _, part in weighted] for weighted in weighted_parts] if predicted == list(tiles) else None


def _joined_axes(parts: Sequence[_Part], mesh: Mesh) -> tuple[AxisRef, ...]:
    """The parts as axes, with neighbors of the same axis as one."""
    runs = [[part] for part in parts[:1]]
    for before, part in pairwise(parts):
        if part.axis == before.axis and part.pre_size == before.pre_size * before.size:
            runs[-1].append(part)
        else:
            runs.append([part])
    refs = list[AxisRef]()
    for run in runs:
        axis, size = mesh.axes[run[0].axis], prod(part.size for part in run)
        refs.append(AxisRef(axis.name) if size == axis.size else AxisRef(axis.name, run[0].pre_size, size))
    return tuple(refs)


# --- an array on devices ---
# Its placement, the shape of a shard, the bytes, and the axes that divide it.


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
        layout = default_tpu_layout(self.shard, generation=generation, minor_to_major=order)
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


# --- shardings in words ---
# How the dimensions are divided, and which device holds which part.


UNDIVIDED: Final[Mapping[str, str]] = {
    ShardingType.REPLICATED: "every device holds the whole array",
    ShardingType.MANUAL: "the program decides; the shape is already that of one device",
    ShardingType.UNKNOWN: "not decided",
    ShardingType.UNREDUCED: "every device holds a partial result of the whole array, still to be reduced",
}
"""What devices hold in a sharding that divides nothing, by its kind."""
_SHARED_AS: Final = {
    ShardingType.REPLICATED: "hold the same part",
    ShardingType.MANUAL: "hold parts that the program decides",
    ShardingType.UNREDUCED: "hold partial results of the same part",
}


def describe_sharding(sharding: AnySharding) -> str:
    """The sharding in one sentence without a period, or why it is invalid.

    >>> from hlo_cli import sharding_of
    >>> describe_sharding(sharding_of("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"))
    'dimension 0 in 2 parts; each of the 2 parts is on 4 of 8 devices'
    """
    if isinstance(sharding, TupleSharding):
        return f"one sharding for each of {counted(len(sharding.elements), 'values')}"
    try:
        placement, devices = placement_of(sharding), devices_of(sharding)
    except HloError as error:
        return f"invalid: {error.diagnostic.message}"
    if placement.kind is ShardingType.MAXIMAL:
        return f"device {placement.devices[0]} holds the whole array, the others hold nothing"
    if not placement.is_tiled:
        return UNDIVIDED[placement.kind] + (f" ({counted(devices, 'devices')})" if devices else "")
    if placement.tiles == 1:
        return f"no dimension is divided; {_holders_text(placement)}"
    return f"{describe_parts(placement.parts)}; {_holders_text(placement)}"


def describe_parts(parts: Sequence[int]) -> str:
    """The dimensions that are divided, with the number of parts.

    >>> describe_parts((2, 1, 4))
    'dimension 0 in 2 parts, dimension 2 in 4 parts'
    """
    listed = [f"dimension {d} in {part} parts" for d, part in enumerate(parts) if part != 1]
    return ", ".join(listed) or "no dimension is divided"


def describe_shards(shape: ArrayShape, sharding: Sharding | NamedSharding, mesh: Mesh | None = None) -> str:
    """What each device holds of a whole array, in one sentence without a period; HloError if the ranks differ.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> sharding = sharding_of("{devices=[2,1,4]<=[8] last_tile_dim_replicate}")
    >>> describe_shards(parse_shape("f32[16,6]"), sharding)
    'each of 8 devices holds f32[8,6]: devices 0–3 [0:8, 0:6], devices 4–7 [8:16, 0:6]'
    """
    array = sharded_array(shape, sharding, mesh)
    if not array.placement.is_tiled or array.placement.tiles == 1:
        return describe_sharding(sharding)
    held = f"each of {counted(array.devices or 0, 'devices')} holds {array.shard.to_string(layout=False)}"
    try:
        return f"{held}: {', '.join(_held_texts(array))}"
    except HloError:  # a size is unknown
        return held


def devices_text(devices: Sequence[int], max_runs: int) -> str:
    """Devices with runs of three and more as ranges, and the number of those that are omitted.

    >>> devices_text((0, 4), 4), devices_text((0, 1, 2, 3, 9), 4), devices_text((0, 8, 16, 24, 32), 3)
    ('0 4', '0–3 9', '0 8 16 +2')
    """
    runs = [[device] for device in devices[:1]]
    for before, device in pairwise(devices):
        if device == before + 1:
            runs[-1].append(device)
        else:
            runs.append([device])
    texts = list[tuple[str, int]]()
    for run in runs:
        # Two devices are as short as a list: "1 2" for "1–2".
        texts += [(f"{run[0]}–{run[-1]}", len(run))] if len(run) > 2 else [(str(device), 1) for device in run]
    shown = " ".join(text for text, _ in texts[:max_runs])
    omitted = sum(count for _, count in texts[max_runs:])
    return f"{shown} +{omitted:,}" if omitted else shown


def slice_text(shard: Shard) -> str:
    """The part as an index in Python.

    >>> slice_text(Shard(0, (1, 0), 0, (8, 0), (16, 3)))
    '[8:16, 0:3]'
    """
    return f"[{', '.join(f'{start}:{limit}' for start, limit in zip(shard.starts, shard.limits, strict=True))}]"


def _held_texts(array: ShardedArray) -> list[str]:
    """The devices and slices of the first two tiles and of the last."""
    tiles = dict[tuple[int, ...], list[Shard]]()
    for shard in array.shards():
        tiles.setdefault(shard.tile, []).append(shard)
    ordered = [tiles[index] for index in sorted(tiles)]
    texts = [_held_tile_text(tile) for tile in ordered]
    # More than three tiles: two show the step, and the last shows the uneven end.
    return texts if len(texts) < 4 else [*texts[:2], "…", texts[-1]]


def _held_tile_text(tile: Sequence[Shard]) -> str:
    devices = devices_text(sorted(shard.device for shard in tile), 4)
    held = "no element" if tile[0].is_empty else slice_text(tile[0])
    return f"device{'s' if len(tile) > 1 else ''} {devices} {held}"


def _holders_text(placement: Placement) -> str:
    devices, tiles = len(placement.devices), placement.tiles
    sharers = placement.sharers
    if sharers == 1:
        return f"each of {counted(tiles, 'devices')} holds its own part"
    kinds = [group.kind for group in placement.subgroups]
    if kinds == [ShardingType.REPLICATED]:
        return f"each of the {tiles:,} parts is on {sharers:,} of {devices:,} devices"
    return f"{sharers:,} of {devices:,} devices {' or '.join(_SHARED_AS[kind] for kind in kinds)}"
