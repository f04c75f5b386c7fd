"""Sums of products and what is built of them: dot, convolution, Fourier transforms, decompositions.

Mirrors `GetDotFlops`, `HandleRaggedDot`, `GetConvolutionFlops`, `HandleFft`, `HandleCholesky` and
`HandleTriangularSolve` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OUTPUT_BYTES, Figures, operand_key
from hlo_cli.analysis.cost.counting import CostCounter, ShapeSize, int64
from hlo_cli.ir.attributes.dimension_numbers import convolution_dimension_numbers
from hlo_cli.ir.attributes.window import Window, WindowDimension
from hlo_cli.ir.instruction import Instruction

FMA_FLOPS: Final = 2  # a product and a sum
_UNSIGNED: Final = (1 << 64) - 1
_FMAS_OF_A_COMPLEX_PRODUCT: Final = 4


def dot(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """A product and a sum for every element of the result and every place that is summed over.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> cost_of(parse_module(text).entry.root).flops
    60
    """
    elements = count.measure(instruction.shape).elements
    figures[FLOPS] = FMA_FLOPS * elements * _contracted(instruction, count.operand(instruction, 0))


def ragged_dot(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """As a dot whose result lacks its first dimension, then its second, for as many dimensions as there are groups."""
    dimensions = list(count.measure(instruction.shape).dimensions)
    for i in range(len(instruction.integers("rhs_group_dims"))):
        del dimensions[i : i + 1]
    figures[FLOPS] = FMA_FLOPS * prod(dimensions) * _contracted(instruction, count.operand(instruction, 0))


def convolution(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """A product and a sum wherever the kernel lies on an element of the input, not on padding or in a gap.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> labels = "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"
    >>> text = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[3,2,4] k), {labels}"
    >>> cost_of(parse_module(text).entry.root).flops
    400
    """
    inputs, kernel = count.operand(instruction, 0), count.operand(instruction, 1)
    figures[FLOPS] = convolution_flops(instruction, inputs, kernel, count.measure(instruction.shape))


def convolution_flops(instruction: Instruction, inputs: ShapeSize, kernel: ShapeSize, result: ShapeSize) -> int:
    """The flops of a convolution, or of a custom call that stands for one; 0 if its labels are missing."""
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        return 0
    features = inputs.size(numbers.input_feature_dimension) // (instruction.integer("feature_group_count") or 1)
    batch = inputs.size(numbers.input_batch_dimension) // (instruction.integer("batch_group_count") or 1)
    spatial = zip(
        (instruction.window or Window(())).dimensions,
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=False,
    )
    taps = prod(valid_taps(d, inputs.size(i), kernel.size(k), result.size(o)) for d, i, k, o in spatial)
    return FMA_FLOPS * features * result.size(numbers.output_feature_dimension) * batch * taps


def valid_taps(dimension: WindowDimension, inputs: int, kernel: int, outputs: int) -> int:
    """How many pairs of a place in the kernel and one in the output meet an element of the input in one dimension.

    >>> valid_taps(WindowDimension(3, padding_low=1, padding_high=1), 9, 3, 9)
    25
    >>> valid_taps(WindowDimension(2, stride=3, padding_low=1, base_dilation=2), 4, 2, 3)
    3
    """
    fewer, more = (kernel, dimension.window_dilation), (outputs, dimension.stride)
    if fewer[0] > more[0]:
        fewer, more = more, fewer
    places, step = fewer
    last = (inputs - 1) * dimension.base_dilation
    starts = (i * step - dimension.padding_low for i in range(places))
    return sum(_multiples(start, more[1], more[0], max(dimension.base_dilation, 1), last) for start in starts)


def fft(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """Four products and sums for every element, times the logarithms of the lengths, rounded down; that of 0 is -1."""
    logarithms = prod((length & _UNSIGNED).bit_length() - 1 for length in instruction.integers("fft_length"))
    elements = count.operand(instruction, 0).elements
    figures[FLOPS] = FMA_FLOPS * _FMAS_OF_A_COMPLEX_PRODUCT * logarithms * elements


def cholesky(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """A third of n cubed for every matrix, of which half is read and half is written."""
    matrix = count.operand(instruction, 0)
    half = _half(matrix)
    cubed = matrix.size(-1) * matrix.elements
    if matrix.wraps:
        cubed = int64(cubed)
    figures |= {FLOPS: abs(cubed) // 3 * (-1 if cubed < 0 else 1), OUTPUT_BYTES: half, operand_key(0): half}
    figures[BYTES] = count.sum((half, half))


def triangular_solve(instruction: Instruction, figures: Figures, count: CostCounter) -> None:
    """A product and a sum for every element of the right side and every row; half of the matrix is read.

    XLA gives operand 0 the bytes of operand 1.
    """
    matrix, right = count.operand(instruction, 0), count.operand(instruction, 1)
    figures |= {FLOPS: FMA_FLOPS * matrix.size(-1) * right.elements, operand_key(0): right.bytes}
    figures |= {OUTPUT_BYTES: count.measure(instruction.shape).bytes}
    figures[BYTES] = count.sum((figures[OUTPUT_BYTES], _half(matrix), right.bytes))


def _contracted(instruction: Instruction, lhs: ShapeSize) -> int:
    return prod(lhs.size(d) for d in instruction.integers("lhs_contracting_dims"))


def _half(matrix: ShapeSize) -> int | float:
    """Half of the bytes; a matrix of single bytes may have a half one."""
    return matrix.bytes / 2 if matrix.bytes % 2 else matrix.bytes // 2


def _multiples(start: int, step: int, length: int, divisor: int, last: int) -> int:
    """How many numbers start + i * step, 0 <= i < length, are multiples of a divisor from 0 to `last`."""
    if step < 0 or last < 0 or start % (common := gcd(step, divisor)):
        return 0
    if not step:
        return length if 0 <= start <= last else 0
    period = divisor // common
    first = -start // common * pow(step // common, -1, period) % period
    lowest, highest = max(-(start // step), 0), min((last - start) // step, length - 1)
    return max((highest - first) // period - (lowest - 1 - first) // period, 0)
