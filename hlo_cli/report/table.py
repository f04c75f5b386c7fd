"""What is a table: cells with raw values, columns with units, and rows; and what is a tree, what are facts?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from enum import Enum
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
    overload,
)

from hlo_cli.dataclass import dataclass
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import FORMER_NAMES, Diagnostic, HloError, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple as TypeVarTupleWithDefault

    from hlo_cli.report.text import Role


# --- cells ---
# Raw values, never formatted text.


class Unknown(Enum):
    """The type of `UNKNOWN`, so that a type checker can distinguish it from text."""

    UNKNOWN = "?"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN
"""A value that is not in the dump. `None` is different: the value does not apply."""

Cell: TypeAlias = "bool | int | float | str | Unknown | tuple[Cell, ...] | Mapping[str, Cell] | None"
"""One value. Tuples are indices, mappings are records for machine formats only."""

Row: TypeAlias = tuple[Cell, ...]


def number_of(cell: Cell) -> int | float | None:
    """The finite number in a cell, or None when it holds anything else.

    >>> [number_of(cell) for cell in (3, 0.5, True, "3", float("nan"))]
    [3, 0.5, None, None, None]
    """
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return None
    return cell if isinstance(cell, int) or math.isfinite(cell) else None


def _order_of(cell: Cell) -> tuple[int, object]:
    """A sort key under which cells of any types compare: booleans and numbers, texts, tuples, records.

    >>> sorted(["b", (2, 10), 3, (2, 9), "a"], key=_order_of)
    [3, 'a', 'b', (2, 9), (2, 10)]
    """
    match cell:
        case bool() | int() | float():
            return 0, cell
        case str():
            return 1, cell
        case tuple():
            return 2, tuple(_order_of(part) for part in cell)
        case Mapping():
            return 3, tuple((key, _order_of(part)) for key, part in cell.items())
        case _:
            return 4, ""


def is_missing(cell: Cell) -> bool:
    """Whether a cell has no value to compare or add: not applicable, unknown, or not a finite number.

    >>> [is_missing(cell) for cell in (None, UNKNOWN, float("inf"), 0, "")]
    [True, True, True, False, False]
    """
    return cell is None or cell is UNKNOWN or (isinstance(cell, float) and not math.isfinite(cell))


# --- loops below spans ---
# For the brackets below charts of a schedule.


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps `start` to `end` that run in a loop; `trips` is the trip count, UNKNOWN if it is computed at run time.

    A call or a branch runs once and has no trips. Loops may be nested.

    >>> Loop("while.10", 4, 20, 32).trips
    32
    """

    name: str
    start: int
    end: int
    trips: int | Unknown | None = None


# --- columns ---
# Their names, units, and priorities when the screen is narrow.


Unit = Literal[
    "count",  # a number of things
    "bytes",
    "seconds",
    "percent",  # a fraction from 0 to 1, shown as a whole number of hundredths
    "ratio",  # a factor, shown with a times sign
    "flops",  # shown with a decimal prefix from a million on: Mflop, Gflop
    "flop/second",  # rates, shown with a decimal prefix: Tflop/s, GB/s
    "byte/second",
    "number",  # any number, shown with four digits
    "step",  # a position in the schedule
    "line",  # a line number
    "address",  # an offset, shown in hexadecimal
    "index",  # a tuple of integers, shown as (0,5)
    # first step, last step, whether compute overlaps, and optionally the first step without overlap:
    "span",  # a bar over all steps
    "range",  # first and last step as text, which is never shortened
    "flag",  # true or false
    "change",  # one of ~ + - >
    "name",  # a name that commands accept
    "shape",
    "opcode",
    "op_name",
    "source",  # file:line
    "page",  # the name of a file next to the report, a link on pages
    "text",
]

NUMERIC: Final[frozenset[str]] = frozenset(
    (
        *("count", "bytes", "seconds", "percent", "ratio", "flops", "flop/second", "byte/second", "number"),
        *("step", "line", "address", "index"),
    )
)
KEEP: Final = 9  # above every rank that columns give themselves, so that those without one are dropped last


CODE_UNITS: Final = frozenset(("name", "shape", "op_name", "source", "opcode"))
"""Units of cells that hold HLO text, in a monospaced font where a format has one."""


@dataclass(frozen=True, slots=True)
class Share:
    """The total of a percent column: the sum of column `part` over the sum of `whole`, or, with `rest`, one minus that.

    >>> Share("logical_bytes", "padded_bytes", rest=True).of(1, 4)
    0.75
    """

    part: str
    whole: str
    rest: bool = False

    def of(self, part: int | float, whole: int | float) -> float | None:
        """The share for two given sums, None if `whole` is 0."""
        if not whole:
            return None
        return 1 - part / whole if self.rest else part / whole


if TYPE_CHECKING:  # a bare `Column` is one of anything: the renderers read no cells through it
    Subject = TypeVarTupleWithDefault("Subject", default=Unpack[tuple[Any, ...]])
else:
    Subject = TypeVarTuple("Subject")


@dataclass(frozen=True, slots=True)
class Column(Generic[*Subject]):
    """One column. `name` is for machines and for `--columns` and `--sort`, `title` for people, `of` its cell in a row.

    `of` is passed what the row shows: one thing, as in `Column[LiveValue]`, or several, as in `Column[str, int]`;
    `rows_from` and `rows_from_tuples` make the rows. A table whose rows are read from elsewhere has columns without it.

    When the screen is too narrow, columns of the lowest `rank` are dropped first, those of rank `KEEP` only when
    shortening is not enough. `from_width` is the narrowest screen that shows the column: 0, 120, or 200.
    `person=False` or `machine=False` hides it from one kind of reader unless it is requested by name. A column of
    spans has the number of `steps` and their `loops`; if the steps are parts of a time, also the total in `seconds`.

    >>> Column("padded_bytes", "padded", "bytes", total="sum").is_numeric
    True
    """

    name: str
    title: str
    unit: Unit = "text"
    _: KW_ONLY
    rank: int = KEEP
    from_width: int = 0
    total: Literal["sum"] | Share | None = None
    role: Role | None = None
    group: str = ""  # a header over neighboring columns of the same group
    like: str = ""  # the column that it shares a unit with, such as `before` for `after`
    exact: bool = False  # bytes in full, without a unit
    inline: bool = False  # the unit is after the title, not below it
    align: Literal["left", "right"] | None = None
    person: bool = True
    machine: bool = True
    steps: int = 0
    seconds: float = 0
    is_measured: bool = False  # of spans: times that were measured, so that all bars are alike
    is_lane: bool = False  # rows with one text share lanes in a picture of spans; by default, those of one opcode
    loops: tuple[Loop, ...] = ()
    of: Callable[[*Subject], Cell] | None = field(default=None, compare=False, repr=False)

    @property
    def is_numeric(self) -> bool:
        """Whether its cells are numbers or positions, which are never shortened."""
        return self.unit in NUMERIC

    @property
    def is_right_aligned(self) -> bool:
        """Whether cells are right-aligned: numbers are by default, `align` overrides it."""
        return self.align == "right" if self.align else self.is_numeric


Thing = TypeVar("Thing")
"""What a row shows."""


def rows_from(columns: Iterable[Column[Thing]], things: Iterable[Thing]) -> tuple[Row, ...]:
    """The rows of a table that has one for each thing.

    >>> columns: tuple[Column[str], ...] = (Column("word", "word", of=str), Column("size", "size", "count", of=len))
    >>> rows_from(columns, ("tile", "hbm"))
    (('tile', 4), ('hbm', 3))
    """
    getters = _getters(columns)
    return tuple(tuple([get(thing) for get in getters]) for thing in things)


def rows_from_tuples(columns: Iterable[Column[*Subject]], things: Iterable[tuple[*Subject]]) -> tuple[Row, ...]:
    """The rows of a table that shows several things in each, which `of` of a column gets one by one.

    >>> columns: tuple[Column[str, int], ...] = (
    ...     Column("share", "share", of=lambda name, count: f"{count} {name}"),
    ...     Column("count", "count", "count", of=lambda name, count: count),
    ... )
    >>> rows_from_tuples(columns, {"copies": 2}.items())
    (('2 copies', 2),)
    """
    getters = _getters(columns)
    return tuple(tuple([get(*several) for get in getters]) for several in things)


def row_from(columns: Iterable[Column[Thing]], thing: Thing) -> Row:
    """The row that shows a thing.

    >>> row_from((Column("word", "word", of=str.upper),), "tile")
    ('TILE',)
    """
    return tuple([get(thing) for get in _getters(columns)])


def columns_of_part(
    columns: Sequence[Column[Thing]], part: Callable[[*Subject], Thing]
) -> tuple[Column[*Subject], ...]:
    """The columns of a thing in a table whose rows show more: `part` is that thing of a row.

    >>> sizes: tuple[Column[str], ...] = (Column("size", "size", "count", of=len),)
    >>> rows_from_tuples(columns_of_part(sizes, lambda name, count: name), [("tile", 2)])
    ((4,),)
    """
    return tuple(
        with_cell(column, _composed(get, part)) for column, get in zip(columns, _getters(columns), strict=True)
    )


def _composed(get: Callable[[Thing], Cell], part: Callable[[*Subject], Thing]) -> Callable[[*Subject], Cell]:
    return lambda *things: get(part(*things))


def with_cell(column: Column[Any], of: Callable[[*Subject], Cell]) -> Column[*Subject]:
    """The column of other things: `of` is its cell.

    >>> with_cell(Column("size", "size", "count"), len).of("tile")
    4
    """
    other: Any = of  # for the type of `replace`, it is still a column of what it was
    return cast("Column[*Subject]", replace(column, of=other))


def unknown_if_none(cell: Cell) -> Cell:
    """The cell, UNKNOWN for None: a cell that is None is empty, as there is nothing to know.

    >>> unknown_if_none(None), unknown_if_none(0)
    (UNKNOWN, 0)
    """
    return UNKNOWN if cell is None else cell


def unknown_without(columns: Sequence[Column[Thing]]) -> tuple[Column[Thing | None], ...]:
    """The columns of a thing that may be missing; its cells are then unknown.

    >>> row_from(unknown_without((Column("size", "size", "count", of=len),)), None)
    (UNKNOWN,)
    """
    return tuple(with_cell(column, _or_unknown(get)) for column, get in zip(columns, _getters(columns), strict=True))


def _or_unknown(get: Callable[[Thing], Cell]) -> Callable[[Thing | None], Cell]:
    return lambda thing: UNKNOWN if thing is None else get(thing)


def _getters(columns: Iterable[Column[*Subject]]) -> list[Callable[[*Subject], Cell]]:
    found = []
    for column in columns:
        assert column.of is not None, column.name
        found.append(column.of)
    return found


# --- rows on demand ---
# There may be more than fit in memory, or they may never be read.


Item = TypeVar("Item", covariant=True)


class LazyRows(Sequence[Item]):
    """`count` rows or other items, generated again by `make` on each iteration.

    >>> rows = LazyRows(10**12, lambda: ((n,) for n in range(10**12)))
    >>> len(rows), rows[:2], rows[1]
    (1000000000000, ((0,), (1,)), (1,))
    """

    def __init__(self, count: int, make: Callable[[], Iterator[Item]]) -> None:
        """`make` returns an iterator over all items."""
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return self._make()

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, at: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            return tuple(islice(self._make(), start, stop, step))
        at = range(self._count)[at]
        return next(islice(self._make(), at, None))


class DeferredRows(Sequence[Item]):
    """Rows or other items that `make` returns when they are read first.

    >>> rows = DeferredRows(lambda: (("a", 1), ("b", 2)))
    >>> len(rows), rows[1], list(rows)
    (2, ('b', 2), [('a', 1), ('b', 2)])
    """

    def __init__(self, make: Callable[[], Sequence[Item]]) -> None:
        """`make` is called once at most."""
        self._make = make
        self._made: Sequence[Item] | None = None

    @property
    def _items(self) -> Sequence[Item]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        return self._items[at]


# --- tables ---
# Columns, rows of raw cells, and sums for omitted rows.


ROWS_FOR_A_PERSON = 20  # with answer and totals, a table fits a terminal of 30 lines; --top shows more
NAMING = frozenset(("name", "shape", "opcode", "op_name", "source"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table with all rows; a renderer decides how many it shows.

    `noun` names the rows, in the plural. `limit` is the number of rows that a screen shows by default; `folded` names
    the others in the plural, if they are of one kind.
    `total_row` replaces the computed row `total`. `marked` rows are those that decide the answer. `--columns`,
    `--sort`, pipes, CSV, and jsonl apply to a report's first table with `main`, unless `--table` names another. A
    table with `person=False` is only for machine formats. Of a table without totals, a screen that has no room for all
    rows passes over those that are `idle`. `notes` explain how its rows were selected and are added to
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
    folded: str = ""
    total_row: Row | None = None
    footnote: str = ""
    main: bool = True
    person: bool = True
    marked: frozenset[int] = frozenset()
    idle: frozenset[int] = frozenset()
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
        names = [column.name for column in self.columns]
        if (former := FORMER_NAMES.get(name)) is not None:
            hint = did_you_mean(former) if former in names else f"renamed to {former}, a column of other tables"
            raise HloError(f"unknown column '{name}'", hint=hint)
        if (
            titled := next((each.name for each in self.columns if each.title and each.title == name), None)
        ) is not None:
            raise HloError(f"unknown column '{name}'", hint=did_you_mean(titled))  # the head of the column on a screen
        raise unknown_choice_error("column", name, names)

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
        limit = ROWS_FOR_A_PERSON if self.folded else self.limit
        ordered = tuple(rows[row] for row in placed)
        return replace(self, rows=ordered, sorted_by=name, marked=marked, idle=frozenset(), limit=limit, folded="")

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
    return lambda row: _order_of(rows[row][at])


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


def with_columns(
    table: Table, columns: Sequence[Column[Thing]], things: Iterable[Thing], *, first: bool = False
) -> Table:
    """The table with further columns, before its own if `first`; `things` are what its rows show.

    >>> table = Table("words", (Column("word", "word"),), (("tile",), ("hbm",)))
    >>> with_columns(table, (Column("size", "size", "count", of=len),), ("tile", "hbm")).rows
    (('tile', 4), ('hbm', 3))
    """
    added = zip(table.rows, rows_from(columns, things), strict=True)
    if first:
        return replace(table, columns=(*columns, *table.columns), rows=tuple((*new, *row) for row, new in added))
    return replace(table, columns=(*table.columns, *columns), rows=tuple((*row, *new) for row, new in added))


# --- trees ---
# Tables whose first column is indented by depth.


DEPTH = Column("depth", "depth", "count", person=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """One row of a tree and its children.

    >>> Branch(("main",), (Branch(("while.10",)), Branch(("cond.2",)))).size
    3
    """

    cells: Row
    children: tuple[Branch, ...] = ()

    @property
    def size(self) -> int:
        """The number of rows, including itself."""
        return sum(1 for _ in walk((self,)))


@dataclass(frozen=True, slots=True)
class Tree:
    """Nested rows. A screen shows `limit` rows, those nearest to the roots.

    >>> tree = Tree("calls", (Column("name", "computation", "name"),), (Branch(("main",), (Branch(("body",)),)),))
    >>> tree.as_table().rows
    ((0, 'main'), (1, 'body'))
    """

    kind: ClassVar[Literal["tree"]] = "tree"
    name: str
    columns: tuple[Column, ...]
    roots: tuple[Branch, ...]
    _: KW_ONLY
    title: str = ""
    noun: str = "rows"
    limit: int = ROWS_FOR_A_PERSON

    def as_table(self) -> Table:
        """All rows in the order of drawing, each preceded by its depth."""
        rows = tuple((depth, *branch.cells) for depth, branch in walk(self.roots))
        return Table(self.name, (DEPTH, *self.columns), rows, title=self.title, noun=self.noun, limit=self.limit)


def walk(roots: tuple[Branch, ...]) -> Iterator[tuple[int, Branch]]:
    """Every branch with its depth, parents before children; no recursion, so depth is not limited.

    >>> [(depth, branch.cells) for depth, branch in walk((Branch((1,), (Branch((2,)),)), Branch((3,))))]
    [(0, (1,)), (1, (2,)), (0, (3,))]
    """
    waiting = [(0, root) for root in reversed(roots)]
    while waiting:
        depth, branch = waiting.pop()
        yield depth, branch
        waiting.extend((depth + 1, child) for child in reversed(branch.children))


# --- facts ---
# Labeled lines with amounts.


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its name and unit: `Amount("count", 63)`, `Amount("bytes", 5872025, "bytes")`.

    >>> Amount("bytes", 64, "bytes").unit
    'bytes'
    """

    name: str
    value: Cell
    unit: Unit = "count"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: a label, amounts aligned with those of other lines, and a remark, which machines get as `note`.

    A remark that `is_whole` goes on in further lines instead of being cut. Screens omit a fact without `person`.

    >>> Fact("arguments", (Amount("count", 63),), "61 are donated").label
    'arguments'
    """

    label: str
    amounts: tuple[Amount, ...] = ()
    remark: str = ""
    is_whole: bool = False
    person: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of facts.

    >>> Facts("module", (Fact("results", (Amount("count", 62),)),)).as_table().rows
    (('results', 62, ''),)
    """

    kind: ClassVar[Literal["facts"]] = "facts"
    name: str
    facts: tuple[Fact, ...]
    title: str = ""

    def as_table(self) -> Table:
        """One row for each fact, one column for every amount that any of them has."""
        units = {amount.name: amount.unit for fact in self.facts for amount in fact.amounts}
        amounts = tuple(Column(name, name, unit) for name, unit in units.items())
        columns = (Column("fact", "fact"), *amounts, Column("note", "note"))
        return Table(self.name, columns, tuple(_row(fact, tuple(units)) for fact in self.facts), main=False)


def _row(fact: Fact, names: tuple[str, ...]) -> tuple[Cell, ...]:
    values = {amount.name: amount.value for amount in fact.amounts}
    return (fact.label, *(values.get(name) for name in names), fact.remark)
