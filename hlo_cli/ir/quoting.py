"""Quoted strings as XLA prints them, and their contents. Mirrors `absl::CUnescape` as XLA's lexer uses it."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex


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
_SIMPLE: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unescape(match: re.Match[bytes]) -> bytes:
    octal, short, four, eight, simple = match.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 255,))
    if short is not None:
        return bytes((int(short, 16),))
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    return chr(min(int(four or eight, 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
