"""Dots: sums of products, made in f64 and rounded once.

Mirrors `HandleDot` and `HandleScaledDot` of the evaluator.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, array_shape, settled
from hlo_cli.ir.attributes.dimension_numbers import (
    DotDimensionNumbers,
    dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Instruction

EXACT_IN_F64: Final = 1 << 52
"""Integers below this are exact in f64, and so are their sums."""


def dot(instruction: Instruction, computed: Computed) -> Kernel:
    """Products summed over the contracting dimensions: batch, then free dimensions of the left, then of the right."""
    numbers = dot_dimension_numbers(instruction)
    assert numbers is not None
    settle_ = settled(instruction, computed.floats)
    if array_shape(instruction).element_type.kind == "pred":
        return lambda x, y: contracted(x.astype(np.int64), y.astype(np.int64), numbers) != 0
    return lambda x, y: settle_(contracted(x, y, numbers))


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


HANDLERS: Final[dict[str, Rule]] = {
    "dot": dot,
    "scaled-dot": scaled_dot,
}
"""The rule of each dot."""
