"""When the partitioner can go from one sharding to another in one step, and in which.

Mirrors `CanReshardWithCollectivePermute`, `GetReshardAllToAllSourceTargetDims`, and
`PartialReplicateReshardCompatibleSharding` of xla/service/spmd/spmd_partitioner_util.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hlo_cli.analysis.resharding.tile_arrays import dimensions_of, split_dimension, tiled
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.ir.attributes.sharding import permuted

Pairs = tuple[tuple[int, int], ...]


def is_permutation(source: Placement, target: Placement) -> bool:
    """Whether the shardings cut an array alike, but for other devices.

    >>> is_permutation(tiled((2,), 1, (0, 1)), tiled((2,), 1, (1, 0)))
    True
    """
    alike = (
        source.is_tiled and target.is_tiled and source.parts == target.parts and source.subgroups == target.subgroups
    )
    return alike and source.devices != target.devices


def swapped_dimensions(source: Placement, target: Placement) -> Pairs | None:
    """The dimensions, from and to, between which all-to-alls move cuts; None if they cannot take one to the other.

    >>> swapped_dimensions(tiled((4, 1), 1, range(4)), tiled((1, 4), 1, range(4)))
    ((0, 1),)
    """
    if not (source.is_tiled and target.is_tiled) or source.tiles != target.tiles:
        return None
    before, after = dimensions_of(source), dimensions_of(target)
    if len(before) != len(after):
        return None
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    if not changed or sorted(before[at] for at in changed) != sorted(after[at] for at in changed):
        return None
    at_size = dict[int, list[int]]()  # the dimensions that have a number of parts now
    for at in changed:
        at_size.setdefault(before[at], []).append(at)
    found = list[tuple[int, int]]()
    while at_size:
        size = min(at_size)
        at = at_size[size][-1]
        wanted = after[at]
        if wanted == size:
            _remove(at_size, size, at)
            continue
        if size != 1 and wanted % size:
            return None
        candidates = at_size[wanted]
        fitting = [each for each in candidates if (after[each] != 1 if size == 1 else after[each] == size)]
        other = fitting[0] if fitting else candidates[-1]
        found.append((other, at))
        at_size[size][-1] = other
        _remove(at_size, wanted, other)
    return tuple(found)


def _remove(at_size: dict[int, list[int]], size: int, at: int) -> None:
    at_size[size].remove(at)
    if not at_size[size]:
        del at_size[size]


def sliced_sharding(partial: Placement, target: Placement) -> Placement | None:
    """The sharding that cuts like the target and is within a partly replicated one: devices slice what they hold.

    None if the target cuts a dimension differently. If the target itself is within it, that is the answer.

    >>> sliced_sharding(tiled((2, 1), 2, range(4)), tiled((2, 2), 1, range(4))).devices
    (0, 1, 2, 3)
    """
    if partial.copies == 1 or not target.is_tiled or len(partial.parts) != len(target.parts):
        return None
    if len(partial.devices) != len(target.devices):
        return None
    if any(after % before for before, after in zip(partial.parts, target.parts, strict=True)):
        return None
    if is_within(target, partial):
        return target
    rank = len(partial.parts)
    factors = [after // before for before, after in zip(partial.parts, target.parts, strict=True)]
    expanded = [at for at in range(rank) if factors[at] > 1]
    shape = [*partial.parts, *(factors[at] for at in expanded)]
    order = list[int]()
    for at in range(rank):
        order.append(at)
        if at in expanded:
            order.append(rank + expanded.index(at))
    if target.copies > 1:
        order.append(len(shape))
        shape.append(target.copies)
    return tiled(target.parts, target.copies, permuted(partial.devices, shape, order))


def is_within(inner: Placement, outer: Placement) -> bool:
    """Whether every device holds a part, in the inner sharding, of what it holds in the outer one.

    >>> is_within(tiled((2, 2), 1, range(4)), tiled((2, 1), 2, range(4)))
    True
    """
    factors = [after // before for before, after in zip(outer.parts, inner.parts, strict=True)]
    coarse = dict[int, int]()
    for at, device in enumerate(outer.devices):
        coarse[device] = at // outer.copies
    strides = [prod(outer.parts[at + 1 :]) for at in range(len(factors))]
    tiles = [0]
    for size, factor, stride in zip(inner.parts, factors, strides, strict=True):
        tiles = [tile + index // factor * stride for tile in tiles for index in range(size)]
    copies = inner.copies
    return all(coarse.get(device) == tiles[at // copies] for at, device in enumerate(inner.devices))


def shifted_by_copies(tile: Placement, partial: Placement) -> Placement | None:
    """The partly replicated sharding between two whose dimensions are the same, shifted by one; None if they are not.

    `[2,3]` and `[1,2,3 replicated]` are, with the same devices: the answer is `[2,1,3 replicated]`.
    """
    dims, shifted = dimensions_of(tile), dimensions_of(partial)
    if tile.copies > 1 or len(dims) + 1 != len(shifted) or shifted != (1, *dims):
        return None
    last = max((at for at, size in enumerate(dims) if size > 1), default=None)
    if last is None or dims[last] != partial.copies or partial.devices != tile.devices:
        return None
    parts = [1 if at == last else size for at, size in enumerate(dims)]
    return tiled(parts, dims[last], tile.devices)


def split_of_both(
    sizes: Sequence[int], source: Placement, target: Placement
) -> tuple[Placement, Placement, int] | None:
    """Both shardings with a dimension split where one number of parts divides the other, and that dimension.

    >>> [each.parts for each in split_of_both((8, 8), tiled((4, 2), 1, range(8)), tiled((2, 4), 1, range(8)))[:2]]
    [(2, 2, 2), (2, 1, 4)]
    """
    if source.copies != target.copies or len(source.parts) != len(target.parts):
        return None
    pairs = list(enumerate(zip(source.parts, target.parts, strict=True)))
    ones = [at for at, (before, after) in pairs if before != after and min(before, after) == 1]
    others = list[int]()
    for at, (before, after) in pairs:
        small, large = sorted((before, after))
        if small in (1, large) or large % small or (-(-sizes[at] // small) * small) % large:
            continue
        others.append(at)
    for at in others:
        for one in ones:
            if source.parts[at] * source.parts[one] == target.parts[at] * target.parts[one]:
                return _split_both(source, target, at)
    return next((_split_both(source, target, at) for at in others if source.parts[at] > target.parts[at]), None)


def _split_both(source: Placement, target: Placement, at: int) -> tuple[Placement, Placement, int]:
    major = min(source.parts[at], target.parts[at])
    return split_dimension(source, at, major), split_dimension(target, at, major), at
