"""What do the figures of a text without a known form say? Arrays, rows of tables, sizes with names, shares of limits,
meshes, numbers of parameters, series, and gaps of a log.

Only what follows is computed: a shape has bytes if its type stands with it, axes have a product if they are those of
a mesh. Numbers without such a meaning stay alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from hlo_cli.commands.prints.shape_text import bytes_of_shape
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.type_names import xla_type
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from

_LONGEST: Final = 1 << 18  # a table or a log that is pasted is shorter; of a longer one the first part is read


def figures_report(pasted: PastedText) -> Report | None:
    """The report on the first kind of figures that a text has, the most certain kinds first; None if it has none."""
    readers = (_arrays_report, _mesh_report, _shares_report, _table_report, _sizes_report, _parameters_report)
    found = next((report for reader in readers if (report := reader(pasted)) is not None), None)
    return found or _series_report(pasted) or _log_report(pasted)


# --- arrays: a shape and a type on one line ---

_LISTED_SHAPE: Final = lazy_regex(
    r"(?:Size\(|[Ss]hape ?[=:]? ?|(?<![\w)\]]))[(\[](?P<sizes>\d{1,12}(?:, ?\d{1,12}){0,8}),?[)\]]"
)
_LISTED_TYPE: Final = lazy_regex(
    r"(?<![\w.])(?:(?:torch|np|numpy|jnp|tf|dtype)[.(]{1,2}['\"]?)?"
    r"(?P<type>b?float\d{1,2}(?:_e\dm\d\w{0,4})?|u?int\d{1,2}|bool|complex\d{2,3}|bf16|f(?:16|32|64)|[su](?:8|16"
    r"|32|64)|pred)"
    r"(?![\w\[.])"
)
_LINE_NAME: Final = lazy_regex(r"[ \t|*\-]{0,12}(?P<name>[A-Za-z_][\w./\[\]'\-]{0,120})")


class _Array(NamedTuple):
    """An array of a list: its name, if it has one, and its shape."""

    name: str
    shape: str
    bytes: int


def _arrays_report(pasted: PastedText) -> Report | None:
    """The report on a list of arrays: lines that have one shape and one type each, and little else.

    One array is a list only if the text is nothing else: one shape in a log or a sentence is not what that is about.
    """
    lines = (pasted.given or pasted.text)[:_LONGEST].split("\n")
    arrays = [array for line in lines if (array := _array_on(line)) is not None]
    others = sum(bool(line.strip()) for line in lines) - len(arrays)
    is_alone = len(arrays) == 1 and not others and not arrays[0].name
    if not is_alone and (len(arrays) < _LEAST_ARRAYS or others > _MOST_OTHER_LINES):
        return None
    total = sum(array.bytes for array in arrays)
    largest = max(arrays, key=lambda array: array.bytes)
    columns = (
        Column("bytes", "size", "bytes", total="sum", of=lambda array: array.bytes),
        Column("shape", "shape", "shape", of=lambda array: array.shape),
        Column("name", "array", "name", role="name", of=lambda array: array.name or None),
    )
    words = f"the largest is {f'{largest.name} {largest.shape}'.strip()}, {format_bytes(largest.bytes)}"
    words = largest.shape if is_alone else words
    return text_report(
        pasted,
        f"{format_count(len(arrays), 'arrays')}, {format_bytes(total)}: {words}",
        tables=()
        if is_alone
        else (
            Table("listed_arrays", columns, rows_from(columns, sorted(arrays, key=_by_size)), noun="arrays", limit=20),
        ),
        advice=("The sizes are without padding: `hlo layout SHAPE` shows what a TPU adds.",),
        numbers={"arrays": len(arrays), "bytes": total},
        next=(f"hlo layout '{largest.shape}'",),
    )


_LEAST_ARRAYS: Final = 2  # one line is a mention; a list starts with the second
_MOST_OTHER_LINES: Final = 3  # a head, a rule below it, and a total; a log that names shapes has more


def _by_size(array: _Array) -> int:
    return -array.bytes


def _array_on(line: str) -> _Array | None:
    """The array that a line is about; None if it has several shapes, several types, or none.

    >>> _array_on("| wk | (4096, 1024) | bfloat16 |")
    _Array(name='wk', shape='bf16[4096,1024]', bytes=8388608)
    >>> _array_on("torch.Size([2, 8]) torch.float32"), _array_on("(2, 3) and (4, 5) of float32")
    (_Array(name='', shape='f32[2,8]', bytes=64), None)
    >>> _array_on("INFO: the batch of step 3 has (2, 3) float32 values")
    """
    shapes, types = list(_LISTED_SHAPE.finditer(line)), list(_LISTED_TYPE.finditer(line))
    if len(shapes) != 1 or len({match["type"] for match in types}) != 1 or len(line) > _LONGEST_LINE:
        return None
    rest = _LISTED_TYPE.sub(" ", line[: shapes[0].start()] + " " + line[shapes[0].end() :])
    if len(_WORD.findall(rest)) > _MOST_WORDS:
        return None
    element = xla_type(types[0]["type"]) or types[0]["type"]
    shape = f"{element}[{shapes[0]['sizes'].replace(' ', '')}]"
    size = bytes_of_shape(shape)
    if size is None:
        return None
    before = line[: min(shapes[0].start(), types[0].start())]
    name = _LINE_NAME.match(before)
    words = name["name"].rstrip(".") if name else ""
    return _Array("" if words.lower() in _NO_ARRAYS else words, shape, size)


_LONGEST_LINE: Final = 300  # prose has longer ones
_WORD: Final = lazy_regex(r"[A-Za-z][\w./\[\]'\-]*")
_MOST_WORDS: Final = 4  # a name, "shape", "dtype", and a unit; a sentence has more
_NO_ARRAYS: Final = frozenset(("shape", "torch.size", "torch", "tensor", "array", "dtype", "tensor.shape", "a", "the"))


# --- axes of a mesh ---

_MESH_AXIS: Final = lazy_regex(
    r"\b(?P<name>(?:ici|dcn)_\w{1,30}_parallelism|(?:tensor|pipeline|data|expert|context"
    r"|sequence)(?:_model)?[_\-]parallel"
    r"[_\-]size|--(?:tp|pp|dp|ep)(?:-size)?)\b['\"]?\s{0,3}[:= ]\s{0,3}(?P<size>-?\d{1,6})\b"
)
_MESH_BLOCK: Final = lazy_regex(
    r"^[ \t]{0,12}['\"]?(?:\w{1,20}_)?mesh(?:_shape|_config"
    r"|_axes)?['\"]?\s{0,3}[:=]\s{0,3}\{?\s*(?P<axes>(?:['\"]?[a-z]\w{0,20}['\"]?\s{0,3}"
    r"[:=]\s{0,3}\d{1,6}[,\s]{1,20}){1,11}['\"]?[a-z]\w{0,20}['\"]?\s{0,3}[:=]\s{0,3}\d{1,6})\s*\}?",
    re.MULTILINE,
)
_AXIS_SIZE: Final = lazy_regex(r"['\"]?(?P<name>[a-z]\w{0,20})['\"]?\s{0,3}[:=]\s{0,3}(?P<size>\d{1,6})")


def _mesh_report(pasted: PastedText) -> Report | None:
    """The report on the axes of a mesh in a configuration, whose product is the number of devices."""
    text = pasted.text[:_LONGEST]
    block = _MESH_BLOCK.search(text)
    found = list(_AXIS_SIZE.finditer(block["axes"])) if block is not None else list(_MESH_AXIS.finditer(text))
    axes = {match["name"].lstrip("-"): int(match["size"]) for match in found}
    if len(axes) < 2 or (block is None and len(axes) > _MOST_AXES):
        return None
    product = prod(size for size in axes.values() if size > 0)
    rest = [name for name, size in axes.items() if size < 0]
    listed = ", ".join(f"{name} {size}" for name, size in axes.items() if size > 1) or "all axes are 1"
    words = (
        f"a multiple of {product:,} devices; {' and '.join(rest)} takes the rest"
        if rest
        else format_count(product, "devices")
    )
    return text_report(
        pasted,
        f"A mesh of {words}: {listed}",
        means=("A dimension that is sharded along axes is divided by the product of their sizes.",),
        advice=("`hlo shard SHAPE --mesh AXIS=SIZE,… --sharding SPEC` shows what each device holds of an array.",),
        numbers={"axes": len(axes), "devices": product},
        next=("hlo help sharding",),
    )


_MOST_AXES: Final = 24  # MaxText has two lists of a dozen


# --- shares of a limit ---

_SHARE: Final = lazy_regex(
    r"(?P<name>[A-Za-z][\w.\-]{0,40}(?: [A-Za-z]\w{0,20}){0,3}?)[\s:='\"]{1,4}(?P<used>\d{1,9}(?:\.\d{1,6})?) "
    r"?(?P<unit>[KMGT]i?B)?"
    r" ?(?:/|out of|of) ?(?P<limit>\d{1,9}(?:\.\d{1,6})?) ?(?P<limit_unit>[KMGT]i?B)(?![\w/])"
)


def _shares_report(pasted: PastedText) -> Report | None:
    """The report on a size of a limit, such as mem=71.2GiB/80GiB; of a log, on the largest."""
    found = [
        (
            match["name"].strip(),
            _sized(match["used"], match["unit"] or match["limit_unit"]),
            _sized(match["limit"], match["limit_unit"]),
        )
        for match in _SHARE.finditer(pasted.text[:_LONGEST])
    ]
    found = [each for each in found if each[1] > 0 and each[2]]
    if not found:
        return None
    name, used, limit = max(found, key=lambda each: each[1] / each[2])
    same = [each[1] for each in found if each[0] == name]
    values = f"; {len(same)} values from {format_bytes(min(same))} on" if len(same) > 1 else ""
    left = f"{format_bytes(limit - used)} free" if used <= limit else f"{format_bytes(used - limit)} over"
    return text_report(
        pasted,
        f"{name} is {'at most ' if len(same) > 1 else ''}{format_bytes(used)} of {format_bytes(limit)} "
        f"({format_percent(used / limit)}%), {left}{values}",
        advice=("With a dump, `hlo memspace DUMP` shows which arrays need this memory, and when.",),
        numbers={"used_bytes": used, "limit_bytes": limit, "values": len(same)},
        next=("hlo help memory",),
    )


def _sized(number: str, unit: str) -> int:
    return int(float(number) * _UNIT.get(unit, 1.0))


# --- numbers of parameters ---

_PARAMETERS: Final = lazy_regex(
    r"(?<![\w.])(?P<count>\d{1,6}(?:\.\d{1,4})?) ?(?P<unit>[BM]|[bm]illion)(?: \w{1,20}){0,2} param(?:eter)?s?\b"
)
_STATED_TYPE: Final = lazy_regex(
    r"\b(?:in|as|dtype|of)\b[ =:]{1,3}(?P<type>bf16|bfloat16|fp?16|float16|fp?32|float32|fp?8|int8|int4)\b"
)
_WIDTHS: Final = {"32": 32, "16": 16, "8": 8, "4": 4}


def _parameters_report(pasted: PastedText) -> Report | None:
    """The report on a number of parameters in a short text: what they need in the type that the text names."""
    text = pasted.text
    match = _PARAMETERS.search(text)
    if match is None or len(text) > _SHORT_TEXT:
        return None
    count = float(match["count"]) * (1e9 if match["unit"].lower().startswith("b") else 1e6)
    stated = _STATED_TYPE.search(text)
    types = [stated["type"]] if stated else ["f32", "bf16"]
    needs = [f"{format_bytes(int(count * _WIDTHS[re.findall(r'[0-9]+', each)[0]] / 8))} in {each}" for each in types]
    return text_report(
        pasted,
        f"{match['count']}{match['unit'][0].upper()} parameters need {' and '.join(needs)}",
        means=(
            "Training needs more: gradients of the same size, and with Adam two more values a parameter, usually f32.",
        ),
        advice=("With a dump, `hlo memspace DUMP` shows what the program needs on each device.",),
        numbers={"parameters": int(count)},
        next=("hlo help memory",),
    )


_SHORT_TEXT: Final = 2000  # a sentence or a summary; of a longer text the number is not what it is about


# --- series: the same keys in several lines ---

_KEY_VALUE: Final = lazy_regex(
    r"(?<![\w./])(?P<key>[A-Za-z][\w/.\-]{0,40})['\"]?\s?[=:]\s?"
    r"(?P<value>-?\d[\d,]*(?:\.\d+)?(?:[eE][+\-]?\d{1,3})?)(?![\w.:\-/])"
)
_LEAST_KEYS: Final = 2  # one key is a word with a colon before a number
_COUNTERS: Final = frozenset(("step", "iter", "iteration", "epoch", "global_step", "batch", "it"))


def _series_report(pasted: PastedText) -> Report | None:
    """The report on lines with the same keys: how each value went from the first line to the last."""
    lines = (pasted.given or pasted.text)[:_LONGEST].split("\n")
    rows = [
        dict(pairs)
        for line in lines
        if len(pairs := [(m["key"], m["value"]) for m in _KEY_VALUE.finditer(line)]) >= _LEAST_KEYS
    ]
    if len(rows) < _FEWEST_ROWS:
        return None
    keys = [key for key in rows[0] if all(key in row for row in rows)]
    values = {key: [float(row[key].replace(",", "")) for row in rows] for key in keys}
    counter = next((key for key in keys if key.lower() in _COUNTERS), None)
    if counter is None or len(keys) < _LEAST_KEYS:
        return None
    changed = [key for key in keys if key != counter and len(set(values[key])) > 1]
    if not changed:
        return None
    columns = (
        Column("key", "value", "name", role="name", of=lambda key: key),
        Column("first", "first", of=lambda key: rows[0][key]),
        Column("last", "last", of=lambda key: rows[-1][key]),
        Column("least", "least", of=lambda key: _extreme(rows, key, least=True)),
        Column("most", "most", of=lambda key: _extreme(rows, key, least=False)),
    )
    listed = ", ".join(f"{key} {rows[0][key]} → {rows[-1][key]}" for key in changed[:4])
    return text_report(
        pasted,
        f"{format_count(len(rows), 'lines')}, {counter} {rows[0][counter]} to {rows[-1][counter]}: {listed}",
        tables=(Table("series", columns, rows_from(columns, [key for key in keys if key != counter]), noun="values"),),
        advice=(
            "Times of steps are compared by `hlo profile TRACE`; a log with step times is answered with their median.",
        ),
        numbers={"lines": len(rows), "keys": len(keys)},
    )


def _extreme(rows: Sequence[dict[str, str]], key: str, *, least: bool) -> str:
    ordered = sorted((row[key] for row in rows), key=lambda text: float(text.replace(",", "")))
    return ordered[0 if least else -1]


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


_OF_PROGRAMS: Final = lazy_regex(
    r"bytes|memory|\bmem\b|[mg]i?b\b|flop|param|hbm|kernel|\bop\b|op_name|instruction", re.IGNORECASE
)
"""Heads of tables of programs: values with commas may be a table of anything."""


def _table(lines: Sequence[str]) -> tuple[list[str], list[list[str]]] | None:
    """The head and the rows of the first table: lines with the same number of cells, one of which is a number."""
    for at, line in enumerate(lines[:-_FEWEST_ROWS]):
        head = _cells(line)
        if len(head) < 2 or any(_number(cell) is not None for cell in head):
            continue
        if "," in line and len(head) == line.count(",") + 1 and not _OF_PROGRAMS.search(line):
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


_COMMAS: Final = lazy_regex(r"[\w.%#/ ()\-]{1,60}(?:,[\w.%#/ ()\-+]{0,80}){1,40}")


def _cells(line: str) -> list[str]:
    line = line.strip()
    if _COMMAS.fullmatch(line) and ", " not in line and "  " not in line:
        return [cell.strip() for cell in line.split(",")]
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
    r"(?P<name>[A-Za-z][\w\-./]{0,60}(?: [A-Za-z][\w\-./]{0,40}){0,5}?)['\"]? *+(?:[:=]|\bis\b|\bof\b)? *+['\"]?"
    r"(?P<size>\d{1,12}(?:[.,]\d{1,6})*) ?(?P<unit>[KMGT]i?B|bytes|B)(?![\w/])"
)
_SIZE_WITH_NAME: Final = lazy_regex(
    r"(?<![\w.,=:])(?<![=:] )(?P<size>\d{1,12}(?:[.,]\d{1,6})*) ?(?P<unit>[KMGT]i?B) "
    r"(?P<name>used|free|available|reserved|allocated|in use)\b"
)
"""A size before its word, as in 3.6 GB free."""
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
    after = {match.start("size"): match for match in _SIZE_WITH_NAME.finditer(text)}
    for match in after.values():
        yield _Size(match["name"].lower(), _sized(match["size"].replace(",", ""), match["unit"]))
    for match in _NAMED_SIZE.finditer(text):
        if match.start("size") in after or any(
            each.start() < match.end() and match.start() < each.end() for each in after.values()
        ):
            continue
        name = match["name"].strip(" -_/").lower()
        if name and name.rsplit(" ", 1)[-1] not in _NO_NAMES:  # as in "hosts with 16 GB", whose size has no name
            factor = _UNIT.get(match["unit"], 1.0)
            yield _Size(name, int(float(match["size"].replace(",", "")) * factor))


_NO_NAMES: Final = frozenset("a the of is to and by only about than at in for or with each have has are from".split())


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
