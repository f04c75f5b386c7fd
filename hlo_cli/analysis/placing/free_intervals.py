"""Free intervals of reusable allocations, indexed to find the allocations that are free during a live range."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import field
from heapq import merge
from typing import Final

from hlo_cli.dataclass import dataclass

_ALWAYS: Final = 1 << 62
"""A position after every schedule."""


@dataclass(slots=True)
class _MaxTree:
    """A segment tree of maxima: finds the largest indices whose numbers are at least a bound."""

    count: int = 0
    width: int = 1
    largest: list[int] = field(default_factory=lambda: [-_ALWAYS] * 2)

    def append(self, number: int) -> None:
        """Appends a number."""
        if self.count == self.width:
            leaves = self.largest[self.width :] + [-_ALWAYS] * self.width
            self.width *= 2
            self.largest = [-_ALWAYS] * self.width + leaves
            for node in range(self.width - 1, 0, -1):
                self.largest[node] = max(self.largest[2 * node], self.largest[2 * node + 1])
        self.count += 1
        self.put(self.count - 1, number)

    def put(self, at: int, number: int) -> None:
        """Replaces the number at an index."""
        largest, node = self.largest, self.width + at
        largest[node] = number
        while node > 1:
            node //= 2
            largest[node] = max(largest[2 * node], largest[2 * node + 1])

    def at_least(self, bound: int) -> Iterator[int]:
        """Yields the indices of all numbers of at least `bound`, in descending order."""
        waiting = [1]
        while waiting:
            node = waiting.pop()
            if self.largest[node] < bound:
                continue
            if node >= self.width:
                yield node - self.width
            else:
                waiting += (2 * node, 2 * node + 1)


@dataclass(slots=True)
class _IntervalsAtPosition:
    """Free intervals that contain one position, as (first, last, allocation) and as (-last, first, allocation)."""

    by_first: list[tuple[int, int, int]] = field(default_factory=list)
    by_last: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, first: int, last: int, allocation: int) -> None:
        """Adds a free interval."""
        insort(self.by_first, (first, last, allocation))
        insort(self.by_last, (-last, first, allocation))

    def remove(self, first: int, last: int, allocation: int) -> None:
        """Removes a free interval."""
        del self.by_first[bisect_left(self.by_first, (first, last, allocation))]
        del self.by_last[bisect_left(self.by_last, (-last, first, allocation))]

    def around(self, start: int, end: int, *, is_before: bool) -> list[int]:
        """Returns the allocations free from `start` to `end`; `is_before` if `start` is not after the position."""
        if is_before:
            early = self.by_first[: bisect_left(self.by_first, (start + 1,))]
            return [allocation for _, last, allocation in early if last >= end]
        return [allocation for _, _, allocation in self.by_last[: bisect_left(self.by_last, (1 - end,))]]


class FreeIntervals:
    """The free intervals of allocations: before the first live range, after the last, and between live ranges.

    An interval between live ranges is stored at the position in it that is divisible by the highest power of two, as
    in an interval tree. All intervals that contain a given position are stored at logarithmically many positions.

    >>> free_intervals = FreeIntervals()
    >>> first, second = free_intervals.open(), free_intervals.open()
    >>> free_intervals.cut(first, None, None, 3, 5)
    >>> list(free_intervals.around(4, 6)), list(free_intervals.around(5, 6))
    ([1], [1, 0])
    """

    __slots__ = ("_after", "_before", "_between", "_levels")

    def __init__(self) -> None:
        self._before = _MaxTree()
        self._after = _MaxTree()
        self._between: dict[int, _IntervalsAtPosition] = {}
        self._levels = 0

    def open(self) -> int:
        """Adds an allocation without live ranges and returns its index."""
        self._before.append(_ALWAYS)
        self._after.append(-_ALWAYS)
        return self._before.count - 1

    def cut(self, allocation: int, before: int | None, after: int | None, start: int, end: int) -> None:
        """Removes a live range from the free interval from `before` to `after`; None if unbounded."""
        if before is not None and after is not None and before <= after:
            self._between[_dyadic_center(before, after)].remove(before, after, allocation)
        if before is None:
            self._before.put(allocation, start)
        else:
            self._store(before, start, allocation)
        if after is None:
            self._after.put(allocation, -end)
        else:
            self._store(end, after, allocation)

    def around(self, start: int, end: int) -> Iterator[int]:
        """Yields the allocations that are free from `start` to `end`, except for touching ends; newest first.

        An allocation with two such intervals is yielded twice.
        """
        found: list[int] = []
        count = start + 1
        for level in range((count & -count).bit_length() - 1, self._levels):
            moment = (count >> level | 1) << level
            if moment in self._between:
                found += self._between[moment].around(start, end, is_before=count <= moment)
        found.sort(reverse=True)
        return merge(found, self._before.at_least(end), self._after.at_least(-start), reverse=True)

    def _store(self, first: int, last: int, allocation: int) -> None:
        """Stores a free interval, if it is not empty."""
        if first <= last:
            center = _dyadic_center(first, last)
            self._levels = max(self._levels, center.bit_length())
            self._between.setdefault(center, _IntervalsAtPosition()).add(first, last, allocation)


def _dyadic_center(first: int, last: int) -> int:
    """Returns the position in an interval, counted from one, that is divisible by the highest power of two."""
    level = (first ^ (last + 1)).bit_length() - 1
    return (last + 1) >> level << level
