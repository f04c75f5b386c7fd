"""Displays of a value by media type, as notebooks ask for them, and what rich prints."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from hlo_cli.displayed import Tabular
from hlo_cli.notebook.values import report_of
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import HloError

WIDTH: Final = 100
"""Cells of a line of text; notebooks and most terminals show as many."""
ROWS: Final = 10
"""Rows of a table; the rest is counted and summed."""
_COMMAND_HINT: Final = "; use --top 0 to show all"
_RECORDS_HINT: Final = "; to_records() has all"
MAX_PICTURE: Final = 60_000
"""Characters of a picture; a larger one is left out, because the page has it too."""
MAX_BUNDLE: Final = 200_000
"""Characters of all displays; beyond it, the picture is left out."""
MAX_SPANS: Final = 500
"""Rows of a schedule that is drawn."""


def bundle(value: object, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, str]:
    """The displays of a value by media type: text, HTML, and a picture if there is something to draw.

    `include` and `exclude` select media types. A value without a report is shown as its text.

    >>> from hlo_cli import parse_shape
    >>> sorted(bundle(parse_shape("f32[3,5]{1,0:T(2,2)}"), None, None))
    ['image/svg+xml', 'text/html', 'text/plain']
    """
    wanted = [name for name in _DISPLAYS if (include is None or name in include) and name not in (exclude or ())]
    if not wanted:
        return {}
    try:
        report = _read_once(report_of(value))
    except HloError:
        return {"text/plain": str(value)} if "text/plain" in wanted else {}
    hint = _RECORDS_HINT if isinstance(value, Tabular) else ""
    shown = {name: _DISPLAYS[name](report).replace(_COMMAND_HINT, hint) for name in wanted}
    if sum(map(len, shown.values())) > MAX_BUNDLE:
        shown.pop("image/svg+xml", None)
    return {name: text for name, text in shown.items() if text}


def renderable(value: object) -> object:
    """What rich prints: the screen of the report, as wide as the console."""
    from hlo_cli.render.renderable import Screen

    try:
        return Screen(report_of(value))
    except HloError:
        from hlo_cli.render.sanitize import sanitize

        return sanitize(str(value)).replace("[", r"\[")


def _read_once(report: Report) -> Report:
    """A report of what people see, whose charts do not make their buffers again for each display."""
    parts = (
        replace(part, tracks=tuple(replace(track, bands=tuple(track.bands)) for track in part.tracks))
        if part.kind == "timeline"
        else part
        for part in report.seen_parts
    )
    return replace(report, parts=tuple(parts))


def _text(report: Report) -> str:
    from hlo_cli.render.formats.screen import render
    from hlo_cli.render.style import Style

    return "".join(render(report, Style(width=WIDTH))).rstrip("\n")


def _html(report: Report) -> str:
    from hlo_cli.render.web.fragment import fragment

    parts = tuple(_first_rows(part) if part.kind == "table" else part for part in report.parts)
    return fragment(replace(report, parts=parts), top=ROWS)


def _first_rows(table: Table) -> Table:
    """A table with the rows that are shown, and the totals of all; the charts of a schedule have every row."""
    if len(table.rows) <= ROWS + 1 or _has_spans(table):
        return table
    total = table.total_row or (table.total_of(table.rows) if table.has_totals else None)
    footnote = " ".join(text for text in (format_shown(ROWS, len(table.rows), table.noun), table.footnote) if text)
    return replace(table, rows=tuple(table.rows[:ROWS]), total_row=total, footnote=footnote)


def _has_spans(table: Table) -> bool:
    return any(column.unit == "span" for column in table.columns)


def _picture(report: Report) -> str:
    """The drawings as SVG; empty if there is nothing to draw, or too much."""
    from hlo_cli.render.formats.svg import render
    from hlo_cli.render.style import Style

    if any(part.kind == "table" and _has_spans(part) and len(part.rows) > MAX_SPANS for part in report.parts):
        return ""
    try:
        picture = "".join(render(report, Style()))
    except HloError:
        return ""
    return picture if len(picture) <= MAX_PICTURE else ""


_DISPLAYS: Final[dict[str, Callable[[Report], str]]] = {
    "text/plain": _text,
    "text/html": _html,
    "image/svg+xml": _picture,
}
