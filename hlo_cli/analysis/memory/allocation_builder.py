"""Allocations under construction, and the combination of temporary ones.

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
class AssignedAllocation:
    """One allocation: size in bytes, and the indices and offsets of its buffers.

    `parameter` is the place of the entry parameter that it holds, if any; `is_live_out` marks part of the entry
    result. An offset is None if it cannot be derived from the text. Buffers with equal `slots` entries have the same
    offset at different times. `fragmentation` is the part of a heap that no buffer uses at the peak. Offsets are not
    certain if they depend on an order that the text does not have.
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
    is_certain: bool = True


@dataclass(slots=True)
class AllocationBuilder:
    """An allocation under construction.

    If `is_open`, other buffers may reuse it, and `occupants` holds its values.
    """

    size: int
    space: int
    role: Role
    parameter: int | None = None
    is_live_out: bool = False
    is_open: bool = False
    occupants: AllocationValues | None = None
    buffers: list[int] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    fragmentation: int = 0
    is_certain: bool = True

    def put(self, number: int, *, is_live_out: bool = False) -> None:
        """Adds a buffer at offset 0, in the slot of the first buffer."""
        self.buffers.append(number)
        self.offsets.append(0)
        self.slots.append(self.buffers[0])
        self.is_live_out = self.is_live_out or is_live_out

    def build(self) -> AssignedAllocation:
        """Returns the finished allocation."""
        return AssignedAllocation(
            self.size,
            self.space,
            self.role,
            self.parameter,
            self.is_live_out,
            tuple(self.buffers),
            tuple(self.offsets),
            tuple(self.slots),
            self.fragmentation,
            self.is_certain,
        )


def alignment(space: int, target: Target | None) -> int:
    """Returns the alignment of offsets in a memory space, in bytes.

    >>> alignment(0, "cpu"), alignment(0, "tpu"), alignment(6, "tpu")
    (64, 16384, 512)
    """
    known = memory_space(space, target)
    if known is None and target != "tpu":
        known = memory_space(MemorySpace.MAIN, target)
    return known.alignment if known is not None else 1


def combine_temporaries(builders: list[AllocationBuilder], target: Target | None) -> list[AllocationBuilder]:
    """Combines the temporary allocations of each memory space into one, after all others."""
    first = _partition(builders)
    whole_of: dict[int, AllocationBuilder] = {}
    for builder in builders[first:]:
        whole = whole_of.get(builder.space)
        if whole is None:
            whole_of[builder.space] = builder
            continue
        step = alignment(builder.space, target)
        base = -(-whole.size // step) * step
        whole.size = base + builder.size
        whole.buffers.extend(builder.buffers)
        whole.slots.extend(builder.slots)
        whole.fragmentation += builder.fragmentation
        whole.is_certain = whole.is_certain and builder.is_certain
        whole.offsets.extend(None if offset is None else base + offset for offset in builder.offsets)
    return [*builders[:first], *whole_of.values()]


def _partition(builders: list[AllocationBuilder]) -> int:
    """Moves temporary allocations to the end and returns the index of the first."""
    # buffer_assignment.cc, CombineTempAllocations: std::partition is not stable. Its swaps decide the order of
    # temporary allocations, hence their base offsets and which one is last and therefore not rounded up.
    first, last = 0, len(builders)
    while True:
        while first < last and builders[first].role != "temporary":
            first += 1
        last -= 1
        while first < last and builders[last].role == "temporary":
            last -= 1
        if first >= last:
            return first
        builders[first], builders[last] = builders[last], builders[first]
        first += 1
