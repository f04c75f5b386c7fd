"""The number of scalar operations that it takes to evaluate an instruction one element at a time."""

from __future__ import annotations

from math import prod
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import cost_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape

MAX_FOLDED_ELEMENTS: Final = 45_000_000
"""Constant folding skips instructions whose result or operands have more elements, since 2019."""
_WINDOWED: Final = frozenset(("reduce-window", "select-and-scatter"))


def evaluations(instruction: Instruction) -> int | None:
    """The number of scalar operations; None if it depends on what is not in the text.

    >>> from hlo_cli import parse_module
    >>> evaluations(parse_module("r = f32[5] reduce-window(f32[7] a, f32[] b), window={size=3}, to_apply=f").entry.root)
    15
    >>> evaluations(parse_module("r = f32[] reduce(f32[7] a, f32[] b), dimensions={0}, to_apply=f").entry.root)
    7
    """
    elements = element_count(instruction.shape)
    opcode = instruction.opcode
    if opcode in _WINDOWED:
        window = instruction.window
        size = prod(dimension.size for dimension in window.dimensions) if window is not None else None
        return None if size is None or elements is None else elements * size
    if opcode == opcodes.REDUCE:
        return _elements_of_operands(instruction, len(instruction.operands) // 2)
    if opcode in (opcodes.DOT, opcodes.CONVOLUTION):
        return None if operand_elements(instruction) is None else int(cost_of(instruction).flops) // 2
    return elements


def operand_elements(instruction: Instruction) -> int | None:
    """The elements of all operands; None if the shape of one is not in the text."""
    return _elements_of_operands(instruction, len(instruction.operands))


def _elements_of_operands(instruction: Instruction, number: int) -> int | None:
    counts = [element_count(instruction.operand_shape(at)) for at in range(number)]
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def element_count(shape: Shape) -> int | None:
    """The elements of all arrays of a shape; None if they are unknown.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> element_count(parse_shape("(f32[2,3], s32[])"))
    7
    """
    leaves = [leaf for _, leaf in shape.leaves]
    if not all(isinstance(leaf, ArrayShape) for leaf in leaves) or not leaves:
        return None
    return sum(leaf.elements for leaf in leaves if isinstance(leaf, ArrayShape))
