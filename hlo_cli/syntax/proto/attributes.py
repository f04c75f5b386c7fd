"""The attributes of instructions in protos, as XLA prints them: the rows of an opcode, each from its field.

Mirrors `CreateFromProto` and `PrintExtraAttributes` of xla/hlo/ir/hlo_instruction.cc, and what
the omissions of `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from hlo_cli.ir.attributes.enumerations import Precision, ShuffleMode
from hlo_cli.ir.attributes.metadata import BackendConfig
from hlo_cli.ir.attributes.sharding import Domain
from hlo_cli.ir.attributes.value_types import AttributeValue, value_text
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError
from hlo_cli.syntax.attributes.row import AttributeRow, Kind, Place
from hlo_cli.syntax.attributes.table import attributes_at, own_attributes
from hlo_cli.syntax.proto.field_scan import KIND
from hlo_cli.syntax.proto.fields import FieldType, fields_of
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import shape_of
from hlo_cli.syntax.proto.shardings import replica_groups_of, sharding_of
from hlo_cli.syntax.proto.values import (
    alias_of,
    block_scaling_config_of,
    buffer_donor_of,
    convolution_dimension_numbers_of,
    debugged_array_of,
    frontend_attributes_of,
    original_value_of,
    output_operand_alias_of,
    padding_config_of,
    result_accuracy_of,
    slice_of,
    sparsity_config_of,
    statistics_of,
    window_of,
)

RowReader = Callable[[Message, "Shape | None"], "AttributeValue | None"]
"""Finds the value of an attribute in the message of an instruction."""
_Readers = tuple[tuple[str, RowReader], ...]
Reader = Callable[[Message, str, "Shape | None"], "AttributeValue | None"]
"""Reads a field of a message, given the shape of the instruction's first operand; None if there is no value."""


def attribute_texts(opcode: str, message: Message, operand: Shape | None) -> Iterator[str]:
    """The opcode-specific attributes as text, in XLA's order; some depend on the shape of the first operand.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> list(attribute_texts("get-tuple-element", message, None)), list(attribute_texts("broadcast", message, None))
    (['index=3'], ['dimensions={0,1}'])
    """
    return _texts(_printed(opcode), message, operand)


def common_texts(message: Message) -> Iterator[str]:
    """The attributes of any opcode between the called computations and the control predecessors."""
    return _texts(_printed_at(Place.BEFORE_CONTROL), message)


def last_texts(message: Message) -> Iterator[str]:
    """The attributes of any opcode between the control predecessors and the metadata."""
    return _texts(_printed_at(Place.BEHIND_CONTROL), message)


def _texts(readers: _Readers, message: Message, operand: Shape | None = None) -> Iterator[str]:
    for name, read in readers:
        if (value := read(message, operand)) is not None:
            yield f"{name}={value_text(value)}"


@cache
def _printed(opcode: str) -> _Readers:
    rows = own_attributes(opcode)
    printed = (row for row in rows if row.place is Place.OWN and not row.is_old and not row.is_forgotten)
    return tuple([(row.name, reader_of(row)) for row in printed])


@cache
def _printed_at(place: Place) -> _Readers:
    return tuple([(row.name, reader_of(row)) for row in attributes_at(place)])


def reader_of(row: AttributeRow, message_type: str = KIND) -> RowReader:
    """The function that finds an attribute's value in a proto message, by default that of an instruction.

    It returns None if XLA does not print the value.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> reader_of(AttributeRow("index", Kind.INT, proto_field="tuple_index"))(message, None)
    3
    """
    *holders, field = row.path
    for holder in holders:
        message_type = fields_of(message_type)[holder].type
    read = _READERS.get(row.kind) or _plain_reader(row, fields_of(message_type)[field])
    if not holders:
        return lambda message, operand: read(message, field, operand)

    def read_inside(message: Message, operand: Shape | None) -> AttributeValue | None:
        for holder in holders:
            message = message.message(holder)
        return read(message, field, operand)

    return read_inside


def _plain_reader(row: AttributeRow, place: FieldType) -> Reader:
    """A reader of a field by its type, without values that are usual, zero, or empty."""
    read, usual, is_always = _plain(row.kind, place), row.usual, row.always or row.required
    most = int(usual[0]) if row.kind is Kind.INT and usual else None

    def reader(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
        value = read(message, field)
        if value in usual or (most is not None and isinstance(value, int) and value <= most):
            return None
        return value if value or is_always else None

    return reader


def _plain(kind: Kind, place: FieldType) -> Callable[[Message, str], AttributeValue | None]:
    if place.is_message:
        return Message.has
    if place.repeated:
        return _first if kind is Kind.INT else Message.integers
    match place.type:
        case "int":
            return Message.integer
        case "bool":
            return Message.flag
        case "float":
            return Message.decimal
        case "string" | "bytes":
            return Message.text
    return lambda message, field: UnparsedText(message.word(field))


def _first(message: Message, field: str) -> AttributeValue | None:
    """The number of `dimensions`, if there is only one."""
    return numbers[0] if (numbers := message.integers(field)) else None


def _word(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """A word that is a string in the proto."""
    return UnparsedText(message.text(field))


def _window(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    window = window_of(message.message(field))
    return window if window.dimensions else None


def _dim_labels(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    return convolution_dimension_numbers_of(message.message(field)) if message.has(field) else None


def _comparison_type(message: Message, field: str, operand: Shape | None) -> AttributeValue | None:
    kind = operand.element_type.kind if isinstance(operand, ArrayShape) else ""
    usual = {"signed": "SIGNED", "unsigned": "UNSIGNED", "pred": "UNSIGNED"}.get(kind, "FLOAT")
    word = message.text(field)
    return None if word in ("", usual) else UnparsedText(word)


def _comparison_order(message: Message, field: str, operand: Shape | None) -> AttributeValue | None:
    is_float = isinstance(operand, ArrayShape) and operand.element_type.kind in ("float", "complex")
    word = message.text(field)
    return None if word in ("", "PARTIAL" if is_float else "TOTAL") else UnparsedText(word)


def _precisions(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    words = message.words(field)
    return tuple(map(Precision, words)) if any(word != Precision.DEFAULT for word in words) else None


def _layouts(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    if not message.flag("constrain_layout"):
        return None
    return UnparsedText("{" + ", ".join(str(shape_of(s)) for s in message.messages(field)) + "}")


def _aliasing(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    return tuple(map(output_operand_alias_of, message.messages(field))) or None


def _literal(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    return literal_of(message.message(field)) if message.has(field) else None


def _lists(message: Message, field: str, operand: Shape | None) -> AttributeValue | None:
    """Pairs are messages; the slice sizes are numbers, one for each dimension of the operand."""
    if fields_of(message.kind)[field].is_message:
        return tuple((p.integer("source"), p.integer("target")) for p in message.messages(field))
    sizes = message.integers(field)
    first = operand.elements[0] if isinstance(operand, TupleShape) and operand.elements else operand
    rank = first.rank if isinstance(first, ArrayShape) else 0
    return tuple(sizes[at : at + rank] for at in range(0, len(sizes), rank)) if rank and sizes else None


def _domain(message: Message, _: str, __: Shape | None) -> AttributeValue | None:
    """Both sides of a domain; the text's entry is the proto's exit."""
    entry, leave = (sharding_of(message.message(f"domain_{side}_sharding")) for side in ("exit", "entry"))
    return Domain(entry, leave)


def _where_given(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """A number that may be 0, if present."""
    return message.integer(field) if message.has(field) else None


def _sparsity(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    config = sparsity_config_of(message.message(field))
    return config if config.lhs is not None or config.rhs is not None else None


def _block_scaling(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    config = block_scaling_config_of(message.message(field))
    return config if config.lhs is not None or config.rhs is not None else None


def _shuffle_mode(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """The mode whose message is present; XLA has a message for each."""
    if message.encoded and not message.has(field):
        raise HloError("unknown mode of a shuffle")
    return ShuffleMode.ROTATE if message.has(field) else None


def _flag_if_given(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """A boolean that may be false, if present."""
    return message.flag(field) if message.has(field) else None


def _frontend_attributes(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    attributes = frontend_attributes_of(message.message(field))
    return attributes if attributes.entries else None


def _statistics(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    statistics = statistics_of(message.message(field))
    return statistics if statistics.statistics else None


_READERS: Final[dict[Kind, Reader]] = {
    Kind.ALIASING: lambda message, field, _: tuple(map(alias_of, message.messages(field))) or None,
    Kind.BLOCK_SCALING: _block_scaling,
    Kind.BOOL_IF_GIVEN: _flag_if_given,
    Kind.BUFFER_DONORS: lambda message, field, _: tuple(map(buffer_donor_of, message.messages(field))) or None,
    Kind.DEBUG_ATTRIBUTES: lambda message, field, _: tuple(map(debugged_array_of, message.messages(field))) or None,
    Kind.BOOLS: lambda message, field, _: message.flags(field) or None,
    Kind.DIM_LABELS: _dim_labels,
    Kind.DIRECTION: _word,
    Kind.DOMAIN: _domain,
    Kind.FRONTEND_ATTRIBUTES: _frontend_attributes,
    Kind.FUSION_KIND: _word,
    Kind.INT32: _where_given,
    Kind.INT_LISTS: _lists,
    Kind.LITERAL: _literal,
    Kind.OPERAND_ALIASING: _aliasing,
    Kind.ORDER: _comparison_order,
    Kind.ORIGIN: lambda message, field, _: original_value_of(message.message(field)) if message.has(field) else None,
    Kind.PADDING: lambda message, field, _: padding_config_of(message.message(field)),
    Kind.PRECISIONS: _precisions,
    Kind.REPLICA_GROUPS: lambda message, _, __: replica_groups_of(message),
    Kind.RESULT_ACCURACY: lambda message, field, _: (
        result_accuracy_of(message.message(field)) if message.data(field) else None
    ),
    Kind.SHAPE: lambda message, field, _: shape_of(message.message(field)),
    Kind.SHAPES: _layouts,
    Kind.SHARDING: lambda message, field, _: sharding_of(message.message(field)) if message.has(field) else None,
    Kind.SHUFFLE_MODE: _shuffle_mode,
    Kind.SLICE: lambda message, field, _: slice_of(message.messages(field)),
    Kind.SPARSITY: _sparsity,
    Kind.STRING_OR_JSON: lambda message, field, _: BackendConfig(text) if (text := message.text(field)) else None,
    Kind.STATISTICS: _statistics,
    Kind.TYPE: _comparison_type,
    Kind.WINDOW: _window,
}
"""The kinds that do not fit a field of one number, word, or text."""
