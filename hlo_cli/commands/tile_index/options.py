"""Which elements or positions does a command line look up, and how? The options, and the places."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from hlo_cli.commands.options.declaring import flag, option
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

# --- options ---


@dataclass(frozen=True, slots=True)
class TileIndexOptions:
    """Options for the elements."""

    inverse: bool = flag(
        "--inverse",
        group="Reports",
        is_common=True,
        help="Map linear indices (or byte offsets, with --bytes) back to elements.",
    )
    everything: bool = flag(
        "--all", group="Reports", is_common=True, help="Map every element, or every memory position with --inverse."
    )
    explain: bool = flag("--explain", group="Reports", is_common=True, help="Show the computation step by step.")
    draw: bool = flag("--draw", group="Reports", is_common=True, help="Draw the array with the given elements marked.")
    verify: bool = flag(
        "--verify",
        group="Reports",
        is_common=True,
        help="Check the index map against an explicit pad, reshape, and transpose.",
    )
    as_bytes: bool = flag(
        "--bytes",
        group="Addresses",
        is_common=True,
        help="Use byte offsets instead of linear indices in --inverse and .npy files.",
    )
    base: str = option(
        "--base", "ADDRESS", group="Addresses", is_common=True, default="0", help="Set the base address of the buffer."
    )

    @property
    def address(self) -> int:
        """The address at which the buffer begins, in bytes; HloError if `base` does not fit 64 bits.

        >>> TileIndexOptions(base="0x1000").address
        4096
        """
        from hlo_cli.syntax.scanning.scanner import int64

        with suppress(ValueError):
            if (address := int64(self.base.replace("_", ""), 0)) is not None and address >= 0:
                return address
        raise HloError(
            f"invalid value '{self.base[:40]}' for --base: expected a 64-bit address", hint="for example 4096 or 0x1000"
        )

    @property
    def picture(self) -> str:
        """The given option that shows more than a table of indices; empty if none is given."""
        given = {"--explain": self.explain, "--draw": self.draw, "--verify": self.verify}
        return next((name for name, is_given in given.items() if is_given), "")


# --- elements and positions ---
# Elements or positions to look up: on the command line, in files, on standard input, or all of them.


_Query = TypeVar("_Query")

Reader = Callable[[str, str, int], _Query]
"""Parses one query; the other arguments are the name of its file, and its line there."""


def read_queries(arguments: Sequence[str], read: Reader[_Query], fields: Sequence[str]) -> list[_Query]:
    """Queries in the arguments, in order: texts, names of files with one query per line, or `-`.

    A line is a query as on the command line, or a JSON list, number, or record; of a record, and under a header
    line, the first of `fields` that exists is used. A .npy file has one query per row. Files may be compressed.
    """
    queries: list[_Query] = []
    for argument in arguments:
        # a file named like a number does not hide that number
        if argument == "-" or (os.path.isfile(argument) and not argument.lstrip("-").isdecimal()):
            name, data = _bytes_of(argument)
            queries.extend(read(text, name, line) for line, text in _texts_of(data, name, fields))
        # no index looks like this
        elif argument.endswith((".csv", ".tsv", ".json", ".jsonl", ".npy", ".txt")) or os.sep in argument:
            from hlo_cli.inputs.files import missing

            raise missing(argument)
        else:
            queries.append(read(argument, "", 1))
    return queries


def _bytes_of(argument: str) -> tuple[str, bytes]:
    """The name and the decompressed bytes of a file, or of standard input for `-`."""
    from hlo_cli.inputs.files import (
        MAX_FILE_BYTES,
        STDIN,
        read_bounded,
        read_bytes,
        unreadable,
    )
    from hlo_cli.inputs.forms import MAXIMUM_BYTES, decompress

    if argument == "-":
        return STDIN, decompress(read_bounded(sys.stdin.buffer, STDIN, MAXIMUM_BYTES), STDIN)
    try:
        return argument, decompress(read_bytes(argument, limit=MAX_FILE_BYTES), argument)
    except OSError as error:
        raise unreadable(argument, error) from None


def _texts_of(data: bytes, name: str, fields: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The queries of a file with their line numbers."""
    if data.startswith(b"\x93NUMPY"):
        from hlo_cli.analysis.layout.relayout import integers_of

        rows = integers_of(data, name)
        if rows.ndim not in (1, 2):
            raise HloError(f"{name} has {rows.ndim} dimensions; expected a 1-D or 2-D array with one index per row")
        yield from enumerate((_joined(row if rows.ndim > 1 else [row]) for row in rows.tolist()), start=1)
        return
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise HloError(f"{name}: expected text or .npy") from None
    column: int | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if number == 1 and (header := _header_fields(text)) is not None:
            column = next((header.index(field) for field in fields if field in header), None)
            continue
        if not text or text.startswith("#"):
            continue
        if text[0] in "[{":
            yield from ((number, value) for value in _of_json(text, f"{name}:{number}", fields))
        else:
            yield number, _query_of_line(text, column, f"{name}:{number}")


def _header_fields(line: str) -> list[str] | None:
    names = line.removeprefix("#").replace("\t", ",").split(",")
    # an index begins with a digit, a sign, or a bracket
    return [name.strip() for name in names] if names[0].strip().replace("_", "").isalpha() else None


def _query_of_line(text: str, column: int | None, place: str) -> str:
    if column is None:
        return text.replace("\t", ",").replace(";", ",").strip('"')
    import csv

    try:
        return next(csv.reader([text], delimiter="\t" if "\t" in text else ","))[column]
    except (csv.Error, IndexError):
        raise HloError(f"{place}: missing column {column + 1}") from None


def _of_json(text: str, place: str, fields: Sequence[str]) -> Iterator[str]:
    """The queries in a line of JSON: one, or a list of lists."""
    import json

    try:
        # as text, for which no number is too large
        value = json.loads(text, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise HloError(f"{place}: invalid JSON: {error}") from None
    several = isinstance(value, list) and value and all(isinstance(row, list | dict) for row in value)
    for row in value if several else [value]:
        yield _of_value(row, place, fields)


def _of_value(value: object, place: str, fields: Sequence[str]) -> str:
    if isinstance(value, dict):
        value = next((value[field] for field in fields if field in value), None)
        if value is None:
            raise HloError(f"{place}: expected one of the fields {', '.join(fields)}")
    return _joined(value if isinstance(value, list) else [value])


def _joined(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers)) or "()"
