"""Messages that were read, with access by field name."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from hlo_cli.syntax.proto.fields import FLOATS, FieldType, fields_of, word_of
from hlo_cli.syntax.proto.wire import WireError, packed_field, read_fields, read_numbers, signed

_NONE: Final[tuple[int | bytes, ...]] = ()


class Message:
    """A message that was read. Absent fields read as zero, empty, or an empty message, as in proto3.

    >>> pair = Message("SourceTarget", bytes((0x08, 0x01, 0x10, 0x03)))
    >>> pair.integer("source"), pair.integer("target"), pair.has("target")
    (1, 3, True)
    """

    __slots__ = ("_types", "_values", "encoded", "kind")

    def __init__(self, kind: str, data: bytes = b"") -> None:
        self.kind = kind
        self.encoded = data
        self._types = fields_of(kind)
        self._values: dict[int, list[int | bytes]] = {}
        for number, value in read_fields(data):
            self._values.setdefault(number, []).append(value)

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of the fields that are present."""
        return self._values.keys()

    def has(self, name: str) -> bool:
        """Whether the field is present, even if it is zero or empty."""
        return self._types[name].number in self._values

    def integer(self, name: str) -> int:
        """A number."""
        return self._number(self._types[name], self._last(name) or 0)

    def flag(self, name: str) -> bool:
        """A truth value."""
        return self._last(name) not in (None, 0)

    def word(self, name: str) -> str:
        """The word of an enumeration value."""
        return word_of(self._types[name].type, self.integer(name))

    def text(self, name: str) -> str:
        """A string; bytes that are not UTF-8 become lone surrogates, as in files that are read."""
        return self.data(name).decode("utf-8", "surrogateescape")

    def data(self, name: str) -> bytes:
        """The bytes of a string, a message, or a bytes field."""
        value = self._last(name)
        if isinstance(value, int):
            raise WireError(f"unexpected number in {self.kind}.{name}")
        return value or b""

    def integers(self, name: str) -> tuple[int, ...]:
        """The numbers of a repeated field, packed or not."""
        kind, found = self._types[name], list[int]()
        for value in self._all(name):
            if isinstance(value, int):
                found.append(self._number(kind, value))
            else:
                found.extend(self._number(kind, number) for number in read_numbers(value))
        return tuple(found)

    def flags(self, name: str) -> tuple[bool, ...]:
        """The truth values of a repeated field."""
        return tuple(map(bool, self.integers(name)))

    def words(self, name: str) -> tuple[str, ...]:
        """The words of a repeated field."""
        return tuple(word_of(self._types[name].type, number) for number in self.integers(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """The strings of a repeated field."""
        return tuple(value.decode("utf-8", "surrogateescape") for value in self.all_data(name))

    def decimal(self, name: str) -> float:
        """A float or a double."""
        format_ = FLOATS[self._types[name].type]
        data = self.data(name)
        if len(data) != struct.calcsize(format_):
            if data:
                raise WireError(f"invalid length of {self.kind}.{name}: {len(data)} bytes")
            return 0.0
        number: float = struct.unpack(format_, data)[0]
        return number

    def packed(self, name: str) -> bytes:
        """The values of a repeated field of numbers in packed wire format."""
        number = self._types[name].number
        return packed_field(((number, value) for value in self._all(name)), number)

    def all_data(self, name: str) -> tuple[bytes, ...]:
        """The bytes of each occurrence of a repeated field."""
        found = tuple(value for value in self._all(name) if not isinstance(value, int))
        if len(found) != len(self._all(name)):
            raise WireError(f"unexpected number in {self.kind}.{name}")
        return found

    def message(self, name: str) -> Message:
        """The message in a field; several occurrences are merged, as protos define."""
        return Message(self._types[name].type, b"".join(self.all_data(name)))

    def messages(self, name: str) -> tuple[Message, ...]:
        """The messages of a repeated field."""
        return tuple(Message(self._types[name].type, data) for data in self.all_data(name))

    def _all(self, name: str) -> list[int | bytes] | tuple[int | bytes, ...]:
        return self._values.get(self._types[name].number, _NONE)

    def _last(self, name: str) -> int | bytes | None:
        values = self._values.get(self._types[name].number)
        return values[-1] if values else None

    def _number(self, kind: FieldType, value: int | bytes) -> int:
        if not isinstance(value, int):
            raise WireError(f"expected a number in {self.kind}")
        return value if kind.type == "uint" else signed(value)
