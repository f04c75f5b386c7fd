"""From a module to what fills its memory: puts the analyses together and adds up.

Mirrors `BufferAssigner::Run` of xla/service/buffer_assignment.cc and `CompiledMemoryStats` of
xla/pjrt/pjrt_executable.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from hlo_cli.analysis.dataflow.flat_schedule import flat_schedule
from hlo_cli.analysis.dataflow.subshapes import subshapes_of
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes, logical_bytes, prefetched_space
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.assignment import assign
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.drafts import Assigned
from hlo_cli.analysis.memory.interference import Release
from hlo_cli.analysis.memory.live_ranges import LiveRanges, live_ranges
from hlo_cli.analysis.memory.memory_model import (
    Allocation,
    Kind,
    LiveValue,
    MemoryAnalysis,
    Offsets,
    SpaceUsage,
    Totals,
)
from hlo_cli.analysis.memory.order_independent import order_independent_facts
from hlo_cli.analysis.memory.turns import timeline
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, subshape


@no_garbage_collection()
def memory_analysis(
    module: Module,
    *,
    target: Target | None = None,
    generation: str | None = None,
    release: Release = "0.10.2",
) -> MemoryAnalysis:
    """What fills memory while a module runs; `target` and `generation` where the text does not tell them.

    A module without schedule is taken to run in the order of its text, and `order` says so.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[8] parameter(0) a = f32[8] negate(p) b = f32[8] sine(a) ROOT c = f32[2,8] reshape(b) }'''
    >>> memory = memory_analysis(parse_module(text))
    >>> [(str(value), value.start, value.end, value.kind) for value in memory.values][:2]
    [('p', 0, 4, 'argument'), ('a', 1, 2, 'temporary')]
    >>> memory.spaces[0].totals.temporaries
    32
    """
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
        ranges.peak,
        assignment.strategy,
        facts.is_generation_told,
        assignment.limit,
    )


@dataclass(frozen=True, slots=True)
class _Sizing:
    """What a shape takes on the target."""

    target: Target | None
    generation: str
    known: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, shape: Shape) -> tuple[int, int]:
        """Logical and padded bytes, measured once: equal shapes are one object in a module."""
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
    assigned: Iterable[Assigned],
    sizing: _Sizing,
) -> Iterable[Allocation]:
    places = dataflow.places
    given = {(alias.parameter_number, alias.parameter_index) for alias in module.input_output_alias}
    given |= {(donor.parameter_number, donor.parameter_index) for donor in module.buffer_donor}
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
                    )
                )
        parameter: tuple[int, ShapeIndex] | None = None
        if allocation.parameter is not None:
            maker = places.instructions[places.owner[allocation.parameter]]
            parameter = (numbers[maker], places.index(allocation.parameter))
        yield Allocation(
            index,
            allocation.size,
            allocation.space,
            "aliased" if parameter and allocation.is_live_out else _ROLES[allocation.role],
            parameter,
            parameter in given,
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
    assigned: Sequence[Assigned],
    end: int,
    sizing: _Sizing,
) -> Iterable[SpaceUsage]:
    target = sizing.target
    inside: dict[int, list[LiveValue]] = {}
    for value in values:
        inside.setdefault(value.space, []).append(value)
    totals = _totals(module, allocations, assigned, sizing)
    for number in sorted(inside.keys() | totals.keys()):
        found = inside.get(number, [])
        timeline = timeline_of(found, end)
        offsets: Offsets = "exact" if target is not None and module.is_scheduled else "estimated"
        if number and number == prefetched_space(target, sizing.generation):
            offsets = "unknown"
        yield SpaceUsage(
            number,
            space_name(number, target),
            tuple(found),
            tuple(timeline),
            max(range(len(timeline)), key=timeline.__getitem__),
            totals.get(number, Totals()),
            offsets,
        )


def timeline_of(values: Sequence[LiveValue], end: int) -> list[int]:
    """The bytes alive at every position up to the end; where one value takes over from another, the new one counts."""
    return timeline(((value.start, value.end, value.padded_bytes, value.slot) for value in values), end)


def _totals(
    module: Module, allocations: Iterable[Allocation], assigned: Sequence[Assigned], sizing: _Sizing
) -> dict[int, Totals]:
    found: dict[int, Totals] = {}

    def add(space: int, **more: int) -> None:
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
            given = subshape(entry.parameters[alias.parameter_number].shape, alias.parameter_index)
            if given is not None:
                add(_space(given), aliased=sizing(given)[1])
    for allocation, draft in zip(allocations, assigned, strict=True):
        match allocation.kind:
            case "temporary":
                add(allocation.space, temporaries=allocation.size, fragmentation=draft.fragmentation)
            case "constant":
                add(allocation.space, constants=allocation.size)
            case "thread-local":
                add(allocation.space, thread_local=allocation.size)
    return found


def _parts(shape: Shape) -> Iterable[Shape]:
    return subshapes_of(shape).shapes


def _space(shape: Shape) -> int:
    return shape.layout.memory_space if isinstance(shape, ArrayShape | BufferShape) else 0
