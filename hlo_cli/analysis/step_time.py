"""How long a step takes at least on a chip, and how much of it is waiting for transfers.

The main program runs its kernels one after the other, each as long as its roofline says. A transfer begins when the
program starts it, or when those that were started before it on the same wire have ended: a wire carries one at a time,
so that no second of work hides two transfers of the same wire. What is not done when the program asks for it is waited
for. So the step is the work, and the waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import isclose

from hlo_cli.analysis.async_overlap import Overlap, blocking_pair
from hlo_cli.analysis.playback import Events, Playback, play
from hlo_cli.analysis.roofline import Roofline, calculating_type, roofline
from hlo_cli.analysis.throughput import Throughput
from hlo_cli.analysis.transfer_time import TransferTime, transfer_time
from hlo_cli.analysis.work import times_counted, times_run
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
    def hidden_seconds(self) -> float | None:
        """What is not waited for: other work runs meanwhile, or the program waits for something else."""
        if self.total_seconds is None or self.exposed_seconds is None:
            return None
        return self.total_seconds - self.exposed_seconds


@dataclass(frozen=True, slots=True)
class StepTime:
    """The times of a step: of each flight of an overlap in turn, of kernels, of collectives that are not asynchronous.

    `seconds` is the whole step, `work_seconds` what its kernels take; loops count as often as they run, one round a
    time where their text does not tell. `unknown_kernels` are those of which nobody knows what they cost. `playback`
    has the times of each step of the schedule.
    """

    throughput: Throughput
    seconds: float
    work_seconds: float
    flights: tuple[FlightTime, ...]
    blocking: Mapping[Instruction, TransferTime]
    blocking_seconds: Mapping[Instruction, float]
    kernels: Mapping[Instruction, Roofline]
    unknown_kernels: int
    playback: Playback

    @property
    def exposed_seconds(self) -> float:
        """All that is waited for, but for what is not asynchronous."""
        return sum(flight.exposed_seconds or 0.0 for flight in self.flights)


def path_seconds(step: StepTime, overlap: Overlap) -> Mapping[Instruction, float]:
    """How long each instruction of a schedule takes by itself, for paths through those that wait for each other.

    A transfer takes its time where it starts, less the work of kernels that share in it; a call or loop takes what all
    that it runs does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.async_overlap import overlap_of
    >>> from hlo_cli.analysis.throughput import throughput_of
    >>> overlap = overlap_of(parse_module("r = f32[2048] add(f32[2048] a, f32[2048] b)"))
    >>> found = path_seconds(step_time_of(overlap, throughput_of("v5e")), overlap)
    >>> {instruction.name: f"{seconds:.1e}" for instruction, seconds in found.items()}
    {'r': '3.0e-08'}
    """
    found = {kernel: time.seconds for kernel, time in step.kernels.items()}
    found |= {each: transfer.seconds or 0.0 for each, transfer in step.blocking.items()}
    for flight, time in zip(overlap.flights, step.flights, strict=True):
        sharing = sum(step.kernels[each].seconds for each in flight.pair.updates if each in step.kernels)
        found[flight.pair.start] = max((time.transfer.seconds or 0.0) - sharing, 0.0)
    return found | dict(step.playback.spent_seconds)


def step_time_of(overlap: Overlap, throughput: Throughput) -> StepTime:
    """How long the schedule of an overlap takes on a chip.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.async_overlap import overlap_of
    >>> from hlo_cli.analysis.throughput import Rate, Throughput
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[100] parameter(0)
    ...   s = (f32[100], f32[100], u32[]) copy-start(p)
    ...   n = f32[100] negate(p)
    ...   ROOT d = f32[100] copy-done(s) }'''
    >>> slow = Throughput("slow", {"f32": Rate(100.0, "")}, Rate(400.0, ""))
    >>> found = step_time_of(overlap_of(parse_module(text)), slow)
    >>> found.seconds, found.work_seconds, found.exposed_seconds
    (2.0, 2.0, 0.0)
    >>> flight, = found.flights
    >>> flight.transfer.wire, flight.transfer.seconds, flight.hidden_seconds
    ('memory', 2.0, 2.0)
    """
    module = overlap.module
    times, counted = times_run(overlap.runs), times_counted(overlap.runs)
    kernels, unknown = _kernels(overlap, throughput)
    seconds_of = partial(transfer_time, throughput=throughput, module=module)
    transfers = [seconds_of(flight.pair, flight.moved_bytes) for flight in overlap.flights]
    blocking = {
        each: seconds_of(blocking_pair(each), size // (times.get(each.computation) or 1))
        for each, size in overlap.blocking.items()
    }
    played = play(overlap, _events(overlap, kernels, transfers, blocking))
    flights = tuple(
        _flight_time(transfer, counted[flight.pair.start.computation], played, at)
        for at, (flight, transfer) in enumerate(zip(overlap.flights, transfers, strict=True))
    )
    totals = {each: (found.seconds or 0.0) * float(counted[each.computation]) for each, found in blocking.items()}
    return StepTime(
        throughput, played.seconds, played.work_seconds, flights, blocking, totals, kernels, unknown, played
    )


def _kernels(overlap: Overlap, throughput: Throughput) -> tuple[Mapping[Instruction, Roofline], int]:
    """What each kernel of the schedule takes, and of how many nobody knows what they cost."""
    costs = {kernel: cost for kernel, cost in overlap.costs.items() if kernel not in overlap.blocking}
    found = {kernel: roofline(cost, throughput, calculating_type(kernel)) for kernel, cost in costs.items()}
    return found, sum(cost.unknown > 0 for cost in costs.values())


def _events(
    overlap: Overlap,
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


def _flight_time(transfer: TransferTime, times: int, played: Playback, at: int) -> FlightTime:
    if transfer.seconds is None:
        return FlightTime(transfer, played.between_seconds[at], None, None)
    total = transfer.seconds * times
    exposed = played.exposed_seconds[at]
    is_all = exposed >= total or isclose(exposed, total)  # the clock rounds
    return FlightTime(transfer, played.between_seconds[at], total, total if is_all else exposed)
