"""Allocations while they are being made, and how those that are only needed for a time become one in each space.

Mirrors `BufferAllocation` and `BufferAssignment::CombineTempAllocations` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from hlo_cli.analysis.hardware.target import Target
from hlo_cli.analysis.memory.interference import AllocationValues
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import MemorySpace, memory_space

Role = Literal["parameter", "constant", "output", "thread-local", "temporary"]


@dataclass(frozen=True, slots=True)
class Assigned:
    """One allocation: the numbers of the buffers in it, where each begins, and its size.

    `parameter` is the place of the entry parameter that it is; `is_live_out` says that a part of the result lies in it.
    An offset is None where the compiler's choice cannot be told from the text. Buffers of one slot (a number for each
    buffer) lie at the same place, one after the other; `fragmentation` is what of a heap is never held.
    """

    size: int
    space: int
    role: Role
    parameter: int | None
    is_live_out: bool
    buffers: tuple[int, ...]
    offsets: tuple[int | None, ...]
    slots: tuple[int, ...]
    fragmentation: int


@dataclass(slots=True)
class Draft:
    """An allocation that buffers may still enter; if it `is_open` to others than the first, it knows its `tenants`."""

    size: int
    space: int
    role: Role
    parameter: int | None = None
    is_live_out: bool = False
    is_open: bool = False
    tenants: AllocationValues | None = None
    buffers: list[int] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    fragmentation: int = 0

    def put(self, number: int, *, is_live_out: bool = False) -> None:
        """Puts a buffer at the beginning of the allocation, where it shares the slot of the first."""
        self.buffers.append(number)
        self.offsets.append(0)
        self.slots.append(self.buffers[0])
        self.is_live_out = self.is_live_out or is_live_out

    def finished(self) -> Assigned:
        """What became of it."""
        return Assigned(
            self.size,
            self.space,
            self.role,
            self.parameter,
            self.is_live_out,
            tuple(self.buffers),
            tuple(self.offsets),
            tuple(self.slots),
            self.fragmentation,
        )


def alignment(space: int, target: Target | None) -> int:
    """To how many bytes offsets in a memory space are rounded up.

    >>> alignment(0, "cpu"), alignment(0, "tpu"), alignment(6, "tpu")
    (64, 16384, 512)
    """
    known = memory_space(space, target)
    if known is None and target != "tpu":
        known = memory_space(MemorySpace.MAIN, target)
    return known.alignment if known is not None else 1


def combined(drafts: list[Draft], target: Target | None) -> list[Draft]:
    """All temporary allocations of a space as one, behind the others."""
    first = _partition(drafts)
    whole_of: dict[int, Draft] = {}
    for draft in drafts[first:]:
        whole = whole_of.get(draft.space)
        if whole is None:
            whole_of[draft.space] = draft
            continue
        step = alignment(draft.space, target)
        base = -(-whole.size // step) * step
        whole.size = base + draft.size
        whole.buffers.extend(draft.buffers)
        whole.slots.extend(draft.slots)
        whole.fragmentation += draft.fragmentation
        whole.offsets.extend(None if offset is None else base + offset for offset in draft.offsets)
    return [*drafts[:first], *whole_of.values()]


def _partition(drafts: list[Draft]) -> int:
    """Brings temporary allocations behind the others as `std::partition` does, whose order decides on bases."""
    first, last = 0, len(drafts)
    while True:
        while first < last and drafts[first].role != "temporary":
            first += 1
        last -= 1
        while first < last and drafts[last].role == "temporary":
            last -= 1
        if first >= last:
            return first
        drafts[first], drafts[last] = drafts[last], drafts[first]
        first += 1
