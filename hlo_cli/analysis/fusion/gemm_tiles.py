"""Into how many parts does XLA:GPU split a dot, and which tiles may its kernel have?"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from hlo_cli.analysis.fusion.gpu_emitters import bits_of, sizes_of, type_of
from hlo_cli.analysis.fusion.mutable_graph import Node, is_elementwise
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.ir.shape import ArrayShape

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# --- dimensions of a dot ---
# Which dimensions of the operands of a dot are batch, contracting, and of one operand alone, and how large they are.
#
# Mirrors `DotOperandDims` of xla/service/matmul_indexing_utils.h.


class OperandDimensions(NamedTuple):
    """Dimensions of one operand of a dot: of the batch, contracting, and of this operand alone."""

    batch: tuple[int, ...]
    contracting: tuple[int, ...]
    own: tuple[int, ...]


def operand_dimensions(dot: Node, number: int) -> OperandDimensions:
    """Dimensions of operand 0 or 1 of a dot.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "r = f32[2,4] dot(f32[2,3] a, f32[3,4] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> operand_dimensions(mutable_graph_of(parse_module(text).entry).root, 1)
    OperandDimensions(batch=(), contracting=(0,), own=(1,))
    """
    side = ("lhs", "rhs")[number]
    batch = dot.instruction.integers(f"{side}_batch_dims")
    contracting = dot.instruction.integers(f"{side}_contracting_dims")
    rank = len(sizes_of(dot.operands[number]))
    own = tuple(d for d in range(rank) if d not in batch and d not in contracting)
    return OperandDimensions(batch, contracting, own)


class DotSizes(NamedTuple):
    """Sizes of a dot: of the batch, rows, columns, and what is contracted."""

    batch: int
    rows: int
    columns: int
    contracted: int


def dot_sizes(dot: Node) -> DotSizes:
    """Sizes of a dot.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "r = f32[2,4] dot(f32[2,3] a, f32[3,4] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot_sizes(mutable_graph_of(parse_module(text).entry).root)
    DotSizes(batch=1, rows=2, columns=4, contracted=3)
    """
    left, right = (sizes_of(operand) for operand in dot.operands[:2])
    of_left, of_right = operand_dimensions(dot, 0), operand_dimensions(dot, 1)
    return DotSizes(
        prod(left[d] for d in of_left.batch),
        prod(left[d] for d in of_left.own),
        prod(right[d] for d in of_right.own),
        prod(left[d] for d in of_left.contracting),
    )


def accumulator_type(dot: Node) -> str:
    """Element type in which a dot sums: f32 for floats of up to 32 bits, else that of the result.

    Mirrors `GetGemmAccumulatorType` of xla/service/gpu/matmul_utils.cc.
    """
    name = type_of(dot)
    is_float = name.startswith(("f", "bf")) and bits_of(dot.shape) <= 32  # f64 sums in f64
    return "f32" if is_float else name


# --- split-K ---
# How many parts the contracting dimension of a dot is split into, each part a dot of a batch, so that all cores work.
#
# Mirrors `ChooseSplitK` of xla/backends/gpu/transforms/splitk_rewriter.cc.


_SPLIT_TILE: Final = 128  # splitk_rewriter.cc: rows and columns of the tile for which the cost is estimated
_MAX_SPLIT: Final = 2048  # splitk_rewriter.cc: the largest of its candidates, which are powers of two
_ALIGNED_BITS: Final = 128  # splitk_rewriter.cc: each part begins at a multiple of 16 bytes
_OPERATIONS: Final = {
    "dot_bf16_bf16_f32_x3": 12,
    "dot_tf32_tf32_f32_x3": 12,
    "dot_bf16_bf16_f32_x6": 20,
    "dot_bf16_bf16_f32_x9": 28,
}
"""Operations for an element of a product by algorithms with several products (`GetAlgoritmFlopsPerElement`)."""


class _Weights(NamedTuple):
    """Weights of a cost, fitted by XLA's authors: of operations, of bytes, of bytes of the reduce, and its launch."""

    compute: float
    memory: float
    reduce: float
    launch: float


# `GetCostWeights` of splitk_rewriter.cc, by the first capability that has them.
_WEIGHTS: Final = (
    (100, _Weights(100.0, 0.0848863, 189.711, 1.21563e08)),
    (90, _Weights(100.0, 0.194136, 193.1384, 4.36e07)),
    (0, _Weights(100.0, 0.0666955, 467.815, 5.65307e07)),
)


class SplitCost(NamedTuple):
    """Estimated cost, without a unit, of a dot that is split into `parts`."""

    parts: int
    cost: float


def split_costs(dot: Node, device: GpuDevice) -> list[SplitCost]:
    """The estimated cost of a dot for each number of parts that XLA considers.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = "f32[64,64] dot(f32[64,16384] a, f32[16384,64] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> dot = mutable_graph_of(parse_module(f"r = {text}").entry).root
    >>> [each.parts for each in split_costs(dot, gpu_device("h100"))][:3], split_of(dot, gpu_device("h100"))
    ([1, 2, 4], 64)
    """
    weights = next(weights for least, weights in _WEIGHTS if device.capability >= least)
    parts, costs = 1, []
    while parts <= _MAX_SPLIT:
        costs.append(SplitCost(parts, _split_cost(dot, parts, device.core_count, weights)))
        parts *= 2
    return costs


def split_of(dot: Node, device: GpuDevice, forced: int = 0) -> int:
    """Number of parts that a dot is split into, 1 if it stays; `forced` is xla_gpu_experimental_force_split_k."""
    contracting = [operand_dimensions(dot, number).contracting for number in (0, 1)]
    # The rewriter leaves dots that contract several dimensions, and s32, which no library multiplies.
    if any(len(each) != 1 for each in contracting) or any(type_of(each) == "s32" for each in dot.operands[:2]):
        return 1
    if forced > 0:
        return forced
    # The first of equal costs, as std::min_element.
    return min(split_costs(dot, device), key=lambda each: each.cost).parts


def padded_contraction(dot: Node, parts: int) -> int:
    """Size of the contracting dimension, padded so that each part begins at a multiple of 16 bytes."""
    bits = min(_ALIGNED_BITS, *map(_source_bits, dot.operands[:2]))
    multiple = parts * _ALIGNED_BITS // bits
    return -(-dot_sizes(dot).contracted // multiple) * multiple


def _split_cost(dot: Node, parts: int, cores: int, weights: _Weights) -> float:
    batch, rows, columns, contracted = dot_sizes(dot)
    summed = _accumulator_bits(dot)
    written = bits_of(dot.shape)
    tile_rows, tile_columns = min(rows, _SPLIT_TILE), min(columns, _SPLIT_TILE)
    tiles = float(batch * parts * -(-rows // _SPLIT_TILE) * -(-columns // _SPLIT_TILE))
    # A core holds several tiles that are smaller than the largest; a part of a wave takes as long as its share.
    slots = float(cores) * (float(_SPLIT_TILE * _SPLIT_TILE) / float(tile_rows * tile_columns))
    waves = max(1.0, tiles / slots)
    operations = _OPERATIONS.get(dot.instruction.attribute("algorithm") or "", 2)  # to multiply and to add
    compute = float(operations) * tile_rows * tile_columns * -(-contracted // parts) * waves * weights.compute
    left, right = map(_source_bits, dot.operands[:2])
    read = float(rows) * contracted * batch * left / 8.0 + float(columns) * contracted * batch * right / 8.0
    result = float(rows) * columns * (batch * parts) * (summed if parts > 1 else written) / 8.0
    cost = max(compute, (read + result) * weights.memory)
    if parts == 1:
        return cost
    reduced = float(batch * parts) * rows * columns * summed / 8.0 + float(batch) * rows * columns * written / 8.0
    return cost + weights.launch + reduced * weights.reduce


def _source_bits(operand: Node) -> int:
    """Bits of an element before the elementwise operations that a kernel will compute from it."""
    while len(operand.operands) == 1 and operand.body is None and is_elementwise(operand):
        operand = operand.operands[0]
    return bits_of(operand.shape)


def _accumulator_bits(dot: Node) -> int:
    return 32 if accumulator_type(dot) == "f32" else bits_of(dot.shape)  # f32 has as many


# --- zeros ---


_STORED: Final = {"bf16": "uint16", "f16": "float16", "f32": "float32", "f64": "float64", "pred": "bool"}
"""Types of numpy that store elements, where they are not unsigned integers of as many bits."""


class Zeros:
    """The values of a constant of zeros, with which split-K pads operands and begins sums.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> Zeros().array(parse_shape("s8[2]")).tolist(), Zeros().stored(parse_shape("bf16[]")).dtype.name
    ([0, 0], 'uint16')
    """

    def stored(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as stored bits."""
        return self._zeros(shape, _STORED.get(shape.element_type.name, "uint8"))

    def array(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as numbers."""
        kind = shape.element_type.name
        name = {"s": "int", "u": "uint"}.get(kind[0], "float") + str(max(8, shape.element_type.bits))
        is_float = kind[0] in "bf"
        return self._zeros(shape, _STORED[kind] if kind in ("f16", "f64", "pred") else "float32" if is_float else name)

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints, of a scalar."""
        return "0"

    def _zeros(self, shape: ArrayShape, name: str) -> npt.NDArray[np.generic]:
        import numpy as np

        return np.zeros(shape.dimensions, dtype=name)
