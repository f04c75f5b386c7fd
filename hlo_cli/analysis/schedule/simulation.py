"""Simulation of a schedule: a clock advances with each kernel, and with the wait time for transfers.

A loop is simulated in two passes, one for its first iteration and one for all others, which find transfers of the
previous iteration in flight. If loops are nested deeply, or nothing is in flight, one pass stands for all iterations.
A computation with several callers is simulated at the first, as often as all of them run it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, executions_of
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
from hlo_cli.analysis.schedule.transfer_time import Link, TransferTime
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction

_MAX_NESTING: Final = 4
"""Nesting depth up to which loops are simulated in two passes."""


@dataclass(frozen=True, slots=True)
class Events:
    """The events at each step of a schedule: kernels and their seconds, starts and dones of transfers by index.

    `synchronous` transfers are synchronous. Transfers in `sync` are waited for as soon as they start.
    """

    kernels: Mapping[int, float]
    starts: Mapping[int, int]
    completions: Mapping[int, Sequence[int]]
    synchronous: Mapping[int, TransferTime]
    transfers: Sequence[TransferTime]
    sync: frozenset[int]

    @property
    def steps(self) -> frozenset[int]:
        """The steps at which transfers start or are waited for."""
        return frozenset((*self.starts, *self.completions, *self.synchronous))


@dataclass(frozen=True, slots=True)
class ScheduleSimulation:
    """The result of a simulation, in seconds.

    Per transfer: the compute between start and done of one execution, and the exposed time of all executions. Per
    step: its start on a time axis that shows one iteration of each loop, and its wait time. `spent_seconds` is the
    duration of one execution of a call or loop.
    """

    seconds: float
    compute_seconds: float
    interval_compute_seconds: Sequence[float]
    exposed_seconds: Sequence[float]
    start_seconds: Sequence[float]
    wait_seconds: Mapping[int, float]
    axis_seconds: float
    spent_seconds: Mapping[Instruction, float]


def simulate(overlap: OverlapAnalysis, events: Events) -> ScheduleSimulation:
    """Simulates the schedule of an overlap analysis with these events.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> overlap = analyze_overlap(parse_module("r = f32[4] add(f32[4] a, f32[4] b)"))
    >>> simulate(overlap, Events({2: 0.5}, {}, {}, {}, (), frozenset())).seconds
    0.5
    """
    return _Simulator(overlap, events).run()


@dataclass(slots=True)
class _Transfer:
    """A transfer on a link; `interval` is None if it is synchronous."""

    interval: int | None
    started_at: float
    begin: float
    end: float
    work: float


@dataclass(slots=True)
class _Frame:
    """A computation under simulation: start of the current pass, number of iterations, and weight of the caller."""

    run: int
    iterations: float
    weight: float
    has_second_pass: bool
    entered: float
    clock: float
    work: float
    axis: float
    is_second_pass: bool = False


class _Simulator:
    """The state of a simulation."""

    def __init__(self, overlap: OverlapAnalysis, events: Events) -> None:
        self.overlap, self.events = overlap, events
        steps, intervals = len(overlap.sequence), len(events.transfers)
        found = executions_of(overlap.module)
        self.times = {run.computation: found.get(run.computation, NO_EXECUTIONS).count for run in overlap.runs}
        self.clock = self.work = self.axis = 0.0
        self.weight = 1.0
        self.nesting = 0
        self.between, self.exposed = [0.0] * intervals, [0.0] * intervals
        self.begins = [0.0] * steps
        self.waits: dict[int, float] = {}
        self.spent: dict[int, float] = {}
        self.queues: dict[Link, deque[_Transfer]] = {}
        self.in_flight: dict[int, _Transfer] = {}
        self.frames: list[_Frame] = []
        eventful = events.steps
        self.eventful = list(accumulate((step in eventful for step in range(steps)), initial=0))

    def run(self) -> ScheduleSimulation:
        """Simulates all steps in order; returns the result."""
        steps, runs = len(self.overlap.sequence), self.overlap.runs
        is_asynchronous = _is_asynchronous(self.overlap)
        step, run = 0, 0
        while True:
            if self.frames and runs[self.frames[-1].run].end == step:
                if self._repeats():
                    run = self.frames[-1].run
                    step, run = runs[run].start, run + 1
            elif run < len(runs) and runs[run].start == step:
                if is_asynchronous[run]:
                    self.begins[step : runs[run].end] = [self.axis] * (runs[run].end - step)
                    step = runs[run].end
                    run = next((n for n in range(run + 1, len(runs)) if runs[n].start >= step), len(runs))
                else:
                    self._enter(run)
                    run += 1
            elif step < steps:
                self._step(step)
                step += 1
            else:
                break
        spent: dict[Instruction, float] = {}
        for number, seconds in self.spent.items():
            if (caller := runs[number].caller) is not None:
                spent[caller] = spent.get(caller, 0.0) + seconds
        found = (self.between, self.exposed, self.begins, self.waits, self.axis, spent)
        return ScheduleSimulation(self.clock, self.work, *found)

    def _enter(self, number: int) -> None:
        """Starts the first pass through a computation."""
        run = self.overlap.runs[number]
        around = self.times.get(run.caller.computation, 1) if run.caller is not None else 1
        iterations = self.times[run.computation] / around if around else 0.0
        busy = self.eventful[run.end] > self.eventful[run.start]
        has_second_pass = iterations > 1 and busy and self.nesting < _MAX_NESTING
        frame = _Frame(number, iterations, self.weight, has_second_pass, self.clock, self.clock, self.work, self.axis)
        self.frames.append(frame)
        self.nesting += has_second_pass
        self.weight *= 1 if has_second_pass else iterations

    def _repeats(self) -> bool:
        """Ends a pass: starts the second one if needed, else advances the clock by all remaining iterations."""
        frame = self.frames[-1]
        if frame.has_second_pass and not frame.is_second_pass:
            frame.is_second_pass, frame.clock, frame.work, self.axis = True, self.clock, self.work, frame.axis
            self.weight = frame.weight * (frame.iterations - 1)
            for queue in self.queues.values():  # transfers that started before the loop have ended
                while queue and queue[0].started_at < frame.entered:
                    queue.popleft()
            return True
        left = frame.iterations - (2 if frame.has_second_pass else 1)
        later = (self.clock - frame.clock) * left
        for queue in self.queues.values() if later else ():
            for transfer in queue:
                if transfer.started_at >= frame.entered:
                    transfer.begin += later
                    transfer.end += later
        self.clock += later
        self.work += (self.work - frame.work) * left
        self.weight = frame.weight
        self.spent[frame.run] = self.clock - frame.entered
        self.frames.pop()
        self.nesting -= frame.has_second_pass
        return False

    def _step(self, step: int) -> None:
        """Simulates one step."""
        self.begins[step] = self.axis
        self.waits.pop(step, None)
        self._work(self.events.kernels.get(step, 0.0))
        if (found := self.events.synchronous.get(step)) is not None and found.link and found.seconds is not None:
            self._wait_for(step, self._start(found.link, found.seconds, None), found.link)
        for interval in self.events.completions.get(step, ()):
            if (transfer := self.in_flight.pop(interval, None)) is not None:
                self.between[interval] = self.work - transfer.work
                if (link := self.events.transfers[interval].link) is not None:
                    self._wait_for(step, transfer, link)
        if (number := self.events.starts.get(step)) is not None:
            started = self.events.transfers[number]
            if started.link is None or started.seconds is None:
                self.in_flight[number] = _Transfer(number, self.clock, self.clock, self.clock, self.work)
                return
            self.in_flight[number] = self._start(started.link, started.seconds, number)
            if number in self.events.sync:
                self._wait_for(step, self.in_flight[number], started.link)

    def _work(self, seconds: float) -> None:
        """Advances the clock by compute."""
        self.clock += seconds
        self.work += seconds
        self.axis += seconds

    def _start(self, link: Link, seconds: float, interval: int | None) -> _Transfer:
        """Starts a transfer after those already on the same link."""
        queue = self._in_flight_on(link)
        begin = max(self.clock, queue[-1].end) if queue else self.clock
        transfer = _Transfer(interval, self.clock, begin, begin + seconds, self.work)
        queue.append(transfer)
        return transfer

    def _in_flight_on(self, link: Link) -> deque[_Transfer]:
        """Returns the transfers in flight on a link, oldest first."""
        queue = self.queues.setdefault(link, deque())
        while queue and queue[0].end <= self.clock:
            queue.popleft()
        return queue

    def _wait_for(self, step: int, awaited: _Transfer, link: Link) -> None:
        """Advances the clock to the end of a transfer; the time on its link meanwhile is exposed."""
        waited = awaited.end - self.clock
        if waited <= 0:
            return
        left = waited
        for transfer in self._in_flight_on(link):
            if transfer.begin >= awaited.end:
                break
            part = min(transfer.end, awaited.end) - max(transfer.begin, self.clock)
            if part > 0:
                self._expose(transfer, part)
                left -= part
        if left > 0:
            self._expose(awaited, left)
        self.clock += waited
        self.axis += waited
        self.waits[step] = self.waits.get(step, 0.0) + waited

    def _expose(self, transfer: _Transfer, seconds: float) -> None:
        """Adds exposed time to an async transfer."""
        if transfer.interval is not None:
            self.exposed[transfer.interval] += seconds * self.weight


def _is_asynchronous(overlap: OverlapAnalysis) -> list[bool]:
    """Returns for each computation of the schedule whether it is executed asynchronously."""
    members, found = overlap.members, dict[Computation, bool]()
    for run in overlap.runs:
        caller = run.caller
        found[run.computation] = caller is not None and (caller in members or found.get(caller.computation, False))
    return [found[run.computation] for run in overlap.runs]
