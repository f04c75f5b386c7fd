"""The table of attributes: the optional and required ones of each opcode, and all data on each.

Mirrors `CreateInstruction` and `ParseHloModule` of xla/hlo/parser/hlo_parser.cc. Adding an attribute is adding a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from hlo_cli.ir.operations import OPERATIONS, wrapped_opcode
from hlo_cli.syntax.attributes.calls import CALLED, CALLS, COLLECTIVES
from hlo_cli.syntax.attributes.common import COMMON, HEADER, OF_PARAMETERS, OTHERS
from hlo_cli.syntax.attributes.contractions import CONTRACTIONS
from hlo_cli.syntax.attributes.indexing import INDEXING
from hlo_cli.syntax.attributes.row import AttributeRow, Place

_SUGAR: Final = ("async_execution_thread", "output_to_operand_aliasing")

Rules = Mapping[str, AttributeRow]

ROWS: Final = (*COMMON, *OF_PARAMETERS, *OTHERS, *COLLECTIVES, *CONTRACTIONS, *INDEXING, *CALLS, *CALLED)
"""The rows of instructions; those of an opcode are in the order in which XLA prints them."""
HEADER_ATTRIBUTES: Final[Rules] = MappingProxyType({row.name: row for row in HEADER})
"""The attributes of a module's header, by name."""
ATTRIBUTE_NAMES: Final = tuple(dict.fromkeys(row.name for row in ROWS))
"""The attributes of instructions, over all opcodes."""


@cache
def attributes_of(opcode: str) -> Rules:
    """The attributes of an opcode, by name; those of an unknown opcode are the common ones.

    >>> attributes_of("iota")["iota_dimension"].required, "to_apply" in attributes_of("reduce-start")
    (True, True)
    """
    rules = {row.name: row for row in (*_common(), *own_attributes(opcode))}
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return MappingProxyType(rules)
    names = _SUGAR if opcode.endswith("-start") else _SUGAR[:1]
    rules |= {row.name: row for row in own_attributes("async-start") if row.name in names}
    return MappingProxyType(rules | dict(attributes_of(wrapped)) if opcode.endswith("-start") else rules)


@cache
def own_attributes(opcode: str) -> tuple[AttributeRow, ...]:
    """The rows of an opcode, without the common ones, in the order in which XLA prints them.

    >>> [row.name for row in own_attributes("sort")]
    ['dimensions', 'is_stable', 'to_apply']
    """
    operation = OPERATIONS.get(opcode)
    required, listed = (operation.required, operation.attributes) if operation is not None else ((), ())
    named = {row.name for row in ROWS if opcode in row.opcodes.split()}
    return tuple(
        row._replace(required=row.required or row.name in required)
        for row in ROWS
        if (opcode in row.opcodes.split() if row.opcodes or row.name in named else row.name in listed)
    )


@cache
def attributes_at(place: Place) -> tuple[AttributeRow, ...]:
    """The rows of attributes that XLA prints at a place, independent of the opcode.

    >>> [row.name for row in attributes_at(Place.BEHIND_CONTROL)]
    ['statistics', 'result_accuracy', 'origin']
    """
    return tuple(row for row in ROWS if row.place is place)


@cache
def attribute_named(name: str) -> AttributeRow | None:
    """The most common row of an attribute name, or None if it is unknown.

    >>> attribute_named("slice_sizes").meaning, attribute_named("frob")
    ('size of a slice in each dimension', None)
    """
    return next((row for row in reversed(ROWS) if row.name == name), None)


@cache
def _common() -> tuple[AttributeRow, ...]:
    """The rows of attributes that no opcode lists."""
    listed = {name for operation in OPERATIONS.values() for name in operation.attributes}
    return tuple(row for row in ROWS if not row.opcodes and row.name not in listed)
