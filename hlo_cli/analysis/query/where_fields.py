"""Fields that conditions can use: of instructions, of values, and of table rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from hlo_cli.analysis.dataflow.dependencies import Value
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.analysis.query.collective_facts import CollectiveFacts
from hlo_cli.analysis.query.fields import Fields, FieldValue, Kind, Predicate, Reader
from hlo_cli.analysis.query.instruction_facts import Function, InstructionFacts, ReadFact, attribute_reader
from hlo_cli.analysis.query.origin_facts import OriginFacts
from hlo_cli.analysis.query.program_facts import ProgramFacts
from hlo_cli.analysis.query.sharding_facts import ShardingFacts
from hlo_cli.analysis.query.where_opcodes import opcode_check, opcodes_of
from hlo_cli.analysis.query.where_shapes import dimension_reader, of_shape, result_shape, shape_fields
from hlo_cli.ir.expressions import Call, Where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape

T = TypeVar("T")
NAME_LISTS: Final = ("operands", "users", "called_computations")
"""Fields with several names; in a table they are one text."""


def instruction_fields(module: Module, attributes: Collection[str] = ()) -> Fields[Instruction]:
    """Fields of instructions; `attributes` are valid names for any module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.query.where import predicate
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[8] parameter(0)  ROOT q = f32[8] add(p, p) }")
    >>> test = predicate(parse_where("padded_bytes == 32B and uses(%p)"), instruction_fields(module))
    >>> [instruction.name for instruction in module.instructions if test(instruction)]
    ['q']
    """
    return fields_of(module, attributes, lambda thing: thing, lambda thing: thing.shape)


def value_fields(module: Module, attributes: Collection[str] = ()) -> Fields[Value]:
    """Fields of values: their own shape and bytes, and the fields of the defining instruction.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = (f32[8], f32[]) parameter(0) }")
    >>> [value_fields(module).readers["rank"].read(value) for value in data_values(module)]
    [1, 0]
    """
    target = target_of(module)
    orders = orders_of(module, data_values(module))
    fields: Fields[Value] = fields_of(module, attributes, lambda value: value.instruction, lambda value: value.shape)

    def saving(shape: Shape) -> int:
        better = orders.alternative(shape) if isinstance(shape, ArrayShape) else None
        return shape.padded_bytes - better.padded_bytes if better else 0

    own: dict[str, Reader[Value]] = {
        "instruction": Reader("name", str),
        "saving_bytes": Reader("bytes", of_shape(saving, lambda value: value.shape)),
        "space": Reader("count", lambda value: value.shape.memory_space),
        "space_name": Reader("text", lambda value: space_name(value.shape.memory_space, target)),
    }
    return replace(fields, readers={**fields.readers, **own, **OriginFacts(module).value_readers()})


def row_fields(kinds: Mapping[str, Kind], opcodes: Collection[str] = ()) -> Fields[Sequence[FieldValue]]:
    """Columns of a table in order, with the kinds of their cells; `opcodes` are the opcodes in it.

    >>> fields = row_fields({"name": "name", "operands": "text"})
    >>> fields.readers["operands"].read(("add", "p, q"))
    ('p', 'q')
    """

    def reader(at: int, name: str, kind: Kind) -> Reader[Sequence[FieldValue]]:
        if name in NAME_LISTS and kind == "text":
            return Reader("names", lambda row: _names(row[at]))
        return Reader(kind, lambda row: row[at], opcode_check(lambda: opcodes) if name == "opcode" else None)

    return Fields({name: reader(at, name, kind) for at, (name, kind) in enumerate(kinds.items())})


def fields_of(
    module: Module,
    attributes: Collection[str],
    instruction_of: Callable[[T], Instruction],
    shape_of: Callable[[T], Shape],
) -> Fields[T]:
    """Fields of objects that have an instruction and a shape.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> fields = fields_of(module, (), lambda computation: computation.root, lambda computation: computation.root.shape)
    >>> fields.readers["opcode"].read(module.entry)
    'negate'
    """
    facts, meanings, origins = InstructionFacts(module), ProgramFacts(module), OriginFacts(module)
    shardings, collectives = ShardingFacts(module), CollectiveFacts(module)

    def lifted(kind: Kind, read: ReadFact) -> Reader[T]:
        return Reader(kind, lambda thing: read(instruction_of(thing)))

    def attribute(name: str) -> Reader[T] | None:
        known = name in attributes or f", {name}=" in module.source.text
        return lifted("attribute", attribute_reader(name)) if known else None

    def function(holds: Function) -> Callable[[Where, Call], Predicate[T]]:
        def lift(where: Where, call: Call) -> Predicate[T]:
            test = holds(where, call)
            return lambda thing: test(instruction_of(thing))

        return lift

    found = facts.readers() | meanings.readers() | origins.readers() | shardings.readers() | collectives.readers()
    readers = {name: lifted(kind, read) for name, (kind, read) in found.items()}
    readers["opcode"] = replace(readers["opcode"], check=opcode_check(lambda: opcodes_of(module)))
    return Fields(
        {**readers, **shape_fields(instruction_of, shape_of)},
        places={
            "dims": lambda place: dimension_reader(place, result_shape(instruction_of, shape_of)),
            "attributes": lambda name: lifted("attribute", attribute_reader(name)),
        },
        attribute=attribute,
        others=tuple(attributes),
        functions={name: function(holds) for name, holds in (facts.functions() | meanings.functions()).items()},
    )


def _names(cell: FieldValue) -> tuple[str, ...]:
    return tuple(cell.split(", ")) if isinstance(cell, str) else ()
