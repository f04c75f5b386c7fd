"""Timelines as text: a chart of the live bytes of each track, and the loops below the axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from hlo_cli.render.bins import Axis, Scale, highest_steps, scale_of, tick_interval
from hlo_cli.render.draw.loops import loop_lines
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.draw.strip import Strip
from hlo_cli.render.style import Style
from hlo_cli.render.truncate import shorten_text
from hlo_cli.render.width import cell_width
from hlo_cli.report import numbers
from hlo_cli.report.text import Line, Role, Run
from hlo_cli.report.timeline import Mark, Timeline, Track

ROWS: Final = 5
EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
BETWEEN_TICKS: Final = 10
LIMIT: Final = " limit"
PEAK: Final = "peak"


def lines(timeline: Timeline, style: Style) -> Iterator[Line]:
    """The charts of all tracks from top to bottom, and the loops below the last.

    >>> from hlo_cli.report.text import plain_text
    >>> from hlo_cli.report.loop import Loop
    >>> totals = (0, 64, 64, 320, 448, 640, 96, 96, 96, 96, 96, 96, 32)
    >>> timeline = Timeline("memory", (Track("VMEM", totals),), (Loop("while", 0, 12, 4),))
    >>> for line in lines(timeline, Style()): print(plain_text(line))
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
        yield from loop_lines(timeline.loops, axis, style)


def _axis_of(scales: Sequence[Scale], steps: int, style: Style) -> Axis:
    """One axis for all tracks, so that their steps are aligned."""
    texts = [text for scale in scales for unit, labels in [_labels(scale.top)] for text in (unit, *labels)]
    margin = max(map(len, texts), default=0) + 2
    room = style.room - margin - (len(LIMIT) if any(scale.limit for scale in scales) else 0)
    return Axis(margin, min(steps, max(room, 1)), steps)


def _chart(track: Track, scale: Scale, axis: Axis, style: Style) -> Iterator[Line]:
    unit, labels = _labels(scale.top)
    yield from _header(track, scale, unit.rjust(axis.margin - 2), axis, style)
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
    decimals = 1 if unit and top % (ROWS * divisor) else 0
    return numbers.BYTE_UNITS[unit], [
        numbers.format_scaled(top * row, ROWS * divisor, decimals) for row in range(1, ROWS + 1)
    ]


def _header(track: Track, scale: Scale, unit: str, axis: Axis, style: Style) -> Iterator[Line]:
    """The unit and the marks; marks without room in a line are one line higher."""
    strips = [Strip(style.room)]
    strips[0].put(0, unit, "quiet")
    marks: list[tuple[Mark, Role]] = [(mark, "strong") for mark in track.marks if 0 <= mark.step < axis.steps]
    for mark, role in [(Mark(scale.step, PEAK), "alarm"), *marks] if scale.step is not None else marks:
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
    is_limit = scale.limit is not None and -(-scale.limit * ROWS // scale.top) - 1 == row

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
    yield from [Run(LIMIT, "alarm")] if is_limit else []


def _eighths(value: int, top: int) -> int:
    """The height of a column in eighths of a row; at least 1 for a nonzero value."""
    if value <= 0:
        return 0
    return max(1, (2 * value * ROWS * 8 + top) // (2 * top))


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
