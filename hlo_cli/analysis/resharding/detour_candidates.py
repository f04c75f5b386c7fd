"""Shardings along the prime parts of the axes that two shardings have in common.

With p prime parts and rank r there are (r + 1)^p placements, times the orders of the parts within a dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, permutations, product
from math import prod
from typing import NamedTuple

from hlo_cli.analysis.resharding.tile_arrays import REPLICATED, dimensions_of, tiled
from hlo_cli.analysis.sharding.normal_text import iota_of
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.ir.attributes.mesh import permuted

Candidate = tuple[tuple[int, ...], ...]
"""The prime parts along which each dimension is divided, major first; the other parts hold copies."""


class Grid(NamedTuple):
    """Devices in row-major order, the sizes of the prime parts of their axes, and the axes as runs of parts."""

    devices: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

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


def candidates(grid: Grid, sizes: Sequence[int]) -> Iterator[Candidate]:
    """Every sharding of an array that leaves no part empty: first along whole axes, then along their prime parts.

    >>> list(candidates(Grid((0, 1), (2,), ((0,),)), (8, 1)))
    [((0,), ()), ((), ())]
    """
    seen = set[Candidate]()
    singles = tuple((part,) for part in range(len(grid.sizes)))
    for axes in (grid.axes, singles):
        for found in _placements(grid, axes, sizes):
            if found not in seen:
                seen.add(found)
                yield found


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
        primes = prime_parts(length)
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


def prime_parts(number: int) -> list[int]:
    """The prime factors of a number, ascending.

    >>> prime_parts(12)
    [2, 2, 3]
    """
    found, prime = list[int](), 2
    while prime * prime <= number:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return [*found, number] if number > 1 else found
