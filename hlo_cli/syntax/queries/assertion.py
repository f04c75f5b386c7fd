"""One expectation as text: `count(opcode == all-gather) <= 12`, `none(opcode == copy and loop)`.

The language in the parentheses is that of `--where`.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.assertion import EVERYTHING, Function, Limit, Quantity
from hlo_cli.ir.where import Field, Number, Where
from hlo_cli.source import HloError, Source, Span, did_you_mean, nearest, quoted_token
from hlo_cli.syntax.queries.sizes import parse_size
from hlo_cli.syntax.queries.where import parse_where

_WHOLE: Final[dict[str, tuple[Function, Limit, int]]] = {"none": ("none", "==", 0), "exists": ("exists", ">=", 1)}
_MEASURED: Final[dict[str, Function]] = {"count": "count", "sum": "sum", "max": "max", "min": "min"}
_LIMITS: Final[dict[str, Limit]] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
FUNCTIONS: Final = (*_WHOLE, *_MEASURED)

_NAME: Final = re.compile(r"\s*+([A-Za-z_]\w*+)?+\s*+")
_PIECE: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[^()\"',]++|.", re.DOTALL)
_FIELD: Final = re.compile(r"\s*+([A-Za-z_][\w.\-]*+)(?:\[([^\[\]\s]*+)\])?+\s*+\Z")
_WHERE: Final = re.compile(r"\s*+where\b")
_LIMIT: Final = re.compile(r"\s*+([=!<>~]++)?+\s*+(.*\S)?", re.DOTALL)
_COUNT: Final = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_SEVERAL: Final = "write each assertion as a separate string"


def parse_expectation(text: str) -> tuple[Quantity, Limit, Number]:
    """The quantity and its limit; HloError with the span of the error.

    >>> quantity, operator, limit = parse_expectation("sum(padded_bytes, opcode == copy) <= 2MiB")
    >>> quantity.function, str(quantity.field), operator, limit.value
    ('sum', 'padded_bytes', '<=', 2097152)
    >>> parse_expectation("count(fused)")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:13: error: expected a limit such as <= 12, found end of input
    """
    source = Source("", text)
    name, opened = _function(source)
    comma, closed = _closed(source, opened)
    inner = Span(opened + 1, closed)
    field: Field | None = None
    if name in ("sum", "max", "min"):
        field = _field(source, Span(inner.start, comma or inner.end))
        inner = Span((comma or inner.end) + 1, inner.end)
    where = _where(source, inner) if inner.start <= inner.end else Where(source, EVERYTHING)
    if name in _WHOLE:
        function, operator, limit = _WHOLE[name]
        if rest := text[closed + 1 :].strip():
            at = text.index(rest, closed + 1)
            hint = f"use count(…) {rest}" if rest[0] in "=!<>" else _SEVERAL
            raise HloError(f"{name}() takes no limit", Span(at, at + len(rest)), source=source, hint=hint)
        return Quantity(function, where), operator, Number(limit, "", str(limit), Span(closed, closed + 1))
    operator, number = _limit(source, closed + 1)
    return Quantity(_MEASURED[name], where, field), operator, number


def parse_limit(text: str) -> Number:
    """A number with its unit: bytes, percent, or none.

    >>> parse_limit("14GiB").value == 14 * 2**30, parse_limit("50%").value, parse_limit("1_000").value
    (True, 0.5, 1000)
    """
    bare = text.replace("_", "").replace(",", "")
    share = bare.removesuffix("%").rstrip()
    if _COUNT.fullmatch(share):
        value = float(share) if any(mark in share for mark in ".eE") else int(share)
        is_share = share != bare
        return Number(value / 100 if is_share else value, "percent" if is_share else "", text, Span(0, len(text)))
    return Number(parse_size(text), "bytes", text, Span(0, len(text)))


def _function(source: Source) -> tuple[str, int]:
    """The name of the function, and the position of its opening parenthesis."""
    match = _NAME.match(source.text)
    assert match is not None
    name, hint = match[1] or "", f"available: {', '.join(FUNCTIONS)}"
    if name not in FUNCTIONS:
        if not name:
            raise HloError("expected a function", Span(0, 1), source=source, hint=hint)
        meant = did_you_mean(nearest(name, FUNCTIONS))
        raise HloError(f"unknown function '{name}'", Span(*match.span(1)), source=source, hint=meant or hint)
    if source.text[match.end() : match.end() + 1] != "(":
        raise HloError(f"expected '(' after '{name}'", Span(match.end(), match.end() + 1), source=source)
    return name, match.end()


def _closed(source: Source, opened: int) -> tuple[int | None, int]:
    """The positions of the first comma outside other parentheses and of the closing parenthesis."""
    depth, comma = 0, None
    for piece in _PIECE.finditer(source.text, opened):
        if piece[0] == "(":
            depth += 1
        elif piece[0] == ")":
            depth -= 1
            if not depth:
                return comma, piece.start()
        elif piece[0] == "," and depth == 1 and comma is None:
            comma = piece.start()
    raise HloError("unclosed '('", Span(opened, opened + 1), source=source)


def _field(source: Source, span: Span) -> Field:
    match = _FIELD.match(source.text, span.start, span.end)
    if match is None:
        hint = "for example, sum(padded_bytes, opcode == copy)"
        raise HloError("expected a field, then a comma", _stripped(source, span), source=source, hint=hint)
    return Field(match[1], Span(match.start(1), match.end(2) + 1 if match[2] is not None else match.end(1)), match[2])


def _where(source: Source, span: Span) -> Where:
    """The condition, with spans in the whole text; it may begin with the word `where`."""
    if word := _WHERE.match(source.text, span.start, span.end):
        span = Span(word.end(), span.end)
    try:
        found = parse_where(" " * span.start + source.slice(span))
    except HloError as error:
        raise _whole(source, span, error) from None
    return Where(source, found.condition)


def _whole(source: Source, span: Span, error: HloError) -> HloError:
    """The error of a part, with its span in the whole; for a missing part, where it should be."""
    each = error.diagnostic
    at = each.span if each.span is not None and each.span.start >= span.start else Span(span.start, span.start + 1)
    return HloError(each.message, at, source=source, hint=each.hint)


def _limit(source: Source, at: int) -> tuple[Limit, Number]:
    match = _LIMIT.match(source.text, at)
    assert match is not None
    sign, text = match[1], match[2]
    if sign is None:
        found = text.split()[0] if text else ""
        start = match.start(2) if text else len(source.text)
        message = f"expected a limit such as <= 12, found {quoted_token(found)}"
        raise HloError(message, Span(start, start + len(found)), source=source, hint=_SEVERAL if found else None)
    if sign not in _LIMITS:
        hint = "use ==" if sign == "=" else f"available: {', '.join(_LIMITS)}"
        raise HloError(f"expected a comparison, found '{sign}'", Span(*match.span(1)), source=source, hint=hint)
    if not text:
        end = len(source.text)
        raise HloError(f"expected a number after {sign}, found end of input", Span(end, end), source=source)
    start = match.start(2)
    try:
        number = parse_limit(text)
    except HloError as error:
        each = error.diagnostic
        where = Span(start, start + len(text))
        raise HloError(each.message, where, source=source, hint=each.hint) from None
    return _LIMITS[sign], Number(number.value, number.unit, text, Span(start, start + len(text)))


def _stripped(source: Source, span: Span) -> Span:
    text = source.slice(span)
    start = span.start + len(text) - len(text.lstrip())
    return Span(start, max(start + 1, span.start + len(text.rstrip())))
