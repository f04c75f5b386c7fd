"""A schedule played through: a clock that goes on with every kernel, and stands still where a transfer is waited for.

A loop is played twice, once for its first round and once for all others, which find under way what the round before has
started; deep inside of others, and where nothing is under way, one round stands for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from hlo_cli.analysis.cost.kernel_costs import assumed_execution_counts
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
from hlo_cli.analysis.schedule.transfer_time import TransferTime, Wire
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction

_DEEPEST: Final = 4
"""How many loops in each other are played twice."""


@dataclass(frozen=True, slots=True)
class Events:
    """What happens at the steps of a schedule: kernels run, flights start and are waited for, by their number.

    `blocking` transfers are waited for where they stand; so are the flights of `sync`, as soon as they start.
    """

    kernels: Mapping[int, float]
    launches: Mapping[int, int]
    landings: Mapping[int, Sequence[int]]
    blocking: Mapping[int, TransferTime]
    transfers: Sequence[TransferTime]
    sync: frozenset[int]

    @property
    def steps(self) -> frozenset[int]:
        """The steps at which transfers start or are waited for."""
        return frozenset((*self.launches, *self.landings, *self.blocking))


@dataclass(frozen=True, slots=True)
class ScheduleSimulation:
    """What a schedule takes, and when, in seconds.

    For each flight: the work that runs once before it is waited for, and how long it is waited for in all. For each
    step: when it begins on the axis, which shows one round of every loop, and how long it waits. `spent_seconds` is
    what a call or loop takes when it runs once.
    """

    seconds: float
    work_seconds: float
    between_seconds: Sequence[float]
    exposed_seconds: Sequence[float]
    begin_seconds: Sequence[float]
    wait_seconds: Mapping[int, float]
    axis_seconds: float
    spent_seconds: Mapping[Instruction, float]


def simulate(overlap: OverlapAnalysis, events: Events) -> ScheduleSimulation:
    """The schedule of an overlap with these events.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    >>> overlap = analyze_overlap(parse_module("r = f32[4] add(f32[4] a, f32[4] b)"))
    >>> simulate(overlap, Events({2: 0.5}, {}, {}, {}, (), frozenset())).seconds
    0.5
    """
    return _Player(overlap, events).play()


@dataclass(slots=True)
class _Transfer:
    """One transfer on a wire; `flight` is None for one that is not asynchronous."""

    flight: int | None
    launched: float
    begin: float
    end: float
    work: float


@dataclass(slots=True)
class _Frame:
    """A computation that is being played: where its round began, and how often that counts."""

    run: int
    rounds: float
    weight: float
    plays_rest: bool
    entered: float
    clock: float
    work: float
    axis: float
    is_rest: bool = False


class _Player:
    def __init__(self, overlap: OverlapAnalysis, events: Events) -> None:
        self.overlap, self.events = overlap, events
        steps, flights = len(overlap.sequence), len(events.transfers)
        self.times = assumed_execution_counts(overlap.runs)
        self.clock = self.work = self.axis = 0.0
        self.weight = 1.0
        self.played_twice = 0
        self.between, self.exposed = [0.0] * flights, [0.0] * flights
        self.begins = [0.0] * steps
        self.waits: dict[int, float] = {}
        self.spent: dict[int, float] = {}
        self.lanes: dict[Wire, deque[_Transfer]] = {}
        self.flying: dict[int, _Transfer] = {}
        self.frames: list[_Frame] = []
        eventful = events.steps
        self.eventful = list(accumulate((step in eventful for step in range(steps)), initial=0))

    def play(self) -> ScheduleSimulation:
        """Every step in turn, computations as often as they are played."""
        steps, runs = len(self.overlap.sequence), self.overlap.runs
        aside = _aside(self.overlap)
        step, run = 0, 0
        while True:
            if self.frames and runs[self.frames[-1].run].end == step:
                if self._plays_again():
                    run = self.frames[-1].run
                    step, run = runs[run].start, run + 1
            elif run < len(runs) and runs[run].start == step:
                if aside[run]:
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
        run = self.overlap.runs[number]
        around = self.times.get(run.caller.computation, 1) if run.caller is not None else 1
        rounds = self.times[run.computation] / around if around else 0.0
        busy = self.eventful[run.end] > self.eventful[run.start]
        plays_rest = rounds > 1 and busy and self.played_twice < _DEEPEST
        frame = _Frame(number, rounds, self.weight, plays_rest, self.clock, self.clock, self.work, self.axis)
        self.frames.append(frame)
        self.played_twice += plays_rest
        self.weight *= 1 if plays_rest else rounds

    def _plays_again(self) -> bool:
        """At the end of a computation: whether it is played once more; if not, the clock goes on for all its rounds."""
        frame = self.frames[-1]
        if frame.plays_rest and not frame.is_rest:
            frame.is_rest, frame.clock, frame.work, self.axis = True, self.clock, self.work, frame.axis
            self.weight = frame.weight * (frame.rounds - 1)
            for lane in self.lanes.values():  # what is older than the loop has landed by now
                while lane and lane[0].launched < frame.entered:
                    lane.popleft()
            return True
        left = frame.rounds - (2 if frame.plays_rest else 1)
        later = (self.clock - frame.clock) * left
        for lane in self.lanes.values() if later else ():
            for transfer in lane:
                if transfer.launched >= frame.entered:
                    transfer.begin += later
                    transfer.end += later
        self.clock += later
        self.work += (self.work - frame.work) * left
        self.weight = frame.weight
        self.spent[frame.run] = self.clock - frame.entered
        self.frames.pop()
        self.played_twice -= frame.plays_rest
        return False

    def _step(self, step: int) -> None:
        self.begins[step] = self.axis
        self.waits.pop(step, None)
        self._work(self.events.kernels.get(step, 0.0))
        if (found := self.events.blocking.get(step)) is not None and found.wire and found.seconds is not None:
            self._wait(step, self._launch(found.wire, found.seconds, None), found.wire)
        for flight in self.events.landings.get(step, ()):
            if (transfer := self.flying.pop(flight, None)) is not None:
                self.between[flight] = self.work - transfer.work
                if (wire := self.events.transfers[flight].wire) is not None:
                    self._wait(step, transfer, wire)
        if (number := self.events.launches.get(step)) is not None:
            started = self.events.transfers[number]
            if started.wire is None or started.seconds is None:
                self.flying[number] = _Transfer(number, self.clock, self.clock, self.clock, self.work)
                return
            self.flying[number] = self._launch(started.wire, started.seconds, number)
            if number in self.events.sync:
                self._wait(step, self.flying[number], started.wire)

    def _work(self, seconds: float) -> None:
        self.clock += seconds
        self.work += seconds
        self.axis += seconds

    def _launch(self, wire: Wire, seconds: float, flight: int | None) -> _Transfer:
        lane = self._under_way(wire)
        begin = max(self.clock, lane[-1].end) if lane else self.clock
        transfer = _Transfer(flight, self.clock, begin, begin + seconds, self.work)
        lane.append(transfer)
        return transfer

    def _under_way(self, wire: Wire) -> deque[_Transfer]:
        """What a wire still has to carry, the oldest first."""
        lane = self.lanes.setdefault(wire, deque())
        while lane and lane[0].end <= self.clock:
            lane.popleft()
        return lane

    def _wait(self, step: int, awaited: _Transfer, wire: Wire) -> None:
        """Until a transfer has ended: whatever its wire carries meanwhile is exposed."""
        waited = awaited.end - self.clock
        if waited <= 0:
            return
        left = waited
        for transfer in self._under_way(wire):
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
        if transfer.flight is not None:
            self.exposed[transfer.flight] += seconds * self.weight


def _aside(overlap: OverlapAnalysis) -> list[bool]:
    """Of each computation in the schedule, whether something asynchronous runs it, beside the main program."""
    members, found = overlap.members, dict[Computation, bool]()
    for run in overlap.runs:
        caller = run.caller
        found[run.computation] = caller is not None and (caller in members or found.get(caller.computation, False))
    return [found[run.computation] for run in overlap.runs]
