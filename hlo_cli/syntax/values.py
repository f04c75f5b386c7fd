"""Attributes read as named text: where each value ends, without knowing what it means.

A value is a word, a string, a bracket, or several of them side by side, as in `[2,4]<=[8]` or
`mesh['x'=2] {'x'}`. No value is cut at a comma that stands inside brackets or quotes.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.instruction import Attribute
from hlo_cli.source import Span
from hlo_cli.syntax.scanner import STRING, Scanner
from hlo_cli.syntax.shapes import read_shape

_PIECE = re.compile(r"(?:[^ \t\n\r,{}()\[\]\"'/=<]++|<=)++")
_ATTRIBUTE_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*+)[ \t\n\r]*+=")
_CONTINUES = re.compile(r"[{\[(]|<=")
_PLAIN: Final = re.compile(rf"(?s){STRING}|(?:[ \t\r\n]++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+)++")


def read_attributes(scanner: Scanner) -> tuple[Attribute, ...]:
    """The attributes that follow, each after a comma; the scanner stops behind the last."""
    attributes = []
    while scanner.accept(","):
        attributes.append(read_attribute(scanner))
    return tuple(attributes)


def read_attribute(scanner: Scanner) -> Attribute:
    """One `name=value`."""
    match = _ATTRIBUTE_NAME.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        raise scanner.error("expected an attribute, as name=value")
    scanner.pos = match.end()
    start, end = read_value(scanner, match[1])
    return Attribute(match[1], one_line(scanner.text[start:end]), Span(start, end))


def read_value(scanner: Scanner, name: str) -> tuple[int, int]:
    """Move over an attribute's value; where it starts and ends."""
    start = scanner.skip()
    if name == "literal" and not scanner.at("("):
        read_shape(scanner)
        scanner.skip()
    elif name == "backend_config" and scanner.at("{"):
        return scanner.balanced(json=True)
    while _take_piece(scanner) or _take_continuation(scanner):
        pass
    if scanner.pos == start:
        raise scanner.error(f"expected a value of {name}")
    return start, scanner.pos


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
    """Brackets and `<=` go on with a value even behind white space: no attribute or instruction starts with one."""
    here = scanner.pos
    after_bracket = scanner.text[here - 1 : here] == "]"
    if _CONTINUES.match(scanner.text, scanner.skip(), scanner.end) or (after_bracket and scanner.at("T(")):
        return True
    scanner.pos = here
    return False


def one_line(text: str) -> str:
    """Text without line breaks and comments outside its strings; index marks on a single line stay.

    >>> one_line("{ a,   // first" + chr(10) + "  b }")
    '{ a, b }'
    """
    if "\n" not in text and "//" not in text:
        return text.strip()
    return _PLAIN.sub(_plain, text).strip()


def _plain(match: re.Match[str]) -> str:
    found = match[0]
    return " " if found[0] not in "\"'" and ("\n" in found or "//" in found) else found
