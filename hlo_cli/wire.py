"""Which fields a protocol buffer has: as offsets in a large file, or as values of a message; and back to bytes.

Mirrors google/protobuf/wire_format_lite.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from mmap import mmap
    from typing import TypeAlias


# --- fields of large files, as offsets ---
# Fields of protocol buffers in large files, as offsets: nothing is copied; nested messages are read when asked for.
#
# Mirrors google/protobuf/wire_format_lite.h. `syntax/proto` reads the small messages of modules; this is for
# profilers'
# traces of hundreds of MB, whose modules `inputs` takes out and whose events `syntax/traces` reads.


if TYPE_CHECKING:
    Buffer: TypeAlias = bytes | mmap
    Field: TypeAlias = tuple[int, int, int]

VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5
"""The wire types of fields, the lowest three bits of a tag."""
MAX_DEPTH = 100
"""The deepest nesting of groups, as in the C++ reader."""
_LONGEST_VARINT = 10
_UNSIGNED = (1 << 64) - 1


DECODED_HINT = "the file was read as text and saved; copy it again in binary mode"
_REPLACEMENT = b"\xef\xbf\xbd"
_FEW_REPLACED = 3


def is_decoded(head: bytes) -> bool:
    """Whether binary data was decoded as UTF-8 with U+FFFD for each byte that is not: its numbers are lost.

    >>> is_decoded(bytes((10, 0xEF, 0xBF, 0xBD, 1, 8)) + "\ufffd\ufffd".encode()), is_decoded("a \ufffd b".encode())
    (True, False)
    """
    if head.count(_REPLACEMENT) < _FEW_REPLACED:
        return False
    controls = bytes(range(9))
    return len(head.translate(None, controls)) < len(head) and b"\xff" not in head


class CorruptError(ValueError):
    """Bytes that are not a sequence of fields: `at` is the offset of the first that cannot be read.

    `is_truncated` if a length or a number reaches beyond the end.
    """

    def __init__(self, at: int, *, is_truncated: bool = False) -> None:
        super().__init__(at)
        self.at, self.is_truncated = at, is_truncated


def fields(data: Buffer, start: int, end: int) -> Iterator[Field]:
    """The fields from `start` to `end`, each as tag, value, and its end; CorruptError if they are malformed.

    The value of a number is itself, as unsigned integer; that of all others is the offset of their first byte. Groups,
    which are obsolete, are skipped.

    >>> list(fields(bytes((0x08, 0x96, 0x01, 0x12, 0x02)) + b"ab", 0, 7))
    [(8, 150, 3), (18, 5, 7)]
    """
    at = start
    while at < end:
        found = field_at(data, at, end)
        at = found[2]
        if found[0] & 7 != START_GROUP:
            yield found


def field_at(data: Buffer, at: int, end: int) -> Field:
    """The field at an offset, as tag, value, and its end; for a group, only its end."""
    tag, value_at = varint_at(data, at, end)
    kind = tag & 7
    if tag < 8 or tag >> 32:
        raise CorruptError(at)
    if kind == VARINT:
        return (tag, *varint_at(data, value_at, end))
    if kind == BYTES:
        length, value_at = varint_at(data, value_at, end)
    elif kind in (FIXED64, FIXED32):
        length = 8 if kind == FIXED64 else 4
    elif kind == START_GROUP:
        return tag, value_at, _end_of_group(data, value_at, end, tag)
    else:
        raise CorruptError(at)
    if length > end - value_at:
        raise CorruptError(at, is_truncated=True)
    return tag, value_at, value_at + length


def varint_at(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The unsigned number at an offset, of at most 64 bits, and its end.

    >>> varint_at(bytes((0x96, 0x01, 0x05)), 0, 3)
    (150, 2)
    """
    value = shift = 0
    for place in range(at, min(end, at + _LONGEST_VARINT)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UNSIGNED, place + 1
        shift += 7
    raise CorruptError(at, is_truncated=end - at < _LONGEST_VARINT)


def signed(value: int) -> int:
    """The signed number of 64 bits in two's complement.

    >>> signed((1 << 64) - 1)
    -1
    """
    return value - (1 << 64) if value >> 63 else value


def _end_of_group(data: Buffer, at: int, end: int, tag: int) -> int:
    open_tags = [tag]
    while open_tags:
        if at >= end or len(open_tags) > MAX_DEPTH:
            raise CorruptError(at, is_truncated=at >= end)
        tag, after = varint_at(data, at, end)
        if tag & 7 == START_GROUP:
            open_tags.append(tag)
        elif tag & 7 == END_GROUP:
            if tag >> 3 != open_tags.pop() >> 3:
                raise CorruptError(at)
        else:
            after = field_at(data, at, end)[2]
        at = after
    return at


# --- fields of messages, as values ---
# The wire format of protocol buffers: bytes to numbered fields and back, without copies larger than the bytes.
#
# Mirrors the encoding that protocolbuffers.org describes. Groups, which XLA never used, are an error.


WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 0, 1, 2, 5
"""The wire types of fields, the lowest three bits of a tag."""

NumberedField = tuple[int, "int | bytes"]
"""A field's number and its value: an unsigned number for varints, bytes for all other wire types."""

_WIDTHS: Final = {WIRE_FIXED64: 8, WIRE_FIXED32: 4}
LONGEST_VARINT: Final = 10
"""The most bytes of a number."""
_VARINT = re.compile(rb"[\x80-\xff]*+[\x00-\x7f]")


class WireError(HloError):
    """Bytes that are not a sequence of fields: truncated, or not a proto."""


def read_fields(data: bytes) -> list[NumberedField]:
    """The fields of one message, in their order.

    >>> read_fields(bytes((0x08, 0x96, 0x01, 0x12, 0x02)) + b"ab")
    [(1, 150), (2, b'ab')]
    """
    fields: list[NumberedField] = []
    add, at, end = fields.append, 0, len(data)
    try:
        while at < end:
            tag = data[at]
            at += 1
            if tag > 127:
                tag, at = skip_number(data, at - 1, end)
            elif tag < 8:
                raise WireError("field number 0")
            kind = tag & 7
            if kind != WIRE_BYTES and kind != WIRE_VARINT:
                width = _WIDTHS[kind]
                if at + width > end:
                    raise WireError("truncated field")
                add((tag >> 3, data[at : at + width]))
                at += width
                continue
            value = data[at]
            at += 1
            if value > 127:
                if (high := data[at]) < 128:  # most numbers of more than one byte have two
                    value += (high - 1) << 7
                    at += 1
                else:
                    value, at = skip_number(data, at - 1, end)
            if kind == WIRE_VARINT:
                add((tag >> 3, value))
                continue
            start = at
            at += value
            if at > end:
                raise WireError("truncated field")
            add((tag >> 3, data[start:at]))
    except IndexError:
        raise WireError("truncated varint") from None
    except KeyError:
        raise WireError("invalid field type") from None
    return fields


def packed_field(fields: Iterable[NumberedField], number: int) -> bytes:
    """The numbers of a repeated field in packed wire format, from either encoding.

    >>> packed_field([(1, 3), (2, b""), (1, bytes((4, 5)))], 1).hex()
    '030405'
    """
    values = (value for at, value in fields if at == number)
    return b"".join(varint(value) if isinstance(value, int) else value for value in values)


def bytes_in(found: dict[int, int | bytes], number: int) -> bytes:
    """The bytes of a field that may be absent."""
    value = found.get(number, b"")
    if isinstance(value, int):
        raise WireError(f"expected bytes in field {number}, found a number")
    return value


def number_in(found: dict[int, int | bytes], number: int) -> int:
    """The unsigned number of a field that may be absent."""
    value = found.get(number, 0)
    if not isinstance(value, int):
        raise WireError(f"expected a number in field {number}")
    return value


def all_bytes(fields: Iterable[NumberedField], number: int) -> list[bytes]:
    """The bytes of each occurrence of a repeated field."""
    return [value for at, value in fields if at == number and not isinstance(value, int)]


def read_numbers(packed: bytes) -> list[int]:
    """The unsigned numbers of a packed field.

    >>> read_numbers(bytes((0x03, 0x96, 0x01)))
    [3, 150]
    """
    if packed and packed[-1] > 127:
        raise WireError("truncated varint")
    return list(map(number_of, _VARINT.findall(packed)))


@lru_cache(maxsize=1 << 16)
def number_of(varint: bytes) -> int:
    """The unsigned number of at most 64 bits in a varint."""
    if len(varint) > LONGEST_VARINT:
        raise WireError("varint of more than ten bytes")
    value = 0
    for place, byte in enumerate(varint):
        value |= (byte & 127) << 7 * place
    return value & (1 << 64) - 1


def skip_number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The unsigned number at an offset, and its end.

    >>> skip_number(bytes((0x96, 0x01, 0x05)), 0, 3)
    (150, 2)
    """
    if (found := _VARINT.match(data, at, end)) is None:
        raise WireError("truncated varint")
    return number_of(found[0]), found.end()


def signed_number(value: int) -> int:
    """The signed number of 64 bits in two's complement.

    >>> signed_number((1 << 64) - 1)
    -1
    """
    return value - (1 << 64) if value >> 63 else value


@lru_cache(maxsize=1 << 16)
def varint(value: int) -> bytes:
    """A number as a varint; a negative one as its two's complement in 64 bits.

    >>> varint(150).hex(), len(varint(-1))
    ('9601', 10)
    """
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def field(number: int, value: int | bytes) -> bytes:
    """A field with a number or with bytes as its value.

    >>> field(2, b"ab")
    b'\\x12\\x02ab'
    """
    if isinstance(value, int):
        return varint(number << 3 | WIRE_VARINT) + varint(value)
    return varint(number << 3 | WIRE_BYTES) + varint(len(value)) + value


def fixed(number: int, value: bytes) -> bytes:
    """A field of four or eight bytes, for floats."""
    return varint(number << 3 | (WIRE_FIXED64 if len(value) == _WIDTHS[WIRE_FIXED64] else WIRE_FIXED32)) + value


def packed(values: Iterable[int]) -> bytes:
    """Numbers as the bytes of a packed field."""
    return b"".join(map(varint, values))
