"""Cells of tables: raw values, never formatted text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias


class Unknown(Enum):
    """The type of `UNKNOWN`, so that a type checker can distinguish it from text."""

    UNKNOWN = "?"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN
"""A value that is not in the dump. `None` is different: the value does not apply."""

Cell: TypeAlias = "bool | int | float | str | Unknown | tuple[Cell, ...] | Mapping[str, Cell] | None"
"""One value. Tuples are indices, mappings are records for machine formats only."""

Row: TypeAlias = tuple[Cell, ...]


def number_of(cell: Cell) -> int | float | None:
    """The finite number in a cell, or None when it holds anything else.

    >>> [number_of(cell) for cell in (3, 0.5, True, "3", float("nan"))]
    [3, 0.5, None, None, None]
    """
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return None
    return cell if isinstance(cell, int) or math.isfinite(cell) else None


def order_of(cell: Cell) -> tuple[int, object]:
    """A sort key under which cells of any types compare: booleans and numbers, texts, tuples, records.

    >>> sorted(["b", (2, 10), 3, (2, 9), "a"], key=order_of)
    [3, 'a', 'b', (2, 9), (2, 10)]
    """
    match cell:
        case bool() | int() | float():
            return 0, cell
        case str():
            return 1, cell
        case tuple():
            return 2, tuple(order_of(part) for part in cell)
        case Mapping():
            return 3, tuple((key, order_of(part)) for key, part in cell.items())
        case _:
            return 4, ""


def is_missing(cell: Cell) -> bool:
    """Whether a cell has no value to compare or add: not applicable, unknown, or not a finite number.

    >>> [is_missing(cell) for cell in (None, UNKNOWN, float("inf"), 0, "")]
    [True, True, True, False, False]
    """
    return cell is None or cell is UNKNOWN or (isinstance(cell, float) and not math.isfinite(cell))
