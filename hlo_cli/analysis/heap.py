"""Where buffers go in one block of memory, largest first, each into the smallest gap that is free while it lives.

Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, its two orders of placement
and the choice of the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


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
    placed = _Placed(sum(len(group.intervals) for group in groups), alignment)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        group = groups[number]
        offset = offsets[number] = placed.smallest_gap(group)
        placed.add(group, offset)
        size = max(size, offset + group.largest)
    return Heap(tuple(offsets), size, _most_held(groups))


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
    """What has been placed: a row for each interval of time, sorted by offset."""

    __slots__ = ("_alignment", "_count", "_rows")

    def __init__(self, capacity: int, alignment: int) -> None:
        self._alignment = alignment
        self._rows = np.zeros((4, capacity), dtype=np.int64)
        self._count = 0

    def add(self, group: HeapGroup, offset: int) -> None:
        """Enters a group at its offset."""
        rows, count, more = self._rows, self._count, len(group.intervals)
        at = int(np.searchsorted(rows[0, :count], offset))
        rows[:, at + more : count + more] = rows[:, at:count].copy()
        rows[0, at : at + more] = offset
        rows[1, at : at + more] = -(-(offset + group.largest) // self._alignment) * self._alignment
        rows[2:, at : at + more] = np.array(group.intervals, dtype=np.int64).T
        self._count += more

    def smallest_gap(self, group: HeapGroup) -> int:
        """The offset of the smallest gap that is free in all intervals of a group; behind everything if none is."""
        offset, free, start, end = self._rows[:, : self._count]
        met = np.zeros(self._count, dtype=bool)
        for first, last in group.intervals:
            met |= (start <= last) & (end >= first)
        where = np.flatnonzero(met)
        if not where.size:
            return 0
        behind = np.concatenate(([0], np.maximum.accumulate(free[where])))
        gaps = offset[where] - behind[:-1]
        fitting = np.flatnonzero(gaps >= group.largest)
        return int(behind[fitting[np.argmin(gaps[fitting])]]) if fitting.size else int(behind[-1])
