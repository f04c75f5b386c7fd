"""Paths in the texts of a page that is sent on: without the directories of the machine on which it was made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table

_ABSOLUTE: Final = lazy_regex(r"(?:[A-Za-z]:)?[\\/]")
_LINE: Final = lazy_regex(r":\d+\Z")
_SEPARATOR: Final = lazy_regex(r"[\\/]")
_PATH_CHARACTER: Final = r"[\w.\-+@~]"


def path_shortener(report: Report, tables: Iterable[Table]) -> Callable[[str], str]:
    """A function that removes directories from a text: that of the dump, and those of source files.

    Files of one name keep as much of their directories as tells them apart. Relative directories of source files stay.

    >>> report = Report("report", "", input={"path": "/home/ada/step/after_optimizations.txt"})
    >>> shorten = path_shortener(report, ())
    >>> shorten("the latest of 2 in /home/ada/step/"), shorten("/home/ada/step/x.txt:3"), shorten("f/step/add")
    ('the latest of 2 in step/', 'x.txt:3', 'f/step/add')
    """
    folders = _kept_parts([*_dump_paths(report), *_source_paths(tables)])
    if not folders:
        return str
    longest_first = sorted(folders, key=lambda folder: (-len(folder), folder))
    names = "|".join(map(re.escape, longest_first))
    ending = rf"(?:([\\/])(?={_PATH_CHARACTER})|(?!{_PATH_CHARACTER}))"
    pattern = re.compile(rf"(?<!{_PATH_CHARACTER})(?<![\\/])({names}){ending}")

    def replaced(match: re.Match[str]) -> str:
        kept = folders[match[1]]
        return (f"{kept}{match[2]}" if kept else "") if match[2] else _SEPARATOR.split(match[1])[-1]

    return lambda text: pattern.sub(replaced, text) if "/" in text or "\\" in text else text


def _dump_paths(report: Report) -> Iterator[str]:
    """The paths of what was read, unless it is in the working directory, or in a directory there."""
    paths = report.input.get("paths", (report.input.get("path"),))
    for path in paths if isinstance(paths, tuple) else ():
        if isinstance(path, str) and (_ABSOLUTE.match(path) or len(_SEPARATOR.split(path)) > 2):
            yield path


def _source_paths(tables: Iterable[Table]) -> Iterator[str]:
    """The absolute paths in columns of source lines, each once."""
    for table in tables:
        for at, column in enumerate(table.columns):
            if column.unit == "source":
                cells = dict.fromkeys(row[at] for row in table.rows)
                yield from (cell for cell in cells if isinstance(cell, str) and _ABSOLUTE.match(cell))


def _kept_parts(paths: Iterable[str]) -> Mapping[str, str]:
    """The part that each directory keeps, in most cases nothing."""
    files: dict[str, dict[str, None]] = {}
    for path in paths:
        *folder, name = _SEPARATOR.split(_LINE.sub("", path))
        files.setdefault(path[: len("/".join(folder))], {})[name] = None
    files.pop("", None)
    return {folder: _kept_part(folder, names, files) for folder, names in files.items()}


def _kept_part(folder: str, names: Iterable[str], files: Mapping[str, Mapping[str, None]]) -> str:
    """The shortest end of a directory that no other directory with a file of the same name has."""
    parts = _SEPARATOR.split(folder)
    rivals = [
        _SEPARATOR.split(other)
        for other, there in files.items()
        if other != folder and any(name in there for name in names)
    ]
    if not rivals:
        return ""
    ends = (parts[-count:] for count in range(1, len(parts)))
    return "/".join(next((end for end in ends if all(rival[-len(end) :] != end for rival in rivals)), parts))
