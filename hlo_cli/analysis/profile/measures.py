"""Times of groups of rows: calls, total, self, least, mean, median, greatest, and deviation."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from hlo_cli.analysis.profile.profile import PS, Profile
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers


@dataclass(frozen=True, slots=True)
class Measure:
    """Times of one group, in seconds.

    `calls` are the executions of its instructions, `events` what the trace counts: an instruction may run as several
    kernels. `busy_time` is the part in the busy time of the devices, where time in which several operations run is
    divided between them: the self time, unless operations overlap. Mean, least, median, greatest, and `deviation` (of
    the population) are those of events, None for those that the trace has only as a sum.
    """

    calls: int
    events: int
    total: float
    self_time: float
    least: float | None
    median: float | None
    greatest: float | None
    deviation: float | None
    busy_time: float = 0.0

    @property
    def mean(self) -> float:
        """The mean time of an event."""
        return self.total / self.events if self.events else 0.0


def measures(profile: Profile, groups: Integers, count: int, rows: Integers | None = None) -> Sequence[Measure]:
    """The times of `count` groups: `groups[i]` is that of row `i`, those below 0 are left out.

    Only `rows` are counted, if they are given.
    """
    occurrences = profile.occurrences
    kept = np.flatnonzero(groups >= 0) if rows is None else rows[groups[rows] >= 0]
    of_row, durations = groups[kept], occurrences.durations_ps[kept]
    events = np.bincount(of_row, occurrences.counts[kept], count).astype(np.int64)
    weights = occurrences.counts if profile.call_weights is None else profile.call_weights
    calls: list[float] = np.bincount(of_row, weights[kept], count).tolist()
    total: list[float] = np.bincount(of_row, durations, count).tolist()
    own: list[float] = np.bincount(of_row, occurrences.self_ps[kept], count).tolist()
    shared = occurrences.self_ps if profile.shared_ps is None else profile.shared_ps
    busy: list[float] = np.bincount(of_row, shared[kept], count).tolist()
    single = occurrences.counts[kept] == 1
    order = np.lexsort((durations[single], of_row[single]))
    sorted_groups, sorted_durations = of_row[single][order], durations[single][order]
    bounds = np.searchsorted(sorted_groups, np.arange(count + 1))
    found = []
    for at in range(count):
        each = sorted_durations[bounds[at] : bounds[at + 1]]
        spread = _spread(each) if len(each) == events[at] and len(each) else (None, None, None, None)
        least, middle, greatest, deviation = spread
        times = total[at] * PS, max(own[at], 0.0) * PS
        shown = max(busy[at], 0.0) * PS
        found.append(Measure(round(calls[at]), int(events[at]), *times, least, middle, greatest, deviation, shown))
    return found


def _spread(durations: Integers) -> tuple[float, float, float, float]:
    """The least, the median, and the greatest of sorted durations, and their deviation, in seconds."""
    return (
        int(durations[0]) * PS,
        sorted_median(durations) * PS,
        int(durations[-1]) * PS,
        sqrt(float(durations.astype(np.float64).var())) * PS,
    )


def sorted_median(values: Integers) -> float:
    """The median of sorted values, which are not empty.

    >>> sorted_median(np.array([1, 2, 9])), sorted_median(np.array([1, 2]))
    (2.0, 1.5)
    """
    half = len(values) // 2
    return (int(values[half]) + int(values[-half - 1])) / 2


def operation_measures(profile: Profile, rows: Integers | None = None) -> Sequence[Measure]:
    """The times of each operation of a profile, in the order of `Profile.operations`."""
    return measures(profile, profile.codes, len(profile.operations), rows)
