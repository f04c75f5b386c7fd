"""When was a device busy: unions of intervals of time, in picoseconds.

Events of one device overlap: on threads of a CPU, on streams of a GPU. Their durations add up to more than the time
that passed, so every busy, idle, and exposed time is the length of a union, and all of them are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.occurrences import Occurrences
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers

_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals that are sorted, not empty, and do not touch."""

    begins: Integers
    ends: Integers

    @property
    def length(self) -> int:
        """The sum of the lengths.

        >>> union(np.array([0, 5, 6]), np.array([2, 7, 9])).length
        6
        """
        return int((self.ends - self.begins).sum())

    def covered(self, begins: Integers, ends: Integers) -> Integers:
        """How much of each interval from `begins` to `ends` lies in these.

        >>> union(np.array([0, 5]), np.array([2, 9])).covered(np.array([1, 3]), np.array([6, 4])).tolist()
        [2, 0]
        """
        return self._until(ends) - self._until(begins)

    def _until(self, times: Integers) -> Integers:
        """How much of these lies before each time."""
        if not len(self.begins):
            return np.zeros(len(times), np.int64)
        lengths = np.concatenate(([0], np.cumsum(self.ends - self.begins)))
        at = np.searchsorted(self.begins, times, side="right")
        before = np.maximum(at - 1, 0)
        inside = np.minimum(times, self.ends[before]) - self.begins[before]
        result: Integers = np.where(at > 0, lengths[before] + inside, 0)
        return result


def union(begins: Integers, ends: Integers) -> Intervals:
    """The union of intervals; those that are empty add nothing.

    >>> found = union(np.array([4, 0, 1]), np.array([5, 2, 3]))
    >>> found.begins.tolist(), found.ends.tolist()
    ([0, 4], [3, 5])
    """
    kept = ends > begins
    begins, ends = begins[kept], ends[kept]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    if not len(begins):
        return Intervals(begins, ends)
    reached = np.maximum.accumulate(ends)
    first = np.concatenate(([True], begins[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(begins[first], reached[last])


# --- busy time of devices ---


@dataclass(frozen=True, slots=True, eq=False)
class Busy:
    """The time of one device in which operations ran.

    `summed_ps` is that of rows that the trace has only as sums, which have a length but no place in time.
    """

    intervals: Intervals
    summed_ps: int = 0

    @property
    def length(self) -> int:
        """All of the time in which operations ran."""
        return self.intervals.length + self.summed_ps


def busy_of(rows: Occurrences, chosen: Integers | None = None) -> Sequence[Busy]:
    """For each device, the time in which any of its rows ran, or any of the `chosen` ones."""
    devices, begins, ends = rows.devices, rows.begins_ps, rows.ends_ps
    counts, own = rows.counts, rows.self_ps
    if chosen is not None:
        devices, begins, ends = devices[chosen], begins[chosen], ends[chosen]
        counts, own = counts[chosen], own[chosen]
    order = np.argsort(devices, kind="stable")
    bounds = np.searchsorted(devices[order], np.arange(len(rows.device_names) + 1)).tolist()
    found = []
    for first, last in pairwise(bounds):
        there = order[first:last]
        single = there[counts[there] == 1]
        summed = there[counts[there] != 1]
        found.append(Busy(union(begins[single], ends[single]), int(own[summed].sum())))
    return found


# --- the part of an operation in busy time ---


def shared_times(rows: Occurrences) -> _Floats | None:
    """The part of each row in the busy time of its device, in picoseconds; None if that is its self time.

    Time in which several operations run is divided between them, so that the parts add up to the busy time. As in self
    times, an operation does not run while others run inside it on its line.
    """
    found = rows.self_ps.astype(np.float64)
    busy = busy_of(rows)
    own = np.bincount(rows.devices, found, len(busy))
    is_shared = [abs(own[device] - each.length) >= 1 for device, each in enumerate(busy)]
    for device in np.flatnonzero(is_shared).tolist():
        there = np.flatnonzero((rows.devices == device) & (rows.counts == 1))
        begins, ends, owners = _running(rows, there)
        found[there] = 0.0
        np.add.at(found, owners, divided(begins, ends))
    return found if any(is_shared) else None


def divided(begins: Integers, ends: Integers) -> _Floats:
    """The length of each interval, where time that several share is divided between them.

    >>> divided(np.array([0, 0, 9]), np.array([4, 2, 12])).tolist()
    [3.0, 1.0, 3.0]
    """
    times = np.unique(np.concatenate((begins, ends)))
    first, last = np.searchsorted(times, begins), np.searchsorted(times, ends)
    changes = np.bincount(first, minlength=len(times)) - np.bincount(last, minlength=len(times))
    running = np.cumsum(changes)[:-1]
    parts = np.divide(np.diff(times), running, out=np.zeros(len(running)), where=running > 0)
    until = np.concatenate(([0.0], np.cumsum(parts)))
    result: _Floats = until[last] - until[first]
    return result


def _running(rows: Occurrences, chosen: Integers) -> tuple[Integers, Integers, Integers]:
    """When the chosen rows ran and nothing inside them did: begins and ends of intervals, and the row of each."""
    begins, ends = rows.begins_ps[chosen], rows.ends_ps[chosen]
    order = np.lexsort((-ends, begins, rows.lines[chosen]))
    lines, begins, ends, owners = rows.lines[chosen][order], begins[order], ends[order], chosen[order]
    if not ((lines[1:] == lines[:-1]) & (begins[1:] < ends[:-1])).any():
        return begins, ends, owners
    starts: list[int] = []
    stops: list[int] = []
    numbers: list[int] = []
    stack: list[tuple[int, int]] = []  # the end of each row that others may be inside, and its number
    reached: list[int] = []  # until when its time is accounted for
    last_line = -1
    for line, begin, end, row in zip(lines.tolist(), begins.tolist(), ends.tolist(), owners.tolist(), strict=True):
        while stack and (line != last_line or end > stack[-1][0]):
            stop, number = stack.pop()
            starts.append(reached.pop())
            stops.append(stop)
            numbers.append(number)
        last_line = line
        if stack:
            starts.append(reached[-1])
            stops.append(begin)
            numbers.append(stack[-1][1])
            reached[-1] = max(reached[-1], end)
        stack.append((end, row))
        reached.append(begin)
    starts += reached
    stops += [end for end, _ in stack]
    numbers += [row for _, row in stack]
    columns = np.array((starts, stops, numbers), np.int64)
    kept = columns[1] > columns[0]
    return columns[0][kept], columns[1][kept], columns[2][kept]
