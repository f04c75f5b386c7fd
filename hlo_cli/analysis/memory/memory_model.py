"""The result of memory analysis: values with live ranges, allocations, peaks, and totals.

Mirrors xla/service/buffer_assignment.cc and xla/hlo/utils/hlo_live_range.cc. Positions count instructions of the
flattened schedule: called computations are inlined before their caller, and every instruction takes one tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Tabular
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import Shape, ShapeIndex

if TYPE_CHECKING:  # types only: the result is usable without numpy
    from hlo_cli.analysis.dataflow.flat_schedule import Run
    from hlo_cli.analysis.hardware.target import Target
    from hlo_cli.analysis.memory.interference import Release
    from hlo_cli.analysis.memory.live_ranges import LiveRanges
    from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
    from hlo_cli.analysis.memory.strategies import StrategyName

Order = Literal["schedule", "text"]
"""Source of the execution order: the schedule of the module, or the order of the text if there is none."""

Kind = Literal["argument", "aliased", "output", "constant", "temporary", "thread-local"]
"""What a buffer is for; `aliased` is an argument whose buffer also holds part of the result."""

Offsets = Literal["exact", "estimated", "unknown"]
"""Accuracy of sharing and offsets: the compiler's own rules, an approximation, or not derivable from the text."""


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A value in memory: defining instruction, shape index, live range, and location.

    The value is live from `start` to `end`, inclusive; both are -1 in embedded computations, whose values are
    thread-local. `logical_bytes` excludes padding, `padded_bytes` includes it. Values of one `buffer` must alias.
    Values of one `slot` share an offset at different times. `allocation` indexes `MemoryAnalysis.allocations`;
    `offset` is in bytes from its start, None if unknown. `is_phi` marks values that merge several definitions, such
    as loop carries. `counted_end` is the last position at which it needs memory, if that is before its end: where it
    becomes a part of another value without being moved, or is in fast memory that other branches reuse.
    """

    instruction: Instruction
    index: ShapeIndex
    shape: Shape
    is_phi: bool
    start: int
    end: int
    logical_bytes: int
    padded_bytes: int
    space: int
    kind: Kind
    buffer: int
    slot: int
    allocation: int
    offset: int | None
    counted_end: int | None = None

    @property
    def last(self) -> int:
        """The last position at which the value counts: `counted_end` if it has one, else `end`."""
        return self.end if self.counted_end is None else self.counted_end

    def __str__(self) -> str:
        return self.instruction.name + index_suffix(self.index)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory that the runtime reserves as one block, for one buffer or for several with disjoint live ranges.

    `parameter` is the number and index of the argument, if any. `is_donated` allows overwriting it. `is_output` marks
    part of the result, `is_heap` the allocation of all temporary buffers of its memory space.
    """

    index: int
    size: int
    space: int
    kind: Kind
    parameter: tuple[int, ShapeIndex] | None
    is_donated: bool
    is_output: bool
    is_heap: bool
    values: tuple[LiveValue, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of a memory space by kind, as the compiler's memory analysis counts them.

    `aliased` bytes are both in arguments and in outputs. `temporaries` is the size of the temporary allocation,
    `fragmentation` its part that no buffer uses at the peak. TPU compilers report temporaries rounded up to 16 KiB.
    In a memory space with unknown offsets, `temporaries` is the peak of live bytes, a lower bound.
    """

    arguments: int = 0
    outputs: int = 0
    aliased: int = 0
    temporaries: int = 0
    constants: int = 0
    thread_local: int = 0
    fragmentation: int = 0


@dataclass(frozen=True, slots=True)
class MemorySpaceUsage(Tabular):
    """A memory space: number, name on the target, values by start, and live bytes over time.

    `timeline[t]` is the number of live bytes at position t, each slot counted once; `peak` is its first maximum.
    """

    number: int
    name: str
    values: tuple[LiveValue, ...]
    timeline: tuple[int, ...]
    peak: int
    totals: Totals
    offsets: Offsets

    @property
    def peak_bytes(self) -> int:
        """The live bytes at the peak."""
        return self.timeline[self.peak]

    def occupancies(self) -> Iterator[tuple[LiveValue, int, int, LiveValue | None]]:
        """Yields each value with the first and last position in its slot, and the value that overwrites it.

        Sorted by first position. `last` is `first - 1` if the value is overwritten at once. At every position, the
        bytes of the occupying values add up to the timeline.
        """
        from hlo_cli.analysis.memory.slot_occupancy import occupancies

        values = self.values
        found = occupancies((value.start, value.last, value.padded_bytes, value.slot) for value in values)
        for number, first, last, then in sorted(found, key=lambda each: (each.first, each.value)):
            yield values[number], first, last, None if then is None else values[then]

    def live_at(self, position: int) -> tuple[LiveValue, ...]:
        """Returns the values live at a position, largest first; of each slot only the occupying value."""
        found: dict[int, LiveValue] = {}
        empty: list[LiveValue] = []
        for value in self.values:
            if value.start <= position <= value.last:
                if value.padded_bytes:
                    found[value.slot] = value
                else:
                    empty.append(value)
        return tuple(sorted((*found.values(), *empty), key=lambda v: (-v.padded_bytes, v.instruction.name, v.index)))


@dataclass(frozen=True, slots=True)
class MemoryAnalysis(Tabular):
    """The result of memory analysis.

    `sequence` lists the instructions by position; `positions` is its inverse. `live_range_peak` is the position that
    XLA's live-range dump calls the peak; it is no peak of memory, as it counts unpadded bytes of all memory spaces, and
    a whole tuple for each of its elements. `values` are sorted by start. `strategy` is the algorithm that filled the
    heaps. `is_generation_known` is False if `generation` is a guess. Above `limit` bytes of main memory, TPU compilers
    try another strategy; None if unknown or if the numbers are the compiler's own. `facts` and `ranges` are what the
    values were computed from.
    """

    module: Module
    target: Target | None
    generation: str
    order: Order
    release: Release
    sequence: tuple[Instruction, ...]
    positions: Mapping[Instruction, int]
    runs: tuple[Run, ...]
    values: tuple[LiveValue, ...]
    spaces: tuple[MemorySpaceUsage, ...]
    allocations: tuple[Allocation, ...]
    live_range_peak: int
    strategy: StrategyName
    is_generation_known: bool
    limit: int | None
    _: KW_ONLY
    facts: OrderIndependentFacts = field(compare=False, repr=False)
    ranges: LiveRanges = field(compare=False, repr=False)

    @property
    def fullest(self) -> MemorySpaceUsage | None:
        """The memory space with the highest peak, whose peak is that of the program; None without any."""
        return max(self.spaces, key=lambda space: (space.peak_bytes, -space.number), default=None)

    @property
    def peak(self) -> int:
        """The position of the peak: that of the fullest memory space, 0 if there is none."""
        return 0 if self.fullest is None else self.fullest.peak

    @property
    def peak_bytes(self) -> int:
        """The live bytes at the peak, in the fullest memory space."""
        return 0 if self.fullest is None else self.fullest.peak_bytes

    def space(self, number: int) -> MemorySpaceUsage | None:
        """Returns the memory space of this number, or None if it is empty."""
        return next((space for space in self.spaces if space.number == number), None)

    def values_of(self, instruction: Instruction) -> tuple[LiveValue, ...]:
        """Returns the values with a live range that an instruction defines."""
        return tuple(value for value in self.values if value.instruction is instruction)

    def holders_of(self, value: LiveValue) -> tuple[LiveValue, ...]:
        """Returns all values of the buffer of `value`, by start."""
        return tuple(other for other in self.values if other.buffer == value.buffer)

    def allocation_of(self, value: LiveValue) -> Allocation | None:
        """Returns the allocation of a value; None if the compiler's assignment does not contain it."""
        at = value.allocation
        if 0 <= at < len(self.allocations) and self.allocations[at].index == at:
            return self.allocations[at]
        return next((allocation for allocation in self.allocations if allocation.index == at), None)
