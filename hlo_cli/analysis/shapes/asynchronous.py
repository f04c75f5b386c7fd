"""Shape inference for async operations, generic and sugared (such as slice-start).

Mirrors `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc and `CheckAsyncOpComputationShapes` of
xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hlo_cli.analysis.shapes.operands import (
    callee,
    declared_tuple,
    described,
    fail,
    need_at_least,
    operand_shapes,
    sizes_of,
)
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import Shape, TupleShape, compatible

STARTED_LATE: Final = frozenset((opcodes.CALL, opcodes.CUSTOM_CALL, opcodes.FUSION))
"""Opcodes that may start before all their operands are known; the called computation defines their number."""


def is_prefix(shape: Shape, whole: Shape) -> bool:
    """Returns whether a shape equals `whole` as far as it is bound; `()` is unbound.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> is_prefix(parse_shape("(f32[2], ())"), parse_shape("(f32[2], f32[3], s32[])"))
    True
    """
    if isinstance(shape, TupleShape) and isinstance(whole, TupleShape):
        return len(shape.elements) <= len(whole.elements) and all(map(is_prefix, shape.elements, whole.elements))
    return shape == TupleShape(()) or compatible(shape, whole)


def async_start(instruction: Instruction) -> Shape:
    """Returns the operands, the bound part of the computation's result, and the declared contexts."""
    elements = _elements(instruction)
    computation, result = callee(instruction)
    arguments = TupleShape(operand_shapes(instruction))
    if not compatible(arguments, elements[0]):
        found = f"expected the operands as element 0 of the result, found {sizes_of(elements[0])}"
        fail(instruction, f"{found}; {described(instruction, *range(len(instruction.operands)))}")
    parameters = TupleShape(tuple([parameter.shape for parameter in computation.parameters]))
    if not is_prefix(arguments, parameters):
        fail(
            instruction,
            f"expected operands matching the parameters of {computation.name}, found {sizes_of(arguments)}",
        )
    _check_result(instruction, elements[1], result)
    return TupleShape((arguments, elements[1], *elements[2:]))


def async_update(instruction: Instruction) -> Shape:
    """Returns the declared shape, which must extend what operand 0 has bound."""
    elements, before = _elements(instruction), _before(instruction)
    for position in range(2):
        if not is_prefix(before[position], elements[position]):
            found = sizes_of(elements[position])
            fail(
                instruction,
                f"expected element {position} to extend that of operand 0, found {found}; {described(instruction, 0)}",
            )
    bound = before[0].elements if isinstance(before[0], TupleShape) else ()
    added = elements[0].elements[len(bound) :] if isinstance(elements[0], TupleShape) else ()
    further = tuple(map(sizes_of, operand_shapes(instruction)[1:]))
    buffers = output_buffers(before[1], elements[1])
    if further not in (tuple(map(sizes_of, added)), tuple(map(sizes_of, (*added, *buffers)))):
        found = sizes_of(elements[0])
        fail(instruction, f"expected additional operands after {described(instruction, 0)}, found {found}")
    return instruction.shape


def output_buffers(before: Shape, output: Shape) -> tuple[Shape, ...]:
    """Returns the buffers that an update may take as further operands, if it binds the output.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(*output_buffers(parse_shape("()"), parse_shape("(f32[2])")))
    f32[2]{0}
    """
    if before != TupleShape(()):
        return ()
    return output.elements if isinstance(output, TupleShape) else (output,)


def async_done(instruction: Instruction) -> Shape:
    """Returns the root shape of the wrapped computation if the start has one, else the output of operand 0."""
    before = _before(instruction)
    started = _start_of(instruction)
    if started is not None and started.called_computations:
        root = started.called_computations[0].root
        if root is not None:
            return root.shape
    return before[1]


def start_of(instruction: Instruction, wrapped: str, infer: Callable[[Instruction], Shape]) -> Shape:
    """Returns the operands, the inferred result of the wrapped operation, and the declared contexts.

    `instruction` is a sugared start such as slice-start, `wrapped` the opcode of its operation, `infer` the rule for
    it.
    """
    elements = _elements(instruction)
    arguments = TupleShape(operand_shapes(instruction))
    if not is_prefix(arguments, elements[0]):
        found = f"expected the operands as element 0 of the result, found {sizes_of(elements[0])}"
        fail(instruction, f"{found}; {described(instruction, *range(len(instruction.operands)))}")
    if elements[1] == TupleShape(()) or (wrapped in STARTED_LATE and not _is_bound(instruction)):
        return TupleShape((arguments, *elements[1:]))
    inner = Instruction(
        instruction.name,
        elements[1],
        wrapped,
        instruction.operands,
        instruction.computation,
        instruction.index,
        instruction.text,
    )
    inner.called_computations = instruction.called_computations
    return TupleShape((arguments, infer(inner), *elements[2:]))


def _elements(instruction: Instruction) -> tuple[Shape, ...]:
    """Returns the elements of the declared shape of a start or update."""
    elements = declared_tuple(instruction, 2)
    if not isinstance(elements[0], TupleShape):
        found = sizes_of(elements[0])
        fail(instruction, f"expected a tuple of the operands as element 0 of the result, found {found}")
    return elements


def _before(instruction: Instruction) -> tuple[Shape, ...]:
    """Returns the elements of operand 0, which must be a start or an update."""
    need_at_least(instruction, 1)
    shape = instruction.operand_shape(0)
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2 or not isinstance(shape.elements[0], TupleShape):
        fail(instruction, f"expected the result of an async start; {described(instruction, 0)}")
    return shape.elements


def _check_result(instruction: Instruction, shape: Shape, result: Shape) -> None:
    """Checks that the declared output is a prefix of the computation's result."""
    if not is_prefix(shape, result):
        found = f"{sizes_of(shape)}, the computation returns {sizes_of(result)}"
        fail(instruction, f"expected the computation's result as element 1, found {found}")


def _start_of(instruction: Instruction) -> Instruction | None:
    """Returns the async-start of an update or done, None if other instructions are in between."""
    at = instruction
    while at.operands and at.opcode.endswith(("-update", "-done")):
        at = at.operands[0]
    return at if at.opcode == opcodes.ASYNC_START else None


def _is_bound(instruction: Instruction) -> bool:
    """Returns whether the start of a computation has all of its operands."""
    called = instruction.called_computations
    return bool(called) and len(called[0].parameters) == len(instruction.operands)
