"""Which buffers get an allocation, which reuse one, and what peak an order of the instructions has.

Mirrors xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import Final

from hlo_cli.analysis.dataflow.flat_schedule import Places, flat_schedule
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.chips import tpu_generation
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes, prefetched_space
from hlo_cli.analysis.memory.buffers import (
    Buffer,
    OrderIndependentFacts,
    assignment_order,
    spaces_with_loose_ties,
    time_order,
)
from hlo_cli.analysis.memory.heaps import (
    DEFAULT_STRATEGY,
    TPU_STRATEGIES,
    AllocationBuilder,
    AssignedAllocation,
    Role,
    Strategy,
    StrategyName,
    combine_temporaries,
    heaps,
    preset,
)
from hlo_cli.analysis.memory.live_ranges import (
    AllocationValues,
    Interference,
    LiveRanges,
    OperandSharing,
    Release,
    live_ranges,
)
from hlo_cli.analysis.memory.occupancy import FreeIntervals, SlotRange, timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ARGUMENT_OPCODES

# --- reuse of allocations ---
# Mirrors `BufferAssigner::MaybeAssignBuffer` of xla/service/buffer_assignment.cc and its callers.


@dataclass(slots=True)
class _OpenAllocations:
    """The reusable allocations of a memory space and their free intervals."""

    builders: list[AllocationBuilder] = field(default_factory=list)
    free_intervals: FreeIntervals = field(default_factory=FreeIntervals)


class Reuse:
    """Finds an existing allocation of the module that may hold a buffer too."""

    __slots__ = ("_allocation_of", "_interference", "_open")

    def __init__(self, interference: Interference) -> None:
        self._interference = interference
        self._open: dict[int, _OpenAllocations] = {}
        self._allocation_of: dict[int, AllocationBuilder] = {}

    def put(self, builder: AllocationBuilder, number: int, buffer: Buffer) -> None:
        """Adds a buffer to an allocation, and registers the allocation for reuse if it is open."""
        builder.put(number, is_live_out=buffer.is_live_out)
        if builder.is_open:
            open_here = self._open.setdefault(builder.space, _OpenAllocations())
            if builder.occupants is None:
                builder.occupants = AllocationValues(open_here.free_intervals.open())
                open_here.builders.append(builder)
            self._interference.enter(builder.occupants, buffer.values, open_here.free_intervals)
        self._allocation_of.update(dict.fromkeys(buffer.values, builder))

    def operand_allocation(self, buffer: Buffer) -> AllocationBuilder | None:
        """Returns an allocation of an operand of the buffer's defining instruction, if the buffer fits."""
        dataflow = self._interference.dataflow
        places = dataflow.places
        for value in buffer.values:
            # buffer_assignment.cc, AssignSingleHloBuffer: only values at index {} try the allocations of their
            # operands.
            if value != places.first[places.owner[value]]:
                continue
            instruction = places.instructions[places.owner[value]]
            for position in range(len(instruction.operands)):
                builder = self._allocation_of.get(dataflow.value[places.operand_place(instruction, position)])
                if builder is not None and builder.is_open and self._fits(buffer, builder):
                    return builder
        return None

    def newest_free(self, buffer: Buffer) -> AllocationBuilder | None:
        """Returns the newest allocation that is free during the live range of the buffer."""
        start, end = self._interference.ranges.start, self._interference.ranges.end
        first = next((value for value in buffer.values if value in start), None)
        if first is None or buffer.space not in self._open:
            return None
        open_here = self._open[buffer.space]
        for number in open_here.free_intervals.around(start[first], end[first]):
            if buffer.is_live_out and open_here.builders[number].size > buffer.size:
                return None  # buffers come by descending size, so older allocations are no smaller
            if self._fits(buffer, open_here.builders[number]):
                return open_here.builders[number]
        return None

    def _fits(self, buffer: Buffer, builder: AllocationBuilder) -> bool:
        """Returns whether a buffer may be added to an allocation."""
        if builder.space != buffer.space or builder.size < buffer.size:
            return False
        # buffer_assignment.cc, MaybeAssignBuffer: a live-out buffer must fit exactly, to waste no memory of results.
        if buffer.is_live_out and builder.size != buffer.size:
            return False
        return builder.occupants is None or self._interference.is_free(builder.occupants, buffer.values)


# --- contexts of SparseCore ---
# Bookkeeping and stacks of SparseCore operations on TPU.
#
# No public source describes these rules; they were derived from compiler dumps.


_THREAD: Final = "sparsecore"
_CONTEXT: Final = 2  # the element of an async-start after its operands and its result
_STACK: Final = (_CONTEXT, 0)
"""Shape index of the stack in the result of an async-start."""
_BOOKKEEPING: Final = frozenset(space for space in TpuMemorySpace if space.is_bookkeeping)
"""Memory spaces in which all contexts have offset 0, whatever their live ranges."""


@dataclass(slots=True)
class _SharedAllocation:
    """An allocation with the live ranges last added to it: start, end, value, and the cores of a stack."""

    builder: AllocationBuilder
    live_ranges: list[tuple[int, int, int, frozenset[str]]] = field(default_factory=list)
    end: int = -1
    is_pooled: bool = False


class SparseCore:
    """The contexts of SparseCore operations, and the allocations of their stacks.

    A stack may share an allocation with another stack if their live ranges are disjoint, or if both run on a common
    core and therefore not at once. After all live ranges in an allocation have ended, one ordinary buffer at a time
    may use it.
    """

    __slots__ = ("_buffers", "_closing", "_cores", "_interference", "_pool", "_shared")

    def __init__(self, buffers: tuple[Buffer, ...], interference: Interference) -> None:
        self._buffers = buffers
        self._interference = interference
        self._cores = dict(_contexts(buffers, interference.dataflow))
        self._shared: list[_SharedAllocation] = []
        self._closing: list[tuple[int, int]] = []
        self._pool: list[tuple[int, int]] = []

    def bookkeeping(self, numbers: Iterable[int]) -> list[AllocationBuilder]:
        """Returns one allocation per memory space for contexts that are not stacks, largest first."""
        inside = [n for n in numbers if n in self._cores and self._buffers[n].space in _BOOKKEEPING]
        builders: dict[int, AllocationBuilder] = {}
        for number in sorted(inside, key=lambda n: (-self._buffers[n].size, n)):
            buffer = self._buffers[number]
            builder = builders.setdefault(buffer.space, AllocationBuilder(buffer.size, buffer.space, "temporary"))
            builder.put(number)
            builder.slots[-1] = number
        return list(builders.values())

    def allocation_for(self, number: int) -> AllocationBuilder | None:
        """Returns an allocation for a stack or an ordinary temporary buffer, None if no rule applies.

        Must be called in the order of the starts of live ranges.
        """
        buffer, live_range = self._buffers[number], self._live_range(number)
        cores = self._cores.get(number)
        if buffer.space or buffer.is_local or live_range is None:
            return None
        if cores:
            return self._for_stack(buffer, live_range, cores)
        return None if buffer.is_live_out or not self._shared else self._for_temporary(buffer, live_range)

    def _for_stack(self, buffer: Buffer, live_range: tuple[int, int, int], cores: frozenset[str]) -> AllocationBuilder:
        """Returns the smallest allocation that a stack can share, or a new one."""
        start, end, value = live_range
        candidates = [n for n, shared in enumerate(self._shared) if shared.builder.size >= buffer.size]
        for number in sorted(candidates, key=lambda n: self._shared[n].builder.size):
            live_ranges = self._shared[number].live_ranges
            # Seen in dumps: operations on a common core run one after another, so that their stacks may overlap in
            # time.
            if all(cores & others or last < start or end < first for first, last, _, others in live_ranges):
                break
        else:
            number = len(self._shared)
            self._shared.append(_SharedAllocation(AllocationBuilder(buffer.size, buffer.space, "temporary")))
        return self._put(number, start, end, value, cores)

    def _for_temporary(self, buffer: Buffer, live_range: tuple[int, int, int]) -> AllocationBuilder | None:
        """Returns the smallest pooled allocation without interference, or None."""
        start, end, value = live_range
        while self._closing and self._closing[0][0] <= start:
            last, number = heappop(self._closing)
            shared = self._shared[number]
            if shared.end == last and not shared.is_pooled:
                insort(self._pool, (shared.builder.size, number))
                shared.is_pooled = True
        for _, number in self._pool[bisect_left(self._pool, (buffer.size,)) :]:
            if not any(
                self._interference.interferes(other, value) for _, _, other, _ in self._shared[number].live_ranges
            ):
                return self._put(number, start, end, value, frozenset())
        return None

    def _put(self, number: int, start: int, end: int, value: int, cores: frozenset[str]) -> AllocationBuilder:
        """Adds a live range to an allocation and drops those that ended before it; starts never decrease."""
        shared = self._shared[number]
        shared.live_ranges = [live_range for live_range in shared.live_ranges if live_range[1] >= start]
        shared.live_ranges.append((start, end, value, cores))
        shared.end = max(shared.end, end)
        heappush(self._closing, (shared.end, number))
        if shared.is_pooled:
            self._pool.remove((shared.builder.size, number))
            shared.is_pooled = False
        return shared.builder

    def _live_range(self, number: int) -> tuple[int, int, int] | None:
        """Returns start, end, and first value of a buffer, None if it has no live range."""
        start, end = self._interference.ranges.start, self._interference.ranges.end
        values = [value for value in self._buffers[number].values if value in start]
        return (min(start[v] for v in values), max(end[v] for v in values), values[0]) if values else None


def _contexts(buffers: Sequence[Buffer], dataflow: Dataflow) -> Iterator[tuple[int, frozenset[str]]]:
    """Yields the buffers that hold SparseCore contexts, with the cores of stacks."""
    places = dataflow.places
    starts = {chain.start for chain in dataflow.chains.values()}
    if not any(start.string("async_execution_thread") == _THREAD for start in starts):
        return
    for number, buffer in enumerate(buffers):
        for value in buffer.values:
            chain = dataflow.chains.get(places.instructions[places.owner[value]])
            index = places.index(value)
            if chain is None or index[:1] != (_CONTEXT,) or buffer.is_tuple:
                continue
            if chain.start.string("async_execution_thread") == _THREAD:
                yield number, _cores(chain.start) if index == _STACK and not buffer.space else frozenset()
                break


def _cores(start: Instruction) -> frozenset[str]:
    """Returns the ids of the cores that an operation runs on."""
    config = start.backend_config
    ids = config.get("sparse_core_config", "core_ids") if config is not None else None
    return frozenset(map(str, ids)) if isinstance(ids, Sequence) and ids else frozenset(("?",))


# --- the assignment ---
# Mirrors xla/service/buffer_assignment.cc. Buffers without an allocation of their own go to the heap of their memory
# space. At the end, all temporary allocations of a memory space are combined into one.


@dataclass(frozen=True, slots=True)
class Assignment:
    """The allocations of a module, temporary ones last, and the strategy that filled the heaps.

    `limit` is the largest total of main-memory allocations, in bytes, that a strategy may reach; None if unknown.
    """

    allocations: tuple[AssignedAllocation, ...]
    strategy: StrategyName
    limit: int | None


def assign(
    facts: OrderIndependentFacts, ranges: LiveRanges, release: Release = "0.10.2", *, with_offsets: bool = True
) -> Assignment:
    """Assigns every buffer of a module to an allocation.

    With `with_offsets=False`, heaps have no size and no offsets; only the sharing of buffers is computed. `release`
    has no effect on TPU, whose compilers are newer than jaxlib 0.10.2.
    """
    is_tpu = facts.target == "tpu"
    sharing = OperandSharing(facts.dataflow, facts.in_place, facts.target)
    rules: Release = "2026-08" if is_tpu else release
    interference = Interference(facts.dataflow, facts.aliases, ranges, sharing, rules)
    limit = tpu_generation(facts.generation).heap_limit if is_tpu and facts.is_generation_known else None
    strategy, *others = TPU_STRATEGIES if is_tpu else (DEFAULT_STRATEGY,)
    builders = combine_temporaries(_allocate(facts, interference, strategy, with_offsets=with_offsets), facts.target)
    while others and limit is not None and with_offsets and sum(d.size for d in builders if _is_limited(d)) > limit:
        strategy = others.pop(0)
        builders = combine_temporaries(
            _allocate(facts, interference, strategy, with_offsets=with_offsets), facts.target
        )
    return Assignment(tuple(builder.build() for builder in builders if builder.buffers), strategy.name, limit)


def _is_limited(builder: AllocationBuilder) -> bool:
    """Returns whether an allocation counts toward the limit of main memory."""
    return not builder.space and builder.role != "thread-local"


def _allocate(
    facts: OrderIndependentFacts, interference: Interference, strategy: Strategy, *, with_offsets: bool
) -> list[AllocationBuilder]:
    """Returns the allocations under one strategy, before temporary ones are combined."""
    module, buffers, target = facts.module, facts.buffers, facts.target
    order = assignment_order(facts.dataflow, module, buffers)
    places = [number for number in order if not buffers[number].is_local]
    if strategy.by_time:
        places = time_order(places, buffers, interference)
    builders: list[AllocationBuilder] = []
    prefetched = prefetched_space(target, facts.generation)
    # buffer_assignment.cc, AssignPresetBuffers: preset allocations come first, even if empty. CombineTempAllocations
    # therefore swaps them with others, which moves every tuple table and the heap.
    if prefetched is not None:
        inside = [number for number in places if buffers[number].space == prefetched]
        builders.append(preset(buffers, inside, prefetched, interference))
    sparse_core = SparseCore(buffers, interference) if target == "tpu" else None
    if sparse_core is not None:
        builders += sparse_core.bookkeeping(places)
    deferred = _assign_or_defer(facts, places, interference, builders, sparse_core, strategy)
    builders.extend(heaps(buffers, deferred, interference, target, strategy.placing if with_offsets else None))
    loose = spaces_with_loose_ties(facts.dataflow, module, buffers, interference)
    for builder in builders:
        builder.is_certain = builder.is_certain and builder.space not in loose
    for number in order:
        if buffers[number].is_local:
            role: Role = "constant" if buffers[number].is_constant else "thread-local"
            builder = AllocationBuilder(buffers[number].size, buffers[number].space, role)
            builder.put(number)
            builders.append(builder)
    return builders


def _assign_or_defer(
    facts: OrderIndependentFacts,
    order: Sequence[int],
    interference: Interference,
    builders: list[AllocationBuilder],
    sparse_core: SparseCore | None,
    strategy: Strategy,
) -> list[int]:
    """Assigns buffers to existing or new allocations; returns the buffers that go to the heap.

    New allocations are appended to `builders`.
    """
    deferred: list[int] = []
    reuse = Reuse(interference)
    writable = _aliased_parameters(facts.module, facts.places)
    placed = {number for builder in builders for number in builder.buffers}
    for number in order:
        if number in placed:
            continue
        buffer = facts.buffers[number]
        # buffer_assignment.cc, AssignSingleHloBuffer, tries in this order: operands, the newest allocations, a new one
        # for results.
        builder = _own_allocation(buffer, writable) or reuse.operand_allocation(buffer)
        if builder is None and sparse_core is not None:
            builder = sparse_core.allocation_for(number)
        if builder is None and not strategy.by_time:
            builder = reuse.newest_free(buffer)
        if builder is None and buffer.is_live_out:
            builder = AllocationBuilder(buffer.size, buffer.space, "output", is_open=True)
        if builder is None:
            deferred.append(number)
            continue
        if not builder.buffers:
            builders.append(builder)
        reuse.put(builder, number, buffer)
    return deferred


def _aliased_parameters(module: Module, places: Places) -> set[int]:
    """Returns the places of entry parameters that `input_output_alias` lets the result overwrite."""
    parameters, overwritten = module.entry.parameters, set[int]()
    for alias in module.input_output_alias:
        if alias.parameter_number < len(parameters):
            parameter = parameters[alias.parameter_number]
            ordinal = places.parts(parameter).ordinals.get(alias.parameter_index)
            if ordinal is not None:
                overwritten.add(places.first_of(parameter) + ordinal)
    return overwritten


def _own_allocation(buffer: Buffer, writable: set[int]) -> AllocationBuilder | None:
    """Returns a new allocation if the buffer needs its own: constants, entry parameters, and tuple tables."""
    # buffer_assignment.cc, AssignSingleHloBuffer: a constant keeps its own allocation even if it is returned or
    # aliased.
    if buffer.is_constant:
        return AllocationBuilder(buffer.size, buffer.space, "constant", is_live_out=buffer.is_live_out)
    if buffer.parameter is not None:
        # AssignSingleHloBuffer: a parameter may be reused only if the result is aliased with it (parameter_has_alias).
        is_open = buffer.parameter in writable and not buffer.is_tuple
        return AllocationBuilder(buffer.size, buffer.space, "parameter", buffer.parameter, buffer.is_live_out, is_open)
    if buffer.is_tuple:
        return AllocationBuilder(buffer.size, buffer.space, "output" if buffer.is_live_out else "temporary")
    return None


# --- peaks of any order ---
# Returns the same peaks as `memory_analysis` in less time, because no offsets are computed. Mirrors
# `HeapSimulator::MinimumMemoryForModule` of xla/service/heap_simulator/heap_simulator.cc, which omits constants.


Orders = Mapping[Computation, Sequence[Instruction]]
"""New instruction orders of some computations; the others keep the order of the text."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest number of live bytes in each memory space.

    In `from_definition`, a constant is live from its position, as in `memory_analysis`; in `whole`, during the whole
    execution, as in compiled programs, so that moving a constant gains nothing. `constants` is the total size of
    constants. `temporaries` are the sizes of the temporary allocations with alignment and fragmentation, if
    requested.
    """

    from_definition: Mapping[int, int]
    whole: Mapping[int, int]
    constants: Mapping[int, int]
    temporaries: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)

    def is_within(self, others: Peaks) -> bool:
        """Returns whether no peak is higher than in `others`, by both counts."""
        return not self.over(others, {})

    def over(self, others: Peaks, limits: Mapping[int, int]) -> dict[int, int]:
        """Returns the bytes above `others` per memory space, the larger of both counts; `limits` replace `others`.

        >>> low, high = Peaks({0: 8}, {0: 16}, {}), Peaks({0: 8}, {0: 24}, {})
        >>> low.over(high, {}), high.over(low, {}), high.over(low, {0: 24})
        ({}, {0: 8}, {})
        """
        excess: dict[int, int] = {}
        for peaks, allowed in ((self.from_definition, others.from_definition), (self.whole, others.whole)):
            for space, peak in peaks.items():
                if (more := peak - limits.get(space, allowed.get(space, 0))) > 0:
                    excess[space] = max(excess.get(space, 0), more)
        return excess


@no_garbage_collection()
def peaks_of(facts: OrderIndependentFacts, orders: Orders, *, with_temporaries: bool = False) -> Peaks:
    """Returns the peaks of a module; sizes of temporary allocations only `with_temporaries`, which takes longer.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8,8] broadcast(p)  b = f32[8,8] broadcast(p)
    ...   c = f32[8] slice(a)  d = f32[8] slice(b)  ROOT e = f32[8] add(c, d) }'''
    >>> facts = order_independent_facts(parse_module(text))
    >>> p, a, b, c, d, e = entry = facts.module.entry.instructions
    >>> peaks_of(facts, {}).whole, peaks_of(facts, {facts.module.entry: (p, a, c, b, d, e)}).whole
    ({0: 576}, {0: 352})
    >>> peaks_of(order_independent_facts(parse_module(text.replace("d = ", "k = f32[8] constant({...})  d = "))), {})
    Peaks(from_definition={0: 576}, whole={0: 608}, constants={0: 32})
    """
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains, orders)
    ranges = live_ranges(facts.module, facts.dataflow, schedule, facts.aliases, facts.target)
    assigned = assign(facts, ranges, with_offsets=with_temporaries).allocations
    slot_ranges: dict[int, list[SlotRange]] = {}
    others: dict[int, list[SlotRange]] = {}
    constants: dict[int, set[Buffer]] = {}
    for buffer, slot_range in _slot_ranges(facts, ranges, assigned):
        slot_ranges.setdefault(buffer.space, []).append(slot_range)
        if buffer.is_constant:
            constants.setdefault(buffer.space, set()).add(buffer)
        else:
            others.setdefault(buffer.space, []).append(slot_range)
    from_definition = {space: _peak(slot_ranges[space], schedule.end) for space in sorted(slot_ranges)}
    sizes = {space: sum(buffer.size for buffer in found) for space, found in constants.items()}
    with_constants = {space: _peak(others.get(space, ()), schedule.end) + size for space, size in sizes.items()}
    temporaries = {each.space: each.size for each in assigned if each.role == "temporary"} if with_temporaries else {}
    # Constants have memory during the whole execution; the others keep their ranges.
    return Peaks(from_definition, {**from_definition, **with_constants}, sizes, temporaries)


@no_garbage_collection()
def peaks_from_definition(facts: OrderIndependentFacts) -> Mapping[int, int]:
    """Returns `Peaks.from_definition` for the order of the text, without the other peaks.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = "HloModule m  ENTRY e { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }"
    >>> peaks_from_definition(order_independent_facts(parse_module(text)))
    {0: 64}
    """
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains, {})
    ranges = live_ranges(facts.module, facts.dataflow, schedule, facts.aliases, facts.target)
    slot_ranges: dict[int, list[SlotRange]] = {}
    for buffer, slot_range in _slot_ranges(facts, ranges, assign(facts, ranges, with_offsets=False).allocations):
        slot_ranges.setdefault(buffer.space, []).append(slot_range)
    return {space: _peak(slot_ranges[space], schedule.end) for space in sorted(slot_ranges)}


def _peak(slot_ranges: Iterable[SlotRange], end: int) -> int:
    """Returns the peak of live bytes."""
    return max(timeline(sorted(slot_ranges, key=_time), end))


def _time(slot_range: SlotRange) -> tuple[int, int]:
    """Returns the sort key of a range: start, then end."""
    return slot_range[:2]


def _slot_ranges(
    facts: OrderIndependentFacts, ranges: LiveRanges, assigned: Iterable[AssignedAllocation]
) -> Iterator[tuple[Buffer, SlotRange]]:
    """Yields each value as (start, end, bytes, slot), with its buffer."""
    start, places = ranges.start, facts.places
    size_of: dict[int, int] = {}
    for allocation in assigned:
        for number, slot in zip(allocation.buffers, allocation.slots, strict=True):
            buffer = facts.buffers[number]
            for value in buffer.values:
                if value in start:
                    shape = places.shape(value)
                    size = size_of.get(id(shape))
                    if size is None:
                        size = size_of[id(shape)] = buffer_bytes(shape, facts.target, facts.generation)
                    yield buffer, (start[value], ranges.last(value), size, slot)


# --- bytes that an instruction adds ---
# Those that it allocates, minus those whose last use it is.
#
# Follows the event order of `HeapSimulator::RunComputation` in xla/service/heap_simulator/heap_simulator.cc.


@dataclass(frozen=True, slots=True)
class MemoryDelta:
    """The position of each instruction in the flattened schedule, and its change of live bytes.

    Arguments and constants are not counted.
    """

    positions: Mapping[Instruction, int]
    bytes: Mapping[Instruction, int]


@no_garbage_collection()
def memory_delta(facts: OrderIndependentFacts) -> MemoryDelta:
    """Returns the memory deltas of a module in the order of its text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.buffers import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[64] broadcast(p), dimensions={}
    ...   ROOT b = f32[8] slice(a) }'''
    >>> memory_delta(order_independent_facts(parse_module(text))).bytes
    {<parameter p>: 0, <broadcast a>: 256, <slice b>: -224}
    """
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains)
    ranges = live_ranges(facts.module, facts.dataflow, schedule, facts.aliases, facts.target)
    change = [0] * (schedule.end + 1)
    size_of: dict[int, int] = {}
    for value, start in ranges.start.items():
        if facts.places.instructions[facts.places.owner[value]].opcode in ARGUMENT_OPCODES:
            continue
        shape = facts.places.shape(value)
        size = size_of.get(id(shape))
        if size is None:
            size = size_of[id(shape)] = buffer_bytes(shape, facts.target, facts.generation)
        change[start] += size
        # heap_simulator.cc frees at a step after allocating for it: the last use counts as freed there.
        change[ranges.end[value]] -= size
    positions = {instruction: position for position, instruction in enumerate(schedule.sequence)}
    return MemoryDelta(positions, {instruction: change[position] for instruction, position in positions.items()})
