"""Shapes that the text omits, from a given inference function.

Mirrors the calls of shape inference in `CreateInstruction` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import Shape, UnknownShape
from hlo_cli.source import HloError, Span
from hlo_cli.syntax.text.build import Builder

_LEAVES: Final = 4_000
_LEAVES_EACH: Final = 4
"""The most elements of all shapes that a text omits, plus an allowance per operand: forty lines that double a tuple
are few, but their elements too many to count."""

Infer = Callable[[Instruction], Shape]
"""Returns the shape of an instruction written without one, or raises HloError."""


def infer_shapes(builder: Builder, infer: Infer) -> None:
    """Sets the shape of every instruction written without one; a failure is an error of the text.

    Users of a value of unknown shape stay without a shape too, and are not further errors.
    """
    taken, most = 0, _LEAVES + _LEAVES_EACH * sum(len(each.operands) for each in builder.shapeless)
    for instruction in builder.shapeless:
        if UnknownShape() in _shapes_taken(instruction):
            continue
        try:
            shape = infer(instruction)
            taken += leaf_count(shape, most - taken + 1)
            if taken > most:
                span = instruction.span or Span(0, 0)
                problem = "the omitted shapes are too large to infer"
                hint = f"give the shapes explicitly; inferred shapes may have at most {most:,} tuple elements in total"
                builder.report(problem, span.start, span.end, hint)
                return
            instruction.shape = shape
        except HloError as error:
            if not builder.is_full:
                builder.diagnostics.extend(replace(found, source=builder.source) for found in error.diagnostics)


def leaf_count(shape: Shape, most: int) -> int:
    """The number of leaves of a shape, or `most` if there are more.

    >>> from hlo_cli.ir.shape import TokenShape, TupleShape
    >>> pair = TupleShape((TokenShape(), TokenShape()))
    >>> leaf_count(TupleShape((pair, pair)), 9), leaf_count(TupleShape((pair, pair)), 3)
    (4, 3)
    """
    return sum(1 for _ in islice(shape.leaves, most))


def _shapes_taken(instruction: Instruction) -> Iterator[Shape]:
    """The shapes that a result may depend on: of operands, and of parameters and results of called computations."""
    for position in range(len(instruction.operands)):
        yield instruction.operand_shape(position)
    for called in instruction.called_computations:
        yield from (parameter.shape for parameter in called.parameters)
        if called.root is not None:
            yield called.root.shape
