"""The place where reading continues after an error: the next instruction, or the next computation."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.scanning.scanner import Scanner

MAX_ERRORS: Final = 100
"""The most errors in one text before reading stops."""

_NAME: Final = r"%?[A-Za-z_][A-Za-z0-9_.\-]*+"
_SHAPE: Final = r"[ \t]++[a-z]{1,4}+[0-9]*+[a-z0-9]*+\[[0-9,]*+\]"
_CLOSES: Final = r"\}(?![}\])]|,(?! (?:execution_thread|backend_config)=))"
_CLOSING: Final = lazy_regex(_CLOSES)
_NEXT_STATEMENT: Final = lazy_regex(rf"\n[ \t]*+(?:(?:ROOT[ \t]++)?{_NAME}(?:[ \t]*+=[ \t]|{_SHAPE})|{_CLOSES})")
_NEXT_COMPUTATION: Final = lazy_regex(rf"\n(?=(?:ENTRY\b|{_NAME} (?:\(|\{{)))")
_FOUND: Final = re.compile(r", found (?!end of).*", re.DOTALL)
_LOST: Final = lazy_regex(r"(?:ROOT[ \t\n\r]++)?%?([A-Za-z_][A-Za-z0-9_.\-]*+)")
_DEFINED: Final = lazy_regex(r"[ \t\n\r%]([A-Za-z_][A-Za-z0-9_.\-]*+)[ \t]++=[ \t]")
_HEAD_NAME: Final = lazy_regex(r"[ \t\n\r]*+(?:ENTRY[ \t]++)?%?([A-Za-z_][A-Za-z0-9_.\-]*+)")


def next_statement(text: str, start: int, end: int) -> int | None:
    """The line break before the next instruction or the closing brace, or None."""
    match = _NEXT_STATEMENT.search(text, start, end)
    return match.start() if match else None


def next_computation(text: str, start: int, end: int | None = None) -> int:
    """The start of the next computation before `end`, by default the end of the text; `end` if there is none."""
    end = len(text) if end is None else end
    match = _NEXT_COMPUTATION.search(text, start, end)
    return match.end() if match else end


def unreadable_names(text: str, start: int, end: int) -> set[str]:
    """The names of the instructions between two offsets, even if the rest is unreadable."""
    first = _LOST.match(text, start, end)
    return {*_DEFINED.findall(text, start, end), *(first.groups() if first else ())}


def head_name(text: str, start: int) -> str:
    """The name of a computation with an unreadable header, as far as it can be found."""
    match = _HEAD_NAME.match(text, start)
    return match[1] if match else ""


def begins_computation(text: str, start: int, end: int) -> bool:
    """Whether the word between two offsets begins a computation: ENTRY, or a name followed by a signature or body."""
    return text[start:end] == "ENTRY" or text[end : end + 2].lstrip(" ")[:1] in ("(", "{")


def unclosed(source: Source, last: int, end: int, name: str) -> HloError:
    """The error for a computation that is not closed.

    Its last instruction consumed the closing brace, the next computation begins in it, or the text ends.
    """
    line_end = source.text.find("\n", last)
    if line_end > 0 and _CLOSING.match(source.text, line_end + 1):
        message = "unclosed brace in this instruction"
        return HloError(message, Span(last, line_end), source=source)
    begins = _NEXT_COMPUTATION.search(source.text, max(last, end - 1))
    if begins is not None and not source.text[end : begins.start()].strip():
        message = f"missing '}}' at the end of computation {name}"
        return HloError(message, Span(end - 1, end), source=source)
    return HloError(f"unexpected end of input in computation {name}", Span(end - 1, end), source=source)


def is_closed(source: Source, opening: int, end: int) -> bool:
    """Whether a brace is closed before an offset; other brackets may overlap."""
    try:
        Scanner(source, opening, end).balanced(json=True)
    except HloError:
        return False
    return True


def within(error: HloError, text: str, start: int, end: int) -> list[Diagnostic]:
    """The error's diagnostics; one that points after an instruction moves to the instruction's last character.

    A missing end is noticed at the first token of the next instruction, which is not at fault: the token found is the
    end of the line.
    """
    while end > start + 1 and text[end - 1] in " \t\r\n":
        end -= 1
    return [
        Diagnostic(d.severity, _FOUND.sub(", found end of line", d.message), d.source, Span(end - 1, end), d.hint)
        if d.span is not None and d.span.start >= end > start
        else d
        for d in error.diagnostics
    ]
