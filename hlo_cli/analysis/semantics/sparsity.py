"""Sparse operands: arrays that hold a few elements of each block, and another operand that says which ones.

Mirrors `MaterializeSparseOperand` of XLA, which its evaluator calls for the operands of convolutions.
"""

from __future__ import annotations

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Kernel, Value
from hlo_cli.ir.attributes.accuracy import SparsityConfig, TensorSparsity
from hlo_cli.ir.instruction import Instruction
from hlo_cli.source import HloError


def of_dense_operands(instruction: Instruction, kernel: Kernel) -> Kernel:
    """The kernel of an instruction of two operands, given them as the `sparsity_config` packs them."""
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
