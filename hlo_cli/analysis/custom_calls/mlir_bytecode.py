"""Reads the header, dialects, and operation names of MLIR bytecode.

Mirrors mlir/lib/Bytecode/Reader/BytecodeReader.cpp: a header and sections, of which strings and dialects are read.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.dataclass import dataclass

MAGIC: Final = b"ML\xefR"

_STRINGS: Final = 0
_DIALECTS: Final = 1
_VERSIONED_DIALECTS: Final = 1
_COUNTED_OPERATIONS: Final = 4
_REGISTERED_FLAGS: Final = 5


@dataclass(frozen=True, slots=True)
class MlirBytecode:
    """Version of the format, producer, dialects, and operation names.

    `operations` are full names in the order of the file; both lists are empty if they cannot be read.
    """

    version: int
    producer: str
    dialects: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()


def read_bytecode(data: bytes) -> MlirBytecode | None:
    """Header of MLIR bytecode, or None for other data.

    >>> read_bytecode(MAGIC + bytes([0x01]) + b"MLIR21" + bytes([0])).producer
    'MLIR21'
    >>> read_bytecode(b"other") is None
    True
    """
    if not data.startswith(MAGIC):
        return None
    reader = _Reader(data, len(MAGIC))
    try:
        version = reader.number()
        producer = reader.text()
    except IndexError:
        return None
    try:
        sections = dict(reader.sections())
        strings = _strings(sections[_STRINGS])
        dialects, operations = _dialects(_Reader(sections[_DIALECTS]), strings, version)
    except (IndexError, KeyError):
        return MlirBytecode(version, producer)
    return MlirBytecode(version, producer, dialects, operations)


class _Reader:
    """Bytes with a read position; IndexError at the end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Reads an integer of up to 64 bits; the trailing zero bits of the first byte are the number of further
        bytes.
        """
        first = self.byte()
        more = (first & -first).bit_length() - 1 if first else 8
        if more == 8:
            return int.from_bytes(self.take(8), "little")
        return int.from_bytes(bytes((first,)) + self.take(more), "little") >> (more + 1)

    def text(self) -> str:
        """Reads a null-terminated string."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise IndexError(end)
        found = self.data[self.at : end].decode("utf-8", "surrogateescape")
        self.at = end + 1
        return found

    def sections(self) -> list[tuple[int, bytes]]:
        """Reads the remaining sections with their ids; the highest bit of an id marks an aligned section."""
        found: list[tuple[int, bytes]] = []
        while self.at < len(self.data):
            number = self.byte()
            length = self.number()
            if number & 0x80:
                alignment = self.number()
                self.at += -self.at % alignment if alignment else 0
            found.append((number & 0x7F, self.take(length)))
        return found


def _strings(section: bytes) -> list[str]:
    """Strings of the string section, which starts with their lengths in reverse order."""
    reader = _Reader(section)
    count = reader.number()
    if count > len(section):
        raise IndexError(count)
    lengths = [reader.number() for _ in range(count)]
    return [reader.take(length)[:-1].decode("utf-8", "surrogateescape") for length in reversed(lengths)]


def _dialects(reader: _Reader, strings: list[str], version: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of dialects, and full names of operations."""
    names: list[str] = []
    for _ in range(reader.number()):
        number = reader.number()
        if version >= _VERSIONED_DIALECTS:
            has_version, number = number & 1, number >> 1
            if has_version:
                reader.byte()
                reader.take(reader.number())
        names.append(strings[number])
    if version >= _COUNTED_OPERATIONS:
        reader.number()
    operations: list[str] = []
    while reader.at < len(reader.data):
        dialect = names[reader.number()]
        for _ in range(reader.number()):
            number = reader.number()
            operations.append(f"{dialect}.{strings[number >> 1 if version >= _REGISTERED_FLAGS else number]}")
    return tuple(names), tuple(operations)
