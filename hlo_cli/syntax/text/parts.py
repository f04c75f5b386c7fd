"""Parts of a module's text, as people paste them: how they begin, and the lines of them that are not whole."""

from __future__ import annotations

from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import PART_MARK
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.text.computation_header import STARTS_HEADER, STARTS_MODULE
from hlo_cli.syntax.text.instruction_parser import read_statement
from hlo_cli.syntax.text.lines import read_rows
from hlo_cli.syntax.values.header import SECTIONS

_NAMED: Final = r"(?:ROOT[ \t]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+=(?!=)"
_THREAD: Final = r"(?:, execution_thread=\"[^\"\n]*+\")?+(?:, backend_config=[^\n]*+)?+"
STATEMENT = lazy_regex(_NAMED)
"""The beginning of an instruction."""
_VALUE: Final = r"[ \t]*+(?:\(|[a-z][a-z0-9]*+\[|[a-z][a-z0-9\-]*+\()"
_LINE = lazy_regex(rf"[ \t]*+(?:{_NAMED}{_VALUE}|\}}{_THREAD}[ \t]*+(?:\n|\Z))")
"""A line that begins an instruction or ends a computation."""
_NEXT_LINE = lazy_regex(rf"\n{_LINE.pattern}")
_HEAD: Final = r"ENTRY\b|%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+(?:\{|\((?:\)[ \t]*+->|[%\w.\-]++[ \t]*+:))"
_TABLE: Final = rf"(?:{'|'.join(SECTIONS)})[ \t]*+\n|[0-9]++[ \t]++[{{\"]"
_READABLE = lazy_regex(
    rf"[ \t]*+(?:/[/*]|{STARTS_HEADER.pattern}|{_TABLE}|(?:\}}[ \t]*+)?+(?:{_HEAD}))|{_LINE.pattern}"
)
"""A line that may begin a part."""
_AFTER_CUT = lazy_regex(rf"\n(?:[ \t]*+\n)*+(?:[ \t]*+(?:{_TABLE})|{_LINE.pattern})")
"""A line after an incomplete one."""
_CUT_HEAD = lazy_regex(r"ENTRY\b|(?:ROOT[ \t]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+(?:\(|\Z)")
_COMMA = lazy_regex(rf",(?={_NEXT_LINE.pattern}|\Z)")
"""A comma between two instructions, as in a list."""
_ENTRY = lazy_regex(r"(?<![\w.\-%\"])ENTRY[ \t\n]")
_WORDS: Final = "snip|snipped|cut|elided|omitted|skipped|truncated|more|etc"
_ELIDED = lazy_regex(
    r"(?m)\n(?=[ \t]*+(?:(?://|#)[ \t]*+)?"
    r"(?:(?:\.\.|\u2026|\u22ee|\u22ef)[^=\n]*+|[.:]++[ \t]*+"
    rf"|{_NAMED}[ \t]*+(?:[a-z][a-z0-9]*+\[[0-9,<=?]*+\](?:\{{[^}}\n]*+\}})?+[ \t]++)?+(?:\.\.|\u2026)[^\n]*+"
    rf"|[<\[(\-]++[ \t]*+(?:\.\.|\u2026|[0-9]*+[ ]?+(?:lines )?+(?:{_WORDS})\b)[^=\n]*+)$)"
)
"""The line break before a line that stands for omitted ones, such as `...`, `// ...`, or `[12 lines omitted]`, or
before an instruction without its opcode, such as `x = f32[2] ...`."""


@dataclass(frozen=True, slots=True)
class WholeLines:
    """The text of a part between line breaks, with incomplete lines as comments, and notes on those.

    `end` is the line break after the last line that is whole.
    """

    source: Source
    end: int
    notes: tuple[tuple[str, Span], ...]


def begins_as_part(text: str) -> bool:
    """Whether a text without a header begins with a computation, but is not a whole module; or was printed as a part.

    >>> begins_as_part("%f { ROOT a = f32[] parameter(0) }"), begins_as_part("ENTRY %e { a = f32[] parameter(0) }")
    (True, False)
    """
    start = Scanner(Source("", text)).skip()
    if STARTS_HEADER.match(text, start):
        return text.startswith(f"\n\n{PART_MARK}\n", text.find("\n", start))
    if not STARTS_MODULE.match(text, start):
        return False
    return _begins_cut(text, start) or not _ENTRY.search(text, start) or not _is_closed(text) or is_elided(text)


def is_several_lines(text: str) -> bool:
    """Whether a text that is not an instruction has lines of a computation, of which only the first may be incomplete.

    >>> is_several_lines("a = f32[] parameter(0)\\nb = f32[] negate(a)"), is_several_lines("step 1\\nstep 2")
    (True, False)
    """
    start = Scanner(Source("", text)).skip()
    if STATEMENT.match(text, start) or _READABLE.match(text, start):
        return _NEXT_LINE.search(text, start) is not None
    return _begins_cut(text, start)


def is_elided(text: str) -> bool:
    """Whether a line stands for omitted ones.

    >>> is_elided("a = f32[] parameter(0)\\n  ...\\n"), is_elided("c = f32[9] constant({...})")
    (True, False)
    """
    return _ELIDED.search(f"\n{text}") is not None


def whole_lines(source: Source) -> WholeLines:
    """The lines of a part; those omitted or incomplete become comments, which keeps the numbers of the lines.

    >>> whole_lines(Source("", "...\\na = f32[] parameter(0)\\nb = f32[] neg")).source.text
    '\\n// ...\\na = f32[] parameter(0)\\n// b = f32[] neg\\n'
    """
    notes: list[tuple[str, int]] = []
    text = "\n" + _COMMA.sub("", source.text.rstrip())
    if (match := _ELIDED.search(text)) is not None:
        text, count = _ELIDED.subn("\n// ", text)
        notes += [("lines are omitted in this text", match.start() + 1)] * count
    start = len(text) - len(text.lstrip())
    if _begins_cut(text, start):
        start = text.rfind("\n", 0, start) + 1
        text = f"{text[:start]}// {text[start:]}"
        notes.append(("skipped the first line, which is incomplete or not HLO", start))
    start = text.rfind("\n") + 1
    if start > 1 and _is_cut(text[start:]):
        text = f"{text[:start]}// {text[start:]}"
        notes.append(("skipped the last line, which is incomplete or not HLO", start))
    text += "\n"
    end = len(text) - 1
    while text.startswith("//", start := text.rfind("\n", 0, end) + 1) and start > 1:
        end = start - 1
    spans = tuple((message, Span(at, text.index("\n", at + 1))) for message, at in notes)
    return WholeLines(Source(source.name, text, source.first_line - 1), end, spans)


def _begins_cut(text: str, start: int) -> bool:
    """Whether the first line is incomplete: it begins nothing, and what follows are lines of a computation."""
    end = -1 if _READABLE.match(text, start) else text.find("\n", start)
    return end >= 0 and _AFTER_CUT.match(text, end) is not None


def _is_closed(text: str) -> bool:
    """Whether the last line ends a computation; approximate, as for braces in strings."""
    text = text.rstrip()
    last = text[text.rfind("\n") + 1 :].strip()
    return last.startswith("}") or (
        last.endswith("}") and (last.count("}") > last.count("{") or _ENTRY.search(last) is not None)
    )


def _is_cut(line: str) -> bool:
    """Whether a line begins an instruction, or the header of a computation, that it does not end."""
    indented = len(line) - len(line.lstrip())
    if not STATEMENT.match(line, indented):
        return "{" not in line and _CUT_HEAD.match(line, indented) is not None
    source = Source("", f"\n{line}\n")
    rows = read_rows(source, 0, len(line) + 1)
    if rows is not None and not rows[0][5]:
        return False
    scanner = Scanner(source)
    try:
        read_statement(scanner)
    except HloError as error:
        span = error.diagnostic.span
        return span is None or span.end >= len(line) or not scanner.text[span.end :].strip() or _is_open(error)
    return False


def _is_open(error: HloError) -> bool:
    return error.diagnostic.message.startswith("unclosed")
