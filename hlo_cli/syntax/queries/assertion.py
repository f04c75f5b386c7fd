"""One expectation as text: `count(opcode == all-gather) <= 12`, `peak.hbm <= golden * 1.02`.

The language in the parentheses is that of `--where`.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.expressions import Function, Limit, Number, Quantity, Term, golden_in
from hlo_cli.source import HloError, Source, Span, quoted_token
from hlo_cli.syntax.queries.terms import GOLDEN, WHOLE, Terms, number_at

_WHOLE: Final[dict[str, tuple[Function, Limit, int]]] = {"none": ("none", "==", 0), "exists": ("exists", ">=", 1)}
_LIMITS: Final[dict[str, Limit]] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_BEGINS_WHOLE: Final = re.compile(rf"\s*+(?:{'|'.join(WHOLE)})\s*+\(")
_LIMIT: Final = re.compile(r"\s*+([=!<>~]++)?+\s*+(.*\S)?", re.DOTALL)
_COMPUTED: Final = re.compile(rf"[*/(]|\s[+-]\s|{GOLDEN}\b|peak\.")
_SEVERAL: Final = "write each assertion as a separate string"


def parse_expectation(text: str) -> tuple[Term, Limit, Term]:
    """The quantity, the comparison, and the limit; HloError with the span of the error.

    >>> quantity, operator, limit = parse_expectation("sum(padded_bytes, opcode == copy) <= 2MiB")
    >>> quantity.function, str(quantity.field), operator, limit.value
    ('sum', 'padded_bytes', '<=', 2097152)
    >>> parse_expectation("count(fused)")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:13: error: expected a limit such as <= 12, found end of input
    """
    source = Source("", text)
    if _BEGINS_WHOLE.match(text):
        return _whole(source)
    reader = Terms(source)
    quantity = reader.term()
    if (golden := golden_in(quantity)) is not None:
        raise HloError("golden is not a quantity", golden.span, source=source, hint="write it after the comparison")
    operator, limit = _limit(source, reader.at)
    return quantity, operator, limit


def parse_computed_limit(text: str) -> Term:
    """A limit that can be computed from `golden` and other quantities.

    >>> parse_computed_limit("golden * 1.02").operator
    '*'
    """
    return _limit_at(Source("", text), Span(0, len(text)))


def _whole(source: Source) -> tuple[Term, Limit, Term]:
    """An assertion without a limit: none or exists."""
    reader = Terms(source)
    where, closed = reader.condition()
    name = source.text.split("(")[0].strip()
    function, operator, limit = _WHOLE[name]
    if rest := source.text[closed + 1 :].strip():
        at = source.text.index(rest, closed + 1)
        hint = f"use count(…) {rest}" if rest[0] in "=!<>" else _SEVERAL
        raise HloError(f"{name}() takes no limit", Span(at, at + len(rest)), source=source, hint=hint)
    span = Span(source.text.index(name), closed + 1)
    return Quantity(function, where, span=span), operator, Number(limit, "", str(limit), Span(closed, closed + 1))


def _limit(source: Source, at: int) -> tuple[Limit, Term]:
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
    return _LIMITS[sign], _limit_at(source, Span(match.start(2), match.start(2) + len(text)))


def _limit_at(source: Source, span: Span) -> Term:
    """The limit in a span that ends with the text: one number, or a term."""
    if _COMPUTED.search(source.slice(span)):
        return Terms(source, span.start).whole()
    return number_at(source, span)
