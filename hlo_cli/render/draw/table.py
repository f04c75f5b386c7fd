"""Tables as text: the requested number of rows, the sums of the others, and a remark on omitted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from hlo_cli.render.draw.bars import span_lane
from hlo_cli.render.draw.cells import Entry, Writing, cell_text, entries_of, writing_of
from hlo_cli.render.draw.column_widths import Lane, fit, lane_of
from hlo_cli.render.draw.grid import header_lines, row_line
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_shown, singular
from hlo_cli.report.table import Table
from hlo_cli.report.text import Line, Role

TOTAL = "total"


def lines(table: Table, style: Style) -> Iterator[Line]:
    """The lines of a table: title, header, rows, the sums of omitted rows, and the total.

    >>> from hlo_cli.report.text import plain_text
    >>> columns = (Column("bytes", "size", "bytes", total="sum"), Column("value", "value", "name"))
    >>> table = Table("sizes", columns, ((64, "a"), (32, "b"), (16, "c")), noun="values")
    >>> for line in lines(table, Style(top=1)): print(plain_text(line))
    size
       B  value
    ────  ─────────────
      64  a
      48  2 more values
     112  total
    """
    if table.title:
        yield from text_lines(table.title, style)
    rows = table.rows[: style.rows_shown(table.limit, len(table.rows), main=table.main)]
    sums = sums_of(table, len(rows))
    visible = [at for at in table.visible(person=True) if style.room >= _from(table, at)]
    lanes = [_lane(table, at, rows, sums, visible, style) for at in visible]
    label = table.label_index(visible)
    fitted = fit(lanes, style.room, sorted_by=table.sorted_by, label="" if label is None else table.columns[label].name)
    fitted = [
        (_spans(table, lane, rows, width, style) if lane.column.unit == "span" else lane, width)
        for lane, width in fitted
    ]
    yield from header_lines(fitted, style)
    for row in range(len(rows)):
        yield row_line(fitted, row, style, "strong" if row in table.marked else None)
    for at, (_, _, role) in enumerate(sums, start=len(rows)):
        yield row_line(fitted, at, style, role)


def footer(table: Table, style: Style) -> tuple[str, ...]:
    """The footer of a table: the number of shown rows, the option to show all, and its footnote.

    If the user gave the number of rows, it is shown only if there is no row of sums.
    """
    shown = style.rows_shown(table.limit, len(table.rows), main=table.main)
    counting = shown < len(table.rows) and (style.top is None or not sums_of(table, shown))
    seen = format_shown(shown, len(table.rows), table.noun)
    return (*((seen,) if counting else ()), *((table.footnote,) if table.footnote else ()))


def column_header(column: Column, writing: Writing) -> tuple[str, ...]:
    """The lines above a column: its name, and its unit below or, if `inline`, after it.

    >>> column_header(Column("padded_bytes", "padded", "bytes"), Writing("KiB", str))
    ('padded', 'KiB')
    >>> column_header(Column("pad", "pad", "percent", inline=True), Writing("%", str))
    ('pad %',)
    """
    parts = tuple(part for part in (column.title, writing.unit) if part)
    return (" ".join(parts),) if column.inline else parts or ("",)


def sums_of(table: Table, shown: int) -> list[tuple[str, Row, Role]]:
    """The rows after the first `shown`: the sums of omitted rows and the total, with their labels.

    >>> columns = (Column("bytes", "", "bytes", total="sum"), Column("value", "value", "name"))
    >>> sums_of(Table("sizes", columns, ((64, "a"), (32, "b")), noun="values"), 1)
    [('1 more value', (32, None), 'quiet'), ('total', (96, None), 'plain')]
    """
    if not table.has_totals or len(table.rows) < 2 or not shown:
        return []
    everything = table.total_row or table.total_of(table.rows)
    left = len(table.rows) - shown
    more = f"{left:,} more {singular(table.noun) if left == 1 else table.noun}"
    rest: list[tuple[str, Row, Role]] = [(more, table.total_of(table.rows[shown:]), "quiet")] if left else []
    return [*rest, (TOTAL, everything, "plain")]


def ending_of(column: Column, total: Cell, words: str, writing: Writing, style: Style) -> Entry:
    """The entry of a column in a row of sums: the label in the label column, empty if it has no sum.

    >>> column = Column("count", "n", "count", total="sum")
    >>> ending_of(column, 3412, "", writing_of(column, ()), Style()).text
    '3,412'
    """
    if words or (total is None and (column.total is None or column.unit == "span")):
        return Entry(style.show(words), fixed=True)
    return Entry(style.show(cell_text(total, writing)), fixed=True)


def _from(table: Table, at: int) -> int:
    column = table.columns[at]
    return 0 if table.selected or column.name == table.sorted_by else column.from_width


def _lane(
    table: Table, at: int, rows: Sequence[Row], sums: Sequence[tuple[str, Row, Role]], visible: list[int], style: Style
) -> Lane:
    column = table.columns[at]
    cells: list[Cell] = [row[at] for row in rows]
    totals: list[Cell] = [row[at] for _, row, _ in sums]
    alike = table.alike(at, (*rows, *(row for _, row, _ in sums)) if column.total else rows)
    writing = writing_of(column, cells, (*(totals if column.total else ()), *alike))
    is_labeled = at == table.label_index(visible)
    endings = (
        ending_of(column, cell, words if is_labeled else "", writing, style)
        for cell, (words, _, _) in zip(totals, sums, strict=True)
    )
    header = tuple(style.show(line) for line in column_header(column, writing))
    lane = lane_of(column, header, tuple(chain(entries_of(column, cells, writing, style), endings)))
    return lane._replace(natural=min(column.steps, style.room)) if column.unit == "span" else lane


def _spans(table: Table, lane: Lane, rows: Sequence[Row], width: int, style: Style) -> Lane:
    at = table.column_index(lane.column.name)
    return span_lane(lane, [row[at] for row in rows], width, style)
