"""Shapes that the text leaves out, given by whoever knows the rules.

Mirrors the calls of shape inference in `CreateInstruction` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import Shape, UnknownShape
from hlo_cli.source import HloError
from hlo_cli.syntax.build import Builder

Infer = Callable[[Instruction], Shape]
"""Says which shape an instruction has that is written without one, or raises HloError."""


def infer_shapes(builder: Builder, infer: Infer) -> None:
    """Give a shape to every instruction that is written without one; where that fails is an error of the text.

    What takes a value whose shape is not known stays without one too, and is no second error.
    """
    for instruction in builder.shapeless:
        if UnknownShape() in _shapes_taken(instruction):
            continue
        try:
            instruction.shape = infer(instruction)
        except HloError as error:
            if not builder.is_full:
                builder.diagnostics.extend(replace(found, source=builder.source) for found in error.diagnostics)


def _shapes_taken(instruction: Instruction) -> Iterator[Shape]:
    """The shapes that a result may depend on: of operands, and of parameters and results of called computations."""
    for position in range(len(instruction.operands)):
        yield instruction.operand_shape(position)
    for called in instruction.called_computations:
        yield from (parameter.shape for parameter in called.parameters)
        if called.root is not None:
            yield called.root.shape
