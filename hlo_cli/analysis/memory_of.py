"""From a module to what fills its memory: puts the analyses together and adds up.

Mirrors `BufferAssigner::Run` of xla/service/buffer_assignment.cc and `CompiledMemoryStats` of
xla/pjrt/pjrt_executable.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hlo_cli.analysis.alias_sets import alias_sets
from hlo_cli.analysis.assignment import Assigned, assign
from hlo_cli.analysis.async_chains import async_chains
from hlo_cli.analysis.buffer_sizes import Generation, buffer_bytes, generation_of, logical_bytes
from hlo_cli.analysis.buffers import Buffer, buffers_of
from hlo_cli.analysis.dataflow import Dataflow, dataflow_of
from hlo_cli.analysis.flat_schedule import flat_schedule
from hlo_cli.analysis.in_place import InPlace
from hlo_cli.analysis.interference import Interference, Release
from hlo_cli.analysis.live_ranges import LiveRanges, live_ranges
from hlo_cli.analysis.memory import Allocation, Kind, LiveValue, Memory, Offsets, Space, Totals
from hlo_cli.analysis.operand_sharing import OperandSharing
from hlo_cli.analysis.places import places_of
from hlo_cli.analysis.subshapes import subshapes_of
from hlo_cli.analysis.target import Target, space_name, target_of
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, subshape

_THROUGH_ON_GPU = frozenset(("bitcast", "reshape"))
_THROUGH = frozenset(("bitcast",))


@no_garbage_collection()
def memory_of(
    module: Module,
    *,
    target: Target | None = None,
    generation: Generation | None = None,
    release: Release = "0.10.2",
) -> Memory:
    """What fills memory while a module runs; `target` and `generation` where the text does not tell them.

    A module without schedule is taken to run in the order of its text, and `order` says so.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[8] parameter(0) a = f32[8] negate(p) b = f32[8] sine(a) ROOT c = f32[2,8] reshape(b) }'''
    >>> memory = memory_of(parse_module(text))
    >>> [(str(value), value.start, value.end, value.kind) for value in memory.values][:2]
    [('p', 0, 4, 'argument'), ('a', 1, 2, 'temporary')]
    >>> memory.spaces[0].totals.temporaries
    32
    """
    target = target or target_of(module)
    generation = generation or (generation_of(module) if target == "tpu" else "v5e")
    places = places_of(module)
    chains = async_chains(places.instructions)
    dataflow = dataflow_of(places, chains)
    schedule = flat_schedule(places, module.entry, chains)
    in_place = in_place_of(target)
    aliases = alias_sets(module, dataflow, in_place)
    ranges = live_ranges(module, dataflow, schedule, aliases, target)
    buffers = buffers_of(module, dataflow, aliases, target, generation)
    sharing = OperandSharing(dataflow, in_place, target)
    assigned = assign(module, buffers, Interference(dataflow, aliases, ranges, sharing, release), target)
    sizing = _Sizing(target, generation)
    allocations = tuple(_allocations(module, dataflow, ranges, buffers, assigned, sizing))
    values = sorted((v for a in allocations for v in a.values if v.start >= 0), key=lambda v: (v.start, v.end))
    return Memory(
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
    )


def in_place_of(target: Target | None) -> InPlace:
    """How in-place operations are found on a target.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)").entry.root
    >>> len(in_place_of("gpu").pairs(root))
    1
    """
    return InPlace(_THROUGH_ON_GPU if target == "gpu" else _THROUGH)


@dataclass(frozen=True, slots=True)
class _Sizing:
    """What a shape takes on the target."""

    target: Target | None
    generation: Generation
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
) -> Iterable[Space]:
    target = sizing.target
    inside: dict[int, list[LiveValue]] = {}
    for value in values:
        inside.setdefault(value.space, []).append(value)
    totals = _totals(module, allocations, assigned, sizing)
    for number in sorted(inside.keys() | totals.keys()):
        found = inside.get(number, [])
        timeline = timeline_of(found, end)
        offsets: Offsets = "exact" if target in ("cpu", "gpu") and module.is_scheduled else "estimated"
        if target == "tpu" and number:
            offsets = "unknown"
        yield Space(
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
    change = [0] * (end + 2)
    before: dict[int, LiveValue] = {}
    for value in values:
        last = before.get(value.slot)
        if last is not None and last.end >= value.start:
            change[value.start] -= last.padded_bytes
            change[last.end + 1] += last.padded_bytes
        change[value.start] += value.padded_bytes
        change[value.end + 1] -= value.padded_bytes
        before[value.slot] = value
    alive = 0
    for position, changed in enumerate(change):
        alive += changed
        change[position] = alive
    return change[:-1]


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
