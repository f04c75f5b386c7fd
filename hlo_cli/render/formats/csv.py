"""The main table as CSV: a header with the names of the columns, then raw values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import chain

from hlo_cli.render.machine import columns_of, field_of, rows_of, spreadsheet_field
from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.style import Style
from hlo_cli.report.report import Report


def render(report: Report, style: Style) -> Iterator[str]:
    r"""One record for each row; an empty field does not apply, `?` is unknown. Control characters are escaped.

    >>> from hlo_cli.report.column import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("shapes", (Column("shape", "shape", "shape"), Column("count", "n", "count")), (("f32[3,5]", 2),))
    >>> list(render(Report("layout", "no padding", parts=(table,)), Style()))
    ['shape,count\n', '"f32[3,5]",2\n']
    """
    table = report.main_table
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    header = [column.name for column in columns_of(table)]
    field = spreadsheet_field if style.spreadsheet else field_of
    for record in chain((header,) if style.header else (), rows_of(table, style)):
        writer.writerow([sanitize(field(cell)) for cell in record])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
