"""Tokens of filter expressions: numbers with units, fields, and texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyparsing as pp

from hlo_cli.ir.expressions import Field, Number, Text
from hlo_cli.source import HloError, Source, Span, did_you_mean
from hlo_cli.syntax.queries.sizes import UNITS, unit_meant

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


def regex(pattern: str, read: Callable[[re.Match[str], Span], object], name: str) -> pp.ParserElement:
    """Element for a token, named `name` in errors; `read` returns its value for the match and its span.

    >>> regex("[0-9]+", lambda match, span: int(match[0]), "a number").parse_string("12")[0]
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
    value = float(digits) if any(mark in digits for mark in ".eE") or len(digits) > 30 else int(digits)
    if unit == "%":
        return Number(value / 100, "percent", match[0], span)
    if unit in TIMES:
        return Number(value * TIMES[unit], "seconds", match[0], span)
    if unit and unit not in UNITS:
        units = f"units: {', '.join(UNITS)}, %, {', '.join(TIMES)}; quote text that starts with a digit"
        hint = did_you_mean(unit_meant(unit)) or units
        raise token_error(match, f"unknown unit '{unit}'", Span(*match.span(2)), hint)
    return Number(value * UNITS[unit] if unit else value, "bytes" if unit else "", match[0], span)


def read_field(match: re.Match[str], span: Span) -> Field:
    """Returns a field, with the place in brackets if there is one.

    >>> str(read_field(re.match(FIELD, "dims[0]"), Span(0, 7)))
    'dims[0]'
    """
    return Field(match[1], span, match[2])


def token_error(match: re.Match[str], message: str, span: Span, hint: str) -> HloError:
    """Error at a span of the text of a match.

    >>> token_error(re.match("a", "a"), "no", Span(0, 1), "use b").diagnostic.hint
    'use b'
    """
    return HloError(message, span, source=Source("", match.string), hint=hint)
