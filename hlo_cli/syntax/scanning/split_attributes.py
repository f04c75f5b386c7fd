"""Attributes split by one regular expression, if the matches cover the whole text.

Mirrors the lexer of xla/hlo/parser/hlo_lexer.h for quotes and brackets; nesting deeper than compilers print, and
unusual spacing, are left to the exact reader.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

from hlo_cli.syntax.scanning.scanner import STRING


def split_attributes(text: str) -> list[tuple[str, str]] | None:
    """Names and values of `, name=value, name=value`, or None if the text has anything else.

    >>> split_attributes(', dimensions={0,1}, metadata={op_name="a, b"}')
    [('dimensions', '{0,1}'), ('metadata', '{op_name="a, b"}')]
    >>> split_attributes(", dimensions={0,1") is None
    True
    """
    if (cut := _cut(text)) is not None:
        before, metadata, after = cut
        return [*(_split(before) or ()), ("metadata", metadata), *(_split(after) or ())]
    pairs = _split(text)
    return None if pairs is None else list(pairs)


def without_metadata(text: str) -> tuple[str, str]:
    """Attributes without their metadata, which is rarely shared between lines, and its value; all of them if unusual.

    >>> without_metadata(', a=1, metadata={op_name="f"}, b=2')
    (', a=1, b=2', '{op_name="f"}')
    """
    if (cut := _cut(text)) is None:
        return text, ""
    before, metadata, after = cut
    return before + after, metadata


def split_tail(tail: str) -> list[tuple[str, str]] | None:
    """The attributes after the first `),` of a line, which may belong to a shape, or None.

    >>> split_tail(" f32[]) custom-call(%x), k=1")
    [('k', '1')]
    """
    while (pairs := split_attributes(tail and f",{tail}")) is None:
        before, found, tail = tail.partition("),")
        if not found or "=" in before:
            return None
    return pairs


def _cut(text: str) -> tuple[str, str, str] | None:
    """The attributes before the metadata, its value, and those after it, if it is present and plain."""
    before, found, rest = text.partition(", metadata={")
    if not found or (metadata := _METADATA_REST.match(rest)) is None:
        return None
    after = rest[metadata.end() :]
    if _split(before) is None or _split(after) is None:
        return None
    return before, f"{{{metadata[0]}", after


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
_PIECE: Final = rf"[^ \t\n\r,{{}}()\[\]\"'/=<]++|<=|{_BRACKETS}|{STRING}|[ ](?=[{{\[(])|, device_ids="


@cache
def _pattern() -> re.Pattern[str]:
    """The pattern of one attribute, compiled on first use, as that is slow."""
    value = rf"(?:(?<=, backend_config=){_json(4)}|(?:{_PIECE})++)"
    return re.compile(rf", ([A-Za-z_][A-Za-z0-9_.\-]*+)=({value})", re.DOTALL)
