"""Shape inference for dot, ragged-dot, and scaled-dot.

Mirrors `InferDotOpShape`, `InferRaggedDotOpShape`, and `InferScaledDotOpShape` of xla/service/shape_inference.cc.
"""

from __future__ import annotations

from hlo_cli.analysis.shapes.operands import array, array_of, declared_array, described, fail, need_dimensions, wider
from hlo_cli.ir.attributes.value_types import (
    DotDimensionNumbers,
    RaggedDotDimensionNumbers,
    SparsityConfig,
    TensorSparsity,
    dot_dimension_numbers,
    ragged_dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, UnknownShape
from hlo_cli.source import counted


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
    if not isinstance(instruction.shape, UnknownShape):
        element_type = declared_array(instruction).element_type
    return array_of(element_type, sizes, dynamic)


def _check_pairs(
    instruction: Instruction, numbers: DotDimensionNumbers, lhs: ArrayShape, rhs: ArrayShape, right: int
) -> None:
    """Checks that contracting and batch dimensions have equal sizes pairwise."""
    for what, left_dims, right_dims in (
        ("contracting", numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        ("batch", numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
    ):
        if len(left_dims) != len(right_dims):
            found = f"{len(left_dims)} and {len(right_dims)}"
            fail(instruction, f"expected the same number of {what} dimensions on both sides, found {found}")
        for a, b in zip(left_dims, right_dims, strict=True):
            sizes = (lhs.dimensions[a], rhs.dimensions[b])
            if sizes[0] != sizes[1] and UNBOUNDED not in sizes:
                pair = f"expected equal sizes of {what} dimensions {a} and {b}, found {sizes[0]} and {sizes[1]}"
                fail(instruction, f"{pair}; {described(instruction, 0, right)}")


def _sizes(shape: ArrayShape, dimensions: tuple[int, ...]) -> list[int]:
    """Returns the sizes of dimensions."""
    return [shape.dimensions[d] for d in dimensions if 0 <= d < shape.rank]


def _check_scale(instruction: Instruction, position: int, at: int, contracted: int) -> bool:
    """Checks the scale at operand `at`; returns whether it is an array, not a bf16 scalar, which means no scale."""
    shape, scale = array(instruction, position), array(instruction, at)
    is_missing = shape.element_type is scale.element_type and shape.element_type.name == "bf16"
    if is_missing and all(size == 1 for size in scale.dimensions):
        if 0 < scale.rank <= contracted:
            fail(instruction, f"expected a scale with dimension {contracted}; {described(instruction, position, at)}")
        return bool(scale.rank)
    if scale.rank != shape.rank:
        fail(instruction, f"expected a scale of its operand's rank; {described(instruction, position, at)}")
    for d, (size, part) in enumerate(zip(shape.dimensions, scale.dimensions, strict=True)):
        if part < 1 or size % part:
            which = "the contracting dimension" if d == contracted else f"dimension {d}"
            operands = described(instruction, position, at)
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
