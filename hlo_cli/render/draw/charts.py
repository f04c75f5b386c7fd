"""How does text show what happens over the steps of a schedule: spans as bars, loops, and live bytes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from hlo_cli.render.draw.cells import Entry, Lane
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, shorten_name, shorten_text
from hlo_cli.report import numbers
from hlo_cli.report.numbers import format_count, format_seconds
from hlo_cli.report.table import UNKNOWN, Cell, Column, Loop
from hlo_cli.report.text import Line, Role, Run
from hlo_cli.report.timeline import Mark, Timeline, Track

# --- scales ---
# Steps to columns, each showing its maximum, and bytes to rows.


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


# --- one line of a screen ---
# A strip: one line of a screen with texts at given cells.


class Strip:
    """An empty line of `room` cells.

    >>> strip = Strip(12)
    >>> strip.put(3, "▼ peak", "alarm"), strip.put(5, "at"), strip.line()
    (True, False, (Run(text='   ', role='plain'), Run(text='▼ peak', role='alarm')))
    """

    def __init__(self, room: int) -> None:
        """`room` is the width of the screen."""
        self._cells: list[tuple[str, Role] | None] = [None] * room

    def is_free(self, start: int, end: int) -> bool:
        """Whether the cells from `start` to before `end` are on the screen and empty."""
        return start >= 0 and end <= len(self._cells) and not any(self._cells[start:end])

    def put(self, at: int, text: str, role: Role = "plain") -> bool:
        """Puts a text at cell `at` if there is room; returns whether there was."""
        wide = cell_width(text)
        if not self.is_free(at, at + wide):
            return False
        if text:
            self._cells[at : at + wide] = [(text, role), *[("", role)] * (wide - 1)]
        return True

    def line(self) -> Line:
        """The line up to its last text."""
        runs: list[Run] = []
        blanks = 0
        for cell in self._cells:
            if cell is None:
                blanks += 1
            elif cell[0]:
                runs += [Run(" " * blanks)] if blanks else []
                runs.append(Run(*cell))
                blanks = 0
        return tuple(runs)


# --- spans as bars ---
# A column of bars, each over its steps, as wide as the screen allows.


IN_FLIGHT_GLYPH: Final = "━"
EXPOSED_GLYPH: Final = "│"


class Stretch(NamedTuple):
    """Steps `start` to `end`, inclusive, whether compute overlaps them, and the first step without overlap."""

    start: int
    end: int
    is_overlapped: bool
    exposed_from: int


def stretch_of(cell: Cell) -> Stretch | None:
    """The steps in a cell of a column of spans, if it has any.

    >>> stretch_of((6, 7, False)), stretch_of(None)
    (Stretch(start=6, end=7, is_overlapped=False, exposed_from=6), None)
    >>> stretch_of((6, 9, True)).exposed_from, stretch_of((6, 9, True, 8)).exposed_from
    (10, 8)
    """
    match cell:
        case (int(start), int(end), bool(is_overlapped)) if 0 <= start <= end:
            return Stretch(start, end, is_overlapped, end + 1 if is_overlapped else start)
        case (int(start), int(end), bool(is_overlapped), int(exposed_from)) if 0 <= start <= exposed_from <= end + 1:
            return Stretch(start, end, is_overlapped, exposed_from)
        case _:
            return None


def span_lane(lane: Lane, cells: Sequence[Cell], width: int, style: Style) -> Lane:
    """The lane drawn at the given width: the first and the last step as header, and a bar for each row.

    >>> from hlo_cli.report.table import Column
    >>> column = Column("span", "step", "span", steps=285)
    >>> lane = Lane(column, ("step",), (Entry("65–68"), Entry("198–249")), 285)
    >>> drawn = span_lane(lane, ((65, 65, False), (198, 249, True)), 25, Style())
    >>> for text in (*drawn.header, *(entry.text for entry in drawn.entries)): print(text)
    0        step         284
         │
                     ━━━━━
    """
    steps = lane.column.steps
    axis = Axis(0, min(width, steps), steps)
    drawn = [_bar(stretch_of(cell), axis, lane.column, style) for cell in cells]
    return lane._replace(
        header=(*lane.header[:-1], style.show(_bars_header(lane.header[-1], axis, lane.column.seconds))),
        entries=(*drawn, *lane.entries[len(drawn) :]),
        natural=width,
    )


def _bar(stretch: Stretch | None, axis: Axis, column: Column, style: Style) -> Entry:
    if stretch is None or stretch.start >= axis.steps:
        return Entry("")
    start, end = axis.cell(stretch.start), axis.cell(min(stretch.end, axis.steps - 1))
    bar = _glyphs(stretch, axis, end - start + 1) if stretch.is_overlapped or column.seconds else EXPOSED_GLYPH
    return Entry(" " * start + style.show_figure(bar), "plain" if stretch.is_overlapped else "waste")


def _glyphs(stretch: Stretch, axis: Axis, cells: int) -> str:
    """The overlapped part and the exposed part of a bar, each at least one cell wide."""
    if stretch.exposed_from <= stretch.start:
        return EXPOSED_GLYPH * cells
    if stretch.exposed_from > stretch.end or cells < 2:
        return IN_FLIGHT_GLYPH * cells
    flying = min(max(axis.cell(stretch.exposed_from) - axis.cell(stretch.start), 1), cells - 1)
    return IN_FLIGHT_GLYPH * flying + EXPOSED_GLYPH * (cells - flying)


def _bars_header(title: str, axis: Axis, seconds: float) -> str:
    last = format_seconds(seconds) if seconds else f"{axis.steps - 1:,}"
    room = axis.columns - len(last) - 1
    return f"0{title:^{room}}{last}" if room >= len(title) + 2 else title


# --- loops as brackets ---
# Below the axis of a timeline, inner loops below outer ones.


MAX_LINES: Final = 4  # loops are seldom nested deeper, and the chart above them matters more
MIN_NAME_WIDTH: Final = 6  # cut to fewer characters, names of loops look alike


def _loop_lines(loops: Sequence[Loop], axis: Axis, style: Style) -> Iterator[Line]:
    """A line for each depth, and the number of loops not shown; if loops compete for cells, the longest is shown."""
    omitted = 0
    for depth, level in enumerate(loop_levels(loops, axis.steps)):
        if depth >= MAX_LINES:
            omitted += len(level)
            continue
        strip = Strip(style.room)
        drawn = [
            loop for loop in sorted(level, key=lambda loop: loop.start - loop.end) if _bracket(strip, loop, axis, style)
        ]
        for loop in drawn:
            _put_name_after(strip, loop, axis, style)
        omitted += len(level) - len(drawn)
        yield strip.line()
    if omitted:
        strip = Strip(style.room)
        strip.put(axis.margin, f"{format_count(omitted, 'more loops')}", "quiet")
        yield strip.line()


def loop_levels(loops: Sequence[Loop], steps: int) -> list[list[Loop]]:
    """The loops by depth, outermost first, cut to the range of steps.

    >>> [[loop.name for loop in level] for level in loop_levels((Loop("in", 2, 3), Loop("out", 1, 8)), 9)]
    [['out'], ['in']]
    """
    inside = [
        Loop(loop.name, max(loop.start, 0), min(loop.end, steps - 1), loop.trips)
        for loop in loops
        if loop.start <= min(loop.end, steps - 1) and loop.end >= 0
    ]
    levels: list[list[Loop]] = []
    open_ends: list[int] = []
    for loop in sorted(inside, key=lambda loop: (loop.start, -loop.end)):
        while open_ends and open_ends[-1] < loop.start:
            open_ends.pop()
        levels += [[]] if len(open_ends) == len(levels) else []
        levels[len(open_ends)].append(loop)
        open_ends.append(loop.end)
    return levels


def trips_text(loop: Loop) -> str:
    """The trip count of a loop, as written after its name.

    >>> trips_text(Loop("while.10", 0, 1, 32)), trips_text(Loop("while.8", 0, 1, UNKNOWN)), trips_text(Loop("f", 0, 1))
    (' × 32', ' × ?', '')
    """
    if loop.trips is None:
        return ""
    return " × ?" if loop.trips is UNKNOWN else f" × {loop.trips:,}"


def _bracket(strip: Strip, loop: Loop, axis: Axis, style: Style) -> bool:
    start, end = axis.cell(loop.start), axis.cell(loop.end)
    if not strip.is_free(start, end + 1):
        return False
    wide = end - start + 1
    if wide == 1:
        return strip.put(start, style.show_figure("│"), "quiet")
    name, trips = _label(loop, wide - 4, style)
    blanks = wide - 2 - (cell_width(name + trips) + 2 if name else 0)
    left = blanks // 2
    begin = style.show_figure("└" + "─" * left) + (" " if name else "")
    finish = (" " if name else "") + style.show_figure("─" * (blanks - left) + "┘")
    strip.put(start, begin, "quiet")
    strip.put(start + len(begin), name, "name")
    strip.put(start + len(begin) + cell_width(name), trips + finish, "quiet")
    return True


def _put_name_after(strip: Strip, loop: Loop, axis: Axis, style: Style) -> None:
    """Puts the name to the right of a bracket that is too narrow for it, if there is room before the next."""
    start, end = axis.cell(loop.start), axis.cell(loop.end)
    name, trips = _label(loop, end - start - 3, style)
    if name:
        return
    name, trips = style.show(loop.name), style.show(trips_text(loop))
    at = end + 2
    if strip.is_free(at - 1, at + cell_width(name + trips) + 1):
        strip.put(at, name, "name")
        strip.put(at + cell_width(name), trips, "quiet")


def _label(loop: Loop, room: int, style: Style) -> tuple[str, str]:
    """The name and trips in `room` cells, the name shortened if needed; empty if too little of it would be left."""
    name, trips = style.show(loop.name), style.show(trips_text(loop))
    left = room - cell_width(trips)
    if cell_width(name) > left:
        name = shorten_name(name, left, style.dots) if left >= MIN_NAME_WIDTH else ""
    return (name, trips) if name else ("", "")


# --- timelines ---
# A chart of the live bytes of each track, and the loops below the axis.


CHART_ROWS: Final = 5  # with eighths of a cell 40 heights, in a chart that leaves the screen to the tables
EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
BETWEEN_TICKS: Final = 10  # the numbers of steps below the axis do not touch
LIMIT_LABEL: Final = " limit"
PEAK_LABEL: Final = "peak"


def lines_of_timeline(timeline: Timeline, style: Style) -> Iterator[Line]:
    """The charts of all tracks from top to bottom, and the loops below the last.

    >>> from hlo_cli.report.text import plain_text
    >>> from hlo_cli.report.table import Loop
    >>> totals = (0, 64, 64, 320, 448, 640, 96, 96, 96, 96, 96, 96, 32)
    >>> timeline = Timeline("memory", (Track("VMEM", totals),), (Loop("while", 0, 12, 4),))
    >>> for line in lines_of_timeline(timeline, Style()): print(plain_text(line))
      B       ▼ peak
    640 ┤     █
    512 ┤    ▄█
    384 ┤   ▄██
    256 ┤   ███
    128 ┤ ▄▄███▆▆▆▆▆▆▂
        └┬─────────┬──
         0        10 of 13
         └ while × 4 ┘
    """
    if timeline.title:
        yield from text_lines(timeline.title, style)
    tracks = [track for track in timeline.tracks if track.totals]
    scales = list(map(scale_of, tracks))
    axis = _axis_of(scales, timeline.steps, style)
    for at, (track, scale) in enumerate(zip(tracks, scales, strict=True)):
        yield from [()] if at else []
        yield from text_lines(track.name, style) if len(tracks) > 1 else ()
        yield from _chart(track, scale, axis, style)
    if tracks:
        yield from _loop_lines(timeline.loops, axis, style)


def _axis_of(scales: Sequence[Scale], steps: int, style: Style) -> Axis:
    """One axis for all tracks, so that their steps are aligned."""
    texts = [text for scale in scales for unit, labels in [_labels(scale.top)] for text in (unit, *labels)]
    margin = max(map(len, texts), default=0) + 2
    room = style.room - margin - (len(LIMIT_LABEL) if any(scale.limit for scale in scales) else 0)
    return Axis(margin, min(steps, max(room, 1)), steps)


def _chart(track: Track, scale: Scale, axis: Axis, style: Style) -> Iterator[Line]:
    unit, labels = _labels(scale.top)
    yield from _unit_and_marks(track, scale, unit.rjust(axis.margin - 2), axis, style)
    values = [track.totals[step] for step in highest_steps(track.totals, axis.columns)]
    for row in reversed(range(len(labels))):
        tick = Run(style.show_figure(f"{labels[row].rjust(axis.margin - 2)} ┤"), "quiet")
        yield (tick, *_row(row, values, scale, track.limit_bytes, style))
    yield from _axis(axis, style)


def _labels(top: int) -> tuple[str, list[str]]:
    """The unit of the axis and the label of each row, from the bottom: the bytes at its upper edge."""
    if not top:
        return numbers.BYTE_UNITS[0], ["0"]
    unit = numbers.axis_unit(top)
    divisor = 1024**unit
    decimals = 1 if unit and top % (CHART_ROWS * divisor) else 0
    return numbers.BYTE_UNITS[unit], [
        numbers.format_scaled(top * row, CHART_ROWS * divisor, decimals) for row in range(1, CHART_ROWS + 1)
    ]


def _unit_and_marks(track: Track, scale: Scale, unit: str, axis: Axis, style: Style) -> Iterator[Line]:
    """The unit and the marks; marks without room in a line are one line higher."""
    strips = [Strip(style.room)]
    strips[0].put(0, unit, "quiet")
    marks: list[tuple[Mark, Role]] = [(mark, "strong") for mark in track.marks if 0 <= mark.step < axis.steps]
    for mark, role in [(Mark(scale.step, PEAK_LABEL), "alarm"), *marks] if scale.step is not None else marks:
        if not any(_point(strip, mark, role, axis, style) for strip in strips):
            strips.append(Strip(style.room))
            _point(strips[-1], mark, role, axis, style)
    yield from (strip.line() for strip in reversed(strips))


def _point(strip: Strip, mark: Mark, role: Role, axis: Axis, style: Style) -> bool:
    cell = axis.cell(mark.step)
    label = shorten_text(style.show(mark.label), style.room // 2 - 2, style.dots)
    glyph = style.show_figure("▼")
    before = cell - cell_width(label) - 1
    return strip.put(cell, f"{glyph} {label}", role) or strip.put(before, f"{label} {glyph}", role)


def _row(row: int, values: Sequence[int], scale: Scale, limit: int | None, style: Style) -> Iterator[Run]:
    """The cells of one row, counted from the bottom, and the line of the limit in empty cells."""
    is_limit = scale.limit is not None and -(-scale.limit * CHART_ROWS // scale.top) - 1 == row

    def cell(value: int) -> tuple[str, Role]:
        glyph = style.show_figure(EIGHTHS[min(8, max(0, _eighths(value, scale.top) - 8 * row))])
        if glyph == " " and is_limit:
            return style.show_figure("─"), "alarm"
        is_over = limit is not None and value > limit
        return glyph, "alarm" if value == scale.peak or is_over else "plain"

    cells = [cell(value) for value in values]
    while cells and cells[-1][0] == " ":
        cells.pop()
    for role, run in groupby(cells, key=lambda each: each[1]):
        yield Run("".join(glyph for glyph, _ in run), role)
    yield from [Run(LIMIT_LABEL, "alarm")] if is_limit else []


def _eighths(value: int, top: int) -> int:
    """The height of a column in eighths of a row; at least 1 for a nonzero value."""
    if value <= 0:
        return 0
    return max(1, (2 * value * CHART_ROWS * 8 + top) // (2 * top))


def _axis(axis: Axis, style: Style) -> Iterator[Line]:
    """The axis with its ticks, and below it the step numbers, each ending under its tick."""
    interval = tick_interval(axis.steps, axis.columns, max(BETWEEN_TICKS, len(f"{axis.steps:,}") + 2))
    ticks = range(0, axis.steps, interval)
    marked = {axis.cell(tick) for tick in ticks}
    rule = "".join("┬" if axis.margin + column in marked else "─" for column in range(axis.columns))
    yield (Run(style.show_figure(f"{' ' * (axis.margin - 1)}└{rule}"), "quiet"),)
    suffix = f" of {axis.steps:,}"
    labeled = [tick for tick in ticks if axis.cell(tick) + 1 + len(suffix) <= style.room] or [0]
    strip = Strip(style.room)
    for tick in labeled:
        label = f"{tick:,}"
        strip.put(axis.cell(tick) + 1 - len(label), label + suffix * (tick == labeled[-1]), "quiet")
    yield strip.line()
