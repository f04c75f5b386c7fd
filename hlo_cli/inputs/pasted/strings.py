"""Text inside of strings: what Python, JSON, and shells print of a text with line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from hlo_cli.lazy_regex import lazy_regex

_STRING = lazy_regex(
    r"""(?<!\\)("(?:[^"\\\n]|\\.){12,}+"|'(?:[^'\\\n]|\\.){12,}+')""",
    re.DOTALL,
)
_HLO = lazy_regex(r"(?:^|\n)[ \t]*+(?:HloModule |ENTRY |(?:ROOT )?%?[A-Za-z_][\w.\-]*+ = )|%[\w.\-]++ = ")
_HEADER_IN_STRING = lazy_regex(r"[\"'][ ]{0,40}HloModule (?:[^\\\n\"']|\\(?!n)[^\n]){1,20000}+(?:\\n){1,4}+[\"']")
_LINE_IN_STRING = lazy_regex(r"(?<!\\)[\"']((?:[^\"'\\\n]++|\\(?!n)[^\n]|'(?![,\n]))*+(?:\\n){1,4}+)[\"']")
_BYTES = lazy_regex(
    r"""^(?:[ \t>]|Out\[[0-9]{1,5}\]:)*+(b(?:"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]++|\\.)*+'))[ \t]*+$""", re.MULTILINE
)
_IN_BYTES: Final = ("b'\\n", 'b"\\n', "b'HloModule ", 'b"HloModule ')
"""How literals of modules begin: a proto's first field, or a text."""
_LONGEST = 1 << 26
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = lazy_regex(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def decoded_strings(text: str) -> str | None:
    """The HLO inside of the strings of a text, joined by line breaks; None if no string holds HLO.

    >>> decoded_strings(repr("HloModule m\\n\\nENTRY e {\\n}"))
    'HloModule m\\n\\nENTRY e {\\n}'
    >>> decoded_strings('{"args": {"long_name": "%a = f32[] add(%b, %c)"}}')
    '%a = f32[] add(%b, %c)'
    """
    if len(text) > _LONGEST or not ('"' in text or "'" in text):
        return None
    if (lines := _lines_in_strings(text)) is not None:
        return lines
    found = [inner for inner in _strings(text) if _HLO.search(inner)]
    return "\n".join(found) if found else None


def _lines_in_strings(text: str) -> str | None:
    """The lines of a module that a text holds as one string each; None if it has none."""
    if _HEADER_IN_STRING.search(text) is None:
        return None
    found = [unescaped(match[1]) for match in _LINE_IN_STRING.finditer(text)]
    return "".join(found) if len(found) > 1 else None


def bytes_literal(text: str) -> bytes | None:
    """The bytes of the first literal that Python printed on a line of its own, such as a serialized module.

    >>> bytes_literal(f"in:\\n{b'HloModule m'!r}\\n")
    b'HloModule m'
    """
    if len(text) > _LONGEST or not any(mark in text for mark in _IN_BYTES):
        return None
    match = _BYTES.search(text)
    if match is None:
        return None
    from ast import literal_eval  # rarely needed

    with suppress(ValueError, SyntaxError, MemoryError):
        value = literal_eval(match[1])
        return value if isinstance(value, bytes) else None
    return None


def unescaped(text: str) -> str:
    r"""The text with escapes replaced, as in a string that lost its quotes.

    >>> unescaped(r"HloModule m\nENTRY e {\n}")
    'HloModule m\nENTRY e {\n}'
    """
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[0])


def _strings(text: str) -> Iterator[str]:
    for match in _STRING.finditer(text):
        yield unescaped(match[1][1:-1])
