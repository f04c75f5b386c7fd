"""Escapes characters in text from a dump that could control a terminal."""

from __future__ import annotations

from hlo_cli.lazy_regex import lazy_regex

# invisible characters that are printable for Python: joiners, fillers, variation selectors
_INVISIBLE = lazy_regex("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def sanitize(text: str) -> str:
    r"""The text with control, direction, and invisible characters escaped.

    >>> print(sanitize("fusion\x1b[31m.2\n"))
    fusion\x1b[31m.2\x0a
    >>> print(sanitize("a\u202eb"))
    a\u202eb
    """
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(each if each.isprintable() and not _INVISIBLE.match(each) else escape(each) for each in text)


def escape(character: str) -> str:
    r"""A character as a Python escape sequence with its number.

    >>> print(escape("é"), escape("→"))
    \xe9 \u2192
    """
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
