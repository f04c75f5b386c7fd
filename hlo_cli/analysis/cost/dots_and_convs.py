"""Cost of dots, convolutions, FFTs, and matrix decompositions.

Mirrors `GetDotFlops`, `HandleRaggedDot`, `GetConvolutionFlops`, `HandleFft`, `HandleCholesky`, and
`HandleTriangularSolve` of xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, OUTPUT_BYTES, Properties, operand_key
from hlo_cli.analysis.cost.counting import CostCounter, Handler, ShapeSize, int64
from hlo_cli.ir.attributes.value_types import Window, WindowDimension, convolution_dimension_numbers
from hlo_cli.ir.instruction import Instruction

FMA_FLOPS: Final = 2  # a product and a sum
_UNSIGNED: Final = (1 << 64) - 1
_FMAS_PER_COMPLEX_PRODUCT: Final = 4


def dot(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts a multiplication and an addition for every result element and contracted index.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> cost_of(parse_module(text).entry.root).flops
    60
    """
    elements = counter.measure(instruction.shape).elements
    properties[FLOPS] = FMA_FLOPS * elements * _contracted(instruction, counter.operand(instruction, 0))


def ragged_dot(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts a dot whose result lacks dimension 0, then dimension 1, and so on, one for each group dimension."""
    dimensions = list(counter.measure(instruction.shape).dimensions)
    # HandleRaggedDot deletes by the loop counter, not by the group dimension.
    for i in range(len(instruction.integers("rhs_group_dims"))):
        del dimensions[i : i + 1]
    properties[FLOPS] = FMA_FLOPS * prod(dimensions) * _contracted(instruction, counter.operand(instruction, 0))


def convolution(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts a multiplication and an addition wherever a kernel element meets an input element, not padding or a gap.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> labels = "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"
    >>> text = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[3,2,4] k), {labels}"
    >>> cost_of(parse_module(text).entry.root).flops
    400
    """
    inputs, kernel = counter.operand(instruction, 0), counter.operand(instruction, 1)
    properties[FLOPS] = convolution_flops(instruction, inputs, kernel, counter.measure(instruction.shape))


def convolution_flops(instruction: Instruction, inputs: ShapeSize, kernel: ShapeSize, result: ShapeSize) -> int:
    """Flops of a convolution, or of a custom call for one; 0 without dim_labels."""
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
    taps = prod(valid_positions(d, inputs.size(i), kernel.size(k), result.size(o)) for d, i, k, o in spatial)
    return FMA_FLOPS * features * result.size(numbers.output_feature_dimension) * batch * taps


def valid_positions(dimension: WindowDimension, inputs: int, kernel: int, outputs: int) -> int:
    """Number of pairs of a kernel and an output position that meet an input element, in one dimension.

    >>> valid_positions(WindowDimension(3, padding_low=1, padding_high=1), 9, 3, 9)
    25
    >>> valid_positions(WindowDimension(2, stride=3, padding_low=1, base_dilation=2), 4, 2, 3)
    3
    """
    fewer, more = (kernel, dimension.window_dilation), (outputs, dimension.stride)
    if fewer[0] > more[0]:
        fewer, more = more, fewer
    places, step = fewer
    last = (inputs - 1) * dimension.base_dilation
    starts = (i * step - dimension.padding_low for i in range(places))
    return sum(_multiples(start, more[1], more[0], max(dimension.base_dilation, 1), last) for start in starts)


def fft(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts eight flops per element, times the product of the rounded-down logarithms of the lengths; that of 0 is
    -1.
    """
    logarithms = prod((length & _UNSIGNED).bit_length() - 1 for length in instruction.integers("fft_length"))
    elements = counter.operand(instruction, 0).elements
    properties[FLOPS] = FMA_FLOPS * _FMAS_PER_COMPLEX_PRODUCT * logarithms * elements


def cholesky(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts n^3 / 3 flops for every n × n matrix, of which half is read and half is written."""
    matrix = counter.operand(instruction, 0)
    half = _half(matrix)
    cubed = matrix.size(-1) * matrix.elements
    if matrix.wraps:
        cubed = int64(cubed)
    properties |= {FLOPS: abs(cubed) // 3 * (-1 if cubed < 0 else 1), OUTPUT_BYTES: half, operand_key(0): half}
    properties[BYTES] = counter.sum((half, half))


def triangular_solve(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts a multiplication and an addition for every element of the right side and every row; reads half of the
    matrix.
    """
    matrix, right = counter.operand(instruction, 0), counter.operand(instruction, 1)
    # HandleTriangularSolve stores the bytes of operand 1 under operand 0.
    properties |= {FLOPS: FMA_FLOPS * matrix.size(-1) * right.elements, operand_key(0): right.bytes}
    properties |= {OUTPUT_BYTES: counter.measure(instruction.shape).bytes}
    properties[BYTES] = counter.sum((properties[OUTPUT_BYTES], _half(matrix), right.bytes))


def _contracted(instruction: Instruction, lhs: ShapeSize) -> int:
    return prod(lhs.size(d) for d in instruction.integers("lhs_contracting_dims"))


def _half(matrix: ShapeSize) -> int | float:
    """Half of the bytes of a matrix; fractional for an odd number."""
    return matrix.bytes / 2 if matrix.bytes % 2 else matrix.bytes // 2


def _multiples(start: int, step: int, length: int, divisor: int, last: int) -> int:
    """Number of values start + i * step, 0 <= i < length, that are multiples of `divisor` from 0 to `last`."""
    if step < 0 or last < 0 or start % (common := gcd(step, divisor)):
        return 0
    if not step:
        return length if 0 <= start <= last else 0
    period = divisor // common
    first = -start // common * pow(step // common, -1, period) % period
    lowest, highest = max(-(start // step), 0), min((last - start) // step, length - 1)
    return max((highest - first) // period - (lowest - 1 - first) // period, 0)


HANDLERS: Final[dict[str, Handler]] = {
    "cholesky": cholesky,
    "convolution": convolution,
    "dot": dot,
    "fft": fft,
    "ragged-dot": ragged_dot,
    "scaled-dot": dot,
    "triangular-solve": triangular_solve,
}
"""What counts the cost of each opcode of this family."""
