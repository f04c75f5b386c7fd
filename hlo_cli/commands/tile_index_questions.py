"""Which elements or slots are asked for: on the command line, in files, on standard input, or all of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from hlo_cli.inputs.files import STDIN, missing, unreadable
from hlo_cli.source import HloError

_Q = TypeVar("_Q")

Reader = Callable[[str, str], _Q]
"""Reads one question from a text; the second argument names where it stands."""


def questions(arguments: Sequence[str], read: Reader[_Q], fields: Sequence[str]) -> list[_Q]:
    """The questions in the arguments, in order: texts, names of files with one question a line, or `-`.

    A line is a question as on the command line, a JSON list, number or record; of a record, and under a header line,
    the first of `fields` that is there is taken. A .npy file holds one question a row.
    """
    found: list[_Q] = []
    for argument in arguments:
        if argument == "-" or (os.path.isfile(argument) and not argument.lstrip("-").isdecimal()):
            name, data = (STDIN, sys.stdin.buffer.read()) if argument == "-" else (argument, _bytes_of(argument))
            found.extend(read(text, f"{name}:{line}") for line, text in _texts(data, name, fields))
        elif argument.endswith((".csv", ".tsv", ".json", ".jsonl", ".npy", ".txt")) or os.sep in argument:
            raise missing(argument)
        else:
            found.append(read(argument, ""))
    return found


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise unreadable(path, error) from None


def _texts(data: bytes, name: str, fields: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The questions of a file with their line numbers."""
    if data.startswith(b"\x93NUMPY"):
        from hlo_cli.analysis.npy import integers_of

        rows = integers_of(data, name)
        yield from enumerate((_joined(row if rows.ndim > 1 else [row]) for row in rows.tolist()), start=1)
        return
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise HloError(f"{name} is neither text nor .npy") from None
    column: int | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if number == 1 and (header := _header(text)) is not None:
            column = next((header.index(field) for field in fields if field in header), None)
            continue
        if not text or text.startswith("#"):
            continue
        if text[0] in "[{":
            yield number, _of_json(text, f"{name}:{number}", fields)
        else:
            yield number, _cell(text, column)


def _header(line: str) -> list[str] | None:
    names = line.removeprefix("#").replace("\t", ",").split(",")
    return [name.strip() for name in names] if names[0].strip().replace("_", "").isalpha() else None


def _cell(text: str, column: int | None) -> str:
    if column is None:
        return text.replace("\t", ",").replace(";", ",")
    if "\t" in text:
        return text.split("\t")[column]
    import csv

    return next(csv.reader([text]))[column]


def _of_json(text: str, place: str, fields: Sequence[str]) -> str:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise HloError(f"{place}: not JSON: {error}") from None
    if isinstance(value, dict):
        value = next((value[field] for field in fields if field in value), None)
        if value is None:
            raise HloError(f"{place}: the record has none of {', '.join(fields)}")
    return _joined(value if isinstance(value, list) else [value])


def _joined(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers)) or "()"
