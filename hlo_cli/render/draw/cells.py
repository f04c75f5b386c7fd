"""Cells for people: the raw values of a column as text, all in the unit of the column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hlo_cli.render.style import Style
from hlo_cli.report import numbers
from hlo_cli.report.cell import Cell, is_missing, number_of
from hlo_cli.report.column import Column
from hlo_cli.report.text import Role

WHOLE_PATHS_FROM = 200
_WHOLE_RATES = 100
"""From here on, the rates of a column have no decimals."""
CHANGES: Mapping[Cell, Role] = {"+": "saving", "-": "alarm", "~": "waste"}


class Entry(NamedTuple):
    """The text of one cell. `lead` is a prefix that is never shortened; `fixed` texts are cut only at the end.

    >>> Entry("fusion.2", lead="├─ ").lead
    '├─ '
    """

    text: str
    role: Role = "plain"
    lead: str = ""
    fixed: bool = False


class Writing(NamedTuple):
    """The format of a column's values: its unit, and a function from a present value to text."""

    unit: str
    text_of: Callable[[Cell], str]


def entries_of(column: Column, cells: Iterable[Cell], writing: Writing, style: Style) -> tuple[Entry, ...]:
    """The cells of a column as entries, each in the role of its column or value.

    >>> column = Column("padded_bytes", "padded", "bytes", role="waste")
    >>> entries_of(column, (2048, 0, None), writing_of(column, (2048, 0, None)), Style())[:2]
    (Entry(text='2,048', role='waste', lead='', fixed=False), Entry(text='0', role='plain', lead='', fixed=False))
    """
    role: Role = column.role or ("name" if column.unit == "name" else "plain")
    if column.unit == "source" and style.room < WHOLE_PATHS_FROM:
        cells = (cell.rpartition("/")[2] if isinstance(cell, str) else cell for cell in cells)
    return tuple(
        Entry(style.show(cell_text(cell, writing)), CHANGES.get(cell, role) if column.unit == "change" else role)
        if cell and not is_missing(cell)
        else Entry(style.show(cell_text(cell, writing)))
        for cell in cells
    )


def cell_text(cell: Cell, writing: Writing) -> str:
    """The text of a cell: `-` if it does not apply, `?` if it is unknown.

    >>> cell_text(None, writing_of(Column("step", "step", "step"), ()))
    '-'
    """
    if cell is None:
        return "-"
    return "?" if is_missing(cell) else writing.text_of(cell)


def writing_of(column: Column, cells: Sequence[Cell], sums: Sequence[Cell] = ()) -> Writing:
    """The format of a column's cells; its sums count for the unit too, but not for decimals.

    >>> writing_of(Column("bytes", "", "bytes"), (2883584, 430080), (10039296,)).text_of(2883584)
    '2,816'
    >>> writing_of(Column("bytes", "", "bytes"), (2883584, 10)).text_of(10)
    '<0.1'
    >>> rates = writing_of(Column("rate", "", "byte/second"), (2.453e12, 38e9))
    >>> rates.unit, rates.text_of(2.453e12), rates.text_of(38e9)
    ('GB/s', '2,453', '38')
    """
    values = [number for number in map(number_of, cells) if number is not None]
    match column.unit:
        case "bytes" if not column.exact:
            everything = values + [number for number in map(number_of, sums) if number is not None]
            unit = numbers.byte_unit(max(map(abs, everything), default=0))
            divisor = 1024**unit
            decimals = 1 if any(value % divisor for value in values) else 0
            return Writing(numbers.BYTE_UNITS[unit], _number(lambda n: numbers.format_scaled(n, divisor, decimals)))
        case "seconds":
            everything = values + [number for number in map(number_of, sums) if number is not None]
            unit = numbers.second_unit(max(map(abs, everything), default=0))
            sign = numbers.SECOND_UNITS[unit]
            return Writing(sign, _number(lambda n: numbers.format_scaled(numbers.in_second_unit(n, unit), decimals=1)))
        case "flop/second" | "byte/second":
            everything = values + [number for number in map(number_of, sums) if number is not None]
            return _rates(everything, "flop" if column.unit == "flop/second" else "B")
        case "bytes" | "count" | "step":
            decimals = 1 if any(value % 1 for value in values) else 0
            return Writing("", _number(lambda n: numbers.format_scaled(n, decimals=decimals)))
        case "percent":
            return Writing("%", _number(numbers.format_percent))
        case "ratio":
            return Writing("", _number(numbers.format_ratio))
        case "number":
            return Writing("", _number(numbers.format_number))
        case "address":
            return Writing("", _number(lambda n: f"0x{int(n):x}"))
        case "span" if column.seconds:
            return Writing("", _time_span(column))
        case "span":
            return Writing("", _span)
        case _:
            return Writing("", plain_value)


def plain_value(cell: Cell) -> str:
    """The text of a value without a unit: a text, a boolean, an index.

    >>> plain_value((0, 5)), plain_value(True), plain_value(126), plain_value("add")
    ('(0,5)', 'yes', '126', 'add')
    """
    match cell:
        case bool():
            return "yes" if cell else "no"
        case tuple():
            return f"({','.join(map(plain_value, cell))})"
        case Mapping():
            return " ".join(f"{key} {plain_value(value)}" for key, value in cell.items())
        case None:
            return "-"
        case str() | int() | float():
            return str(cell)
        case _:
            return "?"


def _span(cell: Cell) -> str:
    match cell:
        case (int(start), int(end), *_):
            return f"{start:,}–{end:,}"
        case _:
            return plain_value(cell)


def _time_span(column: Column) -> Callable[[Cell], str]:
    def write(cell: Cell) -> str:
        match cell:
            case (int(start), int(end), *_):
                times = (each * column.seconds / column.steps for each in (start, end + 1))
                return "–".join(map(numbers.format_seconds, times))
            case _:
                return plain_value(cell)

    return write


def _rates(values: Sequence[float], noun: str) -> Writing:
    """Rates with the decimal prefix of the greatest, which has at most four digits before the point."""
    greatest = max(map(abs, values), default=0)
    thousands = numbers.rate_prefix(greatest)
    divisor = 1000**thousands
    decimals = 0 if greatest >= _WHOLE_RATES * divisor else 1
    unit = f"{numbers.RATE_PREFIXES[thousands]}{noun}/s"
    return Writing(unit, _number(lambda n: numbers.format_scaled(n, divisor, decimals)))


def _number(text_of: Callable[[int | float], str]) -> Callable[[Cell], str]:
    def write(cell: Cell) -> str:
        number = number_of(cell)
        return plain_value(cell) if number is None else text_of(number)

    return write


def in_words(column: Column, cell: Cell) -> str:
    """One cell with its unit, for use outside of tables.

    >>> in_words(Column("bytes", "bytes", "bytes"), 16384), in_words(Column("n", "n", "count"), 3412)
    ('16 KiB', '3,412')
    """
    number = number_of(cell)
    if number is not None and column.unit == "bytes" and not column.exact:
        return numbers.format_bytes(number)
    if number is not None and column.unit == "seconds":
        return numbers.format_seconds(number)
    if number is not None and column.unit in ("flop/second", "byte/second"):
        return numbers.format_rate(number, "flop" if column.unit == "flop/second" else "B")
    writing = writing_of(column, (cell,))
    sign = "%" if column.unit == "percent" and number is not None else ""
    return cell_text(cell, writing) + sign
