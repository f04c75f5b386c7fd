"""Tables of values as records: a dict for each row, with plain values, as data frames take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hlo_cli.notebook.values import data_report_of
from hlo_cli.render.machine import columns_of, field_of
from hlo_cli.report.cell import Cell, is_missing
from hlo_cli.report.table import Table

if TYPE_CHECKING:
    from hlo_cli.displayed import Record


def records(value: object, table: str | None) -> list[Record]:
    """The rows of the main table of a value, or of the one with that name, as records.

    >>> from hlo_cli import parse_shape
    >>> records(parse_shape("(f32[8], s8[2])"), None)[1]["padded_bytes"]
    2
    """
    report = data_report_of(value)
    chosen = report.main_table if table is None else report.only(table, as_rows=True).main_table
    return records_of(chosen)


def records_of(table: Table) -> list[Record]:
    """The rows of a table; keys are the columns for programs.

    >>> from hlo_cli.report.cell import UNKNOWN
    >>> from hlo_cli.report.column import Column
    >>> records_of(Table("a", (Column("bytes", "", "bytes"), Column("at", "", "index")), ((UNKNOWN, (0, 5)),)))
    [{'bytes': None, 'at': '0,5'}]
    """
    columns = columns_of(table)
    places = [table.columns.index(column) for column in columns]
    names = [column.name for column in columns]
    return [dict(zip(names, (plain(row[at]) for at in places), strict=True)) for row in table.rows]


def plain(cell: Cell) -> bool | int | float | str | None:
    """A cell as a plain value: None if it is missing or unknown, the text of csv for an index or a record.

    >>> from hlo_cli.report.cell import UNKNOWN
    >>> [plain(cell) for cell in (3, 0.5, "a", True, None, UNKNOWN, (1, 2), float("nan"))]
    [3, 0.5, 'a', True, None, None, '1,2', None]
    """
    if is_missing(cell):
        return None
    return field_of(cell) if isinstance(cell, tuple | Mapping) else _value(cell)


def _value(cell: Cell) -> bool | int | float | str | None:
    return cell if isinstance(cell, bool | int | float | str) else None
