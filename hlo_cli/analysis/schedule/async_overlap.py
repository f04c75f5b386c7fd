"""What runs between the start and the done of an async operation, what does it transfer, and what overlaps no kernel?

Also which transfers, asynchronous or not, move data from one memory space to another.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module, computed_once
from hlo_cli.analysis.cost.cost_analysis import KernelCost, costs_of_kernels, kernel_cost_of
from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.dataflow.dependencies import producer_of, uses_of
from hlo_cli.analysis.dataflow.executions import (
    MAX_EXECUTIONS,
    NO_EXECUTIONS,
    Executions,
    Place,
    contexts_of,
    executions_of,
    runs_per_call,
)
from hlo_cli.analysis.dataflow.flat_schedule import (
    Run,
    async_chains,
    flat_schedule,
    is_end,
    is_start,
    places_of,
)
from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.dataclass import brief_count, brief_name, dataclass
from hlo_cli.displayed import ByInstruction, Tabular, WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction, Users, users_among
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import (
    ANNOTATIONS,
    BLOCK_MOVES,
    CHANNEL_STARTS,
    COLLECTIVES,
    HOST_FEEDS,
    NATIVE_DONES,
    OUTPUT_TO_OPERAND_ALIASING,
    wrapped_opcode,
)
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape, subshape

# --- from a done back to its start ---
# Through tuples, loops, calls, and branches.
#
# Mirrors how `VerifyAsyncOps` of xla/service/hlo_verifier.cc follows intermediaries.


TUPLE_FORWARDING: Final = frozenset((opcodes.COPY, opcodes.DOMAIN, opcodes.OPT_BARRIER))
"""Opcodes that forward a tuple whole."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The instructions that may produce a value, and the fusions that forward it in place.

    `made` includes an entry parameter if the value may come from it.
    """

    producers: tuple[Instruction, ...]
    forwarding_fusions: tuple[Instruction, ...] = ()


def origin_of(
    instruction: Instruction, position: int, callers: Mapping[Computation, tuple[Instruction, ...]]
) -> Origin:
    """Returns the possible producers of an operand; `callers` lists the callers of each computation.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[4], u32[]) copy-start(p)
    ...   t = ((f32[4], f32[4], u32[]), f32[4]) tuple(s, p)
    ...   g = (f32[4], f32[4], u32[]) get-tuple-element(t), index=0
    ...   ROOT d = f32[4] copy-done(g) }'''
    >>> origin_of(parse_module(text).entry.root, 0, {}).producers
    (<copy-start s>,)
    """
    producers: dict[Instruction, None] = {}
    forwarding_fusions: dict[Instruction, None] = {}
    # A done may have several starts behind it: both branches of a conditional, or the value before a loop and that of
    # its body.
    waiting: list[Place] = [(instruction.operands[position], instruction.operand_index(position))]
    visited: set[Place] = set(waiting)
    while waiting:
        place = waiting.pop()
        before = list(_sources(place, callers))
        if place[0].opcode == opcodes.FUSION and before:
            forwarding_fusions[place[0]] = None
        if not before:
            producers[place[0]] = None
        for other in before:
            if other not in visited:
                visited.add(other)
                waiting.append(other)
    return Origin(tuple(producers), tuple(forwarding_fusions))


def _sources(place: Place, callers: Mapping[Computation, tuple[Instruction, ...]]) -> Iterator[Place]:
    """Yields the places that the value at a place is forwarded from; none if it is produced there."""
    instruction, index = place
    match instruction.opcode:
        case opcodes.PARAMETER:
            for caller in callers.get(instruction.computation, ()):
                yield from _passed_places(caller, instruction, index)
        case opcodes.GET_TUPLE_ELEMENT if instruction.operands:
            number = instruction.integer("index")
            yield instruction.operands[0], (*instruction.operand_index(0), number or 0, *index)
        case opcodes.TUPLE if index and index[0] < len(instruction.operands):
            yield _operand(instruction, index[0], index[1:])
        case opcodes.WHILE if instruction.operands:
            yield _operand(instruction, 0, index)
            yield from _results(instruction.called_computations[:1], index)
        case opcodes.CALL | opcodes.CONDITIONAL:
            yield from _results(instruction.called_computations, index)
        # TPU fusions that compute while a collective is in flight hand its buffers through, as their aliasing states.
        case opcodes.FUSION:
            aliases = instruction.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias)
            for alias in aliases:
                if alias.output_index == index and 0 <= alias.operand_number < len(instruction.operands):
                    yield _operand(instruction, alias.operand_number, alias.operand_index)
        case opcode if instruction.operands and (opcode in TUPLE_FORWARDING or is_annotation(instruction)):
            yield _operand(instruction, 0, index)


def _passed_places(caller: Instruction, parameter: Instruction, index: ShapeIndex) -> Iterator[Place]:
    """Yields the places that a caller passes to a parameter."""
    number = parameter.parameter_number or 0
    if caller.opcode == opcodes.WHILE:
        yield from ((caller.operands[0], (*caller.operand_index(0), *index)) for _ in caller.operands[:1])
        yield from _results(caller.called_computations[:1], index)
        return
    if caller.opcode == opcodes.CONDITIONAL:
        # Operand 0 of a conditional selects the branch.
        number = 1 + caller.called_computations.index(parameter.computation)
    if caller.opcode in (opcodes.CALL, opcodes.CONDITIONAL, opcodes.ASYNC_START) and number < len(caller.operands):
        yield _operand(caller, number, index)


def _results(computations: tuple[Computation, ...], index: ShapeIndex) -> Iterator[Place]:
    """Yields the roots of computations at an index."""
    return ((computation.root, index) for computation in computations if computation.root is not None)


def _operand(instruction: Instruction, position: int, index: ShapeIndex) -> Place:
    """Returns the place of an operand at an index."""
    return instruction.operands[position], (*instruction.operand_index(position), *index)


def is_annotation(instruction: Instruction) -> bool:
    """Returns whether an instruction is a custom call that annotates a value and forwards it.

    >>> from hlo_cli import parse_module
    >>> is_annotation(parse_module('r = f32[4] custom-call(f32[4] p), custom_call_target="Sharding"').entry.root)
    True
    """
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") in ANNOTATIONS


# --- pairs of starts and dones ---
# Forms are generic (`async-start` with calls), sugared (`slice-start`), native (`copy-start`, `all-reduce-start`,
# `send`), and, on TPU, collectives inside fusions with the roots `AsyncCollectiveStart` and `AsyncCollectiveDone`.
# Mirrors `VerifyAsyncOps` of xla/service/hlo_verifier.cc.


Form = Literal["generic", "sugared", "native", "fusion"]

Callers = Mapping[Computation, tuple[Instruction, ...]]


@dataclass(frozen=True, slots=True)
class AsyncPair:
    """A start with its updates and dones.

    `operation` is the opcode of the wrapped operation, `wrapped` its instruction if that is in the text. A valid
    module has one done per start, or two if a loop carries the start: one inside and one after it.
    """

    start: Instruction
    updates: tuple[Instruction, ...]
    dones: tuple[Instruction, ...]
    form: Form
    operation: str
    wrapped: Instruction | None

    @property
    def members(self) -> tuple[Instruction, ...]:
        """The start, the updates, and the dones."""
        return (self.start, *self.updates, *self.dones)

    @property
    def computation(self) -> Computation | None:
        """The computation of a generic start; with late binding, an update refers to it."""
        return next((called for m in (self.start, *self.updates) for called in m.called_computations), None)

    @property
    def is_fused(self) -> bool:
        """Whether a TPU compiler wrote it: its start and its done are in fusions."""
        return self.form == "fusion"

    @property
    def thread(self) -> str:
        """The execution thread, such as `main`, `host`, or `sparsecore`."""
        return self.start.string("async_execution_thread") or "main"

    @property
    def is_host_transfer(self) -> bool:
        """Whether the operation is a send to the host or a recv from it."""
        return self.operation in CHANNEL_STARTS and self.start.flag("is_host_transfer")


@dataclass(frozen=True, slots=True)
class AsyncPairs:
    """The pairs of a module in the order of its text, and updates and dones without a start.

    `orphans` have an operand that is not asynchronous. An operand from a parameter of an uncalled computation may be.
    `continues` maps each update and done to the members that it continues.
    """

    pairs: tuple[AsyncPair, ...]
    orphans: tuple[Instruction, ...]
    continues: Mapping[Instruction, tuple[Instruction, ...]]


def async_pairs(module: Module) -> AsyncPairs:
    """Returns the async pairs of a module.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[2], u32[]) slice-start(p), slice={[0:2]}
    ...   u = ((f32[4]), f32[2], u32[]) slice-update(s)
    ...   ROOT d = f32[2] slice-done(u) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> pair.operation, pair.form, [member.name for member in pair.members]
    ('slice', 'sugared', ['s', 'u', 'd'])
    """
    return cached_per_module(_pairs_in, module)


def _pairs_in(module: Module) -> AsyncPairs:
    """Finds the pairs of a module."""
    contexts = contexts_of(module)
    fused = {computation for computation, context in contexts.context_of.items() if context == "fused"}
    starts: list[Instruction] = []
    ends: list[Instruction] = []
    for computation in module.computations:
        if computation in fused:
            continue
        for instruction in computation.instructions:
            if is_start(instruction):
                starts.append(instruction)
            elif is_end(instruction):
                ends.append(instruction)
    traced = {end: _trace(end, contexts.callers) for end in ends}
    orphans = tuple(end for end, trace in traced.items() if trace.is_foreign)
    return AsyncPairs(
        tuple(_pairs_of_starts(starts, traced)), orphans, {end: trace.before for end, trace in traced.items()}
    )


@dataclass(frozen=True, slots=True)
class _Trace:
    """The members before an update or done, fusions inside a fused collective, and whether another value reaches it."""

    before: tuple[Instruction, ...]
    fusions: tuple[Instruction, ...]
    is_foreign: bool


def _trace(end: Instruction, callers: Callers) -> _Trace:
    """Traces the operands of an update or done to their starts and updates."""
    if end.opcode != opcodes.FUSION:
        # Only operand 0 continues a chain; further operands of an update are bound late.
        made = origin_of(end, 0, callers).producers if end.operands else ()
        before = tuple(each for each in made if is_start(each) or is_end(each))
        return _Trace(before, (), not made or any(map(_is_foreign, (each for each in made if each not in before))))
    all_starts: dict[Instruction, None] = {}
    through: dict[Instruction, None] = {}
    for position in range(len(end.operands)):
        origin = origin_of(end, position, callers)
        starts = [each for each in origin.producers if is_start(each)]
        all_starts |= dict.fromkeys(starts)
        through |= dict.fromkeys(origin.forwarding_fusions if starts else ())
    return _Trace(tuple(all_starts), tuple(reversed(through)), not all_starts)


def _is_foreign(made: Instruction) -> bool:
    """Returns whether an instruction cannot produce an async value; parameters of uncalled computations may."""
    # hlo_verifier.cc cannot follow a parameter without a caller, either, and lets it pass.
    return made.opcode != opcodes.PARAMETER or made.computation.is_entry


def _pairs_of_starts(starts: Iterable[Instruction], traced: Mapping[Instruction, _Trace]) -> Iterable[AsyncPair]:
    """Yields the pair of each start."""
    successors: dict[Instruction, list[Instruction]] = {}
    for end, trace in traced.items():
        for each in trace.before:
            successors.setdefault(each, []).append(end)
    for start in starts:
        updates: dict[Instruction, None] = {}
        dones: dict[Instruction, None] = {}
        worklist = [start]
        while worklist:
            for end in successors.get(worklist.pop(), ()):
                updates |= dict.fromkeys(traced[end].fusions)
                if not _is_update(end):
                    dones[end] = None
                elif end not in updates:
                    updates[end] = None
                    worklist.append(end)
        wrapped = _wrapped_operation(start, updates)
        operation = wrapped.opcode if wrapped is not None else _started_opcode(start.opcode)
        yield AsyncPair(start, tuple(updates), tuple(dones), _form_of(start.opcode), operation, wrapped)


def _is_update(end: Instruction) -> bool:
    """Returns whether an instruction continues a chain without ending it."""
    return end.opcode.endswith("-update")


def _wrapped_operation(start: Instruction, updates: Iterable[Instruction]) -> Instruction | None:
    """Returns the wrapped operation, None if it is not in the text."""
    if start.opcode == opcodes.FUSION:
        inside = start.called_computations[0].instructions
        # A fused start has one collective, next to what computes its operands.
        return next((each for each in inside if each.opcode in COLLECTIVES), None)
    if start.opcode != opcodes.ASYNC_START:
        return None
    called = (c for member in (start, *updates) for c in member.called_computations)
    return next((computation.root for computation in called if computation.root is not None), None)


def _started_opcode(opcode: str) -> str:
    """Returns the opcode of the operation that a start opcode begins."""
    return wrapped_opcode(opcode) or opcode.removesuffix("-start")


def _form_of(opcode: str) -> Form:
    """Returns the form of a start."""
    if opcode in (opcodes.FUSION, opcodes.ASYNC_START):
        return "fusion" if opcode == opcodes.FUSION else "generic"
    return "native" if opcode in NATIVE_DONES else "sugared"


# --- bytes transferred ---


UPDATE_OPERANDS: Final = {opcodes.DYNAMIC_UPDATE_SLICE: 1, opcodes.SCATTER: -1}
"""Operations that write part of an operand: the operand number of that part."""
_WRITES_INTO_OPERAND: Final = "ragged-all-to-all"  # it counts by its result alone
"""The collective that takes its output array as an operand."""


def moved_bytes(pair: AsyncPair, size: Callable[[Shape], int]) -> int:
    """Returns the bytes that a pair transfers; `size` returns the bytes of an array or token.

    For a collective, the larger of operands and result; for an update, the part that is written; for an outfeed, the
    operand; for others, the result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import async_pairs
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[16]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[16] all-gather-done(s) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> moved_bytes(pair, lambda shape: shape.padded_bytes)
    64
    """
    given, result = endpoints_of(pair)
    if pair.operation in UPDATE_OPERANDS and given:
        return _bytes_of_leaves(given[min(UPDATE_OPERANDS[pair.operation], len(given) - 1)], size)
    if pair.operation == opcodes.OUTFEED and given:
        return _bytes_of_leaves(given[0], size)
    out = 0 if result is None else _bytes_of_leaves(result, size)
    if pair.operation in COLLECTIVES and pair.operation != _WRITES_INTO_OPERAND:
        # An all-gather grows and a reduce-scatter shrinks: the larger side is what the links carry in all.
        return max(out, sum(_bytes_of_leaves(shape, size) for shape in given))
    return out


def endpoints_of(pair: AsyncPair) -> tuple[tuple[Shape, ...], Shape | None]:
    """Returns the shapes of the operands and of the result; the result is None if it is not in the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import async_pairs
    >>> module = parse_module("s = (f32[4]{0:S(1)}, f32[4]{0}, u32[]) copy-start(f32[4]{0} p)")
    >>> given, result = endpoints_of(async_pairs(module).pairs[0])
    >>> str(given[0]), str(result)
    ('f32[4]{0}', 'f32[4]{0:S(1)}')
    """
    start = pair.start
    if pair.wrapped is not None:
        wrapped = pair.wrapped
        return tuple(wrapped.operand_shape(position) for position in range(len(wrapped.operands))), wrapped.shape
    operands = tuple(start.operand_shape(position) for position in range(len(start.operands)))
    if pair.form == "sugared":
        last = (start, *pair.updates)[-1]
        output = subshape(last.shape, (1,))
        # With late binding the start has no output yet; the done shows what arrives.
        late = output == TupleShape(()) and pair.dones
        return _tuple_elements(subshape(last.shape, (0,))) or operands, pair.dones[0].shape if late else output
    match pair.operation:
        case opcodes.ALL_REDUCE:
            return operands, start.shape
        case opcodes.COPY | opcodes.RECV | opcodes.SEND:
            return operands, subshape(start.shape, (0,))
    return operands, subshape(start.shape, (1,))


def _tuple_elements(shape: Shape | None) -> tuple[Shape, ...]:
    """Returns the elements of a tuple shape; empty for other shapes."""
    return shape.elements if isinstance(shape, TupleShape) else ()


def _bytes_of_leaves(shape: Shape, size: Callable[[Shape], int]) -> int:
    """Returns the total bytes of the leaves of a shape."""
    return sum(size(leaf) for leaf in _leaves(shape))


def _leaves(shape: Shape) -> Iterable[Shape]:
    """Returns the leaves of a shape."""
    return (leaf for _, leaf in shape.leaves)


# --- overlap with compute ---
# Times are positions in the flattened schedule, as in `hlo_cli.analysis.memory.memory_analysis`.


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
    def is_unoverlapped(self) -> bool:
        """Whether no kernel overlaps the operation; False without a done."""
        # `is_sync` outweighs the schedule: GPU runtimes then wait in the start, whatever is between.
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
    def unoverlapped_bytes(self) -> int:
        """The bytes transferred without a kernel at the same time: `total_bytes` or 0."""
        return self.total_bytes if self.is_unoverlapped else 0


@dataclass(frozen=True)
class OverlapAnalysis(WithItems, Tabular):
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

    def __repr__(self) -> str:
        counts = f"{brief_count(len(self.sequence), 'steps')}, {brief_count(len(self.intervals), 'async intervals')}"
        return f"<OverlapAnalysis {brief_name(self.module.name)}: {counts}>"

    @property
    def costs(self) -> ByInstruction[Instruction, Cost]:
        """The cost of one execution of each kernel."""
        return self._work_sums.costs

    @cached_property
    def positions(self) -> ByInstruction[Instruction, int]:
        """The position of each instruction; of a sugared start, which has several, the last."""
        return ByInstruction({instruction: position for position, instruction in enumerate(self.sequence)})

    @cached_property
    def moved_bytes(self) -> ByInstruction[Instruction, int]:
        """The bytes of one execution of each transfer, async or not, by its start."""
        executions = executions_of(self.module)
        often = {each: executions.get(each.computation, NO_EXECUTIONS).count or 1 for each in self.synchronous}
        pairs = {each.pair.start: each.moved_bytes for each in self.intervals}
        return ByInstruction({**pairs, **{each: size // often[each] for each, size in self.synchronous.items()}})

    @cached_property
    def unoverlapped(self) -> ByInstruction[Instruction, int]:
        """The bytes of each transfer that overlaps no kernel in all its executions, by its start.

        Synchronous transfers never overlap one. How much time that costs is a matter of the chip:
        `TimeEstimate.exposed`.
        """
        pairs = {each.pair.start: each.unoverlapped_bytes for each in self.intervals if each.is_unoverlapped}
        return ByInstruction({**pairs, **self.synchronous})

    @cached_property
    def members(self) -> frozenset[Instruction]:
        """The members of pairs that are not kernels themselves."""
        return _members_without_work(self.pairs)


@of_module
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
    >>> interval.start_step, interval.done_step, interval.between, interval.is_unoverlapped
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
        _interval_of(pair, binding, executions.get(pair.start.computation, NO_EXECUTIONS), positions, work_sums, size)
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
            # A computation with several callers is in the schedule once, so it counts as often as the first of them
            # runs it.
            around = self.times[caller.computation] if caller is not None else 1
            own = runs_per_call(caller, run.computation) if caller is not None else 1
            self.times[run.computation] = min(around * (own or 1), MAX_EXECUTIONS)
            is_async = caller is not None and caller in members
            # Compute in an async computation overlaps its caller's program, and does not count as that program's.
            self.owner[run.computation] = caller if is_async or caller is None else self.owner[caller.computation]

    @cached_property
    def costs(self) -> ByInstruction[Instruction, Cost]:
        """The cost of one execution of each kernel; computed on first use."""
        return ByInstruction(costs_of_kernels(dict.fromkeys(i for i in self.sequence if i not in self.members)))

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
            owner: (steps_of_owner, list(accumulate(costs_by_owner[owner], initial=KernelCost())))
            for owner, steps_of_owner in steps.items()
        }

    def between(self, pair: AsyncPair, start: int, done: int) -> KernelCost:
        """Returns the compute between start and done in one execution; across iterations if the done comes first."""
        owner = self.owner[pair.start.computation]
        # Sums are over all executions, so the quotient is the mean of one; loops between count in full.
        stretches = self._stretches(pair.start.computation, start + 1, done)
        return sum((self._sum(owner, first, end) // times for first, end, times in stretches), KernelCost())

    def _stretches(self, computation: Computation, first: int, done: int) -> Iterator[tuple[int, int, int]]:
        """Yields the parts of the schedule between start and done, with the number of executions of each."""
        times = self.times[computation]
        # A loop carries the start: from the start to the end of the body, then from its beginning to the done.
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


def _interval_of(
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
    # A carried start has two dones; the one in the body is waited for in every iteration but the last.
    around = [positions[done] for done in pair.dones if done.computation is pair.start.computation]
    behind = (step for step in steps if step > start)
    return next((step for step in around if step < start), None) or next(behind, None)


def _is_sync(pair: AsyncPair) -> bool | None:
    """Returns `is_sync` of the backend_config, None if it is absent."""
    match = _IS_SYNC.search(pair.start.attribute("backend_config") or "")
    return None if match is None else match[1] == "true"


# --- transfers between memory spaces ---
# What memory-space assignment and host offloading on TPU leave: copies, async copies and slices, and updates across
# memory spaces; and transfers to and from the host program.


_HOST_MOVERS: Final = HOST_FEEDS | CHANNEL_STARTS


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that an instruction transfers from one memory space to another.

    `source` is the instruction that computed the data, `done` the end of an async transfer, None if it is
    synchronous. `used_step` is that of the first use of the result. Steps are positions in the schedule.
    """

    instruction: Instruction
    done: Instruction | None
    source: Instruction
    shape: ArrayShape
    from_space: int
    to_space: int
    start_step: int
    done_step: int | None
    used_step: int | None

    @property
    def prefetch_distance(self) -> int | None:
        """The number of steps from start to first use; None without a use."""
        return None if self.used_step is None else self.used_step - self.start_step

    @property
    def is_prefetch(self) -> bool:
        """Whether data moves from main memory to a faster memory of the device."""
        return self.from_space == MemorySpace.MAIN and self.to_space not in (MemorySpace.MAIN, MemorySpace.HOST)


def transfers_of(sequence: Sequence[Instruction]) -> tuple[Transfer, ...]:
    """Returns the transfers between different memory spaces in the order of their starts.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m, is_scheduled=true
    ... ENTRY e {
    ...   p = f32[8,128]{1,0:T(8,128)} parameter(0)
    ...   c = f32[8,128]{1,0:T(8,128)S(1)} copy(p)
    ...   ROOT n = f32[8,128]{1,0:T(8,128)S(1)} negate(c)
    ... }''')
    >>> [(t.instruction.name, t.from_space, t.to_space) for t in transfers_of(module.entry.instructions)]
    [('c', 0, 1)]
    """
    steps = {instruction: step for step, instruction in enumerate(sequence)}
    users = users_among(sequence)
    # Operations of async computations are told by their starts.
    inside = {
        called for starts in sequence if starts.opcode.endswith("-start") for called in starts.called_computations
    }
    transfers = (
        _transfer_of(instruction, steps, users) for instruction in sequence if instruction.computation not in inside
    )
    return tuple(transfer for transfer in transfers if transfer is not None)


@dataclass(frozen=True, slots=True)
class _Move:
    """The operand and array that an instruction moves, and both memory spaces."""

    source: Instruction
    shape: ArrayShape
    from_space: int
    to_space: int


def _transfer_of(instruction: Instruction, steps: Mapping[Instruction, int], users: Users) -> Transfer | None:
    """Returns the transfer of an instruction, None if it is not one."""
    move = _host_move(instruction) if instruction.opcode in _HOST_MOVERS else _device_move(instruction)
    if move is None or move.from_space == move.to_space:
        return None
    is_async = instruction.opcode.endswith("-start") or instruction.opcode in CHANNEL_STARTS
    done = _done_of_start(instruction, users) if is_async else None
    ready = done if is_async else instruction
    return Transfer(
        instruction,
        done,
        producer_of(move.source),
        move.shape,
        move.from_space,
        move.to_space,
        steps[instruction],
        steps.get(done) if done is not None else None,
        min((steps[use] for use in uses_of(ready, users)), default=None) if ready is not None else None,
    )


def _device_move(instruction: Instruction) -> _Move | None:
    """Returns the move within the device, None for instructions that compute a new array."""
    opcode, given_at = _moving_opcode(instruction)
    # An update moves the part that is written, not the array around it.
    position = 1 if opcode == opcodes.DYNAMIC_UPDATE_SLICE else 0
    if opcode is None or position >= len(instruction.operands):
        return None
    given, result = instruction.operand_shape(position), subshape(instruction.shape, given_at)
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return None
    moved = given if opcode == opcodes.DYNAMIC_UPDATE_SLICE else result
    return _Move(instruction.operands[position], moved, given.layout.memory_space, result.layout.memory_space)


def _host_move(instruction: Instruction) -> _Move | None:
    """Returns the move to or from the host program."""
    opcode = instruction.opcode
    if opcode in CHANNEL_STARTS and not instruction.flag("is_host_transfer"):
        return None
    if opcode in (opcodes.SEND, opcodes.OUTFEED) and instruction.operands:
        arrays = [leaf for _, leaf in instruction.operand_shape(0).leaves if isinstance(leaf, ArrayShape)]
        # One row a transfer: the largest array stands for those that are sent together.
        sent = max(arrays, key=lambda array: array.padded_bytes, default=None)
        if sent is None:
            return None
        return _Move(instruction.operands[0], sent, sent.layout.memory_space, MemorySpace.HOST)
    received = subshape(instruction.shape, (0,))
    if not isinstance(received, ArrayShape):
        return None
    return _Move(instruction, received, MemorySpace.HOST, received.layout.memory_space)


def _moving_opcode(instruction: Instruction) -> tuple[str | None, ShapeIndex]:
    """Returns the opcode that moves the data, None if there is none, and the index of its result."""
    opcode = instruction.opcode
    if opcode in BLOCK_MOVES:
        return opcode, ()
    # copy-start returns (destination, source, context); other starts return ((operands), result, contexts…).
    if opcode == opcodes.COPY_START:
        return "copy", (0,)
    if not opcode.endswith("-start"):
        return None, ()
    called = instruction.called_computations
    root = called[0].root if called else None
    wrapped = root.opcode if root is not None else wrapped_opcode(opcode)
    return (wrapped if wrapped in BLOCK_MOVES else None), (1,)


def _done_of_start(start: Instruction, users: Users) -> Instruction | None:
    """Returns the done of a start, following its updates."""
    member: Instruction | None = start
    while member is not None and not member.opcode.endswith("-done"):
        member = next((u for u in users.get(member, ()) if u.opcode.endswith(("-done", "-update"))), None)
    return member
