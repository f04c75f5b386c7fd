"""Shardings along the prime parts of the axes that two shardings have in common.

With p prime parts and rank r there are (r + 1)^p placements, times the orders of the parts within a dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise, permutations, product
from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.resharding.tile_arrays import REPLICATED, dimensions_of, tiled
from hlo_cli.analysis.sharding.division import prime_factors
from hlo_cli.analysis.sharding.normal_text import iota_of
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.ir.attributes.sharding import Mesh, permuted

Candidate = tuple[tuple[int, ...], ...]
"""The prime parts along which each dimension is divided, major first; the other parts hold copies."""


_MOST_OF_AXES: Final = 1_000
"""The number of shardings along whole axes before others have their turn."""


class Grid(NamedTuple):
    """Devices in row-major order, the sizes of the prime parts of their axes, and the axes as runs of parts."""

    devices: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

    def is_whole(self, candidate: Candidate) -> bool:
        """Whether every dimension is divided along whole axes."""
        return all(
            parts[at : at + 1] != axis[:1] or parts[at : at + len(axis)] == axis
            for parts in candidate
            for axis in self.axes
            for at in range(len(parts))
        ) and all(parts.count(axis[0]) == parts.count(axis[-1]) for parts in candidate for axis in self.axes)

    def parts_of(self, candidate: Candidate) -> list[int]:
        """The number of parts of each dimension."""
        return [prod(self.sizes[part] for part in parts) for parts in candidate]

    def placement(self, candidate: Candidate) -> Placement:
        """The sharding of a candidate.

        >>> Grid((0, 1, 2, 3), (2, 2), ((0, 1),)).placement(((1,), ())).devices
        (0, 2, 1, 3)
        """
        parts = self.parts_of(candidate)
        if prod(parts) == 1:
            return REPLICATED
        used = list(chain.from_iterable(candidate))
        order = [*used, *(part for part in range(len(self.sizes)) if part not in used)]
        copies = len(self.devices) // prod(parts)
        return tiled(parts, copies, permuted(self.devices, self.sizes, order))


def grid_of(source: Placement, target: Placement, devices: int) -> Grid:
    """The coarsest grid of which both shardings are made, or else the grid of one of them, which may order its devices.

    >>> from hlo_cli import sharding_of
    >>> from hlo_cli.analysis.sharding.placement import placement_of
    >>> texts = "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"
    >>> grid_of(*(placement_of(sharding_of(text)) for text in texts), 8)[1:]
    ((2, 2, 2), ((0, 1), (2,)))
    """
    placements = [each for each in (source, target) if each.is_tiled]
    borders = {1, devices}
    for placement in placements:
        found = _borders(placement)
        borders = borders | found if found else set()
        if not found:
            break
    ordered = sorted(borders)
    if not borders or any(large % small for small, large in pairwise(ordered)):
        sizes = [size for size in dimensions_of(placements[0]) if size > 1]
        return _grid(placements[0].devices, sizes)
    return _grid(tuple(range(devices)), [large // small for small, large in pairwise(ordered)][::-1])


def grid_of_mesh(mesh: Mesh) -> Grid:
    """The grid of a mesh."""
    return _grid(mesh.devices(), [axis.size for axis in mesh.axes if axis.size > 1])


def candidates(grid: Grid, sizes: Sequence[int], near: Sequence[Placement] = ()) -> Iterator[Candidate]:
    """Every sharding of an array that leaves no part empty.

    First those along whole axes, then for each number of parts the ones like those `near`, then all along prime parts.

    >>> list(candidates(Grid((0, 1), (2,), ((0,),)), (8, 1)))
    [((0,), ()), ((), ())]
    """
    seen = set[Candidate]()
    singles = tuple((part,) for part in range(len(grid.sizes)))
    alike = [found for placement in near if (found := candidate_of(grid, placement, len(sizes))) is not None]
    whole = islice(_placements(grid, grid.axes, sizes), _MOST_OF_AXES)
    for found in chain(whole, _like(grid, alike, sizes), _placements(grid, singles, sizes)):
        if found not in seen:
            seen.add(found)
            yield found


def candidate_of(grid: Grid, placement: Placement, rank: int) -> Candidate | None:
    """The parts of the grid along which a sharding divides each dimension; None if it is not along them.

    >>> grid = Grid((0, 1, 2, 3), (2, 2), ((0, 1),))
    >>> candidate_of(grid, tiled((1, 4), 1, (0, 2, 1, 3)), 2)
    ((), (1, 0))
    """
    if not placement.is_tiled:
        return ((),) * rank
    place = {device: at // placement.copies for at, device in enumerate(placement.devices)}
    strides = [prod(placement.parts[at + 1 :]) for at in range(rank)]
    found: list[list[tuple[int, int]]] = [[] for _ in range(rank)]
    if place[grid.devices[0]]:
        return None
    for part in range(len(grid.sizes)):
        tile = place[grid.devices[prod(grid.sizes[part + 1 :])]]
        moved = [(at, tile // stride % placement.parts[at]) for at, stride in enumerate(strides)]
        for at, weight in moved:
            if weight:
                found[at].append((-weight, part))
    made = tuple(tuple(part for _, part in sorted(each)) for each in found)
    used = list(chain.from_iterable(made))
    return made if len(set(used)) == len(used) and grid.placement(made) == placement else None


def _like(grid: Grid, alike: Sequence[Candidate], sizes: Sequence[int]) -> Iterator[Candidate]:
    """For each number of parts of each dimension, the shardings that keep most of the given ones."""
    rank = len(sizes)
    primes = sorted(set(grid.sizes))
    counts = [grid.sizes.count(prime) for prime in primes]
    for split in product(*(_compositions(count, rank + 1) for count in counts)):
        wanted = [dict(zip(primes, column, strict=True)) for column in zip(*split, strict=True)]
        parts = [prod(prime**count for prime, count in each.items()) for each in wanted[:rank]]
        if all(count <= size for count, size in zip(parts, sizes, strict=True)):
            for given in alike:
                yield _filled(grid, given, wanted, is_reversed=False)
                yield _filled(grid, given, wanted, is_reversed=True)


def _filled(grid: Grid, given: Candidate, wanted: Sequence[dict[int, int]], *, is_reversed: bool) -> Candidate:
    """The sharding with these primes on each dimension: parts that are there already stay, others follow."""
    kept: list[list[int]] = []
    missing = [dict(each) for each in wanted]
    for at, parts in enumerate(given):
        kept.append([])
        for part in parts:
            if missing[at][grid.sizes[part]]:
                missing[at][grid.sizes[part]] -= 1
                kept[at].append(part)
    placed = set(chain.from_iterable(kept))
    used = list(chain.from_iterable(given))
    rest = [part for part in (*(p for p in range(len(grid.sizes)) if p not in used), *used) if part not in placed]
    for at in range(len(kept)):
        for part in list(reversed(rest) if is_reversed else rest):
            if missing[at][grid.sizes[part]]:
                missing[at][grid.sizes[part]] -= 1
                kept[at].append(part)
                rest.remove(part)
    return tuple(map(tuple, kept))


@lru_cache(maxsize=64)
def _compositions(count: int, places: int) -> tuple[tuple[int, ...], ...]:
    """The ways to put a number of equal things on places."""
    if places == 1:
        return ((count,),)
    return tuple((first, *rest) for first in range(count + 1) for rest in _compositions(count - first, places - 1))


def _placements(grid: Grid, axes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> Iterator[Candidate]:
    rank = len(sizes)
    lengths = [prod(grid.sizes[part] for part in axis) for axis in axes]
    for homes in product(range(rank + 1), repeat=len(axes)):
        used = [1] * (rank + 1)
        for length, home in zip(lengths, homes, strict=True):
            used[home] *= length
        if any(count > size for count, size in zip(used, sizes, strict=False)):
            continue
        on = [[axis for axis, home in zip(axes, homes, strict=True) if home == at] for at in range(rank)]
        for orders in product(*map(permutations, on)):
            yield tuple(tuple(chain.from_iterable(order)) for order in orders)


def _grid(devices: tuple[int, ...], lengths: Sequence[int]) -> Grid:
    sizes, axes = list[int](), list[tuple[int, ...]]()
    for length in lengths:
        primes = prime_factors(length)
        axes.append(tuple(range(len(sizes), len(sizes) + len(primes))))
        sizes += primes
    return Grid(devices, tuple(sizes), tuple(axes))


def _borders(placement: Placement) -> set[int]:
    """The strides at which axes begin and end in the order of devices; empty if the devices are no iota."""
    iota = iota_of(placement.devices)
    if iota is None:
        return set()
    dims = iota.reshape_dims
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    found = {*strides, *(stride * size for stride, size in zip(strides, dims, strict=True))}
    ends, below = list[int](), len(placement.devices)
    for size in dimensions_of(placement):
        below //= size
        ends.append(below)
    inner = len(placement.devices)
    for axis in iota.transpose_perm:
        outer, inner = inner, inner // dims[axis]
        found |= {strides[axis] * (end // inner) for end in ends if inner < end < outer and not end % inner}
    return found
