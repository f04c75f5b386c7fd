"""What lies in a heap by now, and the gaps between it, where very many buffers live together.

Says what `Placed` does, in time that does not grow with how many they are: keeps what is taken as runs without gaps,
for halves of the time, their halves and so on, and a heap that is full has few runs, however many buffers it holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

PART_BITS: Final = 12
"""The parts of the clock that `Placed` keeps apart have so many bits."""

_ROUNDS: Final = 40

Times = Sequence[tuple[int, int]]
"""Spans of time from a first to a last, both included, numbered from 0 on."""


class PlacedRuns:
    """What has been placed. A buffer is taken as a run up to where memory is free again behind it.

    Gaps that are smaller than `smallest` are not kept, as nothing will go there. `full` are times, rising, at which
    memory is full: of each all that is taken then is kept besides, in few runs, so that who lives then sees at once how
    far there is no gap. Elsewhere that has to be put together from the runs of many parts.

    >>> placed = PlacedRuns(4, 12)
    >>> placed.add(((0, 9),), 0, 7)
    >>> placed.smallest_gap(((5, 6),), 4), placed.smallest_gap(((10, 11),), 4)
    (8, 0)
    """

    __slots__ = ("_alignment", "_always", "_ever", "_full", "_leaves", "_slack", "_then")

    def __init__(self, alignment: int, times: int, smallest: int = 1, full: Sequence[int] = ()) -> None:
        self._alignment = alignment
        self._slack = smallest - 1
        self._leaves = 1 << max(times - 1, 1).bit_length()
        self._always: list[_Runs | None] = [None] * (2 * self._leaves)
        """What is taken during all of a part of the time, unless that holds for the part of which it is a half."""
        self._ever: list[_Runs | None] = [None] * (2 * self._leaves)
        """What is taken at any time of a part, unless it was all of a larger part."""
        self._full = full
        self._then: list[_Runs | None] = [None] * len(full)
        """What is taken at each of the full times."""

    def add(self, times: Times, offset: int, end: int) -> None:
        """Enters a chunk of memory that is taken at these times."""
        free, slack = -(-end // self._alignment) * self._alignment, self._slack
        for first, last in times:
            for then in self._full_among(first, last):
                _enter(self._then, then, offset, free, slack)
            for part in self._parts(first, last):
                _enter(self._always, part, offset, free, slack)
                node = part
                while node and _enter(self._ever, node, offset, free, slack):
                    node >>= 1

    def smallest_gap(self, times: Times, size: int) -> int:
        """The offset of the smallest gap of this size that is free at all times; behind everything if none is."""
        met = [(runs.starts, runs.ends) for runs in self._met(times)]
        free = 0
        for _ in range(_ROUNDS):  # as far as no gap is large enough, which is nearly all of a full heap
            at = free
            for starts, ends in met:
                behind = bisect_left(starts, free + size)
                if behind and ends[behind - 1] > free:
                    free = ends[behind - 1]
            if free == at:
                break
            met = [runs for runs in met if runs[1][-1] > free]
        taken: list[tuple[int, int]] = []
        for starts, ends in met:
            behind = bisect_right(ends, free)
            taken += zip(starts[behind:], ends[behind:], strict=True)
        taken.sort()
        best, found = 0, -1
        for start, end in taken:
            gap = start - free
            if gap >= size and (found < 0 or gap < best):
                best, found = gap, free
            if end > free:
                free = end
        return free if found < 0 else found

    def _met(self, times: Times) -> Iterator[_Runs]:
        """The runs of what is taken at any of these times."""
        always, ever = self._always, self._ever
        for first, last in times:
            for then in self._full_among(first, last):
                if (runs := self._then[then]) is not None:
                    yield runs
        seen: set[int] = set()
        for first, last in times:
            for leaf in (first, last):
                node = leaf + self._leaves
                while node and node not in seen:
                    seen.add(node)
                    if (runs := always[node]) is not None:
                        yield runs
                    node >>= 1
            for part in self._parts(first, last):
                if (runs := ever[part]) is not None:
                    yield runs

    def _full_among(self, first: int, last: int) -> Iterable[int]:
        """Which of the full times are in a span."""
        return range(bisect_left(self._full, first), bisect_right(self._full, last))

    def _parts(self, first: int, last: int) -> Iterable[int]:
        """The fewest parts that make up a span."""
        left, right = first + self._leaves, last + self._leaves + 1
        while left < right:
            if left & 1:
                yield left
                left += 1
            if right & 1:
                right -= 1
                yield right
            left >>= 1
            right >>= 1


class _Runs:
    """Where memory is taken: starts and ends of runs, apart from each other, by both."""

    __slots__ = ("ends", "starts")

    def __init__(self, start: int, end: int) -> None:
        self.starts = [start]
        self.ends = [end]


def _enter(parts: list[_Runs | None], part: int, start: int, end: int, slack: int) -> bool:
    """Enters a run and joins those beside it; whether it was not there yet."""
    runs = parts[part]
    if runs is None:
        parts[part] = _Runs(start, end)
        return True
    starts, ends = runs.starts, runs.ends
    first = bisect_left(ends, start - slack)
    if first == len(ends):
        starts.append(start)
        ends.append(end)
        return True
    if starts[first] <= start and end <= ends[first]:
        return False
    behind = bisect_right(starts, end + slack, first)
    if behind > first:
        start, end = min(start, starts[first]), max(end, ends[behind - 1])
    starts[first:behind] = [start]
    ends[first:behind] = [end]
    return True
