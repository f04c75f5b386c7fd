"""Dimensions of the matmuls of a module: dots, convolutions, and library calls that implement them.

Mirrors `GemmConfig::For` of xla/service/gpu/matmul_utils.cc, and `GetConvolutionFlops` of
xla/service/gpu/model/gpu_hlo_cost_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Final, Literal

from hlo_cli.analysis.cost.counting import measure
from hlo_cli.analysis.cost.dots_and_convs import FMA_FLOPS, convolution_flops
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import Json
from hlo_cli.ir.attributes.value_types import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    convolution_dimension_numbers,
    dot_dimension_numbers,
)
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import MATMULS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

Kind = Literal["dot", "scaled-dot", "ragged-dot", "convolution", "cuBLAS", "cuDNN"]

_CUBLAS: Final = ("__cublas$gemm", "__cublas$lt$matmul")
_CUDNN: Final = "__cudnn$conv"
LIBRARY_DOTS: Final = (*_CUBLAS, "__cublas$lt$", "__onednn$matmul")
"""Prefixes of custom-call targets that implement a dot on GPU and CPU."""
LIBRARY_CONVOLUTIONS: Final = (_CUDNN, "__onednn$convolution")
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


def matmuls_of(module: Module) -> tuple[Matmul, ...]:
    """Matmuls of a module in the order of the text.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { a = bf16[8,128,64] parameter(0)  b = bf16[8,32,64] parameter(1)
    ...   ROOT d = f32[8,128,32] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
    ...     lhs_contracting_dims={2}, rhs_contracting_dims={2} }'''
    >>> [(found.batch, found.m, found.n, found.k, found.flops) for found in matmuls_of(parse_module(text))]
    [(8, 128, 32, 64, 4194304)]
    """
    fusions = _outermost_fusions(module)
    found = (matmul_of(i, fusions.get(i.computation)) for i in module.instructions)
    return tuple(matmul for matmul in found if matmul is not None)


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
            return _dot(instruction, opcode, numbers, fusion) if numbers is not None else None
        case opcodes.CONVOLUTION:
            return _convolution(instruction, fusion)
        case opcodes.CUSTOM_CALL:
            return _library_call(instruction, fusion)
        case _:
            return None


def _library_call(call: Instruction, fusion: Instruction | None) -> Matmul | None:
    target = call.string("custom_call_target") or ""
    if target.startswith(_CUDNN):
        return _convolution(call, fusion)
    config = call.backend_config
    if not target.startswith(_CUBLAS) or config is None:
        return None
    sides = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
    path = ("gemm_backend_config", "dot_dimension_numbers")
    listed = (_integers(config.get(*path, f"{side}_dimensions")) for side in sides)
    return _dot(call, "cuBLAS", DotDimensionNumbers(*listed), fusion)


def _dot(
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
    groups = instruction.integers("rhs_group_dims")
    n = _sizes(rhs, _others(rhs, numbers.rhs_batch_dimensions, numbers.rhs_contracting_dimensions, groups))
    flops = FMA_FLOPS * batch * m * n * k
    return Matmul(instruction, kind, batch, m, n, k, lhs, rhs, result, numbers, flops, fusion)


def _convolution(instruction: Instruction, fusion: Instruction | None) -> Matmul | None:
    numbers = convolution_dimension_numbers(instruction)
    lhs, rhs, result = _roles(instruction)
    if numbers is None or lhs is None or rhs is None or result is None:
        return None
    inputs, kernel, outputs = measure(lhs), measure(rhs), measure(result)
    groups = (instruction.integer("feature_group_count") or 1) * (instruction.integer("batch_group_count") or 1)
    spatial = prod(outputs.size(d) for d in numbers.output_spatial_dimensions)
    m = outputs.size(numbers.output_batch_dimension) * spatial
    n = outputs.size(numbers.output_feature_dimension) // groups
    taps = prod(kernel.size(d) for d in numbers.kernel_spatial_dimensions)
    k = kernel.size(numbers.kernel_input_feature_dimension) * taps
    flops = convolution_flops(instruction, inputs, kernel, outputs)
    kind: Kind = "convolution" if instruction.opcode == opcodes.CONVOLUTION else "cuDNN"
    return Matmul(instruction, kind, groups, m, n, k, lhs, rhs, result, numbers, flops, fusion)


def _roles(instruction: Instruction) -> tuple[ArrayShape | None, ArrayShape | None, ArrayShape | None]:
    """Input, kernel, and output by dim_labels: a gradient call returns the input or the kernel."""
    first, second, result = _array(instruction, 0), _array(instruction, 1), _first(instruction.shape)
    target = instruction.string("custom_call_target") or "" if instruction.opcode == opcodes.CUSTOM_CALL else ""
    if target.startswith(f"{_CUDNN}BackwardInput"):
        return result, second, first
    if target.startswith(f"{_CUDNN}BackwardFilter"):
        return first, result, second
    return first, second, result


def _outermost_fusions(module: Module) -> dict[Computation, Instruction]:
    """Outermost fusion around each fused computation."""
    callers = {c: i for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    outermost = {}
    for computation, caller in callers.items():
        seen = {computation}
        while (outer := callers.get(caller.computation)) is not None and caller.computation not in seen:
            seen.add(caller.computation)
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
