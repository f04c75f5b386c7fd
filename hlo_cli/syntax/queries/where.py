"""The language of `--where`: comparisons of fields, joined by and, or, not, and parentheses.

The words are XLA's, the language is this tool's own; `hlo help where` describes it. Its semantics are in
`analysis/query/where.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import pyparsing as pp

from hlo_cli.ir.expressions import (
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
from hlo_cli.syntax.queries.arithmetic import chain, elements, numeric
from hlo_cli.syntax.queries.tokens import (
    BRACKETS,
    DIGITS,
    GROUPED,
    JOINS,
    NAME,
    QUOTED,
    UNIT,
    read_number,
    read_text,
    regex,
    token_error,
)

MOST_NESTED: Final = 20
LONGEST: Final = 20_000
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
    found = match[0] if match else ""
    expected = error.msg.removeprefix("Expected ").replace("end of text", "`and`, `or`, or end of input")
    message = f"expected {expected}, found {quoted_token(found)}"
    return HloError(message, Span(at, at + len(found)), source=source, hint=_HINTS.get(found))


@cache
def _grammar() -> pp.ParserElement:
    condition = pp.Forward()
    left, right, comma = (pp.Suppress(mark) for mark in "(),")
    text = regex(rf"(?s){QUOTED}|{_WORD}", read_text, "a name")
    value = (regex(f"({DIGITS}){UNIT}{_END}", read_number, "a number") | text).set_name("a value")
    single = (regex(f"({GROUPED}){UNIT}{_END}", read_number, "a number") | value).set_name("a value")
    number, computed, atom = elements()
    order = regex(r"==|!=|<=|>=|<(?!>)|>|=(?![=~])", _operator, "an operator")
    match = regex(r"!~|~", _operator, "an operator")
    among = regex(r"(?:(not)\s++)?in\b", lambda match, _: "not in" if match[1] else "in", "in")
    listed = left - value + pp.ZeroOrMore(comma - value) + right
    measured = chain((single | left + number + right).set_name("a value"), atom)
    compared = (order - measured | match - single | among - listed).set_name("an operator")
    following = pp.FollowedBy(pp.Regex(r"\)|(?:and|or)\b") | pp.StringEnd())
    function = regex(rf"(?!{JOINS})({NAME})\s*+(?=\()", _function, "a function")
    similar = pp.Optional(regex("~", lambda match, _: "~", "a name"))
    call = (function - left - similar + text + right).set_parse_action(_call)
    comparison = (computed + (compared | following).set_name("an operator")).set_parse_action(_comparison)
    parenthesized = left - condition - right
    negation = regex(r"not\b", lambda match, _: "not", "not")
    stated = (call | comparison | parenthesized).set_name("a condition")
    negated = (pp.ZeroOrMore(negation) + stated).add_parse_action(_negated)
    both = (negated + pp.ZeroOrMore(_keyword("and") - negated)).add_parse_action(_joined(Both))
    condition <<= (both + pp.ZeroOrMore(_keyword("or") - both)).add_parse_action(_joined(Either))
    return condition.parse_with_tabs()


def _keyword(word: str) -> pp.ParserElement:
    return pp.Suppress(pp.Keyword(word)).set_name(word)


def _operator(match: re.Match[str], span: Span) -> str:
    if match[0] == "=":
        raise token_error(match, "expected an operator, found '='", span, "use ==")
    return match[0]


def _function(match: re.Match[str], span: Span) -> Field:
    name = match[1]
    if name not in _FUNCTIONS:
        hint = did_you_mean(nearest(name, _FUNCTIONS)) or f"available: {', '.join(_FUNCTIONS)}"
        raise token_error(match, f"unknown function '{name}'", Span(*match.span(1)), hint)
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
