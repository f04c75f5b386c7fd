"""How distances and verdicts read in tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.comparison.verdict import Distance, Verdict
from hlo_cli.report.table import UNKNOWN, Cell, Column

EXACT: Final = Column("exact", "exact", "number")
WIDENED: Final = Column("widened", "widened", "number")
ULP: Final = Column("ulp", "ulp", "number")
EXPECTED: Final = Column("rounding_bound", "expected", "number", from_width=120)
COUNTS: Final = (
    Column("nan_before", "before", "count", group="NaN"),
    Column("nan_after", "after", "count", group="NaN", like="nan_before"),
    Column("inf_before", "before", "count", group="Inf"),
    Column("inf_after", "after", "count", group="Inf", like="inf_before"),
)
VERDICT: Final = Column("verdict", "verdict")
MEANING: Final[dict[Verdict, str]] = {
    "identical": "identical",
    "rounding": "rounding",
    "overflow": "overflow by rounding",
    "uncovered": "not fully compared",
    "unknown": "placement unknown",
    "approximation": "constant or approximation",
    "discontinuity": "discontinuity",
    "different": "different",
}


def distance_cells(distances: Sequence[Distance]) -> tuple[Cell, Cell]:
    """The largest exact and widened distance of those that are known; infinite ones as text, as JSON has no infinity.

    >>> distance_cells([Distance((0,), 0.5, 0.25), Distance((1,), 0.0, float("inf"))])
    (0.5, 'inf')
    """
    known = [each for each in distances if each.is_known]
    if distances and not known:
        return UNKNOWN, UNKNOWN
    exact, widened = (
        max(values, default=0.0) for values in ([each.exact for each in known], [each.widened for each in known])
    )
    return number_cell(exact), number_cell(widened)


def detail_cells(each: Distance) -> tuple[Cell, ...]:
    """The largest difference in ulp, the exact distance that rounding explains, and NaN and Inf on both sides."""
    if not each.is_known:
        return (UNKNOWN,) * 6
    return (number_cell(each.ulp), None if each.expected is None else each.expected.bound, *each.nan, *each.inf)


def columns_of(distances: Sequence[Distance]) -> tuple[Column, ...]:
    """The columns of distances and details; counts of NaN and Inf are for people only where there are some."""
    has_counts = any(any((*each.nan, *each.inf)) for each in distances)
    counts = COUNTS if has_counts else tuple(replace(each, person=False) for each in COUNTS)
    return (EXACT, WIDENED, ULP, EXPECTED, *counts, VERDICT)


def number_cell(distance: float) -> Cell:
    """A number; infinity as text, as JSON has none."""
    return distance if distance < float("inf") else "inf"
