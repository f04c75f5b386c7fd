"""What fills memory while a module runs: values with their lives, the allocations they share, peaks and totals.

The face of the analyses behind it: the flattened schedule, dataflow, alias sets, live ranges, sizes, sharing, heap.
Follows xla/service/buffer_assignment.cc and xla/hlo/utils/hlo_live_range.cc. Times are positions in the flattened
schedule: computations that run are laid out where they are called, and every instruction takes one tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hlo_cli.analysis.target import Target
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, ShapeIndex

Release = Literal["0.10.2", "2026-08"]
"""Whose rules are followed where releases of XLA differ: those of jaxlib 0.10.2, or of the source of August 2026."""

Order = Literal["schedule", "text"]
"""Where the order of execution comes from: the module is scheduled, or the order of its text is taken for one."""

Kind = Literal["argument", "aliased", "output", "constant", "temporary", "thread-local"]
"""What a buffer is for; `aliased` is an argument whose buffer also holds a part of the result."""


@dataclass(frozen=True, slots=True)
class LiveValue:
    """One value in memory: who defines it, at which index of its result, when it lives, and where it lies.

    It lives from `start` to `end`, both included. `logical_bytes` are its elements alone, `padded_bytes` what it takes
    on the target; values of one `buffer` (a number) are the same memory, and `allocation` is the place of that buffer in
    `Memory.allocations`. `offset` is counted from the start of the allocation, None where the text cannot tell.
    `is_phi` marks values that come from several places, such as those that a loop carries.
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
    allocation: int
    offset: int | None

    def __str__(self) -> str:
        return self.instruction.name + ("{" + ",".join(map(str, self.index)) + "}" if self.index else "")


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory that the run-time system reserves at once, for one buffer or for several that do not live together.

    `parameter` says which argument it is and at which index, `is_donated` that this one may be overwritten;
    `is_output` that a part of the result lies in it; `is_temporary` that it is the one that holds all temporary
    buffers of its space.
    """

    index: int
    size: int
    space: int
    kind: Kind
    parameter: tuple[int, ShapeIndex] | None
    is_donated: bool
    is_output: bool
    is_temporary: bool
    values: tuple[LiveValue, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of a space by what they are for, as the compiler's memory analysis counts them.

    `aliased` bytes are in arguments and outputs both. `temporaries` is the size of the temporary allocations,
    `fragmentation` what of that no buffer holds at the moment when most is held.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    constants: int
    thread_local: int
    fragmentation: int


@dataclass(frozen=True, slots=True)
class Space:
    """One memory space: its number and name on the target, the values in it by start, and how full it is when.

    `timeline[t]` are the bytes alive at position t, each buffer counted once; `peak` is the first position where that
    is largest. `is_exact` says whether sharing and offsets follow rules known to be the compiler's.
    """

    number: int
    name: str
    values: tuple[LiveValue, ...]
    timeline: tuple[int, ...]
    peak: int
    totals: Totals
    is_exact: bool

    @property
    def peak_bytes(self) -> int:
        """The bytes alive at the peak."""
        return self.timeline[self.peak]

    def alive_at(self, position: int) -> tuple[LiveValue, ...]:
        """What is alive at a position, the largest first: of each buffer the value that it holds then."""
        found: dict[int, LiveValue] = {}
        for value in self.values:
            if value.start <= position <= value.end:
                found[value.buffer] = value
        return tuple(sorted(found.values(), key=lambda v: (-v.padded_bytes, v.instruction.name, v.index)))


@dataclass(frozen=True, slots=True)
class Run:
    """A computation in the flattened schedule: it runs from `start` up to, not including, `end`.

    `caller` is None for the entry; `depth` counts the callers around it.
    """

    caller: Instruction | None
    computation: str
    start: int
    end: int
    depth: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What fills memory while a module runs.

    `sequence` holds the instructions by position. `peak` is the moment that XLA's live-range dump calls the peak, which
    counts unpadded bytes of all spaces; each space has its own.
    """

    module: Module
    target: Target | None
    order: Order
    release: Release
    sequence: tuple[Instruction, ...]
    runs: tuple[Run, ...]
    spaces: tuple[Space, ...]
    allocations: tuple[Allocation, ...]
    peak: int

    def space(self, number: int) -> Space | None:
        """The space of this number, or None if nothing lies there."""
        return next((space for space in self.spaces if space.number == number), None)

    def values_of(self, instruction: Instruction) -> tuple[LiveValue, ...]:
        """The values that an instruction defines, those without a life in the schedule left out."""
        return tuple(v for space in self.spaces for v in space.values if v.instruction is instruction)

    def holders_of(self, value: LiveValue) -> tuple[LiveValue, ...]:
        """All values that are the same memory as this one, by start: what it is aliased with."""
        found = [v for space in self.spaces for v in space.values if v.buffer == value.buffer]
        return tuple(sorted(found, key=lambda v: (v.start, v.end)))


def memory_of(module: Module, *, release: Release = "0.10.2", target: Target | None = None) -> Memory:
    """What fills memory while a module runs; `target` where the text does not tell what it was compiled for.

    A module without schedule is taken to run in the order of its text, and `order` says so.
    """
    raise NotImplementedError
