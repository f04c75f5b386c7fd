"""The live ranges that XLA found itself, as it dumps them: when every value comes and goes, and what is at the peak.

Mirrors `HloLiveRange` of xla/hlo/utils/hlo_live_range.h.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_files.buffers import BufferPlace
from hlo_cli.source import Diagnostic


@dataclass(frozen=True, slots=True)
class ScheduledPlace:
    """The place of an instruction in the flattened schedule."""

    time: int
    place: BufferPlace


@dataclass(frozen=True, slots=True)
class DumpedRange:
    """From when until when a value lives, both included."""

    place: BufferPlace
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PeakValue:
    """A value that lives at the peak, its bytes without tiles and padding, and the sum of it and all before it."""

    place: BufferPlace
    size_bytes: int
    cumulative_bytes: int


@dataclass(frozen=True, slots=True)
class StackNode:
    """A node of the tree that says where the bytes of the peak come from: what is below it, and what is its own.

    `remaining_bytes` is what the nodes that are printed after it have together; `depth` is 0 for the root.
    """

    depth: int
    name: str
    percent: float
    total_bytes: int
    current_bytes: int
    remaining_bytes: int


@dataclass(frozen=True, slots=True)
class DumpedLiveRanges:
    """The schedule, the live ranges and the peak. `schedule_end` is one past the last instruction.

    `peak_time` and what follows are empty in dumps that do not tell; the tree is a list in the order of the text.
    """

    schedule_end: int
    schedule: tuple[ScheduledPlace, ...]
    ranges: tuple[DumpedRange, ...]
    peak_time: int | None = None
    peak: tuple[PeakValue, ...] = ()
    stack_bytes: int | None = None
    stack: tuple[StackNode, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
