"""Terms of assertions: quantities, numbers, and `golden`, joined by `*`, `/`, `+`, and `-`; products bind first."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.expressions import (
    EVERYTHING,
    ArithmeticOperator,
    Calculation,
    Field,
    Function,
    Golden,
    Number,
    Operand,
    Quantity,
    Term,
    Where,
)
from hlo_cli.ir.memory_space import space_words
from hlo_cli.source import HloError, Source, Span, did_you_mean, nearest, quoted_token
from hlo_cli.syntax.queries.arithmetic import parse_operand
from hlo_cli.syntax.queries.sizes import parse_size
from hlo_cli.syntax.queries.where import parse_where

MEASURED: Final[dict[str, Function]] = {"count": "count", "sum": "sum", "max": "max", "min": "min"}
WHOLE: Final = ("none", "exists")
"""Functions that are true or false, and cannot be part of a term."""
FUNCTIONS: Final = (*WHOLE, *MEASURED)
PEAKS: Final = ("peak", "max_peak")
GOLDEN: Final = "golden"

_MOST_NESTED: Final = 20
_SYMBOLS: Final[dict[str, ArithmeticOperator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_NAME: Final = re.compile(r"\s*+([A-Za-z_]\w*+)?+\s*+")
_SPACE: Final = re.compile(r"\s*+")
_NUMBER: Final = re.compile(
    r"-?(?:\d[\d_]*+(?:,\d{3})*+(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?:\s*+(?:%|[A-Za-z]++))?+"
)
_PEAK: Final = re.compile(r"(?:max_)?peak\.(\w*+)")
_PIECE: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[^()\"',]++|.", re.DOTALL)
_FIELD: Final = re.compile(r"\s*+([A-Za-z_][\w.\-]*+)(?:\[([^\[\]\s]*+)\])?+\s*+\Z")
_COMPUTED: Final = re.compile(r"[*/+(]|\s-\s")
_WHERE: Final = re.compile(r"\s*+where\b")
_COUNT: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?|\.[0-9]{1,30}")


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


class Terms:
    """Reader of the terms in a text, from a position on."""

    def __init__(self, source: Source, at: int = 0) -> None:
        """Begins at a position."""
        self._source = source
        self._depth = 0
        self.at = at

    def term(self) -> Term:
        """Reads a sum of products; `at` is then the position after it.

        >>> Terms(Source("", "2 * sum(bytes) + 1 <= 3")).term().operator
        '+'
        """
        found = self._product()
        while (symbol := self._symbol("+-")) is not None:
            found = self._joined(symbol, found, self._product())
        return found

    def whole(self) -> Term:
        """Reads a term that ends with the text."""
        found = self.term()
        rest = self._source.text[self._skip() :].split()
        if rest:
            message = f"expected an operator or end of input, found {quoted_token(rest[0])}"
            raise self._error(message, Span(self.at, self.at + len(rest[0])))
        return found

    def condition(self) -> tuple[Where, int]:
        """Reads the condition in parentheses of `none` and `exists`, and the position of the closing one."""
        _, opened = self._function()
        _, closed = self._closed(opened)
        self.at = closed + 1
        return self._where(Span(opened + 1, closed)), closed

    def _product(self) -> Term:
        found = self._atom()
        while (symbol := self._symbol("*/")) is not None:
            found = self._joined(symbol, found, self._atom())
        return found

    def _joined(self, symbol: ArithmeticOperator, left: Term, right: Term) -> Calculation:
        return Calculation(symbol, left, right, Span(left.span.start, self.at))

    def _symbol(self, symbols: str) -> ArithmeticOperator | None:
        at = self._skip()
        found = self._source.text[at : at + 1]
        if not found or found not in symbols:
            return None
        self.at = at + 1
        return _SYMBOLS[found]

    def _atom(self) -> Term:
        at, text = self._skip(), self._source.text
        if text[at : at + 1] == "(":
            return self._group(at)
        if match := _NUMBER.match(text, at):
            self.at = match.end()
            return number_at(self._source, Span(at, match.end()))
        if match := _PEAK.match(text, at):
            return self._peak(match)
        name = _NAME.match(text, at)
        if name is not None and name[1] == GOLDEN:
            self.at = name.end(1)
            return Golden(Span(*name.span(1)))
        return self._quantity()

    def _group(self, opened: int) -> Term:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self._error(f"too many nested parentheses (limit {_MOST_NESTED})", Span(opened, opened + 1))
        self.at = opened + 1
        found = self.term()
        at = self._skip()
        if self._source.text[at : at + 1] != ")":
            raise self._error("unclosed '('", Span(opened, opened + 1))
        self.at = at + 1
        self._depth -= 1
        return found

    def _peak(self, match: re.Match[str]) -> Quantity:
        span, known = Span(*match.span()), space_words()
        if match[1].lower() not in known:
            meant = did_you_mean(nearest(match[1].lower(), known))
            raise self._error(f"unknown memory space '{match[1]}'", span, meant or f"available: {', '.join(known)}")
        self.at = match.end()
        return Quantity("max_peak", Where(self._source, EVERYTHING), space=match[1].lower(), span=span)

    def _quantity(self) -> Quantity:
        start = self.at
        name, opened = self._function()
        comma, closed = self._closed(opened)
        if name in WHOLE:
            message = f"{name}() is true or false, not a number"
            raise self._error(message, Span(opened - len(name), closed + 1), "use count(…)")
        inner = Span(opened + 1, closed)
        measured: Operand | None = None
        if name != "count":
            measured = self._measured(Span(inner.start, comma or inner.end))
            inner = Span((comma or inner.end) + 1, inner.end)
        where = self._where(inner) if inner.start <= inner.end else Where(self._source, EVERYTHING)
        self.at = closed + 1
        return Quantity(MEASURED[name], where, measured, span=Span(start, closed + 1))

    def _function(self) -> tuple[str, int]:
        """The name of the function, and the position of its opening parenthesis."""
        match = _NAME.match(self._source.text, self.at)
        assert match is not None
        name, hint = match[1] or "", f"available: {', '.join(FUNCTIONS)}"
        if name not in FUNCTIONS:
            if not name:
                raise self._error("expected a function", Span(self.at, self.at + 1), hint)
            if name in PEAKS:
                raise self._error(f"expected a memory space after {name}", Span(*match.span(1)), "such as peak.hbm")
            meant = did_you_mean(nearest(name, (*FUNCTIONS, GOLDEN)))
            raise self._error(f"unknown function '{name}'", Span(*match.span(1)), meant or hint)
        if self._source.text[match.end() : match.end() + 1] != "(":
            raise self._error(f"expected '(' after '{name}'", Span(match.end(), match.end() + 1))
        return name, match.end()

    def _closed(self, opened: int) -> tuple[int | None, int]:
        """The positions of the first comma outside other parentheses and of the closing parenthesis."""
        depth, comma = 0, None
        for piece in _PIECE.finditer(self._source.text, opened):
            if piece[0] == "(":
                depth += 1
            elif piece[0] == ")":
                depth -= 1
                if not depth:
                    return comma, piece.start()
            elif piece[0] == "," and depth == 1 and comma is None:
                comma = piece.start()
        raise self._error("unclosed '('", Span(opened, opened + 1))

    def _measured(self, span: Span) -> Operand:
        """The number that `sum`, `max`, or `min` takes of each operation: a field, or computed from fields."""
        match = _FIELD.match(self._source.text, span.start, span.end)
        if match is not None:
            end = match.end(2) + 1 if match[2] is not None else match.end(1)
            return Field(match[1], Span(match.start(1), end), match[2])
        if not _COMPUTED.search(self._source.text, span.start, span.end):
            hint = "for example, sum(padded_bytes, opcode == copy)"
            raise self._error("expected a field, then a comma", self._stripped(span), hint)
        try:
            return parse_operand(" " * span.start + self._source.slice(span))
        except HloError as error:
            raise self._moved(span, error) from None

    def _where(self, span: Span) -> Where:
        """The condition, with spans in the whole text; it may begin with the word `where`."""
        if word := _WHERE.match(self._source.text, span.start, span.end):
            span = Span(word.end(), span.end)
        try:
            found = parse_where(" " * span.start + self._source.slice(span))
        except HloError as error:
            raise self._moved(span, error) from None
        return Where(self._source, found.condition)

    def _moved(self, span: Span, error: HloError) -> HloError:
        """The error of a part, with its span in the whole; for a missing part, where it should be."""
        each = error.diagnostic
        at = each.span if each.span is not None and each.span.start >= span.start else Span(span.start, span.start + 1)
        return self._error(each.message, at, each.hint)

    def _stripped(self, span: Span) -> Span:
        text = self._source.slice(span)
        start = span.start + len(text) - len(text.lstrip())
        return Span(start, max(start + 1, span.start + len(text.rstrip())))

    def _skip(self) -> int:
        match = _SPACE.match(self._source.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at

    def _error(self, message: str, span: Span, hint: str | None = None) -> HloError:
        return HloError(message, span, source=self._source, hint=hint)


def number_at(source: Source, span: Span) -> Number:
    """The number at a span; HloError if it is none.

    >>> number_at(Source("", "peak.hbm <= 2 KiB"), Span(12, 17)).value
    2048
    """
    text = source.slice(span)
    try:
        number = parse_limit(text)
    except HloError as error:
        raise HloError(error.diagnostic.message, span, source=source, hint=error.diagnostic.hint) from None
    return Number(number.value, number.unit, text, span)
