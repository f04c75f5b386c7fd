"""Shape inference for elementwise operations: unary, binary, ternary, and comparisons.

Mirrors `InferUnaryOpShape`, `InferBinaryOpShape`, and `InferTernaryOpShape` of xla/service/shape_inference.cc. No
operation broadcasts implicitly: `ShapeVerifier` requires equal sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.operands import (
    INTEGERS,
    PRED,
    array,
    array_of,
    arrays,
    described,
    fail,
    made_of,
    need_kind,
    need_same_type,
    wider,
    with_type,
)
from hlo_cli.ir.attributes.enumerations import ComparisonOrder, ComparisonType
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, same_sizes

_NUMBERS: Final = (*INTEGERS, "float", "complex")
_KINDS: Final = {
    **dict.fromkeys("ceil cbrt erf floor round-nearest-afz round-nearest-even is-finite".split(), ("float",)),
    **dict.fromkeys(("real", "imag", "atan2"), ("float", "complex")),
    **dict.fromkeys(("negate", "subtract", "divide", "power", "remainder"), _NUMBERS),
    **dict.fromkeys(("shift-left", "shift-right-arithmetic", "shift-right-logical"), _NUMBERS),
    **dict.fromkeys(("sign", "abs"), ("signed", "float", "complex")),
    **dict.fromkeys(("not", "and", "or", "xor"), ("pred", *INTEGERS)),
    **dict.fromkeys(("popcnt", "count-leading-zeros"), INTEGERS),
    **dict.fromkeys(("add", "multiply", "maximum", "minimum", "mulhi"), ("pred", *_NUMBERS)),
}
_TRANSCENDENTAL: Final = ("float", "complex")
_COMPONENT: Final = {"c64": PRIMITIVE_TYPES["f32"], "c128": PRIMITIVE_TYPES["f64"]}
_COMPLEX_OF: Final = {"f32": PRIMITIVE_TYPES["c64"], "f64": PRIMITIVE_TYPES["c128"]}
_ORDERED: Final = ("pred", *INTEGERS)
"""Kinds with a total order; the others have NaN."""
_COMPARED_AS: Final = {
    "pred": (ComparisonType.UNSIGNED,),
    "unsigned": (ComparisonType.UNSIGNED,),
    "signed": (ComparisonType.SIGNED,),
    "float": (ComparisonType.FLOAT, ComparisonType.TOTALORDER),
    "complex": (ComparisonType.FLOAT,),
}


def unary(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand, whose element type must be supported.

    >>> from hlo_cli import parse_module
    >>> print(unary(parse_module("r = f32[4]{0} sqrt(f32[4]{0:T(128)} a)").entry.root))
    f32[4]{0:T(128)}
    """
    return need_kind(instruction, 0, _KINDS.get(instruction.written_opcode, _TRANSCENDENTAL))


def component(instruction: Instruction) -> ArrayShape:
    """Returns the operand with complex types replaced by their component type."""
    shape = unary(instruction)
    return with_type(shape, _COMPONENT.get(shape.element_type.name, shape.element_type))


def is_finite(instruction: Instruction) -> ArrayShape:
    """Returns the operand as pred."""
    return with_type(unary(instruction), PRED)


def binary(instruction: Instruction) -> ArrayShape:
    """Returns the common shape of both operands, of the type with higher precision.

    >>> from hlo_cli import parse_module
    >>> print(binary(parse_module("r = f32[4] add(bf16[4] a, f32[4] b)").entry.root))
    f32[4]{0}
    """
    first, second = _pair(instruction)
    kinds = _KINDS[instruction.written_opcode]
    need_kind(instruction, 0, kinds)
    return made_of(_common(first, second), wider(first.element_type, second.element_type))


def compare(instruction: Instruction) -> ArrayShape:
    """Returns the operands as pred; the attributes `type` and `order` must suit them."""
    first, second = _pair(instruction)
    compared_as = instruction.value("type")
    allowed = _COMPARED_AS[first.element_type.kind]
    if compared_as is not None and compared_as not in allowed:
        fail(instruction, f"expected type={' or '.join(allowed)}, found {compared_as}; {described(instruction, 0)}")
    if first.element_type.kind in _ORDERED and instruction.value("order") is ComparisonOrder.PARTIAL:
        fail(instruction, f"expected order=TOTAL, found PARTIAL; {described(instruction, 0)}")
    return made_of(_common(first, second), PRED)


def complex_of(instruction: Instruction) -> ArrayShape:
    """Returns the complex array of two float arrays."""
    first, second = _pair(instruction)
    if first.element_type is not second.element_type or first.element_type.name not in _COMPLEX_OF:
        fail(instruction, f"expected f32 and f32, or f64 and f64; {described(instruction, 0, 1)}")
    return made_of(_common(first, second), _COMPLEX_OF[first.element_type.name])


def clamp(instruction: Instruction) -> ArrayShape:
    """Returns the shape of operand 1; bounds are scalars or arrays of equal size."""
    shapes = arrays(instruction)
    for position in (0, 2):
        need_same_type(instruction, position, 1)
        if shapes[position].dimensions and not same_sizes(shapes[position].dimensions, shapes[1].dimensions):
            fail(instruction, f"expected bounds with the operand's sizes; {described(instruction, position, 1)}")
    return shapes[1]


def select(instruction: Instruction) -> ArrayShape:
    """Returns the common shape of operands 1 and 2, with the layout of operand 0 unless that is a scalar."""
    predicate = need_kind(instruction, 0, ("pred",))
    need_same_type(instruction, 1, 2)
    first, second = array(instruction, 1), array(instruction, 2)
    if not same_sizes(first.dimensions, second.dimensions):
        fail(instruction, f"expected on_true and on_false with the same sizes; {described(instruction, 1, 2)}")
    if predicate.dimensions and not same_sizes(predicate.dimensions, first.dimensions):
        fail(
            instruction, f"expected a scalar predicate or one with the sizes of on_true; {described(instruction, 0, 1)}"
        )
    # shape_inference.cc, InferSelectShape: the result is made from the predicate's shape, unless that is a scalar.
    element_type, layout_source = wider(first.element_type, second.element_type), predicate if predicate.rank else first
    layout = replace(layout_source.layout, element_size_in_bits=first.layout.element_size_in_bits)
    shape = _common(first, second)
    dynamic = shape.dynamic_dimensions
    if predicate.rank:
        dynamic = tuple(map(bool.__or__, dynamic, predicate.dynamic_dimensions))
    return ArrayShape(element_type, shape.dimensions, dynamic, layout)


def _pair(instruction: Instruction) -> tuple[ArrayShape, ArrayShape]:
    """Returns two operands of one type and equal sizes."""
    first, second = array(instruction, 0), array(instruction, 1)
    need_same_type(instruction, 0, 1)
    if not same_sizes(first.dimensions, second.dimensions):
        fail(instruction, f"expected operands of the same sizes; {described(instruction, 0, 1)}")
    return first, second


def _common(first: ArrayShape, second: ArrayShape) -> ArrayShape:
    """Returns the common shape of two arrays: unbounded sizes are replaced, dynamic dimensions are united."""
    if first.dimensions == second.dimensions:
        if first.dynamic_dimensions == second.dynamic_dimensions:
            return first
        dynamic = tuple(map(bool.__or__, first.dynamic_dimensions, second.dynamic_dimensions))
        return ArrayShape(first.element_type, first.dimensions, dynamic, first.layout)
    known = [second if size == UNBOUNDED else first for size in first.dimensions]
    dimensions = [shape.dimensions[i] for i, shape in enumerate(known)]
    return array_of(first.element_type, dimensions, [shape.dynamic_dimensions[i] for i, shape in enumerate(known)])
