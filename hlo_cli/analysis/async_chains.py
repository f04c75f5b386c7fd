"""Chains of async-start, async-update and async-done: what each has been given so far, and where its computation runs.

Mirrors `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.h. Operands may be bound in an update, later than the
start. A sugared chain (`slice-start`) leaves its computation out of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.opcode import wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, subshape


@dataclass(frozen=True, slots=True)
class AsyncChain:
    """The members of one chain in order, the computation it runs, and the operands it is given along the way.

    `computation` is None for a sugared chain. `binding` is the member at which the computation has all it needs and
    runs.
    """

    members: tuple[Instruction, ...]
    computation: Computation | None
    operands: tuple[tuple[Instruction, int], ...]
    binding: Instruction

    @property
    def start(self) -> Instruction:
        """The async-start."""
        return self.members[0]

    @property
    def done(self) -> Instruction:
        """The async-done; the last member where the text ends before it."""
        return self.members[-1]


def async_chains(instructions: Iterable[Instruction]) -> Mapping[Instruction, AsyncChain]:
    """The chain of every asynchronous instruction that belongs to one.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[2], u32[]) slice-start(p), slice={[0:2]}
    ...   ROOT d = f32[2] slice-done(s) }'''
    >>> [member.name for member in async_chains(parse_module(text).entry.instructions)]
    ['s', 'd']
    """
    members: dict[Instruction, list[Instruction]] = {}
    start_of: dict[Instruction, Instruction] = {}
    for instruction in instructions:
        if is_async_start(instruction.opcode):
            start_of[instruction] = instruction
            members[instruction] = [instruction]
        elif is_async_end(instruction.opcode) and instruction.operands and instruction.operands[0] in start_of:
            start = start_of[instruction] = start_of[instruction.operands[0]]
            members[start].append(instruction)
    chains = {start: _chain(tuple(found)) for start, found in members.items()}
    return {member: chains[start] for member, start in start_of.items()}


def is_async_start(opcode: str) -> bool:
    """Whether an opcode begins a chain: `async-start`, or a sugared one such as `slice-start`."""
    return opcode == "async-start" or (opcode.endswith("-start") and wrapped_opcode(opcode) is not None)


def is_async_end(opcode: str) -> bool:
    """Whether an opcode goes on with a chain or ends it: updates and dones, sugared ones included."""
    if not opcode.endswith(("-done", "-update")):
        return False
    return opcode in ("async-done", "async-update") or wrapped_opcode(opcode) is not None


def _chain(members: tuple[Instruction, ...]) -> AsyncChain:
    computation = None
    if members[0].opcode == "async-start":
        computation = next((called for member in members for called in member.called_computations), None)
    operands: list[tuple[Instruction, int]] = []
    for member in members:
        given = range(len(member.operands)) if member is members[0] else range(1, len(member.operands))
        operands.extend((member, position) for position in given)
    binding = next((member for member in members if _is_bound(member, computation)), members[0])
    return AsyncChain(members, computation, tuple(operands), binding)


def _is_bound(member: Instruction, computation: Computation | None) -> bool:
    """Whether operands and output are all there, as the parts of a member's shape tell."""
    if computation is None or computation.root is None:
        return True
    given, output = subshape(member.shape, (0,)), subshape(member.shape, (1,))
    if not isinstance(given, TupleShape) or output is None:
        return False
    return len(given.elements) >= len(computation.parameters) and has_same_arrays(output, computation.root.shape)


def has_same_arrays(first: Shape, second: Shape) -> bool:
    """Whether two shapes have the same tuples, types and sizes, whatever their layouts.

    >>> from hlo_cli import parse_shape
    >>> has_same_arrays(parse_shape("(f32[2]{0:T(128)})"), parse_shape("(f32[2])"))
    True
    """
    match first, second:
        case TupleShape(), TupleShape():
            if len(first.elements) != len(second.elements):
                return False
            return all(has_same_arrays(a, b) for a, b in zip(first.elements, second.elements, strict=True))
        case ArrayShape(), ArrayShape():
            return first.element_type is second.element_type and first.dimensions == second.dimensions
    return type(first) is type(second)
