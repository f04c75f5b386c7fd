"""Where each attribute of an instruction begins and ends, without interpreting its value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final

from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.operations import CALLING_ATTRIBUTES
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Span
from hlo_cli.syntax.scanning.scanner import SPACE, STRING, Scanner
from hlo_cli.syntax.scanning.shape_reader import read_shape

# --- attributes, one by one ---
# Attributes as names and texts: the end of each value, without interpreting it.
#
# A value is a word, a string, a bracket, or several of them in a row, such as `[2,4]<=[8]` or
# `mesh['x'=2] {'x'}`. Commas inside brackets or quotes do not end a value.


_PIECE = re.compile(r"(?:[^ \t\n\r,{}()\[\]\"'/=<]++|<=)++")
_ATTRIBUTE_NAME = re.compile(rf"([A-Za-z_][A-Za-z0-9_.\-]*+){SPACE}=")
_AFTER = re.compile(r"[ \t]*+([a-z_\-]++)=")
_STATEMENT = lazy_regex(r"\n[ \t]*+(?:ROOT[ \t]++)?%?[A-Za-z_][A-Za-z0-9_.\-]*+[ \t]*+=[ \t]")
_MAY_HOLD_LINES: Final = frozenset((*CALLING_ATTRIBUTES, "backend_config", "frontend_attributes"))
"""Attributes whose values may contain lines that look like instructions."""
# the second part of a mesh is written after a comma, as if it were an attribute
_DEVICE_IDS = re.compile(r"[ \t\n\r]*+,[ \t\n\r]*+device_ids=(?=\()")
_CONTINUES = re.compile(r"[{\[(]|<=")  # `[2,4]<=[8]` and `[2]{…}` are one value in several pieces
# XLA numbers elements of long lists: `/*index=5*/`, and `/*i1=2*/` in literals
_MARK: Final = lazy_regex(r"/\*(?:index|i[0-9]++)=[0-9]++\*/")
_BLANK: Final = r"(?:[ \t\r\n]++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+)++"
_DICTIONARY: Final = r'(?<==)\{[^{}"]*+(?:(?:"(?:[^"\\]++|\\.)*+"|\{[^{}"]*+\})[^{}"]*+)*+\}'
_PLAIN: Final = lazy_regex(rf"(?s){STRING}|{_DICTIONARY}|{_BLANK}")


def read_attributes(scanner: Scanner) -> tuple[Attribute, ...]:
    """The attributes that follow, each after a comma; the scanner stops after the last."""
    return tuple(_attributes(scanner))


def readable_attributes(scanner: Scanner) -> tuple[Attribute, ...]:
    """The attributes up to the first unreadable one, which `module.errors` lists."""
    attributes: list[Attribute] = []
    with suppress(HloError):
        attributes.extend(_attributes(scanner))
    return tuple(attributes)


def read_attribute(scanner: Scanner) -> Attribute:
    """One `name=value`."""
    match = _ATTRIBUTE_NAME.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        raise scanner.error("expected an attribute, such as name=value,")
    scanner.pos = match.end()
    start, end = read_value(scanner, match[1])
    if match[1] not in _MAY_HOLD_LINES or scanner.text[start] != "{":
        _check_lines(scanner, start, end)
    text = scanner.text[start:end]
    return Attribute(match[1], text if match[1] == "backend_config" else one_line(text), Span(start, end))


def expect_no_attribute(scanner: Scanner) -> None:
    """Fails if an attribute comes next on the line: the comma before it is missing."""
    match = _AFTER.match(scanner.text, scanner.pos, scanner.end)
    if match is not None:
        from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES, HEADER_ATTRIBUTES

        if match[1] in ATTRIBUTE_NAMES or match[1] in HEADER_ATTRIBUTES:
            raise scanner.error(f"expected a comma before attribute {match[1]}", *match.span(1))


def read_value(scanner: Scanner, name: str) -> tuple[int, int]:
    """Moves over an attribute's value; returns its start and end."""
    start = scanner.skip()
    # a shape before the literal; a tuple's begins with a parenthesis, as any bracket
    if name == "literal" and not scanner.at("("):
        read_shape(scanner)
        scanner.skip()
    # XLA reads a dictionary as a whole: only braces and double quotes count
    elif name == "backend_config" and scanner.at("{"):
        return scanner.balanced(json=True)
    while _take_piece(scanner) or _take_continuation(scanner) or _take_device_ids(scanner, start):
        pass
    if scanner.pos == start:
        raise scanner.error(f"expected a value of {name}")
    return start, scanner.pos


def _check_lines(scanner: Scanner, start: int, end: int) -> None:
    """Fails if a value continues into the next instruction: its bracket is not closed where it should be."""
    if scanner.text.find("\n", start, end) < 0 or (following := _STATEMENT.search(scanner.text, start, end)) is None:
        return
    try:
        Scanner(scanner.source, start, following.start()).balanced()
    except HloError as error:
        if error.diagnostic.message != "unclosed string":  # a string may hold lines that look like instructions
            raise


def _attributes(scanner: Scanner) -> Iterator[Attribute]:
    while scanner.accept(","):
        yield read_attribute(scanner)


def _take_piece(scanner: Scanner) -> bool:
    if scanner.pos >= scanner.end:
        return False
    character = scanner.text[scanner.pos]
    if character in "{[(":
        scanner.balanced()
    elif character in "\"'":
        scanner.string("a value")
    else:
        match = _PIECE.match(scanner.text, scanner.pos, scanner.end)
        if match is None:
            return False
        scanner.pos = match.end()
    return True


def _take_continuation(scanner: Scanner) -> bool:
    """Takes brackets and `<=` even after white space, as no attribute or instruction starts with one."""
    here = scanner.pos
    after_bracket = scanner.text[here - 1 : here] == "]"
    if _CONTINUES.match(scanner.text, scanner.skip(), scanner.end) or (after_bracket and scanner.at("T(")):
        return True
    scanner.pos = here
    return False


def _take_device_ids(scanner: Scanner, start: int) -> bool:
    """Takes the devices of a mesh, although they follow a comma: `mesh['x'=2], device_ids=(1,0) {'x'}`."""
    match = _DEVICE_IDS.match(scanner.text, scanner.pos, scanner.end)
    if match is None or not scanner.text.startswith("mesh", start):
        return False
    scanner.pos = match.end()
    return True


def one_line(text: str) -> str:
    """Text without line breaks and comments outside its strings and dictionaries, as XLA keeps both.

    >>> one_line("{ a,   // first" + chr(10) + "  b }")
    '{ a, b }'
    """
    if "\n" not in text and "/" not in text:
        return text.strip()
    return _PLAIN.sub(_plain, text).strip()


def _plain(match: re.Match[str]) -> str:
    word = match[0]
    if word[0] in "\"'{" or _MARK.search(word):
        return word
    if "\n" in word or "//" in word:
        return " "
    return word if "/" not in word else " " if " " in word else ""


# --- all at once by one expression ---
# Attributes split by one regular expression, if the matches cover the whole text.
#
# Mirrors the lexer of xla/hlo/parser/hlo_lexer.h for quotes and brackets; nesting deeper than compilers print, and
# unusual spacing, are left to the exact reader.


def split_attributes(text: str) -> list[tuple[str, str]] | None:
    """Names and values of `, name=value, name=value`, or None if the text has anything else.

    >>> split_attributes(', dimensions={0,1}, metadata={op_name="a, b"}')
    [('dimensions', '{0,1}'), ('metadata', '{op_name="a, b"}')]
    >>> split_attributes(", dimensions={0,1") is None
    True
    """
    if (cut := _cut(text)) is None:
        return None if (pairs := _split(text)) is None else list(pairs)
    before, metadata, after = cut
    return [*(_split(before) or ()), ("metadata", metadata), *(_split(after) or ())]


def without_metadata(text: str) -> tuple[str, str]:
    """Attributes without their metadata, which is rarely shared between lines, and its value; all of them if unusual.

    >>> without_metadata(', a=1, metadata={op_name="f"}, b=2')
    (', a=1, b=2', '{op_name="f"}')
    """
    if (cut := _cut(text)) is None:
        return text, ""
    before, metadata, after = cut
    return before + after, metadata


def around_metadata(text: str) -> tuple[str, str | None]:
    """The attributes before and after what looks like plain metadata; all of them and None if nothing does.

    If the parts do not split, it is not metadata, but in a string or in a dictionary.

    >>> around_metadata(', a=1, metadata={op_name="f"}, b=2'), around_metadata(", a=1")
    ((', a=1', ', b=2'), (', a=1', None))
    """
    before, separator, rest = text.partition(", metadata={")
    if not separator or (metadata := _METADATA_REST.match(rest)) is None:
        return text, None
    return before, rest[metadata.end() :]


def _cut(text: str) -> tuple[str, str, str] | None:
    """The attributes before the metadata, its value, and those after it, if it is present and plain."""
    before, after = around_metadata(text)
    if after is None or _split(before) is None or _split(after) is None:
        return None
    return before, text[len(before) + len(", metadata=") : len(text) - len(after)], after


@lru_cache(maxsize=1 << 12)
def _split(text: str) -> tuple[tuple[str, str], ...] | None:
    """The split attributes, for text without metadata, which many lines share."""
    if not text:
        return ()
    pairs: list[tuple[str, str]] = _pattern().findall(text)
    length = sum([len(name) + len(value) for name, value in pairs])
    return tuple(pairs) if length + len(", =") * len(pairs) == len(text) else None


def _nested(depth: int) -> str:
    """The pattern of a value: braces up to a depth, parentheses with plain braces, brackets without nesting."""
    plain = r"[^\[\](){}\"'/]*+"
    flat = rf"{plain}(?:{STRING}{plain})*+"
    places = rf"{plain}(?:(?:\{{{plain}\}}|{STRING}){plain})*+"
    inner = flat
    for _ in range(depth):
        piece = rf"\{{{inner}\}}|\({places}\)|\[{flat}\]|{STRING}|/\*index=[0-9]++\*/"
        inner = rf"{plain}(?:(?:{piece}){plain})*+"
    return inner


def _json(depth: int) -> str:
    """A dictionary as in `backend_config`: only braces and double quotes count."""
    string = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    plain = r'[^{}"]*+'
    inner = rf"{plain}(?:{string}{plain})*+"
    for _ in range(depth):
        inner = rf"{plain}(?:(?:\{{{inner}\}}|{string}){plain})*+"
    return rf"\{{{inner}\}}"


_METADATA_REST: Final = re.compile(r'[^{}"\'\\/\n]*+(?:"[^"\\\n]*+"[^{}"\'\\/\n]*+)*+\}')
"""The text after the opening brace of metadata, if plain: no braces or comments except in strings, no escapes."""
_BRACKETS: Final = rf"\{{{_nested(3)}\}}|\({_nested(1)}\)|\[{_nested(0)}\]"
_VALUE_PIECE: Final = rf"[^ \t\n\r,{{}}()\[\]\"'/=<]++|<=|{_BRACKETS}|{STRING}|[ ](?=[{{\[(])|, device_ids="


@cache
def _pattern() -> re.Pattern[str]:
    """The pattern of one attribute, compiled on first use, as that is slow."""
    value = rf"(?:(?<=, backend_config=){_json(4)}|(?:{_VALUE_PIECE})++)"
    return re.compile(rf", ([A-Za-z_][A-Za-z0-9_.\-]*+)=({value})", re.DOTALL)
