"""What a folded graph sees through: values without work of their own, and transfers between memories.

An instruction that is seen through has no node; its users have edges from what it depends on. So that a graph has no
more edges than about the operands of the module, an instruction through which many edges would pass stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.analysis.graphs.kinds import is_free_call
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape, Shape

MOST_PASSED: Final = 16
"""An instruction that depends on more nodes than this is seen through only if a single instruction uses it."""

_ENDLESS: Final = frozenset((opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST))
_ENDS: Final = ("-done", "-update")
_BLOCK_MOVES: Final = operations.BLOCK_MOVES | {opcodes.COPY_START, opcodes.COPY_DONE}


@dataclass(frozen=True, slots=True)
class Hidden:
    """The instructions without nodes: those always seen through, and transfers, which are edges if folded."""

    always: frozenset[Instruction]
    transfers: frozenset[Instruction]


def hidden_instructions(computations: Sequence[Computation]) -> Hidden:
    """What is seen through in a folded graph: constants, scalar parameters, tuples, their elements, and bitcasts.

    Custom calls that launch nothing are seen through too. Roots stay. Transfers are copies and slices from one memory
    to another, synchronous or asynchronous.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  c = f32[] constant(2)
    ...   s = (f32[8]{0:S(1)}, f32[8], u32[]) copy-start(p)
    ...   d = f32[8]{0:S(1)} copy-done(s)
    ...   b = f32[2,4] bitcast(d)
    ...   ROOT r = f32[2,4] negate(b) }'''
    >>> found = hidden_instructions(parse_module(text).computations)
    >>> sorted(each.name for each in found.always), sorted(each.name for each in found.transfers)
    (['b', 'c'], ['d', 's'])
    """
    always: set[Instruction] = set()
    transfers: set[Instruction] = set()
    for computation in computations:
        _find(computation, always, transfers)
    return Hidden(frozenset(always), frozenset(transfers))


def _find(computation: Computation, always: set[Instruction], transfers: set[Instruction]) -> None:
    users = _users(computation)
    passed: dict[Instruction, int] = {}
    starts: dict[Instruction, Instruction] = {}
    for instruction in computation.instructions:
        if instruction.opcode.endswith(_ENDS) and instruction.operands:
            before = instruction.operands[0]
            starts[instruction] = starts.get(before, before)
        if instruction is computation.root:
            continue
        used = users.get(instruction, ())
        chosen = (
            always if _is_seen_through(instruction, used) else transfers if _is_transfer(instruction, starts) else None
        )
        if chosen is None:
            continue
        count = sum(passed.get(operand, 1) for operand in instruction.operands)
        if count > MOST_PASSED and (len(used) > 1 or any(user.opcode in _PASSING for user in used)):
            continue
        chosen.add(instruction)
        passed[instruction] = count


_PASSING: Final = _ENDLESS | _BLOCK_MOVES | operations.ASYNCHRONOUS | {opcodes.TUPLE}
"""Opcodes that may be seen through themselves."""


def _users(computation: Computation) -> Mapping[Instruction, Sequence[Instruction]]:
    """The distinct users of each instruction; of more than two, only two, as no rule needs more."""
    users: dict[Instruction, list[Instruction]] = {}
    for instruction in computation.instructions:
        for operand in instruction.operands:
            found = users.setdefault(operand, [])
            if not found or found[-1] is not instruction:
                found.append(instruction)
    return users


def _is_seen_through(instruction: Instruction, users: Sequence[Instruction]) -> bool:
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _ENDLESS:
        return True
    if opcode == opcodes.PARAMETER:
        return isinstance(shape, ArrayShape) and not shape.dimensions
    if opcode == opcodes.CUSTOM_CALL:
        return is_free_call(instruction)
    return opcode == opcodes.TUPLE and bool(users)


def _is_transfer(instruction: Instruction, starts: Mapping[Instruction, Instruction]) -> bool:
    """Whether an instruction only moves data from one memory to another: a copy or slice, its start, or its done."""
    start = starts.get(instruction, instruction)
    if not start.operands or not _moves_a_block(start):
        return False
    sources = _spaces(start.operands[0].shape)
    targets = _spaces(start.shape)
    return bool(sources) and bool(targets - sources)


def _moves_a_block(start: Instruction) -> bool:
    opcode = start.opcode
    if opcode in _BLOCK_MOVES or operations.wrapped_opcode(opcode) in operations.BLOCK_MOVES:
        return True
    if opcode != opcodes.ASYNC_START or not start.called_computations:
        return False
    inner = [each for each in start.called_computations[0].instructions if each.opcode != opcodes.PARAMETER]
    return bool(inner) and all(
        each.opcode in operations.BLOCK_MOVES or each.opcode == opcodes.CONSTANT for each in inner
    )


def _spaces(shape: Shape) -> set[int]:
    """The memory spaces of the arrays in a shape with at least one dimension, as others are contexts of transfers."""
    if isinstance(shape, ArrayShape):
        return {shape.layout.memory_space}
    return {leaf.layout.memory_space for _, leaf in shape.leaves if isinstance(leaf, ArrayShape) and leaf.dimensions}
