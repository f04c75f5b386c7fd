"""Bins: a schedule of any length in as many columns as a picture has, each shown by its highest step; and how high."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise
from typing import Final, NamedTuple

from hlo_cli.report.timeline import Track

FARTHEST_LIMIT: Final = 2  # peaks; a limit further up would leave the picture flat


class Axis(NamedTuple):
    """Where the columns of a chart stand: so many columns for so many steps, the first `margin` cells from the left.

    >>> [Axis(5, 3, 7).cell(step) for step in range(7)]
    [5, 5, 5, 6, 6, 7, 7]
    """

    margin: int
    columns: int
    steps: int

    def cell(self, step: int) -> int:
        """The cell of the screen above and below which a step is drawn."""
        return self.margin + step * self.columns // self.steps


def first_step(column: int, columns: int, steps: int) -> int:
    """The first step that is drawn in a column, or how many there are for the column after the last.

    >>> [first_step(column, 3, 7) for column in range(4)]
    [0, 3, 5, 7]
    """
    return -(-column * steps // columns)


def highest_steps(totals: Sequence[int], columns: int) -> list[int]:
    """Of the steps in each column the first that has the largest value.

    >>> highest_steps((1, 5, 2, 0, 0, 3, 4), 3)
    [1, 3, 6]
    """
    bounds = [first_step(column, columns, len(totals)) for column in range(columns + 1)]
    found = []
    for start, end in pairwise(bounds):
        values = totals[start:end]
        found.append(start + values.index(max(values)))
    return found


def tick_interval(steps: int, columns: int, least: int) -> int:
    """How many steps lie between ticks: 1, 2 or 5 times a power of ten, at least `least` columns apart.

    >>> tick_interval(37, 37, 10), tick_interval(100_000, 72, 10)
    (10, 20000)
    >>> tick_interval(162, 74, 10)
    50
    """
    for interval in (multiple * 10**power for power in count() for multiple in (1, 2, 5)):
        if interval * columns >= least * steps:
            return interval
    raise AssertionError("powers of ten have no end")


def scale_of(track: Track) -> int:
    """The bytes at the upper end of the axis: the peak, or the limit if that is near.

    >>> scale_of(Track("HBM", (5, 8), limit_bytes=10)), scale_of(Track("HBM", (5, 8), limit_bytes=100))
    (10, 8)
    """
    peak = track.peak_bytes
    return max(peak, track.limit_bytes or 0) if has_limit(track) else max(peak, 0)


def has_limit(track: Track) -> bool:
    """Whether the limit is near enough to be drawn."""
    return track.limit_bytes is not None and 0 < track.limit_bytes <= FARTHEST_LIMIT * track.peak_bytes
