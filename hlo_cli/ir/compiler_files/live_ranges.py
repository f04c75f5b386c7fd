"""The live ranges that XLA dumps: the start and end of every value, and the values at the peak.

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
