"""When allocations that may be shared are free, so that those that can take a buffer are found without asking each."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import field
from heapq import merge
from typing import Final

from hlo_cli.dataclass import dataclass

_ALWAYS: Final = 1 << 62


@dataclass(slots=True)
class _Newest:
    """Numbers, asked for the last ones that are large enough: a tree with the largest of each half."""

    count: int = 0
    width: int = 1
    largest: list[int] = field(default_factory=lambda: [-_ALWAYS] * 2)

    def append(self, number: int) -> None:
        if self.count == self.width:
            leaves = self.largest[self.width :] + [-_ALWAYS] * self.width
            self.width *= 2
            self.largest = [-_ALWAYS] * self.width + leaves
            for node in range(self.width - 1, 0, -1):
                self.largest[node] = max(self.largest[2 * node], self.largest[2 * node + 1])
        self.count += 1
        self.put(self.count - 1, number)

    def put(self, at: int, number: int) -> None:
        largest, node = self.largest, self.width + at
        largest[node] = number
        while node > 1:
            node //= 2
            largest[node] = max(largest[2 * node], largest[2 * node + 1])

    def at_least(self, bound: int) -> Iterator[int]:
        """Where the numbers are that are no smaller, the last first."""
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
class _Between:
    """Gaps around one moment: first, last and allocation by the first; and last, negative, first and allocation."""

    by_first: list[tuple[int, int, int]] = field(default_factory=list)
    by_last: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, first: int, last: int, allocation: int) -> None:
        insort(self.by_first, (first, last, allocation))
        insort(self.by_last, (-last, first, allocation))

    def remove(self, first: int, last: int, allocation: int) -> None:
        del self.by_first[bisect_left(self.by_first, (first, last, allocation))]
        del self.by_last[bisect_left(self.by_last, (-last, first, allocation))]

    def around(self, start: int, end: int, *, is_before: bool) -> list[int]:
        """The allocations with such a gap, for a start before the moment, or behind it."""
        if is_before:
            early = self.by_first[: bisect_left(self.by_first, (start + 1,))]
            return [allocation for _, last, allocation in early if last >= end]
        return [allocation for _, _, allocation in self.by_last[: bisect_left(self.by_last, (1 - end,))]]


class Gaps:
    """The times in which allocations hold nothing: before their first value, behind their last, and in between.

    Those in between are kept by the roundest moment in them, in binary: what holds at a moment lies at one of the few
    that are rounder.

    >>> gaps = Gaps()
    >>> first, second = gaps.open(), gaps.open()
    >>> gaps.cut(first, None, None, 3, 5)
    >>> list(gaps.around(4, 6)), list(gaps.around(5, 6))
    ([1], [1, 0])
    """

    __slots__ = ("_before", "_behind", "_between", "_levels")

    def __init__(self) -> None:
        self._before = _Newest()
        self._behind = _Newest()
        self._between: dict[int, _Between] = {}
        self._levels = 0

    def open(self) -> int:
        """The number of a new allocation, which holds nothing yet."""
        self._before.append(_ALWAYS)
        self._behind.append(-_ALWAYS)
        return self._before.count - 1

    def cut(self, allocation: int, before: int | None, behind: int | None, start: int, end: int) -> None:
        """Takes a value's life out of a gap, which began where a value ended, and ended where the next one starts."""
        if before is not None and behind is not None and before <= behind:
            self._between[_roundest(before, behind)].remove(before, behind, allocation)
        if before is None:
            self._before.put(allocation, start)
        else:
            self._keep(before, start, allocation)
        if behind is None:
            self._behind.put(allocation, -end)
        else:
            self._keep(end, behind, allocation)

    def around(self, start: int, end: int) -> Iterator[int]:
        """The allocations with a gap in which a value may live, touching others at most; the newest first.

        One may come twice, if it has two such gaps.
        """
        found: list[int] = []
        count = start + 1
        for level in range((count & -count).bit_length() - 1, self._levels):
            moment = (count >> level | 1) << level
            if moment in self._between:
                found += self._between[moment].around(start, end, is_before=count <= moment)
        found.sort(reverse=True)
        return merge(found, self._before.at_least(end), self._behind.at_least(-start), reverse=True)

    def _keep(self, first: int, last: int, allocation: int) -> None:
        if first <= last:
            roundest = _roundest(first, last)
            self._levels = max(self._levels, roundest.bit_length())
            self._between.setdefault(roundest, _Between()).add(first, last, allocation)


def _roundest(first: int, last: int) -> int:
    """Of the moments in a gap, counted from one, that which can be halved most often."""
    level = (first ^ (last + 1)).bit_length() - 1
    return (last + 1) >> level << level
