"""How XLA writes small things in a text: indices in brackets, quoted strings, dictionaries, unparsed text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hlo_cli.lazy_regex import lazy_regex

# --- numbers in brackets ---
# Numbers in brackets, as XLA prints indices, dimension orders, and sizes.
#
# Mirrors `ShapeIndex::ToString` of xla/shape_util.cc, and the format of all other lists of numbers.


def index_text(numbers: Iterable[object], brackets: str = "{}") -> str:
    """Numbers as XLA prints an index.

    >>> index_text((1, 0)), index_text(()), index_text((8, 128), "[]")
    ('{1,0}', '{}', '[8,128]')
    """
    return brackets[0] + ",".join(map(str, numbers)) + brackets[1]


def index_suffix(index: tuple[int, ...]) -> str:
    """The suffix of a value's name that selects an element; empty for the whole value.

    >>> index_suffix((1,)), index_suffix(())
    ('{1}', '')
    """
    return index_text(index) if index else ""


def tuple_text(numbers: Iterable[object]) -> str:
    """Numbers in parentheses, as in documents and in XLA's iota transposes.

    >>> tuple_text((3, 5)), tuple_text((3,))
    ('(3,5)', '(3)')
    """
    return index_text(numbers, "()")


def read_index(text: str) -> tuple[int, ...]:
    """The numbers of a text without its brackets.

    >>> read_index("1,0"), read_index("")
    ((1, 0), ())
    """
    return tuple(map(int, text.split(","))) if text else ()


# 9 digits are more than any tuple has elements, and bound what `int` has to read.
_VALUE_NAME: Final = lazy_regex(r"%?+([^{}\s]++)(?:\{([ ]*+(?:[0-9]{1,9}[ ]*+(?:,[ ]*+[0-9]{1,9}[ ]*+)*+)?+)\})?+")


def read_value_name(text: str) -> tuple[str, tuple[int, ...]] | None:
    """The instruction and the index in the name of a value; None for a text that is no such name.

    >>> read_value_name("fusion.2{1, 0}"), read_value_name("%add"), read_value_name("add{,}")
    (('fusion.2', (1, 0)), ('add', ()), None)
    """
    match = _VALUE_NAME.fullmatch(text)
    return None if match is None else (match[1], read_index((match[2] or "").replace(" ", "")))


# --- marks in a text ---


SHARDING_START: Final = "sharding={"
"""The start of a sharding in a text; a text without it has none, which saves a walk over its instructions."""
FORWARD_PASS: Final = "jvp("
"""What jax's name stack has around the forward pass of a gradient; also within the mark of its backward pass."""
BACKWARD_PASS: Final = "transpose("
"""The same of its backward pass, which is the transposed linear part of the forward pass."""


# --- strings and dictionaries as XLA prints them ---
# XLA's quoted strings, unquoted dictionaries, and unparsed text.
#
# Mirrors `CEscape` as xla/hlo/ir/hlo_instruction.cc uses it, and `BackendConfigToRawString` there.


# those of absl::CEscape, by code point
_PRINTED_ESCAPES: Final = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
_PLAIN: Final = lazy_regex(r"[ !#-&(-\[\]-~]*+")
_DICTIONARY_PIECE: Final = lazy_regex(r'[^{}"]++|"(?:[^"\\]++|\\[^\n])*+"|[{}]')


def quoted(text: str) -> str:
    r"""A string as XLA prints it: C escapes, bytes beyond ASCII in octal.

    >>> print(quoted("a'é"))
    "a\'\303\251"
    """
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(_PRINTED_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '"'


def end_of_dictionary(text: str, start: int, end: int) -> int | None:
    """The end of the dictionary whose brace is at `start`; only braces and double quotes count in it.

    >>> end_of_dictionary('{"}": {}}, rest', 0, 15), end_of_dictionary("{", 0, 1)
    (9, None)
    """
    depth, pos = 0, start
    while depth > 0 or pos == start:
        match = _DICTIONARY_PIECE.match(text, pos, end)
        if match is None:
            return None
        pos = match.end()
        depth += {"{": 1, "}": -1}.get(match[0], 0)
    return pos


def dictionary_or_quoted(text: str) -> str:
    """The unchanged text if it is one dictionary in braces, else the quoted text.

    >>> print(dictionary_or_quoted('{"a":1}'), dictionary_or_quoted("a"))
    {"a":1} "a"
    """
    is_dictionary = text[:1] == "{" and end_of_dictionary(text, 0, len(text)) == len(text)
    return text if is_dictionary else quoted(text)


class UnparsedText(str):
    """The text of a value that no grammar can read, or that has none, unchanged.

    >>> str(UnparsedText("{odd}")), isinstance(UnparsedText("{odd}"), str)
    ('{odd}', True)
    """

    __slots__ = ()


# --- contents of quoted strings ---
# Quoted strings as XLA prints them, and their contents. Mirrors `absl::CUnescape` as XLA's lexer uses it.


def unquote(quoted: str) -> str:
    r"""The contents of a quoted string, without C escapes; octal escapes are bytes of UTF-8.

    >>> unquote(r'"a\"b\n\303\251"')
    'a"b\né'
    """
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(_unescape, text_bytes(inner)).decode("utf-8", "surrogateescape")


def text_bytes(text: str) -> bytes:
    r"""The bytes of a text; those that are not UTF-8 as they were read.

    >>> text_bytes("é\udcff"), text_bytes("\ud83d")
    (b'\xc3\xa9\xff', b'\xed\xa0\xbd')
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which no file contains
        return text.encode("utf-8", "surrogatepass")


_ESCAPE = lazy_regex(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_READ_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unescape(match: re.Match[bytes]) -> bytes:
    octal, short, four, eight, simple = match.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 255,))
    if short is not None:
        return bytes((int(short, 16),))
    if simple is not None:
        return _READ_ESCAPES.get(simple, simple)
    # absl::CUnescape refuses larger ones; here a text that is kept must not fail
    return chr(min(int(four or eight, 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
