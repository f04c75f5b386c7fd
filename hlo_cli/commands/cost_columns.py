"""What instructions cost, as columns of tables that have a row for each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.cost import costs_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.column import Column
from hlo_cli.report.table import Table

_COLUMNS: Final = (
    Column("flops", "flops", "count", total="sum"),
    Column("transcendentals", "transc.", "count", total="sum"),
    Column("bytes", "moved", "bytes", total="sum"),
    Column("intensity", "flop/B", "count"),
)


def with_costs(table: Table, instructions: Iterable[Instruction], module: Module, asked: Iterable[str]) -> Table:
    """The table with the costs of the instructions of its rows, if any of these columns is among those asked for.

    They take a cost analysis, which nobody should wait for who does not want it. A call costs all that it calls, so
    what stands in several computations is not summed, nor what stands there twice.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[4] add(f32[4] a, f32[4] b)")
    >>> table = Table("instructions", (Column("name", "name"),), (("r",),))
    >>> with_costs(table, [module.entry.root], module, ("name", "bytes")).rows
    (('r', 4, 0, 48, 0.08333333333333333),)
    """
    if {column.name for column in _COLUMNS}.isdisjoint(asked):
        return table
    listed, costs = tuple(instructions), costs_of(module)
    is_summed = len({each.computation for each in listed}) == 1 and len(set(listed)) == len(listed)
    columns = _COLUMNS if is_summed else (replace(column, total=None) for column in _COLUMNS)
    found = (costs[instruction] for instruction in listed)
    cells = ((round(c.flops), round(c.transcendentals), round(c.bytes_accessed), c.intensity) for c in found)
    rows = tuple((*row, *more) for row, more in zip(table.rows, cells, strict=True))
    return replace(table, columns=(*table.columns, *columns), rows=rows)
