"""Inserts copies of values before they are overwritten, for later readers.

Mirrors `AddCopiesForAliasedInputOutputs` and `AddCopiesForWhile` of xla/service/copy_insertion.cc: a tuple element is
extracted, copied, and put into a new tuple with the other elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from hlo_cli.analysis.dataflow.dependencies import Users, users_of
from hlo_cli.analysis.memory.buffers import OrderIndependentFacts
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape, subshape
from hlo_cli.source import HloError
from hlo_cli.transform.clone import ComputationCopy, begin_copies, copied_calls, with_computations
from hlo_cli.transform.fusing.names import Names


@dataclass(frozen=True, slots=True)
class Fix:
    """Copy of a value for a reader, or for the result of a computation, made right before the instruction `before`.

    `places` restricts the copy to these positions; operands with `spared_operands` numbers are not replaced.
    """

    computation: Computation
    reader: Instruction | None
    value: int
    before: Instruction | None
    places: frozenset[int] = frozenset()
    spared_operands: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Source:
    """Value to copy: an element of an instruction's result, before the instruction with index `before`.

    Readers share a copy unless it is for a single position, `for_place`.
    """

    origin: Instruction
    index: ShapeIndex
    before: int
    for_place: int


@dataclass(slots=True)
class _Plan:
    """Changes of one computation: the copies by position, and the operands and results with the parts to replace."""

    users: Users
    sources: dict[_Source, Instruction | None] = field(default_factory=dict)
    operands: dict[tuple[int, int], dict[ShapeIndex, _Source]] = field(default_factory=dict)
    root: dict[ShapeIndex, _Source] = field(default_factory=dict)


def with_copies(module: Module, facts: OrderIndependentFacts, fixes: Iterable[Fix]) -> tuple[Module, list[str]]:
    """Module with copies inserted, and their names."""
    plans: dict[Computation, _Plan] = {}
    for fix in fixes:
        plan = plans.setdefault(fix.computation, _Plan(users_of(fix.computation)))
        _add(facts, plan, fix)
    copies = begin_copies(module)
    names = Names(instruction.name for instruction in module.instructions)
    added: list[str] = []
    computations: list[Computation] = []
    for old, copy in copies.items():
        if old in plans:
            computations.append(_Rewriter(plans[old], copy, names, added).rewrite(copies))
            continue
        for instruction in old.instructions:
            copy.copy(instruction, copy.operands(instruction), copied_calls(instruction, copies))
        computations.append(copy.finish(None if old.root is None else copy.copies[old.root]))
    return with_computations(module, computations, copies), added


def _add(facts: OrderIndependentFacts, plan: _Plan, fix: Fix) -> None:
    """Plans one copy for every position where the reader uses the value."""
    places, at = facts.places, facts.dataflow.value
    root = fix.computation.root
    if fix.reader is None:
        assert root is not None
        first = places.first_of(root)
        for ordinal, index in enumerate(places.parts(root).indices):
            if at[first + ordinal] == fix.value and (not fix.places or first + ordinal in fix.places):
                own = first + ordinal if fix.places else -1
                if root.opcode == opcodes.TUPLE and index:
                    _plan(plan, root, index[0], index[1:], fix.before, own)
                else:
                    before = len(fix.computation.instructions) if fix.before is None else fix.before.index
                    plan.root[index] = _planned(plan, root, index, before, fix.before, own)
        return
    for number, operand in enumerate(fix.reader.operands):
        if number in fix.spared_operands:
            continue
        first = places.operand_place(fix.reader, number)
        for ordinal, index in enumerate(places.parts(operand).indices):
            if at[first + ordinal] == fix.value and (not fix.places or first + ordinal in fix.places):
                own = first + ordinal if fix.places else -1
                _plan(plan, fix.reader, number, index, fix.before, own)


def _plan(
    plan: _Plan, reader: Instruction, number: int, index: ShapeIndex, before: Instruction | None, for_place: int
) -> None:
    operand = reader.operands[number]
    while (
        index
        and operand.opcode == opcodes.TUPLE
        and plan.users[operand] == (reader,)
        and index[0] < len(operand.operands)
    ):
        reader, number, index = operand, index[0], index[1:]
        operand = reader.operands[number]
    place = min(reader.index, reader.index if before is None else before.index)
    plan.operands.setdefault((reader.index, number), {})[index] = _planned(
        plan, operand, index, place, before, for_place
    )


def _planned(
    plan: _Plan, origin: Instruction, index: ShapeIndex, before: int, cause: Instruction | None, for_place: int
) -> _Source:
    """Source of a copy; a value that is only forwarded later is copied from its definition."""
    while origin.index >= before:
        if origin.opcode == opcodes.TUPLE and index:
            origin, index = origin.operands[index[0]], index[1:]
        elif origin.opcode == opcodes.GET_TUPLE_ELEMENT:
            origin, index = origin.operands[0], (origin.integer("index") or 0, *index)
        elif origin.opcode in FORWARDING:
            origin = origin.operands[0]
        else:
            raise HloError(f"{origin.name} is overwritten in place before its last use")
    source = _Source(origin, index, before, for_place)
    plan.sources.setdefault(source, cause)
    return source


class _Rewriter:
    """Writes one computation with its planned copies."""

    def __init__(self, plan: _Plan, copy: ComputationCopy, names: Names, added: list[str]) -> None:
        self._plan, self._copy, self._names, self._added = plan, copy, names, added
        self._made: dict[_Source, Instruction] = {}

    def rewrite(self, copies: dict[Computation, ComputationCopy]) -> Computation:
        """Copies all instructions and returns the new computation."""
        plan, copy, old = self._plan, self._copy, self._copy.original
        at: dict[int, list[_Source]] = {}
        for source in plan.sources:
            at.setdefault(source.before, []).append(source)
        for instruction in old.instructions:
            self._write_copies(at.get(instruction.index, ()), instruction)
            operands = copy.operands(instruction)
            for number, operand in enumerate(instruction.operands):
                if (parts := plan.operands.get((instruction.index, number))) is not None:
                    operands[number] = self._with_parts(operand, (), operands[number][0], parts, instruction), ()
            copy.copy(instruction, operands, copied_calls(instruction, copies))
        root = old.root
        if root is None:
            return copy.finish(None)
        self._write_copies(at.get(len(old.instructions), ()), root)
        if not plan.root:
            return copy.finish(copy.copies[root])
        return copy.finish(self._with_parts(root, (), copy.copies[root], plan.root, root))

    def _write_copies(self, sources: Sequence[_Source], here: Instruction) -> None:
        for source in sources:
            value = self._copy.copies[source.origin]
            for number in source.index:
                value = self._element(value, number, here)
            cause = self._plan.sources[source] or here
            metadata = tuple(attribute for attribute in cause.attributes if attribute.name == "metadata")
            name = self._names.new("copy")
            text = InstructionText(metadata, span=cause.span)
            self._made[source] = self._copy.add(name, value.shape, "copy", [(value, ())], source=cause, text=text)
            self._added.append(name)

    def _with_parts(
        self,
        old: Instruction,
        index: ShapeIndex,
        value: Instruction | None,
        parts: dict[ShapeIndex, _Source],
        here: Instruction,
    ) -> Instruction:
        """Value with some parts replaced by copies."""
        shape = subshape(old.shape, index)
        if index in parts:
            return self._like(self._made[parts[index]], shape, here)
        assert value is not None
        if not any(each[: len(index)] == index for each in parts) or not isinstance(shape, TupleShape):
            return value
        elements = []
        for number in range(len(shape.elements)):
            part = (*index, number)
            is_copy = part in parts
            element = None if is_copy else self._element(value, number, here)
            elements.append(self._with_parts(old, part, element, parts, here))
        text = InstructionText((), span=here.span)
        operands = [(element, ()) for element in elements]
        return self._copy.add(self._names.new(opcodes.TUPLE), shape, opcodes.TUPLE, operands, source=here, text=text)

    def _like(self, value: Instruction, shape: Shape | None, here: Instruction) -> Instruction:
        """Copy with the required shape: a bitcast follows if the source was before a bitcast."""
        if shape is None or value.shape == shape:
            return value
        text = InstructionText((), span=here.span)
        return self._copy.add(self._names.new("bitcast"), shape, "bitcast", [(value, ())], source=here, text=text)

    def _element(self, value: Instruction, number: int, here: Instruction) -> Instruction:
        shape = subshape(value.shape, (number,))
        if shape is None:
            raise HloError(f"{value.name} has no element {number}")
        text = InstructionText((Attribute("index", str(number)),), span=here.span)
        name = self._names.new(opcodes.GET_TUPLE_ELEMENT)
        return self._copy.add(name, shape, opcodes.GET_TUPLE_ELEMENT, [(value, ())], source=here, text=text)
