"""How long a step takes at least on a chip, and how much of it is waiting for transfers.

The main program runs its kernels one after the other, each as long as its roofline says. A transfer begins when the
program starts it, or when those that were started before it on the same wire have ended: a wire carries one at a time,
so that no second of work hides two transfers of the same wire. What is not done when the program asks for it is waited
for. So the step is the work, and the waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from math import isclose

from hlo_cli.analysis.cost.kernel_costs import assumed_execution_counts, execution_counts
from hlo_cli.analysis.cost.roofline import Roofline, compute_type, roofline
from hlo_cli.analysis.dataflow.flat_schedule import Run
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, blocking_pair
from hlo_cli.analysis.schedule.simulation import Events, ScheduleSimulation, simulate
from hlo_cli.analysis.schedule.transfer_time import TransferTime, transfer_time
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class FlightTime:
    """How long a pair takes: once on its wire, and in all its times together.

    `between_seconds` is the work that runs once between its start and what waits for it. `total_seconds` is what all
    times take, of which `exposed_seconds` are waited for; all are None where nobody knows how fast the wire is.
    """

    transfer: TransferTime
    between_seconds: float
    total_seconds: float | None
    exposed_seconds: float | None

    @property
    def is_known(self) -> bool:
        """Whether anybody knows how long it takes."""
        return self.total_seconds is not None

    @property
    def hidden_seconds(self) -> float | None:
        """What is not waited for: other work runs meanwhile, or the program waits for something else."""
        if self.total_seconds is None or self.exposed_seconds is None:
            return None
        return self.total_seconds - self.exposed_seconds


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The times of a step: of each flight of an overlap in turn, of kernels, of collectives that are not asynchronous.

    `seconds` is the whole step, `work_seconds` what its kernels take; loops count as often as they run, one round a
    time where their text does not tell. `unknown_kernels` are those of which nobody knows what they cost, or how fast
    the chip is; `unknown_rounds` the loops of which nobody knows how often they run. What of all this is unknown takes
    no time: then the step takes longer, and its work may. `playback` has the times of each step of the schedule.
    `unknown_transfers` are those that nobody knows the time of, `unknown_waits` what waits for them.
    """

    throughput: ChipSpec
    seconds: float
    work_seconds: float
    flights: tuple[FlightTime, ...]
    blocking: Mapping[Instruction, TransferTime]
    blocking_seconds: Mapping[Instruction, float | None]
    kernels: Mapping[Instruction, Roofline]
    unknown_kernels: int
    playback: ScheduleSimulation
    unknown_rounds: int = 0
    unknown_transfers: frozenset[Instruction] = frozenset()
    unknown_waits: frozenset[Instruction] = frozenset()

    @property
    def exposed_seconds(self) -> float:
        """All that is known to be waited for, but for what is not asynchronous."""
        return known_part(flight.exposed_seconds for flight in self.flights)

    @property
    def unknown(self) -> frozenset[Instruction]:
        """What nobody knows the time of: kernels, transfers that start, and those that are not asynchronous."""
        kernels = (each for each, found in self.kernels.items() if found.bound == "unknown")
        return frozenset((*kernels, *self.unknown_transfers))

    @property
    def is_work_known(self) -> bool:
        """Whether the time of every kernel, and the rounds of every loop, are known."""
        return not self.unknown_kernels and not self.unknown_rounds

    @property
    def is_known(self) -> bool:
        """Whether all of the step is known; if not, it takes at least what it is said to."""
        return self.is_work_known and not self.unknown_transfers

    @property
    def least_seconds(self) -> float | None:
        """The step, or the part of it that is known; None where that is nothing."""
        return self.seconds if self.seconds or self.is_known else None


def known_part(times: Iterable[float | None]) -> float:
    """The sum of the times that are known.

    >>> known_part([1.5, None, 2.0])
    3.5
    """
    return sum(seconds for seconds in times if seconds is not None)


def whole(times: Iterable[float | None]) -> float | None:
    """The sum of times, None if any of them is not known.

    >>> whole([1.5, 2.0]), whole([1.5, None]), whole([])
    (3.5, None, 0.0)
    """
    total = 0.0
    for seconds in times:
        if seconds is None:
            return None
        total += seconds
    return total


def path_seconds(step: TimeEstimate, overlap: OverlapAnalysis) -> Mapping[Instruction, float]:
    """How long each instruction of a schedule takes by itself, for paths through those that wait for each other.

    A transfer takes its time where it starts, less the work of kernels that share in it; a call or loop takes what all
    that it runs does. What nobody knows the time of takes none.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> overlap = analyze_overlap(parse_module("r = f32[2048] add(f32[2048] a, f32[2048] b)"))
    >>> found = path_seconds(estimate_time(overlap, chip_spec("v5e")), overlap)
    >>> {instruction.name: f"{seconds:.1e}" for instruction, seconds in found.items()}
    {'r': '3.0e-08'}
    """
    found = {kernel: time.seconds for kernel, time in step.kernels.items()}
    found |= {each: transfer.seconds or 0.0 for each, transfer in step.blocking.items()}
    for flight, time in zip(overlap.flights, step.flights, strict=True):
        sharing = sum(step.kernels[each].seconds for each in flight.pair.updates if each in step.kernels)
        found[flight.pair.start] = max((time.transfer.seconds or 0.0) - sharing, 0.0)
    return found | dict(step.playback.spent_seconds)


def estimate_time(overlap: OverlapAnalysis, throughput: ChipSpec) -> TimeEstimate:
    """How long the schedule of an overlap takes on a chip.

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
    >>> found.seconds, found.work_seconds, found.exposed_seconds
    (2.0, 2.0, 0.0)
    >>> flight, = found.flights
    >>> flight.transfer.wire, flight.transfer.seconds, flight.hidden_seconds
    ('memory', 2.0, 2.0)
    """
    module = overlap.module
    times, counted = execution_counts(overlap.runs), assumed_execution_counts(overlap.runs)
    kernels, unknown = _kernels(overlap, throughput)
    seconds_of = partial(transfer_time, throughput=throughput, module=module)
    transfers = [seconds_of(flight.pair, flight.moved_bytes) for flight in overlap.flights]
    blocking = {
        each: seconds_of(blocking_pair(each), size // (times.get(each.computation) or 1))
        for each, size in overlap.blocking.items()
    }
    played = simulate(overlap, _events(overlap, kernels, transfers, blocking))
    flights = tuple(
        _flight_time(transfer, counted[flight.pair.start.computation], played, at)
        for at, (flight, transfer) in enumerate(zip(overlap.flights, transfers, strict=True))
    )
    totals = {
        each: None if found.seconds is None else found.seconds * float(counted[each.computation])
        for each, found in blocking.items()
    }
    endless = sum(_has_work(run, overlap) for run in overlap.runs if times[run.computation] is None)
    unknown_blocking = {each for each, found in blocking.items() if found.seconds is None}
    unknown_pairs = [flight.pair for flight, time in zip(overlap.flights, flights, strict=True) if not time.is_known]
    starts = frozenset((*unknown_blocking, *(pair.start for pair in unknown_pairs)))
    ends = frozenset((*unknown_blocking, *(done for pair in unknown_pairs for done in pair.dones)))
    spent = played.seconds, played.work_seconds
    return TimeEstimate(throughput, *spent, flights, blocking, totals, kernels, unknown, played, endless, starts, ends)


def _has_work(run: Run, overlap: OverlapAnalysis) -> bool:
    """Whether a computation of a schedule runs anything that takes time."""
    return any(each in overlap.costs for each in overlap.sequence[run.start : run.end])


def _kernels(overlap: OverlapAnalysis, throughput: ChipSpec) -> tuple[Mapping[Instruction, Roofline], int]:
    """What each kernel of the schedule takes, and of how many nobody knows what they cost."""
    costs = {kernel: cost for kernel, cost in overlap.costs.items() if kernel not in overlap.blocking}
    found = {kernel: roofline(cost, throughput, compute_type(kernel)) for kernel, cost in costs.items()}
    return found, sum(each.bound == "unknown" for each in found.values())


def _events(
    overlap: OverlapAnalysis,
    kernels: Mapping[Instruction, Roofline],
    transfers: list[TransferTime],
    blocking: Mapping[Instruction, TransferTime],
) -> Events:
    """What happens at each step of the schedule."""
    positions = overlap.positions
    launches = {flight.bound_step: at for at, flight in enumerate(overlap.flights)}
    landings: dict[int, list[int]] = {}
    for at, flight in enumerate(overlap.flights):
        for done in flight.pair.dones:
            if done in positions:
                landings.setdefault(positions[done], []).append(at)
    return Events(
        {positions[kernel]: found.seconds for kernel, found in kernels.items()},
        launches,
        landings,
        {positions[each]: found for each, found in blocking.items()},
        transfers,
        frozenset(at for at, flight in enumerate(overlap.flights) if flight.is_sync),
    )


def _flight_time(transfer: TransferTime, times: int, played: ScheduleSimulation, at: int) -> FlightTime:
    if transfer.seconds is None:
        return FlightTime(transfer, played.between_seconds[at], None, None)
    total = transfer.seconds * times
    exposed = played.exposed_seconds[at]
    is_all = exposed >= total or isclose(exposed, total)  # the clock rounds
    return FlightTime(transfer, played.between_seconds[at], total, total if is_all else exposed)
