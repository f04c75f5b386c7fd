"""The attributes of instructions in protos, as XLA prints them: the rows of an opcode, each from its field.

Mirrors `PrintExtraAttributes` of xla/hlo/ir/hlo_instruction.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from hlo_cli.ir.attributes.values import value_text
from hlo_cli.ir.shape import Shape
from hlo_cli.syntax.attributes.row import AttributeRow, Place
from hlo_cli.syntax.attributes.table import attributes_at, own_attributes
from hlo_cli.syntax.proto.kinds import reader_of
from hlo_cli.syntax.proto.message import Message


def attribute_texts(opcode: str, message: Message, operand: Shape | None) -> Iterator[str]:
    """What an instruction's own attributes say, in XLA's order; some depend on the shape of the first operand.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> list(attribute_texts("get-tuple-element", message, None)), list(attribute_texts("broadcast", message, None))
    (['index=3'], ['dimensions={0,1}'])
    """
    return _texts(_printed(opcode), message, operand)


def common_texts(message: Message) -> Iterator[str]:
    """What any instruction may say between its called computations and its control predecessors."""
    return _texts(attributes_at(Place.BEFORE_CONTROL), message)


def last_texts(message: Message) -> Iterator[str]:
    """What any instruction may say between its control predecessors and its metadata."""
    return _texts(attributes_at(Place.BEHIND_CONTROL), message)


def _texts(rows: Iterable[AttributeRow], message: Message, operand: Shape | None = None) -> Iterator[str]:
    for row in rows:
        if (value := reader_of(row)(message, operand)) is not None:
            yield f"{row.name}={value_text(value)}"


@cache
def _printed(opcode: str) -> tuple[AttributeRow, ...]:
    rows = own_attributes(opcode)
    return tuple(row for row in rows if row.place is Place.OWN and not row.is_old and not row.is_forgotten)
