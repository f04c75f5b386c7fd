"""Shapes of the operands that a part of a module lacks, where one of their users determines them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BINARY, OTHER_TYPE, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, UnknownShape

_SAME_SHAPE: Final = (UNARY | BINARY) - OTHER_TYPE
_SAME_POSITIONS: Final = {"clamp": (1,), opcodes.DYNAMIC_UPDATE_SLICE: (0,), opcodes.SELECT: (1, 2)}
"""The operands that have the shape of the result."""


def infer_missing(missing: Iterable[Instruction]) -> int:
    """Sets the unknown shapes of parameters that stand for missing operands; returns the number that stay unknown.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ROOT t = (f32[2], s8[3]) tuple(a, b)\\n}")
    >>> [str(parameter.shape) for parameter in module.entry.parameters]
    ['f32[2]{0}', 's8[3]{0}']
    """
    unknown = {parameter for parameter in missing if parameter.shape == UnknownShape()}
    count = len(unknown)
    for computation in dict.fromkeys(parameter.computation for parameter in unknown):
        for instruction in computation.instructions:
            for position, operand in enumerate(instruction.operands):
                if operand not in unknown or instruction.operand_index(position):
                    continue
                shape = _operand_shape(instruction, position)
                if shape is not None and shape != UnknownShape():
                    operand.shape = shape
                    unknown.discard(operand)
                    count -= 1
    return count


def _operand_shape(user: Instruction, position: int) -> Shape | None:
    """The shape that an operand must have, or None if the instruction does not determine it."""
    opcode, shape, count = user.opcode, user.shape, len(user.operands)
    if opcode == opcodes.TUPLE:
        return shape.elements[position] if isinstance(shape, TupleShape) and len(shape.elements) == count else None
    if opcode in (opcodes.WHILE, opcodes.OPT_BARRIER):
        return shape
    if opcode in (opcodes.FUSION, opcodes.CALL) and len(user.called_computations) == 1:
        parameters = user.called_computations[0].parameters
        return parameters[position].shape if len(parameters) == count else None
    is_same = opcode in _SAME_SHAPE or position in _SAME_POSITIONS.get(opcode, ())
    if not is_same or not isinstance(shape, ArrayShape):
        return None
    return replace(shape, layout=replace(shape.layout, memory_space=0))
