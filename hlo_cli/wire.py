"""Fields of protocol buffers in large files, as offsets: nothing is copied; nested messages are read when asked for.

Mirrors google/protobuf/wire_format_lite.h. `syntax/proto` reads the small messages of modules; this is for profilers'
traces of hundreds of MB, whose modules `inputs` takes out and whose events `syntax/traces` reads.
"""

from __future__ import annotations

from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap
    from typing import TypeAlias

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
