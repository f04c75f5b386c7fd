"""Parts of a module's message completed to a module: undefined operands become parameters without a shape."""

from __future__ import annotations

from itertools import count
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.syntax.proto.field_scan import KIND, NUMBERS, scan_instruction
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.wire import Field, all_bytes, field, packed_field, read_fields, read_numbers

_INSTRUCTIONS, _ROOT = (fields_of("HloComputationProto")[name].number for name in ("instructions", "root_id"))
_COMPUTATIONS, _SCHEDULE = (fields_of("HloModuleProto")[name].number for name in ("computations", "schedule"))
_NAME: Final = fields_of("HloModuleProto")["name"].number
"""The number of the name, in computations too."""
_HOLDERS: Final = {"HloSnapshot": "hlo", "HloProto": "hlo_module"}
_LOCAL: Final = (1 << 32) - 1
"""The bits of an id that number an instruction in its computation."""


def completed(kind: str, data: bytes) -> bytes:
    """The bytes of a module for those of a part: of a module, a message around one, computations, or instructions.

    There is no schedule in it, as that lists all instructions.

    >>> lone = MessageBuilder(KIND).add("name", "n").add("opcode", "negate").add("id", 2).add("operand_ids", (1,))
    >>> [computation] = Message("HloModuleProto", completed(KIND, lone.to_bytes())).messages("computations")
    >>> [each.text("name") for each in computation.messages("instructions")], computation.integer("root_id")
    (['operand.1', 'n'], 2)
    """
    while kind in _HOLDERS:
        message = Message(kind, data)
        data = message.data(_HOLDERS[kind])
        kind = fields_of(kind)[_HOLDERS[kind]].type
    if kind == KIND:
        kind, data = "HloComputationProto", field(_INSTRUCTIONS, data)
    if kind == "HloComputationProto":
        if not Message(kind, data).has("name"):
            data += field(_NAME, b"entry_computation")
        return _named(field(_COMPUTATIONS, _computation(data, is_lone=True)))
    parts = []
    for number, value in read_fields(data):
        if number == _COMPUTATIONS and isinstance(value, bytes):
            value = _computation(value, is_lone=False)
        if number != _SCHEDULE:
            parts.append(field(number, value))  # no field of a module is of fixed width
    return _named(b"".join(parts))


def _named(data: bytes) -> bytes:
    """A module with a name; as in text, one without is named after its last computation."""
    module = Message("HloModuleProto", data)
    if module.has("name") or not module.has("computations"):
        return data
    return data + field(_NAME, b"module_" + module.messages("computations")[-1].data("name"))


def _computation(data: bytes, *, is_lone: bool) -> bytes:
    """A computation after parameters for its undefined operands; lone instructions end with their root."""
    fields = read_fields(data)
    listed = all_bytes(fields, _INSTRUCTIONS)
    scanned = [scan_instruction(each) for each in listed]
    ids = dict.fromkeys(each[3] for each in scanned)
    parameters = [each[4] for each in scanned if each[1] == opcodes.PARAMETER.encode()]
    numbers = count(max(parameters, default=-1) + 1)
    references = dict.fromkeys(number for each in listed for number in _references(read_fields(each)))
    made = [_parameter(number, next(numbers)) for number in references if number not in ids]
    data = b"".join(field(_INSTRUCTIONS, each) for each in made) + data
    if any(number == _ROOT for number, _ in fields):
        return data
    if is_lone and listed:
        root = scanned[-1][3]
    elif 0 in ids:
        root = max(ids) + 1  # the root is not in the text
    else:
        return data
    return data + field(_ROOT, root)


def _references(fields: list[Field]) -> list[int]:
    """The ids of the operands and control predecessors of an instruction."""
    names = ("operand_ids", "control_predecessor_ids")
    return [number for name in names for number in read_numbers(packed_field(fields, NUMBERS[name]))]


def _parameter(number: int, place: int) -> bytes:
    draft = MessageBuilder(KIND).add("name", f"operand.{number & _LOCAL}").add("opcode", opcodes.PARAMETER)
    return draft.add("id", number).add("parameter_number", place).to_bytes()
