"""The peak that XProf's memory viewer shows, from the heap simulator's trace in a buffer assignment.

Arguments, results, and constants count during the whole execution, and temporary values as the heap simulator allocated
and freed them; thread-local values do not count. `MemorySpaceUsage.peak_bytes` counts only what is live at a step.
Mirrors xprof/convert/hlo_proto_to_memory_visualization_utils.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from hlo_cli.analysis.layout.padding import logical_bytes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.buffer_assignment import (
    BufferAllocation,
    BufferAssignment,
    HeapEvent,
    HeapSimulatorTrace,
    LogicalBuffer,
)
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.shape import TupleShape

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
    found = (_peak_of(assignment, color, home) for color in colors)
    return tuple(peak for peak in found if peak is not None)


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
        for at, event in enumerate(events):
            buffer = self._known(event.buffer_id)
            if buffer is None:
                continue
            heaps.add(self.home[buffer.id].index)
            if event.kind == "SHARE_WITH":
                other = self._known(event.share_with_canonical_id)
                if other is not None and self._share(buffer.id, other.id) == 1:
                    self._take(other, at)
            elif event.kind == "ALLOC":
                self._count(buffer.id, 1)
                self._take(buffer, at)
            elif (left := self._count(buffer.id, -1)) <= 0 and not self._drop(self._canonical(buffer.id), at, left):
                return False
        return len(heaps) == 1 or not events

    def live_at_peak(self) -> tuple[LogicalBuffer, ...]:
        """Returns the values that the heap holds at the peak, in the order of their allocation."""
        spans = [*self._spans, *((*taken, self.position + 1) for taken in self._started.values())]
        held = [(start, buffer) for start, buffer, end in spans if start <= self.position < end]
        return tuple(buffer for _, buffer in sorted(held, key=lambda each: each[0]))

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

    def _take(self, buffer: LogicalBuffer, at: int) -> None:
        """Adds the memory of a buffer from an event on."""
        self._bytes += buffer.size_bytes
        self._started.setdefault(self._canonical(buffer.id), (at, buffer))
        if self._bytes > self.peak_bytes:
            self.peak_bytes, self.position = self._bytes, at

    def _drop(self, number: int, at: int, users: int) -> bool:
        """Removes the memory of a buffer at an event; returns whether it had been added."""
        buffer = self.assignment.logical_buffer(number)
        self._bytes -= buffer.size_bytes if buffer is not None else 0
        if (taken := self._started.pop(number, None)) is not None:
            self._spans.append((*taken, at))
        return users == 0 and self._bytes >= 0
