"""Which matmuls does a module have, of which dimensions and arithmetic type, and how many flops do they take?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import Final, Literal

from hlo_cli.analysis.cost.counting import (
    BYTES,
    FLOPS,
    OUTPUT_BYTES,
    CostCounter,
    Handler,
    Properties,
    ShapeSize,
    int64,
    measure,
    operand_key,
    size_in,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import NamedItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import Json
from hlo_cli.ir.attributes.value_types import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    Window,
    WindowDimension,
    convolution_dimension_numbers,
    dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import MATMULS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lazy_regex import lazy_regex

# --- flops of dots and convolutions ---
# Also of FFTs and matrix decompositions.
#
# Mirrors `GetDotFlops`, `HandleRaggedDot`, `GetConvolutionFlops`, `HandleFft`, `HandleCholesky`, and
# `HandleTriangularSolve` of xla/service/hlo_cost_analysis.cc.


FMA_FLOPS: Final = 2  # a product and a sum
_MAX_UNSIGNED: Final = (1 << 64) - 1  # XLA takes the logarithm of the length as an unsigned number
_FMAS_PER_COMPLEX_PRODUCT: Final = 4  # (a + bi)(c + di) has four products


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
    properties[FLOPS] = _convolution_flops(instruction, inputs, kernel, counter.measure(instruction.shape))


def _convolution_flops(instruction: Instruction, inputs: ShapeSize, kernel: ShapeSize, result: ShapeSize) -> int:
    """Flops of a convolution, or of a custom call for one; 0 without dim_labels."""
    numbers = convolution_dimension_numbers(instruction)
    if numbers is None:
        return 0
    return _flops_of_convolution(
        numbers,
        (instruction.window or Window(())).dimensions,
        (instruction.integer("feature_group_count") or 1, instruction.integer("batch_group_count") or 1),
        (inputs.dimensions, kernel.dimensions, result.dimensions),
    )


@lru_cache(maxsize=1 << 10)  # layers have equal convolutions, and each is asked for its cost and as a matmul
def _flops_of_convolution(
    numbers: ConvolutionDimensionNumbers,
    window: Sequence[WindowDimension],
    groups: tuple[int, int],
    sizes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> int:
    """Flops of a convolution by its groups of features and of batch, and by the sizes of input, kernel, and result."""
    inputs, kernel, result = sizes
    # Integer divisions as in GetConvolutionFlops, which rounds down for groups that do not divide.
    features = size_in(inputs, numbers.input_feature_dimension) // groups[0]
    batch = size_in(inputs, numbers.input_batch_dimension) // groups[1]
    spatial = zip(
        window,
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=False,
    )
    taps = prod(
        valid_positions(d, size_in(inputs, i), size_in(kernel, k), size_in(result, o)) for d, i, k, o in spatial
    )
    return FMA_FLOPS * features * size_in(result, numbers.output_feature_dimension) * batch * taps


def valid_positions(dimension: WindowDimension, inputs: int, kernel: int, outputs: int) -> int:
    """Number of pairs of a kernel and an output position that meet an input element, in one dimension.

    >>> valid_positions(WindowDimension(3, padding_low=1, padding_high=1), 9, 3, 9)
    25
    >>> valid_positions(WindowDimension(2, stride=3, padding_low=1, base_dilation=2), 4, 2, 3)
    3
    """
    fewer, more = (kernel, dimension.window_dilation), (outputs, dimension.stride)
    # The count is symmetric in kernel and output, so the loop runs over the shorter and the longer one is solved.
    if fewer[0] > more[0]:
        fewer, more = more, fewer
    places, step = fewer
    # Dilated input elements are at multiples of the dilation; XLA walks all pairs, which is slow for long windows.
    last = (inputs - 1) * dimension.base_dilation
    starts = (i * step - dimension.padding_low for i in range(places))
    return sum(_multiples(start, more[1], more[0], max(dimension.base_dilation, 1), last) for start in starts)


def fft(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts eight flops per element, times the product of the rounded-down logarithms of the lengths; that of 0 is
    -1.
    """
    logarithms = prod((length & _MAX_UNSIGNED).bit_length() - 1 for length in instruction.integers("fft_length"))
    elements = counter.operand(instruction, 0).elements
    properties[FLOPS] = FMA_FLOPS * _FMAS_PER_COMPLEX_PRODUCT * logarithms * elements


def cholesky(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts n^3 / 3 flops for every n × n matrix, of which half is read and half is written."""
    matrix = counter.operand(instruction, 0)
    half = _half(matrix)
    cubed = matrix.size(-1) * matrix.elements
    if matrix.wraps:
        cubed = int64(cubed)
    # C++ divides towards zero.
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
    # Solves start + i·step ≡ 0 modulo the divisor; without a common divisor there is no solution.
    if step < 0 or last < 0 or start % (common := gcd(step, divisor)):
        return 0
    if not step:
        return length if 0 <= start <= last else 0
    period = divisor // common
    first = -start // common * pow(step // common, -1, period) % period
    lowest, highest = max(-(start // step), 0), min((last - start) // step, length - 1)
    return max((highest - first) // period - (lowest - 1 - first) // period, 0)


MATMUL_HANDLERS: Final[dict[str, Handler]] = {
    "cholesky": cholesky,
    opcodes.CONVOLUTION: convolution,
    "dot": dot,
    "fft": fft,
    "ragged-dot": ragged_dot,
    "scaled-dot": dot,
    "triangular-solve": triangular_solve,
}
"""What counts the cost of each opcode of this family."""


# --- dimensions of matmuls ---
# Of dots, convolutions, and library calls that implement them.
#
# Mirrors `GemmConfig::For` of xla/service/gpu/matmul_utils.cc, and `GetConvolutionFlops` of
# xla/service/gpu/model/gpu_hlo_cost_analysis.cc.


Kind = Literal["dot", "scaled-dot", "ragged-dot", "convolution", "cuBLAS", "cuDNN"]

_CUBLAS_TARGETS: Final = ("__cublas$gemm", "__cublas$lt$matmul")  # target names of xla/service/gpu/cublas_cudnn.h
_CUDNN_TARGET: Final = "__cudnn$conv"
LIBRARY_DOTS: Final = (*_CUBLAS_TARGETS, "__cublas$lt$", "__onednn$matmul")
"""Prefixes of custom-call targets that implement a dot on GPU and CPU."""
LIBRARY_CONVOLUTIONS: Final = (_CUDNN_TARGET, "__onednn$convolution")
"""Prefixes of custom-call targets that implement a convolution."""


@dataclass(frozen=True, slots=True)
class Matmul:
    """`batch` matmuls of an m × k and a k × n matrix.

    For a convolution, the dimensions are those of the equivalent matmul, including padding, which `flops` omits.
    `fusion` is the outermost fusion that contains the instruction.
    """

    instruction: Instruction
    kind: Kind
    batch: int
    m: int
    n: int
    k: int
    lhs: ArrayShape
    rhs: ArrayShape
    result: ArrayShape
    numbers: DotDimensionNumbers | ConvolutionDimensionNumbers
    flops: int
    fusion: Instruction | None = None

    @property
    def logical_bytes(self) -> int:
        """Unpadded bytes of both operands and the result."""
        return self.lhs.logical_bytes + self.rhs.logical_bytes + self.result.logical_bytes


@of_module
def matmuls_of(module: Module) -> NamedItems[Matmul]:
    """Matmuls of a module in the order of the text.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { a = bf16[8,128,64] parameter(0)  b = bf16[8,32,64] parameter(1)
    ...   ROOT d = f32[8,128,32] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
    ...     lhs_contracting_dims={2}, rhs_contracting_dims={2} }'''
    >>> [(found.batch, found.m, found.n, found.k, found.flops) for found in matmuls_of(parse_module(text))]
    [(8, 128, 32, 64, 4194304)]
    """
    fusions = _outermost_fusions(module)
    matmuls = (matmul_of(i, fusions.get(i.computation)) for i in module.instructions if i.opcode in MAY_BE_MATMULS)
    return NamedItems(matmul for matmul in matmuls if matmul is not None)


def is_matmul(instruction: Instruction) -> bool:
    """Whether an instruction is a dot or convolution, or a library call that implements one.

    >>> from hlo_cli import parse_module
    >>> is_matmul(parse_module('r = f32[2,2] custom-call(), custom_call_target="__onednn$matmul"').entry.root)
    True
    """
    if instruction.opcode != opcodes.CUSTOM_CALL:
        return instruction.opcode in MATMULS
    target = instruction.string("custom_call_target") or ""
    return target.startswith((*LIBRARY_DOTS, *LIBRARY_CONVOLUTIONS))


MAY_BE_MATMULS: Final = MATMULS | {opcodes.CUSTOM_CALL}
"""Opcodes for which `matmul_of` is worth asking."""


def matmul_of(instruction: Instruction, fusion: Instruction | None = None) -> Matmul | None:
    """Matmul of an instruction, or None.

    >>> from hlo_cli import parse_module
    >>> labels = "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"
    >>> text = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[3,2,4] k), {labels}"
    >>> found = matmul_of(parse_module(text).entry.root)
    >>> found.m, found.n, found.k, found.flops
    (9, 4, 6, 400)
    """
    match instruction.opcode:
        case opcodes.DOT | "scaled-dot" | "ragged-dot" as opcode:
            numbers = dot_dimension_numbers(instruction)
            return _matmul_of_dot(instruction, opcode, numbers, fusion) if numbers is not None else None
        case opcodes.CONVOLUTION:
            return _matmul_of_convolution(instruction, fusion)
        case opcodes.CUSTOM_CALL:
            return _matmul_of_library_call(instruction, fusion)
        case _:
            return None


def _matmul_of_library_call(call: Instruction, fusion: Instruction | None) -> Matmul | None:
    target = call.string("custom_call_target") or ""
    if target.startswith(_CUDNN_TARGET):
        return _matmul_of_convolution(call, fusion)
    config = call.backend_config
    if not target.startswith(_CUBLAS_TARGETS) or config is None:
        return None
    sides = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
    path = ("gemm_backend_config", "dot_dimension_numbers")
    listed = (_integers(config.get(*path, f"{side}_dimensions")) for side in sides)
    return _matmul_of_dot(call, "cuBLAS", DotDimensionNumbers(*listed), fusion)


def _matmul_of_dot(
    instruction: Instruction, kind: Kind, numbers: DotDimensionNumbers, fusion: Instruction | None
) -> Matmul | None:
    lhs, result = _array(instruction, 0), _first(instruction.shape)
    rhs = _array(instruction, 1)
    if kind == "scaled-dot" and lhs is not None and rhs is not None and not _contracted_sizes_match(lhs, rhs, numbers):
        rhs = _array(instruction, 2)  # up to jaxlib 0.10.2 each scale follows its operand
    if lhs is None or rhs is None or result is None:
        return None
    batch = _sizes(lhs, numbers.lhs_batch_dimensions)
    k = _sizes(lhs, numbers.lhs_contracting_dimensions)
    m = _sizes(lhs, _others(lhs, numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions))
    # Each row meets one group only, so the group dimension of the right side adds no flops.
    groups = instruction.integers("rhs_group_dims")
    n = _sizes(rhs, _others(rhs, numbers.rhs_batch_dimensions, numbers.rhs_contracting_dimensions, groups))
    flops = FMA_FLOPS * batch * m * n * k
    return Matmul(instruction, kind, batch, m, n, k, lhs, rhs, result, numbers, flops, fusion)


def _matmul_of_convolution(instruction: Instruction, fusion: Instruction | None) -> Matmul | None:
    numbers = convolution_dimension_numbers(instruction)
    lhs, rhs, result = _roles(instruction)
    if numbers is None or lhs is None or rhs is None or result is None:
        return None
    inputs, kernel, outputs = measure(lhs), measure(rhs), measure(result)
    groups = (instruction.integer("feature_group_count") or 1) * (instruction.integer("batch_group_count") or 1)
    spatial = prod(outputs.size(d) for d in numbers.output_spatial_dimensions)
    m = outputs.size(numbers.output_batch_dimension) * spatial
    # As many matmuls as groups, each with its share of the output features.
    n = outputs.size(numbers.output_feature_dimension) // groups
    taps = prod(kernel.size(d) for d in numbers.kernel_spatial_dimensions)
    k = kernel.size(numbers.kernel_input_feature_dimension) * taps
    flops = _convolution_flops(instruction, inputs, kernel, outputs)
    kind: Kind = "convolution" if instruction.opcode == opcodes.CONVOLUTION else "cuDNN"
    return Matmul(instruction, kind, groups, m, n, k, lhs, rhs, result, numbers, flops, fusion)


ConvolutionKind = Literal["forward", "backward data", "backward filter", "grouped", "depthwise"]


def convolution_kind(matmul: Matmul) -> ConvolutionKind | None:
    """What a convolution computes, as libraries have kernels for it; None for other matmuls.

    The gradient of the input reverses the kernel, or dilates the input where the convolution has strides; that of the
    kernel has a window that is larger than the result. Mirrors conv_rewriter.cc of xla/service/gpu/transforms.

    >>> from hlo_cli import parse_module
    >>> labels = "window={size=3 pad=1_1 rhs_reversal=1}, dim_labels=b0f_0oi->b0f"
    >>> text = f"r = f32[1,9,2] convolution(f32[1,9,4] a, f32[3,2,4] k), {labels}"
    >>> convolution_kind(matmul_of(parse_module(text).entry.root))
    'backward data'
    """
    if not isinstance(matmul.numbers, ConvolutionDimensionNumbers):
        return None
    instruction, numbers = matmul.instruction, matmul.numbers
    if matmul.batch > 1:
        # In the gradient of the kernel, the batch of the input stands for the groups.
        dimensions = (numbers.input_feature_dimension, numbers.input_batch_dimension)
        by_feature = (instruction.integer("feature_group_count") or 1) > 1
        channels = next(_sizes_of(matmul.lhs, dimensions[not by_feature :]), 0)
        return "depthwise" if matmul.batch >= channels > 0 else "grouped"
    target = instruction.string("custom_call_target") or ""
    if target.startswith(f"{_CUDNN_TARGET}BackwardInput"):
        return "backward data"
    if target.startswith(f"{_CUDNN_TARGET}BackwardFilter"):
        return "backward filter"
    window = (instruction.window or Window(())).dimensions
    if any(each.window_reversal or each.base_dilation > 1 for each in window):
        return "backward data"
    taps = prod(_sizes_of(matmul.rhs, numbers.kernel_spatial_dimensions))
    places = prod(_sizes_of(matmul.result, numbers.output_spatial_dimensions))
    return "backward filter" if taps > places else "forward"


def _sizes_of(shape: ArrayShape, dimensions: Sequence[int]) -> Iterator[int]:
    return (shape.sizes[each] for each in dimensions if 0 <= each < shape.rank)


# --- attention in a library ---
# cuDNN computes attention in one custom call, whose products are no dots of the text.


_ATTENTION_TARGET: Final = "__cudnn$fmha"
_FORWARD_PRODUCTS: Final = 2  # scores, and their product with the values
_BACKWARD_PRODUCTS: Final = 5  # the scores again, and the gradients of scores, queries, keys, and values


@dataclass(frozen=True, slots=True)
class Attention:
    """`products` matmuls of `batch` heads, each of `queries` by `keys` scores with heads of size `head`."""

    products: int
    batch: int
    queries: int
    keys: int
    head: int
    element_type: str


def attention_of(call: Instruction) -> Attention | None:
    """The attention of a cuDNN call; None for other instructions, and without its configuration.

    Mirrors `CudnnfMHABackendConfig` of xla/service/gpu/backend_configs.proto: the intermediate tensor has the scores.

    >>> from hlo_cli import parse_module
    >>> config = '{"cudnn_fmha_backend_config":{"intermediate_tensor_shape":{"dimensions":["2","8","512","512"]}}}'
    >>> text = "r = bf16[2,512,8,64] custom-call(bf16[2,512,8,64] q, bf16[2,512,8,64] k, bf16[2,512,8,64] v)"
    >>> text += f', custom_call_target="__cudnn$fmhaSoftmax", backend_config={config}'
    >>> attention_of(parse_module(text).entry.root)
    Attention(products=2, batch=16, queries=512, keys=512, head=64, element_type='bf16')
    """
    target = call.string("custom_call_target") or "" if call.opcode == opcodes.CUSTOM_CALL else ""
    config = call.backend_config if target.startswith(_ATTENTION_TARGET) else None
    query = _array(call, 0) if config is not None else None
    if config is None or query is None or not query.rank:
        return None
    path = ("cudnn_fmha_backend_config", "intermediate_tensor_shape", "dimensions")
    scores = _integers(config.get(*path))
    if len(scores) != 4:  # batch, heads, queries, keys
        return None
    batch, heads, queries, keys = scores
    products = _BACKWARD_PRODUCTS if "Backward" in target else _FORWARD_PRODUCTS
    return Attention(products, batch * heads, queries, keys, query.sizes[-1], query.element_type.name)


def _roles(instruction: Instruction) -> tuple[ArrayShape | None, ArrayShape | None, ArrayShape | None]:
    """Input, kernel, and output by dim_labels: a gradient call returns the input or the kernel."""
    first, second, result = _array(instruction, 0), _array(instruction, 1), _first(instruction.shape)
    target = instruction.string("custom_call_target") or "" if instruction.opcode == opcodes.CUSTOM_CALL else ""
    # dim_labels of a gradient name the forward convolution, so the roles of operands and result are exchanged.
    if target.startswith(f"{_CUDNN_TARGET}BackwardInput"):
        return result, second, first
    if target.startswith(f"{_CUDNN_TARGET}BackwardFilter"):
        return first, result, second
    return first, second, result


def _outermost_fusions(module: Module) -> dict[Computation, Instruction]:
    """Outermost fusion around each fused computation."""
    callers = {c: i for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    outermost = {}
    for computation, caller in callers.items():
        visited = {computation}
        while (outer := callers.get(caller.computation)) is not None and caller.computation not in visited:
            visited.add(caller.computation)
            caller = outer
        outermost[computation] = caller
    return outermost


def _array(instruction: Instruction, number: int) -> ArrayShape | None:
    return _first(instruction.operand_shape(number)) if number < len(instruction.operands) else None


def _first(shape: Shape) -> ArrayShape | None:
    """Array, or first element of a tuple: the others are scratch memory of a library."""
    if isinstance(shape, TupleShape) and shape.elements:
        shape = shape.elements[0]
    return shape if isinstance(shape, ArrayShape) else None


def _sizes(shape: ArrayShape, dimensions: Iterable[int]) -> int:
    return prod(shape.sizes[d] for d in dimensions if 0 <= d < shape.rank)


def _others(shape: ArrayShape, *taken: Sequence[int]) -> Iterator[int]:
    return (d for d in range(shape.rank) if not any(d in dimensions for dimensions in taken))


def _contracted_sizes_match(lhs: ArrayShape, rhs: ArrayShape, numbers: DotDimensionNumbers) -> bool:
    left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    return _sizes(lhs, left) == _sizes(rhs, right)


def _integers(value: Json) -> tuple[int, ...]:
    """Integers, which the JSON form of a proto writes as strings."""
    listed = value if isinstance(value, tuple) else ()
    texts = (str(item) for item in listed)
    return tuple(int(text) for text in texts if text.isdecimal() and len(text) < 20)


# --- arithmetic type ---
# GPUs multiply f32 in TF32 unless the highest precision is set, as in `GetBlasComputationType` of
# xla/service/algorithm_util.cc and xla/stream_executor/gpu. TPUs use one bf16 product, three for high precision, and
# six for highest. An `algorithm` (`PrecisionConfig` of xla/xla_data.proto) determines the type directly.


# Names of `PrecisionConfig.Algorithm` in xla_data.proto: types of both sides and of the sum, then the number of
# products.
_ALGORITHM_NAME = lazy_regex(
    r"(?:alg_)?dot_(?P<lhs>any_f8|[a-z]+\d+)_(?P<rhs>any_f8|[a-z]+\d+)_[a-z]+\d+(?:_x(?P<times>\d)|_fast_accum)?"
)
_PRECISION_CONFIG_PATH: Final = ("gemm_backend_config", "precision_config")
_F32: Final = ("f32", "c64")  # c64 is multiplied as four f32 products
# "default" is absent: the fast type of the chip.
_TYPE_BY_PRECISION: Final = {"high": "f32 high", "highest": "f32 highest", "mixed": "f32"}


def matmul_type(matmul: Matmul) -> str:
    """Type in which a chip multiplies, as accepted by `ChipSpec.flops_of`.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.matmuls import matmul_of
    >>> text = "r = f32[2,5] dot(f32[2,3] a, f32[3,5] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> words = "", ", operand_precision={highest,highest}", ", algorithm=dot_bf16_bf16_f32_x3"
    >>> [matmul_type(matmul_of(parse_module(text + more).entry.root)) for more in words]
    ['tf32', 'f32 highest', 'bf16 x3']
    """
    if named := _by_algorithm(_algorithm(matmul.instruction)):
        return named
    lhs, rhs = (shape.element_type.name for shape in (matmul.lhs, matmul.rhs))
    if lhs in _F32 and rhs in _F32:
        return _TYPE_BY_PRECISION.get(_precision(matmul.instruction), "tf32")
    # the narrower of two types, which gives a lower bound of the time
    return min((matmul.lhs, matmul.rhs), key=_bits).element_type.name


def _bits(shape: ArrayShape) -> int:
    return shape.element_type.bits


def _by_algorithm(name: str) -> str:
    match = _ALGORITHM_NAME.fullmatch(name.lower())
    if match is None:
        return ""
    kind = match["lhs"].removeprefix("any_")
    # An algorithm that names f32 asks for no substitute, as the highest precision does.
    kind = "f32 highest" if kind == "f32" else kind
    return f"{kind} x{match['times']}" if match["times"] else kind


def _algorithm(instruction: Instruction) -> str:
    if instruction.opcode != opcodes.CUSTOM_CALL:
        return instruction.string("algorithm") or ""
    config = instruction.backend_config
    return str(config.get(*_PRECISION_CONFIG_PATH, "algorithm") or "") if config is not None else ""


def _precision(instruction: Instruction) -> str:
    """Precision of both operands; "mixed" if they differ and one is highest: GPUs use the higher, TPUs both."""
    words = [str(word).lower() for word in instruction.items_of("operand_precision", str)]
    if not words and (config := instruction.backend_config) is not None:
        listed = config.get(*_PRECISION_CONFIG_PATH, "operand_precision")
        words = [str(word).lower() for word in listed] if isinstance(listed, tuple) else []
    if len(set(words)) == 1:
        return words[0]
    return "mixed" if "highest" in words else ""
