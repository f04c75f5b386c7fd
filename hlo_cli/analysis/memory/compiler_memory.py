"""Memory analysis that takes allocations and offsets from the compiler's own buffer assignment.

The assignment is a sibling file of the dump, or part of its proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hlo_cli.analysis.hardware.chip_table import TpuGeneration
from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generations
from hlo_cli.analysis.layout.padding import table_bytes
from hlo_cli.analysis.memory.memory_analysis import memory_analysis, timeline_of
from hlo_cli.analysis.memory.memory_model import Allocation, Kind, LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import BufferAllocation, BufferAssignment
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex, TupleShape, subshape

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
    allocations = tuple(_allocations(memory, assignment, values))
    spaces = tuple(_space(space, values, assignment) for space in memory.spaces)
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
    fitting = (known for known in _generations() if all(table_bytes(n, "tpu", known) == sizes[n] for n in sizes))
    return next(fitting, None) if sizes else None


def _generations() -> list[str]:
    """Returns one TPU generation per size of tuple tables, the one with the largest heap; the most common first."""
    largest = dict[int, TpuGeneration]()
    for each in sorted(tpu_generations(), key=lambda each: each.heap_limit or 0):
        largest[each.table_granule] = each
    return sorted((each.name for each in largest.values()), key=lambda name: name != USUAL_TPU)


def assigned_values(assignment: BufferAssignment) -> Mapping[_Key, AssignedBuffer]:
    """Returns the assigned buffer of each value, by defining instruction, shape index, and `is_phi`."""
    found: dict[_Key, AssignedBuffer] = {}
    for allocation in assignment.allocations:
        for each in allocation.assigned:
            buffer = assignment.logical_buffer(each.logical_buffer_id)
            if buffer is not None and (instruction := buffer.defined_at.instruction) is not None:
                key = (instruction, buffer.defined_at.shape_index, buffer.is_phi)
                found[key] = AssignedBuffer(allocation.index, each.offset_bytes, each.size_bytes)
    return found


def value_key(value: LiveValue) -> _Key:
    """Returns the key of a value in `assigned_values`."""
    return value.instruction, value.index, value.is_phi


def _with_assignment(
    value: LiveValue, assigned: Mapping[_Key, AssignedBuffer], slots: dict[tuple[int, int], int]
) -> LiveValue:
    """Returns the value with the compiler's allocation and offset; values at one offset share a slot."""
    place = assigned.get(value_key(value))
    if place is None:
        return replace(value, slot=-1 - value.slot, allocation=-1, offset=None)
    slot = slots.setdefault((place.allocation, place.offset), len(slots))
    return replace(value, slot=slot, allocation=place.allocation, offset=place.offset)


def _allocations(
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
            _kind(allocation),
            parameter,
            parameter in donated,
            allocation.maybe_live_out,
            allocation.is_preallocated_temp,
            tuple(inside.get(allocation.index, ())),
        )


def _kind(allocation: BufferAllocation) -> Kind:
    """Returns what an allocation of the compiler is for."""
    if allocation.is_constant:
        return "constant"
    if allocation.parameter_number is not None:
        return "aliased" if allocation.maybe_live_out else "argument"
    if allocation.maybe_live_out:
        return "output"
    return "thread-local" if allocation.is_thread_local else "temporary"


def _space(space: MemorySpaceUsage, values: tuple[LiveValue, ...], assignment: BufferAssignment) -> MemorySpaceUsage:
    """Returns the usage of a memory space with the compiler's heap size and fragmentation."""
    heaps = {
        a.index: a.size_bytes for a in assignment.allocations if a.is_preallocated_temp and a.color == space.number
    }
    inside = tuple(value for value in values if value.space == space.number)
    end = len(space.timeline) - 1
    timeline = tuple(timeline_of(inside, end))
    held = max(timeline_of([value for value in inside if value.allocation in heaps], end), default=0)
    size = sum(heaps.values())
    return replace(
        space,
        values=inside,
        timeline=timeline,
        peak=max(range(len(timeline)), key=timeline.__getitem__),
        totals=replace(space.totals, temporaries=size, fragmentation=max(size - held, 0)),
        offsets="exact",
    )
