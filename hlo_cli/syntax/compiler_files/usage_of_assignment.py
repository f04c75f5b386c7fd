"""XLA's memory usage report, computed from a buffer assignment.

Mirrors `BufferAssignment::GetMemoryUsageReportProto` and `BufferAllocation::MemoryUsageReport` of
xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import out_of_memory as usage
from hlo_cli.ir.buffer_assignment import BufferAllocation, BufferAssignment, LogicalBuffer

_SPACE_NAMES: Final = ("default", "vmem", "smem", "hbm", "host", "cmem")
_ALWAYS_SHOWN: Final = 50
_SHARE_LEFT_OUT: Final = 0.05


def memory_usage_report(assignment: BufferAssignment) -> usage.MemoryUsageReport:
    """The report on an assignment whose values have shapes, such as one read from text.

    >>> from hlo_cli.source import Source
    >>> from hlo_cli.syntax.compiler_files.buffer_assignment import parse_buffer_assignment
    >>> text = "BufferAssignment:\\nallocation 0: size 8, constant:\\n value: <0 c @0> (size=8,offset=0): f32[2]{0}\\n"
    >>> [space] = memory_usage_report(parse_buffer_assignment(Source("a.txt", text))).spaces
    >>> space.name, space.total_bytes, space.allocations[0].rows[0].shapes[0].shape
    ('default', 8, 'f32[2]')
    """
    spaces: dict[int, list[BufferAllocation]] = {}
    for allocation in assignment.allocations:
        spaces.setdefault(allocation.color, []).append(allocation)
    return usage.MemoryUsageReport(tuple(_space(color, spaces[color], assignment) for color in sorted(spaces)))


def _space(color: int, allocations: Sequence[BufferAllocation], assignment: BufferAssignment) -> usage.SpaceUsage:
    name = _SPACE_NAMES[color] if 0 <= color < len(_SPACE_NAMES) else f"color_{color}"
    ordered = sorted(allocations, key=lambda allocation: (-allocation.size_bytes, allocation.index))
    total = sum(allocation.size_bytes for allocation in ordered)
    shown = _shown([allocation.size_bytes for allocation in ordered], total)
    return usage.SpaceUsage(name, color, total, tuple(_usage(allocation, assignment) for allocation in ordered[:shown]))


@dataclass(frozen=True, slots=True)
class _Place:
    """An offset in an allocation, and the values at it, by id."""

    offset: int
    size: int
    buffers: tuple[LogicalBuffer, ...]


def _usage(allocation: BufferAllocation, assignment: BufferAssignment) -> usage.AllocationUsage:
    places = sorted(_places(allocation, assignment), key=lambda place: (-place.size, place.buffers[-1].id))
    total = sum(place.size for place in places)
    shown = _shown([place.size for place in places], total)
    rows, cumulative = [], 0
    for place in places[:shown]:
        cumulative += place.size
        percent = round(100 * cumulative / total) if total else None
        counts = Counter(buffer.shape.to_string(layout=False) for buffer in place.buffers if buffer.shape is not None)
        shapes = tuple(usage.CountedShape(count, shape) for count, shape in sorted((n, s) for s, n in counts.items()))
        rows.append(usage.UsageRow(cumulative, percent, place.size, place.offset, len(place.buffers), shapes))
    return usage.AllocationUsage(tuple(rows), len(places) - shown)


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
