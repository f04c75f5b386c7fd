"""How long operations took: kernels per step, transfers next to computation, and the calls of one operation.

What one step did, and the tiles that the slices of one operation touch, explain such times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, log, prod
from statistics import median
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.profile.executions import executions_of_others
from hlo_cli.analysis.profile.measure import operation_measures, sorted_median
from hlo_cli.analysis.profile.profile import (
    NO_FLOW,
    NO_RUN,
    NO_STEP,
    Floats,
    Operation,
    Profile,
    busy_of,
    divided,
    union,
)
from hlo_cli.analysis.profile.steps import steps_of_executions
from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.traces.trace import PS, Integers, distinct_of

# --- times of kernels ---
# Times of kernels per step of a profile, and a test on the ranges of their calls in two profiles.
#
# Reports of one profile have means of all whole steps (`mean_times`), which are the sums of the trace if it has no
# other events. A comparison of two has means of typical steps (`unit_times`), so that one slow step is no difference. A
# kernel of unchanged code may become slower or faster with all others, which is the machine. The test finds those that
# differ from the rest.


Unit: TypeAlias = Literal["step", "run", "trace"]
Ranges: TypeAlias = Literal["apart", "overlap", "too few calls"]
MIN_CALLS: Final = 10
"""The fewest calls on each side that are compared."""
MIN_RATIO: Final = 1.2
"""The smallest ratio of two times of one kernel that is reported: less is the noise of clocks and caches."""
_MIN_DEVIATIONS: Final = 5.0  # of normal noise one kernel in two million would differ so much; chosen, not measured
_NORMAL_FACTOR: Final = 1.4826
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
    return profile.step_source != "executions" and bool((_whole_steps(profile) >= 0).any())


@dataclass(frozen=True, slots=True)
class MeanTime:
    """The time of an operation without that of operations inside it.

    `busy_seconds` and `share` count all of its events: its part of the busy time of all devices together, and that as
    part of all time, idle time included. `seconds` and `calls` are means of all whole units, per device; where these
    are runs, of those of its own program.
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
        rows = _whole_steps(profile) if unit == "step" else _whole_runs(profile)
    count, devices = max(len(distinct_of(rows[rows >= 0])[0]), 1), max(len(profile.devices), 1)
    counts, outside = np.full(len(profile.operations), count), profile.step_codes == NO_STEP
    if unit == "run":
        # Programs that run in turn have executions of their own, and so have those that run once next to many steps.
        counts, is_other = executions_of_others(profile, count)
        rows = np.where(is_other, 0, rows)
        outside &= ~is_other
    kept = np.flatnonzero(rows >= 0)
    # Per device, as every device runs each step.
    self_times = _sums(profile, kept, profile.occurrences.self_ps) * PS / (counts * devices)
    weights = profile.occurrences.counts if profile.call_weights is None else profile.call_weights
    calls = _sums(profile, kept, weights) / (counts * devices)
    total = profile.total_ps * PS
    return MeanTimes(
        unit,
        count,
        0 if unit == "trace" else sum(not step.is_whole for step in profile.steps),
        0 if unit == "trace" else int(outside.sum()),
        tuple(
            MeanTime(measure.busy_time, measure.busy_time / total if total else 0.0, seconds, mean_calls)
            for measure, seconds, mean_calls in zip(
                operation_measures(profile), self_times.tolist(), calls.tolist(), strict=True
            )
        ),
    )


def _sums(profile: Profile, kept: Integers, amounts: Integers | Floats) -> Floats:
    """The sum of the amounts of some rows for each operation."""
    sums: Floats = np.bincount(profile.codes[kept], amounts[kept], len(profile.operations)).astype(np.float64)
    return sums


def _whole_runs(profile: Profile) -> Integers:
    """The run of each row, as `_runs` has them, below 0 if it is not whole."""
    runs = _runs(profile)
    # Executions that are cut are steps that are not whole.
    if profile.step_source != "executions" or len(profile.steps) <= int(runs.max(initial=0)):
        return runs
    is_whole = np.array([each.is_whole for each in profile.steps])
    return np.where(is_whole[runs], runs, NO_STEP)


def unit_times(profile: Profile, *, per_step: bool) -> UnitTimes:
    """Times per whole step, or else per run of the program that takes the most time, or else in all."""
    rows = _whole_steps(profile) if per_step else _runs(profile)
    unit: Unit = "step" if per_step else "run" if (profile.occurrences.runs != NO_RUN).any() else "trace"
    kept = np.flatnonzero(rows >= 0)
    used, units = distinct_of(rows[kept])
    count, devices = max(len(used), 1), max(len(profile.devices), 1)
    occurrences, number = profile.occurrences, len(profile.operations)
    codes, self_ps, counts = profile.codes[kept], occurrences.self_ps[kept], occurrences.counts[kept]
    # The middle half keeps one slow step or run from looking like a change.
    times = (
        np.bincount(codes, self_ps * _middle_half_weights(codes, units, self_ps, count)[units], number)
        * PS
        / (count * devices)
    )
    calls = np.bincount(codes, counts, number) / (count * devices)
    ran = np.bincount(codes, minlength=number) > 0
    single = counts == 1
    order = np.lexsort((self_ps[single], codes[single]))
    durations = self_ps[single][order]
    bounds = np.searchsorted(codes[single][order], np.arange(number + 1))
    return UnitTimes(
        unit,
        count,
        tuple(
            KernelTime(time, each, durations[bounds[operation] : bounds[operation + 1]]) if ran[operation] else None
            for operation, (time, each) in enumerate(zip(times.tolist(), calls.tolist(), strict=True))
        ),
    )


def _middle_half_weights(codes: Integers, units: Integers, self_ps: Integers, count: int) -> Floats:
    """How much each unit counts: those of the middle half, by time, of all in which the same operations ran.

    The weights of those units add up to their number, so a step that takes another branch counts by its frequency.
    """
    totals, number = np.bincount(units, self_ps, count), int(codes.max(initial=0)) + 1
    pairs, _ = distinct_of(units * number + codes)
    bounds = np.searchsorted(pairs // number, np.arange(count + 1)).tolist()
    alike: dict[bytes, list[int]] = {}
    for unit in range(count):
        ran = pairs[bounds[unit] : bounds[unit + 1]] % number
        alike.setdefault(ran.tobytes(), []).append(unit)
    weights = np.zeros(count)
    for group in alike.values():
        order = sorted(group, key=lambda unit: totals[unit])
        # Of 3 units one is cut on each side, of 2 and 1 none.
        cut = (len(order) + 1) // 4
        middle = order[cut : len(order) - cut]
        weights[middle] = len(order) / len(middle)
    return weights


def _whole_steps(profile: Profile) -> Integers:
    """The step of each row, below 0 if it is in none, or in one that is not whole."""
    is_whole = np.array([*(each.is_whole for each in profile.steps), False])
    return np.where(is_whole[profile.step_codes], profile.step_codes, -1)


def _runs(profile: Profile) -> Integers:
    """The run of each row: its own, else the last that began before it, of the program that takes the most time.

    Rows before the first one belong to it, as do all if there is none.
    """
    steps, codes = profile.steps, profile.step_codes
    if profile.step_source != "executions":
        stepped = steps_of_executions(profile.occurrences)
        steps, codes = stepped.steps, stepped.codes
    begins = np.array([each.begin_ps for each in steps], np.int64)
    last = np.searchsorted(begins, profile.occurrences.begins_ps, side="right") - 1
    return np.where(codes >= 0, codes, np.maximum(last, 0))


def ranges_of(before: Integers, after: Integers) -> Ranges:
    """How the ranges of two samples lie, which are sorted.

    >>> ranges_of(np.arange(10), np.arange(10, 20)), ranges_of(np.arange(10), np.arange(9, 20))
    ('apart', 'overlap')
    >>> ranges_of(np.arange(9), np.arange(20))
    'too few calls'
    """
    # Ranges of fewer calls part by chance.
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
        # Deviations from the median, as one kernel that really changed must not widen the noise.
        spread = median(abs(each - self._common) for each in logs) if logs else 0.0
        self._least = max(log(MIN_RATIO), _MIN_DEVIATIONS * _NORMAL_FACTOR * spread)

    @property
    def ratio(self) -> float:
        """The median of the ratios of times after to times before."""
        return exp(self._common)

    def is_outlier(self, before: Integers, after: Integers) -> bool:
        """Whether a kernel differs from the others; its samples are sorted. False if there are too few calls."""
        if ranges_of(before, after) != "apart":
            return False
        log_ratio, scaled = _log_ratio(before, after), before * self.ratio
        # Apart also after the common drift is taken out.
        is_apart = bool(scaled[-1] < after[0] or after[-1] < scaled[0])
        return is_apart and abs(log_ratio) > log(MIN_RATIO) and abs(log_ratio - self._common) > self._least


def _log_ratio(before: Integers, after: Integers) -> float:
    return log(max(sorted_median(after), 1.0) / max(sorted_median(before), 1.0))


# --- times of transfers ---
# How much of each ran next to computation, and how much of it the device waited.
#
# On TPUs a transfer lasts from the begin of its start to the end of its done, which the device spends on other
# operations except for the start and the done themselves; a collective without a start is synchronous. On GPUs it is a
# kernel on a stream of its own. On CPUs it is synchronous.


_STARTS, _DONES = "-start", "-done"
# XFlow of tsl/profiler/utils/xplane_schema.h keeps the direction in the two low bits
_FLOW_DIRECTION_BITS: Final = 2


@dataclass(frozen=True, slots=True)
class TransferTime:
    """The transfers of one instruction: times in seconds, sums over `calls`.

    `operation` and `done` are indices into `Profile.operations`; `done` is `operation` if there is no done.
    `window` is the time from begin to end. In its part `exposed` no other operation ran, as the start and the done did.
    `idle` is the part of the rest of the window in which a TPU ran no operation at all.
    """

    operation: int
    done: int
    calls: int
    window: float
    exposed: float
    idle: float = 0.0

    @property
    def hidden(self) -> float:
        """The rest of the window, in which other operations ran unless the device was idle.

        >>> TransferTime(0, 1, 1, 5.0, 2.0).hidden
        3.0
        """
        return self.window - self.exposed


def transfer_times(profile: Profile) -> Sequence[TransferTime]:
    """The transfers that ran, in the order of `Profile.operations`."""
    match profile.platform:
        case "TPU":
            return sorted(_transfers_of_pairs(profile), key=lambda each: each.operation)
        case "GPU":
            return list(_transfers_of_streams(profile))
        case _:
            return list(_transfers_of_threads(profile))


def _transfers_of_pairs(profile: Profile) -> Iterator[TransferTime]:
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    by_operation = _rows_by_operation(profile)
    for number, each in enumerate(profile.operations):
        if _opcode_of(each) in COLLECTIVES:
            occupied = rows.durations_ps[by_operation[number]]
            # A collective without start and done keeps the device busy for all of its time.
            yield TransferTime(
                number, number, int(rows.counts[by_operation[number]].sum()), _seconds(occupied), _seconds(occupied)
            )
    paired_rows = []
    for start, dones in pairs_of(profile).items():
        begun, done = by_operation[start], np.concatenate([by_operation[each] for each in dones])
        columns = rows.devices[begun], rows.begins_ps[begun], rows.flows[begun]
        first, last = paired(*columns, rows.devices[done], ends[done], rows.flows[done])
        if len(first):
            paired_rows.append((start, dones[0], begun[first], done[last]))
    if not paired_rows:
        return
    begun, done = (np.concatenate([each[number] for each in paired_rows]) for number in (2, 3))
    window = np.maximum(ends[done] - rows.begins_ps[begun], 0)
    # Start and done occupy the device themselves, which is exposed in any case.
    occupied = np.minimum(rows.durations_ps[begun] + rows.durations_ps[done], window)
    idle = window.copy()
    for device, busy in enumerate(busy_of(rows)):
        on_device = np.flatnonzero(rows.devices[begun] == device)
        idle[on_device] -= busy.intervals.covered(rows.begins_ps[begun[on_device]], ends[done[on_device]])
    # Idle time cannot exceed what start and done leave.
    idle = np.clip(idle, 0, window - occupied)
    sums = np.add.reduceat(
        np.stack((window, occupied, idle)),
        np.cumsum([0, *(len(each[2]) for each in paired_rows[:-1])]),
        axis=1,
        dtype=np.float64,
    )
    for (start, end, calls, _), (window_seconds, exposed, idle_seconds) in zip(
        paired_rows, (sums.T * PS).tolist(), strict=True
    ):
        yield TransferTime(start, end, len(calls), window_seconds, exposed, idle=idle_seconds)


def pairs_of(profile: Profile) -> Mapping[int, Sequence[int]]:
    """The timed dones of each timed start, as indices of operations: by the module, else by their names."""
    number_of = {
        each.instruction: operation for operation, each in enumerate(profile.operations) if each.instruction is not None
    }
    dones_by_start: dict[int, list[int]] = {}
    for program in profile.programs:
        for pair in async_pairs(program.module).pairs if program.module is not None else ():
            dones = [number_of[done] for done in pair.dones if done in number_of]
            if pair.start in number_of and dones:
                dones_by_start[number_of[pair.start]] = dones
    unjoined = {
        (each.program, each.name): operation
        for operation, each in enumerate(profile.operations)
        if each.instruction is None
    }
    for (owner, name), operation in unjoined.items():
        # Names of pairs differ in `-start` and `-done` alone, as XLA makes them.
        head, dot, suffix = name.partition(".")
        done = unjoined.get((owner, head.removesuffix(_STARTS) + _DONES + dot + suffix))
        if head.endswith(_STARTS) and done is not None:
            dones_by_start[operation] = [done]
    return dict(sorted(dones_by_start.items()))


def paired(
    start_devices: Integers,
    begins: Integers,
    start_flows: Integers,
    done_devices: Integers,
    ends: Integers,
    done_flows: Integers,
) -> tuple[Integers, Integers]:
    """The places of the starts and of their dones: by flows if both have them, else in order on each device.

    >>> none = np.zeros(2, np.int64)
    >>> paired(none, np.array([0, 10]), none, none, np.array([5, 15]), none)[1].tolist()
    [0, 1]
    """
    starts, dones = _flow_keys(start_flows, done_flows)
    # First in, first out for each key: dones come in the order of their starts.
    open_starts: dict[tuple[int, int], list[int]] = {}
    events = sorted(
        [
            (time, 0, position, (device, flow))
            for position, (time, device, flow) in _numbered_events(begins, start_devices, starts)
        ]
        + [
            (time, 1, position, (device, flow))
            for position, (time, device, flow) in _numbered_events(ends, done_devices, dones)
        ]
    )
    first, last = [], []
    used_counts: dict[tuple[int, int], int] = {}
    for _, is_done, position, key in events:
        waiting = open_starts.setdefault(key, [])
        if not is_done:
            waiting.append(position)
        elif (place := used_counts.get(key, 0)) < len(waiting):
            used_counts[key] = place + 1
            first.append(waiting[place])
            last.append(position)
    return np.array(first, np.int64), np.array(last, np.int64)


def _numbered_events(times: Integers, devices: Integers, flows: Integers) -> Iterator[tuple[int, tuple[int, int, int]]]:
    return enumerate(zip(times.tolist(), devices.tolist(), flows.tolist(), strict=True))


def _flow_keys(starts: Integers, dones: Integers) -> tuple[Integers, Integers]:
    """Flows that are equal for a start and its done: without their direction if it is in them; zeros if unknown."""
    if (starts == NO_FLOW).any() or (dones == NO_FLOW).any():
        return np.zeros(len(starts), np.int64), np.zeros(len(dones), np.int64)
    # Some traces have one flow for both, others one for each with its direction in it.
    if np.isin(starts, dones).any():
        return starts, dones
    starts, dones = starts >> _FLOW_DIRECTION_BITS, dones >> _FLOW_DIRECTION_BITS
    if np.isin(starts, dones).any():
        return starts, dones
    return np.zeros(len(starts), np.int64), np.zeros(len(dones), np.int64)


def _transfers_of_streams(profile: Profile) -> Iterator[TransferTime]:
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    by_operation = _rows_by_operation(profile)
    exposed = rows.durations_ps.copy()
    chosen = [operation for operation, each in enumerate(profile.operations) if is_transfer(each)]
    if not chosen:
        return
    of_transfers = np.concatenate([by_operation[operation] for operation in chosen])
    for device in distinct_of(rows.devices[of_transfers])[0].tolist():
        on_device = rows.devices == device
        transfers_on_device = of_transfers[rows.devices[of_transfers] == device]
        for line in distinct_of(rows.lines[transfers_on_device])[0].tolist():
            on_line = transfers_on_device[rows.lines[transfers_on_device] == line]
            others = np.flatnonzero(on_device & (rows.lines != line))
            busy = union(rows.begins_ps[others], ends[others])
            # What runs on other streams of the device at the same time hides a transfer.
            exposed[on_line] -= busy.covered(rows.begins_ps[on_line], ends[on_line])
    weights = rows.counts if profile.call_weights is None else profile.call_weights
    for operation in chosen:
        own_rows = by_operation[operation]
        calls = round(float(weights[own_rows].sum()))
        window, alone = _seconds(rows.durations_ps[own_rows]), _seconds(exposed[own_rows])
        yield TransferTime(operation, operation, calls, window, alone)


def _transfers_of_threads(profile: Profile) -> Iterator[TransferTime]:
    rows = profile.occurrences
    by_operation = _rows_by_operation(profile)
    chosen = [operation for operation, each in enumerate(profile.operations) if is_transfer(each)]
    exposed = _exposed_on_threads(profile, [by_operation[operation] for operation in chosen])
    for operation in chosen:
        own_rows = by_operation[operation]
        window, alone = _seconds(rows.durations_ps[own_rows]), _seconds(exposed[own_rows])
        weights = rows.counts if profile.call_weights is None else profile.call_weights
        yield TransferTime(operation, operation, round(float(weights[own_rows].sum())), window, alone)


def _exposed_on_threads(profile: Profile, transfers: Sequence[Integers]) -> Floats:
    """The time of transfers on CPUs, all of which is exposed: time that several of a device share is divided."""
    rows, ends = profile.occurrences, profile.occurrences.ends_ps
    exposed = rows.durations_ps.astype(np.float64)
    every = np.concatenate([np.zeros(0, np.int64), *transfers])
    for device in range(len(profile.devices)):
        on_device = every[rows.devices[every] == device]
        # Several threads of one device may be in one collective: their common time counts once.
        if union(rows.begins_ps[on_device], ends[on_device]).length < rows.durations_ps[on_device].sum():
            exposed[on_device] = divided(rows.begins_ps[on_device], ends[on_device])
    return exposed


def is_transfer(operation: Operation) -> bool:
    """Whether an operation is a collective or starts an asynchronous operation."""
    opcode = _opcode_of(operation)
    return opcode in COLLECTIVES or opcode.endswith(_STARTS)


def _opcode_of(operation: Operation) -> str:
    """The opcode of an operation, which its name tells if its instruction is unknown.

    >>> _opcode_of(Operation("all-reduce-start.3", None, None))
    'all-reduce-start'
    """
    return operation.name.partition(".")[0] if operation.instruction is None else operation.instruction.opcode


def _rows_by_operation(profile: Profile) -> Sequence[Integers]:
    order = np.argsort(profile.codes, kind="stable")
    bounds = np.searchsorted(profile.codes[order], np.arange(1, len(profile.operations)))
    return np.split(order, bounds)


def _seconds(times: Integers | Floats) -> float:
    return float(times.sum()) * PS


# --- rows of operations ---


def rows_of(profile: Profile, operations: Iterable[int]) -> Integers:
    """The indices of the rows of operations, which are given as indices into `Profile.operations`, in their order."""
    chosen = np.zeros(len(profile.operations), np.bool_)
    chosen[list(operations)] = True
    return np.flatnonzero(chosen[profile.codes]).astype(np.int64)


def sums_by(profile: Profile, groups: Integers, count: int, amounts: Sequence[float]) -> Sequence[float]:
    """For each of `count` groups, the sum of the amounts of the operations of its rows; rows below 0 are left out.

    `amounts[i]` is that of one call of `Profile.operations[i]`.
    """
    is_kept = groups >= 0
    calls = profile.occurrences.counts if profile.call_weights is None else profile.call_weights
    # Amounts are those of one call.
    weights = np.array(amounts, np.float64)[profile.codes[is_kept]] * calls[is_kept]
    result: list[float] = np.bincount(groups[is_kept], weights, count).tolist()
    return result


# --- calls of one operation ---


MIN_EVENTS: Final = 10
"""The fewest events whose times can be said to be of two modes."""
_MIN_MODE_SHARE: Final = 0.15
"""The least part of the events that is a mode."""
_LARGE_SAMPLE: Final = 20
"""From so many events on, the gap need not be twice the spread, and the tails of a mode of so many do not count."""
_TAIL_DIVISOR: Final = 10
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
        seconds: list[float] = (self.profile.occurrences.durations_ps[self.rows] * PS).tolist()
        return seconds

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
    # Otsu's threshold on logarithms: the cut with the largest variance between both parts.
    between = below * (count - below) * (sums[:-1] / below - (sums[-1] - sums[:-1]) / (count - below)) ** 2
    cut = int(np.argmax(between)) + 1
    # Four at least, as two or three outliers are no mode.
    if min(cut, count - cut) < max(_MIN_MODE_SHARE * count, 4):
        return None
    fast, slow = times[:cut], times[cut:]
    (low, high), (slow_low, slow_high) = _spread(fast), _spread(slow)
    gap = slow_low - high
    # Small samples need a gap of twice the spread, large ones their spread once.
    if slow_low < MIN_RATIO * high or gap <= (1 if count >= _LARGE_SAMPLE else 2) * max(
        high - low, slow_high - slow_low
    ):
        return None
    return Modes(len(fast), float(np.median(fast)), len(slow), float(np.median(slow)))


def _spread(times: NDArray[np.float64]) -> tuple[float, float]:
    out = len(times) // _TAIL_DIVISOR if len(times) >= _LARGE_SAMPLE else 0
    return float(times[out]), float(times[-1 - out])


def histogram(seconds: Sequence[float], bins: int) -> Sequence[int]:
    """The number of times in each of `bins` equal intervals from the least to the greatest.

    >>> histogram([1.0, 1.1, 3.0], 4)
    [2, 0, 0, 1]
    """
    least, greatest = min(seconds), max(seconds)
    if least == greatest:
        return [len(seconds)]
    counts: list[int] = np.histogram(np.array(seconds), bins, (least, greatest))[0].tolist()
    return counts


def neighbors(calls: Calls) -> Sequence[Neighbor]:
    """What ran next on the same line, before and after the events, the most frequent first; not what runs inside."""
    gaps_of: dict[tuple[bool, int], list[int]] = {}
    occurrences = calls.profile.occurrences
    lines = occurrences.lines[calls.rows]
    for line in np.unique(lines).tolist():
        on_line = np.flatnonzero(occurrences.lines == line)
        for is_before, code, gap in _beside(calls, calls.rows[lines == line], on_line):
            gaps_of.setdefault((is_before, code), []).append(gap)
    operations = calls.profile.operations
    listed = (
        Neighbor(is_before, operations[code], len(gaps), float(np.median(gaps)) * PS)
        for (is_before, code), gaps in gaps_of.items()
    )
    return sorted(listed, key=lambda each: (not each.is_before, -each.events, each.operation.name))


def _beside(calls: Calls, rows: Integers, on_line: Integers) -> Iterator[tuple[bool, int, int]]:
    """For events of one line: whether a row is before or after, its operation, and the gap."""
    occurrences, codes = calls.profile.occurrences, calls.profile.codes
    begins, ends = occurrences.begins_ps, occurrences.ends_ps
    # Of several that end together the shortest is next to it.
    by_end = on_line[np.lexsort((-begins[on_line], ends[on_line]))]
    places = np.searchsorted(ends[by_end], begins[rows], side="right") - 1
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        if place >= 0:
            before = int(by_end[place])
            yield True, int(codes[before]), int(begins[row] - ends[before])
    by_begin = on_line[np.lexsort((-ends[on_line], begins[on_line]))]
    places = np.searchsorted(begins[by_begin], ends[rows], side="left")
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        if place < len(by_begin):
            after = int(by_begin[place])
            yield False, int(codes[after]), int(begins[after] - ends[row])


# --- events of one step ---


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of a device: a thread or a stream."""

    device: str
    line: str


@dataclass(frozen=True, slots=True)
class Slot:
    """One event: its lane, its operation, and its begin after that of the window and its duration, in picoseconds."""

    lane: int
    operation: Operation
    begin_ps: int
    duration_ps: int


@dataclass(frozen=True, slots=True)
class Window:
    """The events from `begin_ps` to `end_ps` of the trace, in the order of time, with the lanes that have any."""

    profile: Profile
    begin_ps: int
    end_ps: int
    rows: Integers
    lanes: Sequence[Lane]
    lane_codes: Integers

    @property
    def seconds(self) -> float:
        """The length of the window."""
        return (self.end_ps - self.begin_ps) * PS

    def slots(self) -> Sequence[Slot]:
        """The events, of which those that begin earlier or end later are cut."""
        occurrences, rows = self.profile.occurrences, self.rows
        begins = np.maximum(occurrences.begins_ps[rows], self.begin_ps)
        ends = np.minimum(occurrences.ends_ps[rows], self.end_ps)
        columns = self.lane_codes, self.profile.codes[rows], begins - self.begin_ps, ends - begins
        operations = self.profile.operations
        listed = zip(*(each.tolist() for each in columns), strict=True)
        return [Slot(lane, operations[code], begin, duration) for lane, code, begin, duration in listed]

    def busy(self, lane: int, parts: int) -> Sequence[float]:
        """The busy fraction of each of `parts` equal parts of the window, in a lane."""
        chosen = self.rows[self.lane_codes == lane]
        occurrences = self.profile.occurrences
        running = union(occurrences.begins_ps[chosen], occurrences.ends_ps[chosen])
        edges = np.linspace(self.begin_ps, self.end_ps, parts + 1).astype(np.int64)
        lengths = np.maximum(edges[1:] - edges[:-1], 1)
        fractions: list[float] = (running.covered(edges[:-1], edges[1:]) / lengths).tolist()
        return fractions


def window_of(profile: Profile, step: int | None) -> Window:
    """The window of a step, as an index into `Profile.steps`, with all that ran in it; of the trace without one.

    It begins with the step or with the first event that belongs to it, and ends with the last of them.
    """
    occurrences = profile.occurrences
    shared = _is_of_first_host(profile)
    in_step = shared if step is None else shared & (profile.step_codes == step)
    # Steps are by the clock of the host, operations may be by that of the device: both bound the window.
    bounds = [] if step is None else [profile.steps[step].begin_ps, profile.steps[step].end_ps]
    begins = occurrences.begins_ps[in_step]
    begin = min([*bounds[:1], *([int(begins.min())] if len(begins) else [])], default=0)
    end = max([*bounds[1:], *([int(occurrences.ends_ps[in_step].max())] if len(begins) else [])], default=0)
    rows = np.flatnonzero(in_step | (shared & (occurrences.begins_ps < end) & (occurrences.ends_ps > begin)))
    # The longest first, so that what it contains is drawn above it.
    rows = rows[np.lexsort((-occurrences.durations_ps[rows], occurrences.begins_ps[rows]))].astype(np.int64)
    pairs = np.stack((occurrences.devices[rows], occurrences.lines[rows]))
    distinct, codes = np.unique(pairs, axis=1, return_inverse=True)
    lanes = [Lane(occurrences.device_names[a], occurrences.line_names[b]) for a, b in distinct.T.tolist()]
    return Window(profile, begin, end, rows, lanes, codes.reshape(-1).astype(np.int64))


def host_of(profile: Profile) -> str:
    """The host whose devices a window shows, as clocks of hosts differ; empty if there is only one.

    The names of devices begin with their host.
    """
    # Clocks of several hosts cannot be compared.
    names = profile.occurrences.device_names
    return names[0].rpartition(" ")[0] if len(profile.traces) > 1 and names else ""


def _is_of_first_host(profile: Profile) -> NDArray[np.bool_]:
    """Whether each row is of a device of the first host."""
    host = host_of(profile)
    is_of_host = [not host or name.rpartition(" ")[0] == host for name in profile.occurrences.device_names]
    return np.array(is_of_host, np.bool_)[profile.occurrences.devices]


# --- tiles that slices touch ---
# Memory is read and written in whole tiles.
#
# A slice of one row of an array in tiles of 8 rows touches as many bytes as a slice of 8 rows.


@dataclass(frozen=True, slots=True)
class TouchedTiles:
    """The tiles of `array` that a slice of `sizes` touches, at the best offset; `is_written` for updates.

    `counts` are the tiles along the physical dimensions, the most major first.
    """

    instruction: Instruction
    array: ArrayShape
    slice: ArrayShape
    is_written: bool
    counts: tuple[int, ...]
    tile: tuple[int, ...]

    @property
    def tile_bytes(self) -> int:
        """The size of one tile."""
        return -(-prod(self.tile) * self.array.element_bits // 8)

    @property
    def bytes(self) -> int:
        """The bytes of all touched tiles, counted once."""
        return prod(self.counts) * self.tile_bytes

    @property
    def data_bytes(self) -> int:
        """The bytes of the slice itself."""
        return self.slice.logical_bytes

    @property
    def used(self) -> tuple[tuple[int, int], ...]:
        """For each dimension of the tile that the slice fills in part: the used elements, and those of the tile."""
        order = self.array.layout.minor_to_major[::-1]
        sizes = [self.slice.sizes[d] for d in order][len(order) - len(self.tile) :]
        return tuple((size, part) for size, part in zip(sizes, self.tile, strict=True) if size < part)


def touched_tiles(instruction: Instruction) -> Sequence[TouchedTiles]:
    """The tiles that the dynamic slices and updates of an instruction, or inside a fusion, touch.

    Empty for arrays without tiles, and for slices that use all bytes of the tiles.

    >>> from hlo_cli import parse_module
    >>> text = "a = f32[16,7168,512]{2,0,1:T(8,128)} parameter(0)  u = f32[1,7168,512]{2,1,0} parameter(1)"
    >>> text += "  i = s32[] parameter(2)  "
    >>> text += "ROOT r = f32[16,7168,512]{2,0,1:T(8,128)} dynamic-update-slice(a, u, i, i, i)"
    >>> [found] = touched_tiles(parse_module(f"HloModule m  ENTRY e {{ {text} }}").entry.root)
    >>> found.counts, found.tile_bytes, found.bytes >> 20, found.data_bytes >> 20, found.used
    ((7168, 1, 4), 4096, 112, 14, ((1, 8),))
    """
    listed: Iterator[Instruction] = iter((instruction,))
    if instruction.opcode == opcodes.FUSION:
        listed = (inner for body in instruction.called_computations for inner in body.instructions)
    touched = (tiles for each in listed if (tiles := _tiles_of_slice(each)) is not None)
    return tuple(each for each in touched if each.bytes > each.data_bytes)


def _tiles_of_slice(each: Instruction) -> TouchedTiles | None:
    if each.opcode not in (opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE) or len(each.operands) < 2:
        return None
    is_written = each.opcode == opcodes.DYNAMIC_UPDATE_SLICE
    array, part = each.operand_shape(0), each.operand_shape(1) if is_written else each.shape
    if not isinstance(array, ArrayShape) or not isinstance(part, ArrayShape) or part.rank != array.rank:
        return None
    tile = array.layout.tiles[0].dimensions if array.layout.tiles else ()
    # Tiles that combine dimensions are not counted along single ones.
    if not tile or COMBINE in tile or len(tile) > array.rank:
        return None
    sizes = [part.sizes[d] for d in array.layout.minor_to_major[::-1]]
    tiled = len(sizes) - len(tile)
    counts = (*sizes[:tiled], *(-(-size // length) for size, length in zip(sizes[tiled:], tile, strict=True)))
    return TouchedTiles(each, array, part, is_written, counts, tile)
