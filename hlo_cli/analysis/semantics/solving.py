"""Fourier transforms and linear algebra, computed in f64.

Mirrors `HandleFft`, `HandleCholesky`, and `HandleTriangularSolve` of the evaluator.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, array_shape, settled
from hlo_cli.ir.instruction import Instruction


def fft(instruction: Instruction, computed: Computed) -> Kernel:
    """A Fourier transform over the last dimensions; the inverse ones divide by the number of elements."""
    kind = (instruction.attribute("fft_type") or "FFT").upper()
    lengths = instruction.integers("fft_length")
    sizes = array_shape(instruction).dimensions
    axes = tuple(range(-len(lengths), 0))
    settle_ = settled(instruction, computed.floats)

    def kernel(x: Array) -> Array:
        if 0 in sizes or 0 in x.shape or 0 in lengths:
            return settle_(np.zeros(sizes, np.complex128 if kind != "IRFFT" else np.float64))
        if kind == "RFFT":
            return settle_(np.fft.rfftn(x.astype(np.float64), lengths, axes))
        if kind == "IRFFT":
            return settle_(np.fft.irfftn(x.astype(np.complex128), lengths, axes))
        function = np.fft.ifftn if kind == "IFFT" else np.fft.fftn
        return settle_(function(x.astype(np.complex128), lengths, axes))

    return kernel


def cholesky(instruction: Instruction, computed: Computed) -> Kernel:
    """The triangular factor of a positive definite matrix; NaN for others. Only one triangle is read."""
    is_lower = instruction.flag("lower")
    settle_ = settled(instruction, computed.floats)

    return lambda x: settle_(lower_factor(x, is_lower))


def lower_factor(x: Array, is_lower: bool) -> Array:
    """The Cholesky factors of matrices, of which one triangle is read: the lower ones, or else their adjoints."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if not x.size:
        return wide
    lower = np.tril(wide) if is_lower else np.conj(np.swapaxes(np.triu(wide), -1, -2))
    matrices = lower.reshape(-1, *x.shape[-2:])
    result = np.stack([_factor(each) for each in matrices]).reshape(x.shape)
    return result if is_lower else np.conj(np.swapaxes(result, -1, -2))


def _factor(lower: Array) -> Array:
    full = np.tril(lower, -1)
    full = full + np.conj(full.T) + np.diag(np.real(np.diag(lower)))
    try:
        return np.linalg.cholesky(full)
    except np.linalg.LinAlgError:
        return _until_failure(full)


def _until_failure(full: Array) -> Array:
    """The factor column by column: from the first pivot that is not positive on, it is NaN."""
    result = np.zeros_like(full)
    for at in range(len(full)):
        row = result[at, :at]
        pivot = np.real(full[at, at] - row @ np.conj(row))
        result[at, at] = root = np.sqrt(pivot) if pivot > 0 else np.nan
        result[at + 1 :, at] = (full[at + 1 :, at] - result[at + 1 :, :at] @ np.conj(row)) / root
    return result


def triangular_solve(instruction: Instruction, computed: Computed) -> Kernel:
    """Solves with one triangle of a matrix, on the left or on the right."""
    is_left, is_lower = instruction.flag("left_side"), instruction.flag("lower")
    has_unit_diagonal = instruction.flag("unit_diagonal")
    transposes = instruction.attribute("transpose_a") or "NO_TRANSPOSE"
    settle_ = settled(instruction, computed.floats)

    def kernel(a: Array, b: Array) -> Array:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        matrix = (np.tril if is_lower else np.triu)(a.astype(wide))
        if has_unit_diagonal:
            size = a.shape[-1]
            matrix = np.where(np.eye(size, dtype=bool), np.ones((), wide), matrix)
        if transposes != "NO_TRANSPOSE":
            matrix = np.swapaxes(matrix, -1, -2)
            matrix = np.conj(matrix) if transposes == "ADJOINT" else matrix
        lower = is_lower == (transposes == "NO_TRANSPOSE")
        right = b.astype(wide)
        if not is_left:
            found = substituted(np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower)
            return settle_(np.swapaxes(found, -1, -2))
        return settle_(substituted(matrix, right, lower))

    return kernel


def substituted(matrix: Array, right: Array, lower: bool) -> Array:
    """Solves `matrix x = right` row by row, for all batches at once."""
    result = right.copy()
    size = matrix.shape[-1]
    rows = range(size) if lower else range(size - 1, -1, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row in rows:
            known = slice(0, row) if lower else slice(row + 1, size)
            sums = np.matmul(matrix[..., row : row + 1, known], result[..., known, :])
            result[..., row, :] = (result[..., row, :] - sums[..., 0, :]) / matrix[..., row, row][..., np.newaxis]
    return result


HANDLERS: Final[dict[str, Rule]] = {"cholesky": cholesky, "fft": fft, "triangular-solve": triangular_solve}
"""The rule of each transform and solver."""
