"""Arithmetic in filter expressions: `bytes * trips`, `padded_bytes - logical_bytes`; products bind first.

A word can contain `*`, `/`, and `-`, as names and globs do. So, to the right of a comparison, where a word may be a
text, an operator needs a space before it; to the left there is no text, and only `-` needs one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

import pyparsing as pp

from hlo_cli.ir.expressions import Arithmetic, ArithmeticOperator, Field, Operand, Text
from hlo_cli.source import HloError, Source, Span, quoted_token
from hlo_cli.syntax.queries.tokens import DIGITS, FIELD, QUOTED, UNIT, read_field, read_number, regex

_FIELD: Final = re.compile(FIELD)
_PIECE: Final = re.compile(rf"(?s){QUOTED}|[()]|[^()\"']++|.")
_AFTER: Final = re.compile(r"\s*+(?:[-+*/<>]|[=!]=)")
_NUMBER: Final = rf"({DIGITS}){UNIT}(?![\w.%\[])"
_SYMBOLS: Final[dict[str, ArithmeticOperator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}


class Elements(NamedTuple):
    """Elements of a grammar: any number, the start of a comparison, and a number without operators around it."""

    number: pp.ParserElement
    beginning: pp.ParserElement
    atom: pp.ParserElement


def elements() -> Elements:
    """Elements for numbers that are computed.

    >>> elements().number.parse_string("bytes * (trips + 2)")[0].operator
    '*'
    """
    plain = regex(_NUMBER, read_number, "a number")
    field = regex(FIELD, read_field, "a field")
    number = pp.Forward()
    left, right = pp.Suppress("("), pp.Suppress(")")
    atom = (plain | field | left - number + right).set_name("a field or a number")
    number <<= chain(atom, atom)
    before_operator = regex(rf"{_NUMBER}(?=\s*+[-+*/])", read_number, "a number")
    opening = pp.Literal("(").add_condition(_opens_arithmetic).suppress()
    first = (field | before_operator | opening - number + right).set_name("a field")
    return Elements(number, chain(first, atom), atom)


def chain(first: pp.ParserElement, following: pp.ParserElement) -> pp.ParserElement:
    """Element for operands joined by operators, the first of which can be of another form.

    >>> from hlo_cli.ir.expressions import Number
    >>> number = regex("[0-9]", lambda match, span: Number(int(match[0]), "", match[0], span), "a number")
    >>> chain(number, number).parse_string("1 + 2 * 3")[0].right.operator
    '*'
    """
    times, plus = _operator("[*/]"), _operator("[-+]")
    first_product = (first + pp.ZeroOrMore(times - following)).add_parse_action(_folded)
    product = (following + pp.ZeroOrMore(times - following)).add_parse_action(_folded)
    return (first_product + pp.ZeroOrMore(plus - product)).add_parse_action(_folded)


def parse_operand(text: str) -> Operand:
    """The number that an arithmetic expression computes; HloError with the span of the error.

    >>> parse_operand("bytes * trips").operator
    '*'
    >>> parse_operand("bytes *")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:8: error: expected a field or a number, found end of input
    """
    try:
        found: Operand = _number().parse_string(text, parse_all=True)[0]
    except pp.ParseBaseException as error:
        rest = text[error.loc :].split()
        at = len(text) - len(text[error.loc :].lstrip())
        expected = error.msg.removeprefix("Expected ").replace("end of text", "an operator")
        message = f"expected {expected}, found {quoted_token(rest[0] if rest else '')}"
        span = Span(at, at + len(rest[0]) if rest else at)
        raise HloError(message, span, source=Source("", text)) from None
    return found


def numeric(text: str, operand: Operand | Text) -> Operand:
    """The operand, a word as the field that it names; HloError for other texts.

    >>> str(numeric("x > dims[0]", Text("dims[0]", Span(4, 11))))
    'dims[0]'
    """
    if not isinstance(operand, Text):
        return operand
    match = None if operand.is_quoted else _FIELD.fullmatch(operand.text)
    if match is None:
        message = f"expected a field or a number, found {quoted_token(operand.text)}"
        raise HloError(message, operand.span, source=Source("", text))
    return Field(match[1], operand.span, match[2])


@cache
def _number() -> pp.ParserElement:
    return elements().number.parse_with_tabs()


def _operator(symbols: str) -> pp.ParserElement:
    return regex(rf"{symbols}(?!=)", lambda match, _: _SYMBOLS[match[0]], "an operator")


def _folded(text: str, at: int, tokens: pp.ParseResults) -> Operand | Text:
    """Joins operands from left to right; a single one stays as it is."""
    first: Operand | Text = tokens[0]
    if len(tokens) == 1:
        return first
    found = numeric(text, first)
    for symbol, other in zip(tokens[1::2], tokens[2::2], strict=True):
        right: Operand = other
        found = Arithmetic(symbol, found, right, Span(found.span.start, right.span.end))
    return found


def _opens_arithmetic(text: str, at: int, tokens: pp.ParseResults) -> bool:
    """Whether the parenthesis at a position encloses a number: an operator or a comparison follows it."""
    at = text.index("(", at)
    depth = 0
    for piece in _PIECE.finditer(text, at):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if not depth:
            return _AFTER.match(text, piece.end()) is not None
    return False
