"""Statistics of events as columns of integers, and their values as numbers and text."""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np

from hlo_cli.ir.traces.trace import ABSENT, Coded, Integers, Line, Value

_WORD: Final = 1 << 64
_HALF: Final = 1 << 63
_LONGEST: Final = 1 << 61
"""The longest time that is measured: 27 days."""
_MOST_DIGITS: Final = 20
"""The digits of 2^64, of which no integer in a trace has more."""


def value_at(column: Coded, code: int) -> Value | None:
    """The value with a code; None if it is absent."""
    return None if code == ABSENT else column.values[code]


def whole(value: Value | None) -> int | None:
    """A value as integer, which is text in some formats; None if it is no integer.

    >>> whole(7), whole("-7"), whole("7.5"), whole(None)
    (7, -7, None, None)
    """
    if isinstance(value, str):
        digits = value.removeprefix("-")
        return int(value) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else None
    return int(value) if isinstance(value, int) else None


def real(value: Value | None) -> float | None:
    """A value as finite number, which is text in some formats; None if it is none.

    >>> real(7), real("7.5"), real("nan"), real(b"7")
    (7.0, 7.5, None, None)
    """
    if not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def unsigned(value: Value | None) -> int | None:
    """An id as unsigned 64-bit integer; None if it is no integer.

    >>> unsigned(-1), unsigned("5"), unsigned("x")
    (18446744073709551615, 5, None)
    """
    found = whole(value)
    return None if found is None else found % _WORD


def signed(value: int) -> int:
    """An integer modulo 2^64, as signed one.

    >>> signed((1 << 64) - 1), signed(1 << 70)
    (-1, 0)
    """
    return (value + _HALF) % _WORD - _HALF


def text(value: Value | None) -> str:
    """A value as text; empty if there is none."""
    return "" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def integers(column: Coded, chosen: Integers, default: int) -> Integers:
    """A statistic of the chosen events as integers; the default where an event has none.

    >>> integers(Coded(np.array([0, -1, 1]), (5, "6")), np.array([0, 1, 2]), -1).tolist()
    [5, -1, 6]
    """
    found = [whole(value) for value in column.values]
    values = [default if value is None else signed(value) for value in found]
    result: Integers = np.array([*values, default], np.int64)[column.codes[chosen]]
    return result


def line_times(line: Line) -> tuple[Integers, Integers]:
    """When the events of a line begin, and how long they take: see `bounded_times`."""
    return bounded_times(line.begins_ps, line.events.durations_ps)


def bounded_times(begins_ps: Integers, durations_ps: Integers) -> tuple[Integers, Integers]:
    """Begins and durations whose sums fit 64 bits; only corrupt files have negative durations or such of weeks.

    >>> [times.tolist() for times in bounded_times(np.array([5, -7]), np.array([-1, 3]))]
    [[5, -7], [0, 3]]
    """
    return np.clip(begins_ps, -2 * _LONGEST, 2 * _LONGEST), np.clip(durations_ps, 0, _LONGEST)


def joint_codes(columns: list[Integers]) -> tuple[Integers, list[tuple[int, ...]]]:
    """Codes of the distinct rows of columns of codes, and those rows.

    >>> codes, rows = joint_codes([np.array([0, 1, 0]), np.array([-1, 2, -1])])
    >>> codes.tolist(), rows
    ([0, 1, 0], [(0, -1), (1, 2)])
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, of_column = np.unique(column, return_inverse=True)
        mixed = codes * (int(of_column.max(initial=0)) + 1) + of_column
        _, codes = np.unique(mixed, return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return codes.astype(np.int64), rows
