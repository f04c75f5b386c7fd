"""The costs of each source line: launches, bytes, flops, time, bytes at the peak, exposed transfers, padding."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.table import Cell, Column, Row, Table, number_of

_KEY: Final = "source"
_RANKED: Final = ("measured_seconds", "seconds", "bytes", "peak_bytes")


@dataclass(frozen=True, slots=True)
class LineCosts:
    """The tables of `--by source` of fuse, memspace, schedule, and layout, and measured times if there is a profile."""

    kernels: Table
    memory: Table
    transfers: Table
    padding: Table
    measured: Table | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    """A column of one of the tables under the name that it has among all of them."""

    table: Table
    name: str
    column: Column


def lines_table(costs: LineCosts, space: str | None) -> Table:
    """One row for each source line of any of the tables; those that need most time, or access most bytes, are first.

    `space` is the memory whose peak has a column. A line without a row in a table has none of its costs: 0.
    """
    taken = _taken(costs, space)
    found = {id(each): _rows_by_line(each, space) for each in _tables(costs)}
    lines = dict.fromkeys(line for rows in found.values() for line in rows)
    rows = [(line, *(_cell(each, found[id(each.table)].get(line)) for each in taken)) for line in lines]
    columns = (Column("source", "source line", "source", role="name"), *(each.column for each in taken))
    ranked = sorted(rows, key=lambda row: _rank(columns, row))
    return Table("lines", columns, tuple(ranked), noun="lines", main=False, person=False)


def describe_lines(table: Table) -> str:
    """Which line takes most measured or estimated time, or accesses most bytes, and its share in all."""
    name = next((name for name in ("measured_seconds", "seconds", "bytes") if column_sum(table, name)), None)
    if name is None:
        return "No costs by source line."
    at = table.column_index(name)
    line = max(table.rows, key=lambda row: number_of(row[at]) or 0)
    part, whole = number_of(line[at]) or 0, column_sum(table, name)
    amount = format_bytes(part) if name == "bytes" else format_seconds(part)
    verb = {"measured_seconds": "takes", "seconds": "needs", "bytes": "accesses"}[name]
    among = f" among {format_count(len(table.rows), 'lines')}" if len(table.rows) > 1 else ""
    return f"{os.path.basename(str(line[0]))} {verb} most: {amount} ({format_percent(part / whole)}%){among}."


def _taken(costs: LineCosts, space: str | None) -> list[_Taken]:
    """The columns, of the tables that have them."""
    place = f"at {space} peak" if space else "at peak"
    measured = costs.measured or Table("by_source", (), ())
    times = Column("seconds", "est. time", "seconds", total="sum")
    wanted = (
        (measured, "measured_seconds", Column("measured_seconds", "measured", "seconds", total="sum")),
        (costs.kernels, "total_seconds", replace(times, title=_time_title(costs.kernels))),
        (costs.kernels, "unknown_times", Column("unknown_times", "unknown time", "count", total="sum")),
        (costs.kernels, "total_bytes", Column("bytes", "accessed", "bytes", total="sum")),
        (costs.kernels, "total_flops", Column("flops", "flops", "count", total="sum")),
        (costs.kernels, "kernels", Column("kernels", "kernels", "count", total="sum")),
        (costs.kernels, "launches", Column("launches", "launches", "count", total="sum")),
        (costs.memory, "bytes", Column("peak_bytes", place, "bytes", total="sum")),
        (costs.transfers, "exposed_seconds", Column("exposed_seconds", "exposed", "seconds", total="sum")),
        (costs.transfers, "exposed_bytes", Column("exposed_bytes", "exposed", "bytes", total="sum", role="waste")),
        (
            costs.transfers,
            "synchronous_bytes",
            Column("synchronous_bytes", "sync", "bytes", total="sum", role="waste"),
        ),
        (costs.padding, "padding_bytes", Column("padding_bytes", "padding", "bytes", total="sum", role="waste")),
        (costs.padding, "saving_bytes", Column("saving_bytes", "saving", "bytes", total="sum", role="saving")),
    )
    return [
        _Taken(table, name, column)
        for table, name, column in wanted
        if any(each.name == name for each in table.columns)
    ]  # fmt: skip


def _time_title(kernels: Table) -> str:
    """The title of times: `est. unfused` if those of the table are of operations that are not fused yet."""
    title = next((each.title for each in kernels.columns if each.name == "total_seconds"), "est.")
    return "est. time" if title == "est." else title


def _tables(costs: LineCosts) -> Sequence[Table]:
    found = (costs.kernels, costs.memory, costs.transfers, costs.padding)
    return found if costs.measured is None else (*found, costs.measured)


def _rows_by_line(table: Table, space: str | None) -> Mapping[str, Row]:
    """The row of each line; in a table with several memories, that of one."""
    names = [column.name for column in table.columns]
    if _KEY not in names:
        return {}
    at, spaces = names.index(_KEY), names.index("space") if "space" in names else None
    return {str(row[at]): row for row in table.rows if spaces is None or row[spaces] == space}


def _cell(taken: _Taken, row: Row | None) -> Cell:
    return 0 if row is None else row[taken.table.column_index(taken.name)]


def _rank(columns: Sequence[Column], row: Row) -> tuple[float, float, float, float, str]:
    """Most measured time first, then most estimated time, then most bytes accessed, then most bytes at the peak."""
    numbers = {column.name: number_of(cell) or 0 for column, cell in zip(columns, row, strict=True)}
    first, second, third, last = (-numbers.get(name, 0) for name in _RANKED)
    return first, second, third, last, str(row[0])


def column_sum(table: Table, name: str) -> float:
    """The sum of a column as far as it is known; 0 if the table has no such column."""
    if all(column.name != name for column in table.columns):
        return 0
    at = table.column_index(name)
    return sum(number_of(row[at]) or 0 for row in table.rows)
