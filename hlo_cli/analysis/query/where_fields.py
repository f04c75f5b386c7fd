"""Fields that conditions can use: of instructions, of values, and of table rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from hlo_cli.analysis.cost.cost import Cost, Number
from hlo_cli.analysis.cost.matmuls import is_matmul
from hlo_cli.analysis.dataflow.call_tree import computation_kinds, loop_computations
from hlo_cli.analysis.dataflow.users import Users, reached, users_of
from hlo_cli.analysis.dataflow.values import Value
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.patterns import name_matcher
from hlo_cli.analysis.query.where import Fields, FieldValue, Kind, Predicate, Reader
from hlo_cli.analysis.query.where_opcodes import opcode_check, opcodes_of
from hlo_cli.analysis.query.where_shapes import dimension_reader, of_shape, result_shape, shape_fields
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.quoting import unquote
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.ir.where import Text, Where
from hlo_cli.source import did_you_mean, nearest

T = TypeVar("T")
NAME_LISTS: Final = ("operands", "users", "called_computations")
"""Fields with several names; in a table they are one text."""


def instruction_fields(module: Module, attributes: Collection[str] = ()) -> Fields[Instruction]:
    """Fields of instructions; `attributes` are valid names for any module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.query.where import predicate
    >>> from hlo_cli.syntax.queries.where import parse_where
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
    return replace(fields, readers={**fields.readers, **own})


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
    facts = _InstructionFacts(module)

    def lifted(kind: Kind, read: Callable[[Instruction], FieldValue]) -> Reader[T]:
        return Reader(kind, lambda thing: read(instruction_of(thing)))

    def attribute(name: str) -> Reader[T] | None:
        known = name in attributes or f", {name}=" in module.source.text
        return lifted("attribute", _attribute(name)) if known else None

    def function(holds: Callable[[Where, Text], Predicate[Instruction]]) -> Callable[[Where, Text], Predicate[T]]:
        def lift(where: Where, text: Text) -> Predicate[T]:
            test = holds(where, text)
            return lambda thing: test(instruction_of(thing))

        return lift

    readers = {name: lifted(kind, read) for name, (kind, read) in facts.readers().items()}
    readers["opcode"] = replace(readers["opcode"], check=opcode_check(lambda: opcodes_of(module)))
    return Fields(
        {**readers, **shape_fields(instruction_of, shape_of)},
        places={
            "dims": lambda place: dimension_reader(place, result_shape(instruction_of, shape_of)),
            "attributes": lambda name: lifted("attribute", _attribute(name)),
        },
        attribute=attribute,
        others=tuple(attributes),
        functions={name: function(holds) for name, holds in facts.functions().items()},
    )


class _InstructionFacts:
    """Properties of instructions; those that require a pass over the module are computed on first use."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[Computation, Users] = {}
        self._fused: frozenset[Computation] | None = None
        self._in_loops: frozenset[Computation] | None = None
        self._costs: Mapping[Instruction, Cost] | None = None

    def readers(self) -> dict[str, tuple[Kind, Callable[[Instruction], FieldValue]]]:
        """Fields of instructions other than shapes."""
        return {
            "name": ("name", lambda i: i.name),
            "opcode": ("text", lambda i: i.opcode),
            "product": ("flag", is_matmul),
            "op_name": ("text", lambda i: i.metadata.op_name or None),
            "op_type": ("text", lambda i: i.metadata.op_type or None),
            "source": ("text", self._source),
            "line": ("count", self._line),
            "computation": ("name", lambda i: i.computation.name),
            "operands": ("names", lambda i: tuple([operand.name for operand in i.operands])),
            "users": ("names", lambda i: tuple([user.name for user in self._users_of(i)])),
            "called_computations": ("names", lambda i: tuple([called.name for called in i.called_computations])),
            "is_root": ("flag", lambda i: i.is_root),
            "is_entry": ("flag", lambda i: i.computation.is_entry),
            "fused": ("flag", self._is_fused),
            "loop": ("flag", self._is_in_loop),
            "flops": ("count", lambda i: _as_bound(cost := self._cost(i), cost.flops)),
            "transcendentals": ("count", lambda i: _as_bound(cost := self._cost(i), cost.transcendentals)),
            "bytes": ("bytes", lambda i: _as_bound(cost := self._cost(i), cost.bytes_accessed)),
            "intensity": ("count", lambda i: AtLeast(0) if (cost := self._cost(i)).unknown else cost.intensity),
        }

    def functions(self) -> dict[str, Callable[[Where, Text], Predicate[Instruction]]]:
        """Functions that take a name in parentheses."""
        return {
            "uses": self._uses,
            "calls": self._calls,
            "depends_on": lambda where, text: self._transitively(where, text, self._users_of),
            "feeds": lambda where, text: self._transitively(where, text, lambda instruction: instruction.operands),
        }

    def _uses(self, where: Where, text: Text) -> Predicate[Instruction]:
        test = name_matcher(where, text)
        self._matching(where, text)
        return lambda instruction: any(test(operand.name) for operand in instruction.operands)

    def _calls(self, where: Where, text: Text) -> Predicate[Instruction]:
        test = name_matcher(where, text)
        if text.pattern == "part":
            self._check_name(
                where, text, [computation.name for computation in self._module.computations], "computation"
            )
        return lambda instruction: any(test(called.name) for called in instruction.called_computations)

    def _transitively(
        self, where: Where, text: Text, next_to: Callable[[Instruction], tuple[Instruction, ...]]
    ) -> Predicate[Instruction]:
        """Whether an instruction is reachable by at least one step from the instructions of a name."""
        first = (other for instruction in self._matching(where, text) for other in next_to(instruction))
        return reached(first, next_to).__contains__

    def _matching(self, where: Where, text: Text) -> list[Instruction]:
        """Instructions that match a name or pattern; HloError if no instruction has the name."""
        test = name_matcher(where, text)
        found = [instruction for instruction in self._module.instructions if test(instruction.name)]
        if not found and text.pattern == "part":
            self._check_name(
                where, text, [instruction.name for instruction in self._module.instructions], "instruction"
            )
        return found

    def _check_name(self, where: Where, text: Text, names: Sequence[str], noun: str) -> None:
        name = text.text.removeprefix("%")
        if name not in names:
            hint = did_you_mean(nearest(name, names))
            raise where.error(f"{noun} '{name}' not found in {self._module.name}", text.span, hint)

    def _source(self, instruction: Instruction) -> str | None:
        location = self._module.location(instruction)
        return str(location) if location is not None else None

    def _line(self, instruction: Instruction) -> int | None:
        span = instruction.span
        return self._module.source.position(span.start).line if span is not None else None

    def _users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        computation = instruction.computation
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation][instruction]

    def _cost(self, instruction: Instruction) -> Cost:
        if self._costs is None:
            from hlo_cli.analysis.cost.cost_analysis import cost_analysis

            self._costs = cost_analysis(self._module)
        return self._costs[instruction]

    def _is_fused(self, instruction: Instruction) -> bool:
        if self._fused is None:
            self._fused = frozenset(c for c, kind in computation_kinds(self._module).items() if kind == "fused")
        return instruction.computation in self._fused

    def _is_in_loop(self, instruction: Instruction) -> bool:
        if self._in_loops is None:
            self._in_loops = loop_computations(self._module)
        return instruction.computation in self._in_loops


def _as_bound(cost: Cost, value: Number) -> FieldValue:
    """Value of a cost, as a lower bound if a part of the cost is unknown."""
    return AtLeast(round(value)) if cost.unknown else round(value)


def _attribute(name: str) -> Callable[[Instruction], str | None]:
    """Reader of an attribute as text without quotes; parses only instructions whose text contains its name."""
    written = f"{name}="

    def read(instruction: Instruction) -> str | None:
        if written not in instruction.raw[1]:
            return None
        value = instruction.attribute(name)
        return unquote(value) if value is not None and value[0] in "\"'" and value[-1] == value[0] else value

    return read


def _names(cell: FieldValue) -> tuple[str, ...]:
    return tuple(cell.split(", ")) if isinstance(cell, str) else ()
