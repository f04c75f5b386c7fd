"""Batch normalization, computed in f64.

Mirrors xla/hlo/transforms/expanders/batchnorm_expander.cc, which all compilers run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, first_array, settled_all, settled_shape
from hlo_cli.ir.instruction import Instruction


class _Features:
    """The feature dimension of an instruction: what is summed, and how a value of each feature meets the array."""

    def __init__(self, instruction: Instruction) -> None:
        shape = first_array(instruction)
        self.at = instruction.integer("feature_index") or 0
        self.epsilon = _epsilon(instruction)
        self.others = tuple(at for at in range(shape.rank) if at != self.at)

    def along(self, values: Array) -> Array:
        """Values of each feature, to be combined with the array."""
        sizes = [1] * (len(self.others) + 1)
        sizes[self.at] = -1
        return values.astype(np.float64).reshape(sizes)


def _epsilon(instruction: Instruction) -> float:
    found = instruction.value_of("epsilon", float)
    return float(instruction.integer("epsilon") or 0) if found is None else found


def _inference(instruction: Instruction, computed: Computed) -> Kernel:
    """`(x - mean) / sqrt(variance + epsilon) * scale + offset`."""
    each, settle = _Features(instruction), settled_shape(first_array(instruction), computed.floats)

    def kernel(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Value:
        root = np.sqrt(each.along(variance) + each.epsilon)
        return settle((x - each.along(mean)) / root * each.along(scale) + each.along(offset))

    return kernel


def _training(instruction: Instruction, computed: Computed) -> Kernel:
    """The same with the mean and the variance of each feature, which are results as well."""
    each, settles = _Features(instruction), settled_all(instruction, computed.floats)

    def kernel(x: Array, scale: Array, offset: Array) -> Value:
        wide = x.astype(np.float64)
        count = np.float64(x.size / max(1, x.shape[each.at]))  # of no elements, the mean is NaN
        mean = wide.sum(each.others) / count
        variance = np.square(wide - each.along(mean)).sum(each.others) / count
        root = np.sqrt(each.along(variance) + each.epsilon)
        found = (wide - each.along(mean)) / root * each.along(scale) + each.along(offset)
        return tuple(settle(part) for settle, part in zip(settles, (found, mean, variance), strict=True))

    return kernel


def _gradient(instruction: Instruction, computed: Computed) -> Kernel:
    """The gradients of the array, the scale, and the offset."""
    each, settles = _Features(instruction), settled_all(instruction, computed.floats)

    def kernel(x: Array, scale: Array, mean: Array, variance: Array, gradient: Array) -> Value:
        wide, centered = gradient.astype(np.float64), x - each.along(mean)
        spread = each.along(variance) + each.epsilon
        count = x.size / max(1, x.shape[each.at])
        offsets, products = wide.sum(each.others), (wide * centered).sum(each.others)
        inner = wide - each.along(offsets) / count - centered * each.along(products) / (count * spread)
        found = each.along(scale) / np.sqrt(spread) * inner
        scales = products / np.sqrt(spread.reshape(-1))
        return tuple(settle(part) for settle, part in zip(settles, (found, scales, offsets), strict=True))

    return kernel


HANDLERS: Final[dict[str, Rule]] = {
    "batch-norm-grad": _gradient,
    "batch-norm-inference": _inference,
    "batch-norm-training": _training,
}
"""The rule of each batch normalization."""
