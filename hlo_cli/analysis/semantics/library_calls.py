"""Custom calls to libraries: cuBLAS, cuDNN, and LAPACK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.contracting import contracted, convolved
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.solving import lower_factor, substituted
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, settled_shape, zeros_of
from hlo_cli.ir.attributes.dimension_numbers import DotDimensionNumbers, convolution_dimension_numbers
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError


def _gemm(instruction: Instruction, computed: Computed) -> Kernel:
    """`alpha A B + beta C`, without an epilogue."""
    config = json.loads(instruction.attribute("backend_config") or "{}")
    config = config.get("gemm_backend_config", config)
    if config.get("epilogue", "DEFAULT") not in ("DEFAULT", ""):
        raise HloError(f"cannot evaluate {instruction.name}: epilogue {config['epilogue']}", instruction.span)
    dims = config["dot_dimension_numbers"]
    numbers = DotDimensionNumbers(
        *(
            tuple(map(int, dims.get(f"{side}_{word}_dimensions", ())))
            for word in ("contracting", "batch")
            for side in ("lhs", "rhs")
        )
    )
    alpha, beta = float(config.get("alpha_real", 1)), float(config.get("beta", 0))
    settle = settled_shape(_first_array(instruction), computed.floats)
    scratch = instruction.shape

    def kernel(a: Array, b: Array, *c: Array) -> Value:
        result = alpha * contracted(a, b, numbers)
        if beta and c:
            result = result + beta * c[0]
        found = settle(result)
        return (found, *_rest(scratch, computed)) if isinstance(scratch, TupleShape) else found

    return kernel


def _first_array(instruction: Instruction) -> ArrayShape:
    shape = instruction.shape.elements[0] if isinstance(instruction.shape, TupleShape) else instruction.shape
    assert isinstance(shape, ArrayShape)
    return shape


def _rest(shape: Shape, computed: Computed) -> Sequence[Value]:
    assert isinstance(shape, TupleShape)
    return [zeros_of(each, computed) for each in shape.elements[1:]]


def _convolution(instruction: Instruction, computed: Computed) -> Kernel:
    """A forward convolution of cuDNN; the second result is scratch memory."""
    numbers = convolution_dimension_numbers(instruction)
    assert numbers is not None
    window = instruction.window.dimensions if instruction.window is not None else ()
    groups = instruction.integer("feature_group_count") or 1
    settle = settled_shape(_first_array(instruction), computed.floats)
    output = [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]
    back = np.argsort(output)

    def kernel(x: Array, w: Array, *others: Array) -> Value:
        inputs = x.transpose(
            [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions]
        )
        weights = w.transpose(
            [
                numbers.kernel_output_feature_dimension,
                numbers.kernel_input_feature_dimension,
                *numbers.kernel_spatial_dimensions,
            ]
        )
        found = settle(convolved(inputs, weights, window, groups).transpose(back))
        return (found, *_rest(instruction.shape, computed))

    return kernel


def _cholesky(instruction: Instruction, computed: Computed) -> Kernel:
    """LAPACK's potrf: the factor, and 0 if it exists."""
    settle = settled_shape(_first_array(instruction), computed.floats)
    is_lower = "76" in (instruction.attribute("backend_config") or "76")

    def kernel(x: Array) -> Value:
        factor = lower_factor(x, is_lower)
        info = np.isnan(factor).any(axis=(-1, -2)).astype(np.int32)
        return settle(factor), info

    return kernel


def _trsm(instruction: Instruction, computed: Computed) -> Kernel:
    """LAPACK's triangular solve."""
    config = instruction.attribute("backend_config") or ""
    settle = settled_shape(_first_array(instruction), computed.floats)
    codes = {name: f"{name} = {ord(letter)} : ui8" in config for name, letter in _TRSM}

    def kernel(a: Array, b: Array, *others: Array) -> Value:
        wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
        lower = codes["uplo"]
        matrix = np.tril(wide) if lower else np.triu(wide)
        if codes["diag"]:
            matrix = np.where(np.eye(a.shape[-1], dtype=bool), np.ones((), wide.dtype), matrix)
        if not codes["trans_x"]:
            matrix, lower = np.swapaxes(matrix, -1, -2), not lower
            matrix = np.conj(matrix) if "trans_x = 67" in config else matrix
        right = b.astype(wide.dtype)
        if codes["side"]:
            return settle(substituted(matrix, right, lower))
        found = substituted(np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower)
        return settle(np.swapaxes(found, -1, -2))

    return kernel


_TRSM: Final = (("side", "L"), ("uplo", "L"), ("diag", "U"), ("trans_x", "N"))
"""The letter for which each option of trsm holds."""

LIBRARY_CALLS: Final[dict[str, Rule]] = {
    "__cublas$gemm": _gemm,
    "__cublas$lt$matmul": _gemm,
    "__cudnn$convForward": _convolution,
    **{f"lapack_{letter}potrf_ffi": _cholesky for letter in "sdcz"},
    **{f"lapack_{letter}trsm_ffi": _trsm for letter in "sdcz"},
}
"""The rule of each target of a library."""
