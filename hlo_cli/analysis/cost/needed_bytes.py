"""Bytes that a fusion needs of its operands, if it gathers or slices them.

XLA's cost analysis counts a whole operand if a gather reads from it, or if anything is between it and a slice. A kernel
computes only the elements of its result, and reads only what they depend on.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, Cost
from hlo_cli.analysis.dataflow.post_order import instruction_post_order
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ELEMENTWISE, MOVES
from hlo_cli.ir.shape import ArrayShape

_PARTIAL: Final = frozenset((opcodes.GATHER, opcodes.SLICE, opcodes.DYNAMIC_SLICE))
"""Operations that read as many elements of their first operand as their result has."""
_ONE_TO_ONE: Final = ELEMENTWISE | (MOVES - _PARTIAL)
"""Operations that need at most one element of each operand for each element of their result."""


def needed_cost(instruction: Instruction, cost: Cost) -> Cost:
    """The cost of an operation without the bytes that it does not need; that of XLA unless it gathers or slices.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''f { p = f32[1000,64] parameter(0)  i = s32[8] parameter(1)
    ...   g = f32[8,64] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    ...     index_vector_dim=1, slice_sizes={1,64}
    ...   ROOT n = f32[8,64] negate(g) }
    ... ENTRY e { a = f32[1000,64] parameter(0)  j = s32[8] parameter(1)
    ...   ROOT r = f32[8,64] fusion(a, j), kind=kLoop, calls=f }'''
    >>> fusion = parse_module(text).entry.root
    >>> cost_of(fusion).bytes_accessed, needed_cost(fusion, cost_of(fusion)).bytes_accessed
    (258080, 4128)
    """
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return cost
    body = instruction.called_computations[0]
    if body.root is None or not any(each.opcode in _PARTIAL for each in body.instructions):
        return cost
    needed: dict[Instruction, float] = {body.root: inf}
    unneeded = 0.0
    numbers = {parameter: number for number, parameter in enumerate(body.parameters)}
    for at in reversed(instruction_post_order(body)):
        each = body.instructions[at]
        shape = each.shape
        elements = shape.elements if isinstance(shape, ArrayShape) else inf
        count = min(needed.get(each, 0.0), elements)
        if each.opcode == opcodes.PARAMETER and isinstance(shape, ArrayShape) and elements:
            read = cost.operand_bytes(numbers[each])
            unneeded += max(read - ceil(count / elements * shape.logical_bytes), 0)
        for number, operand in enumerate(each.operands):
            needed[operand] = needed.get(operand, 0.0) + _needed_of(each, number, count)
    accessed = cost.bytes_accessed - round(unneeded)
    return Cost({**cost.properties, BYTES: accessed}, cost.unknown) if unneeded else cost


def _needed_of(user: Instruction, number: int, count: float) -> float:
    """How many elements of an operand are needed for so many of the result, at most."""
    if user.opcode in _ONE_TO_ONE or (user.opcode in _PARTIAL and not number):
        return count
    return inf if count else 0.0
