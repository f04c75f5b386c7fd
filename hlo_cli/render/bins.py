"""Scales of a chart: steps to columns, each showing its maximum, and bytes to rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hlo_cli.report.timeline import Track

MAX_LIMIT_RATIO: Final = 2  # peaks; a higher limit would flatten the chart


class Axis(NamedTuple):
    """The steps axis of a chart: its number of columns for a number of steps, starting `margin` cells from the left.

    >>> [Axis(5, 3, 7).cell(step) for step in range(7)]
    [5, 5, 5, 6, 6, 7, 7]
    """

    margin: int
    columns: int
    steps: int

    def cell(self, step: int) -> int:
        """The screen cell of the column that shows a step."""
        return self.margin + step * self.columns // self.steps


def first_step(column: int, columns: int, steps: int) -> int:
    """The first step of a column, or the number of steps for the column after the last.

    >>> [first_step(column, 3, 7) for column in range(4)]
    [0, 3, 5, 7]
    """
    return -(-column * steps // columns)


def highest_steps(totals: Sequence[int], columns: int) -> list[int]:
    """For each column, the first step with its largest value.

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
    """The number of steps between ticks: 1, 2, or 5 times a power of ten, at least `least` columns apart.

    >>> tick_interval(37, 37, 10), tick_interval(100_000, 72, 10)
    (10, 20000)
    >>> tick_interval(162, 74, 10)
    50
    """
    power = 1
    while True:
        for multiple in (1, 2, 5):
            if multiple * power * columns >= least * steps:
                return multiple * power
        power *= 10


class Scale(NamedTuple):
    """The vertical scale of a track: its peak and the peak's step, the limit if near, and the bytes at the axis' end.

    >>> scale_of(Track("HBM", (5, 8), limit_bytes=10)), scale_of(Track("HBM", (5, 8), limit_bytes=100))
    (Scale(peak=8, step=1, limit=10, top=10), Scale(peak=8, step=1, limit=None, top=8))
    """

    peak: int
    step: int | None
    limit: int | None
    top: int


def scale_of(track: Track) -> Scale:
    """The scale of a track; it reads every step, so call it once per track."""
    peak, limit = max(track.peak_bytes, 0), track.limit_bytes
    near = limit if limit is not None and 0 < limit <= MAX_LIMIT_RATIO * peak else None
    return Scale(peak, track.totals.index(peak) if peak else None, near, max(peak, near or 0))
