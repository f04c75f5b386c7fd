"""The main table with tabs between the fields: a header with the names of the columns, then raw values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hlo_cli.render.machine import columns_of, field_of, rows_of, spreadsheet_field
from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.style import Style
from hlo_cli.report.report import Report


def render(report: Report, style: Style) -> Iterator[str]:
    r"""One record for each row, never quoted: control characters, including tabs, are escaped.

    >>> from hlo_cli.report.column import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("values", (Column("value", "value", "name"), Column("count", "n", "count")), (("add.1", None),))
    >>> list(render(Report("layout", "no padding", parts=(table,)), Style()))
    ['value\tcount\n', 'add.1\t\n']
    """
    table = report.main_table
    header = [column.name for column in columns_of(table)]
    field = spreadsheet_field if style.spreadsheet else field_of
    for record in chain((header,) if style.header else (), rows_of(table, style)):
        yield "\t".join(sanitize(field(cell)) for cell in record) + "\n"
