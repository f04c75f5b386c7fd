"""The compiler's own buffer assignment: which values lie in which allocation, and where in it.

Mirrors xla/service/buffer_assignment.h and the messages of its proto in xla/service/hlo.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex

EventKind = Literal["ALLOC", "FREE", "SHARE_WITH"]


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """An element of what an instruction gives; the instruction is None where the module does not have it."""

    instruction: Instruction | None
    shape_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True)
class LogicalBuffer:
    """A value that needs memory, and where in the module it is made. `color` is its memory space."""

    id: int
    size_bytes: int
    color: int
    defined_at: BufferPlace


@dataclass(frozen=True, slots=True)
class AssignedBuffer:
    """Where a logical buffer lies in its allocation."""

    logical_buffer_id: int
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BufferAllocation:
    """One stretch of memory, and what lies in it, at different times maybe in the same place.

    `parameter_number` is None unless the allocation holds a parameter of the entry computation.
    """

    index: int
    size_bytes: int
    color: int
    assigned: tuple[AssignedBuffer, ...] = ()
    parameter_number: int | None = None
    parameter_shape_index: ShapeIndex = ()
    is_parameter_aliased_with_output: bool = False
    is_thread_local: bool = False
    is_tuple: bool = False
    is_constant: bool = False
    maybe_live_out: bool = False

    @property
    def is_preallocated_temp(self) -> bool:
        """Whether the allocation is for values that nobody sees outside of the program.

        >>> [BufferAllocation(0, 4, 0, is_constant=is_constant).is_preallocated_temp for is_constant in (True, False)]
        [False, True]
        """
        outside = self.parameter_number is not None or self.maybe_live_out
        return not (outside or self.is_thread_local or self.is_constant)


@dataclass(frozen=True, slots=True)
class HeapEvent:
    """A logical buffer comes, goes, or shares the place of another."""

    kind: EventKind
    buffer_id: int
    computation_name: str
    instruction_name: str
    share_with_canonical_id: int | None = None


@dataclass(frozen=True, slots=True)
class HeapSimulatorTrace:
    """What the heap simulator did to fill one allocation, in order."""

    events: tuple[HeapEvent, ...]
    whole_module_simulation: bool
    buffer_allocation_index: int


@dataclass(frozen=True)
class BufferAssignment:
    """All allocations of a module, and the logical buffers in them.

    `aliases` are further places at which the value of a logical buffer appears.

    >>> assignment = BufferAssignment((), (BufferAllocation(0, 64, 0), BufferAllocation(1, 8, 0, is_tuple=True)))
    >>> assignment.allocation(1).size_bytes
    8
    """

    logical_buffers: tuple[LogicalBuffer, ...]
    allocations: tuple[BufferAllocation, ...]
    aliases: tuple[tuple[int, BufferPlace], ...] = ()
    heap_simulator_traces: tuple[HeapSimulatorTrace, ...] = ()

    @cached_property
    def _buffers(self) -> dict[int, LogicalBuffer]:
        return {buffer.id: buffer for buffer in self.logical_buffers}

    @cached_property
    def _allocations(self) -> dict[int, BufferAllocation]:
        return {allocation.index: allocation for allocation in self.allocations}

    def logical_buffer(self, number: int) -> LogicalBuffer | None:
        """The logical buffer of this id, or None."""
        return self._buffers.get(number)

    def allocation(self, index: int) -> BufferAllocation | None:
        """The allocation of this index, or None."""
        return self._allocations.get(index)
