"""Custom calls that TPU programs make of factorizations: those of one block, computed in f64.

Mirrors cholesky_expander.cc, qr_expander.cc, eigh_expander.cc, and triangular_solve_expander.cc of
xla/hlo/transforms/expanders, which make the programs around them. Complex matrices come as two arrays, of real and of
imaginary parts, and so do complex results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.lapack_calls import factored_with_row_order, of_each_matrix, packed_reflectors
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.solving import lower_factor, substituted
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, first_array, settled_all, settled_shape
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape


def _rule(function: Callable[[Array], tuple[Array, ...]]) -> Rule:
    """The rule of a function of matrices, of whose complex results the parts are apart."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        is_tuple = isinstance(instruction.shape, TupleShape)
        settles = (
            settled_all(instruction, computed.floats)
            if is_tuple
            else [settled_shape(first_array(instruction), computed.floats)]
        )

        def kernel(real: Array, *imaginary: Array) -> Value:
            found = function(_complex(real, imaginary[0]) if imaginary else real.astype(np.float64))
            parts = [half for each in found for half in ((each.real, each.imag) if each.dtype.kind == "c" else (each,))]
            results = tuple(settle(part) for settle, part in zip(settles, parts, strict=True))
            return results if is_tuple else results[0]

        return kernel

    return rule


def _complex(real: Array, imaginary: Array) -> Array:
    result = np.empty(real.shape, np.complex128)
    result.real, result.imag = real, imaginary
    return result


def inverted_triangles(x: Array, *, is_lower: bool) -> Array:
    """The inverses of triangular matrices; the other triangle is not read.

    >>> inverted_triangles(np.array([[2.0, 9.0], [1.0, 1.0]]), is_lower=True).tolist()
    [[0.5, 0.0], [-0.5, 1.0]]
    """
    matrix = np.tril(x) if is_lower else np.triu(x)
    identity = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return substituted(matrix, identity, is_lower)


def compact_reflectors(x: Array) -> Array:
    """The triangular matrix T of the product `I + V T V^H` of reflectors, from `-(V^H V + I)` above the diagonal.

    Column `j` is what the columns before it make of column `j` of the operand, whose diagonal holds the negative
    factors of the reflectors.

    >>> compact_reflectors(np.array([[-1.0, 2.0], [0.0, -3.0]])).tolist()
    [[-1.0, -2.0], [0.0, -3.0]]
    """
    result = np.zeros_like(x)
    result[..., :, :] = np.eye(x.shape[-1], dtype=x.dtype)
    for column in range(x.shape[-1]):
        result[..., :, column] = np.matmul(result, x[..., :, column, np.newaxis])[..., 0]
    return result


def _factors(x: Array) -> tuple[Array, ...]:
    packed, factors, _ = packed_reflectors(x)
    return packed, factors


def _eigenvectors(x: Array) -> tuple[Array, ...]:
    """Eigenvectors as columns, and eigenvalues, ascending; the lower triangle is read.

    Matrices of odd size come with a row of zeros after them: what belongs to it comes last.
    """
    if x.shape[0] > 1 and not x[-1].any():
        vectors, values = _eigenvectors(x[:-1, :-1])
        return np.pad(vectors, (0, 1)) + np.diag(np.eye(x.shape[0])[-1]), np.pad(values, (0, 1))
    try:
        values, vectors = np.linalg.eigh(x)
    except np.linalg.LinAlgError:
        return np.full_like(x, np.nan), np.full(x.shape[-1], np.nan)
    return vectors, values


def _eigenvectors_of_quadrants(instruction: Instruction, computed: Computed) -> Kernel:
    """The same of a matrix in quadrants: both halves of the eigenvalues, and the quadrants of the vectors as rows."""
    settles = settled_all(instruction, computed.floats)
    run = of_each_matrix(_eigenvectors)

    def kernel(*quadrants: Array) -> Value:
        whole = np.block([list(quadrants[:2]), list(quadrants[2:])])
        vectors, values = run(whole)
        rows, half = np.swapaxes(vectors, -1, -2), quadrants[0].shape[-1]
        parts = (
            values[..., :half], values[..., half:],
            rows[..., :half, :half], rows[..., :half, half:], rows[..., half:, :half], rows[..., half:, half:],
        )  # fmt: skip
        return tuple(settle(part) for settle, part in zip(settles, parts, strict=True))

    return kernel


_LU: Final = _rule(of_each_matrix(factored_with_row_order))

TPU_FACTORIZATIONS: Final[dict[str, Rule]] = {
    "Cholesky": _rule(lambda x: (lower_factor(x, True),)),
    "CompactWyHelper": _rule(lambda x: (compact_reflectors(x),)),
    "Eigh": _rule(of_each_matrix(_eigenvectors)),
    "EighTpu": _eigenvectors_of_quadrants,
    "InvertDiagBlocksLowerTriangular": _rule(lambda x: (inverted_triangles(x, is_lower=True),)),
    "InvertDiagBlocksUpperTriangular": _rule(lambda x: (inverted_triangles(x, is_lower=False),)),
    "LuComplexDecompositionBlock": _LU,
    "LuRealDecompositionBlock": _LU,
    "QrDecompositionBlock": _rule(of_each_matrix(_factors)),
}
"""The rule of each target."""
