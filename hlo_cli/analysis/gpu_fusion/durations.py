"""Time as XLA's cost model computes it: single precision for quotients, durations in quarters of a nanosecond.

Mirrors `absl::Duration` of absl/time/duration.cc, whose rounding decides between fusions of equal benefit.
"""

from __future__ import annotations

from math import floor, modf
from struct import Struct
from typing import Final

TICKS_PER_SECOND: Final = 4_000_000_000
TICKS_PER_MICROSECOND: Final = 4_000
_SINGLE: Final = Struct("f")
_pack, _unpack = _SINGLE.pack, _SINGLE.unpack


def f32(value: float) -> float:
    """The value rounded to single precision.

    >>> f32(0.1) == 0.1, f32(2**24 + 1)
    (False, 16777216.0)
    """
    rounded: float = _unpack(_pack(value))[0]
    return rounded


def seconds(value: float) -> int:
    """Ticks of a number of seconds, rounded to the nearest (`absl::Seconds`).

    >>> seconds(1e-6), seconds(1.3e-10)
    (4000, 1)
    """
    whole = floor(value)
    return whole * TICKS_PER_SECOND + _round((value - whole) * TICKS_PER_SECOND)


def scale(ticks: int, factor: float) -> int:
    """A duration times a number: through seconds and back, as absl does (`operator*=`).

    >>> scale(10, 0.95), scale(4, 2.5)
    (10, 10)
    """
    high, low = divmod(ticks, TICKS_PER_SECOND)
    high_fraction, high_whole = modf(high * factor)
    low_fraction, low_whole = modf(low * factor / TICKS_PER_SECOND + high_fraction)
    return int(high_whole + low_whole) * TICKS_PER_SECOND + _round(low_fraction * TICKS_PER_SECOND)


def nanoseconds(value: float) -> int:
    """Ticks of a number of nanoseconds (`absl::Nanoseconds`).

    >>> nanoseconds(1.125)
    5
    """
    return scale(4, value)


def microseconds(ticks: int) -> float:
    """A duration in microseconds.

    >>> microseconds(8098)
    2.0245
    """
    return ticks / TICKS_PER_MICROSECOND


def _round(value: float) -> int:
    """The nearest integer, halves up."""
    whole = floor(value)
    return whole + (value - whole >= 0.5)
