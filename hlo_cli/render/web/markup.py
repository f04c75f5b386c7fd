"""What of a dump's text may stand in a page: escaped, shortened, and without the directories of the machine?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.render.style import sanitize
from hlo_cli.render.width import shorten_name
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Run

# --- escaped text and short numbers ---
# Markup: text from a dump escaped for SVG and HTML, and short numbers.


def safe(text: str) -> str:
    r"""A text as content or as the value of an attribute; control characters are escaped.

    >>> print(safe("<script>\x1b'\""))
    &lt;script&gt;\x1b&#x27;&quot;
    """
    return escape(sanitize(text))


def shortened(name: str, length: int) -> str:
    r"""A name as it is shown, without its middle if it is longer than `length` characters, which escapes count for.

    >>> shortened("a\x1b" * 9, 10), shortened("fusion.2", 10)
    ('a\\x1ba…x1b', 'fusion.2')
    """
    return shorten_name(sanitize(name), length)


def safe_lines(lines: Sequence[str]) -> str:
    """Lines as the content of an element, with line breaks only between them.

    >>> safe_lines(["a<b", "c"])
    'a&lt;b\\nc'
    """
    return "\n".join(map(safe, lines))


def spans(line: Iterable[Run], tag: str = "span") -> str:
    """The runs of a line, each with its role as its class.

    >>> spans((Run("fusion.2", "name"), Run(" is big")))
    '<span class="name">fusion.2</span> is big'
    """
    return "".join(
        safe(run.text) if run.role == "plain" else f'<{tag} class="{run.role}">{safe(run.text)}</{tag}>' for run in line
    )


def short(value: float) -> str:
    """A coordinate to a tenth, without a zero fraction.

    >>> short(12.04), short(12.55), short(-0.01)
    ('12', '12.6', '0')
    """
    tenths = int(value * 10 + (0.5 if value > 0 else -0.5))
    whole, rest = divmod(abs(tenths), 10)
    return ("-" if tenths < 0 else "") + str(whole) + (f".{rest}" if rest else "")


def encoded(text: str, *, ascii: bool) -> str:
    """Markup for output: with `ascii`, other characters as numeric references.

    >>> encoded("<p>32 × 11</p>", ascii=True)
    '<p>32 &#215; 11</p>'
    """
    return text.encode("ascii", "xmlcharrefreplace").decode() if ascii else text


# --- paths without directories ---
# Paths in the texts of a page that is sent on: without the directories of the machine on which it was made.


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
