"""Values of protobuf's text format, and of its JSON, in wire format: numbers, words, and strings.

Mirrors `TextFormat::Parser` of google/protobuf/text_format.cc, and `JsonStringToMessage` of its JSON.
"""

from __future__ import annotations

import re
import struct
from binascii import Error, a2b_base64
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import text_bytes, unquote
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, did_you_mean, joined_by_or, nearest
from hlo_cli.syntax.proto.fields import FLOATS, TEXTS, FieldType, enum_names, fields_of
from hlo_cli.syntax.proto.tables import RENAMED_FIELDS
from hlo_cli.syntax.proto.wire import BYTES, FIXED32, FIXED64, VARINT, varint

_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,24})")
_WHOLE: Final = lazy_regex(r"(-?[0-9]{1,24})\.0*+")
_HEXADECIMAL: Final = lazy_regex(r"0[xX][0-9a-fA-F]{1,16}")
_FLOAT: Final = lazy_regex(
    r"-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fF]?|-?inf(?:inity)?f?|-?nanf?", re.IGNORECASE
)
_SURROGATES: Final = lazy_regex(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_TRUTHS: Final = MappingProxyType({"true": 1, "t": 1, "1": 1, "false": 0, "f": 0, "0": 0})
_LONGEST_FLOAT: Final = 1000
_MOST_NAMES: Final = 8
"""The most names of an enumeration that an error lists."""
_MOST_KEPT: Final = 1 << 16
_LONGEST_KEPT: Final = 200


@dataclass(slots=True, eq=False)
class Slot:
    """A field as texts give it: its wire type and, by text, the values that were encoded, as most occur often.

    `is_packed` fields are repeated numbers, which share one wire field; their values have no tag.
    """

    name: str
    field: FieldType
    is_message: bool
    is_packed: bool
    is_map: bool
    tag: bytes
    known: dict[str, bytes]


@cache
def slots_of(kind: str) -> Mapping[str, Slot]:
    """The fields of a message by name, by JSON's name, and by number, as unknown fields are printed."""
    found: dict[str, Slot] = {}
    for name, field in fields_of(kind).items():
        is_text = field.type in TEXTS
        wire = VARINT if field.is_number else BYTES
        if field.type in FLOATS:
            wire = FIXED64 if field.type == "double" else FIXED32
        is_packed = field.repeated and not is_text and not field.is_message
        tag = varint(field.number << 3 | (BYTES if is_packed else wire))
        is_map = field.is_message and set(fields_of(field.type)) == {"key", "value"}
        slot = Slot(name, field, field.is_message, is_packed, is_map, tag, {})
        found |= {name: slot, json_name(name): slot, str(field.number): slot}
    older = RENAMED_FIELDS.get(kind, {})
    return found | {name: found[today] for name, today in older.items()}


def json_name(name: str) -> str:
    """The name of a field in JSON.

    >>> json_name("entry_computation_id")
    'entryComputationId'
    """
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def encode(slot: Slot, tokens: Sequence[str], *, is_json: bool = False) -> bytes:
    r"""The wire field of one value, without a tag if its field is packed; several tokens are parts of one string.

    HloError, without a place, for a value of the wrong kind.

    >>> encode(slots_of("HloInstructionProto")["name"], ['"a"', r"'\142'"]).hex(" ")
    '0a 02 61 62'
    >>> encode(slots_of("ShapeProto")["elementType"], ["F32"]).hex(" ")
    '10 0b'
    """
    first = tokens[0]
    is_quoted = first[0] in "\"'"
    if slot.field.type in TEXTS:
        if not is_quoted:
            raise HloError(f"expected a string for {slot.name}, found {_short(first)}")
        data = b"".join([_string(token) for token in tokens])
        if is_json and slot.field.type == "bytes":
            data = _base64(data, slot)
        return slot.tag + varint(len(data)) + data
    text = unquote(first) if is_quoted else first
    if slot.is_message:
        raise HloError(f"expected '{{' after {slot.name}, found {_short(text)}")
    data = _number(slot, text)
    if not slot.is_packed:
        data = slot.tag + data
    if len(first) < _LONGEST_KEPT and len(slot.known) < _MOST_KEPT:
        slot.known[first] = data
    return data


def _number(slot: Slot, text: str) -> bytes:
    kind = slot.field.type
    if kind in FLOATS:
        return _float(slot, text)
    if kind == "bool":
        if (truth := _TRUTHS.get(text.casefold())) is None:
            raise HloError(f"expected true or false for {slot.name}, found {_short(text)}")
        return varint(truth)
    if _INTEGER.fullmatch(text) is None and (whole := _WHOLE.fullmatch(text)) is not None:
        text = whole[1]
    if _INTEGER.fullmatch(text) is None:
        if kind in ("int", "uint"):
            raise HloError(f"expected an integer for {slot.name}, found {_short(text)}")
        return varint(_enum_value(slot, text))
    base = 16 if "x" in text.lower() else 8 if text.lstrip("-").startswith("0") and not set(text) & set("89") else 10
    number = int(text, base)
    least, most = (0, 1 << 64) if kind == "uint" else (-1 << 63, 1 << 63)
    if not least <= number < most:
        raise HloError(f"{slot.name} is out of range: {_short(text)}")
    return varint(number)


def _enum_value(slot: Slot, text: str) -> int:
    names = enum_names(slot.field.type)
    if (number := names.get(text, names.get(text.upper()))) is not None:
        return number
    hint = did_you_mean(nearest(text.upper()[:_LONGEST_KEPT], names))
    if hint is None and len(names) <= _MOST_NAMES:
        hint = f"expected one of {joined_by_or(names)}"
    raise HloError(f"unknown {slot.name} {_short(text)}", hint=hint)


def _float(slot: Slot, text: str) -> bytes:
    """A number of fixed width; hexadecimal ones are its bits, as in unknown fields that are printed."""
    format_ = FLOATS[slot.field.type]
    if _HEXADECIMAL.fullmatch(text):
        width = struct.calcsize(format_)
        return (int(text, 16) & (1 << 8 * width) - 1).to_bytes(width, "little")
    if len(text) > _LONGEST_FLOAT or not _FLOAT.fullmatch(text):
        raise HloError(f"expected a number for {slot.name}, found {_short(text)}")
    is_suffixed = text[-1] in "fF" and not text.lower().endswith("inf")
    number = float(text[:-1] if is_suffixed else text)
    try:
        return struct.pack(format_, number)
    except OverflowError:
        return struct.pack(format_, float("-inf" if number < 0 else "inf"))


def _string(token: str) -> bytes:
    if "\\u" in token or "\\U" in token:
        token = _SURROGATES.sub(_joined, token)
    return text_bytes(unquote(token))


def _joined(pair: re.Match[str]) -> str:
    """Two escapes that are one character in UTF-16."""
    high, low = int(pair[0][2:6], 16), int(pair[0][8:12], 16)
    return chr(0x10000 + (high - 0xD800 << 10) + (low - 0xDC00))


def _base64(data: bytes, slot: Slot) -> bytes:
    try:
        return a2b_base64(data.translate(_URL_SAFE) + b"==")
    except Error:
        raise HloError(f"expected base64 for {slot.name}") from None


_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def _short(text: str) -> str:
    return f"'{text[:_LONGEST_KEPT]}…'" if len(text) > _LONGEST_KEPT else f"'{text}'"
