"""Modules in a text that holds more than one, or that was copied from a log; line numbers stay those of the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

HEAD: Final = 1 << 16
"""Characters of a text that show what is around all of its lines: hundreds of them, read in a millisecond."""
BEGINNING: Final = 1 << 12
"""Characters of a dump that show whether a terminal broke its lines: ten of the widest lines, at little cost."""
WIDEST: Final = 400
"""Columns of the widest terminal that is reckoned with: lines of HLO are longer, and end where XLA ended them."""

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_GLOG = r"[IWEFD]\d{4,8} \d\d:\d\d:[\d.]{2,20}"
_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b"
_LOG_LINE = rf"(?:{_GLOG}|\[?{_TIME}|\[?{_LEVEL}(?:[\]:]|[ ]+[\w\[])|[IWEF] [\w./-]+:\d+\] )"

# The look-ahead is one character class, so that most lines cost one comparison.
_SPECIAL = re.compile(rf"\n(?=[HIWEFDC/*\[1-9])(?:HloModule |// -----|\*\*\* Begin |{_LOG_LINE})")
_LOG_START = lazy_regex(_LOG_LINE)
_LATER_LOG_LINE = lazy_regex(rf"\n(?=[IWEFDC\[1-9]){_LOG_LINE}")
_HEADER = lazy_regex(r"HloModule[ \t]+[^\s,]+[ \t]*(?:,|$)", re.MULTILINE)
# `HloModule verification failed with`: a sentence of a log, not a header
_SENTENCE = lazy_regex(r"HloModule[ \t]+[a-z]+[ \t]+(?!ENTRY)[a-z]+[ \t]+[a-z]")
_SEPARATOR = "// -----"  # between modules, as in tests of XLA and MLIR
# `*** Begin NAME ***`, as XLA prints modules to standard output with --xla_dump_to=-
_BEGIN = lazy_regex(r"\*\*\* Begin (\S{1,255}) \*\*\*\n(?=HloModule )")
_VARYING = lazy_regex(rf"(?P<time>{_TIME}|{_GLOG}|\b\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?)|(?P<blank>[ \t]+)")
# the CRI log format of Kubernetes: F for a full line, P for a part of one
_CONTAINER_LINE = lazy_regex(rf"(?P<head>{_TIME} (?:stdout|stderr) )(?P<tag>[FP]) ")
_BARE = re.compile(r"$|[ %}]|ENTRY ")  # how lines of a module begin: blank, indented, a name, a brace, or the entry
_LONGEST_PREFIX = 300  # a time, a host, and a path; also keeps a line of many MB from being searched for each mark
_LOOKED_AT = 20  # the lines after a header share its prefix unless other writers come between: some lines decide
_WRITERS = 8  # each writer costs a match a line and a copy of the lines; the latest hold what is still written


@dataclass(frozen=True, slots=True)
class EmbeddedModule:
    """One module's text, the line it starts at in its file, and the dump's file name if the text has it.

    `remark` is a note on text around a part of a module that was skipped.
    """

    text: str
    first_line: int = 1
    file_name: str | None = None
    remark: str | None = None


def find_modules(text: str) -> tuple[EmbeddedModule, ...]:
    """The modules of a text in order; a module that is the whole text is returned unchanged.

    >>> find_modules("step 1\\nI0521 12:04:45.883 1509 a.cc:186] HloModule m\\nI0521 12:04:45.883 1509 a.cc:186] }")
    (EmbeddedModule(text='HloModule m\\n}', first_line=2, file_name=None, remark=None),)
    """
    plain = text.startswith("HloModule ")
    if plain and not _SPECIAL.search(text):
        return (EmbeddedModule(text),)
    plain = plain or next(_lines_with(text, "HloModule "), -1) >= 0
    header = None if plain else next(_prefixed_headers(text), None)
    streams = [text] if header is None else _without_prefixes(text, header)
    listed = [excerpt for stream in streams for excerpt in _excerpts_of(_without_log_lines(stream), text)]
    return tuple(sorted(listed, key=lambda module: module.first_line)) or (EmbeddedModule(text),)


def _excerpts_of(bare: str, text: str) -> Iterator[EmbeddedModule]:
    marked = list(_marked(bare))
    return iter(marked) if marked else _split(bare, is_log=bare != text)


def _lines_with(text: str, mark: str, start: int = 0, end: int | None = None) -> Iterator[int]:
    """The offsets of the lines that begin with a mark.

    >>> list(_lines_with("// a\\n b\\n// c", "// "))
    [0, 8]
    """
    if text.startswith(mark, start, end):
        yield start
    at = text.find("\n" + mark, start, end)
    while at >= 0:
        yield at + 1
        at = text.find("\n" + mark, at + 1, end)


def _prefixed_headers(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Lines with `HloModule` after a log prefix: the offset of the line, and the prefix."""
    at = text.find("HloModule ", start)
    while at >= 0:
        earliest = max(0, at - _LONGEST_PREFIX)
        line = text.rfind("\n", earliest, at) + 1
        if line or not earliest:
            prefix = text[line:at]
            if _HEADER.match(text, at) and _is_log_prefix(prefix):
                yield line, prefix
        at = text.find("HloModule ", at + 1)


def _is_log_prefix(prefix: str) -> bool:
    if prefix.startswith(("//", "#")) or not prefix.strip() or re.search(r"[\"{]| = ", prefix):
        return False
    return bool(_LOG_START.match(prefix)) or prefix.rstrip().endswith((":", "]", "|", ">", ")", "-"))


def _without_prefixes(text: str, header: tuple[int, str]) -> list[str]:
    """The text without the part of the header's prefix that the following lines share; one text for each writer.

    Lines without that prefix come from other writers and become empty.
    """
    start, prefix = header
    lines = text.split("\n")
    first = text.count("\n", 0, start)
    if _CONTAINER_LINE.match(prefix):
        lines = _joined(lines)
        prefix = lines[first][: lines[first].index("HloModule ")]
    depth = _shared_depth(prefix, lines[first + 1 : first + 1 + _LOOKED_AT])
    streams = _streams(lines, depth) if depth else [lines]
    return ["\n".join(map(_header_cut, stream)) for stream in streams]


def _streams(lines: list[str], depth: int) -> list[list[str]]:
    """The lines of each writer of modules, without prefixes, at their line numbers; of many writers, the latest few."""
    patterns: list[re.Pattern[str]] = []
    streams: list[list[str]] = []
    begun = 0
    for number, line in enumerate(lines):
        for pattern, stream in zip(patterns, streams, strict=True):
            if match := pattern.match(line):
                stream[number] = line[match.end() :]
                break
        else:
            if "HloModule " in line and (header := next(_prefixed_headers(line), None)):
                prefix = _cuts(header[1])[:depth][-1]
                if begun < _WRITERS:
                    patterns.append(_pattern(prefix))
                    streams.append([""] * len(lines))
                patterns[begun % _WRITERS] = _pattern(prefix)
                streams[begun % _WRITERS][number] = line[len(prefix) :]
                begun += 1
    return streams


def _joined(lines: list[str]) -> list[str]:
    """Lines of a container's log, with lines that the runtime split (tag P on all parts but the last) rejoined.

    >>> time = "2024-05-21T12:04:45.883Z stdout"
    >>> _joined([f"{time} P Hlo", f"{time} F Module"])
    ['2024-05-21T12:04:45.883Z stdout F HloModule', '']
    """
    joined, pieces = list(lines), list[str]()
    for number, line in enumerate(lines):
        match = _CONTAINER_LINE.match(line)
        if match is None:
            continue
        pieces.append(line[match.end() :])
        joined[number] = ""
        if match["tag"] == "F":
            joined[number - len(pieces) + 1] = f"{match['head']}F {''.join(pieces)}"
            pieces.clear()
    return joined


def _shared_depth(prefix: str, following: list[str]) -> int:
    """The number of parts of a prefix that most of the following lines begin with; 0 if they have no prefix."""
    patterns = [_pattern(cut) for cut in _cuts(prefix)]
    counts: Counter[int] = Counter()
    for line in following:
        depth = next((depth for depth in range(len(patterns), 0, -1) if patterns[depth - 1].match(line)), 0)
        if "HloModule " not in line and (depth or _BARE.match(line)):
            counts[depth] += 1
    return max(counts, key=lambda depth: (counts[depth], depth), default=0)


def _cuts(prefix: str) -> list[str]:
    """The leading parts of a prefix, each one part longer; parts end at spaces.

    >>> _cuts("[pod/a] INFO:root:")
    ['[pod/a] ', '[pod/a] INFO:root:']
    """
    ends = [match.end() for match in re.finditer(r"[ \t]+", prefix) if match.start() > 0]
    return [prefix[:end] for end in ends if end < len(prefix)] + [prefix]


def _pattern(prefix: str) -> re.Pattern[str]:
    """An expression for a prefix at any time: times vary, places, threads and names do not.

    >>> bool(_pattern("I0521 12:04:45.883 1509 a.cc:1] ").match("I0521 12:04:46.001  1509 a.cc:1]"))
    True
    """
    kept, at = [], 0
    for match in _VARYING.finditer(prefix):
        kept.append(re.escape(prefix[at : match.start()]))
        last = match.end() == len(prefix)
        kept.append("[ \\t]?" if match["blank"] and last else "[ \\t]+" if match["blank"] else _varying(match["time"]))
        at = match.end()
    return re.compile("".join(kept) + re.escape(prefix[at:]))


def _varying(time: str) -> str:
    if time[0] in "IWEFD":
        return _GLOG
    return _TIME if time[4:5] == "-" else r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"  # ISO 8601 has a year first, of four digits


def _header_cut(line: str) -> str:
    """A line without the log prefix of `HloModule`; other lines unchanged."""
    if "HloModule " not in line or line.startswith("HloModule "):
        return line
    header = next(_prefixed_headers(line), None)
    return line[len(header[1]) :] if header else line


def _without_log_lines(text: str) -> str:
    """The text with log lines between unprefixed lines made empty."""
    if not _LOG_START.match(text) and not _LATER_LOG_LINE.search(text):
        return text
    lines = (_header_cut(line) if _LOG_START.match(line) else line for line in text.split("\n"))
    return "\n".join("" if _LOG_START.match(line) else line for line in lines)


def _marked(text: str) -> Iterator[EmbeddedModule]:
    """The modules between `*** Begin NAME ***` and `*** End NAME ***`, as XLA dumps to standard output."""
    line, at = 1, 0
    starts = [*_lines_with(text, "*** Begin "), len(text)]
    for start, next_start in pairwise(starts):
        if match := _BEGIN.match(text, start):
            line += text.count("\n", at, match.end())
            at = match.end()
            end = text.find(f"\n*** End {match[1]} ***", at, next_start) + 1
            yield EmbeddedModule(text[at : end or next_start], line, match[1])


def _split(text: str, *, is_log: bool) -> Iterator[EmbeddedModule]:
    line, at = 1, 0
    for start, end in _pieces(text):
        line += text.count("\n", at, start)
        at = start
        piece = text[start:end]
        if is_log or line > 1:
            piece = _without_tail(piece)
        if piece.strip():
            yield EmbeddedModule(piece, line)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Offsets where modules start and end: at separators and at headers; text before a header is not HLO."""
    separators = [*_lines_with(text, _SEPARATOR), len(text)]
    starts = [0, *(text.find("\n", separator) + 1 or len(text) for separator in separators[:-1])]
    for start, end in zip(starts, separators, strict=True):
        headers = [
            header for header in _lines_with(text, "HloModule ", start, end) if not _SENTENCE.match(text, header)
        ]
        yield from pairwise([*(headers or [start]), end])


def _without_tail(piece: str) -> str:
    """A module of a log without the text after its last `}`; unchanged if that text opens a block."""
    brace = piece.rfind("\n}")
    if brace < 0:
        return piece
    end = piece.find("\n", brace + 1) + 1 or len(piece)
    tail = piece[end:]
    return piece if re.search(r"\{[ \t]*$", tail, re.MULTILINE) else piece[:end]


# --- what is not a plain dump ---

_LONGEST_HEADER: Final = 1 << 20  # layouts and aliases of thousands of arguments fit; more is not the line of a header
# Words that open a block in C++ and Python as a name does in HLO.
_KEYWORDS = r"(?:if|for|while|switch|namespace|else|do|try|extern|struct|class|return|with|catch|union|enum|in|let)\b"
AFTER_BLOCK: Final = re.compile(
    r"\n\}[^\n]*+\n\s*+(?=\S)(?!%|ENTRY\b|HloModule\b|ROOT\b|\}|//|/\*|\*\*\* |(?:File|Function)Names"
    rf"|FileLocations|StackFrames|(?!{_KEYWORDS})[\w.\-]++ ?(?:\([^\n]*->|\([\w.\-]++: |\{{(?:[ \t]*+$|[^\n]* = ))"
    r"|[\w.\-]++ = (?:\(|[a-z]\w*+\[)|[IWEFD]\d{4,8} \d\d:|\[?\d{4}-\d\d-\d\d[T ])",
    re.MULTILINE,
)
"""The end of a computation and what is not HLO after it: another language, prose, or a fence."""
ODD_CHARACTERS: Final = re.compile(
    r"^[^\"\n]*?[\x1b\u00a0\u00ad\u1680\u2000-\u200f\u202f\u205f\u2060\u2502\u3000\ufeff]", re.MULTILINE
)
"""A color code, a space of typography, or an invisible character outside of strings, where HLO has none of them."""


def is_cut_header(text: str) -> bool:
    """Whether a text is the first line of a module and ends inside of a bracket of it.

    >>> is_cut_header("HloModule m, entry_computation_layout={(f32[8]{0}, f32[4"), is_cut_header("HloModule m, x={1}")
    (True, False)
    """
    if not text.startswith("HloModule ") or len(text) > _LONGEST_HEADER:
        return False
    line = text.rstrip()
    return (
        "\n" not in line and " = " not in line and line.count("{") + line.count("(") > line.count("}") + line.count(")")
    )


def has_odd_characters(text: str) -> bool:
    """Whether a text has colors or characters of documents outside of strings; cheap for a plain dump.

    >>> [has_odd_characters(each) for each in ("a = \\x1b[36mf32[8] add(b)", 'a = f32[] add(b), x="\\x1b[1m"')]
    [True, False]
    """
    if "\x1b" not in text and text.isascii():
        return False
    return ODD_CHARACTERS.search(text) is not None
