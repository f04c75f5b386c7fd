"""Tables of comma-separated values that profilers write: which profiler's, and their rows with columns by name."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

MAX_PREAMBLE: Final = 50
"""The most lines before the header; nsys writes what it does there."""
_LONGEST_CELL: Final = 1 << 20
_PIECE: Final = 1 << 20
_PS: Final = {"ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
_UNIT: Final = re.compile(r"(.*) \(([^()]{1,20})\)")
_HEADERS: Final[tuple[tuple[Literal["nsys", "rocprof"], frozenset[str]], ...]] = (
    ("nsys", frozenset(("name", "projected start", "projected duration"))),
    ("nsys", frozenset(("start", "duration", "device", "strm", "name"))),
    ("rocprof", frozenset(("kernel_name", "start_timestamp", "end_timestamp"))),
    ("rocprof", frozenset(("name", "calls", "totaldurationns"))),
    ("rocprof", frozenset(("kernelname", "beginns", "endns"))),
)
"""By profiler, columns that tell its tables from others."""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table: names in lower case, and the picoseconds of those that are times."""

    columns: Mapping[str, int]
    picoseconds: Mapping[str, int]


def table_kind(head: bytes) -> Literal["nsys", "rocprof"] | None:
    """Whose table a file is that begins with these bytes; None if it is no table of a profiler.

    >>> table_kind(b'"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"')
    'rocprof'
    """
    if b"," not in head:
        return None
    lines = head.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:MAX_PREAMBLE]
    return next((kind for line in lines if (kind := _kind_of(line)) is not None), None)


def _kind_of(line: str) -> Literal["nsys", "rocprof"] | None:
    names = _header(line).columns.keys() if "," in line else set[str]()
    return next((kind for kind, columns in _HEADERS if columns <= names), None)


def read_table(data: Buffer) -> tuple[Header, Iterator[Sequence[str]]]:
    """The header of a table, and its rows; rows that are too short have empty cells at their end.

    Lines before the header are skipped; ValueError if there is no header.
    """
    lines = _lines(data)
    for _, line in zip(range(MAX_PREAMBLE), lines, strict=False):
        if _kind_of(line) is not None:
            header = _header(line)
            width = max(header.columns.values()) + 1
            return header, _rows(lines, width)
    raise ValueError


def _rows(lines: Iterator[str], width: int) -> Iterator[Sequence[str]]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        for row in csv.reader(lines):
            if row:
                yield row + [""] * (width - len(row))
    except csv.Error as error:
        raise ValueError(error) from None


def picoseconds(text: str, unit_ps: int) -> int | None:
    """A time in picoseconds; None if the cell is no number.

    >>> picoseconds("10758298", 1000), picoseconds("1.5", 1000), picoseconds("", 1000)
    (10758298000, 1500, None)
    """
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text) * unit_ps
    try:
        number = Decimal(text.replace(",", ""))
        return int((number * unit_ps).to_integral_value()) if abs(number) < 1 << 64 else None
    except InvalidOperation:
        return None


def _header(line: str) -> Header:
    columns: dict[str, int] = {}
    times: dict[str, int] = {}
    for at, cell in enumerate(next(csv.reader([line]), [])):
        found = _UNIT.fullmatch(cell.strip())
        name = (found[1] if found else cell).strip().lower()
        columns.setdefault(name, at)
        times.setdefault(name, _PS.get(found[2], 1000) if found else 1000)
    return Header(columns, times)


def _lines(data: Buffer) -> Iterator[str]:
    """The lines of a file, decoded a piece at a time; lone carriage returns and NULs are white space."""
    at, rest = 0, b""
    while at < len(data):
        rest += data[at : at + _PIECE]
        at += _PIECE
        *lines, rest = rest.split(b"\n")
        for line in lines:
            yield _clean(line) + "\n"
        if len(rest) > _LONGEST_CELL:
            raise ValueError
    if rest:
        yield _clean(rest)


def _clean(line: bytes) -> str:
    return line.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r", "").replace("\0", " ")
