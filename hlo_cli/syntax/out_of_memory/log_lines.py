"""Logs and tracebacks without the marks of terminals, loggers, and quoting: messages as they were printed."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Span

_LINE = re.compile(r"[^\n]++")
_ESCAPED_BREAK = re.compile(r"\\{1,4}+n|<br ?/?>")
_MARKS = re.compile(
    r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\\e)?\[[0-9]{0,3}(?:;[0-9]{1,3}){0,6}[mK](?!\w*\])|\x1b\[[0-9;?]{0,12}[A-Za-z]"
    r"|\x1b\][^\x07\n]{0,200}\x07|[\r\u200b\ufeff]"
)
_MARKED = re.compile(r"[\x1b\r\u200b\ufeff]|\[[0-9;]{1,12}m")
_QUOTE = re.compile(r"(?:[ \t]*+(?:>|&gt;|#{1,6}(?= |$)|//|[|│║])[ ]?)++")
_SUFFIX = re.compile(r"(?<![ │║\\])(?: *\[repeated [0-9]++x[^\]\n]*+\]| *\(repeated [0-9]++x\)| *[│║]| *\\)++$")
_TAG = re.compile(
    r"</?(?:div|span|pre|code|p|b|i|em|strong|li|ul|ol|td|tr|th|table|a|h[1-6]|blockquote)\b[^<>]{0,500}>"
)
_ESCAPES = re.compile(r"""\\++(["'t])""")
_TIME: Final = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_RECORD: Final = (
    r"[ \t]*[0-9]{1,7}(?:\t|(?=\([\w. -]{1,80}pid=))"
    rf"|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]{_TIME}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})?:?[ \t]*+"
    rf"|[IWEF][0-9]{{4,8}} (?:{_TIME}|[0-9]{{2}}:[0-9]{{2}}:[0-9.]{{4,20}})[ \t]++"
    rf"|(?:ERROR|INFO|WARNING|DEBUG|CRITICAL) (?:[0-9]{{2}}-[0-9]{{2}} )?(?:{_TIME} )?\[[\w./-]++:[0-9]++\](?:[ ]|$)"
    rf"|[A-Z][a-z]{{2}} {{1,2}}[0-9]{{1,2}} {_TIME} [\w.-]++ [\w./-]++(?:\[[0-9]++\])?:(?: |$)"
    r"|\[ {0,6}[0-9]{1,9}\.[0-9]{3,9}\](?:[ ]|$)"
    r"|\((?:[\w.:/ -]{1,80}[ ,])?(?:pid|ip)=[^)\n]{0,80}\)(?:[ ]|$)|\(raylet[^)\n]{0,80}\)(?:[ ]|$)"
    r"|(?:stdout|stderr) [FP](?:[ ]|$)|\[(?:rank|default|pod/|worker)[^\]\n]{0,120}\]:?(?:[ ]|$)"
    r"|\[[0-9]{1,4},[0-9]{1,5}\]<std(?:out|err)>:[ ]?|[0-9]{1,5}:(?:[ ]|$)|[\w.-]{1,80}[ \t]{1,20}\|(?:[ ]|$)"
    r"|(?:worker|host|node|task|rank)[-_ ]?[0-9]{1,5}(?::|[ ]\|)(?:[ ]|$)"
)
"""What begins a line of a log: a time, a process, a pod."""

_PATH: Final = (
    r"(?:[IWEF][ \t]++)?(?:[0-9]++[ \t]++)?[\w./\\:+-]{1,200}+(?<=:[0-9])[0-9]*+\](?:[ ]|$)"
    r"|(?:[IWEF][ \t]++)?(?:[0-9]++[ \t]++)?[\w./\\+-]{1,200}:[0-9]{1,6}\](?:[ ]|$)"
)
_BEGINS_RECORD = re.compile(_RECORD)
_PREFIX = re.compile(rf"(?:{_RECORD}|{_PATH})++")
_OPENS_LINE = re.compile(
    r"\s*(?:[0-9]{1,4}\. |={8}|Size: |Shape: |Operator: |XLA [Ll]abel: |Traceback |See |Allocation type: |Tag: "
    r"|Unpadded size: |Extra memory due|Entry Parameter|Buffer [0-9]"
    r"|Memory Space: |Total bytes: |cumulative_size; |[0-9.]{1,10}+[KMGTPE]?i?B\( *[0-9]{1,3}%\); |-{20}"
    r"|(?:parameter|constant|maybe_live_out|(?:preallocated )?temp|total) "
    r"(?:allocation|fragmentation): )"
)
_USUAL_WIDTHS: Final = (80, 100, 120, 132, 160, 200)
_MARGIN = re.compile(
    r"[ \t]*(?=[^ \t]{0,120}[0-9|\[(])(?![^ \t]{0,120}(?:[Ss]ize|%))[\w.\-/@\[\]():|,]{1,120}(?<=[|:\])])[ \t]{1,8}"
)
_LEAST_WIDTH: Final = 16
_MOST_BLANKS: Final = 2
_MOST_LONGER: Final = 2
_MOST_LINES: Final = 100_000
_SNIPPET: Final = 12
_LONGEST_SUFFIX: Final = 400


@dataclass(frozen=True, slots=True)
class LogText:
    """A text without marks, and the offset of each of its pieces in the whole text."""

    text: str
    _source: str
    _starts: tuple[int, ...]
    _origins: tuple[int, ...]
    _ends: tuple[int, ...]

    def span(self, start: int, end: int) -> Span:
        """The span in the whole text of a part of this text."""
        first = self._origin(start)
        return Span(first, max(first, self._origin(max(start, end - 1)) + 1))

    def _origin(self, offset: int) -> int:
        piece = max(bisect_right(self._starts, offset) - 1, 0)
        origin = min(self._origins[piece] + max(offset - self._starts[piece], 0), self._ends[piece])
        known = self.text[offset : offset + _SNIPPET].partition("\n")[0]
        found = self._source.find(known, origin, self._ends[piece]) if known else -1
        return origin if found < 0 else found


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    origin: int
    end: int
    joins: bool = False
    width: int = 0


def without_prefixes(text: str, start: int = 0, end: int | None = None) -> LogText:
    r"""Lines without log prefixes, quoting, and markup; wrapped lines are joined, a line break written as `\n` is one.

    >>> log = without_prefixes("E0528 07:02:44.350251   27487 a.cc:28] no memory\\nleft [repeated 3x across cluster]")
    >>> log.text, log.span(0, 9)
    ('no memory\nleft\n', Span(start=39, end=48))
    """
    lines = _without_margins(islice(_decoded(text, start, len(text) if end is None else end), _MOST_LINES))
    pieces, starts, origins, ends, at = [], [], [], [], 0
    for line in _joined(lines):
        piece = line.text if line.joins else line.text + "\n"
        pieces.append(piece)
        starts.append(at)
        origins.append(line.origin)
        ends.append(line.end)
        at += len(piece)
    return LogText("".join(pieces), text, tuple(starts) or (0,), tuple(origins) or (start,), tuple(ends) or (start,))


def _decoded(text: str, start: int, end: int) -> Iterator[_Line]:
    """The lines, without terminal marks, markup, and escapes; of several empty lines in a row, one.

    Empty lines after every line are none of the text's.
    """
    filled = [line.span() for line in _LINE.finditer(text, start, end) if not line[0].isspace()]
    gaps = [text.count("\n", one[1], two[0]) for one, two in pairwise(filled)]
    least = min(gaps, default=1) if len(gaps) > 1 else 1
    for (begin, stop), gap in zip(filled, (least, *gaps), strict=False):
        if gap > least:
            yield _Line("", begin, begin)
        raw = text[begin:stop]
        if _MARKED.search(raw):
            raw = _MARKS.sub("", raw)
        raw = raw.rstrip() if raw.endswith("  ") else raw
        if "\\n" in raw or "<br" in raw:
            yield from _unescaped(raw, begin, stop)
        else:
            line = _without_markup(raw)
            yield _Line(line, begin, stop, width=len(line.expandtabs()))


def _unescaped(raw: str, origin: int, end: int) -> Iterator[_Line]:
    at = 0
    ends = [(found.start(), found.end()) for found in _ESCAPED_BREAK.finditer(raw)]
    for stop, after in (*ends, (len(raw), len(raw))):
        line = _without_markup(_ESCAPES.sub(_escape, raw[at:stop]))
        yield _Line(line, origin + at, end, width=len(line.expandtabs()))
        at = after


def _escape(match: re.Match[str]) -> str:
    return "\t" if match[1] == "t" else match[1]


def _without_markup(line: str) -> str:
    if "<" in line and ">" in line:
        line = _TAG.sub("", line)
    return html.unescape(line) if "&" in line and ";" in line else line


def _without_margins(decoded: Iterable[_Line]) -> list[_Line]:
    """The lines without quoting, and without the prefix and the indentation that all of them have."""
    lines = [_cut(line, _QUOTE.match(line.text)) for line in decoded]
    filled = [line.text for line in lines if line.text.strip()]
    common = _common_start(min(filled), max(filled)) if len(filled) > 1 else ""
    margin = _MARGIN.match(common) if len(filled) > _MOST_BLANKS else None
    size = margin.end() if margin else len(common) - len(common.lstrip())
    return (
        [_Line(line.text[size:], line.origin + size, line.end, width=line.width) for line in lines] if size else lines
    )


def _common_start(first: str, second: str) -> str:
    for at, (one, two) in enumerate(zip(first, second, strict=False)):
        if one != two:
            return first[:at]
    return min(first, second, key=len)


def _cut(line: _Line, prefix: re.Match[str] | None) -> _Line:
    if prefix is None or not prefix.end():
        return line
    return _Line(line.text[prefix.end() :], line.origin + prefix.end(), line.end, line.joins, line.width)


def _joined(lines: Sequence[_Line]) -> Iterator[_Line]:
    """The lines without log prefixes; a line that fills the width of the terminal has no line break after it."""
    sizes = Counter(line.width for line in lines)
    width = _width(sizes)
    whole: list[_Line] = []
    for number, line in enumerate(lines):
        whole.append(line)
        after = lines[number + 1].text if width and number + 1 < len(lines) else ""
        is_full = after and line.width == width
        if not is_full or _BEGINS_RECORD.match(after) or _OPENS_LINE.match(after):
            yield from _without_prefix(whole)
            whole = []


def _width(sizes: Counter[int]) -> int:
    """The width of the terminal that broke lines, 0 if none did; quotes around the text make some lines longer."""
    longer = 0
    for width in sorted(sizes, reverse=True)[: _MOST_LONGER + 1]:
        if width < _LEAST_WIDTH or longer > _MOST_LONGER:
            return 0
        if sizes[width] >= _MOST_BLANKS or (width in _USUAL_WIDTHS and not longer):
            return width
        longer += sizes[width]
    return 0


def _without_prefix(pieces: Sequence[_Line]) -> Iterator[_Line]:
    """The pieces of one line without its prefix and suffix; all but the last piece join the next one."""
    text = pieces[0].text if len(pieces) == 1 else "".join(piece.text for piece in pieces)
    prefix = _PREFIX.match(text)
    skipped = prefix.end() if prefix else 0
    for piece in pieces[:-1]:
        if skipped < len(piece.text):
            yield _Line(piece.text[skipped:], piece.origin + skipped, piece.end, joins=True)
        skipped = max(skipped - len(piece.text), 0)
    last = pieces[-1]
    at = max(skipped, len(last.text) - _LONGEST_SUFFIX)
    suffix = _SUFFIX.search(last.text, at)
    end = suffix.start() if suffix else len(last.text)
    yield _Line(last.text[skipped:end], last.origin + skipped, last.end)
