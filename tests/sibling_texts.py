"""XLA's files about memory written again from what was read of them, to hold that nothing got lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hlo_cli.ir.buffer_assignment import (
    BufferAllocation,
    BufferAssignment,
    BufferPlace,
    DumpedLiveRanges,
    LogicalBuffer,
    StackNode,
    UsedValues,
    ValueUse,
)
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.out_of_memory import AllocationUsage, CountedShape, MemoryUsageReport, SpaceUsage, UsageRow
from hlo_cli.ir.shape import Shape, TupleShape
from hlo_cli.source import Source
from hlo_cli.syntax.byte_sizes import byte_text

_OF_A_TUPLE = TupleShape(())


def buffer_assignment_text(assignment: BufferAssignment) -> str:
    """`-buffer-assignment.txt`."""
    lines = ["BufferAssignment:"]
    for allocation in assignment.allocations:
        lines.append(
            ", ".join((f"allocation {allocation.index}: size {allocation.size_bytes}", *_parts(allocation))) + ":"
        )
        for assigned in allocation.assigned:
            buffer = assignment.logical_buffer(assigned.logical_buffer_id)
            assert buffer is not None
            size = f"(size={assigned.size_bytes},offset={assigned.offset_bytes})"
            lines.append(f" value: {_short(buffer)} {size}: {buffer.shape}")
    return "\n".join(lines) + "\n"


def live_ranges_text(ranges: DumpedLiveRanges) -> str:
    """`-live-range.txt`."""
    lines = [f"HloLiveRange (max {ranges.schedule_end}):", "  InstructionSequence:"]
    lines += [f"    {each.time}:{each.place}" for each in ranges.schedule]
    lines += ["  BufferLiveRange:", *(f"    {_indexed(each.place)}:{each.start}-{each.end}" for each in ranges.ranges)]
    if ranges.peak_time is not None:
        lines.append(f"  Live ranges at {ranges.peak_time} (peak):")
    for value in ranges.peak:
        lines.append(
            f"    {_indexed(value.place)}: {value.size_bytes} bytes (cumulative: {value.cumulative_bytes} bytes)"
        )
    if ranges.stack_bytes is not None:
        lines.append(f"  Stack trace breakdown for peak usage: {_grouped(ranges.stack_bytes)} bytes")
    lines += [_rails(ranges.stack, at) + _node(node) for at, node in enumerate(ranges.stack)]
    return "\n".join(lines) + "\n"


def _indexed(place: BufferPlace) -> str:
    return place.name + index_text(place.shape_index)


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _node(node: StackNode) -> str:
    sizes = map(_grouped, (node.total_bytes, node.current_bytes, node.remaining_bytes))
    total, current, remaining = (f"{size} bytes" for size in sizes)
    return f"{node.name} ({node.percent:.1f}%, total: {total}, current: {current}, remaining: {remaining})"


def _rails(nodes: Sequence[StackNode], at: int) -> str:
    """What stands before a node: a rail for each level at which something follows."""
    if not nodes[at].depth:
        return "    "
    levels = [_has_next(nodes, at, depth) for depth in range(1, nodes[at].depth + 1)]
    through = "".join("│   " if more else "    " for more in levels[:-1])
    return "      " + through + ("├── " if levels[-1] else "└── ")


def _has_next(nodes: Sequence[StackNode], at: int, depth: int) -> bool:
    after = (node.depth for node in nodes[at + 1 :] if node.depth <= depth)
    return next(after, 0) == depth


def buffer_values_text(values: UsedValues, source: Source) -> str:
    """`-buffer-assignment-values.txt`, with the instructions as they stand in the source."""
    total = f"{values.total_bytes} ({byte_text(values.total_bytes)})"
    lines = ["", f"Total bytes used: {total}", "", "Used values:"]
    for value in values.values:
        shape = _OF_A_TUPLE if source.slice(value.instruction_span).partition(" = ")[2].startswith("(") else None
        phi = " (phi)" * value.is_phi
        lines += [f"<{value.id} {place_text(value.defined_at, shape)}{phi} @{value.color}>", " positions:"]
        lines += [f"  {_spaced(place)}" for place in value.positions]
        lines.append(" uses:")
        for use in value.uses:
            lines.append(f"  {use.user}, operand {use.operand_number}{_taken(use)}")
        if not value.uses:
            lines.append("  (none)")
        lines.append(f" from instruction: {source.slice(value.instruction_span)}")
    return "\n".join(lines) + "\n"


def _spaced(place: BufferPlace) -> str:
    is_tuple = place.shape_index or (place.instruction is not None and isinstance(place.instruction.shape, TupleShape))
    return f"{place.name} {index_text(place.shape_index)}" if is_tuple else place.name


def _taken(use: ValueUse) -> str:
    user = use.user.instruction
    shape = user.operands[use.operand_number].shape if user is not None else None
    return f" {index_text(use.operand_index)}" if use.operand_index or isinstance(shape, TupleShape) else ""


def _parts(allocation: BufferAllocation) -> Iterator[str]:
    if allocation.color:
        yield f"color {allocation.color}"
    if allocation.page is not None:
        yield f"page {allocation.page}"
    if allocation.parameter_number is not None:
        yield f"parameter {allocation.parameter_number}"
        shape = _without_layout(allocation.parameter_shape)
        yield f"shape |{shape}| at ShapeIndex {index_text(allocation.parameter_shape_index)}"
    if allocation.output_shape is not None:
        yield f"output shape is |{_without_layout(allocation.output_shape)}|"
    flags = {
        "constant": allocation.is_constant,
        "thread-local": allocation.is_thread_local,
        "maybe-live-out": allocation.maybe_live_out,
        "preallocated-temp": allocation.is_preallocated_temp,
    }
    yield from (flag for flag, is_set in flags.items() if is_set)


def _short(buffer: LogicalBuffer) -> str:
    return f"<{buffer.id} {place_text(buffer.defined_at, buffer.shape)}{' (phi)' * buffer.is_phi} @{buffer.color}>"


def place_text(place: BufferPlace, shape: Shape | None) -> str:
    """A place as XLA writes it beside a value: with the index, even if that is empty, of all that make tuples."""
    is_tuple = place.shape_index or isinstance(shape, TupleShape)
    return place.name + (index_text(place.shape_index) if is_tuple else "")


def _without_layout(shape: Shape | None) -> str:
    assert shape is not None
    return shape.to_string(layout=False)


# --- the report of an assignment ---
# What XLA reports of an assignment, computed from what was read of it.
#
# Mirrors `BufferAssignment::GetMemoryUsageReportProto` and `BufferAllocation::MemoryUsageReport` of
# xla/service/buffer_assignment.cc.


_SPACE_NAMES = ("default", "vmem", "smem", "hbm", "host", "cmem")
_ALWAYS_SHOWN = 50
_SHARE_LEFT_OUT = 0.05


def memory_usage_report(assignment: BufferAssignment) -> MemoryUsageReport:
    """The report on an assignment whose values have shapes, such as one read from text."""
    spaces: dict[int, list[BufferAllocation]] = {}
    for allocation in assignment.allocations:
        spaces.setdefault(allocation.color, []).append(allocation)
    return MemoryUsageReport(tuple(_usage_of_space(color, spaces[color], assignment) for color in sorted(spaces)))


def _usage_of_space(color: int, allocations: Sequence[BufferAllocation], assignment: BufferAssignment) -> SpaceUsage:
    name = _SPACE_NAMES[color] if 0 <= color < len(_SPACE_NAMES) else f"color_{color}"
    ordered = sorted(allocations, key=lambda allocation: (-allocation.size_bytes, allocation.index))
    total = sum(allocation.size_bytes for allocation in ordered)
    shown = _shown([allocation.size_bytes for allocation in ordered], total)
    return SpaceUsage(
        name, color, total, tuple(_usage_of_allocation(allocation, assignment) for allocation in ordered[:shown])
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """An offset in an allocation, and the values at it, by id."""

    offset: int
    size: int
    buffers: tuple[LogicalBuffer, ...]


def _usage_of_allocation(allocation: BufferAllocation, assignment: BufferAssignment) -> AllocationUsage:
    places = sorted(_places(allocation, assignment), key=lambda place: (-place.size, place.buffers[-1].id))
    total = sum(place.size for place in places)
    shown = _shown([place.size for place in places], total)
    rows, cumulative = [], 0
    for place in places[:shown]:
        cumulative += place.size
        percent = round(100 * cumulative / total) if total else None
        counts = Counter(buffer.shape.to_string(layout=False) for buffer in place.buffers if buffer.shape is not None)
        shapes = tuple(CountedShape(count, shape) for count, shape in sorted((n, s) for s, n in counts.items()))
        rows.append(UsageRow(cumulative, percent, place.size, place.offset, len(place.buffers), shapes))
    return AllocationUsage(tuple(rows), len(places) - shown)


def _places(allocation: BufferAllocation, assignment: BufferAssignment) -> list[_Place]:
    found: dict[int, list[tuple[int, LogicalBuffer]]] = {}
    for assigned in sorted(allocation.assigned, key=lambda assigned: assigned.logical_buffer_id):
        buffer = assignment.logical_buffer(assigned.logical_buffer_id)
        if buffer is not None:
            found.setdefault(assigned.offset_bytes, []).append((assigned.size_bytes, buffer))
    return [
        _Place(offset, max(size for size, _ in here), tuple(buffer for _, buffer in here))
        for offset, here in found.items()
    ]


def _shown(sizes: Sequence[int], total: int) -> int:
    """How many of the largest are listed: at least fifty, and on until less than a twentieth is left."""
    cumulative = 0
    for index, size in enumerate(sizes, 1):
        cumulative += size
        if index > _ALWAYS_SHOWN and total - cumulative < total * _SHARE_LEFT_OUT:
            return index
    return len(sizes)
