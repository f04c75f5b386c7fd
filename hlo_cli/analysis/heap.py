"""Where buffers go in one block of memory, largest first, each into the smallest gap that is free while it lives.

Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, its two orders of placement
and the choice of the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

_PART_BITS: Final = 10
_SHORT: Final = 4
_NO_GAP: Final = 2**63 - 1


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
    by_size = _placed(groups, alignment, _spatial)
    by_life = _placed(groups, alignment, _temporal)
    return by_life if by_life.size < by_size.size else by_size


def _spatial(group: HeapGroup) -> tuple[int, int]:
    start, end = group.intervals[0]
    return -group.size, start - end


def _temporal(group: HeapGroup) -> tuple[int, int]:
    start, end = min(s for s, _ in group.intervals), max(e for _, e in group.intervals)
    return start - end, -group.size


def _placed(groups: Sequence[HeapGroup], alignment: int, order: Callable[[HeapGroup], tuple[int, int]]) -> Heap:
    offsets = [0] * len(groups)
    placed = _Placed(alignment)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        times, largest = _joined(groups[number].intervals), groups[number].largest
        offset = offsets[number] = placed.smallest_gap(times, largest)
        placed.add(times, offset, offset + largest)
        size = max(size, offset + largest)
    return Heap(tuple(offsets), size, _most_held(groups))


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


def _most_held(groups: Sequence[HeapGroup]) -> int:
    """The most bytes of groups that live at one time."""
    change: dict[int, int] = {}
    for group in groups:
        for start, end in group.intervals:
            change[start] = change.get(start, 0) + group.largest
            change[end + 1] = change.get(end + 1, 0) - group.largest
    most = held = 0
    for time in sorted(change):
        held += change[time]
        most = max(most, held)
    return most


class _Placed:
    """What has been placed, found again by time: short intervals by the parts of the clock that they touch."""

    __slots__ = ("_alignment", "_long", "_parts", "_short")

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._long = _Rows()
        self._short = _Rows()
        self._parts: dict[int, _Rows] = {}

    def add(self, times: Sequence[tuple[int, int]], offset: int, end: int) -> None:
        """Enters a chunk of memory that is taken at these times."""
        free = -(-end // self._alignment) * self._alignment
        for interval in times:
            if (parts := _parts_of(*interval)) is None:
                self._long.add(interval, offset, free)
                continue
            self._short.add(interval, offset, free)
            for part in parts:
                self._parts.setdefault(part, _Rows()).add(interval, offset, free)

    def smallest_gap(self, times: Sequence[tuple[int, int]], size: int) -> int:
        """The offset of the smallest gap of this size that is free at all times; behind everything if none is."""
        found = [rows for interval in times for rows in self._met(*interval) if rows.size]
        if not found:
            return 0
        rows = np.concatenate(found, axis=1) if len(found) > 1 else found[0]
        rows = rows[:, np.argsort(rows[0])]
        behind, gaps = np.maximum.accumulate(rows[1]), rows[0].copy()
        gaps[1:] -= behind[:-1]
        gaps[gaps < size] = _NO_GAP
        smallest = int(np.argmin(gaps))
        if gaps[smallest] == _NO_GAP:
            return int(behind[-1])
        return int(behind[smallest - 1]) if smallest else 0

    def _met(self, first: int, last: int) -> Iterator[IntArray]:
        yield self._long.met(first, last)
        if (parts := _parts_of(first, last)) is None:
            yield self._short.met(first, last)
            return
        for part in parts:
            if part in self._parts:
                yield self._parts[part].met(first, last)


def _parts_of(first: int, last: int) -> range | None:
    """The parts of the clock that an interval touches; None for long ones, which touch many."""
    parts = range(first >> _PART_BITS, (last >> _PART_BITS) + 1)
    return parts if len(parts) <= _SHORT else None


class _Rows:
    """Rows of times, first and last, with offset and where memory is free again behind."""

    __slots__ = ("_chunks", "_count", "_times")

    def __init__(self) -> None:
        self._times = np.zeros((2, 16), dtype=np.int32)
        self._chunks = np.zeros((2, 16), dtype=np.int64)
        self._count = 0

    def add(self, interval: tuple[int, int], offset: int, free: int) -> None:
        if self._count == self._times.shape[1]:
            self._times = np.concatenate((self._times, np.zeros_like(self._times)), axis=1)
            self._chunks = np.concatenate((self._chunks, np.zeros_like(self._chunks)), axis=1)
        self._times[:, self._count] = interval
        self._chunks[:, self._count] = offset, free
        self._count += 1

    def met(self, first: int, last: int) -> IntArray:
        """Offsets and ends of the rows whose times meet an interval."""
        start, end = self._times[:, : self._count]
        return self._chunks.take(((start <= last) & (end >= first)).nonzero()[0], axis=1)
