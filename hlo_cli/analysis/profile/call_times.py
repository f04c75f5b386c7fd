"""Times of kernels per step of a profile, and a test on the ranges of their calls in two profiles.

Reports of one profile have means of all whole steps (`mean_times`), which are the sums of the trace if it has no other
events. A comparison of two has means of typical steps (`unit_times`), so that one slow step is no difference. A kernel
of unchanged code may become slower or faster with all others, which is the machine. The test finds those that differ
from the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from statistics import median
from typing import Final, Literal, TypeAlias

import numpy as np

from hlo_cli.analysis.profile.measures import operation_measures, sorted_median
from hlo_cli.analysis.profile.occurrences import NO_RUN
from hlo_cli.analysis.profile.profile import NO_STEP, PS, Floats, Profile
from hlo_cli.analysis.profile.steps import steps_of_executions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers

Unit: TypeAlias = Literal["step", "run", "trace"]
Ranges: TypeAlias = Literal["apart", "overlap", "too few calls"]
MIN_CALLS: Final = 10
"""The fewest calls on each side that are compared."""
MIN_RATIO: Final = 1.2
"""The smallest ratio of two times of one kernel that is reported: less is the noise of clocks and caches."""
_MIN_DEVIATIONS: Final = 5.0
_NORMAL: Final = 1.4826
"""The standard deviation of a normal distribution over its median deviation."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelTime:
    """Time of a kernel in the units of a profile, per device, without that of kernels inside it.

    `time`, in seconds per unit, is the mean over the typical units, so that times add up: the middle half, by the time
    of all kernels, of the units in which the same kernels ran. `calls` are those per unit. `durations_ps` are those of
    all single calls, sorted.
    """

    time: float
    calls: float
    durations_ps: Integers

    @property
    def least(self) -> float | None:
        """The shortest call, in seconds; None if no call was timed alone."""
        return int(self.durations_ps[0]) * PS if len(self.durations_ps) else None

    @property
    def median(self) -> float | None:
        """The median call, in seconds."""
        return sorted_median(self.durations_ps) * PS if len(self.durations_ps) else None

    @property
    def greatest(self) -> float | None:
        """The longest call, in seconds."""
        return int(self.durations_ps[-1]) * PS if len(self.durations_ps) else None


@dataclass(frozen=True, slots=True, eq=False)
class UnitTimes:
    """The times of the operations of a profile, None for those outside of its `count` units."""

    unit: Unit
    count: int
    times: tuple[KernelTime | None, ...]


def has_steps(profile: Profile) -> bool:
    """Whether operations ran in a whole step that the program or the profiler marked."""
    return profile.step_source != "executions" and bool((_steps(profile) >= 0).any())


@dataclass(frozen=True, slots=True)
class MeanTime:
    """The time of an operation without that of operations inside it.

    `busy_seconds` and `share` count all of its events: its part of the busy time of all devices together, and that as
    part of all time, idle time included. `seconds` and `calls` are means of all whole units, per device.
    """

    busy_seconds: float
    share: float
    seconds: float
    calls: float


@dataclass(frozen=True, slots=True, eq=False)
class MeanTimes:
    """The times of the operations of a profile: means of `count` whole units, without `partial` ones.

    `outside` is the number of events in no unit.
    """

    unit: Unit
    count: int
    partial: int
    outside: int
    times: tuple[MeanTime, ...]


def mean_times(profile: Profile, *, per_unit: bool = True) -> MeanTimes:
    """Times per whole step, or else per whole run of the program that takes the most time, or else in all.

    They are those in all too where they are not asked for `per_unit`.

    >>> from hlo_cli import profile
    >>> found = mean_times(profile("fixtures/traces/cpu_steps/trace.xplane.pb"))
    >>> found.unit, found.count, found.partial, found.outside
    ('step', 5, 0, 0)
    >>> whole = sum(each.busy_seconds for each in found.times)
    >>> abs(sum(each.seconds for each in found.times) * found.count * 2 / whole - 1) < 1e-9  # on two devices
    True
    """
    is_run = bool((profile.occurrences.runs != NO_RUN).any())
    unit: Unit = "trace" if not per_unit else "step" if has_steps(profile) else "run" if is_run else "trace"
    rows = np.zeros(len(profile.codes), np.int64)
    if unit != "trace":
        rows = _steps(profile) if unit == "step" else _whole_runs(profile)
    kept = np.flatnonzero(rows >= 0)
    count, devices, number = max(len(np.unique(rows[kept])), 1), max(len(profile.devices), 1), len(profile.operations)
    own = np.bincount(profile.codes[kept], profile.occurrences.self_ps[kept], number) * PS / (count * devices)
    weights = profile.occurrences.counts if profile.call_weights is None else profile.call_weights
    calls = np.bincount(profile.codes[kept], weights[kept], number) / (count * devices)
    whole = profile.total_ps * PS
    return MeanTimes(
        unit,
        count,
        0 if unit == "trace" else sum(not step.is_whole for step in profile.steps),
        0 if unit == "trace" else int((profile.step_codes == NO_STEP).sum()),
        tuple(
            MeanTime(found.busy_time, found.busy_time / whole if whole else 0.0, seconds, often)
            for found, seconds, often in zip(operation_measures(profile), own.tolist(), calls.tolist(), strict=True)
        ),
    )


def _whole_runs(profile: Profile) -> Integers:
    """The run of each row, as `_runs` has them, below 0 if it is not whole."""
    runs = _runs(profile)
    if profile.step_source != "executions" or len(profile.steps) <= int(runs.max(initial=0)):
        return runs
    whole = np.array([each.is_whole for each in profile.steps])
    return np.where(whole[runs], runs, NO_STEP)


def unit_times(profile: Profile, *, per_step: bool) -> UnitTimes:
    """Times per whole step, or else per run of the program that takes the most time, or else in all."""
    rows = _steps(profile) if per_step else _runs(profile)
    unit: Unit = "step" if per_step else "run" if (profile.occurrences.runs != NO_RUN).any() else "trace"
    kept = np.flatnonzero(rows >= 0)
    used, units = np.unique(rows[kept], return_inverse=True)
    count, devices = max(len(used), 1), max(len(profile.devices), 1)
    occurrences, number = profile.occurrences, len(profile.operations)
    codes, own, counts = profile.codes[kept], occurrences.self_ps[kept], occurrences.counts[kept]
    times = np.bincount(codes, own * _weights(codes, units, own, count)[units], number) * PS / (count * devices)
    calls = np.bincount(codes, counts, number) / (count * devices)
    ran = np.bincount(codes, minlength=number) > 0
    single = counts == 1
    order = np.lexsort((own[single], codes[single]))
    durations = own[single][order]
    bounds = np.searchsorted(codes[single][order], np.arange(number + 1))
    return UnitTimes(
        unit,
        count,
        tuple(
            KernelTime(time, each, durations[bounds[at] : bounds[at + 1]]) if ran[at] else None
            for at, (time, each) in enumerate(zip(times.tolist(), calls.tolist(), strict=True))
        ),
    )


def _weights(codes: Integers, units: Integers, own: Integers, count: int) -> Floats:
    """How much each unit counts: those of the middle half, by time, of all in which the same operations ran.

    The weights of those units add up to their number, so a step that takes another branch counts by its frequency.
    """
    totals, number = np.bincount(units, own, count), int(codes.max(initial=0)) + 1
    pairs = np.unique(units * number + codes)
    bounds = np.searchsorted(pairs // number, np.arange(count + 1)).tolist()
    alike: dict[bytes, list[int]] = {}
    for unit in range(count):
        ran = pairs[bounds[unit] : bounds[unit + 1]] % number
        alike.setdefault(ran.tobytes(), []).append(unit)
    weights = np.zeros(count)
    for group in alike.values():
        order = sorted(group, key=lambda unit: totals[unit])
        cut = (len(order) + 1) // 4
        middle = order[cut : len(order) - cut]
        weights[middle] = len(order) / len(middle)
    return weights


def _steps(profile: Profile) -> Integers:
    """The step of each row, below 0 if it is in none, or in one that is not whole."""
    whole = np.array([*(each.is_whole for each in profile.steps), False])
    return np.where(whole[profile.step_codes], profile.step_codes, -1)


def _runs(profile: Profile) -> Integers:
    """The run of each row: its own, else the last that began before it, of the program that takes the most time.

    Rows before the first one belong to it, as do all if there is none.
    """
    found = steps_of_executions(profile.occurrences)
    begins = np.array([each.begin_ps for each in found.steps], np.int64)
    last = np.searchsorted(begins, profile.occurrences.begins_ps, side="right") - 1
    return np.where(found.codes >= 0, found.codes, np.maximum(last, 0))


def ranges_of(before: Integers, after: Integers) -> Ranges:
    """How the ranges of two samples lie, which are sorted.

    >>> ranges_of(np.arange(10), np.arange(10, 20)), ranges_of(np.arange(10), np.arange(9, 20))
    ('apart', 'overlap')
    >>> ranges_of(np.arange(9), np.arange(20))
    'too few calls'
    """
    if min(len(before), len(after)) < MIN_CALLS:
        return "too few calls"
    return "apart" if before[-1] < after[0] or after[-1] < before[0] else "overlap"


class Drift:
    """How the kernels of unchanged code became slower or faster together, which is the machine and not the code.

    A kernel is an outlier if the ranges of its calls are apart and its medians differ by `MIN_RATIO`, if both still
    hold after its times before are multiplied by the common `ratio`, and if its own ratio is at least five deviations,
    taken by their median, from the common one.

    >>> calm = np.arange(100, 120), np.arange(130, 150)
    >>> slow = np.arange(100, 120), np.arange(300, 320)
    >>> drift = Drift([*[calm] * 20, slow])
    >>> round(drift.ratio, 2), drift.is_outlier(*calm), drift.is_outlier(*slow)
    (1.27, False, True)
    """

    def __init__(self, samples: Iterable[tuple[Integers, Integers]]) -> None:
        logs = [_log_ratio(*each) for each in samples if ranges_of(*each) != "too few calls"]
        self._common = median(logs) if logs else 0.0
        spread = median(abs(each - self._common) for each in logs) if logs else 0.0
        self._least = max(log(MIN_RATIO), _MIN_DEVIATIONS * _NORMAL * spread)

    @property
    def ratio(self) -> float:
        """The median of the ratios of times after to times before."""
        return exp(self._common)

    def is_outlier(self, before: Integers, after: Integers) -> bool:
        """Whether a kernel differs from the others; its samples are sorted. False if there are too few calls."""
        if ranges_of(before, after) != "apart":
            return False
        own, scaled = _log_ratio(before, after), before * self.ratio
        is_apart = bool(scaled[-1] < after[0] or after[-1] < scaled[0])
        return is_apart and abs(own) > log(MIN_RATIO) and abs(own - self._common) > self._least


def _log_ratio(before: Integers, after: Integers) -> float:
    return log(max(sorted_median(after), 1.0) / max(sorted_median(before), 1.0))
