"""What do the columns of a line of a trace mean? Statistics as numbers and text, times, and self times."""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np

from hlo_cli.ir.traces.trace import (
    ABSENT,
    Coded,
    Integers,
    Line,
    Value,
    distinct_of,
    first_places,
)

HOST: Final = "/host:CPU"
"""The plane of the threads of a host."""

# --- statistics of events ---
# As columns of integers, with their values as numbers and text.


_UNSIGNED_MODULUS: Final = 1 << 64  # ids are unsigned 64-bit integers, which some formats write as signed ones
_SIGN_BIT: Final = 1 << 63  # of a 64-bit integer
_MAX_TIME: Final = 1 << 61
"""The longest time that is measured: 27 days."""
_MAX_DIGITS: Final = 20
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
        return int(value) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else None
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
    integer = whole(value)
    return None if integer is None else integer % _UNSIGNED_MODULUS


def signed(value: int) -> int:
    """An integer modulo 2^64, as signed one.

    >>> signed((1 << 64) - 1), signed(1 << 70)
    (-1, 0)
    """
    return (value + _SIGN_BIT) % _UNSIGNED_MODULUS - _SIGN_BIT


def text(value: Value | None) -> str:
    """A value as text; empty if there is none."""
    return "" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def integers(column: Coded, chosen: Integers, default: int) -> Integers:
    """A statistic of the chosen events as integers; the default where an event has none.

    >>> integers(Coded(np.array([0, -1, 1]), (5, "6")), np.array([0, 1, 2]), -1).tolist()
    [5, -1, 6]
    """
    numbers = [whole(value) for value in column.values]
    values = [default if value is None else signed(value) for value in numbers]
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
    # Twice, so that begin and end of a clipped event still differ.
    return np.clip(begins_ps, -2 * _MAX_TIME, 2 * _MAX_TIME), np.clip(durations_ps, 0, _MAX_TIME)


def joint_codes(columns: list[Integers]) -> tuple[Integers, list[tuple[int, ...]]]:
    """Codes of the distinct rows of columns of codes, and those rows.

    >>> codes, rows = joint_codes([np.array([0, 1, 0]), np.array([-1, 2, -1])])
    >>> codes.tolist(), rows
    ([0, 1, 0], [(0, -1), (1, 2)])
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        of_column = distinct_of(column)[1]
        # Column by column, so that products of the numbers of codes stay within 64 bits.
        mixed = codes * (int(of_column.max(initial=0)) + 1) + of_column
        codes = distinct_of(mixed)[1]
    first = first_places(codes, int(codes.max(initial=-1)) + 1)
    rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return codes.astype(np.int64), rows


# --- self time ---
# The duration of an event less those of the events directly inside it.
#
# Mirrors the nesting of xprof/convert/xplane_to_op_metrics_db.cc.


_MAX_NESTED_TIME: Final = 1 << 62
"""A bound on the sum of nested times, which only corrupt files exceed."""


def self_times(begins_ps: Integers, durations_ps: Integers) -> Integers:
    """The self time of each event of one line, whose events are in the order of `nested_order`.

    The parent of an event is the nearest earlier one, among those not yet left, that includes it.

    >>> self_times(np.array([0, 0, 4, 20]), np.array([10, 3, 4, 5])).tolist()
    [3, 3, 4, 5]
    """
    result = durations_ps.copy()
    # Most lines have no nesting, and numpy has compared all neighbors already.
    if len(result) < 2 or not _overlaps(begins_ps, durations_ps):
        return result
    begins, durations = begins_ps.tolist(), durations_ps.tolist()
    inside = [0] * len(begins)
    stack: list[tuple[int, int, int]] = []
    for position, (begin, duration) in enumerate(zip(begins, durations, strict=True)):
        end = begin + duration
        # Inclusive on both sides, as in xplane_to_op_metrics_db.cc: events of equal times nest in the order of the
        # file.
        while stack and not (stack[-1][0] <= begin and end <= stack[-1][1]):
            stack.pop()
        if stack:
            inside[stack[-1][2]] += duration
        stack.append((begin, end, position))
    return result - np.array([min(each, _MAX_NESTED_TIME) for each in inside], np.int64)


def nested_order(begins_ps: Integers, durations_ps: Integers) -> Integers:
    """The order in which events that begin together are nested: the longest first.

    >>> nested_order(np.array([5, 0, 0]), np.array([1, 3, 10])).tolist()
    [2, 1, 0]
    """
    return np.lexsort((-durations_ps, begins_ps)).astype(np.int64)


def _overlaps(begins_ps: Integers, durations_ps: Integers) -> bool:
    """Whether any event begins before the one before it has ended."""
    return bool((begins_ps[1:] < (begins_ps + durations_ps)[:-1]).any() or not durations_ps.all())
