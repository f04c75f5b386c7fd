"""`--where EXPR`: the option, and the tests that it states of instructions, values and rows of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import click

from hlo_cli.report.cell import Cell
from hlo_cli.report.table import Table

if TYPE_CHECKING:
    from hlo_cli.analysis.values import Value
    from hlo_cli.analysis.where import FieldValue, Kind
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module

_F = TypeVar("_F", bound=Callable[..., object])
_OF_UNITS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("count", "seconds", "ratio", "step", "line", "address"), "count"),
    "bytes": "bytes",
    "percent": "share",
    "flag": "flag",
    "name": "name",
    "shape": "shape",
}
"""What the units of columns are as kinds of fields; all others are text."""


def where_option(function: _F) -> _F:
    """`--where`: given to the command as text, or None."""
    return click.option("--where", metavar="EXPR", help="Only what this is true of; see hlo help where.")(function)


def instructions_where(expression: str, module: Module) -> Callable[[Instruction], bool]:
    """Whether an expression is true of an instruction."""
    from hlo_cli.analysis.where import predicate
    from hlo_cli.analysis.where_fields import instruction_fields
    from hlo_cli.syntax.attributes import ATTRIBUTE_NAMES
    from hlo_cli.syntax.where import parse_where

    return predicate(parse_where(expression), instruction_fields(module, ATTRIBUTE_NAMES))


def values_where(expression: str, module: Module) -> Callable[[Value], bool]:
    """Whether an expression is true of a value: of its own shape, and of the instruction that makes it."""
    from hlo_cli.analysis.where import predicate
    from hlo_cli.analysis.where_fields import value_fields
    from hlo_cli.syntax.attributes import ATTRIBUTE_NAMES
    from hlo_cli.syntax.where import parse_where

    return predicate(parse_where(expression), value_fields(module, ATTRIBUTE_NAMES))


def rows_where(expression: str, table: Table) -> Table:
    """The table with only the rows that an expression about its columns is true of.

    >>> from hlo_cli.report.column import Column
    >>> table = Table("sizes", (Column("value", "", "name"), Column("bytes", "", "bytes")), (("b", 4), ("a", 4096)))
    >>> rows_where("bytes > 1KiB", table).rows
    (('a', 4096),)
    """
    from hlo_cli.analysis.where import predicate
    from hlo_cli.analysis.where_fields import row_fields
    from hlo_cli.syntax.where import parse_where

    kinds = {column.name: _OF_UNITS.get(column.unit, "text") for column in table.columns}
    at = next((at for at, column in enumerate(table.columns) if column.name == "opcode"), None)
    opcodes = () if at is None else tuple({str(row[at]) for row in table.rows})
    test = predicate(parse_where(expression), row_fields(kinds, opcodes))
    kept = [at for at, row in enumerate(table.rows) if test([_field_value(cell) for cell in row])]
    marked = frozenset(new for new, old in enumerate(kept) if old in table.marked)
    return replace(table, rows=tuple(table.rows[at] for at in kept), marked=marked)


def _field_value(cell: Cell) -> FieldValue:
    match cell:
        case bool() | int() | float() | str():
            return cell
        case tuple():
            return f"({','.join(map(str, cell))})"
        case _:
            return None
