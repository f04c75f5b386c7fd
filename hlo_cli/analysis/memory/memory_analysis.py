"""What fills memory: live values, allocations, peaks, and totals, derived or as the compiler assigned them.

Whether a program fits into a device, and the peak that XProf shows, are answered from the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from typing import Final, Literal, get_args

from hlo_cli.analysis.cache import computed_once, known_result
from hlo_cli.analysis.dataflow.flat_schedule import Run, flat_schedule, subshapes_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.chip_table import Chip, TpuGeneration
from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generations
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes, logical_bytes, prefetched_space, table_bytes
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer, OrderIndependentFacts, known_generation, order_independent_facts
from hlo_cli.analysis.memory.heaps import DEFAULT_STRATEGY, TPU_STRATEGIES, AssignedAllocation, StrategyName
from hlo_cli.analysis.memory.live_ranges import LiveRanges, Release, check_step, live_ranges, peak_of_live_ranges
from hlo_cli.analysis.memory.occupancy import occupancies, timeline
from hlo_cli.dataclass import brief_count, brief_name, dataclass
from hlo_cli.displayed import ByInstruction, Items, Tabular, WithItems
from hlo_cli.ir.buffer_assignment import (
    BufferAllocation,
    BufferAssignment,
    HeapEvent,
    HeapSimulatorTrace,
    LogicalBuffer,
)
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace, space_name, wanted_space
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape, subshape
from hlo_cli.source import HloError, did_you_mean, expect, expect_one_of, nearest, wrong_type

# --- the result ---
# Mirrors xla/service/buffer_assignment.cc and xla/hlo/utils/hlo_live_range.cc. Positions count instructions of the
# flattened schedule: called computations are inlined before their caller, and every instruction takes one tick.


Order = Literal["schedule", "text"]
"""Source of the execution order: the schedule of the module, or the order of the text if there is none."""

Kind = Literal["argument", "aliased", "output", "constant", "temporary", "thread-local"]
"""What a buffer is for; `aliased` is an argument whose buffer also holds part of the result."""

Offsets = Literal["exact", "estimated", "unknown"]
"""Accuracy of sharing and offsets: the compiler's own rules, an approximation, or not derivable from the text."""


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A value in memory: defining instruction, shape index, live range, and location.

    The value is live from `start` to `end`, inclusive; both are -1 in embedded computations, whose values are
    thread-local. `logical_bytes` excludes padding, `padded_bytes` includes it. Values of one `buffer` must alias.
    Values of one `slot` share an offset at different times. `allocation` indexes `MemoryAnalysis.allocations`;
    `offset` is in bytes from its start, None if unknown. `is_phi` marks values that merge several definitions, such
    as loop carries. `counted_end` is the last position at which it needs memory, if that is before its end: where it
    becomes a part of another value without being moved, or is in fast memory that other branches reuse.
    """

    instruction: Instruction
    index: ShapeIndex
    shape: Shape
    is_phi: bool
    start: int
    end: int
    logical_bytes: int
    padded_bytes: int
    space: int
    kind: Kind
    buffer: int
    slot: int
    allocation: int
    offset: int | None
    counted_end: int | None = None

    @property
    def last(self) -> int:
        """The last position at which the value counts: `counted_end` if it has one, else `end`."""
        return self.end if self.counted_end is None else self.counted_end

    def __str__(self) -> str:
        return self.instruction.name + index_suffix(self.index)


@dataclass(frozen=True, slots=True)
class Allocation(WithItems):
    """Memory that the runtime reserves as one block, for one buffer or for several with disjoint live ranges.

    `parameter` is the number and index of the argument, if any. `is_donated` allows overwriting it. `is_output` marks
    part of the result, `is_heap` the allocation of all temporary buffers of its memory space.
    """

    index: int
    size: int
    space: int
    kind: Kind
    parameter: tuple[int, ShapeIndex] | None
    is_donated: bool
    is_output: bool
    is_heap: bool
    values: tuple[LiveValue, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of a memory space by kind, as the compiler's memory analysis counts them.

    `aliased_bytes` are both in arguments and in outputs. `temporary_bytes` is the size of the temporary allocation,
    `fragmentation_bytes` its part that no buffer uses at the peak. TPU compilers report temporaries rounded up to 16
    KiB. In a memory space with unknown offsets, `temporary_bytes` is the peak of live bytes, a lower bound.
    """

    argument_bytes: int = 0
    output_bytes: int = 0
    aliased_bytes: int = 0
    temporary_bytes: int = 0
    constant_bytes: int = 0
    thread_local_bytes: int = 0
    fragmentation_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemorySpaceUsage(WithItems, Tabular):
    """A memory space: number, name on the target, values by start, and live bytes over time.

    `timeline[t]` is the number of live bytes at position t, each slot counted once; `peak_step` is its first maximum.
    """

    number: int
    name: str
    values: tuple[LiveValue, ...]
    timeline: tuple[int, ...]
    peak_step: int
    totals: Totals
    offsets: Offsets

    def __repr__(self) -> str:
        count = brief_count(len(self.values), "values")
        return f"<MemorySpaceUsage {self.name}: {self.peak_bytes:,} bytes at step {self.peak_step}, {count}>"

    @property
    def peak_bytes(self) -> int:
        """The live bytes at the peak."""
        return self.timeline[self.peak_step]

    def occupancies(self) -> Iterator[tuple[LiveValue, int, int, LiveValue | None]]:
        """Yields each value with the first and last position in its slot, and the value that overwrites it.

        Sorted by first position. `last` is `first - 1` if the value is overwritten at once. At every position, the
        bytes of the occupying values add up to the timeline.
        """

        values = self.values
        ranges = occupancies((value.start, value.last, value.padded_bytes, value.slot) for value in values)
        for number, first, last, then in sorted(ranges, key=lambda each: (each.first, each.value)):
            yield values[number], first, last, None if then is None else values[then]

    def live_at(self, position: int | Instruction | str) -> tuple[LiveValue, ...]:
        """Returns the values live at a position, largest first; of each slot only the occupying value.

        Instead of a position, it takes an instruction with a value in this memory space, or its name: the values when
        it is defined. `MemoryAnalysis.live_at` takes every instruction. HloError if there is no such value.
        """
        position = check_step(position if isinstance(position, int) else self._start_of(position), len(self.timeline))
        occupying: dict[int, LiveValue] = {}
        empty: list[LiveValue] = []
        for value in self.values:
            if value.start <= position <= value.last:
                if value.padded_bytes:
                    occupying[value.slot] = value
                else:
                    empty.append(value)
        return Items(
            sorted((*occupying.values(), *empty), key=lambda v: (-v.padded_bytes, v.instruction.name, v.index))
        )

    def _start_of(self, instruction: Instruction | str) -> int:
        if not isinstance(instruction, Instruction | str):
            raise wrong_type("a position, an instruction, or its name", instruction)
        name = instruction if isinstance(instruction, str) else instruction.name
        start = next((value.start for value in self.values if value.instruction.name == name.removeprefix("%")), None)
        if start is None:
            close = did_you_mean(nearest(name, dict.fromkeys(value.instruction.name for value in self.values)))
            hint = close or "MemoryAnalysis.live_at takes an instruction of any memory space"
            raise HloError(f"{name} has no value in {self.name}", hint=hint)
        return start


@dataclass(frozen=True, slots=True)
class MemoryAnalysis(WithItems, Tabular):
    """The result of memory analysis.

    `sequence` lists the instructions by position; `positions` is its inverse. `live_range_peak_step` is the
    position that XLA's live-range dump calls the peak; it is no peak of memory, as it counts unpadded bytes of all
    memory spaces, and a whole tuple for each of its elements. `values` are sorted by start. `strategy` is the
    algorithm that filled the heaps. `is_generation_known` is False if `generation` is a guess. Above `limit` bytes
    of main memory, TPU compilers try another strategy; None if unknown or if the numbers are the compiler's own.
    `facts` and `ranges` are what the values were computed from.
    """

    module: Module
    target: Target | None
    generation: str
    order: Order
    release: Release
    sequence: tuple[Instruction, ...]
    positions: ByInstruction[Instruction, int]
    runs: tuple[Run, ...]
    values: tuple[LiveValue, ...]
    spaces: tuple[MemorySpaceUsage, ...]
    allocations: tuple[Allocation, ...]
    live_range_peak_step: int
    strategy: StrategyName
    is_generation_known: bool
    limit: int | None
    _: KW_ONLY
    facts: OrderIndependentFacts = field(compare=False, repr=False)
    ranges: LiveRanges = field(compare=False, repr=False)

    def __repr__(self) -> str:
        place = "" if self.main is None else f" in {self.main.name}"
        peak = f"{self.peak_bytes:,} bytes at step {self.peak_step}{place}"
        return f"<MemoryAnalysis {brief_name(self.module.name)}: {peak}, {brief_count(len(self.values), 'values')}>"

    @property
    def fullest(self) -> MemorySpaceUsage | None:
        """The memory space with the highest peak, of equal ones main memory; None without any."""
        return max(self.spaces, key=lambda space: (space.peak_bytes, -space.number), default=None)

    @property
    def main(self) -> MemorySpaceUsage | None:
        """Main memory, such as HBM, which programs run out of; the fullest memory space if it has no values."""
        return self.space(MemorySpace.MAIN) or self.fullest

    @property
    def peak_step(self) -> int:
        """The position of the peak of main memory, or of the fullest memory space; 0 if there are no values."""
        return 0 if self.main is None else self.main.peak_step

    @property
    def peak_bytes(self) -> int:
        """The live bytes at the peak of main memory, or of the fullest memory space."""
        return 0 if self.main is None else self.main.peak_bytes

    def space(self, number: int | str) -> MemorySpaceUsage | None:
        """Returns the memory space of this number or name, such as "HBM"; None if it is empty, HloError if unknown."""
        wanted = wanted_space(number, self.target, [space.name for space in self.spaces])
        return next((space for space in self.spaces if space.number == wanted), None)

    def live_at(self, position: int | Instruction | str) -> tuple[LiveValue, ...]:
        """Returns the values live at a position in all memory spaces, largest first.

        Instead of a position, it takes an instruction or its name; HloError if the instruction is not executed.

        >>> from hlo_cli import parse_module
        >>> text = "p = f32[8] parameter(0)  a = f32[8] negate(p)  ROOT b = f32[8] sine(a)"
        >>> memory = memory_analysis(parse_module(f"HloModule m, is_scheduled=true  ENTRY e {{ {text} }}"))
        >>> [str(value) for value in memory.live_at("b")] == [str(value) for value in memory.live_at(2)]
        True
        """
        if not isinstance(position, int):
            instruction = self.module.instruction(position)
            if instruction not in self.positions:
                where = f"{instruction.name} is in {instruction.computation.name}"
                raise HloError(f"{where}, which has no steps of its own", hint="name the instruction that calls it")
            position = self.positions[instruction]
        live = (value for space in self.spaces for value in space.live_at(position))
        return Items(sorted(live, key=lambda value: -value.padded_bytes))

    def values_of(self, instruction: Instruction | str) -> tuple[LiveValue, ...]:
        """Returns the values with a live range that an instruction defines."""
        definer = self.module.instruction(instruction)
        return Items(value for value in self.values if value.instruction is definer)

    def holders_of(self, value: LiveValue | str) -> tuple[LiveValue, ...]:
        """Returns all values of the buffer of `value`, by start."""
        buffer = self._value(value).buffer
        return Items(other for other in self.values if other.buffer == buffer)

    def _value(self, value: LiveValue | str) -> LiveValue:
        """A value, or the first one of this name: that of an instruction, or of an element of its result (`t{1}`)."""
        if isinstance(value, LiveValue):
            return value
        if not isinstance(value, str):
            raise wrong_type("a value or its name", value)
        name = value.removeprefix("%")
        match = next((other for other in self.values if name in (str(other), other.instruction.name)), None)
        if match is None:
            self.module.instruction(name)  # an unknown name has a better error
            raise HloError(f"{name} has no buffer of its own", hint="values of other instructions share theirs")
        return match

    def allocation_of(self, value: LiveValue | str) -> Allocation | None:
        """Returns the allocation of a value; None if the compiler's assignment does not contain it."""
        index = self._value(value).allocation
        if 0 <= index < len(self.allocations) and self.allocations[index].index == index:
            return self.allocations[index]
        return next((allocation for allocation in self.allocations if allocation.index == index), None)


# --- whether a program fits ---


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """The bytes needed in a memory space and the bytes available; `offsets` is the accuracy of the former."""

    space: int
    name: str
    needed_bytes: int
    limit_bytes: int
    offsets: Offsets

    @property
    def excess_bytes(self) -> int:
        """The bytes above the limit; 0 or less if the program fits."""
        return self.needed_bytes - self.limit_bytes


def memory_fits(memory: MemoryAnalysis, limit_bytes: int | None, chip: Chip | None) -> tuple[MemoryFit, ...]:
    """Returns one result per memory space with a limit: `limit_bytes` for main memory, else the limits of `chip`.

    That a module fits which was compiled for another kind of chip proves nothing, so that only limits that it exceeds
    count: other layouts, fusions, and temporaries may need more.
    """
    limited = [(space, limit_bytes if not space.number else None) for space in memory.spaces]
    if chip is not None and limit_bytes is None:
        limited = [(each, limit.bytes if (limit := chip.limit(each.number)) else None) for each in memory.spaces]
    is_of_other = chip is not None and limit_bytes is None and memory.target not in (None, chip.target)
    found = (
        # A chip without a limit for a space does not restrict it.
        MemoryFit(space.number, space.name, needed_bytes(memory, space), limit, space.offsets)
        for space, limit in limited
        if limit
    )
    return tuple(each for each in found if each.excess_bytes > 0 or not is_of_other)


def allocated_bytes(memory: MemoryAnalysis, space: MemorySpaceUsage) -> int | None:
    """Returns the total of all allocations in a memory space; None if offsets are unknown."""
    if space.offsets == "unknown":
        return None
    return sum(a.size for a in memory.allocations if a.space == space.number and a.kind != "thread-local")


def needed_bytes(memory: MemoryAnalysis, space: MemorySpaceUsage) -> int:
    """Returns the total of all allocations in a memory space, or the peak of live bytes if offsets are unknown."""
    allocated = allocated_bytes(memory, space)
    # Where memory-space assignment has chosen offsets, live bytes are the most that the text proves.
    return space.peak_bytes if allocated is None else allocated


# --- the analysis ---
# Runs the analyses of this package in order and adds up their results.
# Mirrors `BufferAssigner::Run` of xla/service/buffer_assignment.cc and `CompiledMemoryStats` of
# xla/pjrt/pjrt_executable.h.


@of_module
def memory_analysis(
    module: Module,
    *,
    target: Target | None = None,
    generation: str | None = None,
    release: Release = "0.10.2",
) -> MemoryAnalysis:
    """Computes buffers, live ranges, allocations, and peak usage of a module.

    `target` and `generation` override what is detected from the text. Without a schedule, the order of the text is
    used, and the result has `order="text"`.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[8] parameter(0) a = f32[8] negate(p) b = f32[8] sine(a) ROOT c = f32[2,8] reshape(b) }'''
    >>> memory = memory_analysis(parse_module(text))
    >>> [(str(value), value.start, value.end, value.kind) for value in memory.values][:2]
    [('p', 0, 4, 'argument'), ('a', 1, 2, 'temporary')]
    >>> memory.spaces[0].totals.temporary_bytes
    32
    """
    if target is not None:
        expect_one_of("target", target, sorted(get_args(Target)))
    expect(str | None, "the name of a generation", generation, 'such as "v5e"')
    expect_one_of("release", release, get_args(Release))
    if generation is None and (known := _known_for_a_chip(module, target, release)) is not None:
        return known
    return computed_once(_memory_analysis, module, target, generation, release)


def _known_for_a_chip(module: Module, target: Target | None, release: Release) -> MemoryAnalysis | None:
    """What is known already for the generation that is guessed, if it does not depend on who told the generation.

    A limit of main memory is known only for a generation that is told; it matters if it is exceeded.
    """
    _, generation, is_known = known_generation(module, target, None)
    memory = known_result(_memory_analysis, module, target, generation, release) if not is_known else None
    # Under the first strategy the limit had no effect, so knowing the generation changes nothing.
    if memory is None or memory.strategy not in (TPU_STRATEGIES[0].name, DEFAULT_STRATEGY.name):
        return None
    facts = replace(memory.facts, is_generation_known=False)
    return replace(memory, is_generation_known=False, limit=None, facts=facts)


@no_garbage_collection()
def _memory_analysis(module: Module, target: Target | None, generation: str | None, release: Release) -> MemoryAnalysis:
    facts = order_independent_facts(module, target, generation)
    target, generation, dataflow = facts.target, facts.generation, facts.dataflow
    schedule = flat_schedule(facts.places, module.entry, facts.chains)
    aliases, buffers = facts.aliases, facts.buffers
    ranges = live_ranges(module, dataflow, schedule, aliases, target)
    assignment = assign(facts, ranges, release)
    assigned = assignment.allocations
    sizing = _Sizing(target, generation)
    allocations = tuple(_allocations(module, dataflow, ranges, buffers, assigned, sizing))
    # Values of embedded computations have no place in the schedule (-1).
    values = sorted((v for a in allocations for v in a.values if v.start >= 0), key=lambda v: (v.start, v.end))
    return MemoryAnalysis(
        module,
        target,
        generation,
        "schedule" if module.is_scheduled else "text",
        release,
        schedule.sequence,
        ByInstruction({instruction: position for position, instruction in enumerate(schedule.sequence)}),
        schedule.runs,
        tuple(values),
        tuple(_spaces(module, values, allocations, assigned, schedule.end, sizing)),
        allocations,
        peak_of_live_ranges(dataflow, schedule, ranges),
        assignment.strategy,
        facts.is_generation_known,
        assignment.limit,
        facts=facts,
        ranges=ranges,
    )


@dataclass(frozen=True, slots=True)
class _Sizing:
    """Sizes of shapes on the target."""

    target: Target | None
    generation: str
    known: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, shape: Shape) -> tuple[int, int]:
        """Returns logical and padded bytes; cached, because equal shapes of a module are one object."""
        sizes = self.known.get(id(shape))
        if sizes is None:
            padded = buffer_bytes(shape, self.target, self.generation)
            sizes = self.known[id(shape)] = (logical_bytes(shape), padded)
        return sizes


def _allocations(
    module: Module,
    dataflow: Dataflow,
    ranges: LiveRanges,
    buffers: Sequence[Buffer],
    assigned: Iterable[AssignedAllocation],
    sizing: _Sizing,
) -> Iterable[Allocation]:
    """Yields the allocations with their values."""
    places = dataflow.places
    aliased_or_donated = {(alias.parameter_number, alias.parameter_index) for alias in module.input_output_alias}
    aliased_or_donated |= {(donor.parameter_number, donor.parameter_index) for donor in module.buffer_donor}
    numbers = {parameter: number for number, parameter in enumerate(module.entry.parameters)}
    for index, allocation in enumerate(assigned):
        values: list[LiveValue] = []
        for number, slot, offset in zip(allocation.buffers, allocation.slots, allocation.offsets, strict=True):
            buffer = buffers[number]
            kind = _kind_of_buffer(buffer)
            for value in buffer.values:
                shape = places.shape(value)
                values.append(
                    LiveValue(
                        places.instructions[places.owner[value]],
                        places.index(value),
                        shape,
                        value in dataflow.phis,
                        ranges.start.get(value, -1),
                        ranges.end.get(value, -1),
                        *sizing(shape),
                        buffer.space,
                        kind,
                        number,
                        slot,
                        index,
                        offset,
                        ranges.counted.get(value),
                    )
                )
        parameter: tuple[int, ShapeIndex] | None = None
        if allocation.parameter is not None:
            definer = places.instructions[places.owner[allocation.parameter]]
            parameter = (numbers[definer], places.index(allocation.parameter))
        yield Allocation(
            index,
            allocation.size,
            allocation.space,
            # An argument whose allocation holds a result is in both totals.
            "aliased" if parameter and allocation.is_live_out else _ROLES[allocation.role],
            parameter,
            parameter in aliased_or_donated,
            allocation.is_live_out,
            allocation.role == "temporary",
            tuple(values),
        )


_ROLES: Mapping[str, Kind] = {
    "parameter": "argument",
    "constant": "constant",
    "output": "output",
    "thread-local": "thread-local",
    "temporary": "temporary",
}


def _kind_of_buffer(buffer: Buffer) -> Kind:
    """Returns what a buffer is for."""
    if buffer.is_constant:
        return "constant"
    if buffer.parameter is not None:
        return "aliased" if buffer.is_live_out else "argument"
    if buffer.is_live_out:
        return "output"
    return "thread-local" if buffer.is_local else "temporary"


def _spaces(
    module: Module,
    values: Sequence[LiveValue],
    allocations: Sequence[Allocation],
    assigned: Sequence[AssignedAllocation],
    end: int,
    sizing: _Sizing,
) -> Iterable[MemorySpaceUsage]:
    """Yields the usage of each memory space, by number."""
    target = sizing.target
    inside: dict[int, list[LiveValue]] = {}
    for value in values:
        inside.setdefault(value.space, []).append(value)
    totals = _totals(module, allocations, assigned, sizing)
    uncertain = {allocation.space for allocation in assigned if not allocation.is_certain}
    for number in sorted(inside.keys() | totals.keys()):
        values_inside = inside.get(number, [])
        timeline = timeline_of(values_inside, end)
        # Without a target or a schedule the compiler's rules are applied to an order that it may not choose.
        is_exact = target is not None and module.is_scheduled and number not in uncertain
        offsets: Offsets = "exact" if is_exact else "estimated"
        # The offsets there are those of memory-space assignment, which the text does not have.
        if number and number == prefetched_space(target, sizing.generation):
            offsets = "unknown"
        yield MemorySpaceUsage(
            number,
            space_name(number, target),
            tuple(values_inside),
            tuple(timeline),
            max(range(len(timeline)), key=timeline.__getitem__),
            totals.get(number, Totals()),
            offsets,
        )


def timeline_of(values: Sequence[LiveValue], end: int) -> list[int]:
    """Returns the live bytes at positions 0 to `end`; where one value overwrites another, only the new one counts."""
    return timeline(((value.start, value.last, value.padded_bytes, value.slot) for value in values), end)


def _totals(
    module: Module, allocations: Iterable[Allocation], assigned: Sequence[AssignedAllocation], sizing: _Sizing
) -> dict[int, Totals]:
    """Returns the totals of each memory space by kind."""
    totals: dict[int, Totals] = {}

    def add(space: int, **sizes: int) -> None:
        """Adds bytes to the totals of a memory space."""
        old = totals.get(space, Totals())
        totals[space] = replace(old, **{name: getattr(old, name) + size for name, size in sizes.items()})

    entry = module.entry
    for parameter in entry.parameters:
        # CompiledMemoryStats counts arguments by shapes, tuple tables included (xla/pjrt/pjrt_executable.h).
        for part in _parts(parameter.shape):
            add(_space_of_shape(part), argument_bytes=sizing(part)[1])
    for part in _parts(entry.root.shape) if entry.root is not None else ():
        add(_space_of_shape(part), output_bytes=sizing(part)[1])
    for alias in module.input_output_alias:
        if alias.parameter_number < len(entry.parameters):
            aliased_or_donated = subshape(entry.parameters[alias.parameter_number].shape, alias.parameter_index)
            if aliased_or_donated is not None:
                add(_space_of_shape(aliased_or_donated), aliased_bytes=sizing(aliased_or_donated)[1])
    for allocation, assigned_allocation in zip(allocations, assigned, strict=True):
        match allocation.kind:
            case "temporary":
                add(
                    allocation.space,
                    temporary_bytes=allocation.size,
                    fragmentation_bytes=assigned_allocation.fragmentation,
                )
            case "constant":
                add(allocation.space, constant_bytes=allocation.size)
            case "thread-local":
                add(allocation.space, thread_local_bytes=allocation.size)
    return totals


def _parts(shape: Shape) -> Iterable[Shape]:
    """Yields a shape and all its subshapes."""
    return subshapes_of(shape).shapes


def _space_of_shape(shape: Shape) -> int:
    """Returns the memory space of a shape; tuple tables are in main memory."""
    return shape.layout.memory_space if isinstance(shape, ArrayShape | BufferShape) else 0


# --- the assignment of the compiler ---
# The assignment is a sibling file of the dump, or part of its proto.


_Key = tuple[Instruction, ShapeIndex, bool]


@dataclass(frozen=True, slots=True)
class AssignedBuffer:
    """Where the compiler stored a value: allocation index, offset in the allocation, and size, both in bytes."""

    allocation: int
    offset: int
    bytes: int


def memory_from_assignment(module: Module, assignment: BufferAssignment | None) -> MemoryAnalysis:
    """Returns the memory analysis of a module, from the compiler's assignment if given, else estimated.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, is_scheduled=true  ENTRY e { ROOT p = f32[8] parameter(0) }")
    >>> memory_from_assignment(module, None).spaces[0].peak_bytes
    32
    """
    if assignment is None:
        return memory_analysis(module)
    return compiled_memory(memory_analysis(module, generation=assigned_generation(assignment)), assignment)


def compiled_memory(memory: MemoryAnalysis, assignment: BufferAssignment) -> MemoryAnalysis:
    """Replaces allocations, offsets, and temporary totals of an analysis by those of the compiler.

    Live ranges stay as computed, because a buffer assignment does not contain them. Values at the same offset share a
    slot.
    """
    assigned = assigned_values(assignment)
    slots: dict[tuple[int, int], int] = {}
    values = tuple(_with_assignment(value, assigned, slots) for value in memory.values)
    allocations = tuple(_allocations_of_compiler(memory, assignment, values))
    spaces = tuple(_space_of_compiler(space, values, assignment) for space in memory.spaces)
    return replace(memory, values=values, spaces=spaces, allocations=allocations, limit=None, is_generation_known=True)


def assigned_generation(assignment: BufferAssignment) -> str | None:
    """Returns a TPU generation whose tuple tables have the sizes in the assignment; None without tuple tables."""
    sizes = dict[int, int]()
    for allocation in assignment.allocations:
        for each in allocation.assigned:
            buffer = assignment.logical_buffer(each.logical_buffer_id)
            if buffer is not None and (instruction := buffer.defined_at.instruction) is not None:
                shape = subshape(instruction.shape, buffer.defined_at.shape_index)
                if isinstance(shape, TupleShape) and shape.elements:
                    sizes[len(shape.elements)] = each.size_bytes
    # Generations differ in the granule of tuple tables, which any table in the assignment reveals.
    fitting = (known for known in _generations() if all(table_bytes(n, "tpu", known) == sizes[n] for n in sizes))
    return next(fitting, None) if sizes else None


def _generations() -> list[str]:
    """Returns one TPU generation per size of tuple tables, the one with the largest heap; the most common first."""
    largest = dict[int, TpuGeneration]()
    # The largest heap limit comes last and wins: it refuses least.
    for each in sorted(tpu_generations(), key=lambda each: each.heap_limit or 0):
        largest[each.table_granule] = each
    return sorted((each.name for each in largest.values()), key=lambda name: name != USUAL_TPU)


def assigned_values(assignment: BufferAssignment) -> Mapping[_Key, AssignedBuffer]:
    """Returns the assigned buffer of each value, by defining instruction, shape index, and `is_phi`."""
    buffers: dict[_Key, AssignedBuffer] = {}
    for allocation in assignment.allocations:
        for each in allocation.assigned:
            buffer = assignment.logical_buffer(each.logical_buffer_id)
            if buffer is not None and (instruction := buffer.defined_at.instruction) is not None:
                key = (instruction, buffer.defined_at.shape_index, buffer.is_phi)
                buffers[key] = AssignedBuffer(allocation.index, each.offset_bytes, each.size_bytes)
    return buffers


def value_key(value: LiveValue) -> _Key:
    """Returns the key of a value in `assigned_values`."""
    return value.instruction, value.index, value.is_phi


def _with_assignment(
    value: LiveValue, assigned: Mapping[_Key, AssignedBuffer], slots: dict[tuple[int, int], int]
) -> LiveValue:
    """Returns the value with the compiler's allocation and offset; values at one offset share a slot."""
    place = assigned.get(value_key(value))
    if place is None:
        # A slot of its own, below those of the compiler: it is in none of its allocations.
        return replace(value, slot=-1 - value.slot, allocation=-1, offset=None)
    slot = slots.setdefault((place.allocation, place.offset), len(slots))
    return replace(value, slot=slot, allocation=place.allocation, offset=place.offset)


def _allocations_of_compiler(
    memory: MemoryAnalysis, assignment: BufferAssignment, values: tuple[LiveValue, ...]
) -> Iterator[Allocation]:
    """Yields the compiler's allocations with their values."""
    inside: dict[int, list[LiveValue]] = {}
    for value in values:
        inside.setdefault(value.allocation, []).append(value)
    donated = {allocation.parameter for allocation in memory.allocations if allocation.is_donated}
    for allocation in assignment.allocations:
        number = allocation.parameter_number
        parameter = None if number is None else (number, allocation.parameter_shape_index)
        yield Allocation(
            allocation.index,
            allocation.size_bytes,
            allocation.color,
            _kind_of_allocation(allocation),
            parameter,
            parameter in donated,
            allocation.maybe_live_out,
            allocation.is_preallocated_temp,
            tuple(inside.get(allocation.index, ())),
        )


def _kind_of_allocation(allocation: BufferAllocation) -> Kind:
    """Returns what an allocation of the compiler is for."""
    if allocation.is_constant:
        return "constant"
    if allocation.parameter_number is not None:
        return "aliased" if allocation.maybe_live_out else "argument"
    if allocation.maybe_live_out:
        return "output"
    return "thread-local" if allocation.is_thread_local else "temporary"


def _space_of_compiler(
    space: MemorySpaceUsage, values: tuple[LiveValue, ...], assignment: BufferAssignment
) -> MemorySpaceUsage:
    """Returns the usage of a memory space with the compiler's heap size and fragmentation."""
    heaps = {
        a.index: a.size_bytes for a in assignment.allocations if a.is_preallocated_temp and a.color == space.number
    }
    inside = tuple(value for value in values if value.space == space.number)
    end = len(space.timeline) - 1
    timeline = tuple(timeline_of(inside, end))
    # Fragmentation is what the heap has above its own live bytes, results and arguments aside.
    heap_peak = max(timeline_of([value for value in inside if value.allocation in heaps], end), default=0)
    size = sum(heaps.values())
    return replace(
        space,
        values=inside,
        timeline=timeline,
        peak_step=max(range(len(timeline)), key=timeline.__getitem__),
        # Live ranges of the text may exceed the heap where the compiler knows better.
        totals=replace(space.totals, temporary_bytes=size, fragmentation_bytes=max(size - heap_peak, 0)),
        offsets="exact",
    )


# --- the peak that XProf shows ---
# Arguments, results, and constants count during the whole execution, and temporary values as the heap simulator
# allocated and freed them; thread-local values do not count. `MemorySpaceUsage.peak_bytes` counts only what is live at
# a step. Mirrors xprof/convert/hlo_proto_to_memory_visualization_utils.cc.


_NO_TRACE: Final = HeapSimulatorTrace((), whole_module_simulation=False, buffer_allocation_index=0)


@dataclass(frozen=True, slots=True)
class ViewerPeak:
    """What the memory viewer shows of one memory space, in bytes.

    `total_bytes` are all allocations but thread-local ones; `always_bytes` those that count during the whole execution.
    Of these, `argument_bytes` are arguments and `output_bytes` results; a donated argument may be both. `peak_bytes`
    are `always_bytes` and the most that the trace holds at once; `unpadded_bytes` are `always_bytes`, with padding, and
    the temporary values at the peak without it, None if a shape is unknown. `position` is the index of the event in the
    trace at which the peak is reached, `instruction` the instruction of that event, if there is a trace. `live` are the
    temporary values at the peak, in the order of their allocation.
    """

    color: int
    total_bytes: int
    argument_bytes: int
    output_bytes: int
    always_bytes: int
    peak_bytes: int
    unpadded_bytes: int | None
    position: int
    instruction: str | None
    live: tuple[LogicalBuffer, ...]


@no_garbage_collection()
def viewer_peaks(assignment: BufferAssignment) -> tuple[ViewerPeak, ...]:
    """Returns the viewer's peak of each memory space that has allocations, by color.

    A memory space whose trace contradicts itself has none, as in XProf.

    >>> from hlo_cli.ir.buffer_assignment import AssignedBuffer, BufferPlace
    >>> buffers = tuple(LogicalBuffer(n, 8, 0, BufferPlace(None)) for n in range(3))
    >>> given = BufferAllocation(0, 8, 0, (AssignedBuffer(0, 0, 8),), parameter_number=0)
    >>> heap = BufferAllocation(1, 16, 0, tuple(AssignedBuffer(n, 0, 8) for n in (1, 2)))
    >>> kinds = (("ALLOC", 1), ("FREE", 1), ("ALLOC", 2), ("FREE", 2))
    >>> trace = HeapSimulatorTrace(tuple(HeapEvent(kind, n, "e", "i") for kind, n in kinds), True, 1)
    >>> [peak] = viewer_peaks(BufferAssignment(buffers, (given, heap), heap_simulator_traces=(trace,)))
    >>> peak.total_bytes, peak.always_bytes, peak.peak_bytes, peak.position
    (24, 8, 16, 0)
    """
    home = _allocation_of_each(assignment)
    colors = sorted({allocation.color for allocation in assignment.allocations})
    peaks = (_peak_of(assignment, color, home) for color in colors)
    return tuple(peak for peak in peaks if peak is not None)


def _allocation_of_each(assignment: BufferAssignment) -> dict[int, BufferAllocation]:
    """The allocation of each logical buffer that exists, by the buffer's id."""
    return {
        assigned.logical_buffer_id: allocation
        for allocation in assignment.allocations
        for assigned in allocation.assigned
        if assignment.logical_buffer(assigned.logical_buffer_id) is not None
    }


def _peak_of(assignment: BufferAssignment, color: int, home: dict[int, BufferAllocation]) -> ViewerPeak | None:
    allocations = [each for each in assignment.allocations if each.color == color and not each.is_thread_local]
    trace = _trace_of(assignment, color, home)
    replay = _Replay(assignment, home)
    if not replay.run(trace.events):
        return None
    # XProf skips allocations without a known logical buffer.
    always = sum(each.size_bytes for each in allocations if _is_always_live(each) and _largest(assignment, each))
    live = replay.live_at_peak()
    unpadded = [_unpadded_bytes(buffer) for buffer in live]
    return ViewerPeak(
        color,
        sum(each.size_bytes for each in allocations),
        sum(each.size_bytes for each in allocations if each.parameter_number is not None),
        sum(each.size_bytes for each in allocations if each.maybe_live_out),
        always,
        always + replay.peak_bytes,
        None if None in unpadded else always + sum(size or 0 for size in unpadded),
        replay.position,
        trace.events[replay.position].instruction_name if trace.events else None,
        live,
    )


def _is_always_live(allocation: BufferAllocation) -> bool:
    """Whether the allocation counts during the whole execution."""
    return not allocation.is_preallocated_temp


def _largest(assignment: BufferAssignment, allocation: BufferAllocation) -> int:
    """The size of the largest value in an allocation; allocations without one are not shown."""
    buffers = (assignment.logical_buffer(each.logical_buffer_id) for each in allocation.assigned)
    return max((buffer.size_bytes for buffer in buffers if buffer is not None), default=0)


def _trace_of(assignment: BufferAssignment, color: int, home: dict[int, BufferAllocation]) -> HeapSimulatorTrace:
    """The trace of the first heap of a memory space, else the one with most events of that space.

    The index of the allocation in the trace is not reliable, so its first event decides.
    """
    traces = assignment.heap_simulator_traces
    heaps = {
        allocation.index: trace
        for trace in traces
        if trace.events and (allocation := home.get(trace.events[0].buffer_id)) is not None
    }
    for allocation in assignment.allocations:
        if allocation.color == color and not _is_always_live(allocation) and allocation.index in heaps:
            return heaps[allocation.index]
    colors = {buffer.id: buffer.color for buffer in assignment.logical_buffers if buffer.id in home}
    counts = [sum(colors.get(event.buffer_id) == color for event in trace.events) for trace in traces]
    # Without a heap of that space, the trace with most of its buffers, as in XProf.
    most = max(counts, default=0)
    return traces[counts.index(most)] if most else _NO_TRACE


def _unpadded_bytes(buffer: LogicalBuffer) -> int | None:
    """The size of a value without padding; None if its instruction is unknown.

    Only the last number of a nested index is used, as in XProf.
    """
    place = buffer.defined_at
    if place.instruction is None:
        return None
    shape = place.instruction.shape
    if place.shape_index and isinstance(shape, TupleShape) and place.shape_index[-1] < len(shape.elements):
        shape = shape.elements[place.shape_index[-1]]
    return logical_bytes(shape)


@dataclass(slots=True)
class _Replay:
    """Replays the events of a trace; a value that shares the memory of another one counts as that one."""

    assignment: BufferAssignment
    home: dict[int, BufferAllocation]
    peak_bytes: int = 0
    position: int = 0
    _bytes: int = 0
    _users: dict[int, int] = field(default_factory=dict)
    _shared: dict[int, int] = field(default_factory=dict)
    _started: dict[int, tuple[int, LogicalBuffer]] = field(default_factory=dict)
    _spans: list[tuple[int, LogicalBuffer, int]] = field(default_factory=list)

    def run(self, events: Sequence[HeapEvent]) -> bool:
        """Returns whether the events are consistent: nothing is freed twice, and all are of one allocation."""
        heaps = set[int]()
        for position, event in enumerate(events):
            buffer = self._known(event.buffer_id)
            if buffer is None:
                continue
            heaps.add(self.home[buffer.id].index)
            if event.kind == "SHARE_WITH":
                other = self._known(event.share_with_canonical_id)
                # The first user of a shared buffer allocates it.
                if other is not None and self._share(buffer.id, other.id) == 1:
                    self._take(other, position)
            elif event.kind == "ALLOC":
                self._count(buffer.id, 1)
                self._take(buffer, position)
            elif (users := self._count(buffer.id, -1)) <= 0 and not self._drop(
                self._canonical(buffer.id), position, users
            ):
                return False
        return len(heaps) == 1 or not events

    def live_at_peak(self) -> tuple[LogicalBuffer, ...]:
        """Returns the values that the heap holds at the peak, in the order of their allocation."""
        spans = [*self._spans, *((*taken, self.position + 1) for taken in self._started.values())]
        live = [(start, buffer) for start, buffer, end in spans if start <= self.position < end]
        return tuple(buffer for _, buffer in sorted(live, key=lambda each: each[0]))

    def _known(self, number: int | None) -> LogicalBuffer | None:
        """The buffer of this id if it has an allocation."""
        return self.assignment.logical_buffer(number) if number is not None and number in self.home else None

    def _canonical(self, number: int) -> int:
        """The buffer whose memory a buffer uses; paths are shortened."""
        path = list[int]()
        while number in self._shared:
            path.append(number)
            number = self._shared[number]
        for passed in path:
            self._shared[passed] = number
        return number

    def _share(self, number: int, other: int) -> int:
        """Makes a buffer use the memory of another one, and returns the number of users of that."""
        self._shared.pop(number, None)
        if self._canonical(other) != number:
            self._shared[number] = other
        return self._count(number, 1)

    def _count(self, number: int, by: int) -> int:
        """Changes the number of users of a buffer's memory, and returns it."""
        canonical = self._canonical(number)
        self._users[canonical] = self._users.get(canonical, 0) + by
        return self._users[canonical]

    def _take(self, buffer: LogicalBuffer, position: int) -> None:
        """Adds the memory of a buffer from an event on."""
        self._bytes += buffer.size_bytes
        self._started.setdefault(self._canonical(buffer.id), (position, buffer))
        # Only a higher level replaces the peak, as in XProf: the first of several.
        if self._bytes > self.peak_bytes:
            self.peak_bytes, self.position = self._bytes, position

    def _drop(self, number: int, position: int, users: int) -> bool:
        """Removes the memory of a buffer at an event; returns whether it had been added."""
        buffer = self.assignment.logical_buffer(number)
        self._bytes -= buffer.size_bytes if buffer is not None else 0
        if (taken := self._started.pop(number, None)) is not None:
            self._spans.append((*taken, position))
        return users == 0 and self._bytes >= 0
