"""Tracing of async values from a done back to its start, through tuples, loops, calls, and branches.

Mirrors how `VerifyAsyncOps` of xla/service/hlo_verifier.cc follows intermediaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ANNOTATIONS
from hlo_cli.ir.shape import ShapeIndex

FORWARDING: Final = frozenset((opcodes.COPY, opcodes.DOMAIN, opcodes.OPT_BARRIER))
"""Opcodes that forward their operand, tuples included."""

Place = tuple[Instruction, ShapeIndex]


@dataclass(frozen=True, slots=True)
class Origin:
    """The instructions that may produce a value, and the fusions that forward it in place.

    `made` includes an entry parameter if the value may come from it.
    """

    producers: tuple[Instruction, ...]
    forwarding_fusions: tuple[Instruction, ...] = ()


def origin_of(
    instruction: Instruction, position: int, callers: Mapping[Computation, tuple[Instruction, ...]]
) -> Origin:
    """Returns the possible producers of an operand; `callers` lists the callers of each computation.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[4], u32[]) copy-start(p)
    ...   t = ((f32[4], f32[4], u32[]), f32[4]) tuple(s, p)
    ...   g = (f32[4], f32[4], u32[]) get-tuple-element(t), index=0
    ...   ROOT d = f32[4] copy-done(g) }'''
    >>> origin_of(parse_module(text).entry.root, 0, {}).producers
    (<copy-start s>,)
    """
    producers: dict[Instruction, None] = {}
    forwarding_fusions: dict[Instruction, None] = {}
    waiting: list[Place] = [(instruction.operands[position], instruction.operand_index(position))]
    seen: set[Place] = set(waiting)
    while waiting:
        place = waiting.pop()
        before = list(_sources(place, callers))
        if place[0].opcode == opcodes.FUSION and before:
            forwarding_fusions[place[0]] = None
        if not before:
            producers[place[0]] = None
        for other in before:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return Origin(tuple(producers), tuple(forwarding_fusions))


def _sources(place: Place, callers: Mapping[Computation, tuple[Instruction, ...]]) -> Iterator[Place]:
    """Yields the places that the value at a place is forwarded from; none if it is produced there."""
    instruction, index = place
    match instruction.opcode:
        case opcodes.PARAMETER:
            for caller in callers.get(instruction.computation, ()):
                yield from _passed_places(caller, instruction, index)
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
                if alias.output_index == index and 0 <= alias.operand_number < len(instruction.operands):
                    yield _operand(instruction, alias.operand_number, alias.operand_index)
        case opcode if instruction.operands and (opcode in FORWARDING or is_annotation(instruction)):
            yield _operand(instruction, 0, index)


def _passed_places(caller: Instruction, parameter: Instruction, index: ShapeIndex) -> Iterator[Place]:
    """Yields the places that a caller passes to a parameter."""
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
    """Yields the roots of computations at an index."""
    return ((computation.root, index) for computation in computations if computation.root is not None)


def _operand(instruction: Instruction, position: int, index: ShapeIndex) -> Place:
    """Returns the place of an operand at an index."""
    return instruction.operands[position], (*instruction.operand_index(position), *index)


def is_annotation(instruction: Instruction) -> bool:
    """Returns whether an instruction is a custom call that annotates a value and forwards it.

    >>> from hlo_cli import parse_module
    >>> is_annotation(parse_module('r = f32[4] custom-call(f32[4] p), custom_call_target="Sharding"').entry.root)
    True
    """
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string("custom_call_target") in ANNOTATIONS
