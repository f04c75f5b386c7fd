"""How distances and verdicts read in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.evaluate.compare import Distance, Verdict
from hlo_cli.report.cell import UNKNOWN, Cell
from hlo_cli.report.column import Column

EXACT: Final = Column("exact", "exact", "number")
WIDENED: Final = Column("widened", "widened", "number")
VERDICT: Final = Column("verdict", "verdict")
MEANING: Final[dict[Verdict, str]] = {
    "identical": "identical",
    "rounding": "rounding",
    "unknown": "placement unknown",
    "approximation": "constant or approximation",
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
    return _cell(exact), _cell(widened)


def _cell(distance: float) -> Cell:
    return distance if distance < float("inf") else "inf"
