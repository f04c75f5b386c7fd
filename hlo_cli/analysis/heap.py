"""Where buffers go in one block of memory, largest first, each into the smallest gap that is free while it lives.

Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, its two orders of placement
and the choice of the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.signedinteger]

_PART_BITS: Final = 12
_NO_GAP: Final = 2**63 - 1
_NOTHING: Final = np.zeros(0, dtype=np.int64)


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


def place(groups: Sequence[HeapGroup], alignment: int) -> Heap:
    """Offsets for groups in the order of their leaders' ids: the better of two orders, the first if they tie.

    >>> place((HeapGroup(8, 8, ((0, 3),)), HeapGroup(4, 4, ((1, 2),)), HeapGroup(4, 4, ((5, 6),))), 4)
    Heap(offsets=(0, 8, 0), size=12, held=12)
    """
    held = most_held(groups)
    by_size = _placed(groups, alignment, _spatial, held)
    if by_size.size == held:
        return by_size  # as good as any
    by_life = _placed(groups, alignment, _temporal, held)
    return by_life if by_life.size < by_size.size else by_size


def _spatial(group: HeapGroup) -> tuple[int, int]:
    start, end = group.intervals[0]
    return -group.size, start - end


def _temporal(group: HeapGroup) -> tuple[int, int]:
    start, end = min(s for s, _ in group.intervals), max(e for _, e in group.intervals)
    return start - end, -group.size


def _placed(
    groups: Sequence[HeapGroup], alignment: int, order: Callable[[HeapGroup], tuple[int, int]], held: int
) -> Heap:
    offsets = [0] * len(groups)
    placed = _Placed(alignment)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        times, largest = _joined(groups[number].intervals), groups[number].largest
        offset = offsets[number] = placed.smallest_gap(times, largest)
        placed.add(times, offset, offset + largest)
        size = max(size, offset + largest)
    return Heap(tuple(offsets), size, held)


def _joined(intervals: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The same times in as few intervals as possible."""
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
    change: dict[int, int] = {}
    for group in groups:
        for start, end in _joined(group.intervals):
            change[start] = change.get(start, 0) + group.largest
            change[end + 1] = change.get(end + 1, 0) - group.largest
    most = held = 0
    for time in sorted(change):
        held += change[time]
        most = max(most, held)
    return most


class _Placed:
    """What has been placed, by the parts of the clock that it touches."""

    __slots__ = ("_alignment", "_parts")

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._parts: dict[int, _Rows] = {}

    def add(self, times: Sequence[tuple[int, int]], offset: int, end: int) -> None:
        """Enters a chunk of memory that is taken at these times."""
        free = -(-end // self._alignment) * self._alignment
        for first, last in times:
            for part in range(first >> _PART_BITS, (last >> _PART_BITS) + 1):
                if part not in self._parts:
                    self._parts[part] = _Rows()
                self._parts[part].add(first, last, offset, free)

    def smallest_gap(self, times: Sequence[tuple[int, int]], size: int) -> int:
        """The offset of the smallest gap of this size that is free at all times; behind everything if none is."""
        offset, free = self._met(times)
        if not offset.size:
            return 0
        behind = np.maximum.accumulate(free)
        offset[1:] -= behind[:-1]
        offset[offset < size] = _NO_GAP
        smallest = int(offset.argmin())
        if offset[smallest] == _NO_GAP:
            return int(behind[-1])
        return int(behind[smallest - 1]) if smallest else 0

    def _met(self, times: Sequence[tuple[int, int]]) -> tuple[IntArray, IntArray]:
        """Offsets and ends of what is taken at any of these times, by offset."""
        parts = range(times[0][0] >> _PART_BITS, (times[-1][1] >> _PART_BITS) + 1)
        found = [self._parts[part].met(times) for part in parts if part in self._parts]
        if len(found) == 1:
            return found[0]
        if not found:
            return _NOTHING, _NOTHING
        offset, free = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = offset.argsort()
        return offset[order], free[order]


class _Rows:
    """Chunks by offset: when each begins and ends to be taken, its offset, and where memory is free again behind it."""

    __slots__ = ("_columns", "_count")

    def __init__(self) -> None:
        times, chunks = np.zeros((2, 16), dtype=np.int32), np.zeros((2, 16), dtype=np.int64)
        self._columns: list[IntArray] = [*times, *chunks]
        self._count = 0

    def add(self, first: int, last: int, offset: int, free: int) -> None:
        """Enters a row where its offset belongs."""
        count = self._count
        if count == len(self._columns[0]):
            self._columns = [np.concatenate((column, column)) for column in self._columns]
        at = int(self._columns[2][:count].searchsorted(offset))
        for column, value in zip(self._columns, (first, last, offset, free), strict=True):
            column[at + 1 : count + 1] = column[at:count]
            column[at] = value
        self._count += 1

    def met(self, times: Sequence[tuple[int, int]]) -> tuple[IntArray, IntArray]:
        """Offsets and ends of the rows that are taken at any of these times."""
        start, end, offset, free = (column[: self._count] for column in self._columns)
        met = np.zeros(self._count, dtype=bool)
        for first, last in times:
            met |= (start <= last) & (end >= first)
        where = met.nonzero()[0]
        return offset[where], free[where]
