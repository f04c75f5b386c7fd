"""Custom calls to LAPACK, and TPU's factorizations of the same meaning, computed in f64.

Mirrors the kernels of jaxlib/cpu/lapack_kernels.h: matrices are the last two dimensions, and `info` is 0 for success.
Signs of vectors are those of numpy's LAPACK, which other libraries need not share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.solving import lower_factor, substituted
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, first_array, settled_all, settled_shape
from hlo_cli.ir.instruction import Instruction


def _cholesky(instruction: Instruction, computed: Computed) -> Kernel:
    """The factor of potrf, and 0 if it exists."""
    settle = settled_shape(first_array(instruction), computed.floats)
    is_lower = _option(instruction, "uplo", "L") == "L"

    def kernel(x: Array) -> Value:
        factor = lower_factor(x, is_lower)
        info = np.asarray(np.isnan(factor).any(axis=(-1, -2))).astype(np.int32)
        return settle(factor), info

    return kernel


def _option(instruction: Instruction, name: str, default: str) -> str:
    """The letter of an option, which backend_config writes as `uplo = 76 : ui8`."""
    text = (instruction.attribute("backend_config") or "").strip("{} ")
    for each in text.split(","):
        key, _, value = each.partition("=")
        number = value.partition(":")[0].strip()
        if key.strip() == name and number.isdigit():
            return chr(int(number))
    return default


def _trsm(instruction: Instruction, computed: Computed) -> Kernel:
    """A triangular solve."""
    settle = settled_shape(first_array(instruction), computed.floats)
    diagonal, side, transposes, triangle = (
        _option(instruction, name, default)
        for name, default in (("diag", "N"), ("side", "L"), ("trans_x", "N"), ("uplo", "L"))
    )

    def kernel(a: Array, b: Array, *others: Array) -> Value:
        wide = _wide(a)
        lower = triangle == "L"
        matrix = np.tril(wide) if lower else np.triu(wide)
        if diagonal == "U":
            matrix = np.where(np.eye(a.shape[-1], dtype=bool), np.ones((), wide.dtype), matrix)
        if transposes != "N":
            matrix, lower = np.swapaxes(matrix, -1, -2), not lower
            matrix = np.conj(matrix) if transposes == "C" else matrix
        right = b.astype(wide.dtype)
        if side == "L":
            return settle(substituted(matrix, right, lower))
        found = substituted(np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower)
        return settle(np.swapaxes(found, -1, -2))

    return kernel


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def of_each_matrix(function: Callable[[Array], tuple[Array, ...]]) -> Callable[[Array], tuple[Array, ...]]:
    """A function of one matrix as one of all matrices of an array."""

    def run(x: Array) -> tuple[Array, ...]:
        batch = x.shape[:-2]
        if not all(batch):
            single = function(np.ones(x.shape[-2:], x.dtype))
            return tuple(np.zeros((*batch, *part.shape), part.dtype) for part in single)
        found = [function(matrix) for matrix in _wide(x).reshape(-1, *x.shape[-2:])]
        return tuple(np.stack(parts).reshape((*batch, *parts[0].shape)) for parts in zip(*found, strict=True))

    return run


def _factoring(function: Callable[[Array], tuple[Array, ...]]) -> Rule:
    """The rule of a factorization that returns floats and integers, as many as the instruction has results."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        run = of_each_matrix(function)
        settles = settled_all(instruction, computed.floats)
        return lambda x, *others: tuple(settle(part) for settle, part in zip(settles, run(x), strict=False))

    return rule


def packed_reflectors(x: Array) -> tuple[Array, Array, Array]:
    """The result of geqrf for a matrix: R above the diagonal, reflectors below, their factors, and 0 for success.

    >>> packed, factors, _ = packed_reflectors(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> packed.round(6).tolist(), factors.round(6).tolist()
    ([[-5.0, -2.2], [0.5, 0.4]], [1.6, 0.0])
    """
    if not min(x.shape):
        return x, np.zeros(0, x.dtype), np.array(0, np.int32)
    packed, factors = np.linalg.qr(x, mode="raw")
    return packed.T, factors, np.array(0, np.int32)


def product_of_reflectors(packed: Array, factors: Array) -> Array:
    """The result of orgqr for a matrix: the first columns of the product of reflectors `I - factor v v^H`.

    >>> product_of_reflectors(np.array([[-5.0], [0.5]]), np.array([1.6])).round(6).tolist()
    [[-0.6], [-0.8]]
    """
    rows, columns = packed.shape
    result = np.eye(rows, columns, dtype=packed.dtype)
    for at in reversed(range(factors.shape[0])):
        vector = packed[at:, at].copy()
        vector[0] = 1
        result[at:] -= factors[at] * np.outer(vector, np.conj(vector) @ result[at:])
    return result


def _orgqr(instruction: Instruction, computed: Computed) -> Kernel:
    """The orthogonal matrix of a packed factorization."""
    settle = settled_shape(first_array(instruction), computed.floats)

    def kernel(packed: Array, factors: Array, *others: Array) -> Value:
        wide = _wide(packed)
        result = np.empty_like(wide)
        for at in np.ndindex(packed.shape[:-2]):
            result[at] = product_of_reflectors(wide[at], factors[at].astype(wide.dtype))
        return settle(result)

    return kernel


def factored_with_pivots(x: Array) -> tuple[Array, Array, Array]:
    """The result of getrf for a matrix: L and U in one, the row that each row was exchanged with, from 1, and 0, or
    the number of the first pivot that is zero.

    >>> factors, pivots, info = factored_with_pivots(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> factors.tolist(), pivots.tolist(), int(info)
    ([[4.0, 4.0], [0.25, 1.0]], [2, 2], 0)
    """
    result = x.copy()
    count = min(x.shape)
    pivots = np.arange(1, count + 1, dtype=np.int32)
    info = 0
    for at in range(count):
        column = result[at:, at]
        sizes = np.abs(column.real) + np.abs(column.imag)
        chosen = at + int(np.argmax(np.where(np.isnan(sizes), -1, sizes)))
        pivots[at] = chosen + 1
        if result[chosen, at] == 0:
            info = info or at + 1
            continue
        if chosen != at:
            result[[at, chosen]] = result[[chosen, at]]
        result[at + 1 :, at] /= result[at, at]
        result[at + 1 :, at + 1 :] -= np.outer(result[at + 1 :, at], result[at, at + 1 :])
    return result, pivots, np.array(info, np.int32)


def factored_with_row_order(x: Array) -> tuple[Array, Array, Array]:
    """The same with pivots from 0, and the order of rows in place of success, as TPU programs ask for.

    >>> [part.tolist() for part in factored_with_row_order(np.array([[1.0, 2.0], [4.0, 4.0]]))]
    [[[4.0, 4.0], [0.25, 1.0]], [1, 1], [1, 0]]
    """
    factors, pivots, _ = factored_with_pivots(x)
    order = np.arange(x.shape[0], dtype=np.int32)
    for at, other in enumerate(pivots - 1):
        order[[at, other]] = order[[other, at]]
    return factors, pivots - 1, order


def _eigenvectors(instruction: Instruction, computed: Computed) -> Kernel:
    """Eigenvectors of symmetric matrices as columns, their eigenvalues, ascending, and 0 for success."""
    triangle = _option(instruction, "uplo", "L")
    settles = settled_all(instruction, computed.floats)

    def function(x: Array) -> tuple[Array, ...]:
        try:
            values, vectors = np.linalg.eigh(x, "U" if triangle == "U" else "L")
        except np.linalg.LinAlgError:
            return np.full_like(x, np.nan), np.full(x.shape[-1], np.nan), np.array(1, np.int32)
        return vectors, values, np.array(0, np.int32)

    run = of_each_matrix(function)
    return lambda x, *others: tuple(settle(part) for settle, part in zip(settles, run(x), strict=True))


LAPACK_CALLS: Final[dict[str, Rule]] = {
    **{f"lapack_{letter}potrf_ffi": _cholesky for letter in "sdcz"},
    **{f"lapack_{letter}trsm_ffi": _trsm for letter in "sdcz"},
    **{f"lapack_{letter}geqrf_ffi": _factoring(packed_reflectors) for letter in "sdcz"},
    **{f"lapack_{letter}getrf_ffi": _factoring(factored_with_pivots) for letter in "sdcz"},
    **{f"lapack_{name}_ffi": _orgqr for name in ("sorgqr", "dorgqr", "cungqr", "zungqr")},
    **{f"lapack_{name}_ffi": _eigenvectors for name in ("ssyevd", "dsyevd", "cheevd", "zheevd")},
    "LuDecomposition": _factoring(factored_with_row_order),
    "ProductOfElementaryHouseholderReflectors": _orgqr,
    "Qr": _factoring(packed_reflectors),
}
"""The rule of each target of LAPACK's kind."""
