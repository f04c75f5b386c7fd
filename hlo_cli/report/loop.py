"""Loops, as pictures of a schedule bracket them."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Unknown


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps `start` to `end` that run in a loop; `trips` is how often, UNKNOWN where that is computed.

    A call or a branch, which is run once, has no trips. Loops may lie within each other.

    >>> Loop("while.10", 4, 20, 32).trips
    32
    """

    name: str
    start: int
    end: int
    trips: int | Unknown | None = None
