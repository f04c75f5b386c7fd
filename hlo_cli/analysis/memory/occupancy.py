"""What memory is occupied at which times: intervals of allocations, runs of a heap, and values of a slot.

Knows offsets, sizes, and times only, no module. `occupancy_columns` answers the same for the chunks of a large
heap with few buffers at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from heapq import merge
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass

# --- free intervals of allocations ---
# Free intervals of reusable allocations, indexed to find the allocations that are free during a live range.


_AFTER_ALL: Final = 1 << 62
"""A position after every schedule."""


@dataclass(slots=True)
class _MaxTree:
    """A segment tree of maxima: finds the largest indices whose numbers are at least a bound."""

    count: int = 0
    width: int = 1
    largest: list[int] = field(default_factory=lambda: [-_AFTER_ALL] * 2)

    def append(self, number: int) -> None:
        """Appends a number."""
        if self.count == self.width:
            # Doubling, as a complete binary tree needs a power of two.
            leaves = self.largest[self.width :] + [-_AFTER_ALL] * self.width
            self.width *= 2
            self.largest = [-_AFTER_ALL] * self.width + leaves
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
            # Starts at or before the position decide for ranges that begin before it, ends for those after it.
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
        self._before.append(_AFTER_ALL)
        self._after.append(-_AFTER_ALL)
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
            # The positions of all intervals around `start`: its prefix in binary, with a 1 at each level.
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
    # The highest bit in which both ends differ names the center.
    level = (first ^ (last + 1)).bit_length() - 1
    return (last + 1) >> level << level


# --- occupied runs of a heap ---
# Occupied memory of a heap by time, for very many concurrent buffers.
#
# Answers the same queries as `Placed` in time independent of the number of concurrent buffers: a segment tree over the
# clock stores occupied memory as runs without gaps. A full heap has few runs, however many buffers it holds.


PART_BITS: Final = 12
"""Bits of the times in each part of the clock that `Placed` indexes separately."""

_MAX_SKIPS: Final = 40  # rounds over a nearly full heap, after which listing all gaps is cheaper; chosen, not measured

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
                    # A part that covers the run already has it in all larger parts as well.
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
            # Runs that end below the free offset cannot matter again.
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


# --- the current value of a slot ---
# Occupancy of slots: which of the values at one offset is current at each position, and the live bytes over time.
#
# Where one value overwrites another, both are live at that position; only the new one counts.


SlotRange = tuple[int, int, int, int]
"""Start, end (inclusive), bytes, and slot of a value."""


class Occupancy(NamedTuple):
    """An interval of positions, inclusive, in which a value occupies its slot; empty if `last` is `first - 1`.

    `value` is its index in the list of ranges, `then` that of the value that overwrites it, or None.
    """

    value: int
    first: int
    last: int
    then: int | None


def occupancies(ranges: Iterable[SlotRange]) -> list[Occupancy]:
    """Returns the occupancies of values, unordered; a value may occupy its slot again after one that overwrote it.

    >>> occupancies([(0, 2, 8, 0), (2, 3, 4, 0)])
    [Occupancy(value=0, first=0, last=1, then=1), Occupancy(value=1, first=2, last=3, then=None)]
    >>> [occupancy[:3] for occupancy in occupancies([(0, 9, 8, 0), (2, 3, 4, 0), (1, 5, 0, 0)])]
    [(0, 0, 1), (2, 1, 5), (1, 2, 3), (0, 4, 9)]
    """
    occupancies_found: list[Occupancy] = []
    current: dict[int, tuple[int, int, int]] = {}
    outlived: dict[int, list[tuple[int, int]]] = {}
    for number, (start, end, size, slot) in enumerate(ranges):
        if not size:  # empty values have no location
            occupancies_found.append(Occupancy(number, start, end, None))
            continue
        occupant = current.get(slot)
        while occupant is not None and occupant[2] < start:
            occupancies_found.append(Occupancy(*occupant, None))
            occupant = _occupant_again(outlived.get(slot), occupant[2])
        if occupant is not None:
            occupancies_found.append(Occupancy(occupant[0], occupant[1], start - 1, number))
            # A value that ends after the one that overwrites it has the slot again afterwards.
            if occupant[2] > end:
                outlived.setdefault(slot, []).append((occupant[0], occupant[2]))
        current[slot] = (number, start, end)
    for slot, last in current.items():
        occupant = last
        while occupant is not None:
            occupancies_found.append(Occupancy(*occupant, None))
            occupant = _occupant_again(outlived.get(slot), occupant[2])
    return occupancies_found


def _occupant_again(outlived: list[tuple[int, int]] | None, after: int) -> tuple[int, int, int] | None:
    """Returns the value that occupies a slot again after position `after`, with its first and last position."""
    while outlived:
        number, end = outlived.pop()
        if end > after:
            return number, after + 1, end
    return None


def timeline(ranges: Iterable[SlotRange], end: int) -> list[int]:
    """Returns the live bytes at positions 0 to `end`, each slot counted once; `ranges` are sorted by start.

    >>> timeline([(0, 2, 8, 0), (2, 3, 4, 0)], 4)
    [8, 8, 4, 4, 0]
    """
    listed = list(ranges)
    change = [0] * (end + 2)
    for value, first, last, _ in occupancies(listed):
        size = listed[value][2]
        change[first] += size
        change[last + 1] -= size
    live = 0
    for position, changed in enumerate(change):
        live += changed
        change[position] = live
    return change[:-1]
