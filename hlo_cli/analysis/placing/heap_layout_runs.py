"""Occupied memory of a heap by time, for very many concurrent buffers.

Answers the same queries as `Placed` in time independent of the number of concurrent buffers: a segment tree over the
clock stores occupied memory as runs without gaps. A full heap has few runs, however many buffers it holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

PART_BITS: Final = 12
"""Bits of the times in each part of the clock that `Placed` indexes separately."""

_MAX_SKIPS: Final = 40

Times = Sequence[tuple[int, int]]
"""Inclusive intervals of the heap's clock, which starts at 0."""


class PlacedRuns:
    """Placed chunks as runs of occupied memory; each run extends to the next aligned offset.

    Gaps smaller than `smallest` bytes are not stored, because no buffer fits there. `full` are times, ascending, at
    which memory is nearly full. The memory occupied at each is stored in addition, as few runs, so that a buffer live
    at that time skips occupied memory at once.

    >>> placed = PlacedRuns(4, 12)
    >>> placed.add(((0, 9),), 0, 7)
    >>> placed.smallest_gap(((5, 6),), 4), placed.smallest_gap(((10, 11),), 4)
    (8, 0)
    """

    __slots__ = ("_alignment", "_always", "_at_full", "_ever", "_full", "_leaves", "_slack")

    def __init__(self, alignment: int, times: int, smallest: int = 1, full: Sequence[int] = ()) -> None:
        self._alignment = alignment
        self._slack = smallest - 1
        self._leaves = 1 << max(times - 1, 1).bit_length()
        self._always: list[_Runs | None] = [None] * (2 * self._leaves)
        """What is taken during all of a part of the time, unless that holds for the part of which it is a half."""
        self._ever: list[_Runs | None] = [None] * (2 * self._leaves)
        """What is taken at any time of a part, unless it was all of a larger part."""
        self._full = full
        self._at_full: list[_Runs | None] = [None] * len(full)
        """What is taken at each of the full times."""

    def add(self, times: Times, offset: int, end: int) -> None:
        """Adds a chunk that is occupied at `times`."""
        free, slack = -(-end // self._alignment) * self._alignment, self._slack
        for first, last in times:
            for full_time in self._full_times_in(first, last):
                _insert_run(self._at_full, full_time, offset, free, slack)
            for part in self._parts(first, last):
                _insert_run(self._always, part, offset, free, slack)
                node = part
                while node and _insert_run(self._ever, node, offset, free, slack):
                    node >>= 1

    def smallest_gap(self, times: Times, size: int) -> int:
        """Returns the lowest offset of the smallest gap of at least `size` bytes that is free at all `times`.

        If there is no such gap, returns the aligned end of the occupied memory.
        """
        met = [(runs.starts, runs.ends) for runs in self._overlapping(times)]
        free = 0
        for _ in range(_MAX_SKIPS):  # skips memory without a large enough gap, most of a full heap
            at = free
            for starts, ends in met:
                after = bisect_left(starts, free + size)
                if after and ends[after - 1] > free:
                    free = ends[after - 1]
            if free == at:
                break
            met = [runs for runs in met if runs[1][-1] > free]
        taken: list[tuple[int, int]] = []
        for starts, ends in met:
            after = bisect_right(ends, free)
            taken += zip(starts[after:], ends[after:], strict=True)
        taken.sort()
        best, found = 0, -1
        for start, end in taken:
            gap = start - free
            if gap >= size and (found < 0 or gap < best):
                best, found = gap, free
            if end > free:
                free = end
        return free if found < 0 else found

    def _overlapping(self, times: Times) -> Iterator[_Runs]:
        """Yields the runs occupied at any of `times`."""
        always, ever = self._always, self._ever
        for first, last in times:
            for full_time in self._full_times_in(first, last):
                if (runs := self._at_full[full_time]) is not None:
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

    def _full_times_in(self, first: int, last: int) -> Iterable[int]:
        """Returns the indices of the full times in an interval."""
        return range(bisect_left(self._full, first), bisect_right(self._full, last))

    def _parts(self, first: int, last: int) -> Iterable[int]:
        """Yields the fewest nodes of the segment tree that cover an interval."""
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
    """Disjoint runs of occupied memory, sorted: start and end offsets."""

    __slots__ = ("ends", "starts")

    def __init__(self, start: int, end: int) -> None:
        self.starts = [start]
        self.ends = [end]


def _insert_run(parts: list[_Runs | None], part: int, start: int, end: int, slack: int) -> bool:
    """Inserts a run and merges it with overlapping or adjacent ones; returns whether it was not yet covered."""
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
    after = bisect_right(starts, end + slack, first)
    if after > first:
        start, end = min(start, starts[first]), max(end, ends[after - 1])
    starts[first:after] = [start]
    ends[first:after] = [end]
    return True
