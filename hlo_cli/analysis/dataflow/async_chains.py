"""Chains of async-start, async-update and async-done: what each has been given so far, and where its computation runs.

Mirrors `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.h. Operands may be bound in an update, later than the
start. A sugared chain (`slice-start`) leaves its computation out of the text; one of a call names what that calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, subshape

Given: TypeAlias = tuple[Instruction, int]
"""What a member of a chain takes: the member, and the position among its operands."""


@dataclass(frozen=True, slots=True)
class AsyncChain:
    """The members of one chain in order, the computation it runs, and the operands it is given along the way.

    `computation` is None for a sugared chain, but for one of a call. `binding` is the member at which the computation
    has all it needs and runs; `buffers` are what updates take besides operands, for an output that comes late.
    """

    members: tuple[Instruction, ...]
    computation: Computation | None
    operands: tuple[Given, ...]
    binding: Instruction
    buffers: tuple[Given, ...] = ()

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


@lru_cache(maxsize=1024)
def is_async_start(opcode: str) -> bool:
    """Whether an opcode begins a chain: `async-start`, or a sugared one such as `slice-start`."""
    return opcode == opcodes.ASYNC_START or (opcode.endswith("-start") and wrapped_opcode(opcode) is not None)


@lru_cache(maxsize=1024)
def is_async_end(opcode: str) -> bool:
    """Whether an opcode goes on with a chain or ends it: updates and dones, sugared ones included."""
    if not opcode.endswith(("-done", "-update")):
        return False
    return opcode in ASYNC_CONTINUATIONS or wrapped_opcode(opcode) is not None


def is_done(instruction: Instruction) -> bool:
    """Whether a member of a chain ends it."""
    return instruction.opcode.endswith("-done")


def _chain(members: tuple[Instruction, ...]) -> AsyncChain:
    computation = None
    if members[0].opcode in (opcodes.ASYNC_START, "call-start"):
        computation = next((called for member in members for called in member.called_computations), None)
    operands: list[Given] = []
    buffers: list[Given] = []
    for member in members:
        given = [(member, n) for n in range(int(member is not members[0]), len(member.operands))]
        bound = subshape(member.shape, (0,)) if member is not members[0] and not is_done(member) else None
        count = len(bound.elements) - len(operands) if isinstance(bound, TupleShape) else len(given)
        operands += given[: max(count, 0)]
        buffers += given[max(count, 0) :]
    return AsyncChain(members, computation, tuple(operands), _binding(members, computation), tuple(buffers))


def _binding(members: tuple[Instruction, ...], computation: Computation | None) -> Instruction:
    """The first member that has all operands and the output; if only the done says what that is, all operands.

    Without a computation, all is what the last member before the done has.
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
