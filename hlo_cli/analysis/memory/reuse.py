"""Allocations that are there already and may take another buffer.

Mirrors `BufferAssigner::MaybeAssignBuffer` of xla/service/buffer_assignment.cc and its callers.
"""

from __future__ import annotations

from dataclasses import field

from hlo_cli.analysis.memory.buffers import Buffer
from hlo_cli.analysis.memory.drafts import Draft
from hlo_cli.analysis.memory.interference import AllocationValues, Interference
from hlo_cli.analysis.placing.free_intervals import Gaps
from hlo_cli.dataclass import dataclass


@dataclass(slots=True)
class _Opened:
    """The allocations of a memory space that others may share, and when they are free."""

    drafts: list[Draft] = field(default_factory=list)
    gaps: Gaps = field(default_factory=Gaps)


class Reuse:
    """The allocations of a module so far, asked for one that may take a buffer too."""

    __slots__ = ("_home", "_interference", "_opened")

    def __init__(self, interference: Interference) -> None:
        self._interference = interference
        self._opened: dict[int, _Opened] = {}
        self._home: dict[int, Draft] = {}

    def put(self, draft: Draft, number: int, buffer: Buffer) -> None:
        """Puts a buffer into an allocation, which is remembered for others if it is open."""
        draft.put(number, is_live_out=buffer.is_live_out)
        if draft.is_open:
            there = self._opened.setdefault(draft.space, _Opened())
            if draft.tenants is None:
                draft.tenants = AllocationValues(there.gaps.open())
                there.drafts.append(draft)
            self._interference.enter(draft.tenants, buffer.values, there.gaps)
        self._home.update(dict.fromkeys(buffer.values, draft))

    def of_operand(self, buffer: Buffer) -> Draft | None:
        """The allocation of an operand of what makes the buffer."""
        dataflow = self._interference.dataflow
        places = dataflow.places
        for value in buffer.values:
            if value != places.first[places.owner[value]]:
                continue
            instruction = places.instructions[places.owner[value]]
            for position in range(len(instruction.operands)):
                draft = self._home.get(dataflow.value[places.operand_place(instruction, position)])
                if draft is not None and draft.is_open and self._fits(buffer, draft):
                    return draft
        return None

    def newest(self, buffer: Buffer) -> Draft | None:
        """The newest allocation that is free while the buffer lives."""
        start, end = self._interference.ranges.start, self._interference.ranges.end
        first = next((value for value in buffer.values if value in start), None)
        if first is None or buffer.space not in self._opened:
            return None
        there = self._opened[buffer.space]
        for number in there.gaps.around(start[first], end[first]):
            if buffer.is_live_out and there.drafts[number].size > buffer.size:
                return None  # the older ones are no smaller
            if self._fits(buffer, there.drafts[number]):
                return there.drafts[number]
        return None

    def _fits(self, buffer: Buffer, draft: Draft) -> bool:
        if draft.space != buffer.space or draft.size < buffer.size:
            return False
        if buffer.is_live_out and draft.size != buffer.size:
            return False
        return draft.tenants is None or self._interference.is_free(draft.tenants, buffer.values)
