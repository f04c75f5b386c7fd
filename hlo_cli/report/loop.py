"""Loops, for the brackets below charts of a schedule."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Unknown


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps `start` to `end` that run in a loop; `trips` is the trip count, UNKNOWN if it is computed at run time.

    A call or a branch runs once and has no trips. Loops may be nested.

    >>> Loop("while.10", 4, 20, 32).trips
    32
    """

    name: str
    start: int
    end: int
    trips: int | Unknown | None = None
