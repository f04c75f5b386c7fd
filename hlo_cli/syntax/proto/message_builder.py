"""Messages to be written, by the names of their fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import text_bytes
from hlo_cli.syntax.proto.fields import FLOATS, TEXTS, FieldType, fields_of, number_of_word
from hlo_cli.syntax.proto.wire import BYTES, VARINT, fixed, packed, varint


class MessageBuilder:
    """A message to be written: fields are added by name, in any order, and come out by number.

    >>> MessageBuilder("SourceTarget").add("target", 3).add("source", 0).to_bytes().hex()
    '1003'
    """

    __slots__ = ("_parts", "_places")

    def __init__(self, kind: str) -> None:
        self._places = _places(kind)
        self._parts: list[tuple[int, bytes]] = []

    def add(self, name: str, value: Value | None, *, always: bool = False) -> MessageBuilder:
        """The same draft with one more field; what is absent, zero or empty is left out unless it is `always` there.

        A message is there even if it is empty, as long as it is given.
        """
        if value or (always and value is not None):
            place = self._places[name]
            if place.repeated:
                self._parts.extend([(place.number, part) for part in _all(place, value)])
            else:
                self._parts.append((place.number, _one(place, value)))
        return self

    def include(self, other: MessageBuilder) -> MessageBuilder:
        """The same draft with all fields of another one of its kind."""
        self._parts.extend(other._parts)
        return self

    def to_bytes(self) -> bytes:
        """The bytes of the message."""
        self._parts.sort(key=_BY_NUMBER)
        return b"".join([part for _, part in self._parts])


Scalar = int | float | str | bytes | MessageBuilder
"""What one occurrence of a field may hold; a str stands for a word where the field is an enumeration."""
Value = Scalar | Iterable[Scalar]
_BY_NUMBER: Final = itemgetter(0)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a field goes, and how: what is the same for all its values."""

    number: int
    type: str
    repeated: bool
    is_number: bool
    is_text: bool
    float_format: str
    number_tag: bytes
    bytes_tag: bytes


@cache
def _places(message: str) -> dict[str, _Place]:
    return {name: _place(kind) for name, kind in fields_of(message).items()}


def _place(kind: FieldType) -> _Place:
    return _Place(
        kind.number,
        kind.type,
        kind.repeated,
        kind.is_number,
        kind.type in TEXTS,
        FLOATS.get(kind.type, ""),
        varint(kind.number << 3 | VARINT),
        varint(kind.number << 3 | BYTES),
    )


def _all(place: _Place, value: Value) -> Iterable[bytes]:
    if isinstance(value, int | float | str | bytes | MessageBuilder):
        return (_one(place, value),)
    if place.is_number:
        numbers = packed([_as_number(place, each) for each in value])
        return (_one(place, numbers),) if numbers else ()
    return [_one(place, each) for each in value]


def _one(place: _Place, value: Value) -> bytes:
    if isinstance(value, str) and place.is_text:
        value = text_bytes(value)
    elif isinstance(value, MessageBuilder):
        value = value.to_bytes()
    if isinstance(value, bytes):
        return place.bytes_tag + varint(len(value)) + value
    if place.float_format:
        return fixed(place.number, struct.pack(place.float_format, value))
    return place.number_tag + varint(_as_number(place, value))


def _as_number(place: _Place, value: object) -> int:
    if isinstance(value, str):
        return number_of_word(place.type, value)
    assert isinstance(value, int)
    return value
