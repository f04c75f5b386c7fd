"""Spans as text: a column of bars, each over its steps, as wide as the screen allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hlo_cli.render.bins import Axis
from hlo_cli.render.draw.cells import Entry
from hlo_cli.render.draw.column_widths import Lane
from hlo_cli.render.style import Style
from hlo_cli.report.cell import Cell
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_seconds

FLYING: Final = "━"
WAITING: Final = "│"


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

    >>> from hlo_cli.report.column import Column
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
        header=(*lane.header[:-1], style.show(_header(lane.header[-1], axis, lane.column.seconds))),
        entries=(*drawn, *lane.entries[len(drawn) :]),
        natural=width,
    )


def _bar(stretch: Stretch | None, axis: Axis, column: Column, style: Style) -> Entry:
    if stretch is None or stretch.start >= axis.steps:
        return Entry("")
    start, end = axis.cell(stretch.start), axis.cell(min(stretch.end, axis.steps - 1))
    bar = _glyphs(stretch, axis, end - start + 1) if stretch.is_overlapped or column.seconds else WAITING
    return Entry(" " * start + style.show_figure(bar), "plain" if stretch.is_overlapped else "waste")


def _glyphs(stretch: Stretch, axis: Axis, cells: int) -> str:
    """The overlapped part and the exposed part of a bar, each at least one cell wide."""
    if stretch.exposed_from <= stretch.start:
        return WAITING * cells
    if stretch.exposed_from > stretch.end or cells < 2:
        return FLYING * cells
    flying = min(max(axis.cell(stretch.exposed_from) - axis.cell(stretch.start), 1), cells - 1)
    return FLYING * flying + WAITING * (cells - flying)


def _header(title: str, axis: Axis, seconds: float) -> str:
    last = format_seconds(seconds) if seconds else f"{axis.steps - 1:,}"
    room = axis.columns - len(last) - 1
    return f"0{title:^{room}}{last}" if room >= len(title) + 2 else title
