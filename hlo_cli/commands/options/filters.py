"""Which rows does `--where EXPR` select? Its predicates on instructions, values, and rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from hlo_cli.commands.options.declaring import option
from hlo_cli.ir.notation import tuple_text
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import UNKNOWN, Cell, Table
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.dataflow.dependencies import Value
    from hlo_cli.analysis.query.where import FieldValue, Kind, Predicate
    from hlo_cli.commands.options.declaring import Rules
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module


_F = TypeVar("_F", bound=Callable[..., object])
_T = TypeVar("_T")
_OF_UNITS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("count", "ratio", "step", "line", "address"), "count"),
    "bytes": "bytes",
    "seconds": "seconds",
    "percent": "share",
    "flag": "flag",
    "name": "name",
    "shape": "shape",
}
"""The kinds of fields for the units of columns; all others are text."""


def where_option(**rules: Unpack[Rules]) -> Any:
    """The field of `--where`."""
    return option(
        "--where",
        "EXPR",
        group="Filters",
        is_common=True,
        help="Show only rows that match EXPR (see `hlo help where`).",
        **rules,
    )


def instructions_where(expression: str, module: Module) -> Predicate[Instruction]:
    """Whether an expression matches an instruction; None if unknown."""
    from hlo_cli.analysis.query.fields import instruction_fields
    from hlo_cli.analysis.query.where import predicate
    from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
    from hlo_cli.syntax.conditions import parse_where

    return predicate(parse_where(expression), instruction_fields(module, ATTRIBUTE_NAMES))


def values_where(expression: str, module: Module) -> Predicate[Value]:
    """Whether an expression matches a value: its own shape, and the instruction that defines it."""
    from hlo_cli.analysis.query.fields import value_fields
    from hlo_cli.analysis.query.where import predicate
    from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
    from hlo_cli.syntax.conditions import parse_where

    return predicate(parse_where(expression), value_fields(module, ATTRIBUTE_NAMES))


def chosen(
    test: Predicate[_T] | None, things: Iterable[_T], noun: str
) -> tuple[tuple[_T, ...], tuple[Diagnostic, ...]]:
    """The items that match a predicate, if there is one; and a note on the number of those with an unknown result.

    >>> found, [note] = chosen({"a": True, "b": None, "c": False}.get, "abc", "letters")
    >>> found, note.message
    (('a',), '1 letter skipped: --where depends on an unknown value')
    """
    if test is None:
        return tuple(things), ()
    answers = [(thing, test(thing)) for thing in things]
    unknown = sum(answer is None for _, answer in answers)
    message = f"{format_count(unknown, noun)} skipped: --where depends on an unknown value"
    notes = (Diagnostic("note", message),) if unknown else ()
    return tuple(thing for thing, answer in answers if answer), notes


def rows_where(expression: str, table: Table) -> Table:
    """The table with only the rows that match an expression about its columns, and a note on unknown results.

    >>> from hlo_cli.report.table import Column
    >>> table = Table("sizes", (Column("value", "", "name"), Column("bytes", "", "bytes")), (("b", 4), ("a", 4096)))
    >>> rows_where("bytes > 1KiB", table).rows
    (('a', 4096),)
    """
    kept, notes = matching_rows(expression, table)
    marked = frozenset(new for new, old in enumerate(kept) if old in table.marked)
    return replace(table, rows=tuple(table.rows[at] for at in kept), marked=marked, notes=notes)


def matching_rows(expression: str, table: Table) -> tuple[tuple[int, ...], tuple[Diagnostic, ...]]:
    """The indices of the rows that match an expression about the columns, and a note on unknown results.

    >>> from hlo_cli.report.table import Column
    >>> matching_rows("bytes > 1KiB", Table("sizes", (Column("bytes", "", "bytes"),), ((4,), (4096,))))
    ((1,), ())
    """
    from hlo_cli.analysis.query.fields import row_fields
    from hlo_cli.analysis.query.where import predicate
    from hlo_cli.syntax.conditions import parse_where

    kinds = {column.name: _OF_UNITS.get(column.unit, "text") for column in table.columns}
    at = next((at for at, column in enumerate(table.columns) if column.name == "opcode"), None)
    opcodes = () if at is None else tuple({str(row[at]) for row in table.rows})
    test = predicate(parse_where(expression), row_fields(kinds, opcodes))
    fields = [[_field_value(cell) for cell in row] for row in table.rows]
    return chosen(lambda at: test(fields[at]), range(len(fields)), table.noun)


def _field_value(cell: Cell) -> FieldValue:
    from hlo_cli.analysis.partly_known import NOT_KNOWN

    if cell is UNKNOWN:
        return NOT_KNOWN
    match cell:
        case bool() | int() | float() | str():
            return cell
        case tuple():
            return tuple_text(cell)
        case _:
            return None
