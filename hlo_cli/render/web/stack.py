"""Stacks: the stacked buffers of a track, each in the columns in which it is live.

A buffer is stacked on older ones, so it never pushes another up, and moves down only when a buffer below it
ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hlo_cli.render.bins import Scale, highest_steps, scale_of
from hlo_cli.report.timeline import Band, Track

MAX_COLUMNS: Final = 720
MAX_BANDS: Final = 200
MAX_COLORS: Final = 10
MAX_LIMIT_RATIO: Final = 1.35  # peaks; a higher limit is told in words, so that the axis ends at the data
HEADROOM: Final = 50  # the axis ends one part in this many above the highest value
MIN_BAND_SHARE: Final = 250  # a buffer smaller than one part in this many of the peak is not drawn separately


class Layer(NamedTuple):
    """One area of the picture: its lower and upper bytes in each column from `start` on.

    `band` is None for the rest of the buffers, `rank` is the position among the largest at the peak.
    """

    band: Band | None
    rank: int | None
    start: int
    bottoms: Sequence[int]
    tops: Sequence[int]

    @property
    def runs(self) -> Iterator[tuple[int, int]]:
        """The first column, and the one after the last, of each stretch at one height."""
        at = 0
        for column in range(1, len(self.bottoms) + 1):
            if column == len(self.bottoms) or (self.bottoms[column], self.tops[column]) != (
                self.bottoms[at],
                self.tops[at],
            ):
                yield self.start + at, self.start + column
                at = column


class Stack(NamedTuple):
    """The layers of a track from the bottom; columns show `steps`, and `smaller` is the number of omitted buffers.

    `largest` are the buffers with their own color, the largest at the peak first.
    """

    scale: Scale
    steps: Sequence[int]
    totals: Sequence[int]
    layers: tuple[Layer, ...]
    largest: tuple[Band, ...]
    smaller: int

    @property
    def top(self) -> int:
        """The bytes at the end of the axis: just above the peak and a near limit.

        Buffers larger than the totals are drawn completely.
        """
        highest = max(self.scale.top, max((max(layer.tops, default=0) for layer in self.layers), default=0))
        return highest + highest // HEADROOM


def stack_of(track: Track, columns: int = MAX_COLUMNS) -> Stack:
    """The picture of a track with one column per step, up to a number of columns.

    >>> a, b, c = Band("a", 0, 2, 64), Band("b", 1, 4, 32), Band("c", 3, 4, 16)
    >>> stack = stack_of(Track("HBM", (64, 96, 96, 50, 48), (c, b, a)))
    >>> for layer in stack.layers: print(layer.band.label if layer.band else "rest", layer.start, *layer.bottoms)
    a 0 0 0 0
    b 1 64 64 0 0
    c 3 32 32
    rest 0 64 96 96 48 48
    """
    scale = _scale(track)
    steps = highest_steps(track.totals, min(len(track.totals), columns))
    totals = [max(track.totals[step], 0) for step in steps]
    drawn, at_peak = _drawn(track, scale, steps)
    largest = at_peak[:MAX_COLORS]
    ranks = {id(band): rank for rank, band in enumerate(largest)}
    heights = [0] * len(steps)
    layers = []
    for band in sorted(drawn, key=lambda band: (band.start, -band.end, -band.bytes, band.label)):
        start, end = _columns(band, steps)
        bottoms = heights[start:end]
        tops = [height + band.bytes for height in bottoms]
        heights[start:end] = tops
        layers.append(Layer(band, ranks.get(id(band)), start, bottoms, tops))
    tops = list(map(max, heights, totals))
    rest = [Layer(None, None, 0, heights, tops)] if tops != heights else []
    return Stack(scale, steps, totals, (*layers, *rest), tuple(largest), len(track.bands) - len(drawn))


def _scale(track: Track) -> Scale:
    scale = scale_of(track)
    if scale.limit is None or scale.limit <= MAX_LIMIT_RATIO * scale.peak:
        return scale
    return Scale(scale.peak, scale.step, None, scale.peak)


def _drawn(track: Track, scale: Scale, steps: Sequence[int]) -> tuple[list[Band], list[Band]]:
    """The buffers that are large enough to be visible, and those of them live at the peak, the largest first."""
    peak, least = scale.step, scale.peak / MIN_BAND_SHARE
    seen = [
        band for band in track.bands if band.bytes > 0 and band.bytes >= least and len(range(*_columns(band, steps)))
    ]
    seen.sort(key=lambda band: (-band.bytes, band.start, band.label))
    at_peak = [band for band in seen if peak is not None and band.start <= peak <= band.end]
    elsewhere = [band for band in seen if peak is None or not band.start <= peak <= band.end]
    return [*at_peak, *elsewhere][:MAX_BANDS], at_peak


def _columns(band: Band, steps: Sequence[int]) -> tuple[int, int]:
    return bisect_left(steps, band.start), bisect_right(steps, band.end)
