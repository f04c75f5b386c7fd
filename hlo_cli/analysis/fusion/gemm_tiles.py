"""Into how many parts does XLA:GPU split a dot, and which tiles may its kernel have?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import isqrt, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from hlo_cli.analysis.fusion.gpu_emitters import bits_of, sizes_of, type_of
from hlo_cli.analysis.fusion.mutable_graph import Node, is_elementwise
from hlo_cli.analysis.hardware.gpu_devices import BLOCK_REGISTERS, GpuDevice
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


def split_of(dot: Node, device: GpuDevice) -> int:
    """Number of parts that a dot is split into, 1 if it stays."""
    contracting = [operand_dimensions(dot, number).contracting for number in (0, 1)]
    # The rewriter leaves dots that contract several dimensions, and s32, which no library multiplies.
    if any(len(each) != 1 for each in contracting) or any(type_of(each) == "s32" for each in dot.operands[:2]):
        return 1
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


# --- tiles ---
# The tiles that a compiler with a GPU measures for the kernel of a dot; one without a GPU takes the first.
#
# Mirrors `TritonDotFusionSearchSpace` of xla/backends/gpu/autotuner/triton/dot_search_space.cc. A chip has its list in
# a file of the folder default_configs there.


_REGISTER_BITS: Final = 32  # dot_search_space.cc: `kRegisterSizeInBits`
_MAX_BLOCK_WARPS: Final = 32  # a block has at most 1,024 threads
_SCHEDULERS: Final = 4  # dot_search_space.cc: of a core
_WARPS_PER_SCHEDULER: Final = 5  # `kMaxWarpsPerScheduler`; as many stages hide latency in place of more warps
_WARP_GROUP: Final = 4  # `kMinWarpsPerCtaForWgmma`
_MIN_WARPS: Final = 2  # `kMinWarpsPerCtaForOccupancy`
_MIN_CONTRACTED: Final = 16  # `kTritonLowerLimit`
_MMA_BITS: Final = 128  # `kMmaContractingBitwidth`
_MIN_TILE: Final = (16, 8)
_MIN_WGMMA_TILE: Final = (64, 8)
_MMA_TILE: Final = (16, 8)
"""Rows and columns of one instruction that multiplies."""
_MANY_TILINGS: Final = 24  # `kMinConfigsForOccupancyOptimization`
_EXPENSIVE: Final = frozenset(
    "atan2 cosine exponential exponential-minus-one log log-plus-one logistic power rsqrt sine sqrt tan tanh".split()
)
"""Operations that a larger tile of the other operand computes less often."""
_SHARED_BYTES: Final = {100: 232_448, 90: 232_448, 80: 166_912}
"""Bytes of shared memory that a block can ask for, by compute capability (`shared_memory_per_block_optin`)."""
_DEFAULTS: Final = {
    100: """
        16x16x128/2/1 32x16x64/2/3 32x16x256/2/3 32x32x32/2/4 64x16x128/2/3t 64x16x128/4/3 64x16x256/4/3t
        64x16x128/4/3 64x32x64/2/1t 64x64x16/32/1 64x64x64/2/1t 64x64x128/4/3t 64x128x16/2/3 64x128x64/4/4
        64x128x64/4/5t 128x16x256/4/2 128x16x128/4/3t 128x32x64/4/3 128x32x64/4/3t 128x64x128/4/3
        128x128x64/4/3t 128x128x64/4/4 128x128x128/8/1t 128x128x128/4/3t 128x128x256/8/1t 128x256x16/4/4t
        128x256x32/4/3t 128x256x32/8/3 128x256x32/4/4t 128x256x64/4/3t 128x256x64/8/3 128x256x64/4/4t
        256x16x32/2/3 256x16x64/4/3t 256x16x64/4/4 256x64x64/4/3t 256x64x128/4/3t 256x128x32/8/5t
        256x256x32/8/3 256x256x32/8/5t
    """,
    90: """
        16x8x16/2/1 16x16x128/2/3 16x32x64/2/3 64x8x64/2/3t 64x8x128/4/3 64x16x256/4/1 64x32x64/4/1
        64x64x16/2/1 64x64x32/2/1 64x128x64/4/3t 64x128x128/4/1t 128x8x32/4/4 128x16x64/4/4t 128x32x64/4/3
        128x64x16/2/3 128x64x32/2/3 128x64x32/4/3t 128x64x128/4/3t 128x128x16/4/4t 128x128x32/4/4t
        128x128x64/4/3t 128x256x64/8/3 128x256x64/8/4t 128x256x128/8/3t 256x128x64/8/4t
    """,
    80: """
        16x8x128/2/1 16x32x64/2/3 64x8x16/2/1 64x8x128/4/3 64x16x16/2/1 64x64x16/2/1 64x64x32/2/1
        64x64x32/4/1 64x64x32/4/3 64x128x16/2/1 64x128x16/2/1 64x128x16/2/3 64x128x64/4/1 64x128x64/4/3
        64x128x128/4/1 128x8x32/2/4 128x16x64/4/4 128x32x16/4/1 128x32x64/4/3 128x64x16/2/1 128x64x16/2/3
        128x64x128/4/3 128x128x16/4/4 128x128x32/4/4 128x128x32/8/4 128x256x16/8/4 128x256x32/8/4
        128x256x64/8/3 128x256x64/8/4 256x8x16/2/1
    """,
}
"""Rows x columns x contracted / warps / stages of each tile that XLA tries by default; t with asynchronous copies."""


class GemmTile(NamedTuple):
    """A tile of the kernel of a dot: rows, columns, and contracted elements at once, warps of a block, and stages.

    `is_tma` says that tiles are copied by the tensor memory accelerator.

    >>> GemmTile(64, 32, 16, 4, 2).shared_bytes(16)
    6144
    """

    rows: int
    columns: int
    contracted: int
    warps: int
    stages: int
    is_tma: bool = False

    def shared_bytes(self, bits: int) -> int:
        """Bytes of shared memory that the tiles of both operands take, of elements of some bits, in all stages."""
        return (self.rows + self.columns) * self.contracted * bits // 8 * self.stages

    def blocks(self, sizes: DotSizes) -> int:
        """Number of blocks of the kernel of a dot of these sizes."""
        return sizes.batch * -(-sizes.rows // self.rows) * -(-sizes.columns // self.columns)


def candidate_tiles(dot: Node, device: GpuDevice) -> list[GemmTile]:
    """Tiles that XLA tries for the kernel that a dot is in, in their order; empty for chips without a list.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = "f32[512,512] dot(f32[512,512] a, f32[512,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    >>> candidate_tiles(mutable_graph_of(parse_module(f"r = {text}").entry).root, gpu_device("h100"))[0]
    GemmTile(rows=16, columns=8, contracted=16, warps=2, stages=1, is_tma=False)
    """
    generation = device.capability // 10 * 10
    if generation not in _DEFAULTS:
        return []
    return _TileSpace(dot, device, generation).candidates()


class _TileSpace:
    """The space of tiles of one dot."""

    def __init__(self, dot: Node, device: GpuDevice, generation: int) -> None:
        self.sizes = dot_sizes(dot)
        self.cores = device.core_count
        self.generation = generation
        self.bits = bits_of(dot.operands[0].shape)
        self.result_bits = bits_of(dot.shape)
        self.is_left_expensive, self.is_right_expensive = (_has_expensive(each) for each in dot.operands[:2])
        self.most = self._largest()
        wanted_blocks = _WARPS_PER_SCHEDULER * _SCHEDULERS * self.cores // _WARP_GROUP
        is_small = wanted_blocks > self._blocks(self.most)
        is_wgmma = generation >= 90 and not is_small  # Hopper has wgmma
        self.least = _MIN_WGMMA_TILE if is_wgmma else _MIN_TILE
        # Triton's code for 32 bits is best with few warps.
        self.least_warps = _WARP_GROUP if is_wgmma and self.bits < _REGISTER_BITS else _MIN_WARPS
        self.least_contracted = max(_MMA_BITS // self.bits, _MIN_CONTRACTED)
        rows, columns = self.least
        self.most = max(rows, self.most[0]), max(columns, self.most[1])

    def candidates(self) -> list[GemmTile]:
        """The tiles of the space that are in the chip's list, moved into the ranges of the dot."""
        defaults = _parsed_defaults(self.generation)
        wanted = {self._clamped(tile) for tile in defaults}
        return [tile for tile in self._all() if tile in wanted] or list(defaults)

    def _all(self) -> Iterator[GemmTile]:
        for rows, columns in self._tilings():
            least = self.least_contracted
            limit = self._shared_limit(rows, columns)
            most = max(least, min(_power_above(self.sizes.contracted), _power_below(limit)))
            blocks = -(-rows // _MMA_TILE[0]) * -(-columns // _MMA_TILE[1])
            for warps in _powers(self.least_warps, max(self.least_warps, min(_MAX_BLOCK_WARPS, blocks))):
                for contracted in _powers(least, most):
                    steps = -(-self.sizes.contracted // contracted)
                    fitting = max(1, -(-limit // contracted))
                    for stages in range(1, min(steps, fitting, _WARPS_PER_SCHEDULER) + 1):
                        for is_tma in (False, True) if self.generation >= 90 else (False,):  # Hopper has TMA
                            yield GemmTile(rows, columns, contracted, warps, stages, is_tma)

    def _tilings(self) -> list[tuple[int, int]]:
        found = []
        for rows in _powers(self.least[0], self.most[0]):
            least, most = self.least[1], self.most[1]
            if rows < self.sizes.rows and rows // 2 <= most and least <= rows * 2:
                # Square tiles read least, unless repeating what an operand computes costs more.
                least = least if self.is_right_expensive else max(rows // 2, least)
                most = most if self.is_left_expensive else min(rows * 2, most)
            found += [(rows, columns) for columns in _powers(least, most)]
        if len(found) < _MANY_TILINGS:
            return found
        return [tile for tile in found if self._blocks(tile) >= self.cores] or [self.least]

    def _clamped(self, tile: GemmTile) -> GemmTile:
        rows = min(max(tile.rows, self.least[0]), self.most[0])
        columns = min(max(tile.columns, self.least[1]), self.most[1])
        most = min(_power_above(self.sizes.contracted), _power_below(self._shared_limit(rows, columns)))
        contracted = min(max(tile.contracted, self.least_contracted), max(self.least_contracted, most))
        return tile._replace(rows=rows, columns=columns, contracted=contracted)

    def _largest(self) -> tuple[int, int]:
        area = BLOCK_REGISTERS * _REGISTER_BITS // self.result_bits
        rows = _power_below(isqrt(area))
        columns = _power_below(area // rows)
        most_rows, most_columns = _power_above(self.sizes.rows), _power_above(self.sizes.columns)
        if most_rows < rows:
            rows, columns = most_rows, min(_power_below(area // most_rows), most_columns)
        if most_columns < columns:
            rows, columns = min(_power_below(area // most_columns), most_rows), most_columns
        return rows, columns

    def _blocks(self, tile: tuple[int, int]) -> int:
        return GemmTile(*tile, 0, 0, 0).blocks(self.sizes)

    def _shared_limit(self, rows: int, columns: int) -> int:
        """Contracted elements of both tiles that fit in shared memory."""
        return 8 * _SHARED_BYTES[self.generation] // self.result_bits // (rows + columns)


@cache
def _parsed_defaults(generation: int) -> tuple[GemmTile, ...]:
    found = []
    for word in _DEFAULTS[generation].split():
        tile, warps, stages = word.removesuffix("t").split("/")
        rows, columns, contracted = map(int, tile.split("x"))
        found.append(GemmTile(rows, columns, contracted, int(warps), int(stages), word.endswith("t")))
    return tuple(found)


def _has_expensive(node: Node) -> bool:
    waiting, reached = [node], {node}
    for each in waiting:
        if each.opcode in _EXPENSIVE:
            return True
        waiting += [operand for operand in each.operands if operand not in reached]
        reached.update(each.operands)
    return False


def _power_above(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def _power_below(size: int) -> int:
    return 1 << max(0, size.bit_length() - 1)


def _powers(least: int, most: int) -> Iterator[int]:
    """Least, doubled up to most."""
    while least <= most:
        yield least
        least *= 2


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
