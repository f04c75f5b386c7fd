"""What a condition of `--where` means: numbers with units, fields, arithmetic, and comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

import pyparsing as pp

from hlo_cli.ir.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Field,
    Flag,
    Not,
    Number,
    Operand,
    Operator,
    Relation,
    Text,
    Where,
)
from hlo_cli.source import HloError, Source, Span, did_you_mean, nearest, quoted_token
from hlo_cli.syntax.byte_sizes import UNITS, unit_meant

# --- tokens ---
# Tokens of filter expressions: numbers with units, fields, and texts.


JOINS: Final = r"(?:and|or|not|in)\b"
QUOTED: Final = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
BRACKETS: Final = r"\[[^\[\]\"']*+\]|\{(?:[^{}\"']|\{[^{}\"']*+\})*+\}"
DIGITS: Final = r"[-+]?(?!0\d)(?:\d++(?:_\d++)*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
GROUPED: Final = r"[-+]?\d{1,3}(?:,\d{3})++(?![\d,])(?:\.\d++)?"
UNIT: Final = rf"(?:[ \t]*+(%|(?!{JOINS})[^\W\d_]\w*+))?+"
TIMES: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1}
"""The units of times, in seconds."""
NAME: Final = r"[A-Za-z_][A-Za-z0-9_.\-]*+"
FIELD: Final = rf"(?!{JOINS})({NAME})(?:\[([^\[\]\s]*+)\])?"


def _regex(pattern: str, read: Callable[[re.Match[str], Span], object], name: str) -> pp.ParserElement:
    """Element for a token, named `name` in errors; `read` returns its value for the match and its span.

    >>> _regex("[0-9]+", lambda match, span: int(match[0]), "a number").parse_string("12")[0]
    12
    """
    expression = re.compile(pattern)

    def action(text: str, at: int, tokens: pp.ParseResults) -> object:
        match = expression.match(text, at)
        assert match is not None
        return read(match, Span(at, match.end()))

    return pp.Regex(expression).set_name(name).set_parse_action(action)


def read_text(match: re.Match[str], span: Span) -> Text:
    """Returns the text of a word or of a quoted string.

    >>> read_text(re.match(".*", "'a b'"), Span(0, 5)).text
    'a b'
    """
    if match[0][0] not in "\"'":
        return Text(match[0], span)
    quote = match[0][0]
    return Text(match[0][1:-1].replace("\\" + quote, quote), span, is_quoted=True)


def read_number(match: re.Match[str], span: Span) -> Number:
    """Returns a number with its unit, groups 1 and 2 of the match; HloError for an unknown unit.

    >>> read_number(re.match(f"({DIGITS}){UNIT}", "2 KiB"), Span(0, 5)).value
    2048
    >>> read_number(re.match(f"({DIGITS}){UNIT}", "250 us"), Span(0, 6)).value
    0.00025
    """
    digits, unit = match[1].replace(",", "").replace("_", ""), match[2]
    # a float, as Python's int takes quadratic time and no field is so large
    value = float(digits) if any(mark in digits for mark in ".eE") or len(digits) > 30 else int(digits)
    if unit == "%":
        return Number(value / 100, "percent", match[0], span)
    if unit in TIMES:
        return Number(value * TIMES[unit], "seconds", match[0], span)
    if unit and unit not in UNITS:
        units = f"units: {', '.join(UNITS)}, %, {', '.join(TIMES)}; quote text that starts with a digit"
        hint = did_you_mean(unit_meant(unit)) or units
        raise _token_error(match, f"unknown unit '{unit}'", Span(*match.span(2)), hint)
    return Number(value * UNITS[unit] if unit else value, "bytes" if unit else "", match[0], span)


def _read_field(match: re.Match[str], span: Span) -> Field:
    """Returns a field, with the place in brackets if there is one.

    >>> str(_read_field(re.match(FIELD, "dims[0]"), Span(0, 7)))
    'dims[0]'
    """
    return Field(match[1], span, match[2])


def _token_error(match: re.Match[str], message: str, span: Span, hint: str) -> HloError:
    """Error at a span of the text of a match.

    >>> _token_error(re.match("a", "a"), "no", Span(0, 1), "use b").diagnostic.hint
    'use b'
    """
    return HloError(message, span, source=Source("", match.string), hint=hint)


# --- arithmetic ---
# Arithmetic in filter expressions: `bytes * trips`, `padded_bytes - logical_bytes`; products bind first.
#
# A word can contain `*`, `/`, and `-`, as names and globs do. So, to the right of a comparison, where a word may be a
# text, an operator needs a space before it; to the left there is no text, and only `-` needs one.


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
    plain = _regex(_NUMBER, read_number, "a number")
    field = _regex(FIELD, _read_field, "a field")
    number = pp.Forward()
    left, right = pp.Suppress("("), pp.Suppress(")")
    atom = (plain | field | left - number + right).set_name("a field or a number")
    number <<= chain(atom, atom)
    before_operator = _regex(rf"{_NUMBER}(?=\s*+[-+*/])", read_number, "a number")
    opening = pp.Literal("(").add_condition(_opens_arithmetic).suppress()
    first = (field | before_operator | opening - number + right).set_name("a field")
    return Elements(number, chain(first, atom), atom)


def chain(first: pp.ParserElement, following: pp.ParserElement) -> pp.ParserElement:
    """Element for operands joined by operators, the first of which can be of another form.

    >>> from hlo_cli.ir.expressions import Number
    >>> number = _regex("[0-9]", lambda match, span: Number(int(match[0]), "", match[0], span), "a number")
    >>> chain(number, number).parse_string("1 + 2 * 3")[0].right.operator
    '*'
    """
    times, plus = _operator_of("[*/]"), _operator_of("[-+]")
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
        number: Operand = _number().parse_string(text, parse_all=True)[0]
    except pp.ParseBaseException as error:
        rest = text[error.loc :].split()
        at = len(text) - len(text[error.loc :].lstrip())
        expected = error.msg.removeprefix("Expected ").replace("end of text", "an operator")
        message = f"expected {expected}, found {quoted_token(rest[0] if rest else '')}"
        span = Span(at, at + len(rest[0]) if rest else at)
        raise HloError(message, span, source=Source("", text)) from None
    return number


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


def _operator_of(symbols: str) -> pp.ParserElement:
    return _regex(rf"{symbols}(?!=)", lambda match, _: _SYMBOLS[match[0]], "an operator")


def _folded(text: str, at: int, tokens: pp.ParseResults) -> Operand | Text:
    """Joins operands from left to right; a single one stays as it is."""
    first: Operand | Text = tokens[0]
    if len(tokens) == 1:
        return first
    number = numeric(text, first)
    for symbol, other in zip(tokens[1::2], tokens[2::2], strict=True):
        right: Operand = other
        number = Arithmetic(symbol, number, right, Span(number.span.start, right.span.end))
    return number


def _opens_arithmetic(text: str, at: int, tokens: pp.ParseResults) -> bool:
    """Whether the parenthesis at a position encloses a number: an operator or a comparison follows it."""
    at = text.index("(", at)
    depth = 0
    for piece in _PIECE.finditer(text, at):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if not depth:
            return _AFTER.match(text, piece.end()) is not None
    return False


# --- conditions ---
# The language of `--where`: comparisons of fields, joined by and, or, not, and parentheses.
#
# The words are XLA's, the language is this tool's own; `hlo help where` describes it. Its semantics are in
# `analysis/query/where.py`.


MOST_NESTED: Final = 20  # the parser recurses once per parenthesis; people write two or three
LONGEST: Final = 20_000  # a list of hundreds of names fits; beyond, it is no expression that a person wrote
_ORDERS: Final = ("==", "!=", "<", "<=", ">", ">=")
_END: Final = r"(?![\w.\-:/*?%\[])"
"""What cannot follow a number that may also be the beginning of a text."""

_FUNCTIONS: Final = ("uses", "calls", "depends_on", "feeds", "of_argument", "has")
_WORD: Final = rf"(?:[^\s()\[\]{{}}\"'=!<>~,|&]|{BRACKETS})++"
_TOKEN: Final = re.compile(rf"(?s){QUOTED}|{BRACKETS}|[()\"']|[^()\"'\[{{]++|.")
_FOUND: Final = re.compile(rf"(?s)&&|\|\||[=!<>~]++|{QUOTED}|[\w.%\-]++|.")
_HINTS: Final = {
    "&&": "use `and`",
    "||": "use `or`",
    "!": "use `not`",
    "=~": "use ~",
    "<>": "use !=",
    "(": "quote text that contains parentheses",
    ",": "quote text that contains commas",
}


def parse_where(text: str) -> Where:
    """The condition of an expression; HloError with the span of the error.

    >>> parse_where("opcode == fusion").condition.operator
    '=='
    >>> parse_where("opcode = fusion")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:8: error: expected an operator, found '='
      help: use ==
    """
    source = Source("", text)
    _check_brackets(source)
    try:
        condition: Condition = _grammar().parse_string(text, parse_all=True)[0]
    except pp.ParseBaseException as error:
        raise _error(source, error) from None
    return Where(source, condition)


def _check_brackets(source: Source) -> None:
    """Checks that parentheses and quotes are closed, and limits nesting and length, which make parsing slow."""
    if not source.text.strip():
        raise HloError("empty expression", Span(0, 0), source=source, hint="see `hlo help where`")
    if len(source.text) > LONGEST:
        raise HloError(f"expression is too long (limit {LONGEST:,} characters)")
    opened: list[int] = []
    for match in _TOKEN.finditer(source.text):
        here = Span(match.start(), match.start() + 1)
        if match[0] == "(":
            opened.append(match.start())
            if len(opened) > MOST_NESTED:
                raise HloError(f"too many nested parentheses (limit {MOST_NESTED})", here, source=source)
        elif match[0] == ")":
            if not opened:
                raise HloError("unmatched ')'", here, source=source)
            opened.pop()
        elif match[0] in "\"'[{":
            what = "string" if match[0] in "\"'" else f"'{match[0]}'"
            raise HloError(f"unclosed {what}", here, source=source)
    if opened:
        raise HloError("unclosed '('", Span(opened[-1], opened[-1] + 1), source=source)


def _error(source: Source, error: pp.ParseBaseException) -> HloError:
    text = source.text
    at = error.loc + len(text[error.loc :]) - len(text[error.loc :].lstrip())
    match = _FOUND.match(text, at)
    word = match[0] if match else ""
    expected = error.msg.removeprefix("Expected ").replace("end of text", "`and`, `or`, or end of input")
    message = f"expected {expected}, found {quoted_token(word)}"
    return HloError(message, Span(at, at + len(word)), source=source, hint=_HINTS.get(word))


@cache
def _grammar() -> pp.ParserElement:
    condition = pp.Forward()
    left, right, comma = (pp.Suppress(mark) for mark in "(),")
    text = _regex(rf"(?s){QUOTED}|{_WORD}", read_text, "a name")
    value = (_regex(f"({DIGITS}){UNIT}{_END}", read_number, "a number") | text).set_name("a value")
    single = (_regex(f"({GROUPED}){UNIT}{_END}", read_number, "a number") | value).set_name("a value")
    number, computed, atom = elements()
    order = _regex(r"==|!=|<=|>=|<(?!>)|>|=(?![=~])", _read_comparison, "an operator")
    match = _regex(r"!~|~", _read_comparison, "an operator")
    among = _regex(r"(?:(not)\s++)?in\b", lambda match, _: "not in" if match[1] else "in", "in")
    listed = left - value + pp.ZeroOrMore(comma - value) + right
    measured = chain((single | left + number + right).set_name("a value"), atom)
    compared = (order - measured | match - single | among - listed).set_name("an operator")
    following = pp.FollowedBy(pp.Regex(r"\)|(?:and|or)\b") | pp.StringEnd())
    function = _regex(rf"(?!{JOINS})({NAME})\s*+(?=\()", _function, "a function")
    similar = pp.Optional(_regex("~", lambda match, _: "~", "a name"))
    call = (function - left - similar + text + right).set_parse_action(_call)
    comparison = (computed + (compared | following).set_name("an operator")).set_parse_action(_comparison)
    parenthesized = left - condition - right
    negation = _regex(r"not\b", lambda match, _: "not", "not")
    stated = (call | comparison | parenthesized).set_name("a condition")
    negated = (pp.ZeroOrMore(negation) + stated).add_parse_action(_negated)
    both = (negated + pp.ZeroOrMore(_keyword("and") - negated)).add_parse_action(_joined(Both))
    condition <<= (both + pp.ZeroOrMore(_keyword("or") - both)).add_parse_action(_joined(Either))
    return condition.parse_with_tabs()


def _keyword(word: str) -> pp.ParserElement:
    return pp.Suppress(pp.Keyword(word)).set_name(word)


def _read_comparison(match: re.Match[str], span: Span) -> str:
    if match[0] == "=":
        raise _token_error(match, "expected an operator, found '='", span, "use ==")
    return match[0]


def _function(match: re.Match[str], span: Span) -> Field:
    name = match[1]
    if name not in _FUNCTIONS:
        hint = did_you_mean(nearest(name, _FUNCTIONS)) or f"available: {', '.join(_FUNCTIONS)}"
        raise _token_error(match, f"unknown function '{name}'", Span(*match.span(1)), hint)
    return Field(name, Span(*match.span(1)))


def _call(tokens: pp.ParseResults) -> Call:
    function, *similar, argument = tokens
    return Call(function.name, argument, function.span, is_pattern=bool(similar))


def _comparison(text: str, at: int, tokens: pp.ParseResults) -> Condition:
    left: Operand = tokens[0]
    if len(tokens) == 1:
        if isinstance(left, Field):
            return Flag(left)
        end = left.span.end
        raise HloError("expected a comparison", Span(end, end), source=Source("", text), hint="for example, > 1MiB")
    _, operator, *values = tokens
    named: Operator = operator
    span = Span(left.span.start, values[-1].span.end)
    compared = tuple(value for value in values if isinstance(value, Number | Text))
    if isinstance(left, Field) and len(compared) == len(values):
        return Comparison(left, named, compared, span)
    if named not in _ORDERS:
        message = f"{text[left.span.start : left.span.end]} is a number; {named} needs a field"
        raise HloError(message, span, source=Source("", text))
    right = numeric(text, values[0])
    return Relation(left, named, right, span)


def _negated(tokens: pp.ParseResults) -> Condition:
    *negations, condition = tokens
    stated: Condition = condition
    return Not(stated) if len(negations) % 2 else stated


def _joined(kind: type[Both] | type[Either]) -> Callable[[pp.ParseResults], Condition]:
    def join(tokens: pp.ParseResults) -> Condition:
        first: Condition = tokens[0]
        return kind(tuple(tokens)) if len(tokens) > 1 else first

    return join
