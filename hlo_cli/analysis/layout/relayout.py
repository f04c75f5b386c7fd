"""From one layout to another: which element is which, how many move, and in how long runs they stay together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo_cli.analysis.layout.address_map import AddressLookup
from hlo_cli.analysis.layout.index_functions import IntArray
from hlo_cli.analysis.layout.inverse_map import inverse_blocks
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.tiling import ravel, unravel
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class IndexCorrespondence:
    """Which element of the second array an element of the first one is.

    With `order` dimension k of the second is dimension order[k] of the first; without, both count in row-major order.
    """

    order: tuple[int, ...] | None = None

    def index(self, index: tuple[IntArray, ...], before: ArrayShape, after: ArrayShape) -> tuple[IntArray, ...]:
        """The index in the second array, for an index in the first."""
        if self.order is not None:
            return tuple(index[d] for d in self.order)
        if before.sizes == after.sizes:
            return index
        return unravel(np.asarray(ravel(index, before.sizes)), after.sizes)

    def one(self, index: tuple[int, ...], before: ArrayShape, after: ArrayShape) -> tuple[int, ...]:
        """The same for one element."""
        return tuple(int(np.asarray(at)) for at in self.index(tuple(map(np.asarray, index)), before, after))


@dataclass(frozen=True, slots=True)
class LayoutMoves:
    """How many elements change their place, and the runs that stay together: neighbours before and after.

    A run is of elements that follow each other without a gap in both memories; `longest_run` counts elements.
    """

    elements: int
    moved: int
    runs: int
    longest_run: int


def corresponding(before: ArrayShape, after: ArrayShape, order: Sequence[int] | None = None) -> IndexCorrespondence:
    """How the elements of two arrays correspond: by index, by row-major number, or by the `order` of a transpose.

    HloError if they have different numbers of elements, or the order does not lead from one to the other.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> corresponding(parse_shape("f32[2,3]"), parse_shape("f32[3,2]"), (1, 0)).order
    (1, 0)
    """
    if before.elements != after.elements:
        counts = f"{before.elements:,} and {after.elements:,} elements"
        raise HloError(f"{before} and {after} have {counts}: they cannot be the same array")
    if order is not None:
        fits = sorted(order) == list(range(before.rank)) and tuple(before.sizes[d] for d in order) == after.sizes
        if not fits:
            raise HloError(f"the order {tuple(order)} does not lead from {before} to {after}")
        return IndexCorrespondence(tuple(order))
    return IndexCorrespondence()


def moves_of(before: ArrayShape, after: ArrayShape, by: IndexCorrespondence) -> LayoutMoves:
    """What it means to move every element from its place in one array to its place in the other.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> moves_of(parse_shape("f32[2,3]{1,0}"), parse_shape("f32[2,3]{0,1}"), IndexCorrespondence())
    LayoutMoves(elements=6, moved=4, runs=6, longest_run=1)
    """
    lookup = AddressLookup(after, before.elements)
    moved = runs = longest = length = 0
    last_from = last_to = -2
    for places, index in inverse_blocks(before):
        new = np.broadcast_to(lookup.at(by.index(index, before, after)), places.shape)
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
