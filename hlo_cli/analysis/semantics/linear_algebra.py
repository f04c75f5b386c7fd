"""What opcodes and custom calls compute in f64 by an algorithm: solvers, factorizations, Fourier transforms.

Batch normalization is here too: statistics of a whole array in f64, as XLA's expander writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.typed_values import (
    Array,
    Computed,
    Kernel,
    Rule,
    Value,
    array_shape,
    first_array,
    settled,
    settled_all,
    settled_shape,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import TupleShape

# --- batch normalization ---
# Batch normalization, computed in f64.
#
# Mirrors xla/hlo/transforms/expanders/batchnorm_expander.cc, which all compilers run.


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
    features, settles = _Features(instruction), settled_all(instruction, computed.floats)

    def kernel(x: Array, scale: Array, offset: Array) -> Value:
        wide = x.astype(np.float64)
        # The mean of no elements is NaN, as in a division by the count.
        count = np.float64(x.size / max(1, x.shape[features.at]))  # of no elements, the mean is NaN
        mean = wide.sum(features.others) / count
        variance = np.square(wide - features.along(mean)).sum(features.others) / count
        root = np.sqrt(features.along(variance) + features.epsilon)
        result = (wide - features.along(mean)) / root * features.along(scale) + features.along(offset)
        return tuple(settle(part) for settle, part in zip(settles, (result, mean, variance), strict=True))

    return kernel


def _gradient(instruction: Instruction, computed: Computed) -> Kernel:
    """The gradients of the array, the scale, and the offset."""
    features, settles = _Features(instruction), settled_all(instruction, computed.floats)

    def kernel(x: Array, scale: Array, mean: Array, variance: Array, gradient: Array) -> Value:
        wide, centered = gradient.astype(np.float64), x - features.along(mean)
        spread = features.along(variance) + features.epsilon
        count = x.size / max(1, x.shape[features.at])
        offsets, products = wide.sum(features.others), (wide * centered).sum(features.others)
        inner = wide - features.along(offsets) / count - centered * features.along(products) / (count * spread)
        result = features.along(scale) / np.sqrt(spread) * inner
        scales = products / np.sqrt(spread.reshape(-1))
        return tuple(settle(part) for settle, part in zip(settles, (result, scales, offsets), strict=True))

    return kernel


NORMALIZING_RULES: Final[dict[str, Rule]] = {
    "batch-norm-grad": _gradient,
    "batch-norm-inference": _inference,
    "batch-norm-training": _training,
}
"""The rule of each batch normalization."""


# --- Fourier transforms and solvers ---
# Fourier transforms and linear algebra, computed in f64.
#
# Mirrors `HandleFft`, `HandleCholesky`, and `HandleTriangularSolve` of the evaluator.


def fft(instruction: Instruction, computed: Computed) -> Kernel:
    """A Fourier transform over the last dimensions; the inverse ones divide by the number of elements."""
    kind = (instruction.attribute("fft_type") or "FFT").upper()
    lengths = instruction.integers("fft_length")
    sizes = array_shape(instruction).dimensions
    axes = tuple(range(-len(lengths), 0))
    settle_ = settled(instruction, computed.floats)

    def kernel(x: Array) -> Array:
        # numpy refuses transforms of no elements; XLA returns zeros.
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

    return lambda x: settle_(_lower_factor(x, is_lower))


def _lower_factor(x: Array, is_lower: bool) -> Array:
    """The Cholesky factors of matrices, of which one triangle is read: the lower ones, or else their adjoints."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if not x.size:
        return wide
    lower = np.tril(wide) if is_lower else np.conj(np.swapaxes(np.triu(wide), -1, -2))
    matrices = lower.reshape(-1, *x.shape[-2:])
    result = np.stack([_factor(each) for each in matrices]).reshape(x.shape)
    return result if is_lower else np.conj(np.swapaxes(result, -1, -2))


def _factor(lower: Array) -> Array:
    # XLA reads one triangle and the real parts of the diagonal.
    full = np.tril(lower, -1)
    full = full + np.conj(full.T) + np.diag(np.real(np.diag(lower)))
    try:
        return np.linalg.cholesky(full)
    # LAPACK stops at the first pivot that is not positive; XLA returns NaN from there on.
    except np.linalg.LinAlgError:
        return _until_failure(full)


def _until_failure(full: Array) -> Array:
    """The factor column by column: from the first pivot that is not positive on, it is NaN."""
    result = np.zeros_like(full)
    for column in range(len(full)):
        row = result[column, :column]
        pivot = np.real(full[column, column] - row @ np.conj(row))
        result[column, column] = root = np.sqrt(pivot) if pivot > 0 else np.nan
        result[column + 1 :, column] = (
            full[column + 1 :, column] - result[column + 1 :, :column] @ np.conj(row)
        ) / root
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
            # `transpose_a` may be the adjoint, which conjugates as well.
            matrix = np.conj(matrix) if transposes == "ADJOINT" else matrix
        lower = is_lower == (transposes == "NO_TRANSPOSE")
        right = b.astype(wide)
        if not is_left:
            found = _substituted(np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower)
            return settle_(np.swapaxes(found, -1, -2))
        return settle_(_substituted(matrix, right, lower))

    return kernel


def _substituted(matrix: Array, right: Array, lower: bool) -> Array:
    """Solves `matrix x = right` row by row, for all batches at once."""
    result = right.copy()
    size = matrix.shape[-1]
    # A transposed lower triangle is an upper one, which is solved from the last row.
    rows = range(size) if lower else range(size - 1, -1, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row in rows:
            known = slice(0, row) if lower else slice(row + 1, size)
            sums = np.matmul(matrix[..., row : row + 1, known], result[..., known, :])
            result[..., row, :] = (result[..., row, :] - sums[..., 0, :]) / matrix[..., row, row][..., np.newaxis]
    return result


SOLVING_RULES: Final[dict[str, Rule]] = {"cholesky": cholesky, "fft": fft, "triangular-solve": triangular_solve}
"""The rule of each transform and solver."""


# --- LAPACK ---
# Custom calls to LAPACK, and TPU's factorizations of the same meaning, computed in f64.
#
# Mirrors the kernels of jaxlib/cpu/lapack_kernels.h: matrices are the last two dimensions, and `info` is 0 for success.
# Signs of vectors are those of numpy's LAPACK, which other libraries need not share.


def _cholesky(instruction: Instruction, computed: Computed) -> Kernel:
    """The factor of potrf, and 0 if it exists."""
    settle = settled_shape(first_array(instruction), computed.floats)
    is_lower = _option(instruction, "uplo", "L") == "L"

    def kernel(x: Array) -> Value:
        factor = _lower_factor(x, is_lower)
        info = np.asarray(np.isnan(factor).any(axis=(-1, -2))).astype(np.int32)
        return settle(factor), info

    return kernel


def _option(instruction: Instruction, name: str, default: str) -> str:
    """The letter of an option, which backend_config writes as `uplo = 76 : ui8`."""
    text = (instruction.attribute("backend_config") or "").strip("{} ")
    for entry in text.split(","):
        key, _, value = entry.partition("=")
        number = value.partition(":")[0].strip()
        if key.strip() == name and number.isdigit():
            # backend_config has the ASCII code of the letter.
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
            return settle(_substituted(matrix, right, lower))
        found = _substituted(np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower)
        return settle(np.swapaxes(found, -1, -2))

    return kernel


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _of_each_matrix(function: Callable[[Array], tuple[Array, ...]]) -> Callable[[Array], tuple[Array, ...]]:
    """A function of one matrix as one of all matrices of an array."""

    def run(x: Array) -> tuple[Array, ...]:
        batch = x.shape[:-2]
        if not all(batch):
            # The shapes of results come from one matrix of ones.
            single = function(np.ones(x.shape[-2:], x.dtype))
            return tuple(np.zeros((*batch, *part.shape), part.dtype) for part in single)
        found = [function(matrix) for matrix in _wide(x).reshape(-1, *x.shape[-2:])]
        return tuple(np.stack(parts).reshape((*batch, *parts[0].shape)) for parts in zip(*found, strict=True))

    return run


def _factoring(function: Callable[[Array], tuple[Array, ...]]) -> Rule:
    """The rule of a factorization that returns floats and integers, as many as the instruction has results."""

    def rule(instruction: Instruction, computed: Computed) -> Kernel:
        run = _of_each_matrix(function)
        settles = settled_all(instruction, computed.floats)
        return lambda x, *others: tuple(settle(part) for settle, part in zip(settles, run(x), strict=False))

    return rule


def _packed_reflectors(x: Array) -> tuple[Array, Array, Array]:
    """The result of geqrf for a matrix: R above the diagonal, reflectors below, their factors, and 0 for success.

    >>> packed, factors, _ = _packed_reflectors(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> packed.round(6).tolist(), factors.round(6).tolist()
    ([[-5.0, -2.2], [0.5, 0.4]], [1.6, 0.0])
    """
    if not min(x.shape):
        return x, np.zeros(0, x.dtype), np.array(0, np.int32)
    # numpy's raw mode is LAPACK's geqrf with rows and columns exchanged.
    packed, factors = np.linalg.qr(x, mode="raw")
    return packed.T, factors, np.array(0, np.int32)


def _product_of_reflectors(packed: Array, factors: Array) -> Array:
    """The result of orgqr for a matrix: the first columns of the product of reflectors `I - factor v v^H`.

    >>> _product_of_reflectors(np.array([[-5.0], [0.5]]), np.array([1.6])).round(6).tolist()
    [[-0.6], [-0.8]]
    """
    rows, columns = packed.shape
    result = np.eye(rows, columns, dtype=packed.dtype)
    for column in reversed(range(factors.shape[0])):
        vector = packed[column:, column].copy()
        # The first element of a reflector is 1 and not stored.
        vector[0] = 1
        result[column:] -= factors[column] * np.outer(vector, np.conj(vector) @ result[column:])
    return result


def _orgqr(instruction: Instruction, computed: Computed) -> Kernel:
    """The orthogonal matrix of a packed factorization."""
    settle = settled_shape(first_array(instruction), computed.floats)

    def kernel(packed: Array, factors: Array, *others: Array) -> Value:
        wide = _wide(packed)
        result = np.empty_like(wide)
        for at in np.ndindex(packed.shape[:-2]):
            result[at] = _product_of_reflectors(wide[at], factors[at].astype(wide.dtype))
        return settle(result)

    return kernel


def _factored_with_pivots(x: Array) -> tuple[Array, Array, Array]:
    """The result of getrf for a matrix: L and U in one, the row that each row was exchanged with, from 1, and 0, or
    the number of the first pivot that is zero.

    >>> factors, pivots, info = _factored_with_pivots(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> factors.tolist(), pivots.tolist(), int(info)
    ([[4.0, 4.0], [0.25, 1.0]], [2, 2], 0)
    """
    result = x.copy()
    count = min(x.shape)
    pivots = np.arange(1, count + 1, dtype=np.int32)
    info = 0
    for step in range(count):
        column = result[step:, step]
        # LAPACK chooses pivots by |real| + |imaginary|, which differs from the magnitude (izamax).
        sizes = np.abs(column.real) + np.abs(column.imag)
        chosen = step + int(np.argmax(np.where(np.isnan(sizes), -1, sizes)))
        pivots[step] = chosen + 1
        if result[chosen, step] == 0:
            info = info or step + 1
            continue
        if chosen != step:
            result[[step, chosen]] = result[[chosen, step]]
        result[step + 1 :, step] /= result[step, step]
        result[step + 1 :, step + 1 :] -= np.outer(result[step + 1 :, step], result[step, step + 1 :])
    return result, pivots, np.array(info, np.int32)


def _factored_with_row_order(x: Array) -> tuple[Array, Array, Array]:
    """The same with pivots from 0, and the order of rows in place of success, as TPU programs ask for.

    >>> [part.tolist() for part in _factored_with_row_order(np.array([[1.0, 2.0], [4.0, 4.0]]))]
    [[[4.0, 4.0], [0.25, 1.0]], [1, 1], [1, 0]]
    """
    factors, pivots, _ = _factored_with_pivots(x)
    order = np.arange(x.shape[0], dtype=np.int32)
    # Pivots are exchanges one after another; TPU programs want the order that results.
    for at, other in enumerate(pivots - 1):
        order[[at, other]] = order[[other, at]]
    return factors, pivots - 1, order


def _syevd(instruction: Instruction, computed: Computed) -> Kernel:
    """Eigenvectors of symmetric matrices as columns, their eigenvalues, ascending, and 0 for success."""
    triangle = _option(instruction, "uplo", "L")
    settles = settled_all(instruction, computed.floats)

    def function(x: Array) -> tuple[Array, ...]:
        try:
            values, vectors = np.linalg.eigh(x, "U" if triangle == "U" else "L")
        except np.linalg.LinAlgError:
            return np.full_like(x, np.nan), np.full(x.shape[-1], np.nan), np.array(1, np.int32)
        return vectors, values, np.array(0, np.int32)

    run = _of_each_matrix(function)
    return lambda x, *others: tuple(settle(part) for settle, part in zip(settles, run(x), strict=True))


LAPACK_CALLS: Final[dict[str, Rule]] = {
    **{f"lapack_{letter}potrf_ffi": _cholesky for letter in "sdcz"},
    **{f"lapack_{letter}trsm_ffi": _trsm for letter in "sdcz"},
    **{f"lapack_{letter}geqrf_ffi": _factoring(_packed_reflectors) for letter in "sdcz"},
    **{f"lapack_{letter}getrf_ffi": _factoring(_factored_with_pivots) for letter in "sdcz"},
    **{f"lapack_{name}_ffi": _orgqr for name in ("sorgqr", "dorgqr", "cungqr", "zungqr")},
    **{f"lapack_{name}_ffi": _syevd for name in ("ssyevd", "dsyevd", "cheevd", "zheevd")},
    "LuDecomposition": _factoring(_factored_with_row_order),
    "ProductOfElementaryHouseholderReflectors": _orgqr,
    "Qr": _factoring(_packed_reflectors),
}
"""The rule of each target of LAPACK's kind."""


# --- factorizations of TPU programs ---
# Custom calls that TPU programs make of factorizations: those of one block, computed in f64.
#
# Mirrors cholesky_expander.cc, qr_expander.cc, eigh_expander.cc, and triangular_solve_expander.cc of
# xla/hlo/transforms/expanders, which make the programs around them. Complex matrices come as two arrays, of real and of
# imaginary parts, and so do complex results.


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


def _inverted_triangles(x: Array, *, is_lower: bool) -> Array:
    """The inverses of triangular matrices; the other triangle is not read.

    >>> _inverted_triangles(np.array([[2.0, 9.0], [1.0, 1.0]]), is_lower=True).tolist()
    [[0.5, 0.0], [-0.5, 1.0]]
    """
    matrix = np.tril(x) if is_lower else np.triu(x)
    identity = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return _substituted(matrix, identity, is_lower)


def _compact_reflectors(x: Array) -> Array:
    """The triangular matrix T of the product `I + V T V^H` of reflectors, from `-(V^H V + I)` above the diagonal.

    Column `j` is what the columns before it make of column `j` of the operand, whose diagonal holds the negative
    factors of the reflectors.

    >>> _compact_reflectors(np.array([[-1.0, 2.0], [0.0, -3.0]])).tolist()
    [[-1.0, -2.0], [0.0, -3.0]]
    """
    result = np.zeros_like(x)
    result[..., :, :] = np.eye(x.shape[-1], dtype=x.dtype)
    for column in range(x.shape[-1]):
        # One column after another, as each is made of those before (qr_expander.cc).
        result[..., :, column] = np.matmul(result, x[..., :, column, np.newaxis])[..., 0]
    return result


def _factors(x: Array) -> tuple[Array, ...]:
    packed, factors, _ = _packed_reflectors(x)
    return packed, factors


def _eigenvectors_of_lower_triangle(x: Array) -> tuple[Array, ...]:
    """Eigenvectors as columns, and eigenvalues, ascending; the lower triangle is read.

    Matrices of odd size come with a row of zeros after them: what belongs to it comes last.
    """
    # A last row of zeros, such as padding, has the last unit vector for an eigenvector.
    if x.shape[0] > 1 and not x[-1].any():
        vectors, values = _eigenvectors_of_lower_triangle(x[:-1, :-1])
        return np.pad(vectors, (0, 1)) + np.diag(np.eye(x.shape[0])[-1]), np.pad(values, (0, 1))
    try:
        values, vectors = np.linalg.eigh(x)
    except np.linalg.LinAlgError:
        return np.full_like(x, np.nan), np.full(x.shape[-1], np.nan)
    return vectors, values


def _eigenvectors_of_quadrants(instruction: Instruction, computed: Computed) -> Kernel:
    """The same of a matrix in quadrants: both halves of the eigenvalues, and the quadrants of the vectors as rows."""
    settles = settled_all(instruction, computed.floats)
    run = _of_each_matrix(_eigenvectors_of_lower_triangle)

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


_LU: Final = _rule(_of_each_matrix(_factored_with_row_order))

TPU_FACTORIZATIONS: Final[dict[str, Rule]] = {
    "Cholesky": _rule(lambda x: (_lower_factor(x, True),)),
    "CompactWyHelper": _rule(lambda x: (_compact_reflectors(x),)),
    "Eigh": _rule(_of_each_matrix(_eigenvectors_of_lower_triangle)),
    "EighTpu": _eigenvectors_of_quadrants,
    "InvertDiagBlocksLowerTriangular": _rule(lambda x: (_inverted_triangles(x, is_lower=True),)),
    "InvertDiagBlocksUpperTriangular": _rule(lambda x: (_inverted_triangles(x, is_lower=False),)),
    "LuComplexDecompositionBlock": _LU,
    "LuRealDecompositionBlock": _LU,
    "QrDecompositionBlock": _rule(_of_each_matrix(_factors)),
}
"""The rule of each target."""
