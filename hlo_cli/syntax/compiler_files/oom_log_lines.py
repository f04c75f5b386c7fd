"""Logs and tracebacks without the prefixes of their lines, so that messages in them read as they were written."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Span

_LINE = re.compile(r"((?:[^\n\\]++|\\(?!n))*+)(\n|\\n|\Z)")
_COLOUR: Final = r"\x1b\[[0-9;]*+m"
_PREFIX = re.compile(
    rf"(?:{_COLOUR}|[IWEF][0-9]{{4,8}} [0-9:.]{{8,20}} +[0-9]++ [^\s\]]++\] ?"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.,]{8,20}(?:Z|: [IWEF] [^\s\]]++\])? ?"
    r"|[IWEF] [\w./-]++:[0-9]++\] ?|>[ ]?|[ ]{2,8}\|[ ]|\((?:[\w. -]+ )?pid=[^)\n]{0,80}\) ?)*+"
)
_SUFFIX = re.compile(rf"(?: *\[repeated [0-9]++x[^\]\n]*+\]|{_COLOUR}|\r)++$")


@dataclass(frozen=True, slots=True)
class LogText:
    """A text without prefixes, and the offset of each of its lines in the whole text."""

    text: str
    _starts: tuple[int, ...]
    _origins: tuple[int, ...]

    def span(self, start: int, end: int) -> Span:
        """The span in the whole text of a part of this text."""
        return Span(self._origin(start), self._origin(end))

    def _origin(self, offset: int) -> int:
        line = bisect_right(self._starts, offset) - 1
        return self._origins[line] + offset - self._starts[line]


def without_prefixes(text: str) -> LogText:
    r"""The lines without log prefixes; a line break written as `\n` is one.

    >>> log = without_prefixes("E0528 07:02:44.350251   27487 a.cc:28] no memory\\nleft [repeated 3x across cluster]")
    >>> log.text, log.span(0, 9)
    ('no memory\nleft\n', Span(start=39, end=48))
    """
    lines, starts, origins, at = [], [], [], 0
    for match in _LINE.finditer(text):
        prefix = _PREFIX.match(text, match.start(1), match.end(1))
        begin = prefix.end() if prefix else match.start(1)
        line = _SUFFIX.sub("", text[begin : match.end(1)])
        if not line and match[2] == "" and match.start() == len(text):
            break
        lines.append(line)
        starts.append(at)
        origins.append(begin)
        at += len(line) + 1
    return LogText("".join(f"{line}\n" for line in lines), tuple(starts) or (0,), tuple(origins) or (0,))
