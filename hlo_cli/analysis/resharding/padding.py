"""What the partitioner pads, and what devices exchange for it, where parts of a dimension are uneven.

Mirrors `PadFromPartialReplicateShape` and `TileToPartialReplicateHaloExchange` of
xla/service/spmd/spmd_partitioner_util.cc, and `ReshardAsWindowedInput` of xla/service/spmd/spmd_partitioner.cc for
windows of one element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from hlo_cli.analysis.resharding.halos import Halo, HaloSize, compact_halos, exchanged_halos
from hlo_cli.analysis.sharding.placement import Placement

Sizes = tuple[int, ...]


class Exchange(NamedTuple):
    """A collective-permute of edges: the sizes of its operand, and the devices that send."""

    operand: Sizes
    moving: int
    dimension: int


class Padded(NamedTuple):
    """The exchanges before a step, and the sizes of a shard after them."""

    exchanges: tuple[Exchange, ...]
    local: Sizes


def padded_sizes(whole: Sequence[int], placement: Placement) -> Sizes:
    """The sizes that all parts make up together, padding included.

    >>> from hlo_cli.ir.attributes.sharding import ShardingType
    >>> padded_sizes((10, 6), Placement(ShardingType.TILED, (4, 2), (), tuple(range(8))))
    (12, 6)
    """
    if not placement.is_tiled:
        return tuple(whole)
    return tuple(-(-size // parts) * parts for size, parts in zip(whole, placement.parts, strict=True))


def pad_for_slice(local: Sizes, whole: Sizes, source: Placement, target: Placement) -> Padded:
    """What devices exchange before they slice what they hold, so that no part is in two places.

    >>> from hlo_cli.ir.attributes.sharding import ShardingType
    >>> from hlo_cli.analysis.resharding.tile_arrays import tiled
    >>> pad_for_slice((3,), (6,), tiled((2,), 2, range(4)), tiled((4,), 1, range(4)))
    Padded(exchanges=(Exchange(operand=(1,), moving=2, dimension=0),), local=(4,))
    """
    have, want = padded_sizes(whole, source), padded_sizes(whole, target)
    if want == local:
        return Padded((), local)
    found = list[Exchange]()
    sizes, padded = list(local), dict[int, int]()
    for at, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        size, wanted = have[at] // before, want[at] // before
        if after == before or size >= wanted:
            continue
        if before == 1:
            padded[at] = wanted  # after all exchanges, in one go
            continue
        more = wanted - size
        halos = compact_halos(local[at], before, whole[at], _line(-more, 0), _line(more, more))
        found += _exchanges(sizes, at, halos, source)
        sizes[at] += more
    sizes = [padded.get(at, size) for at, size in enumerate(sizes)]
    return Padded(tuple(found), tuple(sizes))


def pad_for_gather(local: Sizes, whole: Sizes, source: Placement, target: Placement) -> tuple[Exchange, ...]:
    """What devices exchange before they gather, so that the gathered parts make up those of the target."""
    have, want = padded_sizes(whole, source), padded_sizes(whole, target)
    if want == local:
        return ()
    found = list[Exchange]()
    for at, (before, after) in enumerate(zip(source.parts, target.parts, strict=True)):
        more = have[at] // after - want[at] // after
        if before == after or more <= 0 or after == 1:
            continue
        factor = before // after
        left, right = _steps(more, factor), _steps(-more, factor)
        found += _exchanges(local, at, compact_halos(local[at], before, whole[at], left, right), source)
    return tuple(found)


def pad_dimension(local: Sizes, whole: Sizes, placement: Placement, at: int, more: int) -> Padded | None:
    """A dimension with `more` elements at its end, or fewer, cut anew in equal parts; None if edges reach too far."""
    parts, size = placement.parts[at], local[at]
    if not more:
        return Padded((), local)
    if parts == 1:
        return Padded((), _with(local, at, size + more))
    full = whole[at] + more
    if full < 1:
        return None
    wanted = -(-full // parts)
    used = parts
    if full < parts:
        used = min(parts, max(-(-full // size), full))
    if used == 1:
        return Padded((), local)
    if used < parts and more < 0 and full < size:
        size = full
    local = _with(local, at, size)
    left, right = _line(size - wanted, 0), _line(wanted - size, wanted - size)
    reach = max(*map(left, range(used)), *map(right, range(used)))
    halos: tuple[Halo, ...] | None
    if reach > 2 * wanted:
        if wanted * 2 >= used * size:
            return None
        halos = compact_halos(size, used, size * used if used < parts else whole[at], left, right)
    else:
        halos = exchanged_halos(size, used, left, right)
    if halos is None:
        return None
    return Padded(tuple(_exchanges(local, at, halos, placement)), _with(local, at, wanted))


def _exchanges(local: Sequence[int], at: int, halos: Iterable[Halo], placement: Placement) -> list[Exchange]:
    rows = prod(placement.parts) // placement.parts[at] * placement.copies
    return [Exchange(_with(local, at, halo.size), halo.pairs * rows, at) for halo in halos]


def _with(sizes: Sequence[int], at: int, size: int) -> Sizes:
    return (*sizes[:at], size, *sizes[at + 1 :])


def _line(slope: int, offset: int) -> HaloSize:
    return lambda part: slope * part + offset


def _steps(more: int, factor: int) -> HaloSize:
    return lambda part: more * (part // factor)
