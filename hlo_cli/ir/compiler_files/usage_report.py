"""XLA's memory usage report: the allocations of each memory space, and the values at each offset.

Mirrors `MemoryUsageReportProto` of xla/service/buffer_assignment.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import Shape
from hlo_cli.source import Diagnostic


@dataclass(frozen=True, slots=True)
class CountedShape:
    """A shape without layout, and the number of values in a row that have it."""

    count: int
    shape: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One offset in an allocation: the values that are there at different times, and the size of the largest.

    `percent` is the cumulative share up to this row; None where XLA divides zero by zero.
    """

    cumulative_bytes: int
    percent: int | None
    size_bytes: int
    offset_bytes: int
    value_count: int
    shapes: tuple[CountedShape, ...]


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """One row of a report in an error: the values at one offset of an allocation, one after another.

    `space` is XLA's name for the memory space, empty if the text does not have it; `allocation` the position of the
    allocation in its space. `shapes` are the counts and shapes of the values. `is_alone` if the allocation has no other
    row.
    """

    space: str
    allocation: int
    offset_bytes: int
    value_count: int
    shapes: tuple[tuple[int, Shape], ...] = ()
    is_alone: bool = False

    @property
    def is_one_value(self) -> bool:
        """Whether the allocation holds a single value, such as an argument, a result, or a constant.

        >>> MemoryRange("default", 0, 0, 1, is_alone=True).is_one_value, MemoryRange("default", 0, 0, 1).is_one_value
        (True, False)
        """
        return self.is_alone and self.value_count == 1 and self.offset_bytes == 0


@dataclass(frozen=True, slots=True)
class AllocationUsage:
    """The rows of one allocation; XLA omits the smallest of very many, and gives their number."""

    rows: tuple[UsageRow, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """One memory space. XLA's `name` for it is right for some targets only; `color` is the number n of `S(n)`."""

    name: str
    color: int
    total_bytes: int
    allocations: tuple[AllocationUsage, ...]


@dataclass(frozen=True, slots=True)
class MemoryUsageReport:
    """The complete report. If read from text, sizes except the totals are as rounded there."""

    spaces: tuple[SpaceUsage, ...]
    notes: tuple[Diagnostic, ...] = ()
