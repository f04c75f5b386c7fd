"""Reuse of existing allocations for further buffers.

Mirrors `BufferAssigner::MaybeAssignBuffer` of xla/service/buffer_assignment.cc and its callers.
"""

from __future__ import annotations

from dataclasses import field

from hlo_cli.analysis.memory.allocation_builder import AllocationBuilder
from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.interference import AllocationValues, Interference
from hlo_cli.analysis.placing.free_intervals import FreeIntervals
from hlo_cli.dataclass import dataclass


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
