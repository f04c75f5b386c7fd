"""The rows of the main table as JSON, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hlo_cli.render.machine import columns_of, json_value, rows_of
from hlo_cli.render.style import Style
from hlo_cli.report.report import Report


def render(report: Report, style: Style) -> Iterator[str]:
    r"""One object for each row; its keys are the names of the columns.

    >>> from hlo_cli.report.column import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("shapes", (Column("shape", "shape", "shape"), Column("count", "n", "count")), (("f32[3]", 2),))
    >>> list(render(Report("layout", "no padding", parts=(table,)), Style()))
    ['{"shape": "f32[3]", "count": 2}\n']
    """
    table = report.main_table
    names = [column.name for column in columns_of(table)]
    for row in rows_of(table, style):
        record = {name: json_value(cell) for name, cell in zip(names, row, strict=True)}
        yield json.dumps(record, allow_nan=False) + "\n"
