"""Where buffers go in one block of memory, largest first, each into the smallest gap that is free while it lives.

Mirrors `GlobalDecreasingSizeBestFitHeap` of xla/service/heap_simulator/heap_simulator.cc, its two orders of placement
and the choice of the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


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
    occupied = _Occupied(max((end for group in groups for _, end in group.intervals), default=0) + 1)
    size = 0
    for number in sorted(range(len(groups)), key=lambda n: order(groups[n])):
        group = groups[number]
        chunks = {other for interval in group.intervals for other in occupied.during(*interval)}
        used = sorted((offsets[other], offsets[other] + groups[other].largest) for other in chunks)
        offset = offsets[number] = _smallest_gap(used, group.largest, alignment)
        size = max(size, offset + group.largest)
        for interval in group.intervals:
            occupied.add(number, *interval)
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


def _smallest_gap(used: Sequence[tuple[int, int]], size: int, alignment: int) -> int:
    """The offset of the smallest gap between chunks that holds this size; behind all of them if none does."""
    best: tuple[int, int] | None = None
    free = 0
    for offset, end in used:
        if offset - free >= size and (best is None or offset - free < best[0]):
            best = (offset - free, free)
        if end > free:
            free = -(-end // alignment) * alignment
    return free if best is None else best[1]


class _Occupied:
    """Numbers with intervals of time; says which of them meet another interval.

    An interval meets [start, end] if it holds `start`, which a tree over time finds, or begins within, which a table
    of beginnings does.
    """

    __slots__ = ("_begins", "_nodes", "_number", "_width")

    def __init__(self, length: int) -> None:
        self._width = 1 << (length - 1).bit_length()
        self._nodes: dict[int, list[int]] = {}
        self._begins = bytearray(length)
        self._number: dict[int, int] = {}

    def add(self, number: int, start: int, end: int) -> None:
        """Enters an interval, both ends included."""
        self._begins[start] = 1
        self._number[start] = number
        low, high = start + self._width, end + self._width + 1
        while low < high:
            if low & 1:
                self._nodes.setdefault(low, []).append(number)
                low += 1
            if high & 1:
                high -= 1
                self._nodes.setdefault(high, []).append(number)
            low >>= 1
            high >>= 1

    def during(self, start: int, end: int) -> list[int]:
        """The numbers with an interval that meets this one, both ends included; a number may come twice."""
        found: list[int] = []
        node = start + self._width
        while node:
            if node in self._nodes:
                found.extend(self._nodes[node])
            node >>= 1
        at = self._begins.find(1, start + 1, end + 1)
        while at >= 0:
            found.append(self._number[at])
            at = self._begins.find(1, at + 1, end + 1)
        return found
