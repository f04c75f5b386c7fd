"""Shardings of instructions, as columns of tables with a row for each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.query.where import FieldValue
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module

_COLUMNS: Final = (
    Column("replication", "copies", "count"),
    Column("shard_bytes", "per device", "bytes"),
)


def with_shardings(table: Table, instructions: Iterable[Instruction], module: Module, asked: Collection[str]) -> Table:
    """Adds the copies and the bytes per device of the instructions to a table, if `asked` names any of these columns.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=2  ENTRY e { ROOT p = f32[8] parameter(0), "
    ...     "sharding={replicated} }")
    >>> table = Table("instructions", (Column("name", "name"),), (("p",),))
    >>> with_shardings(table, [module.entry.root], module, ["replication"]).rows
    (('p', 2, 32),)
    """
    if {column.name for column in _COLUMNS}.isdisjoint(asked):
        return table
    from hlo_cli.analysis.query.fields import ShardingFacts

    readers = ShardingFacts(module).readers()
    read = [readers[column.name][1] for column in _COLUMNS]
    rows = tuple(
        (*row, *(_cell(each(instruction)) for each in read))
        for row, instruction in zip(table.rows, instructions, strict=True)
    )
    return replace(table, columns=(*table.columns, *_COLUMNS), rows=rows)


def _cell(value: FieldValue) -> Cell:
    if isinstance(value, AtLeast):
        return UNKNOWN
    return value if isinstance(value, int) else None
