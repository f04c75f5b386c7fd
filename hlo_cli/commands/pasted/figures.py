"""What do the figures of a text without a known form say? Rows of a table, sizes with names, gaps of a log."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from

_LONGEST: Final = 1 << 18  # a table or a log that is pasted is shorter; of a longer one the first part is read


def figures_report(pasted: PastedText) -> Report | None:
    """The report on a table, on sizes with names, or on the times of a log; None if the text has none of them."""
    return _table_report(pasted) or _sizes_report(pasted) or _log_report(pasted)


# --- tables ---

_NUMBER: Final = lazy_regex(
    r"-?\d[\d,]*(?:\.\d+)?(?:[eE][+\-]?\d{1,3})?(?= ?(?:%|[KMGT]i?B|B|ms|us|µs|ns|s|x|k|K|M|G|T)?$)"
)
_UNIT: Final = {
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    **{f"{letter}B": 1000.0**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024.0**power for power, letter in enumerate("KMGT", 1)},
}
_WANTED: Final = (
    *("self time", "total time", "time", "duration", "latency", "dur", "ms", "us", "ns", "sec"),
    *("bytes", "memory", "mem", "size", "mib", "gib", "mb", "gb", "hbm"),
    *("flop", "param", "count", "calls", "occurrences", "num", "#", "%"),
)
"""Heads of columns by what people sort a table by, the first first."""
_TIMED: Final = lazy_regex(r"\d ?(?:ms|us|µs|ns|s)$")
_TOTAL: Final = lazy_regex(r"^(?:total|sum|all|overall)(?: \([^)]*\))?$", re.IGNORECASE)
_FEWEST_ROWS: Final = 2  # one row is a line of prose with wide gaps


class _Row(NamedTuple):
    """A row of a table: its name, the cell of the column that it is sorted by, and its number."""

    name: str
    cell: str
    number: float


def _table_report(pasted: PastedText) -> Report | None:
    # lines that a terminal wrapped are joined in `text`, which takes a table for one of them
    texts = (each[:_LONGEST].split("\n") for each in (pasted.given, pasted.text))
    found = next((table for lines in texts if (table := _table(lines)) is not None), None)
    if found is None:
        return None
    head, rows = found
    names = _column_of_names(rows)
    column = _column_of_numbers(head, rows, names)
    if column is None:
        return None
    listed = [
        _Row(row[names], row[column], number)
        for row in rows
        if (number := _number(row[column])) is not None and not _TOTAL.match(row[names])
    ]
    if len(listed) < _FEWEST_ROWS:
        return None
    listed.sort(key=lambda row: -row.number)
    total = sum(row.number for row in listed)
    title = head[column] or f"column {column + 1}"
    is_additive = (
        total > 0 and min(row.number for row in listed) >= 0 and "%" not in title and "avg" not in title.lower()
    )
    share = f", {format_percent(listed[0].number / total)}% of the sum" if is_additive else ""
    columns = (
        Column("value", title, of=lambda row: row.cell),
        Column("share", "share", "percent", of=lambda row: row.number / total if is_additive else None),
        Column("name", head[names] or "row", "name", role="name", of=lambda row: row.name),
    )
    return text_report(
        pasted,
        f"A table of {format_count(len(listed), 'rows')}: the largest by {title} is {listed[0].name}, "
        f"{listed[0].cell}{share}",
        tables=(Table("table_rows", columns, rows_from(columns, listed), noun="rows", limit=20),),
        advice=(
            "Names of instructions are explained by `hlo parse DUMP --explain NAME`, with their time by `hlo profile`.",
        ),
        numbers={"rows": len(listed), "largest": listed[0].name, "value": listed[0].number},
    )


def _table(lines: Sequence[str]) -> tuple[list[str], list[list[str]]] | None:
    """The head and the rows of the first table: lines with the same number of cells, one of which is a number."""
    for at, line in enumerate(lines[:-_FEWEST_ROWS]):
        head = _cells(line)
        if len(head) < 2 or any(_number(cell) is not None for cell in head):
            continue
        rows = list[list[str]]()
        for each in lines[at + 1 :]:
            if not each.strip(" |+-=─│┼\t"):
                continue
            cells = _cells(each)
            if len(cells) != len(head):
                break
            rows.append(cells)
        if len(rows) >= _FEWEST_ROWS and any(_number(cell) is not None for cell in rows[0]):
            return head, rows
    return None


def _cells(line: str) -> list[str]:
    line = line.strip()
    if line.count("|") > 1 or line.count("│") > 1:
        return [cell.strip() for cell in re.split(r"[|│]", line.strip("|│"))]
    return [cell.strip() for cell in re.split(r" {2,}|\t+", line)]


def _number(cell: str) -> float | None:
    match = _NUMBER.match(cell)
    if match is None:
        return None
    return float(match[0].replace(",", "")) * _UNIT.get(cell[match.end() :].strip(), 1.0)


def _column_of_names(rows: Sequence[Sequence[str]]) -> int:
    """The first column that is no number in any row; the first one without such."""
    return next((at for at in range(len(rows[0])) if all(_number(row[at]) is None for row in rows)), 0)


def _column_of_numbers(head: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> int | None:
    numeric = [at for at in range(len(head)) if at != names and all(_number(row[at]) is not None for row in rows)]
    if not numeric:
        return None
    ranks = {
        at: next((rank for rank, word in enumerate(_WANTED) if word in head[at].lower()), len(_WANTED))
        for at in numeric
    }
    for at in numeric:  # the unit of a cell tells what its head may not
        if all(_TIMED.search(row[at]) for row in rows):
            ranks[at] = min(ranks[at], _WANTED.index("time"))
    best = min(numeric, key=lambda at: ranks[at])
    return best if ranks[best] < len(_WANTED) else None  # numbers of jobs and codes are not what a table is about


# --- sizes with names ---

_NAMED_SIZE: Final = lazy_regex(
    r"(?P<name>[A-Za-z][\w\-./]{0,60}(?: [A-Za-z][\w\-./]{0,40}){0,5}?) *+(?:[:=]|\bis\b|\bof\b)? *+"
    r"(?P<size>\d{1,12}(?:[.,]\d{1,6})*) ?(?P<unit>[KMGT]i?B|bytes|B)(?![\w/])"
)
_WHOLE: Final = lazy_regex(r"\b(?:total|peak|limit|capacity|available|free|max(?:imum)?|budget)\b", re.IGNORECASE)
_MOST_SIZES: Final = 40  # a log repeats its sizes
_NEAR: Final = 0.02  # sizes in logs are rounded to two or three digits


class _Size(NamedTuple):
    """A size with the words before it."""

    name: str
    bytes: int


def _sizes_report(pasted: PastedText) -> Report | None:
    sizes = list(dict.fromkeys(_sizes(pasted.text[:_LONGEST])))[:_MOST_SIZES]
    if len({size.name for size in sizes}) < _FEWEST_ROWS:
        return None
    largest = max(sizes, key=lambda size: size.bytes)
    columns = (
        Column("bytes", "size", "bytes", of=lambda size: size.bytes),
        Column("name", "of", "name", of=lambda size: size.name),
    )
    whole = next((size for size in sizes if _WHOLE.search(size.name)), None)
    parts = [size for size in sizes if whole is not None and size is not whole and size.bytes < whole.bytes]
    is_sum = whole is not None and parts and abs(sum(size.bytes for size in parts) - whole.bytes) < _NEAR * whole.bytes
    listed = ", ".join(f"{size.name} {format_bytes(size.bytes)}" for size in (parts if is_sum else sizes)[:4])
    answer = (
        f"{whole.name} {format_bytes(whole.bytes)}: {listed}"
        if is_sum and whole is not None
        else f"{format_count(len(sizes), 'sizes')}: {listed}; the largest is {largest.name}"
    )
    return text_report(
        pasted,
        answer[0].upper() + answer[1:],
        tables=(Table("named_sizes", columns, rows_from(columns, sizes), noun="sizes", limit=20),),
        advice=("With a dump, `hlo memspace DUMP` shows which arrays need this memory, and when.",),
        numbers={"sizes": len(sizes), "largest_bytes": largest.bytes},
        next=("hlo help memory",),
    )


def _sizes(text: str) -> Iterator[_Size]:
    for match in _NAMED_SIZE.finditer(text):
        name = match["name"].strip(" -_/").lower()
        if name and name not in _NO_NAMES:
            factor = _UNIT.get(match["unit"], 1.0)
            yield _Size(name, int(float(match["size"].replace(",", "")) * factor))


_NO_NAMES: Final = frozenset("a the of is to and by only about than at in for or".split())


# --- times of a log ---

_STAMP: Final = lazy_regex(
    r"^.{0,40}?(?P<day>\d{4}-\d\d-\d\d[T ]|[IWEF]\d{4} )"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?)",
    re.MULTILINE,
)
_DAY: Final = 86_400  # seconds; a log goes on after midnight
_SHORTEST_GAP: Final = 10.0  # seconds; a program that starts is silent for some
_LONG_GAP: Final = 0.3  # of the whole: where a log is silent for so long, the time was spent


def _log_report(pasted: PastedText) -> Report | None:
    """The report on the longest time between two lines of a log; None for a log of two lines at one time."""
    text = (pasted.given or pasted.text)[:_LONGEST]
    stamps = list(_STAMP.finditer(text))
    if len(stamps) < _FEWEST_ROWS:
        return None
    times = list[float]()
    for match in stamps:
        time = int(match["hour"]) * 3600 + int(match["minute"]) * 60 + float(match["second"].replace(",", "."))
        times.append(time + _DAY if times and time < times[0] - _DAY / 2 else time)
    whole = times[-1] - times[0]
    gaps = [(later - sooner, at) for at, (sooner, later) in enumerate(itertools.pairwise(times))]
    gap, at = max(gaps)
    if whole <= 0 or gap < max(_SHORTEST_GAP, _LONG_GAP * whole):
        return None
    before, after = (_line_at(text, stamps[place].start()) for place in (at, at + 1))
    return text_report(
        pasted,
        f"A log of {format_seconds(whole)}; the longest time between lines is {format_seconds(gap)}, after: {before}",
        means=(f"The next line is: {after}",),
        advice=(
            (
                "What ran in between is not in the log. For the compiler, `hlo FILE` reads logs of JAX_LOG_COMPILES=1; "
                "for a "
                "program, record a trace and run `hlo profile DIR`."
            ),
        ),
        numbers={"seconds": whole, "longest_gap_seconds": gap},
        next=("hlo help profiles",),
    )


def _line_at(text: str, start: int) -> str:
    from hlo_cli.syntax.compiler_messages.message_facts import sentence_of  # most texts are no logs

    end = text.find("\n", start)
    return sentence_of(" ".join(text[start : end if end >= 0 else len(text)].split()))
