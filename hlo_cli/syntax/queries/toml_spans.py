"""The spans of keys and values in a TOML file, which TOML parsers do not report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.source import Source, Span

Path: TypeAlias = "tuple[str | int, ...]"
"""The keys and array indices that lead to a value."""

_SPACE: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r"|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'",
    re.DOTALL,
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_\-]++")
_BARE_VALUE: Final = re.compile(r"[^,\]}#\n]++")
_CHARACTER: Final = re.compile(r"(\\[ \t]*+\n\s*+)|\\u.{4}|\\U.{8}|\\?.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """The spans of a key, or of the header of its table, and of its value; elements of arrays have no key."""

    key: Span | None
    value: Span


def toml_places(source: Source) -> Mapping[Path, Place]:
    """The spans of all keys and values of a valid TOML text.

    >>> source = Source("a.toml", 'a.b = ["x", {c = 3}]\\n[[t]]\\nd = "y"  # why')
    >>> {path: source.slice(place.value) for path, place in toml_places(source).items() if place.key is None}
    {('a', 'b', 0): '"x"', ('a', 'b', 1): '{c = 3}'}
    >>> source.slice(toml_places(source)["t", 0, "d"].value)
    '"y"'
    """
    reader = _Reader(source.text)
    reader.read()
    return reader.places


def place_in_string(source: Source, string: Span, at: int) -> int:
    """The offset of a character of a string's value in the source, with escapes taken into account.

    >>> place_in_string(Source("", r'a = "x \\"y\\" z"'), Span(4, 15), 6)
    13
    """
    text = source.slice(string)
    marks = 3 if text[:3] in ('"""', "'''") else 1
    start = string.start + marks
    if marks == 3 and source.text[start] == "\n":
        start += 1
    if text[0] == "'":
        return start + at
    for match in _CHARACTER.finditer(source.text, start, string.end - marks):
        if match[1] is None:
            if not at:
                return match.start()
            at -= 1
    return string.end - marks


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lengths: dict[Path, int] = {}
        self.places: dict[Path, Place] = {}

    def read(self) -> None:
        """Reads all statements: headers of tables, and keys with their values."""
        table: Path = ()
        while self._skip() < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 1 + is_array
        path = self._within(self._key())
        self._skip()
        self._at += 1 + is_array
        if is_array:
            self._lengths[path] = self._lengths.get(path, -1) + 1
            path = (*path, self._lengths[path])
        self.places[path] = Place(Span(start, self._at), Span(start, self._at))
        return path

    def _within(self, path: Path) -> Path:
        """The path with the index of the last element of every array of tables on it."""
        found: Path = ()
        for key in path[:-1]:
            found = (*found, key)
            if found in self._lengths:
                found = (*found, self._lengths[found])
        return (*found, path[-1])

    def _pair(self, table: Path) -> None:
        start = self._skip()
        path = (*table, *self._key())
        key = Span(start, self._at)
        self._skip()
        self._at += 1  # the =
        self.places[path] = Place(key, self._value(path))

    def _key(self) -> tuple[str, ...]:
        names: list[str] = []
        while True:
            self._skip()
            names.append(self._name())
            end = self._at
            if self._text[self._skip()] != ".":
                self._at = end
                return tuple(names)
            self._at += 1

    def _name(self) -> str:
        import tomllib

        match = _STRING.match(self._text, self._at) or _BARE_KEY.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return next(iter(tomllib.loads(f"{match[0]} = 0")))

    def _value(self, path: Path) -> Span:
        start = self._skip()
        opened = self._text[start]
        if opened == "[":
            self._elements(path)
        elif opened == "{":
            self._members(path)
        else:
            match = _STRING.match(self._text, start) or _BARE_VALUE.match(self._text, start)
            assert match is not None
            self._at = start + len(match[0].rstrip())
        return Span(start, self._at)

    def _elements(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._text[self._skip()] != "]":
            self.places[(*path, number)] = Place(None, self._value((*path, number)))
            number += 1
            self._comma()
        self._at += 1

    def _members(self, path: Path) -> None:
        self._at += 1
        while self._text[self._skip()] != "}":
            self._pair(path)
            self._comma()
        self._at += 1

    def _comma(self) -> None:
        if self._text[self._skip()] == ",":
            self._at += 1

    def _skip(self) -> int:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at
