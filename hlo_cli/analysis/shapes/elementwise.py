"""Result shapes of what works element by element: unary, binary and ternary operations, and comparisons.

Mirrors `InferUnaryOpShape`, `InferBinaryOpShape` and `InferTernaryOpShape` of xla/service/shape_inference.cc. None of
them broadcasts: sizes must agree, as `ShapeVerifier` asks.
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
from hlo_cli.ir.comparison import same_sizes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.primitive import PRIMITIVE_TYPES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.shape_text import UNBOUNDED
from hlo_cli.ir.words import ComparisonOrder, ComparisonType

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
"""Kinds of which every two values have an order; others have NaN."""
_COMPARED_AS: Final = {
    "pred": (ComparisonType.UNSIGNED,),
    "unsigned": (ComparisonType.UNSIGNED,),
    "signed": (ComparisonType.SIGNED,),
    "float": (ComparisonType.FLOAT, ComparisonType.TOTALORDER),
    "complex": (ComparisonType.FLOAT,),
}


def unary(instruction: Instruction) -> ArrayShape:
    """The operand's shape; the element type must be one that the operation is defined for.

    >>> from hlo_cli import parse_module
    >>> print(unary(parse_module("r = f32[4]{0} sqrt(f32[4]{0:T(128)} a)").entry.root))
    f32[4]{0:T(128)}
    """
    return need_kind(instruction, 0, _KINDS.get(instruction.written_opcode, _TRANSCENDENTAL))


def component(instruction: Instruction) -> ArrayShape:
    """The operand's shape, in which complex numbers have become the floats that they are made of."""
    shape = unary(instruction)
    return with_type(shape, _COMPONENT.get(shape.element_type.name, shape.element_type))


def is_finite(instruction: Instruction) -> ArrayShape:
    """The sizes of an operand of floats, as pred."""
    return with_type(unary(instruction), PRED)


def binary(instruction: Instruction) -> ArrayShape:
    """What both operands have in common: the same sizes, and the wider type if both are floats.

    >>> from hlo_cli import parse_module
    >>> print(binary(parse_module("r = f32[4] add(bf16[4] a, f32[4] b)").entry.root))
    f32[4]{0}
    """
    first, second = _pair(instruction)
    kinds = _KINDS[instruction.written_opcode]
    need_kind(instruction, 0, kinds)
    return made_of(_common(first, second), wider(first.element_type, second.element_type))


def compare(instruction: Instruction) -> ArrayShape:
    """The operands' sizes as pred; the attributes `type` and `order`, if there, must suit the operands."""
    first, second = _pair(instruction)
    wanted = instruction.value("type")
    allowed = _COMPARED_AS[first.element_type.kind]
    if wanted is not None and wanted not in allowed:
        fail(instruction, f"expected type={' or '.join(allowed)}, found {wanted}; {described(instruction, 0)}")
    if first.element_type.kind in _ORDERED and instruction.value("order") is ComparisonOrder.PARTIAL:
        fail(instruction, f"expected order=TOTAL, found PARTIAL; {described(instruction, 0)}")
    return made_of(_common(first, second), PRED)


def complex_of(instruction: Instruction) -> ArrayShape:
    """Complex numbers made of two arrays of floats."""
    first, second = _pair(instruction)
    if first.element_type is not second.element_type or first.element_type.name not in _COMPLEX_OF:
        fail(instruction, f"expected f32 and f32, or f64 and f64; {described(instruction, 0, 1)}")
    return made_of(_common(first, second), _COMPLEX_OF[first.element_type.name])


def clamp(instruction: Instruction) -> ArrayShape:
    """The shape of operand 1; its bounds are scalars or arrays of its sizes."""
    shapes = arrays(instruction)
    for position in (0, 2):
        need_same_type(instruction, position, 1)
        if shapes[position].dimensions and not same_sizes(shapes[position].dimensions, shapes[1].dimensions):
            fail(instruction, f"expected bounds of the operand's sizes; {described(instruction, position, 1)}")
    return shapes[1]


def select(instruction: Instruction) -> ArrayShape:
    """What both choices have in common; what chooses is of pred, a scalar or of their sizes and then lies alike."""
    chooser = need_kind(instruction, 0, ("pred",))
    need_same_type(instruction, 1, 2)
    first, second = array(instruction, 1), array(instruction, 2)
    if not same_sizes(first.dimensions, second.dimensions):
        fail(instruction, f"expected choices of the same sizes; {described(instruction, 1, 2)}")
    if chooser.dimensions and not same_sizes(chooser.dimensions, first.dimensions):
        fail(instruction, f"expected a scalar or the choices' sizes as operand 0; {described(instruction, 0, 1)}")
    element_type, placed = wider(first.element_type, second.element_type), chooser if chooser.rank else first
    layout = replace(placed.layout, element_size_in_bits=first.layout.element_size_in_bits)
    shape = _common(first, second)
    dynamic = shape.dynamic_dimensions
    if chooser.rank:
        dynamic = tuple(map(bool.__or__, dynamic, chooser.dynamic_dimensions))
    return ArrayShape(element_type, shape.dimensions, dynamic, layout)


def _pair(instruction: Instruction) -> tuple[ArrayShape, ArrayShape]:
    """Two operands of one type and the same sizes."""
    first, second = array(instruction, 0), array(instruction, 1)
    need_same_type(instruction, 0, 1)
    if not same_sizes(first.dimensions, second.dimensions):
        fail(instruction, f"expected operands of the same sizes; {described(instruction, 0, 1)}")
    return first, second


def _common(first: ArrayShape, second: ArrayShape) -> ArrayShape:
    """The sizes that two arrays share: a known one where the other is `?`, dynamic where one of them is."""
    if first.dimensions == second.dimensions:
        if first.dynamic_dimensions == second.dynamic_dimensions:
            return first
        dynamic = tuple(map(bool.__or__, first.dynamic_dimensions, second.dynamic_dimensions))
        return ArrayShape(first.element_type, first.dimensions, dynamic, first.layout)
    known = [second if size == UNBOUNDED else first for size in first.dimensions]
    dimensions = [shape.dimensions[i] for i, shape in enumerate(known)]
    return array_of(first.element_type, dimensions, [shape.dynamic_dimensions[i] for i, shape in enumerate(known)])
