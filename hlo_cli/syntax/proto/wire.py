"""The wire format of protocol buffers: bytes to numbered fields and back, without copies larger than the bytes.

Mirrors the encoding that protocolbuffers.org describes. Groups, which XLA never used, are an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hlo_cli.source import HloError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types of fields, the lowest three bits of a tag."""

Field = tuple[int, "int | bytes"]
"""A field's number and its value: an unsigned number for varints, bytes for all other wire types."""

_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}
LONGEST_VARINT: Final = 10
"""The most bytes of a number."""
_VARINT = re.compile(rb"[\x80-\xff]*+[\x00-\x7f]")


class WireError(HloError):
    """Bytes that are not a sequence of fields: truncated, or not a proto."""


def read_fields(data: bytes) -> list[Field]:
    """The fields of one message, in their order.

    >>> read_fields(bytes((0x08, 0x96, 0x01, 0x12, 0x02)) + b"ab")
    [(1, 150), (2, b'ab')]
    """
    fields: list[Field] = []
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
            if kind != BYTES and kind != VARINT:
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
            if kind == VARINT:
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


def packed_field(fields: Iterable[Field], number: int) -> bytes:
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


def all_bytes(fields: Iterable[Field], number: int) -> list[bytes]:
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


def signed(value: int) -> int:
    """The signed number of 64 bits in two's complement.

    >>> signed((1 << 64) - 1)
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
        return varint(number << 3 | VARINT) + varint(value)
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def fixed(number: int, value: bytes) -> bytes:
    """A field of four or eight bytes, for floats."""
    return varint(number << 3 | (FIXED64 if len(value) == _WIDTHS[FIXED64] else FIXED32)) + value


def packed(values: Iterable[int]) -> bytes:
    """Numbers as the bytes of a packed field."""
    return b"".join(map(varint, values))
