"""Where buffers go in one block of memory, largest first, each into the smallest gap that is free while it lives.

Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, its two orders of placement
and the choice of the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.placing.heap_layout_runs import PART_BITS, PlacedRuns
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.analysis.placing.heap_layout import Placed

_UNLIMITED: Final = 2**63 - 1
_FEW: Final = 1000
_MANY: Final = 15_000
"""How many others a buffer may be compared with at once, until it is worth while to keep runs; found by trying."""
_FULLEST: Final = 32
"""At how many times `PlacedRuns` keeps all that is taken."""


@dataclass(frozen=True, slots=True)
class HeapGroup:
    """Buffers that lie at the same place one after the other: the times of each, both included, the leader's first.

    No two buffers of a heap begin at the same time.
    """

    size: int
    largest: int
    intervals: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Heap:
    """The offset of every group, how much memory all of them take, and how much the most that live together hold."""

    offsets: tuple[int, ...]
    size: int
    held: int

    @property
    def fragmentation(self) -> int:
        """What nothing holds even when most is held."""
        return self.size - self.held


def is_addressable(groups: Sequence[HeapGroup], alignment: int) -> bool:
    """Whether every offset is less than 2^63, wherever the groups are placed.

    >>> is_addressable((HeapGroup(8, 8, ((0, 3),)),), 4), is_addressable((HeapGroup(2**63, 2**63, ((0, 3),)),), 4)
    (True, False)
    """
    return sum(group.largest + alignment for group in groups) <= _UNLIMITED


def place(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups in the order of their leaders' ids: the better of two orders, the first if they tie.

    All of them must be addressable.

    >>> place((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 4)
    Heap(offsets=(0, 8, 0), size=12, held=12)
    """
    heap = Heap((), _UNLIMITED, most_held(groups))
    for order in (by_size, _temporal):
        if heap.size > heap.held:
            heap = _placed(groups, alignment, order, heap)
    return heap


def place_largest(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups by the first order alone: the largest first.

    >>> place_largest((HeapGroup(4, 4, ((1, 2),)), HeapGroup(8, 8, ((0, 3),))), 4)
    Heap(offsets=(8, 0), size=12, held=12)
    """
    return _placed(groups, alignment, by_size, Heap((), _UNLIMITED, most_held(groups)))


def place_longest(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups by the second order alone: those first that live longest.

    >>> place_longest((HeapGroup(4, 4, ((0, 3),)), HeapGroup(8, 8, ((1, 2),))), 4)
    Heap(offsets=(0, 4), size=12, held=12)
    """
    return _placed(groups, alignment, _temporal, Heap((), _UNLIMITED, most_held(groups)))


def by_size(group: HeapGroup) -> tuple[int, int]:
    """The key of the first order: the largest first, then the longest.

    >>> by_size(HeapGroup(8, 8, ((0, 3),)))
    (-8, -3)
    """
    start, end = group.intervals[0]
    return -group.size, start - end


def _temporal(group: HeapGroup) -> tuple[int, int]:
    start, end = min(s for s, _ in group.intervals), max(e for _, e in group.intervals)
    return start - end, -group.size


def _placed(
    groups: Sequence[HeapGroup], alignment: int, order: Callable[[HeapGroup], tuple[int, int]], other: Heap
) -> Heap:
    """The groups placed in an order; the other heap as soon as this one is not smaller."""
    offsets = [0] * len(groups)
    placed = _nothing_placed(groups, alignment)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        times, largest = joined(groups[number].intervals), groups[number].largest
        offset = offsets[number] = placed.smallest_gap(times, largest)
        placed.add(times, offset, offset + largest)
        size = max(size, offset + largest)
        if size >= other.size:
            return other
    return Heap(tuple(offsets), size, other.held)


def _nothing_placed(groups: Sequence[HeapGroup], alignment: int) -> Placed | PlacedRuns:
    """An empty heap of the kind that is filled faster: by numpy if buffers are many but few of them live together."""
    times = max((end for group in groups for _, end in group.intervals), default=0) + 1
    change = [0] * ((times >> PART_BITS) + 2)
    for group in groups:
        for first, last in group.intervals:
            change[first >> PART_BITS] += 1
            change[(last >> PART_BITS) + 1] -= 1
    compared = sum(count * count for count in accumulate(change))
    if len(groups) > _FEW and compared < _MANY * len(groups):
        from hlo_cli.analysis.placing.heap_layout import Placed  # loads numpy, which small modules do without

        return Placed(alignment)
    smallest = min((group.largest for group in groups), default=1)
    return PlacedRuns(alignment, times, smallest, _fullest(groups) if len(groups) > _FEW else ())


def joined(intervals: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The same times in as few intervals as possible, by their starts.

    >>> joined(((4, 6), (0, 1), (2, 3), (8, 9)))
    [(0, 6), (8, 9)]
    """
    if len(intervals) == 1:
        return intervals
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def most_held(groups: Sequence[HeapGroup]) -> int:
    """The most bytes of groups that live at one time."""
    return max((held for _, held in _held(groups)), default=0)


def _fullest(groups: Sequence[HeapGroup]) -> list[int]:
    """Of as many stretches of time, with as many buffers that begin or end in each, the times when most is held."""
    held = _held(groups)
    stretch = -(-len(held) // _FULLEST) or 1
    return [max(held[first : first + stretch], key=lambda at: at[1])[0] for first in range(0, len(held), stretch)]


def _held(groups: Sequence[HeapGroup]) -> list[tuple[int, int]]:
    """The times when something begins or has ended, each with the bytes that are held from then on."""
    change: dict[int, int] = {}
    for group in groups:
        for start, end in joined(group.intervals):
            change[start] = change.get(start, 0) + group.largest
            change[end + 1] = change.get(end + 1, 0) - group.largest
    times = sorted(change)
    return list(zip(times, accumulate(change[time] for time in times), strict=True))
