"""Shapes that the text omits, from a given inference function, and shapes of async operations without nesting.

Mirrors the calls of shape inference in `CreateInstruction` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, UnknownShape
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


def nest_async_operands(builder: Builder, computations: Sequence[Computation]) -> None:
    """Nests the operands in the results of async operations, as XLA has them, with a note for each.

    XLA's design page on async operations writes `(f32[64], f32[32], s32[]) async-start(x)`: the operands, the output,
    and contexts in one tuple. XLA itself reads `((f32[64]), f32[32], s32[])` only.
    """
    if "-start(" not in builder.source.text:
        return
    nested: dict[Instruction, int] = {}
    for computation in computations:
        for each in computation.instructions:
            if (count := _flat_operands(each, nested)) and isinstance(each.shape, TupleShape):
                nested[each] = count
                elements = each.shape.elements
                each.shape = TupleShape((TupleShape(elements[:count]), *elements[count:]))
                words = f"operands of {each.opcode} are not in a tuple of their own; result read as {each.shape}"
                builder.notes.add("async-operands", words, each.span or Span(0, 0))


def _flat_operands(instruction: Instruction, nested: Mapping[Instruction, int]) -> int:
    """The number of operands at the beginning of a result without nesting; 0 of all other instructions."""
    shape, opcode = instruction.shape, instruction.opcode
    if not isinstance(shape, TupleShape) or not shape.elements or isinstance(shape.elements[0], TupleShape):
        return 0
    wrapped = wrapped_opcode(opcode)
    kind = opcode.removeprefix(wrapped) if wrapped is not None else opcode.removeprefix("async")
    count = len(instruction.operands)
    if kind == "-update" and count:
        before = instruction.operands[0]
        return nested.get(before, 0) if before.opcode.endswith(("-start", "-update")) else 0
    if kind != "-start" or not 0 < count < len(shape.elements):
        return 0
    taken = [instruction.operand_shape(position) for position in range(count)]
    return count if all(map(_are_same_arrays, taken, shape.elements)) else 0


def _are_same_arrays(first: Shape, second: Shape) -> bool:
    """Whether two shapes are arrays of one type and size, in any layout."""
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return False
    return first.element_type is second.element_type and first.dimensions == second.dimensions


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
