"""Where the operand of a done comes from, behind what only hands values on: tuples, loops, calls, branches.

Mirrors how `VerifyAsyncOps` of xla/service/hlo_verifier.cc looks through intermediaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ShapeIndex

HANDING_ON: Final = frozenset((opcodes.COPY, opcodes.DOMAIN, opcodes.OPT_BARRIER))
"""Opcodes that give what they are given, tuples included."""
_MARKS: Final = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"))
"""Custom calls that say something of a value and hand it on."""

Place = tuple[Instruction, ShapeIndex]


@dataclass(frozen=True, slots=True)
class Origin:
    """What may have made a value, and the fusions in between that hand it on in place.

    `made` are instructions, a parameter of the entry among them if the value may come from there.
    """

    made: tuple[Instruction, ...]
    through: tuple[Instruction, ...] = ()


def origin_of(
    instruction: Instruction, position: int, callers: Mapping[Computation, tuple[Instruction, ...]]
) -> Origin:
    """What may have made the operand at a position; `callers` lists for each computation the instructions that call it.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[4], u32[]) copy-start(p)
    ...   t = ((f32[4], f32[4], u32[]), f32[4]) tuple(s, p)
    ...   g = (f32[4], f32[4], u32[]) get-tuple-element(t), index=0
    ...   ROOT d = f32[4] copy-done(g) }'''
    >>> origin_of(parse_module(text).entry.root, 0, {}).made
    (<copy-start s>,)
    """
    made: dict[Instruction, None] = {}
    through: dict[Instruction, None] = {}
    waiting: list[Place] = [(instruction.operands[position], instruction.operand_index(position))]
    seen: set[Place] = set(waiting)
    while waiting:
        place = waiting.pop()
        before = list(_before(place, callers))
        if place[0].opcode == opcodes.FUSION and before:
            through[place[0]] = None
        if not before:
            made[place[0]] = None
        for other in before:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return Origin(tuple(made), tuple(through))


def _before(place: Place, callers: Mapping[Computation, tuple[Instruction, ...]]) -> Iterator[Place]:
    """Where the value at a place was one step earlier; nothing if it was made there."""
    instruction, index = place
    match instruction.opcode:
        case opcodes.PARAMETER:
            for caller in callers.get(instruction.computation, ()):
                yield from _given(caller, instruction, index)
        case opcodes.GET_TUPLE_ELEMENT if instruction.operands:
            number = instruction.integer("index")
            yield instruction.operands[0], (*instruction.operand_index(0), number or 0, *index)
        case opcodes.TUPLE if index and index[0] < len(instruction.operands):
            yield _operand(instruction, index[0], index[1:])
        case opcodes.WHILE if instruction.operands:
            yield _operand(instruction, 0, index)
            yield from _results(instruction.called_computations[:1], index)
        case opcodes.CALL | opcodes.CONDITIONAL:
            yield from _results(instruction.called_computations, index)
        case opcodes.FUSION:
            aliases = instruction.items_of("output_to_operand_aliasing", OutputOperandAlias)
            for alias in aliases:
                if alias.output_index == index and alias.operand_number < len(instruction.operands):
                    yield _operand(instruction, alias.operand_number, alias.operand_index)
        case opcode if instruction.operands and (opcode in HANDING_ON or is_marker(instruction)):
            yield _operand(instruction, 0, index)


def _given(caller: Instruction, parameter: Instruction, index: ShapeIndex) -> Iterator[Place]:
    """What a caller gives for a parameter."""
    number = parameter.parameter_number or 0
    if caller.opcode == opcodes.WHILE:
        yield from ((caller.operands[0], (*caller.operand_index(0), *index)) for _ in caller.operands[:1])
        yield from _results(caller.called_computations[:1], index)
        return
    if caller.opcode == opcodes.CONDITIONAL:
        number = 1 + caller.called_computations.index(parameter.computation)
    if caller.opcode in (opcodes.CALL, opcodes.CONDITIONAL, opcodes.ASYNC_START) and number < len(caller.operands):
        yield _operand(caller, number, index)


def _results(computations: tuple[Computation, ...], index: ShapeIndex) -> Iterator[Place]:
    return ((computation.root, index) for computation in computations if computation.root is not None)


def _operand(instruction: Instruction, position: int, index: ShapeIndex) -> Place:
    return instruction.operands[position], (*instruction.operand_index(position), *index)


def is_marker(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call that says something of a value and hands it on.

    >>> from hlo_cli import parse_module
    >>> is_marker(parse_module('r = f32[4] custom-call(f32[4] p), custom_call_target="Sharding"').entry.root)
    True
    """
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") in _MARKS
