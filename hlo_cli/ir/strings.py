r"""XLA's quoted strings, unquoted dictionaries, and unparsed text.

Mirrors `CEscape` as xla/hlo/ir/hlo_instruction.cc uses it, and `BackendConfigToRawString` there.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex

_SIMPLE: Final = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
_PLAIN: Final = lazy_regex(r"[ !#-&(-\[\]-~]*+")
_DICTIONARY_PIECE: Final = re.compile(r'[^{}"]++|"(?:[^"\\]++|\\[^\n])*+"|[{}]')


def quoted(text: str) -> str:
    r"""A string as XLA prints it: C escapes, bytes beyond ASCII in octal.

    >>> print(quoted("a'é"))
    "a\'\303\251"
    """
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(_SIMPLE.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '"'


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
