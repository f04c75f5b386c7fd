"""The default heap algorithm: best fit in order of size or of duration.

Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, with its spatial and
temporal orders, and `ChooseBestHeapAlgorithm`, which takes the smaller heap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.analysis.placing.heap_layout_runs import PART_BITS, PlacedRuns
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.analysis.placing.heap_layout import Placed

_Owner = TypeVar("_Owner", bound=Hashable)

_UNLIMITED: Final = 2**63 - 1
_MIN_GROUPS_FOR_NUMPY: Final = 1000
_MAX_COMPARISONS: Final = 15_000
"""Average number of comparisons per buffer above which `PlacedRuns` is faster than `Placed`; measured."""
_PEAK_TIMES: Final = 32
"""Number of times for which `PlacedRuns` stores all used memory."""


@dataclass(frozen=True, slots=True)
class HeapGroup:
    """Buffers at one offset at different times: size of the leader, largest size, and intervals, leader's first.

    Sizes are in bytes; intervals are inclusive times of the heap's clock. No two buffers of a heap start at the same
    time.
    """

    size: int
    largest: int
    intervals: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Heap:
    """The result of a heap algorithm, in bytes: the offset of each group, the heap size, and the peak of live bytes."""

    offsets: tuple[int, ...]
    size: int
    live_bytes: int

    @property
    def fragmentation(self) -> int:
        """The bytes of the heap that are unused at the peak."""
        return self.size - self.live_bytes


def is_addressable(groups: Sequence[HeapGroup], alignment: int) -> bool:
    """Returns whether every offset is below 2^63 in any placement.

    >>> is_addressable((HeapGroup(8, 8, ((0, 3),)),), 4), is_addressable((HeapGroup(2**63, 2**63, ((0, 3),)),), 4)
    (True, False)
    """
    return sum(group.largest + alignment for group in groups) <= _UNLIMITED


def place_best(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in spatial and in temporal order, and returns the smaller heap; the spatial one on ties.

    `groups` are in the order of their leaders' ranks and must be addressable.

    >>> place_best((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 4)
    Heap(offsets=(0, 8, 0), size=12, live_bytes=12)
    """
    heap = Heap((), _UNLIMITED, peak_live_bytes(groups))
    # heap_simulator.cc, ChooseBestHeapAlgorithm::Finish: only a smaller heap replaces an earlier one.
    for order in (by_size, _by_duration):
        if heap.size > heap.live_bytes:
            heap = _place_in_order(groups, alignment, order, heap)
    return heap


def place_spatial(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in spatial order: by size, descending.

    >>> place_spatial((HeapGroup(4, 4, ((1, 2),)), HeapGroup(8, 8, ((0, 3),))), 4)
    Heap(offsets=(8, 0), size=12, live_bytes=12)
    """
    return _place_in_order(groups, alignment, by_size, Heap((), _UNLIMITED, peak_live_bytes(groups)))


def place_temporal(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Places groups in temporal order: by duration, descending.

    >>> place_temporal((HeapGroup(4, 4, ((0, 3),)), HeapGroup(8, 8, ((1, 2),))), 4)
    Heap(offsets=(0, 4), size=12, live_bytes=12)
    """
    return _place_in_order(groups, alignment, _by_duration, Heap((), _UNLIMITED, peak_live_bytes(groups)))


def depends_on_ties(
    groups: Sequence[HeapGroup],
    owners: Sequence[_Owner],
    are_ordered: Callable[[_Owner, _Owner], bool],
    best: Heap | None = None,
) -> bool:
    """Returns whether offsets depend on an order of groups that is not known for certain.

    `owners[n]` is the computation of the leader of group n; the ranks of groups of two owners are certain if
    `are_ordered`. `best` is the heap of `place_best`, which tries the temporal order only if the spatial one wastes
    memory.

    >>> groups = (HeapGroup(8, 8, ((0, 3),)), HeapGroup(8, 8, ((2, 5),)), HeapGroup(8, 8, ((8, 11),)))
    >>> depends_on_ties(groups, "abc", lambda a, b: False, Heap((), 16, 16))
    True
    >>> depends_on_ties(groups, "aab", lambda a, b: False, Heap((), 16, 16))
    False
    """
    orders = (by_size,) if best is not None and best.size == best.live_bytes else (by_size, _by_duration)
    return any(_has_loose_tie(groups, owners, order, are_ordered) for order in orders)


def _has_loose_tie(
    groups: Sequence[HeapGroup],
    owners: Sequence[_Owner],
    order: Callable[[HeapGroup], tuple[int, int]],
    are_ordered: Callable[[_Owner, _Owner], bool],
) -> bool:
    """Returns whether two groups of equal keys and without a known order are live at the same time.

    Only such pairs matter: if two neighbors in the order are never live together, swapping them changes no offset.
    """
    tied: dict[tuple[int, int], list[int]] = {}
    for number, group in enumerate(groups):
        tied.setdefault(order(group), []).append(number)
    for numbers in tied.values():
        if len({owners[number] for number in numbers}) == 1:
            continue
        live: dict[_Owner, int] = {}
        for start, end, number in sorted((*interval, n) for n in numbers for interval in groups[n].intervals):
            owner = owners[number]
            live = {other: last for other, last in live.items() if last >= start}
            if not all(other == owner or are_ordered(other, owner) for other in live):
                return True
            live[owner] = max(end, live.get(owner, end))
    return False


def by_size(group: HeapGroup) -> tuple[int, int]:
    """Returns the key of the spatial order: size of the leader, then its duration, both descending.

    >>> by_size(HeapGroup(8, 8, ((0, 3),)))
    (-8, -3)
    """
    start, end = group.intervals[0]
    return -group.size, start - end


def _by_duration(group: HeapGroup) -> tuple[int, int]:
    """Returns the key of the temporal order: time from first start to last end, then size, both descending."""
    start, end = min(s for s, _ in group.intervals), max(e for _, e in group.intervals)
    return start - end, -group.size


def _place_in_order(
    groups: Sequence[HeapGroup], alignment: int, order: Callable[[HeapGroup], tuple[int, int]], other: Heap
) -> Heap:
    """Places groups in an order; returns `other` as soon as the heap is not smaller than that."""
    offsets = [0] * len(groups)
    placed = _empty_heap(groups, alignment)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        times, largest = merge_intervals(groups[number].intervals), groups[number].largest
        offset = offsets[number] = placed.smallest_gap(times, largest)
        placed.add(times, offset, offset + largest)
        size = max(size, offset + largest)
        if size >= other.size:
            return other
    return Heap(tuple(offsets), size, other.live_bytes)


def _empty_heap(groups: Sequence[HeapGroup], alignment: int) -> Placed | PlacedRuns:
    """Returns an empty heap of the faster kind: `Placed`, on numpy, if many buffers have few concurrent ones."""
    times = max((end for group in groups for _, end in group.intervals), default=0) + 1
    change = [0] * ((times >> PART_BITS) + 2)
    for group in groups:
        for first, last in group.intervals:
            change[first >> PART_BITS] += 1
            change[(last >> PART_BITS) + 1] -= 1
    compared = sum(count * count for count in accumulate(change))
    if len(groups) > _MIN_GROUPS_FOR_NUMPY and compared < _MAX_COMPARISONS * len(groups):
        from hlo_cli.analysis.placing.heap_layout import Placed  # loads numpy, which small modules do without

        return Placed(alignment)
    smallest = min((group.largest for group in groups), default=1)
    return PlacedRuns(alignment, times, smallest, _local_peaks(groups) if len(groups) > _MIN_GROUPS_FOR_NUMPY else ())


def merge_intervals(intervals: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Merges adjacent intervals and sorts them by start.

    >>> merge_intervals(((4, 6), (0, 1), (2, 3), (8, 9)))
    [(0, 6), (8, 9)]
    """
    if len(intervals) == 1:
        return intervals
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def peak_live_bytes(groups: Sequence[HeapGroup]) -> int:
    """Returns the largest number of bytes live at one time."""
    return max((live_bytes for _, live_bytes in _live_bytes(groups)), default=0)


def _local_peaks(groups: Sequence[HeapGroup]) -> list[int]:
    """Splits the clock into stretches with equally many starts and ends; returns the peak time of each."""
    live_bytes = _live_bytes(groups)
    stretch = -(-len(live_bytes) // _PEAK_TIMES) or 1
    return [
        max(live_bytes[first : first + stretch], key=lambda at: at[1])[0]
        for first in range(0, len(live_bytes), stretch)
    ]


def _live_bytes(groups: Sequence[HeapGroup]) -> list[tuple[int, int]]:
    """Returns the times at which live bytes change, each with the live bytes from then on."""
    change: dict[int, int] = {}
    for group in groups:
        for start, end in merge_intervals(group.intervals):
            change[start] = change.get(start, 0) + group.largest
            change[end + 1] = change.get(end + 1, 0) - group.largest
    times = sorted(change)
    return list(zip(times, accumulate(change[time] for time in times), strict=True))
