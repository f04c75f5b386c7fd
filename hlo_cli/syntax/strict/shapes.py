"""Result shapes for strict reading: those that XLA fixes, and the simple cases of those it infers.

Mirrors the constructors in xla/hlo/ir/hlo_instruction.cc and the simple functions of xla/service/shape_inference.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import PRIMITIVE_TYPES, default_layout
from hlo_cli.ir.operations import BINARY, DEVICE_IDS, OTHER_TYPE, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape, TupleShape
from hlo_cli.syntax.strict.op_context import OperationChecker

_LIKE_FIRST: Final = UNARY - OTHER_TYPE - {"reduce-precision"} | frozenset(
    "add-dependency cholesky clamp domain reverse while".split()
)
_BINARY: Final = BINARY - OTHER_TYPE | {opcodes.COMPARE}
_U32: Final = ArrayShape(PRIMITIVE_TYPES["u32"], (), (), default_layout(0))


def fixed_shape(operation: OperationChecker) -> Shape | None:
    """The shape that XLA gives the instruction regardless of the text, else the one in the text, else None."""
    shape, first = operation.shape, operation.operand_shape(0)
    match operation.opcode:
        case "after-all" | opcodes.OUTFEED | "send-done":
            return TokenShape()
        case "add-dependency":
            return first
        case opcodes.SEND:
            return TupleShape((first, _U32, TokenShape())) if first is not None else None
        case opcodes.RECV if isinstance(shape, TupleShape):
            return TupleShape((shape.elements[0], _U32, TokenShape()))
        case opcodes.INFEED if isinstance(shape, TupleShape):
            return TupleShape((shape.elements[0], TokenShape()))
        case "recv-done" if isinstance(first, TupleShape):
            return TupleShape((first.elements[0], TokenShape()))
    return shape if shape is not None else _inferred(operation)


def _inferred(operation: OperationChecker) -> Shape | None:
    first, second = operation.operand_shape(0), operation.operand_shape(1)
    opcode = operation.opcode
    if opcode == opcodes.TUPLE:
        shapes = [operand.shape for operand in operation.operands]
        known = tuple(shape for shape in shapes if shape is not None)
        return TupleShape(known) if len(known) == len(shapes) else None
    if opcode in DEVICE_IDS:
        return _U32
    if opcode == opcodes.GET_TUPLE_ELEMENT:
        return _element(operation, first)
    if opcode in _BINARY:
        return _of_both(operation, first, second)
    if opcode == "is-finite":
        return _as_pred(first)
    return first if opcode in _LIKE_FIRST else None


def _element(operation: OperationChecker, shape: Shape | None) -> Shape | None:
    index = operation.integer("index")
    if shape is None or index is None:
        return None
    if not isinstance(shape, TupleShape) or not 0 <= index < len(shape.elements):
        operation.fail(f"{shape} has no element {index}", "index")
        return None
    return shape.elements[index]


def _of_both(operation: OperationChecker, first: Shape | None, second: Shape | None) -> Shape | None:
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return None
    kinds = {first.element_type.kind, second.element_type.kind}
    if first.element_type is not second.element_type and kinds != {"float"}:
        operation.fail(f"operands have different types: {first.element_type} and {second.element_type}")
    if first.dimensions != second.dimensions:
        if not first.is_dynamic and not second.is_dynamic and 1 not in (*first.dimensions, *second.dimensions):
            operation.fail(f"operands have different shapes: {first} and {second}")
        return None
    if operation.opcode == opcodes.COMPARE:
        return _as_pred(first)
    return first if first.element_type is second.element_type else None


def _as_pred(shape: Shape | None) -> Shape | None:
    if not isinstance(shape, ArrayShape):
        return None
    pred = PRIMITIVE_TYPES["pred"]
    return ArrayShape(pred, shape.dimensions, shape.dynamic_dimensions, default_layout(shape.rank))
