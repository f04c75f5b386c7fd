"""Memory analysis of a module: runs the analyses of this package in order and adds up their results.

Mirrors `BufferAssigner::Run` of xla/service/buffer_assignment.cc and `CompiledMemoryStats` of
xla/pjrt/pjrt_executable.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from hlo_cli.analysis.cache import computed_once, known_result
from hlo_cli.analysis.dataflow.flat_schedule import flat_schedule, subshapes_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.layout.padding import buffer_bytes, logical_bytes, prefetched_space
from hlo_cli.analysis.memory.allocation_builder import AssignedAllocation
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.interference import Release
from hlo_cli.analysis.memory.live_ranges import LiveRanges, live_ranges, peak_position
from hlo_cli.analysis.memory.memory_model import (
    Allocation,
    Kind,
    LiveValue,
    MemoryAnalysis,
    MemorySpaceUsage,
    Offsets,
    Totals,
)
from hlo_cli.analysis.memory.order_independent import order_independent_facts, told_generation
from hlo_cli.analysis.memory.slot_occupancy import timeline
from hlo_cli.analysis.memory.strategies import DEFAULT_STRATEGY, TPU_STRATEGIES
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, subshape


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
    >>> memory.spaces[0].totals.temporaries
    32
    """
    if generation is None and (told := _known_for_a_chip(module, target, release)) is not None:
        return told
    return computed_once(_memory_analysis, module, target, generation, release)


def _known_for_a_chip(module: Module, target: Target | None, release: Release) -> MemoryAnalysis | None:
    """What is known already for the generation that is guessed, if it does not depend on who told the generation.

    A limit of main memory is known only for a generation that is told; it matters if it is exceeded.
    """
    _, generation, is_told = told_generation(module, target, None)
    found = known_result(_memory_analysis, module, target, generation, release) if not is_told else None
    if found is None or found.strategy not in (TPU_STRATEGIES[0].name, DEFAULT_STRATEGY.name):
        return None
    facts = replace(found.facts, is_generation_known=False)
    return replace(found, is_generation_known=False, limit=None, facts=facts)


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
    values = sorted((v for a in allocations for v in a.values if v.start >= 0), key=lambda v: (v.start, v.end))
    return MemoryAnalysis(
        module,
        target,
        generation,
        "schedule" if module.is_scheduled else "text",
        release,
        schedule.sequence,
        {instruction: position for position, instruction in enumerate(schedule.sequence)},
        schedule.runs,
        tuple(values),
        tuple(_spaces(module, values, allocations, assigned, schedule.end, sizing)),
        allocations,
        peak_position(dataflow, schedule, ranges),
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
        found = self.known.get(id(shape))
        if found is None:
            padded = buffer_bytes(shape, self.target, self.generation)
            found = self.known[id(shape)] = (logical_bytes(shape), padded)
        return found


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
            kind = _kind(buffer)
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


def _kind(buffer: Buffer) -> Kind:
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
        found = inside.get(number, [])
        timeline = timeline_of(found, end)
        is_exact = target is not None and module.is_scheduled and number not in uncertain
        offsets: Offsets = "exact" if is_exact else "estimated"
        if number and number == prefetched_space(target, sizing.generation):
            offsets = "unknown"
        yield MemorySpaceUsage(
            number,
            space_name(number, target),
            tuple(found),
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
    found: dict[int, Totals] = {}

    def add(space: int, **more: int) -> None:
        """Adds bytes to the totals of a memory space."""
        old = found.get(space, Totals())
        found[space] = replace(old, **{name: getattr(old, name) + size for name, size in more.items()})

    entry = module.entry
    for parameter in entry.parameters:
        for part in _parts(parameter.shape):
            add(_space(part), arguments=sizing(part)[1])
    for part in _parts(entry.root.shape) if entry.root is not None else ():
        add(_space(part), outputs=sizing(part)[1])
    for alias in module.input_output_alias:
        if alias.parameter_number < len(entry.parameters):
            aliased_or_donated = subshape(entry.parameters[alias.parameter_number].shape, alias.parameter_index)
            if aliased_or_donated is not None:
                add(_space(aliased_or_donated), aliased=sizing(aliased_or_donated)[1])
    for allocation, assigned_allocation in zip(allocations, assigned, strict=True):
        match allocation.kind:
            case "temporary":
                add(allocation.space, temporaries=allocation.size, fragmentation=assigned_allocation.fragmentation)
            case "constant":
                add(allocation.space, constants=allocation.size)
            case "thread-local":
                add(allocation.space, thread_local=allocation.size)
    return found


def _parts(shape: Shape) -> Iterable[Shape]:
    """Yields a shape and all its subshapes."""
    return subshapes_of(shape).shapes


def _space(shape: Shape) -> int:
    """Returns the memory space of a shape; tuple tables are in main memory."""
    return shape.layout.memory_space if isinstance(shape, ArrayShape | BufferShape) else 0
