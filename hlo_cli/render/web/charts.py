"""How does a picture show what happens over the steps of a schedule: stacked buffers, loops, and spans in lanes?"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from hlo_cli.render.draw.cells import in_words
from hlo_cli.render.draw.charts import (
    Axis,
    Scale,
    highest_steps,
    loop_levels,
    scale_of,
    stretch_of,
    tick_interval,
    trips_text,
)
from hlo_cli.render.style import Style, sanitize
from hlo_cli.render.web.markup import safe, safe_lines, short, shortened
from hlo_cli.render.width import shorten_text
from hlo_cli.report.numbers import (
    BYTE_UNITS,
    SECOND_UNITS,
    axis_unit,
    format_bytes,
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
    in_second_unit,
)
from hlo_cli.report.table import Cell, Loop, Row, Table
from hlo_cli.report.timeline import Band, Mark, Timeline, Track

# --- stacked buffers ---
# Each buffer of a track in the columns in which it is live.
#
# A buffer is stacked on older ones, so it never pushes another up, and moves down only when a buffer below it
# ends.


MAX_COLUMNS: Final = 720  # one for each pixel of the chart's width
MAX_BANDS: Final = 200  # each is a path of its own; at 240 px of height, more are thinner than a line
MAX_COLORS: Final = 10  # more colors cannot be described apart in a legend
MAX_LIMIT_RATIO: Final = 1.35  # peaks; a higher limit is described in words, so that the axis ends at the data
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


# --- areas and legend ---
# A track as a picture: stacked areas, the peak, the limit, and a legend.


CHART_LEFT: Final = 70  # px: the numbers of bytes and their unit
CHART_WIDTH: Final = 720  # px: leaves room for the legend on a page of this width
CHART_HEIGHT: Final = 240  # px: two memories fit a screen
PAGE_WIDTH: Final = 1100  # px: a window on a laptop
CODE_GLYPH_WIDTH: Final = 7.3  # px: a character of monospaced type of 12 px, of the widest of the common fonts
MIN_LABEL_HEIGHT: Final = 12  # px: the type of names is 11 px high
MIN_EDGED_HEIGHT: Final = 3  # the outline of a thinner area would hide it
MAX_TEXT_LENGTH: Final = 300  # characters: a tip is a small window of the browser
LEGEND_GAP: Final = 26  # px
LEGEND_INDENT: Final = 18  # px: the square of the color before a name
LEGEND_SIZE: Final = 78  # px: the room of a number of bytes, such as 1,023.9 MiB
LEGEND_ROW: Final = 19  # px: a line of 12 px type and its leading
MIN_LEGEND: Final = 200  # px: square, about a dozen characters of a name, and the bytes


class Room(NamedTuple):
    """The width of a picture, the left edge and the width of its charts, and its name as a class.

    The legend is right of a chart in a wide picture, and below it in a narrow one.
    """

    page: int
    left: int
    width: int
    name: str = ""

    @property
    def is_narrow(self) -> bool:
        """Whether nothing fits right of the chart."""
        return self.page - self.left - self.width < MIN_LEGEND

    @property
    def right(self) -> int:
        """The right edge of the charts."""
        return self.left + self.width


WIDE: Final = Room(PAGE_WIDTH, CHART_LEFT, CHART_WIDTH, "wide")
NARROW: Final = Room(360, 64, 284, "narrow")  # left of it, `1,000 GiB` takes 56 px in Chromium


class Frame(NamedTuple):
    """The frame of a chart: its upper edge, its columns, the bytes of its height, and its place in the width."""

    top: float
    columns: int
    scale: int
    room: Room = WIDE

    def x(self, column: float) -> float:
        """The x coordinate of the left edge of a column."""
        return self.room.left + column * self.room.width / self.columns

    def y(self, value: float) -> float:
        """The y coordinate of a number of bytes."""
        return self.top + CHART_HEIGHT - (value * CHART_HEIGHT / self.scale if self.scale else 0)


def areas(stack: Stack, frame: Frame, key: str) -> Iterator[str]:
    """The layers, the line of the totals above them, and the names of layers with room for one.

    >>> from hlo_cli.render.web.charts import stack_of
    >>> from hlo_cli.report.timeline import Track
    >>> track = Track("HBM", (8, 8), (Band("a", 0, 1, 8),))
    >>> next(areas(stack_of(track), Frame(0, 2, 8), "t0")).partition("<title>")[0]
    '<path class="band b0" data-b="t0b0" data-v="a" d="M70 0H790V240H70Z">'
    """
    for layer in stack.layers:
        looks = f"band b{layer.rank}" if layer.rank is not None else "band other" if layer.band else "band rest"
        if layer.band and layer.band.bytes * CHART_HEIGHT < MIN_EDGED_HEIGHT * frame.scale:
            looks += " thin"
        linked = f' data-b="{key}b{layer.rank}"' if layer.rank is not None else ""
        linked += f' data-v="{safe(layer.band.label)}"' if layer.band else ""
        words = [_rest_words(stack)] if layer.band is None else _band_words(layer.band, stack.scale.peak)
        title = safe_lines(words[:1] if frame.room.is_narrow else words)  # details are in the wide form and the table
        yield f'<path class="{looks}"{linked} d="{_outline(layer, frame)}"><title>{title}</title></path>'
    yield f'<path class="total" d="{_edge(stack.totals, frame)}"/>'
    for layer in stack.layers:
        yield from _buffer_label(layer, frame)


def _outline(layer: Layer, frame: Frame) -> str:
    """The path around a layer: along its upper edge to the right, and back along the lower one."""
    runs = list(layer.runs)
    first = runs[0][0]
    there = "".join(
        f"V{short(frame.y(layer.tops[start - first]))}H{short(frame.x(end))}" if start > first else
        f"M{short(frame.x(start))} {short(frame.y(layer.tops[0]))}H{short(frame.x(end))}"
        for start, end in runs
    )  # fmt: skip
    back = "".join(
        f"V{short(frame.y(layer.bottoms[start - first]))}H{short(frame.x(start))}" for start, _ in reversed(runs)
    )
    return f"{there}{back}Z"


def _rest_words(stack: Stack) -> str:
    """The name of the layer of all buffers that are not drawn separately.

    >>> from hlo_cli.render.web.charts import stack_of
    >>> from hlo_cli.report.timeline import Track
    >>> _rest_words(stack_of(Track("HBM", (9,), (Band("a", 0, 0, 0),))))
    '1 smaller buffer'
    """
    return format_count(stack.smaller, "smaller buffers") if stack.smaller else "other memory"


def _band_words(band: Band, peak: int) -> list[str]:
    """The properties of a buffer, one per line.

    >>> _band_words(Band("copy.10", 15, 17, 661504, kind="temp", source="model.py:3"), 3676160)
    ['copy.10', '646 KiB, 18% of the peak', 'steps 15–17, temp', 'model.py:3']
    """
    size = format_bytes(band.bytes)
    share = band.bytes / peak if peak else 0
    steps = f"steps {band.start:,}–{band.end:,}" if band.end > band.start else f"step {band.start:,}"
    words = (
        band.label, band.shape,
        f"{size}, {format_percent(share)}% of the peak",
        f"{steps}, {band.kind}" if band.kind else steps,
        band.op_name, band.source,
    )  # fmt: skip
    return [shorten_text(text, MAX_TEXT_LENGTH) for text in words if text]


def legend(stack: Stack, frame: Frame, key: str, top: float) -> tuple[list[str], float]:
    """The largest buffers at the peak with their sizes, the size of all others there, and the lower edge.

    It begins at `top`, right of the chart or, in a narrow picture, below it.
    """
    if not stack.largest:
        return [], top
    room = frame.room
    left = room.left if room.is_narrow else room.right + LEGEND_GAP
    at = top + 12
    drawn = [f'<text class="quiet" x="{left}" y="{short(at)}">At the peak</text>']
    length = int((room.page - left - LEGEND_INDENT - LEGEND_SIZE) / CODE_GLYPH_WIDTH)
    for rank, band in enumerate(stack.largest):
        at += LEGEND_ROW
        name = shortened(band.label, length)
        drawn.append(
            f'<g data-b="{key}b{rank}" data-v="{safe(band.label)}">'
            f"<title>{safe_lines(_band_words(band, stack.scale.peak))}</title>"
            f'<rect class="b{rank}" x="{left}" y="{short(at - 10)}" width="11" height="11"/>'
            f'<text class="code" x="{left + LEGEND_INDENT}" y="{short(at)}">{safe(name)}</text>'
            f"{_size(band.bytes, room, at)}</g>"
        )
    rest = stack.scale.peak - sum(band.bytes for band in stack.largest)
    if rest > 0:
        at += LEGEND_ROW
        words = f'<text class="quiet" x="{left + LEGEND_INDENT}" y="{short(at)}">Other buffers</text>'
        swatch = f'<rect class="other" x="{left}" y="{short(at - 10)}" width="11" height="11"/>'
        drawn.append(f"{swatch}{words}{_size(rest, room, at)}")
    return drawn, at + 8


def _limit_line(limit: int | None, frame: Frame) -> Iterator[str]:
    """The line of the limit, if it is within the picture."""
    if limit is None:
        return
    y = frame.y(limit)
    room = frame.room
    yield f'<path class="limit" d="M{room.left} {short(y)}h{room.width}"/>'
    words = f"limit {format_bytes(limit)}"
    baseline = short(y + 13 if y < frame.top + 12 else y - 4)
    yield f'<text class="alarm end" x="{room.right - 4}" y="{baseline}">{words}</text>'


def _size(value: int, room: Room, at: float) -> str:
    x = min(room.page - 10, room.left + room.width) if room.is_narrow else room.page - 10
    return f'<text class="end" x="{x}" y="{short(at)}">{format_bytes(value)}</text>'


def _edge(totals: Sequence[int], frame: Frame) -> str:
    path = [f"M{frame.room.left} {short(frame.y(totals[0]))}"]
    path += [
        f"H{short(frame.x(column))}V{short(frame.y(totals[column]))}"
        for column in range(1, len(totals))
        if totals[column] != totals[column - 1]
    ]
    return "".join(path) + f"H{frame.room.right}"


def _buffer_label(layer: Layer, frame: Frame) -> Iterator[str]:
    """The name of a buffer in its longest stretch at one height, if it is tall and wide enough there."""
    if layer.band is None or frame.scale == 0 or layer.band.bytes * CHART_HEIGHT < MIN_LABEL_HEIGHT * frame.scale:
        return
    start, end = max(layer.runs, key=lambda run: run[1] - run[0])
    room = int((frame.x(end) - frame.x(start) - 8) / CODE_GLYPH_WIDTH)
    if room < min(len(layer.band.label), 8):
        return
    middle = layer.bottoms[start - layer.start] + layer.band.bytes / 2
    on = " on" if layer.rank is not None else " off"
    yield (
        f'<text class="code middle{on}" x="{short((frame.x(start) + frame.x(end)) / 2)}"'
        f' y="{short(frame.y(middle) + 4)}">{safe(shortened(layer.band.label, room))}</text>'
    )


def document(
    elements: list[str],
    height: float,
    *,
    style: str = "",
    title: str = "",
    label: str = "",
    room: Room = WIDE,
    data: str = "",
) -> Iterator[str]:
    """The root element of a picture, with one line for each element in it; `label` is for screen readers.

    `data` are further attributes, which a script reads.
    """
    size = f'viewBox="0 0 {room.page} {short(height)}" width="{room.page}" height="{short(height)}"'
    named = f' aria-label="{safe(label)}"' if label else ""
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="hlo {room.name}" {size} role="img"{named}{data}>\n'
    yield f"<title>{safe(title)}</title>\n{style}\n" if title else ""
    yield f'<rect class="paper" width="{room.page}" height="{short(height)}"/>\n'
    for element in elements:
        yield element + "\n"
    yield "</svg>\n"


# --- axes ---
# Bytes on the left, steps below, marks above, and loops as brackets under the steps.


BETWEEN_TICKS: Final = 40  # px: at least two lines of text, so that numbers do not touch
BETWEEN_STEPS: Final = 80  # px: the longest number of steps, such as 1,000,000, with a gap
AXIS_HEIGHT: Final = 24  # px: a tick and a line of text
LOOP_HEIGHT: Final = 24  # px: a bracket and the name below it
MAX_LEVELS: Final = 6  # loops are seldom nested deeper
MAX_BRACKETS: Final = 300  # of one depth: more in the width of the chart are less than 3 px apart
MIN_BRACKET: Final = 2  # px: narrower, both ends are one line
MIN_LOOP_NAME: Final = 12  # characters: shorter, names of loops look alike


def _byte_axis(frame: Frame) -> Iterator[str]:
    """Horizontal lines at round numbers of bytes, with the numbers on the left; all in one unit.

    >>> [line.partition(">")[2] for line in _byte_axis(Frame(0, 9, 3594 * 1024)) if "text" in line]
    ['0</text>', '1</text>', '2</text>', '3 MiB</text>']
    """
    room = frame.room
    unit = axis_unit(frame.scale)
    part = 10 if unit else 1
    interval = tick_interval(max(frame.scale * part // 1024**unit, 1), CHART_HEIGHT, BETWEEN_TICKS)
    ticks = range(0, frame.scale * part // 1024**unit + 1, interval)
    for tenths in ticks:
        y = frame.y(tenths * 1024**unit / part)
        words = format_scaled(tenths, part, 1 if interval % part else 0)
        sign = f" {BYTE_UNITS[unit]}" if tenths == ticks[-1] else ""
        yield f'<path class="grid" d="M{room.left} {short(y)}h{room.width}"/>'
        yield f'<text class="quiet end" x="{room.left - 6}" y="{short(y + 4)}">{words}{sign}</text>'


def _step_axis(frame: Frame, steps: int, y: float) -> Iterator[str]:
    """Ticks at round steps, and the number of steps at the end."""
    room = frame.room
    axis = Axis(0, frame.columns, steps)
    last = f"{format_count(steps, 'steps')}"
    for step in range(0, steps, tick_interval(steps, room.width, BETWEEN_STEPS)):
        x = frame.x(axis.cell(step))
        yield f'<path class="bracket" d="M{short(x)} {short(y)}v5"/>'
        if x <= room.right - CODE_GLYPH_WIDTH * (len(last) + len(f"{step:,}")):
            yield f'<text class="quiet middle" x="{short(x)}" y="{short(y + 17)}">{step:,}</text>'
    yield f'<text class="quiet end" x="{room.right}" y="{short(y + 17)}">{last}</text>'


def _time_axis(frame: Frame, seconds: float, y: float) -> Iterator[str]:
    """Ticks at round times, all in one unit, and the total time at the end.

    >>> [line.partition(">")[2] for line in _time_axis(Frame(0, 9, 0), 25e-6, 0) if "text" in line]
    ['0</text>', '5</text>', '10</text>', '15</text>', '20</text>', '25.0 µs</text>']
    """
    room = frame.room
    unit = SECOND_UNITS.index(format_seconds(seconds).rpartition(" ")[2])
    whole = in_second_unit(seconds, unit)
    last = format_seconds(seconds)
    parts = 1 if whole >= 10 else 10
    interval = tick_interval(max(int(whole * parts), 1), room.width, BETWEEN_STEPS)
    for tick in range(0, int(whole * parts) + 1, interval):
        x = room.left + room.width * tick / (whole * parts)
        words = format_scaled(tick, parts, 0 if parts == 1 or interval % 10 == 0 else 1)
        yield f'<path class="bracket" d="M{short(x)} {short(y)}v5"/>'
        if x <= room.right - CODE_GLYPH_WIDTH * (len(last) + len(words)):
            yield f'<text class="quiet middle" x="{short(x)}" y="{short(y + 17)}">{words}</text>'
    yield f'<text class="quiet end" x="{room.right}" y="{short(y + 17)}">{last}</text>'


def pointer(mark: Mark, role: str, frame: Frame, steps: int, y: float) -> Iterator[str]:
    """A mark: a triangle with its words above a step, and a line down to the axis."""
    axis = Axis(0, frame.columns, steps)
    x = frame.x(axis.cell(mark.step) + 0.5)
    room = frame.room
    ends = x > room.left + room.width / 2
    looks, at = ("end", x - 8) if ends else ("start", x + 8)
    line = "peak" if role == "alarm" else "mark"
    yield f'<path class="{line}" d="M{short(x)} {short(y)}V{short(frame.top + CHART_HEIGHT)}"/>'
    yield f'<text class="{role} middle" x="{short(x)}" y="{short(y)}">▼</text>'
    words = shortened(mark.label, int(room.width / 2 / CODE_GLYPH_WIDTH))
    yield f'<text class="{role} {looks}" x="{short(at)}" y="{short(y)}">{safe(words)}</text>'


def brackets(
    loops: Sequence[Loop], frame: Frame, steps: int, top: float, *, counts_steps: bool = True
) -> tuple[list[str], float]:
    """The loops below the steps, inner ones below outer ones, and their total height."""
    axis = Axis(0, frame.columns, steps)
    drawn: list[str] = []
    depth = 0
    for level in loop_levels(loops, steps)[:MAX_LEVELS]:
        longest = sorted(level, key=lambda loop: (loop.start - loop.end, loop.start))[:MAX_BRACKETS]
        placed = [(frame.x(axis.cell(loop.start)), frame.x(axis.cell(loop.end) + 1), loop) for loop in longest]
        wide = [(left, right, loop) for left, right, loop in placed if right - left >= MIN_BRACKET]
        names = _names(wide, frame.room)
        for left, right, loop in wide:
            drawn += _bracket(loop, left, right, top + depth * LOOP_HEIGHT, names.get(loop, ""), counts_steps)
        depth += bool(wide)
    return drawn, depth * LOOP_HEIGHT


def _names(placed: Sequence[tuple[float, float, Loop]], room: Room) -> dict[Loop, str]:
    """The names of loops that have room for one, centered below its bracket; those of the longest loops first."""
    taken: list[tuple[float, float]] = []
    names = {}
    for left, right, loop in placed:
        words = sanitize(loop.name) + trips_text(loop)
        length = min(len(words), max(int((right - left) / CODE_GLYPH_WIDTH), MIN_LOOP_NAME))
        name = words if length == len(words) else shortened(loop.name, max(length - len(trips_text(loop)), 4))
        name = name if name == words else name + trips_text(loop)
        half, middle = len(name) * CODE_GLYPH_WIDTH / 2 + 3, (left + right) / 2
        begin, end = middle - half, middle + half
        if begin >= 0 and end <= room.page and all(end <= other or begin >= last for other, last in taken):
            taken.append((begin, end))
            names[loop] = name
    return names


def _bracket(loop: Loop, left: float, right: float, y: float, name: str, counts_steps: bool) -> Iterator[str]:
    words = loop.name + trips_text(loop)
    title = f"{words}, steps {loop.start:,}–{loop.end:,}" if counts_steps else words
    path = f"M{short(left + 1)} {short(y)}v6H{short(right - 1)}v-6"
    yield f'<g><title>{safe(title)}</title><path class="bracket" d="{path}"/>'
    if name:
        yield f'<text class="code middle" x="{short((left + right) / 2)}" y="{short(y + 18)}">{safe(name)}</text>'
    yield "</g>"


# --- timelines ---
# A picture for each track from top to bottom, with the loops below the last.


HEADING_HEIGHT: Final = 20  # px: a line of text with its leading
MARK_LINE: Final = 16  # px: a mark and its words
TRACK_GAP: Final = 18  # px between the tracks
MAX_NAME_LENGTH: Final = 60  # with the peak and the limit before it, a name of this length fits the chart's line


def drawing(
    timeline: Timeline, top: float, *, key: str = "t", with_readout: bool = False, room: Room = WIDE
) -> tuple[list[str], float]:
    """The elements of the picture from `top` on, and its lower edge.

    With `with_readout`, every track has, for each column, its step, bytes, and instruction.

    >>> elements, end = drawing(Timeline("memory", (Track("HBM", (5, 8)),)), 0)
    >>> elements[0], end
    ('<g class="track">', 318)
    """
    elements: list[str] = []
    tracks = [track for track in timeline.tracks if track.totals]
    for at, track in enumerate(tracks):
        stack = stack_of(track, room.width)
        lines = 1 + len(track.marks)
        frame = Frame(
            top + HEADING_HEIGHT * (1 + room.is_narrow) + lines * MARK_LINE, len(stack.steps), stack.top, room
        )
        readout = f" {_readout(stack, frame, timeline)}" if with_readout else ""
        elements.append(f'<g class="track"{readout}>')
        elements += _track(track, stack, frame, timeline, f"{key}{at}")
        bottom = frame.top + CHART_HEIGHT + AXIS_HEIGHT + TRACK_GAP
        if at == len(tracks) - 1:
            drawn, height = brackets(timeline.loops, frame, timeline.steps, bottom - TRACK_GAP)
            elements += drawn
            bottom += height
        drawn, end = legend(stack, frame, f"{key}{at}", bottom - TRACK_GAP if room.is_narrow else frame.top)
        elements += drawn
        elements.append("</g>")
        top = max(bottom, end + TRACK_GAP)
    return elements, top


def figure_of_timeline(timeline: Timeline, key: str) -> Iterator[str]:
    """The picture for a page, in a wide and a narrow form, of which the page shows the one that fits."""
    label = f"Live bytes at every step: {', '.join(track.name for track in timeline.tracks)}"
    for room in (WIDE, NARROW):
        with_readout = not room.is_narrow  # the values at a pointer, which small screens do not have
        elements, height = drawing(timeline, 0, key=f"{key}{room.name[0]}", with_readout=with_readout, room=room)
        yield from document(elements, height, label=label, room=room)


def _track(track: Track, stack: Stack, frame: Frame, timeline: Timeline, key: str) -> Iterator[str]:
    yield from _heading(track, stack, frame, timeline)
    yield from _byte_axis(frame)
    yield f'<g class="areas">{"".join(areas(stack, frame, key))}</g>'
    yield from _limit_line(stack.scale.limit, frame)
    yield from _step_axis(frame, timeline.steps, frame.top + CHART_HEIGHT)
    y = frame.top - 5
    if stack.scale.step is not None:
        yield from pointer(Mark(stack.scale.step, "peak"), "alarm", frame, timeline.steps, y)
    for line, mark in enumerate((mark for mark in track.marks if 0 <= mark.step < timeline.steps), start=1):
        yield from pointer(mark, "strong", frame, timeline.steps, y - line * MARK_LINE)


def _heading(track: Track, stack: Stack, frame: Frame, timeline: Timeline) -> Iterator[str]:
    """The name of the memory, and its peak; in a narrow picture on two lines."""
    y = frame.top - (1 + len(track.marks)) * MARK_LINE - 4
    words = "empty"
    if (step := stack.scale.step) is not None:
        words = f"peak {format_bytes(stack.scale.peak)} at step {step:,}"
        if step < len(timeline.instructions) and not frame.room.is_narrow:
            words += f", {shortened(timeline.instructions[step], MAX_NAME_LENGTH)}"
    if track.limit_bytes is not None:
        words += f"; limit {format_bytes(track.limit_bytes)}"
    left = frame.room.left
    if frame.room.is_narrow:
        name = safe(shortened(track.name, MAX_NAME_LENGTH // 2))
        yield f'<text class="head" x="{left}" y="{short(y - HEADING_HEIGHT)}">{name}</text>'
        yield f'<text class="quiet" x="{left}" y="{short(y)}">{safe(words)}</text>'
        return
    name = f'<tspan class="head">{safe(shortened(track.name, MAX_NAME_LENGTH))}</tspan>'
    yield f'<text x="{left}" y="{short(y)}">{name} <tspan class="quiet" dx="6">{safe(words)}</tspan></text>'


def _readout(stack: Stack, frame: Frame, timeline: Timeline) -> str:
    """The data for the script that shows the values at the pointer."""
    names = timeline.instructions
    rows = [
        [step, total, shortened(names[step], MAX_NAME_LENGTH) if step < len(names) else ""]
        for step, total in zip(stack.steps, stack.totals, strict=True)
    ]
    box = f"{frame.room.left} {short(frame.top)} {frame.room.width} {CHART_HEIGHT}"
    return f'data-box="{box}" data-steps="{safe(json.dumps(rows, separators=(",", ":")))}"'


# --- lanes of spans ---
# Bars that do not overlap share a line, so that many fit in a picture.


def lanes_of(rows: Sequence[Row], span: int, group: int | None) -> Mapping[str, list[list[int]]]:
    """For each text in the column `group`, the one with most rows first, lanes of indices of rows.

    A bar takes the first lane that is free: those that overlap no other are in the first one, and what runs within
    another, such as the body of a loop, is below it. The number of lanes is the smallest possible.

    >>> rows = (("copy", (0, 3, True)), ("slice", (1, 2, True)), ("copy", (2, 5, True)), ("copy", (4, 4, False)))
    >>> dict(lanes_of(rows, 1, 0))
    {'copy': [[0, 3], [2]], 'slice': [[1]]}
    """
    groups: dict[str, list[tuple[int, int, int]]] = {}
    for at, row in enumerate(rows):
        stretch = stretch_of(row[span])
        if stretch is not None:
            name = "" if group is None else str(row[group] or "")
            groups.setdefault(name, []).append((stretch.start, stretch.end, at))
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: _packed(sorted(bars, key=lambda bar: (bar[0], -bar[1], bar[2]))) for name, bars in ordered}


def _packed(bars: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Each bar, in the order of their starts and the longest first, in the first lane that is free there."""
    lanes: list[list[int]] = []
    free: list[int] = []  # the lanes that are free, the first on top
    busy: list[tuple[int, int]] = []  # the end of the last bar of each other lane, the earliest on top
    for start, end, at in bars:
        while busy and busy[0][0] < start:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(at)
        heappush(busy, (end, lane))
    return lanes


# --- spans ---
# Few rows are a line each, with its name; many are packed into lanes, by operation or by thread.


BAR_PITCH: Final = 18  # px: a bar of 11 px and the space between bars
WIDE_SPANS: Final = Room(1240, 20, 1190, "wide")  # a window of 1,280 px
NARROW_SPANS: Final = Room(360, 8, 344, "narrow")  # a phone; there are no numbers of bytes left of the bars
MAX_NAMED: Final = 24  # more bars than these are packed into lanes, so that axis and legend stay in sight
MAX_BARS: Final = 2000  # each is an element with a tip, about 250 bytes: half a megabyte of a page
MIN_BAR_WIDTH: Final = 1.5  # px: a shorter bar would be invisible
MAX_BAR_NAME: Final = 40  # characters of a name beside its bar; the title has all of it
LEGEND_HEIGHT: Final = 26  # px: a legend of one line above the bars
LEGEND_LINE: Final = 18  # px: each further line of it
LANE_NAME_HEIGHT: Final = 16  # px: a line of text above the lanes of an operation
LANES_HEIGHT: Final = 200  # aimed at; a lane is not lower than the least height
LANE_HEIGHTS: Final = (5, 15)  # the highest has room for a name on a bar


def span_column(table: Table) -> int | None:
    """The index of the column with spans, if any.

    >>> from hlo_cli.report.table import Column
    >>> span_column(Table("pairs", (Column("name", "", "name"), Column("span", "step", "span", steps=9)), ()))
    1
    """
    return next((at for at in table.visible(person=True) if table.columns[at].unit == "span"), None)


def figure_of_spans(table: Table, style: Style) -> Iterator[str]:
    """The picture for a page, in a wide and a narrow form, of which the page shows the one that fits."""
    label = f"Steps of {format_count(len(table.rows), table.noun)}"
    for room in (WIDE_SPANS, NARROW_SPANS):
        elements, height = gantt(table, style, 0, room)
        yield from document(elements, height, label=label, room=room, data=_zoomable(table, style, room))


def _zoomable(table: Table, style: Style, room: Room) -> str:
    """The frame of a picture of spans for the script that zooms it: `js/spans.js` says what is in it."""
    at = span_column(table)
    assert at is not None
    column = table.columns[at]
    _, bottom = _bars(table, style, 0, room)
    frame = {"left": room.left, "width": room.width, "parts": max(column.steps, 1), "seconds": column.seconds,
             "bottom": round(bottom, 1)}  # fmt: skip
    return f' data-spans="{safe(json.dumps(frame, separators=(",", ":")))}"'


def gantt(table: Table, style: Style, top: float, room: Room = WIDE_SPANS) -> tuple[list[str], float]:
    """The elements of the picture from `top` on, and its lower edge.

    >>> from hlo_cli.report.table import Column
    >>> columns = (Column("name", "", "name"), Column("span", "step", "span", steps=9))
    >>> elements, end = gantt(Table("pairs", columns, (("a", (3, 5, True)),)), Style(), 0)
    >>> elements[6], end
    ('<rect class="b0" x="416.7" y="30" width="396.7" height="11"/>', 80)
    """
    at = span_column(table)
    assert at is not None
    column = table.columns[at]
    elements, bottom = _bars(table, style, top, room)
    frame = Frame(top + _legend_height(table, at, room), max(column.steps, 1), 0, room)
    axis = _time_axis(frame, column.seconds, bottom) if column.seconds else _step_axis(frame, frame.columns, bottom)
    bottom += AXIS_HEIGHT
    loops, height = brackets(column.loops, frame, frame.columns, bottom, counts_steps=not column.seconds)
    around = ('<g class="ticks">', *axis, "</g>", *(('<g class="loops">', *loops, "</g>") if loops else ()))
    return [*elements, *around], bottom + height + 12


def _bars(table: Table, style: Style, top: float, room: Room) -> tuple[list[str], float]:
    """The legend and the bars from `top` on, a line for each or in lanes, and the lower edge of the bars."""
    at = span_column(table)
    assert at is not None
    rows = _rows(table, at, style)
    frame = Frame(top + _legend_height(table, at, room), max(table.columns[at].steps, 1), 0, room)
    elements = list(_legend(table, len(rows), at, top + LEGEND_HEIGHT / 2 + 2, room))
    if len(rows) <= MAX_NAMED and not _has_lanes(table):
        elements += [
            line for n, row in enumerate(rows) for line in _bar(table, row, at, frame.top + n * BAR_PITCH, frame)
        ]
        return elements, frame.top + len(rows) * BAR_PITCH
    drawn, bottom = _lanes(table, rows, at, frame)
    return [*elements, *drawn], bottom


def _has_lanes(table: Table) -> bool:
    """Whether a column says in which lane a bar is, such as the thread that ran it."""
    return any(column.is_lane for column in table.columns)


def _rows(table: Table, at: int, style: Style) -> list[int]:
    """The indices of the rows with a bar: all, or those with the longest exposed parts, then the longest."""
    if style.top is not None or len(table.rows) <= MAX_BARS:
        return list(range(style.rows_shown(MAX_BARS, len(table.rows), main=table.main)))
    order = []
    for row, cells in enumerate(table.rows):
        stretch = stretch_of(cells[at])
        if stretch is not None:
            order.append((stretch.exposed_from - stretch.end, stretch.start - stretch.end, row))
    return sorted(row for _, _, row in sorted(order)[:MAX_BARS])


def _legend(table: Table, shown: int, at: int, y: float, room: Room) -> Iterator[str]:
    """What the bars are and what their colors mean, in as many lines above them as that takes."""
    column = table.columns[at]
    bars = format_count(len(table.rows), table.noun)
    bars = bars if shown == len(table.rows) else f"{shown:,} of {bars}{' (the longest)' if shown == MAX_BARS else ''}"
    axis = f"{'measured' if column.is_measured else 'estimated'} time" if column.seconds else "steps"
    places, (x, line) = _legend_places(table, at, room)
    for words, looks, left, number in places:
        base = y + number * LEGEND_LINE
        yield f'<rect class="{looks}" x="{short(left)}" y="{short(base - 10)}" width="11" height="11"/>'
        yield f'<text x="{short(left + 16)}" y="{short(base)}">{safe(words)}</text>'
    choices = (f"{bars} over {axis}", bars)
    words = next((each for each in choices if x + CODE_GLYPH_WIDTH * len(each) <= room.page), "")
    yield (
        f'<text class="quiet" x="{short(x)}" y="{short(y + line * LEGEND_LINE)}">{safe(words)}</text>' if words else ""
    )


def _legend_height(table: Table, at: int, room: Room) -> int:
    """The height of a legend of one or several lines."""
    return LEGEND_HEIGHT + LEGEND_LINE * _legend_places(table, at, room)[1][1]


def _legend_places(table: Table, at: int, room: Room) -> tuple[list[tuple[str, str, float, int]], tuple[float, int]]:
    """The words of each color with its looks, its left edge, and its line; and where the next would be."""
    column = table.columns[at]
    rest = "exposed" if column.seconds else "no overlap"
    kinds = _colors_of(table).items() if column.is_measured else (("overlapped", "b0"), (rest, "exposed"))
    places, x, line = list[tuple[str, str, float, int]](), float(room.left), 0
    for words, looks in kinds:
        if any(each[1] == looks == OTHER_KIND for each in places):
            continue
        if x > room.left and x + 26 + CODE_GLYPH_WIDTH * len(words) > room.page:
            x, line = float(room.left), line + 1
        places.append((words if looks != OTHER_KIND else "other", looks, x, line))
        x += 16 + CODE_GLYPH_WIDTH * len(words) + 10
    return places, (x, line)


OTHER_KIND: Final = "other"  # the class of bars of kinds that have no color of their own


def _colors_of(table: Table) -> dict[str, str]:
    """The color of each kind of measured bars, those that take most time first; the others share one."""
    at = span_column(table)
    if at is None:
        return {}
    lengths: dict[str, int] = {}
    for number, row in enumerate(table.rows):
        name = _kind_of(table, number)
        lengths[name] = lengths.get(name, 0) + _length(row[at])
    ranked = sorted(lengths, key=lambda name: (-lengths[name], name))
    return {name: f"b{rank}" if rank < MAX_COLORS else OTHER_KIND for rank, name in enumerate(ranked)}


def _kind_of(table: Table, row: int) -> str:
    """By what a measured bar is colored: its category; without one, its name without the number at its end."""
    at = next((at for at, column in enumerate(table.columns) if column.name == "category"), None)
    category = None if at is None else table.rows[row][at]
    return category if isinstance(category, str) else _row_label(table, row).rstrip("0123456789.")


def _lanes(table: Table, rows: Sequence[int], at: int, frame: Frame) -> tuple[list[str], float]:
    """The bars of each operation in as few lanes as keep them apart, and the lower edge."""
    cells = [table.rows[row] for row in rows]
    groups = lanes_of(cells, at, _group_column(table))
    least, most = LANE_HEIGHTS
    count = sum(len(lanes) for lanes in groups.values())
    high = min(max(LANES_HEIGHT // max(count, 1), least), most)
    elements = []
    y = frame.top
    colors = _colors_of(table) if table.columns[at].is_measured else {}
    for name, lanes in groups.items():
        if name:
            bars = sum(map(len, lanes))
            busy = sum(_length(cells[n][at]) for n in lanes[0]) / frame.columns
            words = f"{name} · {bars:,}" + (f" · {format_percent(busy)}% busy" if _has_lanes(table) else "")
            elements.append(f'<text class="quiet" x="{frame.room.left}" y="{short(y + 12)}">{safe(words)}</text>')
            y += LANE_NAME_HEIGHT
        for lane in lanes:
            for row in (rows[n] for n in lane):
                elements.append(f"<g{_named(table, row, [at])}")
                color = colors[_kind_of(table, row)] if colors else "b0"
                elements += [*_rects(table, row, at, y, high - 1, frame, color), "</g>"]
            y += high
        y += 4
    return elements, y


def _length(cell: Cell) -> int:
    """The number of steps or parts of a span."""
    stretch = stretch_of(cell)
    return 0 if stretch is None else stretch.end + 1 - stretch.start


def _group_column(table: Table) -> int | None:
    lanes = (at for at, column in enumerate(table.columns) if column.is_lane)
    return next(lanes, next((at for at, column in enumerate(table.columns) if column.unit == "opcode"), None))


def _bar(table: Table, row: int, at: int, y: float, frame: Frame) -> Iterator[str]:
    """The bar of a row, with its name."""
    yield f"<g{_named(table, row, table.visible(person=True))}"
    rects = list(_rects(table, row, at, y + 4, 11, frame))
    yield from rects
    stretch = stretch_of(table.rows[row][at])
    left = right = frame.x(0)
    if stretch and rects:
        left = frame.x(stretch.start)
        right = max(min(frame.x(stretch.end + 1), frame.x(frame.columns)), left + MIN_BAR_WIDTH)
    yield f"{_name(_row_label(table, row), left, right, y + 13, frame.room)}</g>"


def _named(table: Table, row: int, described: Sequence[int]) -> str:
    """The attribute that links a bar to its row, and its title: the name, and the cells of the given columns."""
    cells = table.rows[row]
    label = _label_column(table)
    facts = [
        f"{column.title or column.name} {in_words(column, cell)}"
        for each in described
        for column, cell in [(table.columns[each], cells[each])]
        if each != label and cell is not None
    ]
    name = _row_label(table, row)
    at = span_column(table)
    stretch = None if at is None else stretch_of(cells[at])
    place = f' data-t="{stretch.start} {stretch.end} {stretch.exposed_from}"' if stretch is not None else ""
    return f' data-v="{safe(name)}"{place}><title>{safe_lines([name, *facts])}</title>'


def _label_column(table: Table) -> int | None:
    visible = table.visible(person=True)
    return next((each for each in visible if table.columns[each].unit == "name"), table.label_index(visible))


def _row_label(table: Table, row: int) -> str:
    label = _label_column(table)
    return "" if label is None else in_words(table.columns[label], table.rows[row][label])


def _rects(table: Table, row: int, at: int, y: float, high: float, frame: Frame, color: str = "b0") -> Iterator[str]:
    """The overlapped part of a bar, and the exposed part."""
    stretch = stretch_of(table.rows[row][at])
    if stretch is None or stretch.start >= frame.columns:
        return
    left = frame.x(stretch.start)
    right = max(min(frame.x(stretch.end + 1), frame.x(frame.columns)), left + MIN_BAR_WIDTH)
    # a bar that is drawn wider than it is keeps the color of what it is
    exposed_x = right if stretch.exposed_from > stretch.end else max(frame.x(stretch.exposed_from), left)
    exposed_x = min(exposed_x, right)
    for looks, begin, end in ((color, left, exposed_x), ("exposed", exposed_x, right)):
        if begin < end:
            size = f'x="{short(begin)}" y="{short(y)}" width="{short(end - begin)}" height="{short(high)}"'
            yield f'<rect class="{looks}" {size}/>'


def _name(name: str, left: float, right: float, y: float, room: Room) -> str:
    """The name after the bar, before it, or on it, depending on the room."""
    after, before = room.page - 4 - right - 6, left - 6
    length = min(MAX_BAR_NAME, int(max(after, before, right - left - 8) / CODE_GLYPH_WIDTH))
    name = shortened(name, length)
    wide = len(name) * CODE_GLYPH_WIDTH
    looks, x = "code on", left + 4
    if after >= wide:
        looks, x = "code", right + 6
    elif before >= wide:
        looks, x = "code end", left - 6
    return f'<text class="{looks}" x="{short(x)}" y="{short(y)}">{safe(name)}</text>'
