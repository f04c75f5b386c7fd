"""Overlap of async operations with compute: which kernels run between start and done, and what is exposed.

Times are positions in the flattened schedule, as in `hlo_cli.analysis.memory.memory_model`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Final

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.cost.kernel_costs import KernelCost, costs_of_kernels, kernel_cost_of
from hlo_cli.analysis.dataflow.async_chains import async_chains
from hlo_cli.analysis.dataflow.executions import (
    MAX_EXECUTIONS,
    NO_EXECUTIONS,
    Executions,
    executions_of,
    runs_per_call,
)
from hlo_cli.analysis.dataflow.flat_schedule import Run, flat_schedule
from hlo_cli.analysis.dataflow.positions import places_of
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_bytes import moved_bytes
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, AsyncPairs, async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Tabular
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, HOST_FEEDS
from hlo_cli.ir.shape import Shape

Size = Callable[[Shape], int]

SYNCHRONOUS: Final = COLLECTIVES | HOST_FEEDS
"""Opcodes of synchronous transfers."""
_IS_SYNC: Final = re.compile(r'"is_sync":\s*(true|false)')


@dataclass(frozen=True, slots=True)
class AsyncInterval:
    """An async pair in the schedule, from start to done, and the kernels that run meanwhile.

    The operation begins at `bound_step`, where all operands are bound: the start or, with late binding, an update.
    `done_step` is None without a done, and less than `start_step` if a loop carries the start into its next
    iteration. `executions` are those of the start. `between` is the compute of one execution. `is_sync` is the
    compiler's note that the start waits at once; None without a note.
    """

    pair: AsyncPair
    start_step: int
    bound_step: int
    done_step: int | None
    moved_bytes: int
    executions: Executions
    between: KernelCost
    is_sync: bool | None

    @property
    def is_exposed(self) -> bool:
        """Whether no kernel overlaps the operation; False without a done."""
        return self.done_step is not None and (self.is_sync is True or not self.between.kernels)

    @property
    def times(self) -> int | None:
        """The number of executions, None if a trip count is unknown."""
        return self.executions.known

    @property
    def total_bytes(self) -> int:
        """The bytes transferred in all executions; a loop of unknown trip count counts as one iteration."""
        return self.moved_bytes * self.executions.count

    @property
    def exposed_bytes(self) -> int:
        """The exposed part of `total_bytes`."""
        return self.total_bytes if self.is_exposed else 0


@dataclass(frozen=True)
class OverlapAnalysis(Tabular):
    """The async intervals of a module in the order of their starts, and its flattened schedule.

    `unexecuted` are pairs in computations that are never executed. `synchronous` maps synchronous collectives,
    infeeds, and outfeeds to the bytes of all their executions.
    """

    module: Module
    sequence: tuple[Instruction, ...]
    runs: tuple[Run, ...]
    pairs: AsyncPairs
    intervals: tuple[AsyncInterval, ...]
    unexecuted: tuple[AsyncPair, ...]
    synchronous: Mapping[Instruction, int]
    _work_sums: _WorkSums

    @property
    def costs(self) -> Mapping[Instruction, Cost]:
        """The cost of one execution of each kernel."""
        return self._work_sums.costs

    @cached_property
    def positions(self) -> Mapping[Instruction, int]:
        """The position of each instruction; of a sugared start, which has several, the last."""
        return {instruction: position for position, instruction in enumerate(self.sequence)}

    @cached_property
    def members(self) -> frozenset[Instruction]:
        """The members of pairs that are not kernels themselves."""
        return _members_without_work(self.pairs)


def analyze_overlap(module: Module) -> OverlapAnalysis:
    """Analyzes the overlap in a module; without a schedule, in the order of its text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[4], u32[]) copy-start(p)
    ...   n = f32[4] negate(p)
    ...   d = f32[4] copy-done(s)
    ...   ROOT a = f32[4] add(n, d) }'''
    >>> interval, = analyze_overlap(parse_module(text)).intervals
    >>> interval.start_step, interval.done_step, interval.between, interval.is_exposed
    (1, 3, KernelCost(kernels=1, flops=4, bytes=32), False)
    """
    return computed_once(_overlap, module)


def _overlap(module: Module) -> OverlapAnalysis:
    places = places_of(module)
    chains = async_chains(places.instructions)
    schedule = flat_schedule(places, module.entry, chains)
    pairs = async_pairs(module)
    target = target_of(module)
    size = partial(buffer_bytes, target=target, generation=generation_of(module) if target == "tpu" else USUAL_TPU)
    positions = {instruction: position for position, instruction in enumerate(schedule.sequence)}
    members = _members_without_work(pairs)
    work_sums = _WorkSums(schedule.sequence, schedule.runs, members)
    running = [pair for pair in pairs.pairs if pair.start in positions]
    bound = {pair: chains[pair.start].binding if pair.start in chains else pair.start for pair in running}
    executions = executions_of(module)
    intervals = [
        _interval(pair, binding, executions.get(pair.start.computation, NO_EXECUTIONS), positions, work_sums, size)
        for pair, binding in bound.items()
    ]
    intervals.sort(key=lambda interval: interval.start_step)
    unexecuted = tuple(pair for pair in pairs.pairs if pair.start not in positions)
    synchronous = {
        instruction: moved_bytes(synchronous_pair(instruction), size)
        * executions.get(instruction.computation, NO_EXECUTIONS).count
        for instruction in schedule.sequence
        if instruction.opcode in SYNCHRONOUS and work_sums.owner.get(instruction.computation) is None
    }
    return OverlapAnalysis(
        module, schedule.sequence, schedule.runs, pairs, tuple(intervals), unexecuted, synchronous, work_sums
    )


def synchronous_pair(instruction: Instruction) -> AsyncPair:
    """Returns a synchronous collective or feed as a pair of its own.

    >>> from hlo_cli import parse_module
    >>> synchronous_pair(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}").entry.root).operation
    'all-gather'
    """
    return AsyncPair(instruction, (), (), "generic", instruction.opcode, instruction)


def _members_without_work(pairs: AsyncPairs) -> frozenset[Instruction]:
    """Returns the members of pairs that are not kernels themselves."""
    return frozenset(member for pair in pairs.pairs for member in pair.members if not _is_kernel(pair, member))


def _is_kernel(pair: AsyncPair, member: Instruction) -> bool:
    """Returns whether a member is also a kernel: a fusion between start and done of a fused collective."""
    return pair.is_fused and member in pair.updates


class _WorkSums:
    """Sums compute over stretches of the schedule, separately for the main program and for each async computation.

    `times` are the executions at the place in the schedule: those by the first caller.
    """

    def __init__(
        self,
        sequence: Sequence[Instruction],
        runs: Sequence[Run],
        members: Container[Instruction],
    ) -> None:
        self.sequence = sequence
        self.members = members
        self.began = {run.caller: run.start for run in reversed(runs) if run.caller is not None}
        self.owner: dict[Computation, Instruction | None] = {}
        self.spans: dict[Computation, Run] = {}
        self.times: dict[Computation, int] = {}
        for run in runs:
            self.spans[run.computation] = run
            caller = run.caller
            around = self.times[caller.computation] if caller is not None else 1
            own = runs_per_call(caller, run.computation) if caller is not None else 1
            self.times[run.computation] = min(around * (own or 1), MAX_EXECUTIONS)
            is_async = caller is not None and caller in members
            self.owner[run.computation] = caller if is_async or caller is None else self.owner[caller.computation]

    @cached_property
    def costs(self) -> Mapping[Instruction, Cost]:
        """The cost of one execution of each kernel; computed on first use."""
        return costs_of_kernels(dict.fromkeys(i for i in self.sequence if i not in self.members))

    @cached_property
    def sums(self) -> Mapping[Instruction | None, tuple[Sequence[int], Sequence[KernelCost]]]:
        """The steps of the kernels of each owner, and the cumulative compute before each step."""
        steps: dict[Instruction | None, list[int]] = {}
        costs_by_owner: dict[Instruction | None, list[KernelCost]] = {}
        for step, instruction in enumerate(self.sequence):
            if (cost := self.costs.get(instruction)) is not None:
                owner = self.owner[instruction.computation]
                steps.setdefault(owner, []).append(step)
                costs_by_owner.setdefault(owner, []).append(kernel_cost_of(cost) * self.times[instruction.computation])
        return {
            owner: (at, list(accumulate(costs_by_owner[owner], initial=KernelCost()))) for owner, at in steps.items()
        }

    def between(self, pair: AsyncPair, start: int, done: int) -> KernelCost:
        """Returns the compute between start and done in one execution; across iterations if the done comes first."""
        owner = self.owner[pair.start.computation]
        stretches = self._stretches(pair.start.computation, start + 1, done)
        return sum((self._sum(owner, first, end) // times for first, end, times in stretches), KernelCost())

    def _stretches(self, computation: Computation, first: int, done: int) -> Iterator[tuple[int, int, int]]:
        """Yields the parts of the schedule between start and done, with the number of executions of each."""
        times = self.times[computation]
        if done < first:
            run = self.spans[computation]
            yield first, run.end, times
            yield run.start, done, times
            return
        run = self.spans[self.sequence[done].computation]
        while run.caller is not None and run.start >= first:  # a loop that contains only the done
            yield run.start, done, self.times[run.computation]
            done, run = self.began[run.caller], self.spans[run.caller.computation]
        yield first, done, times

    def _sum(self, owner: Instruction | None, first: int, end: int) -> KernelCost:
        """Returns the compute of an owner in a part of the schedule."""
        if owner not in self.sums:
            return KernelCost()
        steps, sums = self.sums[owner]
        return sums[bisect_left(steps, end)] - sums[bisect_left(steps, first)]


def _interval(
    pair: AsyncPair,
    binding: Instruction,
    executions: Executions,
    positions: Mapping[Instruction, int],
    work_sums: _WorkSums,
    size: Size,
) -> AsyncInterval:
    """Returns the interval of a pair."""
    start, bound = positions[pair.start], positions[binding]
    done = _done_step(pair, start, positions)
    return AsyncInterval(
        pair,
        start,
        bound,
        done,
        moved_bytes(pair, size),
        executions,
        KernelCost() if done is None else work_sums.between(pair, bound, done),
        _is_sync(pair),
    )


def _done_step(pair: AsyncPair, start: int, positions: Mapping[Instruction, int]) -> int | None:
    """Returns the step of the done: an earlier one in the same body if a loop carries the start, else the next."""
    steps = sorted(positions[done] for done in pair.dones if done in positions)
    around = [positions[done] for done in pair.dones if done.computation is pair.start.computation]
    behind = (step for step in steps if step > start)
    return next((step for step in around if step < start), None) or next(behind, None)


def _is_sync(pair: AsyncPair) -> bool | None:
    """Returns `is_sync` of the backend_config, None if it is absent."""
    found = _IS_SYNC.search(pair.start.attribute("backend_config") or "")
    return None if found is None else found[1] == "true"
