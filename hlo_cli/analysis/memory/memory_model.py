"""What fills memory while a module runs: values with their lives, the allocations they share, peaks and totals.

The face of the analyses behind it: the flattened schedule, dataflow, alias sets, live ranges, sizes, sharing, heap.
Follows xla/service/buffer_assignment.cc and xla/hlo/utils/hlo_live_range.cc. Times are positions in the flattened
schedule: computations that run are laid out where they are called, and every instruction takes one tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_suffix
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, ShapeIndex

if TYPE_CHECKING:  # what answers needs less than what finds them: no numpy
    from hlo_cli.analysis.dataflow.flat_schedule import Run
    from hlo_cli.analysis.hardware.target import Target
    from hlo_cli.analysis.memory.interference import Release
    from hlo_cli.analysis.memory.strategies import StrategyName

Order = Literal["schedule", "text"]
"""Where the order of execution comes from: the module is scheduled, or the order of its text is taken for one."""

Kind = Literal["argument", "aliased", "output", "constant", "temporary", "thread-local"]
"""What a buffer is for; `aliased` is an argument whose buffer also holds a part of the result."""

Offsets = Literal["exact", "estimated", "unknown"]
"""Whether sharing and offsets follow rules known to be the compiler's, come close to it, or cannot be told."""


@dataclass(frozen=True, slots=True)
class LiveValue:
    """One value in memory: who defines it, at which index of its result, when it lives, and where it lies.

    It lives from `start` to `end`, both included; both are -1 in applied computations, which keep their values to
    themselves. `logical_bytes` are its elements alone, `padded_bytes` what it takes on the target. Values of one
    `buffer` are the same memory and must be; values of one `slot` lie at the same place, as they do not live together.
    `allocation` is the place of that in `MemoryAnalysis.allocations`, `offset` the distance from its start, None where
    the text cannot tell. `is_phi` marks values that come from several places, such as those that a loop carries.
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

    def __str__(self) -> str:
        return self.instruction.name + index_suffix(self.index)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory that the run-time system reserves at once, for one buffer or for several that do not live together.

    `parameter` says which argument it is and at which index, `is_donated` that this one may be overwritten;
    `is_output` that a part of the result lies in it; `is_heap` that it is the one that holds all temporary buffers of
    its space.
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
    """Bytes of a space by what they are for, as the compiler's memory analysis counts them.

    `aliased` bytes are in arguments and outputs both. `temporaries` is the size of the temporary allocation,
    `fragmentation` what of that no buffer holds even at the moment when most is held. TPU compilers round the first up
    to 16 KiB when they report it; in a space where offsets are unknown it is the most that is alive at once, and the
    compiler may need more.
    """

    arguments: int = 0
    outputs: int = 0
    aliased: int = 0
    temporaries: int = 0
    constants: int = 0
    thread_local: int = 0
    fragmentation: int = 0


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """One memory space: its number and name on the target, the values in it by start, and how full it is when.

    `timeline[t]` are the bytes alive at position t, each slot counted once; `peak` is the first position where that is
    largest.
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
        """The bytes alive at the peak."""
        return self.timeline[self.peak]

    def turns(self) -> Iterator[tuple[LiveValue, int, int, LiveValue | None]]:
        """From when until when each value is what its slot holds, and which one takes over, if any, by start.

        The end lies before the start where another value takes over at once. At every position, the bytes of those
        whose turn it is add up to the timeline.
        """
        from hlo_cli.analysis.memory.turns import turns

        values = self.values
        found = turns((value.start, value.end, value.padded_bytes, value.slot) for value in values)
        for number, first, last, then in sorted(found, key=lambda turn: (turn.first, turn.value)):
            yield values[number], first, last, None if then is None else values[then]

    def alive_at(self, position: int) -> tuple[LiveValue, ...]:
        """What is alive at a position, the largest first: of each slot the value that it holds then."""
        found: dict[int, LiveValue] = {}
        empty: list[LiveValue] = []
        for value in self.values:
            if value.start <= position <= value.end:
                if value.padded_bytes:
                    found[value.slot] = value
                else:
                    empty.append(value)
        return tuple(sorted((*found.values(), *empty), key=lambda v: (-v.padded_bytes, v.instruction.name, v.index)))


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """What fills memory while a module runs.

    `sequence` holds the instructions by position, `positions` the reverse. `peak` is the moment that XLA's live-range
    dump calls the peak, which counts unpadded bytes of all spaces; each space has its own. `values` are all that have a
    life, by start. `strategy` is how heaps were filled, as compilers for TPUs have several; a `generation` is a
    guess unless it was told. Above `limit` bytes of main memory compilers try another strategy; None where that
    is not known, and with the compiler's own numbers.
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
    spaces: tuple[SpaceUsage, ...]
    allocations: tuple[Allocation, ...]
    peak: int
    strategy: StrategyName
    is_generation_told: bool
    limit: int | None

    def space(self, number: int) -> SpaceUsage | None:
        """The space of this number, or None if nothing lies there."""
        return next((space for space in self.spaces if space.number == number), None)

    def values_of(self, instruction: Instruction) -> tuple[LiveValue, ...]:
        """The values that an instruction defines and that have a life."""
        return tuple(value for value in self.values if value.instruction is instruction)

    def holders_of(self, value: LiveValue) -> tuple[LiveValue, ...]:
        """All values that must be the same memory as this one, by start, itself among them."""
        return tuple(other for other in self.values if other.buffer == value.buffer)

    def allocation_of(self, value: LiveValue) -> Allocation | None:
        """The allocation that holds a value; None where the compiler's assignment does not tell of it."""
        at = value.allocation
        if 0 <= at < len(self.allocations) and self.allocations[at].index == at:
            return self.allocations[at]
        return next((allocation for allocation in self.allocations if allocation.index == at), None)
