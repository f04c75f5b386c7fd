"""How is a raw value written for people, how wide do columns become, and how do they stand side by side?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hlo_cli.render.style import Style
from hlo_cli.render.width import SHORTENERS, cell_width, pad, shorten_apart, shorten_text
from hlo_cli.report import numbers
from hlo_cli.report.table import KEEP, Cell, Column, is_missing, number_of
from hlo_cli.report.text import Line, Role, Run

# --- values as text ---
# All cells of a column are in the unit of the column.


WHOLE_PATHS_FROM = 200  # columns of a terminal from which a path and all other cells have room
_MEGA = 2  # the index of the least prefix of flops: thousands of flops are written out
_COUNTED_FLOPS = 1_000_000  # below, the digits are read at a glance, and small modules are told apart
_WHOLE_RATES = 100
"""From here on, the rates of a column have no decimals: three digits are more exact than any measured rate."""
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
        case "flops":
            return _flops(values)  # a sum just above a million would leave its rows one digit
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
            return Writing("", _plain_value)


def _plain_value(cell: Cell) -> str:
    """The text of a value without a unit: a text, a boolean, an index.

    >>> _plain_value((0, 5)), _plain_value(True), _plain_value(126), _plain_value("add")
    ('(0,5)', 'yes', '126', 'add')
    """
    match cell:
        case bool():
            return "yes" if cell else "no"
        case tuple():
            return f"({','.join(map(_plain_value, cell))})"
        case Mapping():
            return " ".join(f"{key} {_plain_value(value)}" for key, value in cell.items())
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
            return _plain_value(cell)


def _time_span(column: Column) -> Callable[[Cell], str]:
    def write(cell: Cell) -> str:
        match cell:
            case (int(start), int(end), *_):
                times = (each * column.seconds / column.steps for each in (start, end + 1))
                return "–".join(map(numbers.format_seconds, times))
            case _:
                return _plain_value(cell)

    return write


def _rates(values: Sequence[float], noun: str) -> Writing:
    """Rates with the decimal prefix of the greatest, which has at most four digits before the point."""
    greatest = max(map(abs, values), default=0)
    thousands = numbers.rate_prefix(greatest)
    divisor = 1000**thousands
    decimals = 0 if greatest >= _WHOLE_RATES * divisor else 1
    unit = f"{numbers.RATE_PREFIXES[thousands]}{noun}/s"
    return Writing(unit, _number(lambda n: numbers.format_scaled(n, divisor, decimals)))


def _flops(values: Sequence[float]) -> Writing:
    """Numbers of floating-point operations: counts below a million, else with the prefix of the greatest."""
    greatest = max(map(abs, values), default=0)
    if greatest < _COUNTED_FLOPS:
        return Writing("", _number(lambda n: numbers.format_scaled(n, decimals=1 if n % 1 else 0)))
    thousands = max(numbers.rate_prefix(greatest), _MEGA)
    unit = f"{numbers.RATE_PREFIXES[thousands]}flop"
    return Writing(unit, _number(lambda n: numbers.format_scaled(n, 1000**thousands, 1)))


def _number(text_of: Callable[[int | float], str]) -> Callable[[Cell], str]:
    def write(cell: Cell) -> str:
        number = number_of(cell)
        return _plain_value(cell) if number is None else text_of(number)

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
    if number is not None and column.unit == "flops":
        return numbers.format_flops(round(number))
    if number is not None and column.unit in ("flop/second", "byte/second"):
        return numbers.format_rate(number, "flop" if column.unit == "flop/second" else "B")
    writing = writing_of(column, (cell,))
    sign = "%" if column.unit == "percent" and number is not None else ""
    return cell_text(cell, writing) + sign


# --- widths of columns ---
# Which columns fit the screen, and how wide they are.


GAP = 2  # one blank reads as part of a cell with several words
Widths = Mapping[str, int]

# cells by unit: width before others are dropped for it, width while others are shortened, minimum width
WANTED: Widths = MappingProxyType({"name": 32, "shape": 48, "op_name": 40, "source": 20, "opcode": 24, "span": 30})
FAIR: Widths = MappingProxyType({"name": 20, "shape": 20, "op_name": 24, "source": 20, "opcode": 16, "span": 20})
MIN_WIDTHS: Widths = MappingProxyType({"name": 10, "shape": 9, "op_name": 10, "source": 10, "opcode": 8, "span": 10})
TEXT_WIDTHS = (60, 16, 9)  # the same of texts: a sentence, a few words, a word
SHORTENED_IN_ORDER = (("span",), ("op_name", "source", "opcode", "text"), ("name",), ("shape",))


class Lane(NamedTuple):
    """A column ready to print: header lines from top to bottom, and one entry for each row."""

    column: Column
    header: tuple[str, ...]
    entries: tuple[Entry, ...]
    natural: int

    @property
    def header_width(self) -> int:
        """The width of the header in cells."""
        return max(map(cell_width, self.header), default=0)


def lane_of(column: Column, header: tuple[str, ...], entries: Sequence[Entry]) -> Lane:
    """A lane with its natural width: that of its widest text.

    >>> lane_of(Column("n", "count", "count"), ("count",), (Entry("3"),)).natural
    5
    """
    texts = max((cell_width(entry.lead) + cell_width(entry.text) for entry in entries), default=0)
    return Lane(column, header, tuple(entries), max(texts, max(map(cell_width, header), default=0)))


def fit(lanes: Sequence[Lane], room: int, *, sorted_by: str = "", label: str = "") -> list[tuple[Lane, int]]:
    """The lanes that stay and their widths, together at most `room` cells.

    Columns of low rank are dropped first, then texts, names, and finally shapes are shortened. Numbers, the sort
    column, and the label column are dropped only if no other column is left.

    >>> name, size = Column("name", "", "name"), Column("bytes", "", "bytes")
    >>> lanes = [lane_of(name, (), (Entry("x" * 50),)), lane_of(size, (), (Entry("1,024"),))]
    >>> [width for _, width in fit(lanes, 40)]
    [33, 5]
    """
    staying = list(lanes)
    for leaver in _low_ranks(lanes, sorted_by):
        if _total(_limited(staying, WANTED, TEXT_WIDTHS[0])) <= room:
            break
        staying.remove(leaver)
    for leaver in _last_to_leave(staying, sorted_by, label):
        if _total(_limited(staying, MIN_WIDTHS, TEXT_WIDTHS[2])) <= room:
            break
        staying.remove(leaver)
    widths = _grown(staying, _limited(staying, WANTED, TEXT_WIDTHS[0]), room)
    for floors, text in ((FAIR, TEXT_WIDTHS[1]), (MIN_WIDTHS, TEXT_WIDTHS[2])):
        for units in SHORTENED_IN_ORDER:
            _shrink(staying, widths, room, units, _limited(staying, floors, text))
    if staying and _total(widths) > room:
        widths[-1] = max(1, widths[-1] - (_total(widths) - room))
    return list(zip(staying, widths, strict=True))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _limited(lanes: Sequence[Lane], limits: Widths, text: int) -> list[int]:
    return [
        lane.natural
        if _is_rigid(lane.column)
        else min(lane.natural, max(limits.get(lane.column.unit, text), lane.header_width))
        for lane in lanes
    ]


def _is_rigid(column: Column) -> bool:
    """Whether its texts are never shortened: numbers, ranges, and columns aligned like numbers."""
    return column.is_right_aligned or column.is_numeric or column.unit in ("flag", "change", "range")


def _low_ranks(lanes: Sequence[Lane], sorted_by: str) -> list[Lane]:
    may = [
        (lane.column.rank, -at, lane)
        for at, lane in enumerate(lanes)
        if lane.column.rank < KEEP and not _is_rigid(lane.column) and lane.column.name != sorted_by
    ]
    return [lane for _, _, lane in sorted(may, key=_first_two)]


def _last_to_leave(lanes: Sequence[Lane], sorted_by: str, label: str) -> list[Lane]:
    def reluctance(lane: Lane) -> int:
        if lane.column.name == sorted_by:
            return 3
        return 2 if lane.column.name == label else int(_is_rigid(lane.column))

    may = [(reluctance(lane), lane.column.rank, -at, lane) for at, lane in enumerate(lanes)]
    return [lane for *_, lane in sorted(may, key=lambda each: each[:3])][:-1]


def _first_two(each: tuple[int, int, Lane]) -> tuple[int, int]:
    return each[:2]


def _grown(lanes: Sequence[Lane], widths: list[int], room: int) -> list[int]:
    for at, lane in enumerate(lanes):
        widths[at] += max(0, min(lane.natural - widths[at], room - _total(widths)))
    return widths


def _shrink(lanes: Sequence[Lane], widths: list[int], room: int, units: tuple[str, ...], floors: Sequence[int]) -> None:
    may = [at for at, lane in enumerate(lanes) if lane.column.unit in units]
    for _ in range(_total(widths) - room):
        open_lanes = [at for at in may if widths[at] > floors[at]]
        if not open_lanes:
            return
        widths[max(open_lanes, key=lambda at: widths[at])] -= 1


# --- lanes side by side ---
# Columns ready to print, under their headers and a rule.


Fitted = Sequence[tuple[Lane, int]]


def header_lines(fitted: Fitted, style: Style) -> Iterator[Line]:
    """The names of groups, the names of columns with their units, and the rule below them.

    A last text column without a name has no rule: it holds remarks.
    """
    if any(lane.column.group for lane, _ in fitted):
        yield _row([(_cut(text, width, style), width, True, "quiet") for text, width in _groups(fitted, style)])
    height = max((len(lane.header) for lane, _ in fitted), default=0)
    for line in range(height):
        yield _row([
            (_cut(_header(lane, height, line), width, style), width, lane.column.is_right_aligned, "quiet")
            for lane, width in fitted
        ])  # fmt: skip
    rules = [(style.show("─") * width if _has_rule(fitted, at) else "") for at, (_, width) in enumerate(fitted)]
    yield _row([(rule, width, False, "quiet") for rule, (_, width) in zip(rules, fitted, strict=True)])


def row_line(fitted: Fitted, row: int, style: Style, role: Role | None = None) -> Line:
    """One row; a `role` replaces those of its entries."""
    cells: list[tuple[str, int, bool, Role]] = []
    for lane, width in fitted:
        entry = lane.entries[row]
        text = shortened(lane, entry, width, style)
        cells.append((text, width, lane.column.is_right_aligned, role or entry.role))
    return _row(cells, fitted[0][0].entries[row].lead if fitted else "")


_NAMING = frozenset(("name", "source", "op_name", "page"))
"""Units of texts that name one thing each; of others, such as lists of words, rows may well be alike."""


def apart(lane: Lane, width: int, style: Style) -> Lane:
    """The lane with texts that fit its width, no two of different rows alike if there is room to tell them apart."""
    if lane.natural <= width or lane.column.unit not in _NAMING:
        return lane
    shorten = SHORTENERS.get(lane.column.unit, shorten_text)
    rows = [at for at, entry in enumerate(lane.entries) if not (entry.fixed or entry.lead)]
    texts = shorten_apart([lane.entries[at].text for at in rows], width, shorten, style.dots)
    entries = list(lane.entries)
    for at, text in zip(rows, texts, strict=True):
        entries[at] = entries[at]._replace(text=text)
    return lane._replace(entries=tuple(entries))


def shortened(lane: Lane, entry: Entry, width: int, style: Style) -> str:
    """The text of an entry after its lead, in the cells that its lane has."""
    if lane.natural <= width:
        return entry.lead + entry.text
    lead = shorten_text(entry.lead, width, style.dots)
    shorten = shorten_text if entry.fixed else SHORTENERS.get(lane.column.unit, shorten_text)
    return lead + shorten(entry.text, width - cell_width(lead), style.dots)


def _row(cells: Sequence[tuple[str, int, bool, Role]], lead: str = "") -> Line:
    runs: list[Run] = []
    blanks = 0
    for at, (text, width, right, role) in enumerate(cells):
        fill = pad("", width - cell_width(text))
        blanks += GAP if at else 0
        if not text:
            blanks += width
            continue
        if right:
            blanks += len(fill)
        if blanks:
            runs.append(Run(" " * blanks))
        if not at and lead and text.startswith(lead):
            runs.append(Run(lead, "quiet"))
            text = text.removeprefix(lead)
        runs.append(Run(text, role))
        blanks = 0 if right else len(fill)
    return tuple(runs)


def _cut(text: str, width: int, style: Style) -> str:
    return shorten_text(text, width, style.dots)


def _header(lane: Lane, height: int, line: int) -> str:
    at = line - (height - len(lane.header))
    return lane.header[at] if at >= 0 else ""


def _has_rule(fitted: Fitted, at: int) -> bool:
    lane, _ = fitted[at]
    return bool(any(lane.header)) or lane.column.is_numeric or at < len(fitted) - 1


def _groups(fitted: Fitted, style: Style) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(fitted):
        end, group = at + 1, fitted[at][0].column.group
        while group and end < len(fitted) and fitted[end][0].column.group == group:
            end += 1
        yield style.show(group), sum(width for _, width in fitted[at:end]) + GAP * (end - at - 1)
        at = end
