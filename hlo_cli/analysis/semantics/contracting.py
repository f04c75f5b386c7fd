"""Dots: sums of products, made in f64 and rounded once; and operands that hold only a part of each block.

Mirrors `HandleDot`, `HandleScaledDot`, and `MaterializeSparseOperand` of the evaluator.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, array_shape, settled
from hlo_cli.ir.attributes.value_types import (
    BlockScalingConfig,
    DotDimensionNumbers,
    SparsityConfig,
    TensorSparsity,
    dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import HloError

EXACT_IN_F64: Final = 1 << 52
"""Integers below this are exact in f64, and so are their sums."""


def dot(instruction: Instruction, computed: Computed) -> Kernel:
    """Products summed over the contracting dimensions: batch, then free dimensions of the left, then of the right."""
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None
    settle_ = settled(instruction, computed.floats)
    is_pred = array_shape(instruction).element_type.kind == "pred"

    def kernel(x: Array, y: Array) -> Array:
        if is_pred:
            return np.asarray(contracted(x.astype(np.int64), y.astype(np.int64), numbers) != 0)
        return settle_(contracted(x, y, numbers))

    return of_dense_operands(instruction, kernel)


def contracted(x: Array, y: Array, numbers: DotDimensionNumbers) -> Array:
    """The sums of products of two arrays, in the widest type of their kind.

    >>> contracted(np.array([[1, 2]]), np.array([[3], [4]]), DotDimensionNumbers((1,), (0,))).tolist()
    [[11]]
    """
    batch, left_sum, right_sum = (
        numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions,
    )  # fmt: skip
    left_free = [at for at in range(x.ndim) if at not in batch and at not in left_sum]
    right_free = [at for at in range(y.ndim) if at not in numbers.rhs_batch_dimensions and at not in right_sum]
    left = x.transpose([*batch, *left_free, *left_sum])
    right = y.transpose([*numbers.rhs_batch_dimensions, *right_sum, *right_free])
    batches = [x.shape[at] for at in batch]
    free = [x.shape[at] for at in left_free], [y.shape[at] for at in right_free]
    terms = prod(x.shape[at] for at in left_sum)
    found = products(
        left.reshape(prod(batches), prod(free[0]), terms), right.reshape(prod(batches), terms, prod(free[1]))
    )
    return found.reshape([*batches, *free[0], *free[1]])


def products(left: Array, right: Array) -> Array:
    """Batched matrix products; integers exactly, modulo 2^64."""
    kinds = {left.dtype.kind, right.dtype.kind}
    if "c" in kinds:
        return np.asarray(np.matmul(left.astype(np.complex128), right.astype(np.complex128)))
    if "f" in kinds:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64)))
    largest = magnitude(left) * magnitude(right) * left.shape[-1]
    if largest < EXACT_IN_F64:
        return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64))).astype(np.int64)
    wide = np.uint64 if kinds == {"u"} else np.int64
    return np.asarray(np.matmul(left.astype(wide), right.astype(wide)))


def magnitude(x: Array) -> int:
    """The largest absolute value of integers.

    >>> magnitude(np.array([3, -5]))
    5
    """
    return max(abs(int(x.max())), abs(int(x.min()))) if x.size else 0


def scaled_dot(instruction: Instruction, computed: Computed) -> Kernel:
    """A dot of operands that are multiplied with their scales first, each scale repeated over a block."""
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None
    settle_ = settled(instruction, computed.floats)

    def kernel(x: Array, y: Array, x_scale: Array, y_scale: Array) -> Array:
        return settle_(contracted(_scaled(x, x_scale), _scaled(y, y_scale), numbers))

    return kernel


def _scaled(x: Array, scale: Array) -> Array:
    if not scale.ndim:
        return x.astype(np.float64)
    wide = scale.astype(np.float64)
    for at, size in enumerate(x.shape):
        wide = np.repeat(wide, size // wide.shape[at] if wide.shape[at] else 1, axis=at)
    return x.astype(np.float64) * wide


def of_dense_operands(instruction: Instruction, kernel: Kernel) -> Kernel:
    """The kernel of an instruction of two operands, given them as the `sparsity_config` packs them."""
    if instruction.value_of("block_scaling_config", BlockScalingConfig) is not None:
        # no public source says how scales are applied
        raise HloError(f"cannot evaluate {instruction.name}: operands with block scales", instruction.span)
    config = instruction.value_of("sparsity_config", SparsityConfig)
    if config is None:
        return kernel
    for side in (config.lhs, config.rhs):
        if side is not None and side.stride > 1:
            raise HloError(f"cannot evaluate {instruction.name}: sparse blocks with a stride", instruction.span)

    def dense(*operands: Array) -> Value:
        pairs = zip(operands[:2], (config.lhs, config.rhs), strict=True)
        return kernel(*(x if side is None else unpacked(x, operands[side.idx], side) for x, side in pairs))

    return dense


def unpacked(x: Array, positions: Array, sparsity: TensorSparsity) -> Array:
    """The array with all elements of each block, of which `x` holds those at the given positions; the others are 0.

    >>> unpacked(np.array([7, 8]), np.array([1, 0]), TensorSparsity(1, 3, 0)).tolist()
    [0, 7, 0, 8, 0, 0]
    """
    at, count = sparsity.dimension, sparsity.num_non_zero
    sizes = [size // count * sparsity.block_size if place == at else size for place, size in enumerate(x.shape)]
    first = np.arange(x.shape[at]) // count * sparsity.block_size
    shaped = first.reshape([-1 if place == at else 1 for place in range(x.ndim)])
    result = np.zeros(sizes, x.dtype)
    within = np.clip(positions.astype(np.int64), 0, sparsity.block_size - 1)
    np.put_along_axis(result, shaped + within, x, at)
    return result


HANDLERS: Final[dict[str, Rule]] = {
    "dot": dot,
    "scaled-dot": scaled_dot,
}
"""The rule of each dot."""
