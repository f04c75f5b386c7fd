"""Matching of text in conditions: substring, glob, or regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import Final

from hlo_cli.ir.where import Call, Text, Where
from hlo_cli.source import Span

Matcher = Callable[[str], bool]

MAX_MATCHED_LENGTH: Final = 20_000
"""Number of characters that a regular expression searches; only literals and kernels in a backend_config are longer."""

_PIECE: Final = re.compile(r"(?s)\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|[*+?]|\{[0-9,]*+\}|.")
_REPEATS: Final = re.compile(r"[*+]|\{[0-9]*+,[0-9]*+\}|\{[0-9]{3,}\}|\{[2-9][0-9]\}")
_MAX_DEPTH: Final = 50


def matcher(where: Where, text: Text) -> Matcher:
    """Function that tests whether a text contains or matches a pattern.

    >>> from hlo_cli.source import Source
    >>> nowhere = Where(Source("", ""), None)
    >>> [matcher(nowhere, Text(text, Span(0, 0)))("fusion.14") for text in ("ion", "fus*4", "fus*", "*.1", "fusi…14")]
    [True, True, True, False, True]
    """
    match text.pattern:
        case "part":
            part = text.text.removeprefix("%")
            return lambda value: part in value
        case "glob":
            return _glob(text.text)
        case "expression":
            return _expression(where, text)


def name_matcher(where: Where, text: Text) -> Matcher:
    """Function that tests whether a name equals a text, or matches a glob or regular expression.

    >>> from hlo_cli.source import Source
    >>> nowhere = Where(Source("", ""), None)
    >>> [name_matcher(nowhere, Text(text, Span(0, 0)))("add.1") for text in ("%add.1", "add", "add*")]
    [True, False, True]
    """
    if text.pattern == "part":
        name = text.text.removeprefix("%")
        return lambda value: value == name
    return matcher(where, text)


def call_matcher(where: Where, call: Call) -> Matcher:
    """Function that tests whether a name is the argument of a function: `uses(%a)` equals, `uses(~a)` contains it.

    >>> from hlo_cli.syntax.queries.where import parse_where
    >>> calls = [parse_where(text) for text in ("uses(add)", "uses(~add)", "uses(add*)")]
    >>> [call_matcher(where, where.condition)("add.1") for where in calls]
    [False, True, True]
    """
    return (matcher if call.is_pattern else name_matcher)(where, call.argument)


def is_exact(call: Call) -> bool:
    """Whether the argument of a function is a name, not a pattern.

    >>> from hlo_cli.syntax.queries.where import parse_where
    >>> [is_exact(parse_where(text).condition) for text in ("uses(add)", "uses(~add)", "uses(add*)")]
    [True, False, False]
    """
    return not call.is_pattern and call.argument.pattern == "part"


def _glob(text: str) -> Matcher:
    """Matcher for a glob in which brackets are literal, as in shapes, and … matches any text."""
    found = re.compile(translate(text.removeprefix("%").replace("[", "[[]").replace("…", "*"))).match
    return lambda value: found(value) is not None


def _expression(where: Where, text: Text) -> Matcher:
    pattern = text.text.replace("…", ".*")
    inside = text.span.start + 1
    if (at := _catastrophic_repeat(pattern)) is not None:
        message = "nested repeats are not supported (unbounded matching time)"
        raise where.error(message, Span(inside + at, inside + at + 1), "use [ab]* for (a|b)*, a* for (a*)*")
    try:
        found = re.compile(pattern, re.DOTALL).search
    except re.error as error:
        at = inside + (error.pos or 0)
        raise where.error(f"invalid regular expression: {error.msg}", Span(at, at + 1)) from None
    except (OverflowError, RecursionError):
        raise where.error("regular expression too large", text.span) from None
    return lambda value: found(value[:MAX_MATCHED_LENGTH]) is not None


def _catastrophic_repeat(pattern: str) -> int | None:
    """Position of a repeated group that contains repeats or alternatives, or of too deep nesting; None if there is
    none.
    """
    groups = [False]
    closed = False
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        repeats = _REPEATS.fullmatch(piece) is not None
        if (repeats and closed) or len(groups) > _MAX_DEPTH:
            return match.start()
        closed = False
        if piece == "(":
            groups.append(False)
        elif piece == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1] |= closed
        elif repeats or piece == "|":
            groups[-1] = True
    return None
