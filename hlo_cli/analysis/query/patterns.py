"""How the texts of a condition are looked for: as a part, as a glob, or as a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import Final

from hlo_cli.ir.where import Text, Where
from hlo_cli.source import Span

Matcher = Callable[[str], bool]

LOOKED_THROUGH: Final = 20_000
"""How many characters of a text a pattern looks at; only literals and kernels in a backend_config are longer."""

_PIECE: Final = re.compile(r"(?s)\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|[*+?]|\{[0-9,]*+\}|.")
_REPEATS: Final = re.compile(r"[*+]|\{[0-9]*+,[0-9]*+\}|\{[0-9]{3,}\}|\{[2-9][0-9]\}")
_DEEPEST: Final = 50


def matcher(where: Where, text: Text) -> Matcher:
    """Whether a text has the pattern in it, or is as the glob says.

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
    """Whether a name is the one written, or one that the glob or the regular expression stands for.

    >>> from hlo_cli.source import Source
    >>> nowhere = Where(Source("", ""), None)
    >>> [name_matcher(nowhere, Text(text, Span(0, 0)))("add.1") for text in ("%add.1", "add", "add*")]
    [True, False, True]
    """
    if text.pattern == "part":
        name = text.text.removeprefix("%")
        return lambda value: value == name
    return matcher(where, text)


def _glob(text: str) -> Matcher:
    """A glob in which brackets mean themselves, as they stand in every shape, and … is any text."""
    found = re.compile(translate(text.removeprefix("%").replace("[", "[[]").replace("…", "*"))).match
    return lambda value: found(value) is not None


def _expression(where: Where, text: Text) -> Matcher:
    pattern = text.text.replace("…", ".*")
    inside = text.span.start + 1
    if (at := _endless(pattern)) is not None:
        message = "a repeat in a repeat, or of alternatives, can take forever"
        raise where.error(message, Span(inside + at, inside + at + 1), "write [ab]* for (a|b)*, a* for (a*)*")
    try:
        found = re.compile(pattern, re.DOTALL).search
    except re.error as error:
        at = inside + (error.pos or 0)
        raise where.error(f"this is no regular expression: {error.msg}", Span(at, at + 1)) from None
    except (OverflowError, RecursionError):
        raise where.error("the regular expression is too large", text.span) from None
    return lambda value: found(value[:LOOKED_THROUGH]) is not None


def _endless(pattern: str) -> int | None:
    """Where a group repeats that itself repeats or chooses, or is nested too deep: what backtracks without end."""
    groups = [False]
    closed = False
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        repeats = _REPEATS.fullmatch(piece) is not None
        if (repeats and closed) or len(groups) > _DEEPEST:
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
