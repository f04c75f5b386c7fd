"""What runs while something asynchronous is under way, and so whether that is hidden behind it or exposed.

Times are positions in the flattened schedule, as in `hlo_cli.analysis.memory.memory_model`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import KernelCost, costs_of_kernels, execution_counts, kernel_cost_of
from hlo_cli.analysis.dataflow.async_chains import async_chains
from hlo_cli.analysis.dataflow.flat_schedule import Run, flat_schedule
from hlo_cli.analysis.dataflow.positions import places_of
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_bytes import moved_bytes
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, AsyncPairs, async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, HOST_FEEDS
from hlo_cli.ir.shape import Shape

Size = Callable[[Shape], int]

BLOCKING: Final = COLLECTIVES | HOST_FEEDS
"""What moves data to and fro, and is waited for where it stands."""
_IS_SYNC: Final = re.compile(r'"is_sync":\s*(true|false)')


@dataclass(frozen=True, slots=True)
class AsyncInterval:
    """One pair in the schedule: when it starts, when it is waited for, and what runs meanwhile.

    It can do nothing before `bound_step`, at which it has all its operands: the start, or where they come late, an
    update. `done_step` is None where nothing waits for it, and smaller than `start_step` if a loop carries the start
    into its next round. `times` is how often the pair runs, None where a loop's text does not tell; `between` is the
    work of one time. `is_sync` is what the compiler says: that it waits at once, whatever stands between.
    """

    pair: AsyncPair
    start_step: int
    bound_step: int
    done_step: int | None
    moved_bytes: int
    times: int | None
    between: KernelCost
    is_sync: bool | None

    @property
    def is_exposed(self) -> bool:
        """Whether no kernel runs meanwhile, so that all of it is waited for; not where nothing waits for it."""
        return self.done_step is not None and (self.is_sync is True or not self.between.kernels)

    @property
    def total_bytes(self) -> int:
        """What it moves in all its times; in the one time that is known of where a loop does not tell."""
        return self.moved_bytes * (1 if self.times is None else self.times)

    @property
    def exposed_bytes(self) -> int:
        """What of that is exposed."""
        return self.total_bytes if self.is_exposed else 0


@dataclass(frozen=True)
class OverlapAnalysis:
    """The pairs of a module in the order in which they start, within the schedule that they are measured by.

    `idle` are pairs in computations that never run. `blocking` are the collectives, infeeds and outfeeds that are not
    asynchronous at all, with the bytes that they move in all their times.
    """

    module: Module
    sequence: tuple[Instruction, ...]
    runs: tuple[Run, ...]
    pairs: AsyncPairs
    flights: tuple[AsyncInterval, ...]
    idle: tuple[AsyncPair, ...]
    blocking: Mapping[Instruction, int]
    _meter: _Meter

    @property
    def costs(self) -> Mapping[Instruction, Cost]:
        """What each kernel costs when it runs once."""
        return self._meter.costs

    @cached_property
    def positions(self) -> Mapping[Instruction, int]:
        """Where each instruction stands in the sequence; of a sugared start, which stands several times, the last."""
        return {instruction: position for position, instruction in enumerate(self.sequence)}

    @cached_property
    def members(self) -> frozenset[Instruction]:
        """The members of pairs that do no work of their own besides."""
        return _idle_members(self.pairs)


def analyze_overlap(module: Module) -> OverlapAnalysis:
    """What overlaps in a module; one without schedule is taken to run in the order of its text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[4], u32[]) copy-start(p)
    ...   n = f32[4] negate(p)
    ...   d = f32[4] copy-done(s)
    ...   ROOT a = f32[4] add(n, d) }'''
    >>> flight, = analyze_overlap(parse_module(text)).flights
    >>> flight.start_step, flight.done_step, flight.between, flight.is_exposed
    (1, 3, KernelCost(kernels=1, flops=4, bytes=32), False)
    """
    places = places_of(module)
    chains = async_chains(places.instructions)
    schedule = flat_schedule(places, module.entry, chains)
    pairs = async_pairs(module)
    target = target_of(module)
    size = partial(buffer_bytes, target=target, generation=generation_of(module) if target == "tpu" else USUAL_TPU)
    positions = {instruction: position for position, instruction in enumerate(schedule.sequence)}
    members = _idle_members(pairs)
    meter = _Meter(schedule.sequence, schedule.runs, members)
    running = [pair for pair in pairs.pairs if pair.start in positions]
    bound = {pair: chains[pair.start].binding if pair.start in chains else pair.start for pair in running}
    flights = [_flight(pair, binding, positions, meter, size) for pair, binding in bound.items()]
    flights.sort(key=lambda flight: flight.start_step)
    idle = tuple(pair for pair in pairs.pairs if pair.start not in positions)
    blocking = {
        instruction: moved_bytes(blocking_pair(instruction), size) * (meter.times.get(instruction.computation) or 1)
        for instruction in schedule.sequence
        if instruction.opcode in BLOCKING and meter.owner.get(instruction.computation) is None
    }
    return OverlapAnalysis(module, schedule.sequence, schedule.runs, pairs, tuple(flights), idle, blocking, meter)


def blocking_pair(instruction: Instruction) -> AsyncPair:
    """A collective or feed that is not asynchronous, as if it were a pair that is waited for at once.

    >>> from hlo_cli import parse_module
    >>> blocking_pair(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}").entry.root).operation
    'all-gather'
    """
    return AsyncPair(instruction, (), (), "generic", instruction.opcode, instruction)


def _idle_members(pairs: AsyncPairs) -> frozenset[Instruction]:
    return frozenset(member for pair in pairs.pairs for member in pair.members if not _works(pair, member))


def _works(pair: AsyncPair, member: Instruction) -> bool:
    """Whether a member is a kernel that does other work besides: a fusion between the ends of a fused collective."""
    return pair.is_fused and member in pair.updates


class _Meter:
    """Adds up the work of any stretch of the schedule, by what runs it: the main program, or something asynchronous."""

    def __init__(
        self,
        sequence: Sequence[Instruction],
        runs: Sequence[Run],
        members: Container[Instruction],
    ) -> None:
        self.sequence = sequence
        self.members = members
        self.times = execution_counts(runs)
        self.began = {run.caller: run.start for run in reversed(runs) if run.caller is not None}
        self.owner: dict[Computation, Instruction | None] = {}
        self.spans: dict[Computation, Run] = {}
        for run in runs:
            self.spans[run.computation] = run
            caller = run.caller
            is_async = caller is not None and caller in members
            self.owner[run.computation] = caller if is_async or caller is None else self.owner[caller.computation]

    @cached_property
    def costs(self) -> Mapping[Instruction, Cost]:
        """What each kernel costs when it runs once: nothing that a module without pairs needs."""
        return costs_of_kernels(dict.fromkeys(i for i in self.sequence if i not in self.members))

    @cached_property
    def sums(self) -> Mapping[Instruction | None, tuple[Sequence[int], Sequence[KernelCost]]]:
        """For each that runs work the steps of its kernels, and the work up to each of them."""
        steps: dict[Instruction | None, list[int]] = {}
        works: dict[Instruction | None, list[KernelCost]] = {}
        for step, instruction in enumerate(self.sequence):
            if (cost := self.costs.get(instruction)) is not None:
                owner = self.owner[instruction.computation]
                steps.setdefault(owner, []).append(step)
                works.setdefault(owner, []).append(kernel_cost_of(cost) * (self.times[instruction.computation] or 1))
        return {owner: (at, list(accumulate(works[owner], initial=KernelCost()))) for owner, at in steps.items()}

    def between(self, pair: AsyncPair, start: int, done: int) -> KernelCost:
        """The work between a start and its done while the pair runs once; around the loop if the done stands first."""
        owner = self.owner[pair.start.computation]
        stretches = self._stretches(pair.start.computation, start + 1, done)
        return sum((self._sum(owner, first, end) // times for first, end, times in stretches), KernelCost())

    def _stretches(self, computation: Computation, first: int, done: int) -> Iterator[tuple[int, int, int]]:
        """The stretches of the schedule that lie between, and how often the pair runs while each is run through."""
        times = self.times[computation] or 1
        if done < first:
            run = self.spans[computation]
            yield first, run.end, times
            yield run.start, done, times
            return
        run = self.spans[self.sequence[done].computation]
        while run.caller is not None and run.start >= first:  # a loop that only the done stands in
            yield run.start, done, self.times[run.computation] or 1
            done, run = self.began[run.caller], self.spans[run.caller.computation]
        yield first, done, times

    def _sum(self, owner: Instruction | None, first: int, end: int) -> KernelCost:
        if owner not in self.sums:
            return KernelCost()
        steps, sums = self.sums[owner]
        return sums[bisect_left(steps, end)] - sums[bisect_left(steps, first)]


def _flight(
    pair: AsyncPair, binding: Instruction, positions: Mapping[Instruction, int], meter: _Meter, size: Size
) -> AsyncInterval:
    start, bound = positions[pair.start], positions[binding]
    done = _waiting(pair, start, positions)
    return AsyncInterval(
        pair,
        start,
        bound,
        done,
        moved_bytes(pair, size),
        meter.times[pair.start.computation],
        KernelCost() if done is None else meter.between(pair, bound, done),
        _is_sync(pair),
    )


def _waiting(pair: AsyncPair, start: int, positions: Mapping[Instruction, int]) -> int | None:
    """The step of the done: in a loop that carries the start round, before it in the same body; else the next one."""
    steps = sorted(positions[done] for done in pair.dones if done in positions)
    around = [positions[done] for done in pair.dones if done.computation is pair.start.computation]
    behind = (step for step in steps if step > start)
    return next((step for step in around if step < start), None) or next(behind, None)


def _is_sync(pair: AsyncPair) -> bool | None:
    """Whether the compiler has noted that it waits at once; None if it has noted nothing."""
    found = _IS_SYNC.search(pair.start.attribute("backend_config") or "")
    return None if found is None else found[1] == "true"
