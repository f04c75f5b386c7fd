"""A report for pipes: the main table with tabs between the fields, one record per line, nothing shortened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hlo_cli.render.machine import columns_of, field_of, rows_of
from hlo_cli.render.style import Style, sanitize
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import line_of, plain_text

if TYPE_CHECKING:
    from hlo_cli.report.diff import Diff
    from hlo_cli.report.figure import Figure


FIGURE_ROOM = 80  # a file or a pipe has no width: the usual one, so that outputs can be compared


def render_table(report: Report, style: Style) -> Iterator[str]:
    r"""The main table: a header that begins with `#`, then raw values. `-` does not apply, `?` is unknown.

    Every other line is a record of that table, so that `cut`, `sort`, and `awk` need not skip foreign lines. Without a
    table, figures are drawn, a diff is written in unified format, and a report of only prose gives its answer, and the
    prose if that was requested.

    >>> from hlo_cli.report.table import Column
    >>> table = Table("values", (Column("value", "value", "name"), Column("count", "n", "count")), (("add.1", None),))
    >>> list(render_table(Report("layout", "no padding", parts=(table,)), Style()))
    ['#value\tcount\n', 'add.1\t-\n']
    >>> list(render_table(Report("diff", "No difference in 98 instructions"), Style()))
    ['No difference in 98 instructions\n']
    """
    diffs = [part for part in report.parts if part.kind == "diff"]
    if len(diffs) < len(report.parts_with_rows):
        yield from _records(report.main_table, style)
        return
    if any(part.kind == "passage" and part.is_answer for part in report.parts):
        yield from _page(report, style)
        return
    written = [line for diff in diffs for line in _changed(diff, style)]
    drawn = [line for part in report.parts if part.kind == "figure" for line in _drawn(part, style)]
    answer = [sanitize(report.answer)] if report.answer else []
    yield from (line + "\n" for line in written or drawn or answer)


def _page(report: Report, style: Style) -> Iterator[str]:
    """The answer, then prose and drawings in their order, separated by blank lines."""
    yield sanitize(report.answer) + "\n"
    for part in report.parts:
        if part.kind == "passage":
            yield from ("\n" + sanitize(plain_text(line_of(text))) + "\n" for text in part.paragraphs)
        elif part.kind == "figure":
            yield from ("\n", *(line + "\n" for line in _drawn(part, style)))


def _changed(diff: Diff, style: Style) -> Iterator[str]:
    from hlo_cli.render.draw.diffs import unified_lines

    return unified_lines(diff.first(style.top or diff.changes))


def _drawn(figure: Figure, style: Style) -> Iterator[str]:
    return (style.show_figure(plain_text(line)).rstrip() for line in figure.draw(FIGURE_ROOM))


def _records(table: Table, style: Style) -> Iterator[str]:
    if style.header:
        yield "#" + "\t".join(column.name for column in columns_of(table)) + "\n"
    for row in rows_of(table, style):
        yield "\t".join(sanitize(field_of(cell, "-")) for cell in row) + "\n"
