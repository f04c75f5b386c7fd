"""Shape inference for conversions, and for operations without array operands: iota, random numbers, device ids.

Mirrors `InferConvertShape`, `InferBitcastConvertShape`, `InferReducePrecisionShape`, and
`InferStochasticConvertShape` of xla/service/shape_inference.cc, and `HandleIota`, `HandleRng`, and `HandleBitcast` of
xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from hlo_cli.analysis.shapes.operands import (
    INTEGERS,
    S32,
    U32_SCALAR,
    array,
    array_of,
    declared,
    declared_array,
    declared_tuple,
    described,
    fail,
    need_at_least,
    need_kind,
    need_scalar,
    only_dimension,
    with_type,
)
from hlo_cli.ir.attributes.enumerations import RandomDistribution
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, compatible, same_sizes

_INT32_MAX = 2**31 - 1


def convert(instruction: Instruction) -> ArrayShape:
    """Returns the operand with the declared type.

    >>> from hlo_cli import parse_module
    >>> print(convert(parse_module("r = s8[4] convert(f32[4] a)").entry.root))
    s8[4]{0}
    """
    return with_type(array(instruction, 0), declared_array(instruction).element_type)


def bitcast_convert(instruction: Instruction) -> ArrayShape:
    """Returns the operand's bits as the declared type; a change of width adds or removes a last dimension."""
    shape, result = array(instruction, 0), declared_array(instruction)
    old, new = shape.element_type, result.element_type
    if (old.kind == "complex") != (new.kind == "complex"):
        fail(instruction, f"cannot bitcast-convert between complex and non-complex types: {old} to {new}")
    from_bits, to_bits = _stored_bits(old), _stored_bits(new)
    if from_bits == to_bits:
        return with_type(shape, new)
    if max(from_bits, to_bits) % min(from_bits, to_bits):
        fail(instruction, f"one type's width must be a multiple of the other's: {old} to {new}")
    if from_bits > to_bits:
        dimensions, dynamic = (*shape.dimensions, from_bits // to_bits), (*shape.dynamic_dimensions, False)
        return array_of(new, dimensions, dynamic)
    ratio = to_bits // from_bits
    if not shape.dimensions or shape.dimensions[-1] != ratio:
        fail(instruction, f"expected a last dimension of size {ratio} from {old} to {new}; {described(instruction, 0)}")
    return array_of(new, shape.dimensions[:-1], shape.dynamic_dimensions[:-1])


def bitcast(instruction: Instruction) -> Shape:
    """Returns the declared shape; `hlo_cli.analysis.shapes.comparison` compares the bytes."""
    array(instruction, 0)
    return declared_array(instruction)


def reduce_precision(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand; the exponent needs at least 1 bit."""
    shape = need_kind(instruction, 0, ("float",))
    exponent, mantissa = instruction.integer("exponent_bits"), instruction.integer("mantissa_bits")
    if exponent is None or exponent < 1:
        fail(instruction, f"expected exponent_bits of at least 1, found {exponent}")
    if mantissa is None or mantissa < 0:
        fail(instruction, f"expected mantissa_bits of at least 0, found {mantissa}")
    return shape


def stochastic_convert(instruction: Instruction) -> ArrayShape:
    """Returns the operand with the declared type; the random bits must be as wide as its floats."""
    shape, random = need_kind(instruction, 0, ("float",)), need_kind(instruction, 1, ("unsigned",))
    if random.element_type.bits != shape.element_type.bits:
        fail(instruction, f"expected random bits with the width of the float type; {described(instruction, 0, 1)}")
    if not same_sizes(shape.dimensions, random.dimensions):
        fail(instruction, f"expected operands of the same sizes; {described(instruction, 0, 1)}")
    return with_type(shape, declared_array(instruction).element_type)


def iota(instruction: Instruction) -> ArrayShape:
    """Returns the declared shape, which must have the iota dimension and a numeric type."""
    shape, along = declared_array(instruction), instruction.integer("iota_dimension")
    if along is None or not 0 <= along < shape.rank:
        fail(instruction, f"expected iota_dimension below {shape.rank}, the rank of the result, found {along}")
    if shape.element_type.kind == "pred":
        fail(instruction, "expected a numeric result type, found pred")
    return shape


def rng(instruction: Instruction) -> ArrayShape:
    """Returns the declared dimensions with the type of the two distribution parameters."""
    need_at_least(instruction, 2)
    first, second = need_scalar(instruction, 0), need_scalar(instruction, 1)
    if first.element_type is not second.element_type:
        fail(instruction, f"expected parameters of the same type; {described(instruction, 0, 1)}")
    if instruction.value("distribution") == RandomDistribution.NORMAL:
        need_kind(instruction, 0, ("float",))
    else:
        need_kind(instruction, 0, ("float", "pred", *INTEGERS))
    shape = declared_array(instruction)
    return array_of(first.element_type, shape.dimensions, shape.dynamic_dimensions)


def rng_bit_generator(instruction: Instruction) -> Shape:
    """Returns the operand as the next state, and the declared data; a result that is not a tuple is not checked."""
    need_at_least(instruction, 1)
    shape = declared(instruction)
    if not isinstance(shape, TupleShape):
        return shape
    elements = declared_tuple(instruction, 2)
    state = array(instruction, 0)
    if len(elements) != 2 or not compatible(elements[0], state):
        fail(instruction, f"expected a tuple of the new state and the data as the result; {described(instruction, 0)}")
    return TupleShape((state, elements[1]))


def rng_state(instruction: Instruction) -> ArrayShape:
    """Returns the state of a random number generator: two u64."""
    return array_of(PRIMITIVE_TYPES["u64"], (2,))


def device_id(instruction: Instruction) -> ArrayShape:
    """Returns a replica or partition id."""
    return U32_SCALAR


def get_dimension_size(instruction: Instruction) -> ArrayShape:
    """Returns an s32 scalar; the size must fit."""
    shape = array(instruction, 0)
    size = shape.dimensions[only_dimension(instruction, shape.rank)]
    if size > _INT32_MAX:
        fail(instruction, f"size {size} does not fit s32; {described(instruction, 0)}")
    return array_of(S32, ())


def set_dimension_size(instruction: Instruction) -> ArrayShape:
    """Returns the operand with a further dynamic dimension."""
    shape = array(instruction, 0)
    along = only_dimension(instruction, shape.rank)
    if need_scalar(instruction, 1).element_type is not S32:
        fail(instruction, f"expected an s32 scalar as operand 1; {described(instruction, 1)}")
    dynamic = [flag or d == along for d, flag in enumerate(shape.dynamic_dimensions)]
    return ArrayShape(shape.element_type, shape.dimensions, tuple(dynamic), shape.layout)


def _stored_bits(element_type: PrimitiveType) -> int:
    """Returns the number of bits that an element occupies."""
    return 8 if element_type.kind == "pred" else element_type.bits
