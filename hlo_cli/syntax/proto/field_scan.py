"""The few fields of an instruction that the IR needs at once, found without reading the others.

Instructions are nearly all of a proto. XLA writes fields by number, so the first ones are read in order; among the
rest, fields that are not needed are skipped.

>>> scan_instruction(bytes.fromhex("0a01611203706164980281808008b202020304"))
(b'a', b'pad', b'', 16777217, 0, b'', b'\\x03\\x04')
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.wire import BYTES, VARINT, field, number_of, packed_field, read_fields

KIND: Final = "HloInstructionProto"
NUMBERS: Final = {name: row.number for name, row in fields_of(KIND).items()}
"""The numbers of an instruction's fields."""

_NAME, _OPCODE, _SHAPE, _METADATA = (NUMBERS[name] << 3 | BYTES for name in ("name", "opcode", "shape", "metadata"))
_ID, _PARAMETER, _ELEMENT = (NUMBERS[name] << 3 | VARINT for name in ("id", "parameter_number", "tuple_index"))
_OPERANDS, _CALLED = (NUMBERS[name] << 3 | BYTES for name in ("operand_ids", "called_computation_ids"))
_LISTS: Final = (_OPERANDS >> 3, _CALLED >> 3)
_USUAL_END: Final = field(NUMBERS["frontend_attributes"], b"") + field(NUMBERS["statistics_viz"], b"")
"""Two empty messages with which XLA ends nearly every instruction."""

Scanned = tuple[bytes, bytes, bytes, int, int, bytes, bytes]
"""Name, opcode, shape, id, parameter number or tuple index; packed, the ids of operands and called computations."""


def scan_instruction(data: bytes) -> Scanned:
    """Scans one instruction; one loop without a call in it, as reading spends most time here."""
    name = opcode = shape = operands = called = b""
    number = parameter = at = 0
    end = len(data)
    if data.endswith(_USUAL_END):
        end -= len(_USUAL_END)
    try:
        if data[0] == _NAME and (value := data[1]) < 128:
            at = 2 + value
            name = data[2:at]
            if data[at] == _OPCODE and (value := data[at + 1]) < 128:
                start = at + 2
                at = start + value
                opcode = data[start:at]
                if data[at] == _SHAPE and (value := data[at + 1]) < 128:
                    start = at + 2
                    at = start + value
                    shape = data[start:at]
                    if data[at] == _METADATA and (value := data[at + 1]) < 128:
                        at += 2 + value
        while at < end:
            tag = data[at]
            at += 1
            if tag > 127:
                tag += (data[at] << 7) - 128
                at += 1
            value = data[at]
            at += 1
            if value > 127:
                start = at - 1
                while data[at] > 127:
                    at += 1
                at += 1
                value = number_of(data[start:at])
            if tag == _ID:
                number = value
            elif tag & 7 == BYTES:
                start = at
                at += value
                if tag == _OPERANDS:
                    operands += data[start:at]
                elif tag == _CALLED:
                    called += data[start:at]
                elif tag == _SHAPE:
                    shape = data[start:at]
                elif tag == _NAME:
                    name = data[start:at]
                elif tag == _OPCODE:
                    opcode = data[start:at]
            elif tag in (_PARAMETER, _ELEMENT):
                parameter = value
            elif tag & 7 != VARINT or tag > 16383 or tag >> 3 in _LISTS:
                return _scan_slowly(data)
    except IndexError:
        at = end + 1
    if at != end:
        return _scan_slowly(data)
    return name, opcode, shape, number, parameter, operands, called


def _scan_slowly(data: bytes) -> Scanned:
    """The slow path, for encodings that XLA does not write: fixed-width numbers, unpacked lists, broken fields."""
    fields = read_fields(data)
    texts = {at: value for at, value in fields if isinstance(value, bytes)}
    numbers = {at: value for at, value in fields if isinstance(value, int)}
    return (
        texts.get(_NAME >> 3, b""),
        texts.get(_OPCODE >> 3, b""),
        texts.get(_SHAPE >> 3, b""),
        numbers.get(_ID >> 3, 0),
        numbers.get(_PARAMETER >> 3, numbers.get(_ELEMENT >> 3, 0)),
        packed_field(fields, _OPERANDS >> 3),
        packed_field(fields, _CALLED >> 3),
    )
