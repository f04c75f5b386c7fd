"""XLA's report on memory use: for each memory space its allocations, and what shares each place in them.

Mirrors `MemoryUsageReportProto` of xla/service/buffer_assignment.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Diagnostic


@dataclass(frozen=True, slots=True)
class CountedShape:
    """A shape without layout, and how many values of a row have it."""

    count: int
    shape: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One place in an allocation: the values that lie there one after the other, and the largest one's bytes.

    `percent` is the share of this row and all before it; None where XLA divides nothing by nothing.
    """

    cumulative_bytes: int
    percent: int | None
    size_bytes: int
    offset_bytes: int
    value_count: int
    shapes: tuple[CountedShape, ...]


@dataclass(frozen=True, slots=True)
class AllocationUsage:
    """The rows of one allocation; of very many, XLA leaves out the smallest and tells how many."""

    rows: tuple[UsageRow, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """One memory space. XLA's `name` for it is right for some targets alone; `color` is the number n of `S(n)`."""

    name: str
    color: int
    total_bytes: int
    allocations: tuple[AllocationUsage, ...]


@dataclass(frozen=True, slots=True)
class MemoryUsageReport:
    """The whole report. What was read of a text has sizes as the text rounds them, except the totals."""

    spaces: tuple[SpaceUsage, ...]
    notes: tuple[Diagnostic, ...] = ()
