"""Tools for grammars in pyparsing for prose values, and the adapter that a strict reader uses.

The signs and words are those of xla/hlo/parser/hlo_lexer.h. Lists of numbers are one token each, as they may be long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeVar, cast

import pyparsing as pp

from hlo_cli.ir.notation import unquote
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.scanning.attributes import read_value
from hlo_cli.syntax.scanning.scanner import STRING as STRING_PATTERN
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.metadata_grammar import read_metadata_or_list

_T = TypeVar("_T")
_S: Final = r"[ \t\n\r]*+"
_INT: Final = r"-?+[0-9]{1,20}+(?![0-9.xeE_])"
_INTS: Final = rf"{_INT}(?:{_S},{_S}{_INT})*+"
_BRACED: Final = r"\{{(?:[^{{}}\"']++|{string}|{inner})*+\}}"
_QUOTED: Final = STRING_PATTERN.replace(r"\\.", r"\\[\s\S]")
_COMMENT: Final = re.compile(rf"({_QUOTED})|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n\r]*+")


def symbol(pattern: str, name: str, *, ignore_case: bool = False) -> pp.ParserElement:
    """Matches a regular expression; `name` is the expected thing in errors."""
    return pp.Regex(pattern, re.IGNORECASE if ignore_case else 0).set_name(name)


def word(text: str) -> pp.ParserElement:
    """A whole word."""
    return symbol(rf"{text}(?![A-Za-z0-9_.\-:=])", text)


def named(name: str) -> pp.ParserElement:
    """`name=`, omitted from the results."""
    return pp.Literal(f"{name}=").set_name(f"'{name}='").suppress()


def suppress_literal(text: str, name: str = "") -> pp.ParserElement:
    """A sign that is omitted from the results."""
    return pp.Literal(text).set_name(name or f"'{text}'").suppress()


def listed(item: pp.ParserElement) -> pp.ParserElement:
    """Items separated by commas; the list may be empty."""
    return pp.Opt(item + pp.ZeroOrMore(suppress_literal(",") - item))


def one_of(kind: type[StrEnum]) -> pp.ParserElement:
    """A word of an enumeration, in upper or lower case."""
    words = [member.value for member in kind]
    element = symbol(rf"(?:{'|'.join(words)})(?![A-Za-z0-9_.\-:=])", " or ".join(words), ignore_case=True)
    return element.set_parse_action(lambda found: kind(found[0].lower()))


class _FailedCheck(pp.ParseSyntaxException):
    """An error of a parse action, which says what is wrong; that of a rule says what it expected."""


def fail(text: str, at: int, message: str) -> pp.ParseFatalException:
    """An error at an offset of the text, for parse actions to raise."""
    return _FailedCheck(text, at, message)


def number(text: str, at: int, digits: str) -> int:
    """An integer of 64 bits."""
    value = int(digits)
    if not -(2**63) <= value < 2**64:
        raise fail(text, at, f"{digits} does not fit in 64 bits")
    return value - 2**64 if value >= 2**63 else value


def _numbers(text: str, at: int, found: pp.ParseResults) -> list[tuple[int, ...]]:
    return [tuple(number(text, at, digits) for digits in re.findall(r"-?[0-9]+", found[0]))]


def _metadata(text: str, at: int, found: pp.ParseResults) -> object:
    """Runs the separate reader of metadata on the same text."""
    try:
        return [read_metadata_or_list(Tokens(Source("", text), at, at + len(found[0])))]
    except HloError as error:
        span = error.diagnostic.span
        raise fail(text, span.start if span else at, error.diagnostic.message) from None


INT: Final = symbol(_INT, "an integer").set_parse_action(lambda text, at, found: number(text, at, found[0]))
INTS: Final = symbol(_INTS, "integers").set_parse_action(_numbers)
SIZES: Final = symbol(rf"\[{_S}{_INTS}{_S}\]", "at least one number in brackets").set_parse_action(_numbers)
INDEX: Final = symbol(rf"\{{{_S}(?:{_INTS}{_S},?+{_S})?+\}}", "an index in braces").set_parse_action(_numbers)
STRING: Final = symbol(_QUOTED, "a string").set_parse_action(lambda found: unquote(found[0]))
ATTRIBUTE: Final = symbol(r"[A-Za-z_][A-Za-z0-9_.\-]*+=", "a name and '='").set_parse_action(
    lambda found: found[0][:-1]
)
METADATA: Final = symbol(
    _BRACED.format(string=_QUOTED, inner=_BRACED.format(string=_QUOTED, inner=r"\{[^{}\"']*+\}")), "metadata in braces"
).set_parse_action(_metadata)


def reader(grammar: pp.ParserElement, name: str) -> Callable[[Tokens], _T]:
    """The grammar as a reader of tokens: it reads the next value completely, and fails at its token."""
    grammar = grammar.parse_with_tabs()

    def read(tokens: Tokens) -> object:
        scanner = tokens.scanner()
        start, end = read_value(scanner, name)
        text = _COMMENT.sub(_blank, tokens.source.text[start:end])
        try:
            value = grammar.parse_string(text, parse_all=True)[0]
        except pp.ParseBaseException as error:
            tokens.move(start + error.loc)
            if isinstance(error, _FailedCheck):
                tokens.fail(error.msg, tokens.start, tokens.end)
            tokens.fail(error.msg[:1].lower() + error.msg[1:])
        except RecursionError:
            tokens.fail("the value is nested too deeply", start, start + 1)
        tokens.move(end)
        return value

    return cast(Callable[[Tokens], _T], read)


def _blank(match: re.Match[str]) -> str:
    """White space as long as a comment, so that offsets stay the same."""
    return match[0] if match[1] else " " * len(match[0])
