"""Which fields the bytes of a protocol buffer hold: where each is, or its value; and back to bytes.

`field_span_at` is the one reader of a field. It copies nothing, so the traces of profilers, of hundreds of MB, are
read in place. Loops that read what is usual without a call (`read_fields` here, those of the instructions of a proto
and of the events of a trace) leave all that is rare or damaged to it.
Mirrors google/protobuf/wire_format_lite.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_cli.source import HloError

if TYPE_CHECKING:
    from mmap import mmap

    Buffer: TypeAlias = bytes | mmap

FieldSpan = tuple[int, int, int]
"""A field's tag, value, and end; the value is a varint's unsigned number, else the offset of its first byte."""
Field = tuple[int, "int | bytes"]
"""A field's number and its value: an unsigned number for varints, bytes for all other wire types."""

VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5
"""The wire types of fields, the lowest three bits of a tag."""
WIDTHS: Final = {FIXED64: 8, FIXED32: 4}
"""The bytes of the numbers of fixed width."""
LONGEST_VARINT: Final = 10
"""The most bytes of a number: 64 bits, seven in each byte."""
MAX_DEPTH: Final = 100
"""The deepest nesting of groups, as in the C++ reader."""
_UNSIGNED: Final = (1 << 64) - 1  # an int64 below 0 is written as its two's complement in 64 bits
_VARINT: Final = re.compile(rb"[\x80-\xff]*+[\x00-\x7f]")


class WireError(HloError):
    """Bytes that are not a sequence of fields, or not of the expected ones.

    `at` is the offset of the first that cannot be read; `is_truncated` if a length or a number reaches beyond the end.
    """

    def __init__(self, message: str, at: int = 0, *, is_truncated: bool = False) -> None:
        super().__init__(message)
        self.at, self.is_truncated = at, is_truncated


# --- where fields are ---


def field_spans(data: Buffer, at: int, end: int) -> Iterator[FieldSpan]:
    """The fields from `at` to `end`; WireError at the first that is malformed. Groups, which are obsolete, are skipped.

    >>> list(field_spans(bytes((0x08, 0x96, 0x01, 0x12, 0x02)) + b"ab", 0, 7))
    [(8, 150, 3), (18, 5, 7)]
    """
    while at < end:
        span = field_span_at(data, at, end)
        at = span[2]
        if span[0] & 7 != START_GROUP:
            yield span


def field_span_at(data: Buffer, at: int, end: int) -> FieldSpan:
    """The field at an offset; of a group, only tag and end count."""
    tag, value_at = number_at(data, at, end)
    kind = tag & 7
    if tag < 8 or tag >> 32:
        raise WireError("field number 0" if tag < 8 else "invalid field number", at)
    if kind == VARINT:
        return (tag, *number_at(data, value_at, end))
    if kind == BYTES:
        length, value_at = number_at(data, value_at, end)
    elif kind in WIDTHS:
        length = WIDTHS[kind]
    elif kind == START_GROUP:
        return tag, value_at, _end_of_group(data, value_at, end, tag)
    else:
        raise WireError("invalid field type", at)
    if length > end - value_at:
        raise WireError("truncated field", at, is_truncated=True)
    return tag, value_at, value_at + length


def number_at(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The unsigned number at an offset, of at most 64 bits, and its end.

    >>> number_at(bytes((0x96, 0x01, 0x05)), 0, 3)
    (150, 2)
    """
    value = shift = 0
    for place in range(at, min(end, at + LONGEST_VARINT)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UNSIGNED, place + 1
        shift += 7
    if end - at < LONGEST_VARINT:
        raise WireError("truncated varint", at, is_truncated=True)
    raise WireError("varint of more than ten bytes", at)


def spans_of(data: Buffer, message: tuple[int, int], tag: int) -> Iterator[tuple[int, int]]:
    """The value and end of each field with a tag in the message at a place.

    >>> list(spans_of(bytes((0x12, 0x01)) + b"a" + bytes((0x08, 0x07)), (0, 5), 0x12))
    [(2, 3)]
    """
    return ((value, end) for field_tag, value, end in field_spans(data, *message) if field_tag == tag)


def first_span(data: Buffer, message: tuple[int, int], tag: int) -> tuple[int, int]:
    """The value and end of the first field with a tag in the message at a place; (0, 0) without one."""
    return next(spans_of(data, message, tag), (0, 0))


def _end_of_group(data: Buffer, at: int, end: int, tag: int) -> int:
    open_tags = [tag]
    while open_tags:
        if at >= end or len(open_tags) > MAX_DEPTH:
            raise WireError("invalid field type", at, is_truncated=at >= end)
        tag, after = number_at(data, at, end)
        if tag & 7 == START_GROUP:
            open_tags.append(tag)
        elif tag & 7 == END_GROUP:
            if tag >> 3 != open_tags.pop() >> 3:
                raise WireError("invalid field type", at)
        else:
            after = field_span_at(data, at, end)[2]
        at = after
    return at


# --- the values of a message ---


def read_fields(data: bytes) -> list[Field]:
    """The fields of one message, in their order.

    >>> read_fields(bytes((0x08, 0x96, 0x01, 0x12, 0x02)) + b"ab")
    [(1, 150), (2, b'ab')]
    """
    fields: list[Field] = []
    add, at, end = fields.append, 0, len(data)
    tag = value = start = 0
    while at < end:
        try:  # nearly all fields have a tag and a number of one or two bytes each
            tag, value, start = data[at], data[at + 1], at + 2
            if tag > 127:
                tag = tag - 128 + (value << 7) if value < 128 else 0
                value = data[start]
                start += 1
            if value > 127:
                if (high := data[start]) > 127:
                    tag = 0
                value += (high << 7) - 128
                start += 1
        except IndexError:  # the message ends within four bytes: read with its end in mind
            tag = 0
        if tag > 7:
            kind = tag & 7
            if not kind:
                add((tag >> 3, value))
                at = start
                continue
            if kind == BYTES and (stop := start + value) <= end:
                add((tag >> 3, data[start:stop]))
                at = stop
                continue
        tag, value, at = field_span_at(data, at, end)
        if tag & 7 != START_GROUP:
            add((tag >> 3, data[value:at] if tag & 7 else value))
    return fields


def packed_field(fields: Iterable[Field], number: int) -> bytes:
    """The numbers of a repeated field in packed wire format, from either encoding.

    >>> packed_field([(1, 3), (2, b""), (1, bytes((4, 5)))], 1).hex()
    '030405'
    """
    values = (value for tag, value in fields if tag == number)
    return b"".join(varint(value) if isinstance(value, int) else value for value in values)


def bytes_in(field_tag: dict[int, int | bytes], number: int) -> bytes:
    """The bytes of a field that may be absent."""
    value = field_tag.get(number, b"")
    if isinstance(value, int):
        raise WireError(f"expected bytes in field {number}, found a number")
    return value


def number_in(field_tag: dict[int, int | bytes], number: int) -> int:
    """The unsigned number of a field that may be absent."""
    value = field_tag.get(number, 0)
    if not isinstance(value, int):
        raise WireError(f"expected a number in field {number}")
    return value


def all_bytes(fields: Iterable[Field], number: int) -> list[bytes]:
    """The bytes of each occurrence of a repeated field."""
    return [value for tag, value in fields if tag == number and not isinstance(value, int)]


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
    """The unsigned number of at most 64 bits in a varint; cached, as the ids of a module recur."""
    return number_at(varint, 0, len(varint))[0]


def signed(value: int) -> int:
    """The signed number of 64 bits in two's complement.

    >>> signed((1 << 64) - 1)
    -1
    """
    return value - (1 << 64) if value >> 63 else value


# --- back to bytes ---


@lru_cache(maxsize=1 << 16)
def varint(value: int) -> bytes:
    """A number as a varint; a negative one as its two's complement in 64 bits.

    >>> varint(150).hex(), len(varint(-1))
    ('9601', 10)
    """
    value &= _UNSIGNED
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
    return varint(number << 3 | (FIXED64 if len(value) == WIDTHS[FIXED64] else FIXED32)) + value


def packed(values: Iterable[int]) -> bytes:
    """Numbers as the bytes of a packed field."""
    return b"".join(map(varint, values))


# --- binary data that was saved as text ---


DECODED_HINT = "the file was read as text and saved; copy it again in binary mode"
_REPLACEMENT = b"\xef\xbf\xbd"
_FEW_REPLACED = 3  # fewer may be meant: U+FFFD is a character that a name can hold


def is_decoded(head: bytes) -> bool:
    """Whether binary data was decoded as UTF-8 with U+FFFD for each byte that is not: its numbers are lost.

    >>> is_decoded(bytes((10, 0xEF, 0xBF, 0xBD, 1, 8)) + "\ufffd\ufffd".encode()), is_decoded("a \ufffd b".encode())
    (True, False)
    """
    if head.count(_REPLACEMENT) < _FEW_REPLACED:
        return False
    controls = bytes(range(9))  # tags of low fields; texts have tabs and line breaks at most
    return len(head.translate(None, controls)) < len(head) and b"\xff" not in head
