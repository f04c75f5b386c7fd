"""What a compiler's own files say of memory: allocations with their values, uses of values, and live ranges."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import Shape, ShapeIndex
from hlo_cli.source import Diagnostic, Span

# --- allocations and their values ---
# The compiler's own buffer assignment: the values in each allocation, with their offsets.
#
# Mirrors xla/service/buffer_assignment.h and the messages of its proto in xla/service/hlo.proto.


EventKind = Literal["ALLOC", "FREE", "SHARE_WITH"]


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """An element of an instruction's result; the instruction is None if the module does not have it.

    `name` is the instruction's name in a text, in the module or not; places from protos have none.
    """

    instruction: Instruction | None
    shape_index: ShapeIndex = ()
    name: str = ""

    def __str__(self) -> str:
        """The place in the form of XLA's texts about memory.

        >>> str(BufferPlace(None, (0, 1), "fusion.3")), str(BufferPlace(None, (), "dot"))
        ('fusion.3{0,1}', 'dot')
        """
        name = self.name or (self.instruction.name if self.instruction is not None else "")
        return name + index_suffix(self.shape_index)


@dataclass(frozen=True, slots=True)
class LogicalBuffer:
    """A value that needs memory, and the place that defines it. `color` is its memory space.

    `shape` and `is_phi`, whether several values merge here, are known only from texts that have them.
    """

    id: int
    size_bytes: int
    color: int
    defined_at: BufferPlace
    is_phi: bool = False
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class AssignedBuffer:
    """The location of a logical buffer in its allocation."""

    logical_buffer_id: int
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BufferAllocation:
    """One block of memory, and its buffers, which may share bytes at different times.

    `parameter_number` is None unless the allocation holds a parameter of the entry computation. The last fields are
    known from texts only: `page` from TPUs; `output_shape`, the whole result, if the allocation holds the result's
    outermost value; `other_color_buffer_ids`, values of other memory spaces that use holes of this allocation.
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
    page: int | None = None
    parameter_shape: Shape | None = None
    output_shape: Shape | None = None
    other_color_buffer_ids: tuple[int, ...] = ()

    @property
    def is_preallocated_temp(self) -> bool:
        """Whether the allocation is for values that are not visible outside of the program.

        >>> [BufferAllocation(0, 4, 0, is_constant=is_constant).is_preallocated_temp for is_constant in (True, False)]
        [False, True]
        """
        outside = self.parameter_number is not None or self.maybe_live_out
        return not (outside or self.is_thread_local or self.is_constant)


@dataclass(frozen=True, slots=True)
class HeapEvent:
    """An allocation, a deallocation, or a sharing of a logical buffer."""

    kind: EventKind
    buffer_id: int
    computation_name: str
    instruction_name: str
    share_with_canonical_id: int | None = None


@dataclass(frozen=True, slots=True)
class HeapSimulatorTrace:
    """The events of the heap simulator for one allocation, in order."""

    events: tuple[HeapEvent, ...]
    whole_module_simulation: bool
    buffer_allocation_index: int


@dataclass(frozen=True, slots=True)
class AllocationStats:
    """The bytes of the allocations of each kind; an allocation may be of several kinds.

    Fragmentation is None if unknown. Mirrors `BufferAssignment::Stats`.
    """

    parameter_bytes: int
    constant_bytes: int
    maybe_live_out_bytes: int
    preallocated_temp_bytes: int
    total_bytes: int
    preallocated_temp_fragmentation_bytes: int | None = None
    total_fragmentation_bytes: int | None = None


@dataclass(frozen=True)
class BufferAssignment:
    """All allocations of a module, and the logical buffers in them.

    `aliases` are further places of the value of a logical buffer; `notes` are on text outside the known format.

    >>> assignment = BufferAssignment((), (BufferAllocation(0, 64, 0), BufferAllocation(1, 8, 0, is_tuple=True)))
    >>> assignment.allocation(1).size_bytes
    8
    """

    logical_buffers: tuple[LogicalBuffer, ...]
    allocations: tuple[BufferAllocation, ...]
    aliases: tuple[tuple[int, BufferPlace], ...] = ()
    heap_simulator_traces: tuple[HeapSimulatorTrace, ...] = ()
    notes: tuple[Diagnostic, ...] = ()

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

    @property
    def stats(self) -> AllocationStats:
        """The sizes of the allocations, summed over all memory spaces.

        Mirrors `BufferAssignment::ComputeSummaryStats`.

        >>> assignment = BufferAssignment((), (BufferAllocation(0, 64, 0), BufferAllocation(1, 8, 0, is_constant=True)))
        >>> assignment.stats.preallocated_temp_bytes, assignment.stats.constant_bytes, assignment.stats.total_bytes
        (64, 8, 72)
        """

        def sizes(kept: Callable[[BufferAllocation], bool]) -> int:
            return sum(allocation.size_bytes for allocation in self.allocations if kept(allocation))

        return AllocationStats(
            sizes(lambda allocation: allocation.parameter_number is not None),
            sizes(lambda allocation: allocation.is_constant),
            sizes(lambda allocation: allocation.maybe_live_out),
            sizes(lambda allocation: allocation.is_preallocated_temp),
            sizes(lambda allocation: True),
        )


# --- values with all places and uses ---
# The values of a buffer assignment with all their places and uses.
#
# Mirrors `HloValue::ToString` and `HloUse` of xla/service/hlo_value.h.


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A use of a value by an instruction: the operand number, and the index in that operand."""

    user: BufferPlace
    operand_number: int
    operand_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True)
class UsedValue:
    """A value with memory: its definition, every place that holds it, and its uses.

    `instruction_span` is the span of the complete defining instruction in the text.
    """

    id: int
    color: int
    defined_at: BufferPlace
    is_phi: bool
    positions: tuple[BufferPlace, ...]
    uses: tuple[ValueUse, ...]
    instruction_span: Span


@dataclass(frozen=True, slots=True)
class UsedValues:
    """All values with memory, and the total size of the allocations."""

    total_bytes: int
    values: tuple[UsedValue, ...]
    notes: tuple[Diagnostic, ...] = ()


# --- live ranges ---
# The live ranges that XLA dumps: the start and end of every value, and the values at the peak.
#
# Mirrors `HloLiveRange` of xla/hlo/utils/hlo_live_range.h.


@dataclass(frozen=True, slots=True)
class ScheduledPlace:
    """The place of an instruction in the flattened schedule."""

    time: int
    place: BufferPlace


@dataclass(frozen=True, slots=True)
class DumpedRange:
    """The first and last step at which a value is live."""

    place: BufferPlace
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PeakValue:
    """A value that is live at the peak, its bytes without tiles and padding, and the running sum."""

    place: BufferPlace
    size_bytes: int
    cumulative_bytes: int


@dataclass(frozen=True, slots=True)
class StackNode:
    """A node of the tree that attributes the bytes of the peak: total bytes, and its own.

    `remaining_bytes` is the total of the nodes printed after it; `depth` is 0 for the root.
    """

    depth: int
    name: str
    percent: float
    total_bytes: int
    current_bytes: int
    remaining_bytes: int


@dataclass(frozen=True, slots=True)
class DumpedLiveRanges:
    """The schedule, the live ranges, and the peak. `schedule_end` is one past the last instruction.

    `peak_time` and the fields after it are empty in dumps without them; the tree is a list in the order of the text.
    """

    schedule_end: int
    schedule: tuple[ScheduledPlace, ...]
    ranges: tuple[DumpedRange, ...]
    peak_time: int | None = None
    peak: tuple[PeakValue, ...] = ()
    stack_bytes: int | None = None
    stack: tuple[StackNode, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
