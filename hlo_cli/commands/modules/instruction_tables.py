"""What do tables of instructions share? Columns of costs and traffic, the rows of `--where`, and brackets of loops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import tuple_text
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import UNKNOWN, Cell, Column, Loop, Table, with_cell, with_columns
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.cost.counting import Cost
    from hlo_cli.analysis.dataflow.dependencies import Value
    from hlo_cli.analysis.dataflow.flat_schedule import Run
    from hlo_cli.analysis.query.where import Fields, FieldValue, Kind, Predicate


# --- costs and traffic ---
# Costs of instructions, and mesh axes and bytes of collectives, as columns of tables with a row for each of them.


_COLUMNS: Final[tuple[Column[Cost], ...]] = (
    Column("flops", "flops", "flops", total="sum", of=lambda cost: _if_known(cost, round(cost.flops))),
    Column("transcendentals", "transc.", "count", total="sum",
           of=lambda cost: _if_known(cost, round(cost.transcendentals))),
    Column("bytes", "accessed", "bytes", total="sum", of=lambda cost: _if_known(cost, round(cost.bytes_accessed))),
    Column("intensity", "flops/B", "count", of=lambda cost: _if_known(cost, cost.intensity)),
)  # fmt: skip

_TRAFFIC: Final = (
    Column("axis", "axis"),
    Column("payload_bytes", "payload", "bytes"),
    Column("wire_bytes", "sent", "bytes"),
    Column("trips", "trips", "count"),
)
_WORD: Final = lazy_regex(r"\w++")


def with_costs(table: Table, instructions: Iterable[Instruction], module: Module, asked: Iterable[str]) -> Table:
    """Adds the costs of the instructions to the rows of a table, if `asked` names any of these columns.

    They need a cost analysis, which is slow. A call includes the cost of its callee, so rows from several computations
    are not summed, nor are repeated rows. Instructions of unknown cost, and their callers, have no figures; the
    footnote gives a lower bound of the total.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[4] add(f32[4] a, f32[4] b)")
    >>> table = Table("instructions", (Column("name", "name"),), (("r",),))
    >>> with_costs(table, [module.entry.root], module, ("name", "bytes")).rows
    (('r', 4, 0, 48, 0.08333333333333333),)
    """
    if {column.name for column in _COLUMNS}.isdisjoint(asked):
        return table
    from hlo_cli.analysis.cost.cost_analysis import cost_analysis

    listed, costs = tuple(instructions), cost_analysis(module)
    is_summed = len({each.computation for each in listed}) == 1 and len(set(listed)) == len(listed)
    columns = _COLUMNS if is_summed else tuple(replace(column, total=None) for column in _COLUMNS)
    found = [costs[instruction] for instruction in listed]
    footnote = _footnote(found) if is_summed else table.footnote
    return replace(with_columns(table, columns, found), footnote=footnote)


def with_traffic(
    table: Table, instructions: Iterable[Instruction], module: Module, asked: Iterable[str], where: str | None = None
) -> Table:
    """Adds mesh axis and bytes of collectives and the executions of all rows, if `asked` or `where` names any of these.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}")
    >>> table = Table("instructions", (Column("name", "name"),), (("r",),))
    >>> with_traffic(table, [module.entry.root], module, ("axis",)).rows
    (('r', 'axis0', 32, 24, 1),)
    """
    if {column.name for column in _TRAFFIC}.isdisjoint((*asked, *_WORD.findall(where or ""))):
        return table
    from hlo_cli.analysis.query.fields import CollectiveFacts, ProgramFacts

    readers = CollectiveFacts(module).readers() | ProgramFacts(module).readers()
    columns = [with_cell(column, _read_by(readers[column.name][1])) for column in _TRAFFIC]
    return with_columns(table, columns, instructions)


def _read_by(reader: Callable[[Instruction], FieldValue]) -> Callable[[Instruction], Cell]:
    return lambda instruction: _known(reader(instruction))


def _known(value: FieldValue) -> Cell:
    return value if isinstance(value, int | str) else None if value is None else UNKNOWN


def _if_known(cost: Cost, figure: Cell) -> Cell:
    return UNKNOWN if cost.unknown else figure


def _footnote(found: Sequence[Cost]) -> str:
    """The text in place of sums that have unknown parts."""
    unknown = sum(cost.unknown for cost in found)
    if not unknown:
        return ""
    flops, transcendentals = round(sum(c.flops for c in found)), round(sum(c.transcendentals for c in found))
    accessed = round(sum(c.bytes_accessed for c in found))
    words = f"at least {flops:,} flops, {transcendentals:,} transcendentals, and {format_bytes(accessed)} accessed"
    return f"{words}; {format_count(unknown, 'operations')} of unknown cost"


# --- rows that match --where ---
# Which rows does `--where EXPR` select? Its predicates on instructions, values, and rows of tables.


_T = TypeVar("_T")
_OF_UNITS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("count", "flops", "ratio", "step", "line", "address"), "count"),
    "bytes": "bytes",
    "seconds": "seconds",
    "percent": "share",
    "flag": "flag",
    "name": "name",
    "shape": "shape",
}
"""The kinds of fields for the units of columns; all others are text."""


def instructions_where(expression: str, module: Module) -> Predicate[Instruction]:
    """Whether an expression matches an instruction; None if unknown."""
    from hlo_cli.analysis.query.fields import instruction_fields

    return _matches(expression, instruction_fields(module, _attribute_names()))


def values_where(expression: str, module: Module) -> Predicate[Value]:
    """Whether an expression matches a value: its own shape, and the instruction that defines it."""
    from hlo_cli.analysis.query.fields import value_fields

    return _matches(expression, value_fields(module, _attribute_names()))


def _matches(expression: str, fields: Fields[_T]) -> Predicate[_T]:
    from hlo_cli.analysis.query.where import predicate
    from hlo_cli.syntax.conditions import parse_where

    return predicate(parse_where(expression), fields)


def _attribute_names() -> Collection[str]:
    from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES

    return ATTRIBUTE_NAMES


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
    idle = frozenset[int]()  # whoever selects rows wants to see them
    return replace(table, rows=tuple(table.rows[at] for at in kept), marked=marked, idle=idle, notes=notes)


def matching_rows(expression: str, table: Table) -> tuple[tuple[int, ...], tuple[Diagnostic, ...]]:
    """The indices of the rows that match an expression about the columns, and a note on unknown results.

    >>> from hlo_cli.report.table import Column
    >>> matching_rows("bytes > 1KiB", Table("sizes", (Column("bytes", "", "bytes"),), ((4,), (4096,))))
    ((1,), ())
    """
    from hlo_cli.analysis.query.fields import row_fields

    kinds = {column.name: _OF_UNITS.get(column.unit, "text") for column in table.columns}
    at = next((at for at, column in enumerate(table.columns) if column.name == "opcode"), None)
    opcodes = () if at is None else tuple({str(row[at]) for row in table.rows})
    test = _matches(expression, row_fields(kinds, opcodes))
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


# --- the source line ---


def source_of(module: Module, instruction: Instruction) -> str | None:
    """The line of the user's program that an instruction comes from, `file:line`; None if its metadata has none.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[2] iota(), iota_dimension=0, metadata={source_file="a.py" source_line=3}')
    >>> source_of(module, module.entry.root)
    'a.py:3'
    """
    location = module.location(instruction)
    return None if location is None else str(location)


# --- loops, for brackets in charts ---
# The loops of a schedule, for the brackets in charts.


def loops_of(runs: Iterable[Run]) -> Iterator[Loop]:
    """The bodies of loops with their trip counts, without conditions, branches, and calls.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> list(loops_of(memory_analysis(parse_module("r = f32[2] negate(f32[2] p)")).runs))
    []
    """
    from hlo_cli.analysis.dataflow.executions import trip_count  # tables of instructions have no loops

    for run in runs:
        caller = run.caller
        if caller is None or caller.opcode != opcodes.WHILE or run.computation is not caller.called_computations[0]:
            continue
        trips = trip_count(caller)
        yield Loop(caller.name, run.start, run.end - 1, UNKNOWN if trips is None else trips)
