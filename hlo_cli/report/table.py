"""Tables: columns, rows of raw cells, and sums for omitted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, replace
from typing import ClassVar, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import UNKNOWN, Cell, Row, is_missing, number_of, order_of
from hlo_cli.report.column import Column, Share
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic

ROWS_FOR_A_PERSON = 20
NAMING = frozenset(("name", "shape", "opcode", "op_name", "source"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table with all rows; a renderer decides how many it shows.

    `noun` names the rows, in the plural. `limit` is the number of rows that a screen shows by default;
    `total_row` replaces the computed row `total`. `marked` rows are those that decide the answer. `--columns`,
    `--sort`, pipes, CSV, and jsonl apply to a report's first table with `main`, unless `--table` names another. A
    table with `person=False` is only for machine formats. `notes` explain how its rows were selected and are added to
    the notes of the report.

    >>> table = Table("sizes", (Column("value", "value", "name"), Column("bytes", "", "bytes")), (("b", 4), ("a", 8)))
    >>> table.sort("bytes").rows
    (('a', 8), ('b', 4))
    >>> table.select(["bytes"]).visible(person=True)
    (1,)
    """

    kind: ClassVar[Literal["table"]] = "table"
    name: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    _: KW_ONLY
    title: str = ""
    noun: str = "rows"
    sorted_by: str = ""
    limit: int = ROWS_FOR_A_PERSON
    total_row: Row | None = None
    footnote: str = ""
    main: bool = True
    person: bool = True
    marked: frozenset[int] = frozenset()
    selected: tuple[str, ...] = ()
    notes: tuple[Diagnostic, ...] = ()

    def as_table(self) -> Table:
        """Itself; every part of a report has this method."""
        return self

    def column_index(self, name: str) -> int:
        """The index of the column with that name; an error that lists the names if there is none."""
        for index, column in enumerate(self.columns):
            if column.name == name:
                return index
        raise unknown_choice_error("column", name, (column.name for column in self.columns))

    def visible(self, *, person: bool) -> tuple[int, ...]:
        """The indices of the shown columns: the selected ones, else those for people or for machines."""
        if self.selected:
            return tuple(self.column_index(name) for name in self.selected)
        return tuple(i for i, column in enumerate(self.columns) if (column.person if person else column.machine))

    def alike(self, at: int, rows: Iterable[Row]) -> list[Cell]:
        """The cells of the other columns that share a unit with the given column."""
        name = self.columns[at].like or self.columns[at].name
        others = [n for n, column in enumerate(self.columns) if n != at and name in (column.like, column.name)]
        return [row[n] for row in rows for n in others]

    def select(self, names: Iterable[str]) -> Table:
        """The table with only these columns, in this order."""
        wanted = tuple(dict.fromkeys(names))
        for name in wanted:
            self.column_index(name)
        return replace(self, selected=wanted)

    def sort(self, name: str, *, reverse: bool = False) -> Table:
        """The table sorted by a column: numbers descending and texts ascending; `reverse` reverses the order.

        Ties are sorted by the label column; cells without a value always come last.
        """
        rows, at = tuple(self.rows), self.column_index(name)
        falls = self.columns[at].is_numeric != reverse
        label = self.label_index(range(len(self.columns)))
        order = sorted(range(len(rows)), key=_order(rows, label)) if label is not None else range(len(rows))
        there = [row for row in order if not is_missing(rows[row][at])]
        missing = [row for row in order if is_missing(rows[row][at])]
        placed = sorted(there, key=_order(rows, at), reverse=falls) + missing
        marked = frozenset(new for new, old in enumerate(placed) if old in self.marked)
        return replace(self, rows=tuple(rows[row] for row in placed), sorted_by=name, marked=marked)

    def label_index(self, indices: Iterable[int]) -> int | None:
        """The column that labels the rows: of the given ones, the first with names, else the first with text."""
        among = tuple(indices)
        named = [i for i in among if self.columns[i].unit in NAMING]
        texts = [i for i in among if not self.columns[i].is_numeric and self.columns[i].unit not in ("change", "span")]
        return next(iter(named or texts), None)

    @property
    def has_totals(self) -> bool:
        """Whether any column can be summed."""
        return any(column.total is not None for column in self.columns)

    def total_of(self, rows: Sequence[Row]) -> Row:
        """The sums of the columns over some rows; None for a column without a sum, unknown if any cell is."""
        sums: dict[str, Cell] = {}

        def sum_of(name: str) -> Cell:
            if name not in sums:
                at = self.column_index(name)
                sums[name] = _sum(row[at] for row in rows)
            return sums[name]

        return tuple(_total(column, sum_of) for column in self.columns)


def _order(rows: Sequence[Row], at: int) -> Callable[[int], tuple[int, object]]:
    return lambda row: order_of(rows[row][at])


def _total(column: Column, sum_of: Callable[[str], Cell]) -> Cell:
    match column.total:
        case _ if column.unit == "span":
            return None
        case "sum":
            return sum_of(column.name)
        case Share(part=part, whole=whole) as share:
            parts, wholes = number_of(sum_of(part)), number_of(sum_of(whole))
            return UNKNOWN if parts is None or wholes is None else share.of(parts, wholes)
        case _:
            return None


def _sum(cells: Iterable[Cell]) -> Cell:
    total: int | float = 0
    for cell in cells:
        if cell is not None:
            value = number_of(cell)
            if value is None:
                return UNKNOWN
            total += value
    return total
