"""The events of one operation: when each ran, how their times are spread, and what ran before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.call_times import MIN_RATIO
from hlo_cli.analysis.profile.occurrences import NO_RUN
from hlo_cli.analysis.profile.profile import NO_STEP, PS, Operation, Profile
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers

MIN_EVENTS: Final = 10
"""The fewest events whose times can be said to be of two modes."""
_MIN_PART: Final = 0.15
"""The least part of the events that is a mode."""
_MANY: Final = 20
"""From so many events on, the gap need not be twice the spread, and the tails of a mode of so many do not count."""
_TAIL: Final = 10
"""One event in so many, on each side of a mode, is in its tails."""


@dataclass(frozen=True, slots=True)
class Modes:
    """Two groups of times: the number of events of each, and their medians in seconds."""

    fast: int
    fast_seconds: float
    slow: int
    slow_seconds: float


@dataclass(frozen=True, slots=True)
class Event:
    """One event: when it begins after the first of its device and how long it takes, in seconds; the names of step,
    device, line, and kernel. The step is None if it is in none, the kernel is empty if the trace does not name it.
    """

    begin: float
    seconds: float
    self_seconds: float
    step: str | None
    device: str
    line: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Neighbor:
    """An operation that runs next on the same line, before or after: how often, and the median gap in seconds."""

    is_before: bool
    operation: Operation
    events: int
    gap: float


@dataclass(frozen=True, slots=True)
class Calls:
    """The events of an operation, by device and time, with the numbers of its executions, devices, and lines.

    `executions` are those of the program on all devices, 0 if the trace does not number them.
    """

    profile: Profile
    rows: Integers
    executions: int
    devices: int
    lines: int

    @property
    def seconds(self) -> Sequence[float]:
        """The time of each event."""
        found: list[float] = (self.profile.occurrences.durations_ps[self.rows] * PS).tolist()
        return found

    def events(self) -> Iterator[Event]:
        """All events."""
        occurrences, rows = self.profile.occurrences, self.rows
        first = np.full(len(occurrences.device_names), np.iinfo(np.int64).max)
        np.minimum.at(first, occurrences.devices, occurrences.begins_ps)
        columns = (
            occurrences.begins_ps[rows] - first[occurrences.devices[rows]],
            occurrences.durations_ps[rows],
            occurrences.self_ps[rows],
            self.profile.step_codes[rows],
            occurrences.devices[rows],
            occurrences.lines[rows],
            occurrences.codes[rows],
        )
        steps = self.profile.steps
        for begin, duration, own, step, device, line, code in zip(*(each.tolist() for each in columns), strict=True):
            name = None if step == NO_STEP else steps[step].name
            where = occurrences.device_names[device], occurrences.line_names[line], occurrences.keys[code].kernel
            yield Event(begin * PS, duration * PS, own * PS, name, *where)


def calls_of(profile: Profile, operation: Operation) -> Calls:
    """The events of an operation."""
    occurrences = profile.occurrences
    rows = np.flatnonzero(profile.codes == profile.operations.index(operation))
    rows = rows[np.lexsort((occurrences.begins_ps[rows], occurrences.devices[rows]))].astype(np.int64)
    runs, devices = occurrences.runs[rows], occurrences.devices[rows]
    known = runs != NO_RUN
    executions = len(np.unique(np.stack((runs[known], devices[known])), axis=1).T)
    return Calls(profile, rows, executions, len(np.unique(devices)), len(np.unique(occurrences.lines[rows])))


def two_modes(seconds: Sequence[float]) -> Modes | None:
    """Two groups of times, if the gap between them is larger than the spread of each; None for one group.

    The groups are those of the best split of the logarithms into two means. Each has at least 15% of the events, and
    the slow one takes 20% longer. Of fewer than 20 events, the gap is twice the spread; of a mode of 20 or more, a
    tenth on each side does not count.

    >>> two_modes([3.5, 3.6, 3.7, 3.4, 3.6, 10.1, 10.6, 9.9, 10.4, 10.0, 3.5])
    Modes(fast=6, fast_seconds=3.55, slow=5, slow_seconds=10.1)
    >>> two_modes([3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5])
    """
    times = np.sort(np.array(seconds, np.float64))
    count = len(times)
    if count < MIN_EVENTS or times[0] <= 0:
        return None
    logs = np.log(times)
    sums, below = np.cumsum(logs), np.arange(1, count)
    between = below * (count - below) * (sums[:-1] / below - (sums[-1] - sums[:-1]) / (count - below)) ** 2
    at = int(np.argmax(between)) + 1
    if min(at, count - at) < max(_MIN_PART * count, 4):
        return None
    fast, slow = times[:at], times[at:]
    (low, high), (slow_low, slow_high) = _spread(fast), _spread(slow)
    gap = slow_low - high
    if slow_low < MIN_RATIO * high or gap <= (1 if count >= _MANY else 2) * max(high - low, slow_high - slow_low):
        return None
    return Modes(len(fast), float(np.median(fast)), len(slow), float(np.median(slow)))


def _spread(times: NDArray[np.float64]) -> tuple[float, float]:
    out = len(times) // _TAIL if len(times) >= _MANY else 0
    return float(times[out]), float(times[-1 - out])


def histogram(seconds: Sequence[float], bins: int) -> Sequence[int]:
    """The number of times in each of `bins` equal intervals from the least to the greatest.

    >>> histogram([1.0, 1.1, 3.0], 4)
    [2, 0, 0, 1]
    """
    least, greatest = min(seconds), max(seconds)
    if least == greatest:
        return [len(seconds)]
    found: list[int] = np.histogram(np.array(seconds), bins, (least, greatest))[0].tolist()
    return found


def neighbors(calls: Calls) -> Sequence[Neighbor]:
    """What ran next on the same line, before and after the events, the most frequent first; not what runs inside."""
    found: dict[tuple[bool, int], list[int]] = {}
    occurrences = calls.profile.occurrences
    lines = occurrences.lines[calls.rows]
    for line in np.unique(lines).tolist():
        on_line = np.flatnonzero(occurrences.lines == line)
        for is_before, code, gap in _beside(calls, calls.rows[lines == line], on_line):
            found.setdefault((is_before, code), []).append(gap)
    operations = calls.profile.operations
    listed = (
        Neighbor(is_before, operations[code], len(gaps), float(np.median(gaps)) * PS)
        for (is_before, code), gaps in found.items()
    )
    return sorted(listed, key=lambda each: (not each.is_before, -each.events, each.operation.name))


def _beside(calls: Calls, rows: Integers, on_line: Integers) -> Iterator[tuple[bool, int, int]]:
    """For events of one line: whether a row is before or after, its operation, and the gap."""
    occurrences, codes = calls.profile.occurrences, calls.profile.codes
    begins, ends = occurrences.begins_ps, occurrences.ends_ps
    by_end = on_line[np.lexsort((-begins[on_line], ends[on_line]))]
    at = np.searchsorted(ends[by_end], begins[rows], side="right") - 1
    for row, place in zip(rows.tolist(), at.tolist(), strict=True):
        if place >= 0:
            before = int(by_end[place])
            yield True, int(codes[before]), int(begins[row] - ends[before])
    by_begin = on_line[np.lexsort((-ends[on_line], begins[on_line]))]
    at = np.searchsorted(begins[by_begin], ends[rows], side="left")
    for row, place in zip(rows.tolist(), at.tolist(), strict=True):
        if place < len(by_begin):
            after = int(by_begin[place])
            yield False, int(codes[after]), int(begins[after] - ends[row])
