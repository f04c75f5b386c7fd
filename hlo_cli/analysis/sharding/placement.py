"""Which device holds which part of an array: every spelling of a sharding in one form, the normal one.

Mirrors xla/hlo/ir/hlo_sharding.cc, xla/hlo/ir/tile_assignment.cc, and the conversion of a named sharding to tiles in
xla/hlo/ir/named_sharding.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.enumerations import ReductionKind
from hlo_cli.ir.attributes.sharding import (
    IotaTransform,
    MaximalMesh,
    NamedSharding,
    Sharding,
    ShardingType,
    TileAssignment,
    permuted,
)
from hlo_cli.ir.notation import index_text
from hlo_cli.source import HloError, counted

_ORDER: Final = (ShardingType.MANUAL, ShardingType.UNREDUCED, ShardingType.REPLICATED)
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
    if is_listed and len(set(devices)) < count:
        twice = next(device for device, times in Counter(devices).items() if times > 1)
        raise HloError(f"device {twice} is listed more than once")
    return devices


def _reduction_of(sharding: Sharding) -> ReductionKind | None:
    """The reduction of an unreduced sharding; before it had one of its own, metadata named it."""
    if sharding.reduction is not None:
        return sharding.reduction
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
    tiles = prod(parts) * prod(sizes)
    devices = permuted(arranged, (copies, tiles), (1, 0))
    listed = (bool(sharding.manual_axes), bool(sharding.unreduced_axes), copies > 1)
    sized = zip(_ORDER, (*sizes, copies), listed, strict=True)
    groups = [Subgroup(kind, size) for kind, size, is_listed in sized if is_listed]
    if not groups and prod(parts) == 1:
        return Placement(ShardingType.REPLICATED)
    return _normal(parts, groups, devices, sharding.reduction)


def _normal(
    parts: tuple[int, ...], groups: Sequence[Subgroup], devices: tuple[int, ...], reduction: ReductionKind | None
) -> Placement:
    """The tiles with their subgroups sorted and joined; a plain kind if nothing is cut and all are of one kind."""
    kept = [kind for kind in _ORDER if any(group.kind is kind and group.size > 1 for group in groups)]
    kinds = kept or list(dict.fromkeys(group.kind for group in groups))
    if prod(parts) == 1 and len(kinds) == 1:
        return Placement(kinds[0], reduction=reduction)
    if unknown := next((group.kind for group in groups if group.kind not in _ORDER), None):
        raise HloError(f"a subgroup of tiles cannot be {unknown}")
    positions = [at for kind in _ORDER for at, group in enumerate(groups) if group.kind is kind]
    sizes = [*parts, *(group.size for group in groups)]
    arranged = permuted(devices, sizes, [*range(len(parts)), *(len(parts) + at for at in positions)])
    joined = tuple(Subgroup(kind, prod(g.size for g in groups if g.kind is kind)) for kind in kept)
    copies = prod(group.size for group in joined if group.kind is ShardingType.REPLICATED)
    if copies > 1:
        arranged = tuple(
            device for at in range(0, len(arranged), copies) for device in sorted(arranged[at : at + copies])
        )
    return Placement(ShardingType.TILED, parts, joined, arranged, reduction)
