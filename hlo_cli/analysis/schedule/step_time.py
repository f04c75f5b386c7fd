"""Estimated duration of one execution of a module on a chip, and the exposed part of its transfers.

Kernels of the main program run one after the other, each for its predicted time (`kernel_time/`). A transfer
begins at its start, or at the end of the previous transfer on the same link, because a link carries one transfer at a
time. Transfers in flight at their done are waited for. The duration is compute plus wait time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from math import isclose

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.roofline import Roofline
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, executions_of
from hlo_cli.analysis.dataflow.flat_schedule import Run
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.estimate import NO_TIME, Estimate
from hlo_cli.analysis.kernel_time.predicted_time import KernelTimes
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, synchronous_pair
from hlo_cli.analysis.schedule.simulation import Events, ScheduleSimulation, simulate
from hlo_cli.analysis.schedule.transfer_time import TransferTime, estimated_transfer_time
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class IntervalTime:
    """The duration of an async pair: on its link, and of all executions together.

    `compute_seconds` is the compute between start and done of one execution. `exposed_seconds` is the part of
    `total_seconds` that is waited for. Both are None if the bandwidth is unknown.
    """

    transfer: TransferTime
    compute_seconds: float
    total_seconds: float | None
    exposed_seconds: float | None

    @property
    def is_known(self) -> bool:
        """Whether the duration is known."""
        return self.total_seconds is not None

    @property
    def overlapped_seconds(self) -> float | None:
        """The overlapped part of `total_seconds`."""
        if self.total_seconds is None or self.exposed_seconds is None:
            return None
        return self.total_seconds - self.exposed_seconds


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The estimated duration of one execution of a module.

    `intervals` are the times of the async intervals in order, `synchronous` those of synchronous transfers. `seconds`
    is the whole duration, `compute_seconds` its compute. Loops count with their trip counts, or 1 if unknown:
    `unknown_trip_counts` is the number of computations in such loops. `unknown_kernels` is the number of kernels with
    unknown cost or rate, `unknown_transfers` are transfers of unknown duration, `unknown_waits` the instructions that
    wait for them. Unknown transfers count 0, so the total is too low. `kernels` and `predicted` are the rooflines and
    the predicted times of one run of each kernel. `simulation` has the times of each step. `launch_seconds` is the part
    of the compute in which kernels are launched.
    """

    throughput: ChipSpec
    seconds: float
    compute_seconds: float
    intervals: tuple[IntervalTime, ...]
    synchronous: Mapping[Instruction, TransferTime]
    synchronous_seconds: Mapping[Instruction, float | None]
    kernels: Mapping[Instruction, Roofline]
    unknown_kernels: int
    simulation: ScheduleSimulation
    unknown_trip_counts: int = 0
    unknown_transfers: frozenset[Instruction] = frozenset()
    unknown_waits: frozenset[Instruction] = frozenset()
    predicted: Mapping[Instruction, Estimate] = field(default_factory=dict)
    launch_seconds: float = 0.0

    @property
    def exposed_seconds(self) -> float:
        """The known exposed time of async transfers."""
        return sum_known(interval.exposed_seconds for interval in self.intervals)

    @property
    def unknown(self) -> frozenset[Instruction]:
        """The instructions of unknown duration: kernels, starts of transfers, and synchronous transfers."""
        kernels = (each for each, found in self.kernels.items() if found.bound == "unknown")
        return frozenset((*kernels, *self.unknown_transfers))

    @property
    def is_compute_known(self) -> bool:
        """Whether all kernel durations and trip counts are known."""
        return not self.unknown_kernels and not self.unknown_trip_counts

    @property
    def is_known(self) -> bool:
        """Whether the whole duration is known; if not, `seconds` is the known part."""
        return self.is_compute_known and not self.unknown_transfers

    @property
    def least_seconds(self) -> float | None:
        """The known part of the duration; None if nothing is known."""
        return self.seconds if self.seconds or self.is_known else None


def sum_known(times: Iterable[float | None]) -> float:
    """Returns the sum of the known times.

    >>> sum_known([1.5, None, 2.0])
    3.5
    """
    return sum(seconds for seconds in times if seconds is not None)


def sum_if_known(times: Iterable[float | None]) -> float | None:
    """Returns the sum of times, None if any is unknown.

    >>> sum_if_known([1.5, 2.0]), sum_if_known([1.5, None]), sum_if_known([])
    (3.5, None, 0.0)
    """
    total = 0.0
    for seconds in times:
        if seconds is None:
            return None
        total += seconds
    return total


def path_seconds(step: TimeEstimate, overlap: OverlapAnalysis) -> Mapping[Instruction, float]:
    """Returns the duration of each instruction on its own, as weights for `critical_path`.

    A transfer counts at its start, less the compute of kernels that are part of it. A call or loop counts with all
    that it executes. Unknown durations count 0.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> overlap = analyze_overlap(parse_module("r = f32[2048] add(f32[2048] a, f32[2048] b)"))
    >>> found = path_seconds(estimate_time(overlap, chip_spec("v5e")), overlap)
    >>> {instruction.name: f"{seconds:.1e}" for instruction, seconds in found.items()}
    {'r': '3.0e-08'}
    """
    found = {kernel: time.seconds for kernel, time in step.predicted.items()}
    found |= {each: transfer.seconds or 0.0 for each, transfer in step.synchronous.items()}
    for interval, time in zip(overlap.intervals, step.intervals, strict=True):
        sharing = sum(step.predicted[each].seconds for each in interval.pair.updates if each in step.predicted)
        found[interval.pair.start] = max((time.transfer.seconds or 0.0) - sharing, 0.0)
    return found | dict(step.simulation.spent_seconds)


def estimate_time(overlap: OverlapAnalysis, throughput: ChipSpec, *, by_roofline: bool = False) -> TimeEstimate:
    """Estimates the duration of a schedule on a chip; `by_roofline` without XLA's model of GPU kernels.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import Rate, ChipSpec
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[100] parameter(0)
    ...   s = (f32[100], f32[100], u32[]) copy-start(p)
    ...   n = f32[100] negate(p)
    ...   ROOT d = f32[100] copy-done(s) }'''
    >>> slow = ChipSpec("slow", {"f32": Rate(100.0, "")}, Rate(400.0, ""))
    >>> found = estimate_time(analyze_overlap(parse_module(text)), slow)
    >>> found.seconds, found.compute_seconds, found.exposed_seconds
    (2.0, 2.0, 0.0)
    >>> interval, = found.intervals
    >>> interval.transfer.link, interval.transfer.seconds, interval.overlapped_seconds
    ('memory', 2.0, 2.0)
    """
    return computed_once(_estimate, overlap, throughput, by_roofline=by_roofline)


def events_of(
    overlap: OverlapAnalysis,
    kernels: Mapping[Instruction, Estimate],
    transfers: list[TransferTime],
    synchronous: Mapping[Instruction, TransferTime],
) -> Events:
    """Returns the events at each step of the schedule, from the times of kernels and transfers."""
    positions = overlap.positions
    starts_at = {interval.bound_step: at for at, interval in enumerate(overlap.intervals)}
    completions: dict[int, list[int]] = {}
    for at, interval in enumerate(overlap.intervals):
        for done in interval.pair.dones:
            if done in positions:
                completions.setdefault(positions[done], []).append(at)
    return Events(
        {positions[kernel]: found.seconds for kernel, found in kernels.items()},
        starts_at,
        completions,
        {positions[each]: found for each, found in synchronous.items()},
        transfers,
        frozenset(at for at, interval in enumerate(overlap.intervals) if interval.is_sync),
    )


def _estimate(overlap: OverlapAnalysis, throughput: ChipSpec, *, by_roofline: bool) -> TimeEstimate:
    module = overlap.module
    found = executions_of(module)
    executions = {run.computation: found.get(run.computation, NO_EXECUTIONS) for run in overlap.runs}
    kernels, predicted = _kernels(overlap, throughput, by_roofline=by_roofline)
    unknown = sum(each.bound == "unknown" for each in kernels.values())
    seconds_of = partial(estimated_transfer_time, chip=throughput, module=module)
    transfers = [seconds_of(interval.pair, interval.moved_bytes) for interval in overlap.intervals]
    synchronous = {
        each: seconds_of(synchronous_pair(each), size // (executions[each.computation].count or 1))
        for each, size in overlap.synchronous.items()
    }
    simulated = simulate(overlap, events_of(overlap, predicted, transfers, synchronous))
    intervals = tuple(
        _interval_time(transfer, interval.executions.count, simulated, at)
        for at, (interval, transfer) in enumerate(zip(overlap.intervals, transfers, strict=True))
    )
    totals = {
        each: None if transfer.seconds is None else transfer.seconds * float(executions[each.computation].count)
        for each, transfer in synchronous.items()
    }
    unknown_loops = sum(_has_work(run, overlap) for run in overlap.runs if not executions[run.computation].is_known)
    unknown_synchronous = {each for each, transfer in synchronous.items() if transfer.seconds is None}
    unknown_pairs = [
        interval.pair for interval, time in zip(overlap.intervals, intervals, strict=True) if not time.is_known
    ]
    starts = frozenset((*unknown_synchronous, *(pair.start for pair in unknown_pairs)))
    ends = frozenset((*unknown_synchronous, *(done for pair in unknown_pairs for done in pair.dones)))
    spent = simulated.seconds, simulated.compute_seconds
    return TimeEstimate(
        throughput,
        *spent,
        intervals,
        synchronous,
        totals,
        kernels,
        unknown,
        simulated,
        unknown_loops,
        starts,
        ends,
        predicted,
        sum(found.launch_seconds * executions[each.computation].count for each, found in predicted.items()),
    )


def _has_work(run: Run, overlap: OverlapAnalysis) -> bool:
    """Returns whether a computation executes any kernels."""
    return any(each in overlap.costs for each in overlap.sequence[run.start : run.end])


def _kernels(
    overlap: OverlapAnalysis, throughput: ChipSpec, *, by_roofline: bool
) -> tuple[Mapping[Instruction, Roofline], Mapping[Instruction, Estimate]]:
    """Returns the roofline and the predicted time of each kernel."""
    times = KernelTimes(throughput, by_roofline=by_roofline, module=overlap.module)
    rooflines: dict[Instruction, Roofline] = {}
    predicted: dict[Instruction, Estimate] = {}
    for kernel, cost in overlap.costs.items():
        if kernel not in overlap.synchronous:
            found, estimate, _ = times.predict(kernel, cost)
            rooflines[kernel] = replace(found, bound="free") if estimate is NO_TIME else found
            predicted[kernel] = estimate
    return rooflines, predicted


def _interval_time(transfer: TransferTime, times: int, simulated: ScheduleSimulation, at: int) -> IntervalTime:
    """Returns the duration of an async pair."""
    if transfer.seconds is None:
        return IntervalTime(transfer, simulated.interval_compute_seconds[at], None, None)
    total = transfer.seconds * times
    exposed = simulated.exposed_seconds[at]
    is_all = exposed >= total or isclose(exposed, total)  # rounding errors of the clock
    return IntervalTime(transfer, simulated.interval_compute_seconds[at], total, total if is_all else exposed)
