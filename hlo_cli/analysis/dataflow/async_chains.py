"""Async chains: async-start, async-updates, and async-done with the operands that each binds.

Mirrors `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.h. An update may bind operands later than the start.
Sugared syntax (such as `slice-start`) omits the computation; a sugared call refers to the computation that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, subshape

BoundOperand: TypeAlias = tuple[Instruction, int]
"""An operand of a chain: the member that takes it, and its operand number there."""


@dataclass(frozen=True, slots=True)
class AsyncChain:
    """The members of an async chain in order, the wrapped computation, and its operands.

    `computation` is None in sugared syntax, except for calls. `binding` is the first member that has bound all
    operands and the output, before which the computation runs. `buffers` are operands of updates that provide memory
    for a late output.
    """

    members: tuple[Instruction, ...]
    computation: Computation | None
    operands: tuple[BoundOperand, ...]
    binding: Instruction
    buffers: tuple[BoundOperand, ...] = ()

    @property
    def start(self) -> Instruction:
        """The async-start."""
        return self.members[0]

    @property
    def done(self) -> Instruction:
        """The async-done, or the last member of an incomplete chain."""
        return self.members[-1]


def async_chains(instructions: Iterable[Instruction]) -> Mapping[Instruction, AsyncChain]:
    """Returns the chain of each async instruction.

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


@lru_cache(maxsize=1024)
def is_async_start(opcode: str) -> bool:
    """Returns whether an opcode starts a chain: `async-start`, or a sugared one such as `slice-start`."""
    return opcode == opcodes.ASYNC_START or (opcode.endswith("-start") and wrapped_opcode(opcode) is not None)


@lru_cache(maxsize=1024)
def is_async_end(opcode: str) -> bool:
    """Returns whether an opcode continues or ends a chain: updates and dones, including sugared ones."""
    if not opcode.endswith(("-done", "-update")):
        return False
    return opcode in ASYNC_CONTINUATIONS or wrapped_opcode(opcode) is not None


def is_done(instruction: Instruction) -> bool:
    """Returns whether a member ends its chain."""
    return instruction.opcode.endswith("-done")


def _chain(members: tuple[Instruction, ...]) -> AsyncChain:
    """Returns the chain of these members."""
    computation = None
    if members[0].opcode in (opcodes.ASYNC_START, "call-start"):
        computation = next((called for member in members for called in member.called_computations), None)
    operands: list[BoundOperand] = []
    buffers: list[BoundOperand] = []
    for member in members:
        given = [(member, n) for n in range(int(member is not members[0]), len(member.operands))]
        bound = subshape(member.shape, (0,)) if member is not members[0] and not is_done(member) else None
        # Operands of an update beyond those that its shape binds are buffers for the output (late binding).
        count = len(bound.elements) - len(operands) if isinstance(bound, TupleShape) else len(given)
        operands += given[: max(count, 0)]
        buffers += given[max(count, 0) :]
    return AsyncChain(members, computation, tuple(operands), _binding(members, computation), tuple(buffers))


def _binding(members: tuple[Instruction, ...], computation: Computation | None) -> Instruction:
    """Returns the first member that has bound all operands and the output.

    If no member has the output, which then first appears at the done, all operands are sufficient. Without a
    computation, the last member before the done defines all operands.
    """
    parts = {m: (subshape(m.shape, (0,)), subshape(m.shape, (1,))) for m in members if not is_done(m)}
    root = computation.root if computation is not None else None
    given, output = list(parts.values())[-1]
    wanted = given.elements if isinstance(given, TupleShape) else ()
    if computation is not None and root is not None:
        wanted, output = tuple(parameter.shape for parameter in computation.parameters), root.shape
    ready = [m for m, (has, _) in parts.items() if isinstance(has, TupleShape) and len(has.elements) >= len(wanted)]
    bound = [
        m for m in ready if (made := parts[m][1]) is not None and output is not None and has_same_arrays(made, output)
    ]
    return next(iter(bound or ready), members[0])


def has_same_arrays(first: Shape, second: Shape) -> bool:
    """Returns whether two shapes have equal tuple structure, element types, and dimensions; layouts are ignored.

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
