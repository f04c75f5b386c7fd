"""Copy from one layout to another: corresponding elements, and how many move in contiguous runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo_cli.analysis.layout.address_map import AddressLookup
from hlo_cli.analysis.layout.index_functions import IntArray
from hlo_cli.analysis.layout.inverse_map import inverse_blocks
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import ravel, unravel
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class IndexCorrespondence:
    """Mapping from elements of one array to elements of another.

    With `order`, dimension k of the second is dimension order[k] of the first; without, both count in row-major order.
    """

    order: tuple[int, ...] | None = None

    def index(self, index: tuple[IntArray, ...], before: ArrayShape, after: ArrayShape) -> tuple[IntArray, ...]:
        """Index in the second array for an index in the first."""
        if self.order is not None:
            return tuple(index[d] for d in self.order)
        if before.sizes == after.sizes:
            return index
        return unravel(np.asarray(ravel(index, before.sizes)), after.sizes)

    def index_of(self, index: tuple[int, ...], before: ArrayShape, after: ArrayShape) -> tuple[int, ...]:
        """Index in the second array for one element."""
        return tuple(int(np.asarray(at)) for at in self.index(tuple(map(np.asarray, index)), before, after))


@dataclass(frozen=True, slots=True)
class LayoutMoves:
    """Number of elements whose bit offset changes, and of runs that stay contiguous.

    A run is a sequence of elements that are contiguous in both memories; `longest_run` counts elements.
    """

    elements: int
    moved: int
    runs: int
    longest_run: int


def correspondence(before: ArrayShape, after: ArrayShape, order: Sequence[int] | None = None) -> IndexCorrespondence:
    """Correspondence of two arrays: by index, by row-major number, or by the `order` of a transpose.

    HloError if their numbers of elements differ, or `order` does not map one shape to the other.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> correspondence(parse_shape("f32[2,3]"), parse_shape("f32[3,2]"), (1, 0)).order
    (1, 0)
    """
    if before.elements != after.elements:
        counts = f"{before.elements:,} and {after.elements:,}"
        raise HloError(f"{before} and {after} have different element counts ({counts})")
    if order is not None:
        fits = sorted(order) == list(range(before.rank)) and tuple(before.sizes[d] for d in order) == after.sizes
        if not fits:
            raise HloError(f"permutation {tuple(order)} does not map {before} to {after}")
        return IndexCorrespondence(tuple(order))
    return IndexCorrespondence()


def layout_moves(before: ArrayShape, after: ArrayShape, mapping: IndexCorrespondence) -> LayoutMoves:
    """Statistics of copying every element from its position in one array to that in the other.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> layout_moves(parse_shape("f32[2,3]{1,0}"), parse_shape("f32[2,3]{0,1}"), IndexCorrespondence())
    LayoutMoves(elements=6, moved=4, runs=6, longest_run=1)
    """
    lookup = AddressLookup(after, before.elements)
    moved = runs = longest = length = 0
    last_from = last_to = -2
    for places, index in inverse_blocks(before):
        new = np.broadcast_to(lookup.at(mapping.index(index, before, after)), places.shape)
        old = places
        moved += int(np.count_nonzero(old * before.element_bits != new * after.element_bits))
        steady = (np.diff(old, prepend=last_from) == 1) & (np.diff(new, prepend=last_to) == 1)
        starts = np.flatnonzero(~steady)
        lengths = np.diff(starts, append=len(old))
        longest = max(longest, length + int(starts[0] if len(starts) else len(old)), int(lengths[:-1].max(initial=0)))
        length = int(lengths[-1]) if len(starts) else length + len(old)
        runs += len(starts)
        last_from, last_to = int(old[-1]), int(new[-1])
    return LayoutMoves(before.elements, moved, runs, max(longest, length))
