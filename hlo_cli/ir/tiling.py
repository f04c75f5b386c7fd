"""Layout arithmetic: a layout as a short list of steps from a logical index to a position in memory.

Each step maps an index and its bounds. The steps work for Python ints and for numpy
arrays alike: they only add, multiply, divide, and take remainders. Mirrors
`LayoutUtil::LinearIndexForNestedTiling` of xla/layout_util.h and docs/tiled_layout.md, and adds `*`,
which XLA's own routines do not support.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, Layout, split_sizes

Bounds = tuple[int, ...]
"""One size per dimension."""
Index = tuple[Any, ...]
"""One coordinate per dimension: Python ints, or numpy arrays that broadcast together."""


@dataclass(frozen=True, slots=True)
class Permute:
    """Logical dimensions into physical order, most major first.

    >>> Permute((1, 0)).forward((2, 3), (4, 5)), Permute((1, 0)).bounds((4, 5))
    ((3, 2), (5, 4))
    """

    order: tuple[int, ...]

    def bounds(self, bounds: Bounds) -> Bounds:
        return tuple(bounds[d] for d in self.order)

    def forward(self, index: Index, bounds: Bounds) -> Index:
        return tuple(index[d] for d in self.order)

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        return tuple(index[self.order.index(d)] for d in range(len(self.order)))


@dataclass(frozen=True, slots=True)
class Extend:
    """Adds leading dimensions of size 1 for a tile with more dimensions than the array.

    >>> Extend(1).forward((5,), (8,)), Extend(1).bounds((8,))
    ((0, 5), (1, 8))
    """

    count: int

    def bounds(self, bounds: Bounds) -> Bounds:
        return (1,) * self.count + bounds

    def forward(self, index: Index, bounds: Bounds) -> Index:
        return (0,) * self.count + index

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        """Positions outside the leading dimensions are padding: they map beyond the first dimension of the array."""
        kept = index[self.count :]
        return (kept[0] + sum(index[: self.count]) * max(bounds[0], 1), *kept[1:]) if kept else ()


@dataclass(frozen=True, slots=True)
class Combine:
    """Folds the dimension at `position` into the next more minor one, for `*` in a tile.

    >>> Combine(0).forward((1, 2), (3, 4)), Combine(0).bounds((3, 4))
    ((6,), (12,))
    """

    position: int

    def bounds(self, bounds: Bounds) -> Bounds:
        at = self.position
        return (*bounds[:at], bounds[at] * bounds[at + 1], *bounds[at + 2 :])

    def forward(self, index: Index, bounds: Bounds) -> Index:
        at = self.position
        return (*index[:at], index[at] * bounds[at + 1] + index[at + 1], *index[at + 2 :])

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        at, minor = self.position, max(bounds[self.position + 1], 1)
        return (*index[:at], index[at] // minor, index[at] % minor, *index[at + 1 :])


@dataclass(frozen=True, slots=True)
class Split:
    """Splits the last dimensions into tiles: the index of the tile, then the index in it.

    >>> Split((2, 2)).forward((2, 3), (3, 5)), Split((2, 2)).bounds((3, 5))
    ((1, 1, 0, 1), (2, 3, 2, 2))
    """

    sizes: tuple[int, ...]

    def bounds(self, bounds: Bounds) -> Bounds:
        kept = len(bounds) - len(self.sizes)
        return (*bounds[:kept], *(-(-d // t) for d, t in zip(bounds[kept:], self.sizes, strict=True)), *self.sizes)

    def forward(self, index: Index, bounds: Bounds) -> Index:
        kept = len(bounds) - len(self.sizes)
        pairs = tuple(zip(index[kept:], self.sizes, strict=True))
        return (*index[:kept], *(i // t for i, t in pairs), *(i % t for i, t in pairs))

    def inverse(self, index: Index, bounds: Bounds) -> Index:
        """Positions beyond the tile, which an inner tile may add, are padding: they map beyond the dimension."""
        rank, count = len(bounds), len(self.sizes)
        parts = zip(index[rank - count : rank], self.sizes, index[rank:], bounds[rank - count :], strict=True)
        return (*index[: rank - count], *(i * t + j + j // t * d for i, t, j, d in parts))


Step = Permute | Extend | Combine | Split


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a layout for an array of given sizes, with the bounds before each step and after the last.

    >>> from hlo_cli.ir.layout import Tile
    >>> tiling = tiling_of((3, 5), Layout((1, 0), (Tile((2, 2)),)))
    >>> tiling.linear_index((2, 3)), tiling.slots, tiling.element(17)
    (17, 24, (2, 3))
    """

    steps: tuple[Step, ...]
    bounds: tuple[Bounds, ...]

    @property
    def physical(self) -> Bounds:
        """The sizes of the dimensions in memory, most major first."""
        return self.bounds[-1]

    @property
    def slots(self) -> int:
        """The number of positions of the tiled array, including padding, before any tail alignment."""
        return prod(self.physical)

    def linear_index(self, index: Index) -> Any:
        """The position, counted in elements, of the element at a logical index."""
        for step, bounds in zip(self.steps, self.bounds, strict=False):
            index = step.forward(index, bounds)
        return ravel(index, self.physical)

    def element(self, linear: Any) -> Index:
        """The logical index at position `linear`; out of the array's bounds for padding."""
        index = unravel(linear, self.physical)
        for step, bounds in zip(reversed(self.steps), self.bounds[-2::-1], strict=True):
            index = step.inverse(index, bounds)
        return index

    def holds(self, linear: Any) -> Any:
        """Whether a position holds an element, not padding: the element found there must map back to it.

        >>> from hlo_cli.ir.layout import Tile
        >>> tiling = tiling_of((), Layout((), (Tile((128,)),)))
        >>> tiling.holds(0), tiling.holds(1)
        (True, False)
        """
        index = self.element(linear)
        found = self.linear_index(index) == linear
        for position, bound in zip(index, self.bounds[0], strict=True):
            found = found & (position < bound)
        return found


@lru_cache(maxsize=1024)
def tiling_of(dimensions: Bounds, layout: Layout) -> Tiling:
    """The steps by which `layout` orders an array of sizes `dimensions`.

    The layout's minor_to_major must be a permutation of the dimensions, tiles positive or `*`.

    >>> from hlo_cli.ir.layout import Tile
    >>> tiling_of((300, 70), Layout((1, 0), (Tile((8, 128)), Tile((2, 1))))).physical
    (38, 1, 4, 128, 2, 1)
    """
    steps: list[Step] = [Permute(layout.minor_to_major[::-1])]
    bounds = [tuple(dimensions)]

    def push(step: Step) -> None:
        steps.append(step)
        bounds.append(step.bounds(bounds[-1]))

    bounds.append(steps[0].bounds(bounds[0]))
    for tile in layout.tiles:
        if len(tile.dimensions) > len(bounds[-1]):
            push(Extend(len(tile.dimensions) - len(bounds[-1])))
        at = len(bounds[-1]) - len(tile.dimensions)
        for size in tile.dimensions:
            if size == COMBINE:
                push(Combine(at))
            else:
                at += 1
        push(Split(split_sizes(tile)))
    return Tiling(tuple(steps), tuple(bounds))


@lru_cache(maxsize=8192)
def slots_of(sizes: Bounds, layout: Layout) -> int:
    """Positions of an array in memory, rounded up to `L(n)`; its elements if the layout does not fit.

    >>> from hlo_cli.ir.layout import Tile
    >>> slots_of((3, 130), Layout((1, 0), (Tile((8, 128)),)))
    2048
    """
    if layout.problem(sizes):
        return prod(sizes)
    align = layout.tail_padding_alignment_in_elements
    return -(-tiling_of(largest_split(sizes, layout), layout).slots // align) * align


def largest_split(sizes: Bounds, layout: Layout) -> Bounds:
    """Sizes with every split dimension at its largest part, as in `ShapeUtil::ArraySize`."""
    largest = list(sizes)
    for split in layout.split_configs:
        logical = layout.minor_to_major[::-1][split.dimension]
        cuts = (0, *split.split_indices, sizes[logical])
        largest[logical] = max(b - a for a, b in pairwise(cuts))
    return tuple(largest)


def ravel(index: Index, bounds: Bounds) -> Any:
    """The row-major position of an index within bounds.

    >>> ravel((1, 1, 0, 1), (2, 3, 2, 2))
    17
    """
    linear: Any = 0
    for position, bound in zip(index, bounds, strict=True):
        linear = linear * bound + position
    return linear


def unravel(linear: Any, bounds: Bounds) -> Index:
    """The index at a row-major position within bounds; the inverse of `ravel`.

    >>> unravel(17, (2, 3, 2, 2))
    (1, 1, 0, 1)
    """
    index = []
    for bound in reversed(bounds):
        index.append(linear % max(bound, 1))
        linear = linear // max(bound, 1)
    return tuple(reversed(index))
