"""Shape inference for decompositions, fft, batch normalization, and top-k.

Mirrors `InferFftShape`, `InferCholeskyShape`, `InferTriangularSolveShape`, `InferBatchNorm…Shape`, and `InferTopK` of
xla/service/shape_inference.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.shapes.operands import S32, array, array_of, described, fail, need_kind, need_same_type, with_type
from hlo_cli.ir.attributes.enumerations import FftType, Transpose
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, TupleShape, same_sizes
from hlo_cli.source import counted

_COMPLEX_OF: Final = {"f32": "c64", "f64": "c128"}
_REAL_OF: Final = {"c64": "f32", "c128": "f64"}


def fft(instruction: Instruction) -> ArrayShape:
    """Returns the transform of the operand; a real dimension of size n has n/2+1 complex results.

    >>> from hlo_cli import parse_module
    >>> print(fft(parse_module("r = c64[2,5] fft(f32[2,8] a), fft_type=RFFT, fft_length={8}").entry.root))
    c64[2,5]{1,0}
    """
    shape, lengths, kind = array(instruction, 0), instruction.integers("fft_length"), instruction.value("fft_type")
    if not 1 <= len(lengths) <= 3 or len(lengths) > shape.rank:
        fail(instruction, f"expected 1 to 3 numbers in fft_length, found {len(lengths)}; {described(instruction, 0)}")
    if kind == FftType.RFFT:
        element_type = _counterpart(instruction, shape, _COMPLEX_OF, "f32 or f64")
        _check_lengths(instruction, shape, lengths)
        return _with_last(shape, element_type, lengths[-1] // 2 + 1 if lengths[-1] else 0)
    element_type = _counterpart(instruction, shape, _REAL_OF, "c64 or c128")
    if kind == FftType.IRFFT:
        half = lengths[-1] // 2 + 1 if lengths[-1] else 0
        _check_lengths(instruction, shape, (*lengths[:-1], half))
        return _with_last(shape, element_type, lengths[-1])
    return shape


def cholesky(instruction: Instruction) -> ArrayShape:
    """Returns the shape of the operand, whose last two dimensions must be equal."""
    shape = need_kind(instruction, 0, ("float", "complex"))
    _check_square(instruction, shape)
    return shape


def triangular_solve(instruction: Instruction) -> ArrayShape:
    """Returns the shape of operand 1, the right-hand sides; operand 0 holds one triangular matrix for each."""
    a, b = need_kind(instruction, 0, ("float", "complex")), array(instruction, 1)
    if a.element_type is not b.element_type:
        fail(instruction, f"expected operands of the same element type; {described(instruction, 0, 1)}")
    _check_square(instruction, a)
    if a.rank != b.rank:
        fail(instruction, f"expected operands of the same rank; {described(instruction, 0, 1)}")
    shared = b.dimensions[-2 if instruction.flag("left_side") else -1]
    if a.dimensions[-1] != shared and UNBOUNDED not in (a.dimensions[-1], shared):
        fail(
            instruction,
            f"expected {counted(a.dimensions[-1], 'unknowns')}, found {shared}; {described(instruction, 0, 1)}",
        )
    if not same_sizes(a.dimensions[:-2], b.dimensions[:-2]):
        fail(instruction, f"expected matching batch dimensions; {described(instruction, 0, 1)}")
    if instruction.value("transpose_a") in (None, Transpose.INVALID):
        fail(instruction, "expected transpose_a to be NO_TRANSPOSE, TRANSPOSE, or ADJOINT")
    return b


def batch_norm_training(instruction: Instruction) -> TupleShape:
    """Returns the normalized operand, and mean and variance of each feature."""
    shape, feature = _batch_norm_shapes(instruction, (1, 2))
    return TupleShape((shape, feature, feature))


def batch_norm_inference(instruction: Instruction) -> ArrayShape:
    """Returns the normalized operand."""
    return _batch_norm_shapes(instruction, (1, 2), (3, 4))[0]


def batch_norm_grad(instruction: Instruction) -> TupleShape:
    """Returns the gradients of operand, scale, and offset."""
    shape, feature = _batch_norm_shapes(instruction, (1, 2, 3))
    if not same_sizes(array(instruction, 4).dimensions, shape.dimensions):
        fail(instruction, f"expected a gradient with the operand's sizes; {described(instruction, 0, 4)}")
    need_same_type(instruction, 0, 4)
    return TupleShape((shape, feature, feature))


def topk(instruction: Instruction) -> TupleShape:
    """Returns the k largest values of each row, and their indices."""
    shape, k = array(instruction, 0), instruction.integer("k")
    if not shape.rank:
        fail(instruction, f"expected at least one dimension; {described(instruction, 0)}")
    if k is None or (shape.dimensions[-1] != UNBOUNDED and not 0 <= k <= shape.dimensions[-1]):
        fail(instruction, f"expected k ≤ size of the last dimension, found {k}; {described(instruction, 0)}")
    dimensions, dynamic = (*shape.dimensions[:-1], k), (*shape.dynamic_dimensions[:-1], False)
    return TupleShape((array_of(shape.element_type, dimensions, dynamic), array_of(S32, dimensions, dynamic)))


def _counterpart(instruction: Instruction, shape: ArrayShape, types: dict[str, str], expected: str) -> PrimitiveType:
    """Returns the real or complex counterpart of the operand's type."""
    if shape.element_type.name not in types:
        fail(instruction, f"expected {expected}; {described(instruction, 0)}")
    return PRIMITIVE_TYPES[types[shape.element_type.name]]


def _check_lengths(instruction: Instruction, shape: ArrayShape, expected: tuple[int, ...]) -> None:
    """Checks the sizes of the last dimensions."""
    if not same_sizes(shape.dimensions[-len(expected) :], expected):
        sizes = ",".join(map(str, expected))
        fail(instruction, f"expected last dimensions [{sizes}] to match fft_length; {described(instruction, 0)}")


def _with_last(shape: ArrayShape, element_type: PrimitiveType, size: int) -> ArrayShape:
    """Returns a shape with another element type and last dimension."""
    resized = array_of(shape.element_type, (*shape.dimensions[:-1], size), shape.dynamic_dimensions, shape.layout)
    return with_type(resized, element_type)


def _check_square(instruction: Instruction, shape: ArrayShape) -> None:
    """Checks that the last two dimensions are equal."""
    if shape.rank < 2 or not same_sizes(shape.dimensions[-1:], shape.dimensions[-2:-1]):
        fail(instruction, f"expected square matrices; {described(instruction, 0)}")


def _batch_norm_shapes(
    instruction: Instruction, features: tuple[int, ...], any_rank: tuple[int, ...] = ()
) -> tuple[ArrayShape, ArrayShape]:
    """Returns the operand, and the shape of one number per feature that the operands at `features` must have.

    For operands at `any_rank`, XLA checks only the first dimension.
    """
    shape, along = need_kind(instruction, 0, ("float",)), instruction.integer("feature_index")
    if along is None or not 0 <= along < shape.rank:
        fail(
            instruction,
            f"expected a dimension of the operand in feature_index, found {along}; {described(instruction, 0)}",
        )
    for position in (*features, *any_rank):
        sizes = need_kind(instruction, position, ("float",)).dimensions
        if not same_sizes(sizes[:1] if position in any_rank else sizes, (shape.dimensions[along],)):
            number = f"expected {counted(shape.dimensions[along], 'values')}, one per feature"
            fail(instruction, f"{number}; {described(instruction, position)}")
    dynamic = (shape.dynamic_dimensions[along],)
    return shape, array_of(shape.element_type, (shape.dimensions[along],), dynamic)
