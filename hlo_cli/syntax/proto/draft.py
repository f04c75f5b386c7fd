"""Messages to be written, by the names of their fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hlo_cli.syntax.proto.fields import FLOATS, FieldType, fields_of, number_of_word
from hlo_cli.syntax.proto.wire import field, fixed, packed


class Draft:
    """A message to be written: fields are added by name, in any order, and come out by number.

    >>> Draft("SourceTarget").add("target", 3).add("source", 0).to_bytes().hex()
    '1003'
    """

    __slots__ = ("_parts", "_types", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._types = fields_of(kind)
        self._parts: list[tuple[int, bytes]] = []

    def add(self, name: str, value: Value | None, *, always: bool = False) -> Draft:
        """The same draft with one more field; what is absent, zero or empty is left out unless it is `always` there.

        A message is there even if it is empty, as long as it is given.
        """
        kind = self._types[name]
        if value is not None and (always or isinstance(value, Draft) or value):
            self._parts.extend((kind.number, part) for part in _encoded(kind, value))
        return self

    def to_bytes(self) -> bytes:
        """The bytes of the message."""
        return b"".join(part for _, part in sorted(self._parts, key=lambda part: part[0]))


Scalar = int | float | str | bytes | Draft
"""What one occurrence of a field may hold; a str stands for a word where the field is an enumeration."""
Value = Scalar | Iterable[Scalar]


def _encoded(kind: FieldType, value: Value) -> Iterable[bytes]:
    if not kind.repeated or isinstance(value, int | float | str | bytes | Draft):
        yield _one(kind, value)
    elif kind.is_number:
        if numbers := packed(_as_number(kind, each) for each in value):
            yield field(kind.number, numbers)
    else:
        yield from (_one(kind, each) for each in value)


def _one(kind: FieldType, value: Value) -> bytes:
    if isinstance(value, Draft):
        return field(kind.number, value.to_bytes())
    if isinstance(value, bytes):
        return field(kind.number, value)
    if kind.type in FLOATS:
        assert isinstance(value, int | float)
        return fixed(kind.number, struct.pack(FLOATS[kind.type], value))
    if isinstance(value, str) and kind.type in ("string", "bytes"):
        return field(kind.number, value.encode("utf-8", "surrogateescape"))
    return field(kind.number, _as_number(kind, value))


def _as_number(kind: FieldType, value: object) -> int:
    if isinstance(value, str):
        return number_of_word(kind.type, value)
    assert isinstance(value, int)
    return int(value)
