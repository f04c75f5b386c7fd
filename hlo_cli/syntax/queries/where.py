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

from hlo_cli.ir.where import Both, Call, Comparison, Condition, Either, Field, Flag, Not, Number, Operator, Text, Where
from hlo_cli.source import HloError, Source, Span, did_you_mean, nearest, quoted_token
from hlo_cli.syntax.queries.sizes import UNITS, unit_meant

MOST_NESTED: Final = 20
LONGEST: Final = 20_000

_FUNCTIONS: Final = ("uses", "calls", "depends_on", "feeds", "has")
_BRACKETS: Final = r"\[[^\[\]\"']*+\]|\{(?:[^{}\"']|\{[^{}\"']*+\})*+\}"
_WORD: Final = rf"(?:[^\s()\[\]{{}}\"'=!<>~,|&]|{_BRACKETS})++"
_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
_DIGITS: Final = r"[-+]?(?!0\d)(?:\d++(?:_\d++)*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_GROUPED: Final = r"[-+]?\d{1,3}(?:,\d{3})++(?![\d,])(?:\.\d++)?"
_JOINS: Final = r"(?:and|or|not|in)\b"
_UNIT: Final = rf"(?:[ \t]*+(%|(?!{_JOINS})[^\W\d_]\w*+))?+(?![\w.\-:/*?%\[])"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.\-]*+"
_TOKEN: Final = re.compile(rf"(?s){_QUOTED}|{_BRACKETS}|[()\"']|[^()\"'\[{{]++|.")
_FOUND: Final = re.compile(rf"(?s)&&|\|\||[=!<>~]++|{_QUOTED}|[\w.%\-]++|.")
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
    text = _regex(rf"(?s){_QUOTED}|{_WORD}", _text, "a name")
    value = (_regex(f"({_DIGITS}){_UNIT}", _number, "a number") | text).set_name("a value")
    single = (_regex(f"({_GROUPED}){_UNIT}", _number, "a number") | value).set_name("a value")
    field = _regex(rf"(?!{_JOINS})({_NAME})(?:\[([^\[\]\s]*+)\])?", _field, "a field")
    operator = _regex(r"==|!=|<=|>=|!~|<(?!>)|>|~|=(?![=~])", _operator, "an operator")
    among = _regex(r"(?:(not)\s++)?in\b", lambda match, _: "not in" if match[1] else "in", "in")
    listed = left - value + pp.ZeroOrMore(comma - value) + right
    compared = operator - single | among - listed
    following = pp.FollowedBy(pp.Regex(r"\)|(?:and|or)\b") | pp.StringEnd())
    function = _regex(rf"(?!{_JOINS})({_NAME})\s*+(?=\()", _function, "a function")
    call = (function - left - text + right).set_parse_action(_call)
    comparison = (field + (compared | following).set_name("an operator")).set_parse_action(_comparison)
    group = left - condition - right
    negation = _regex(r"not\b", lambda match, _: "not", "not")
    stated = (group | call | comparison).set_name("a condition")
    negated = (pp.ZeroOrMore(negation) + stated).add_parse_action(_negated)
    both = (negated + pp.ZeroOrMore(_keyword("and") - negated)).add_parse_action(_joined(Both))
    condition <<= (both + pp.ZeroOrMore(_keyword("or") - both)).add_parse_action(_joined(Either))
    return condition.parse_with_tabs()


def _regex(pattern: str, read: Callable[[re.Match[str], Span], object], name: str) -> pp.ParserElement:
    """A token: its value is computed from the match and its span."""
    expression = re.compile(pattern)

    def action(text: str, at: int, tokens: pp.ParseResults) -> object:
        match = expression.match(text, at)
        assert match is not None
        return read(match, Span(at, match.end()))

    return pp.Regex(expression).set_name(name).set_parse_action(action)


def _keyword(word: str) -> pp.ParserElement:
    return pp.Suppress(pp.Keyword(word)).set_name(word)


def _text(match: re.Match[str], span: Span) -> Text:
    if match[0][0] not in "\"'":
        return Text(match[0], span)
    quote = match[0][0]
    return Text(match[0][1:-1].replace("\\" + quote, quote), span, is_quoted=True)


def _number(match: re.Match[str], span: Span) -> Number:
    digits, unit = match[1].replace(",", "").replace("_", ""), match[2]
    value = float(digits) if any(mark in digits for mark in ".eE") or len(digits) > 30 else int(digits)
    if unit == "%":
        return Number(value / 100, "percent", match[0], span)
    if unit and unit not in UNITS:
        units = f"units: {', '.join(UNITS)}, %; quote text that starts with a digit"
        hint = did_you_mean(unit_meant(unit)) or units
        raise _wrong(match, f"unknown unit '{unit}'", Span(*match.span(2)), hint)
    return Number(value * UNITS[unit] if unit else value, "bytes" if unit else "", match[0], span)


def _field(match: re.Match[str], span: Span) -> Field:
    return Field(match[1], span, match[2])


def _operator(match: re.Match[str], span: Span) -> str:
    if match[0] == "=":
        raise _wrong(match, "expected an operator, found '='", span, "use ==")
    return match[0]


def _function(match: re.Match[str], span: Span) -> Field:
    name = match[1]
    if name not in _FUNCTIONS:
        hint = did_you_mean(nearest(name, _FUNCTIONS)) or f"available: {', '.join(_FUNCTIONS)}"
        raise _wrong(match, f"unknown function '{name}'", Span(*match.span(1)), hint)
    return Field(name, Span(*match.span(1)))


def _wrong(match: re.Match[str], message: str, span: Span, hint: str) -> HloError:
    return HloError(message, span, source=Source("", match.string), hint=hint)


def _call(tokens: pp.ParseResults) -> Call:
    function, argument = tokens
    return Call(function.name, argument, function.span)


def _comparison(tokens: pp.ParseResults) -> Condition:
    if len(tokens) == 1:
        return Flag(tokens[0])
    field, operator, *values = tokens
    named: Operator = operator
    return Comparison(field, named, tuple(values), Span(field.span.start, values[-1].span.end))


def _negated(tokens: pp.ParseResults) -> Condition:
    *negations, condition = tokens
    stated: Condition = condition
    return Not(stated) if len(negations) % 2 else stated


def _joined(kind: type[Both] | type[Either]) -> Callable[[pp.ParseResults], Condition]:
    def join(tokens: pp.ParseResults) -> Condition:
        first: Condition = tokens[0]
        return kind(tuple(tokens)) if len(tokens) > 1 else first

    return join
