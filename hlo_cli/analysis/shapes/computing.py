"""Which shape do operations compute that have one: elementwise, conversions, dots, and decompositions?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.operands import (
    INTEGERS,
    PRED,
    S32,
    U32_SCALAR,
    array,
    array_of,
    arrays,
    declared,
    declared_array,
    declared_tuple,
    described,
    fail,
    made_of,
    need_at_least,
    need_dimensions,
    need_kind,
    need_same_type,
    need_scalar,
    only_dimension,
    wider,
    with_type,
)
from hlo_cli.ir.attributes.enumerations import ComparisonOrder, ComparisonType, FftType, RandomDistribution, Transpose
from hlo_cli.ir.attributes.value_types import (
    DotDimensionNumbers,
    RaggedDotDimensionNumbers,
    SparsityConfig,
    TensorSparsity,
    dot_dimension_numbers,
    ragged_dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, UnknownShape, compatible, same_sizes
from hlo_cli.source import counted

# --- elementwise operations ---
# Shape inference for elementwise operations: unary, binary, ternary, and comparisons.
#
# Mirrors `InferUnaryOpShape`, `InferBinaryOpShape`, and `InferTernaryOpShape` of xla/service/shape_inference.cc. No
# operation broadcasts implicitly: `ShapeVerifier` requires equal sizes.


_NUMBERS: Final = (*INTEGERS, "float", "complex")  # all but pred, which shape_inference.cc admits by opcode
# The type tests of `InferUnaryOpShape` and `InferBinaryOpShape`; opcodes that are not listed take floats and complex.
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
# `Comparison::DefaultComparisonType` and the types it may be replaced by; only floats have a total order, too.
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
    # Integers have no NaN that a partial order could leave out.
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
    # Bounds are scalars, or as large as the operand; XLA broadcasts nothing else.
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
    # InferMostSpecificDimAndBound: a known size is more specific than `?`.
    known = [second if size == UNBOUNDED else first for size in first.dimensions]
    dimensions = [shape.dimensions[i] for i, shape in enumerate(known)]
    return array_of(first.element_type, dimensions, [shape.dynamic_dimensions[i] for i, shape in enumerate(known)])


# --- conversions, and operations without arrays ---
# Shape inference for conversions, and for operations without array operands: iota, random numbers, device ids.
#
# Mirrors `InferConvertShape`, `InferBitcastConvertShape`, `InferReducePrecisionShape`, and
# `InferStochasticConvertShape` of xla/service/shape_inference.cc, and `HandleIota`, `HandleRng`, and `HandleBitcast` of
# xla/service/hlo_verifier.cc.


_INT32_MAX = 2**31 - 1  # `InferGetDimensionSizeShape`: the result is an s32


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
    # Types of 6 bits cannot be regrouped into bytes.
    if max(from_bits, to_bits) % min(from_bits, to_bits):
        fail(instruction, f"one type's width must be a multiple of the other's: {old} to {new}")
    if from_bits > to_bits:
        # A wider element becomes a new last dimension of its parts, least significant first.
        dimensions, dynamic = (*shape.dimensions, from_bits // to_bits), (*shape.dynamic_dimensions, False)
        return array_of(new, dimensions, dynamic)
    ratio = to_bits // from_bits
    if not shape.dimensions or shape.dimensions[-1] != ratio:
        fail(instruction, f"expected a last dimension of size {ratio} from {old} to {new}; {described(instruction, 0)}")
    return array_of(new, shape.dimensions[:-1], shape.dynamic_dimensions[:-1])


def bitcast(instruction: Instruction) -> Shape:
    """Returns the declared shape; `hlo_cli.analysis.shapes.inference` compares the bytes."""
    array(instruction, 0)
    return declared_array(instruction)


def reduce_precision(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand; the exponent needs at least 1 bit."""
    shape = need_kind(instruction, 0, ("float",))
    exponent, mantissa = instruction.integer("exponent_bits"), instruction.integer("mantissa_bits")
    # Without an exponent bit no finite number but 0 could be told from infinity.
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
    # hlo_verifier.cc tests tuples only, so that a result without the state passes.
    if not isinstance(shape, TupleShape):
        return shape
    elements = declared_tuple(instruction, 2)
    state = array(instruction, 0)
    if len(elements) != 2 or not compatible(elements[0], state):
        fail(instruction, f"expected a tuple of the new state and the data as the result; {described(instruction, 0)}")
    return TupleShape((state, elements[1]))


def rng_state(instruction: Instruction) -> ArrayShape:
    """Returns the state of a random number generator: two u64."""
    # 128 bits of state, whatever generator the backend has.
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


# --- dots ---
# Shape inference for dot, ragged-dot, and scaled-dot.
#
# Mirrors `InferDotOpShape`, `InferRaggedDotOpShape`, and `InferScaledDotOpShape` of xla/service/shape_inference.cc.


def dot(instruction: Instruction) -> ArrayShape:
    """Returns batch dimensions, then free dimensions of the left and of the right operand; the type may be declared.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> print(dot(parse_module(text).entry.root))
    f32[2,5]{1,0}
    """
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None, "the rule applies only to dots"
    return _dot(instruction, *dense_operands(instruction), numbers, 1)


def dense_operands(instruction: Instruction) -> tuple[ArrayShape, ArrayShape]:
    """Returns the operands of a dot or a convolution; of sparse ones, the shapes with all elements of each block."""
    lhs, rhs = array(instruction, 0), array(instruction, 1)
    config = instruction.value_of("sparsity_config", SparsityConfig)
    if config is None:
        return lhs, rhs
    return _unpacked(lhs, config.lhs), _unpacked(rhs, config.rhs)


def _unpacked(shape: ArrayShape, sparsity: TensorSparsity | None) -> ArrayShape:
    if sparsity is None or not sparsity.num_non_zero or sparsity.dimension >= shape.rank:
        return shape
    sizes = list(shape.dimensions)
    # Stored are num_non_zero elements of each block of block_size; the rule is that of the whole array.
    sizes[sparsity.dimension] = sizes[sparsity.dimension] // sparsity.num_non_zero * sparsity.block_size
    return array_of(shape.element_type, sizes, shape.dynamic_dimensions)


def scaled_dot(instruction: Instruction) -> ArrayShape:
    """Returns the dot of two scaled operands; the sizes of each scale divide those of its operand.

    Both scales are the last operands; up to jaxlib 0.10.2, each follows its operand.
    """
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None, "the rule applies only to dots"
    contracted = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)
    if len(contracted[0]) != 1:
        fail(instruction, f"expected one contracting dimension, found {len(contracted[0])}")
    lhs, second = array(instruction, 0), array(instruction, 1)
    # Which form it is shows in the sizes: a scale is shorter than its operand along the contracted dimension.
    is_new = _sizes(lhs, contracted[0]) == _sizes(second, contracted[1])
    right, scales = (1, (2, 3)) if is_new else (2, (1, 3))
    result = _dot(instruction, lhs, array(instruction, right), numbers, right)
    left_scale = _check_scale(instruction, 0, scales[0], contracted[0][0])
    right_scale = _check_scale(instruction, right, scales[1], contracted[1][0])
    if not left_scale and not right_scale:
        found = described(instruction, *scales)
        fail(instruction, f"expected a scale for at least one operand; {found}")
    return result


def ragged_dot(instruction: Instruction) -> ArrayShape:
    """Returns a dot with groups of different sizes, given by operand 2, along one dimension.

    If the ragged dimension is contracting, the groups are the first dimension of the result.
    """
    numbers = ragged_dot_dimension_numbers(instruction)
    assert numbers is not None, "the rule applies only to ragged dots"
    lhs, rhs, sizes = array(instruction, 0), array(instruction, 1), array(instruction, 2)
    if len(numbers.lhs_ragged_dimensions) != 1:
        fail(instruction, f"expected one ragged dimension, found {len(numbers.lhs_ragged_dimensions)}")
    need_dimensions(instruction, numbers.lhs_ragged_dimensions, lhs.rank, "lhs_ragged_dims")
    need_dimensions(instruction, numbers.rhs_group_dimensions, rhs.rank, "rhs_group_dims")
    if not sizes.rank:
        fail(instruction, f"expected group sizes; {described(instruction, 2)}")
    groups = sizes.dimensions[-1]
    if sizes.rank > 1 and sizes.dimensions[:-1] != _sizes_before_ragged(numbers, lhs):
        found = f"expected sizes for {list(_sizes_before_ragged(numbers, lhs))} rows of groups, or for all at once"
        fail(instruction, f"{found}; {described(instruction, 2)}")
    _check_groups(instruction, numbers, rhs, groups)
    dims = numbers.dot_dimension_numbers
    result = _dot(instruction, lhs, rhs, dims, 1, numbers.rhs_group_dimensions)
    if numbers.lhs_ragged_dimensions[0] in dims.lhs_contracting_dimensions:
        return array_of(result.element_type, (groups, *result.dimensions), (False, *result.dynamic_dimensions))
    return result


def _dot(
    instruction: Instruction,
    lhs: ArrayShape,
    rhs: ArrayShape,
    numbers: DotDimensionNumbers,
    right: int,
    groups: tuple[int, ...] = (),
) -> ArrayShape:
    """Returns the result of a dot; `right` is the operand number of `rhs`, and `groups` are its group dimensions."""
    lhs_taken = (*numbers.lhs_contracting_dimensions, *numbers.lhs_batch_dimensions)
    rhs_taken = (*numbers.rhs_contracting_dimensions, *numbers.rhs_batch_dimensions)
    need_dimensions(instruction, lhs_taken, lhs.rank, "the left operand")
    need_dimensions(instruction, (*rhs_taken, *groups), rhs.rank, "the right operand")
    _check_pairs(instruction, numbers, lhs, rhs, right)
    lhs_free = [d for d in range(lhs.rank) if d not in lhs_taken]
    rhs_free = [d for d in range(rhs.rank) if d not in rhs_taken and d not in groups]
    parts = ((lhs, numbers.lhs_batch_dimensions), (lhs, lhs_free), (rhs, rhs_free))
    sizes = [shape.dimensions[d] for shape, dimensions in parts for d in dimensions]
    dynamic = [shape.dynamic_dimensions[d] for shape, dimensions in parts for d in dimensions]
    element_type = wider(lhs.element_type, rhs.element_type)
    # `preferred_element_type` is not in the text; the declared type is what it was.
    if not isinstance(instruction.shape, UnknownShape):
        element_type = declared_array(instruction).element_type
    return array_of(element_type, sizes, dynamic)


def _check_pairs(
    instruction: Instruction, numbers: DotDimensionNumbers, lhs: ArrayShape, rhs: ArrayShape, right: int
) -> None:
    """Checks that contracting and batch dimensions have equal sizes pairwise."""
    for noun, left_dims, right_dims in (
        ("contracting", numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        ("batch", numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
    ):
        if len(left_dims) != len(right_dims):
            found = f"{len(left_dims)} and {len(right_dims)}"
            fail(instruction, f"expected the same number of {noun} dimensions on both sides, found {found}")
        for a, b in zip(left_dims, right_dims, strict=True):
            sizes = (lhs.dimensions[a], rhs.dimensions[b])
            if sizes[0] != sizes[1] and UNBOUNDED not in sizes:
                pair = f"expected equal sizes of {noun} dimensions {a} and {b}, found {sizes[0]} and {sizes[1]}"
                fail(instruction, f"{pair}; {described(instruction, 0, right)}")


def _sizes(shape: ArrayShape, dimensions: tuple[int, ...]) -> list[int]:
    """Returns the sizes of dimensions."""
    return [shape.dimensions[d] for d in dimensions if 0 <= d < shape.rank]


def _check_scale(instruction: Instruction, position: int, scale_position: int, contracted: int) -> bool:
    """Checks a scale, given by the number of its operand; returns whether it is an array.

    A bf16 scalar means that there is no scale.
    """
    shape, scale = array(instruction, position), array(instruction, scale_position)
    is_missing = shape.element_type is scale.element_type and shape.element_type.name == "bf16"
    # InferScaledDotOpShape takes a bf16 one of one element for the absence of a scale.
    if is_missing and all(size == 1 for size in scale.dimensions):
        if 0 < scale.rank <= contracted:
            fail(
                instruction,
                f"expected a scale with dimension {contracted}; {described(instruction, position, scale_position)}",
            )
        return bool(scale.rank)
    if scale.rank != shape.rank:
        fail(instruction, f"expected a scale of its operand's rank; {described(instruction, position, scale_position)}")
    for d, (size, part) in enumerate(zip(shape.dimensions, scale.dimensions, strict=True)):
        if part < 1 or size % part:
            which = "the contracting dimension" if d == contracted else f"dimension {d}"
            operands = described(instruction, position, scale_position)
            fail(instruction, f"{which} of the scale does not divide that of its operand; {operands}")
    return bool(scale.rank)


def _sizes_before_ragged(numbers: RaggedDotDimensionNumbers, lhs: ArrayShape) -> tuple[int, ...]:
    """Returns the sizes of the dimensions before the ragged one, each of which may have its own groups."""
    dims, ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions[0]
    batch, contracted = dims.lhs_batch_dimensions, dims.lhs_contracting_dimensions
    if ragged in batch:
        return tuple(lhs.dimensions[d] for d in batch[: batch.index(ragged)])
    if ragged in contracted:
        return tuple(lhs.dimensions[d] for d in (*batch, *contracted[: contracted.index(ragged)]))
    free = (d for d in range(ragged) if d not in (*batch, *contracted))
    return tuple(lhs.dimensions[d] for d in (*batch, *free))


def _check_groups(instruction: Instruction, numbers: RaggedDotDimensionNumbers, rhs: ArrayShape, groups: int) -> None:
    """Checks that the right operand has a group dimension if and only if the ragged dimension is free."""
    dims, ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions[0]
    is_free = ragged not in (*dims.lhs_contracting_dimensions, *dims.lhs_batch_dimensions)
    group_dims = numbers.rhs_group_dimensions
    # Only a free ragged dimension has a matrix for each group.
    if len(group_dims) != int(is_free):
        fail(instruction, f"expected {counted(int(is_free), 'numbers')} in rhs_group_dims, found {len(group_dims)}")
    for d in group_dims:
        if d in (*dims.rhs_contracting_dimensions, *dims.rhs_batch_dimensions):
            fail(instruction, f"dimension {d} in rhs_group_dims is a batch or contracting dimension too")
        if rhs.dimensions[d] != groups:
            fail(
                instruction,
                f"expected {counted(groups, 'groups')} in dimension {d} of operand 1; {described(instruction, 1, 2)}",
            )


# --- decompositions, transforms, and normalization ---
# Shape inference for decompositions, fft, batch normalization, and top-k.
#
# Mirrors `InferFftShape`, `InferCholeskyShape`, `InferTriangularSolveShape`, `InferBatchNorm…Shape`, and `InferTopK` of
# xla/service/shape_inference.cc.


_COMPLEX_NAME_OF: Final = {"f32": "c64", "f64": "c128"}  # `InferFftShape` has no other precisions
_REAL_OF: Final = {"c64": "f32", "c128": "f64"}


def fft(instruction: Instruction) -> ArrayShape:
    """Returns the transform of the operand; a real dimension of size n has n/2+1 complex results.

    >>> from hlo_cli import parse_module
    >>> print(fft(parse_module("r = c64[2,5] fft(f32[2,8] a), fft_type=RFFT, fft_length={8}").entry.root))
    c64[2,5]{1,0}
    """
    shape, lengths, kind = array(instruction, 0), instruction.integers("fft_length"), instruction.value("fft_type")
    if not 1 <= len(lengths) <= 3 or len(lengths) > shape.rank:
        fail(instruction, f"expected 1 to 3 numbers in fft_length, found {len(lengths)}; {described(instruction, 0)}")
    if kind == FftType.RFFT:
        element_type = _counterpart(instruction, shape, _COMPLEX_NAME_OF, "f32 or f64")
        _check_lengths(instruction, shape, lengths)
        # The transform of real numbers is its own mirror image, so half of it and the middle are kept.
        return _with_last(shape, element_type, lengths[-1] // 2 + 1 if lengths[-1] else 0)
    element_type = _counterpart(instruction, shape, _REAL_OF, "c64 or c128")
    if kind == FftType.IRFFT:
        half = lengths[-1] // 2 + 1 if lengths[-1] else 0
        _check_lengths(instruction, shape, (*lengths[:-1], half))
        return _with_last(shape, element_type, lengths[-1])
    return shape


def cholesky(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand, whose last two dimensions must be equal."""
    shape = need_kind(instruction, 0, ("float", "complex"))
    _check_square(instruction, shape)
    return shape


def triangular_solve(instruction: Instruction) -> ArrayShape:
    """Returns the shape of operand 1, the right-hand sides; operand 0 holds one triangular matrix for each."""
    a, b = need_kind(instruction, 0, ("float", "complex")), array(instruction, 1)
    if a.element_type is not b.element_type:
        fail(instruction, f"expected operands of the same element type; {described(instruction, 0, 1)}")
    _check_square(instruction, a)
    if a.rank != b.rank:
        fail(instruction, f"expected operands of the same rank; {described(instruction, 0, 1)}")
    shared = b.dimensions[-2 if instruction.flag("left_side") else -1]
    if a.dimensions[-1] != shared and UNBOUNDED not in (a.dimensions[-1], shared):
        fail(
            instruction,
            f"expected {counted(a.dimensions[-1], 'unknowns')}, found {shared}; {described(instruction, 0, 1)}",
        )
    if not same_sizes(a.dimensions[:-2], b.dimensions[:-2]):
        fail(instruction, f"expected matching batch dimensions; {described(instruction, 0, 1)}")
    if instruction.value("transpose_a") in (None, Transpose.INVALID):
        fail(instruction, "expected transpose_a to be NO_TRANSPOSE, TRANSPOSE, or ADJOINT")
    return b


def batch_norm_training(instruction: Instruction) -> TupleShape:
    """Returns the normalized operand, and mean and variance of each feature."""
    shape, feature = _batch_norm_shapes(instruction, (1, 2))
    return TupleShape((shape, feature, feature))


def batch_norm_inference(instruction: Instruction) -> ArrayShape:
    """Returns the normalized operand."""
    return _batch_norm_shapes(instruction, (1, 2), (3, 4))[0]


def batch_norm_grad(instruction: Instruction) -> TupleShape:
    """Returns the gradients of operand, scale, and offset."""
    shape, feature = _batch_norm_shapes(instruction, (1, 2, 3))
    if not same_sizes(array(instruction, 4).dimensions, shape.dimensions):
        fail(instruction, f"expected a gradient with the operand's sizes; {described(instruction, 0, 4)}")
    need_same_type(instruction, 0, 4)
    return TupleShape((shape, feature, feature))


def topk(instruction: Instruction) -> TupleShape:
    """Returns the k largest values of each row, and their indices."""
    shape, k = array(instruction, 0), instruction.integer("k")
    if not shape.rank:
        fail(instruction, f"expected at least one dimension; {described(instruction, 0)}")
    # k = 0 is an empty result, which XLA accepts.
    if k is None or (shape.dimensions[-1] != UNBOUNDED and not 0 <= k <= shape.dimensions[-1]):
        fail(instruction, f"expected k ≤ size of the last dimension, found {k}; {described(instruction, 0)}")
    dimensions, dynamic = (*shape.dimensions[:-1], k), (*shape.dynamic_dimensions[:-1], False)
    return TupleShape((array_of(shape.element_type, dimensions, dynamic), array_of(S32, dimensions, dynamic)))


def _counterpart(instruction: Instruction, shape: ArrayShape, types: dict[str, str], expected: str) -> PrimitiveType:
    """Returns the real or complex counterpart of the operand's type."""
    if shape.element_type.name not in types:
        fail(instruction, f"expected {expected}; {described(instruction, 0)}")
    return PRIMITIVE_TYPES[types[shape.element_type.name]]


def _check_lengths(instruction: Instruction, shape: ArrayShape, expected: tuple[int, ...]) -> None:
    """Checks the sizes of the last dimensions."""
    if not same_sizes(shape.dimensions[-len(expected) :], expected):
        sizes = ",".join(map(str, expected))
        fail(instruction, f"expected last dimensions [{sizes}] to match fft_length; {described(instruction, 0)}")


def _with_last(shape: ArrayShape, element_type: PrimitiveType, size: int) -> ArrayShape:
    """Returns a shape with another element type and last dimension."""
    resized = array_of(shape.element_type, (*shape.dimensions[:-1], size), shape.dynamic_dimensions, shape.layout)
    return with_type(resized, element_type)


def _check_square(instruction: Instruction, shape: ArrayShape) -> None:
    """Checks that the last two dimensions are equal."""
    if shape.rank < 2 or not same_sizes(shape.dimensions[-1:], shape.dimensions[-2:-1]):
        fail(instruction, f"expected square matrices; {described(instruction, 0)}")


def _batch_norm_shapes(
    instruction: Instruction, features: tuple[int, ...], any_rank: tuple[int, ...] = ()
) -> tuple[ArrayShape, ArrayShape]:
    """Returns the operand, and the shape of one number per feature that the operands at `features` must have.

    For operands at `any_rank`, XLA checks only the first dimension.
    """
    shape, along = need_kind(instruction, 0, ("float",)), instruction.integer("feature_index")
    if along is None or not 0 <= along < shape.rank:
        fail(
            instruction,
            f"expected a dimension of the operand in feature_index, found {along}; {described(instruction, 0)}",
        )
    for position in (*features, *any_rank):
        sizes = need_kind(instruction, position, ("float",)).dimensions
        if not same_sizes(sizes[:1] if position in any_rank else sizes, (shape.dimensions[along],)):
            number = f"expected {counted(shape.dimensions[along], 'values')}, one per feature"
            fail(instruction, f"{number}; {described(instruction, position)}")
    dynamic = (shape.dynamic_dimensions[along],)
    return shape, array_of(shape.element_type, (shape.dimensions[along],), dynamic)
