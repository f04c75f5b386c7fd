"""Messages to be written, by the names of their fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from hlo_cli.syntax.proto.fields import FLOATS, TEXTS, FieldType, fields_of, number_of_word
from hlo_cli.syntax.proto.wire import field, fixed, packed


class Draft:
    """A message to be written: fields are added by name, in any order, and come out by number.

    >>> Draft("SourceTarget").add("target", 3).add("source", 0).to_bytes().hex()
    '1003'
    """

    __slots__ = ("_parts", "_types")

    def __init__(self, kind: str) -> None:
        self._types = fields_of(kind)
        self._parts: list[tuple[int, bytes]] = []

    def add(self, name: str, value: Value | None, *, always: bool = False) -> Draft:
        """The same draft with one more field; what is absent, zero or empty is left out unless it is `always` there.

        A message is there even if it is empty, as long as it is given.
        """
        if value or (always and value is not None):
            kind = self._types[name]
            if kind.repeated:
                self._parts.extend([(kind.number, part) for part in _all(kind, value)])
            else:
                self._parts.append((kind.number, _one(kind, value)))
        return self

    def include(self, other: Draft) -> Draft:
        """The same draft with all that another one of its kind says."""
        self._parts.extend(other._parts)
        return self

    def to_bytes(self) -> bytes:
        """The bytes of the message."""
        self._parts.sort(key=_BY_NUMBER)
        return b"".join([part for _, part in self._parts])


Scalar = int | float | str | bytes | Draft
"""What one occurrence of a field may hold; a str stands for a word where the field is an enumeration."""
Value = Scalar | Iterable[Scalar]
_BY_NUMBER: Final = itemgetter(0)


def _all(kind: FieldType, value: Value) -> Iterable[bytes]:
    if isinstance(value, int | float | str | bytes | Draft):
        return (_one(kind, value),)
    if kind.is_number:
        numbers = packed(_as_number(kind, each) for each in value)
        return (field(kind.number, numbers),) if numbers else ()
    return [_one(kind, each) for each in value]


def _one(kind: FieldType, value: Value) -> bytes:
    match value:
        case bytes():
            return field(kind.number, value)
        case Draft():
            return field(kind.number, value.to_bytes())
        case str() if kind.type in TEXTS:
            return field(kind.number, value.encode("utf-8", "surrogateescape"))
        case int() | float() if kind.type in FLOATS:
            return fixed(kind.number, struct.pack(FLOATS[kind.type], value))
    return field(kind.number, _as_number(kind, value))


def _as_number(kind: FieldType, value: object) -> int:
    if isinstance(value, str):
        return number_of_word(kind.type, value)
    assert isinstance(value, int)
    return int(value)
