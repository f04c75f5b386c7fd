"""How does XLA:GPU tile a fusion that Triton compiles, and how long does it take by XLA's model?

A tile of the result is followed to the arguments; what one block computes and reads follows from the tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.fusion.dimension_order import is_elementwise_in_triton
from hlo_cli.analysis.fusion.gpu_emitters import View, bits_of, bytes_of, sizes_of, type_of
from hlo_cli.analysis.fusion.gpu_model import TRITON, DeviceTime, KernelModel, KernelTime, Launch, overlapped
from hlo_cli.analysis.fusion.gpu_rules import NO_TILING, is_triton
from hlo_cli.analysis.fusion.gpu_work import OperationWork, seconds
from hlo_cli.analysis.fusion.mutable_graph import Node, is_elementwise
from hlo_cli.analysis.hardware.gpu_devices import BLOCK_REGISTERS, GpuDevice
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

# --- tiles of all operations ---
# Mirrors the part of xla/codegen/tiling/symbolic_tile_analysis.cc that needs no symbolic expressions: a side of a tile
# is that of a dimension of the result, or the whole dimension.


TILED: Final = "not modeled: a tile of {opcode}"
"""Why a fusion is not tiled here: XLA has tiles that are no product of ranges."""
_WHOLE: Final = -1  # sides below 0 are whole dimensions: their sizes, negated


class NotTiled(Exception):
    """No tiles are known for an operation."""


Side: TypeAlias = int
"""A side of a tile: the dimension of the result whose side it has, or the negated size of a whole dimension."""


class TritonTiles:
    """The tiles of a fusion of one result: of each operation and argument, as functions of the tile of the result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.gpu_emitters import Part
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> root = mutable_graph_of(parse_module("r = f32[3,2] exponential(f32[3,2] a)").entry).root
    >>> list(TritonTiles(View(Part(root))).tilings())
    [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    """

    __slots__ = ("arguments", "operations", "root", "sizes")

    def __init__(self, view: View) -> None:
        roots = view.roots
        if len(roots) != 1 or not isinstance(roots[0].shape, ArrayShape):
            raise NotTiled(TILED.format(opcode=opcodes.TUPLE))
        self.root = roots[0]
        self.sizes = sizes_of(self.root)
        self.operations: dict[tuple[Node, tuple[Side, ...]], None] = {}
        self.arguments: dict[tuple[Node, tuple[Side, ...]], None] = {}
        waiting = [(self.root, tuple(range(len(self.sizes))))]
        for each in waiting:
            node, tile = each
            if not view.contains(node):
                self.arguments[each] = None
            elif each not in self.operations:
                self.operations[each] = None
                for operand, given in zip(view.operands(node), node.operands, strict=True):
                    waiting.append((operand, _operand_tile(node, given, tile)))

    def tilings(self) -> Iterator[tuple[int, ...]]:
        """Tiles of the result: powers of two and the whole of each dimension, the last one fastest."""
        return product(*map(_sides, self.sizes))


def _sides(size: int) -> list[int]:
    return [1 << power for power in range(max(0, size - 1).bit_length())] + [size]


def _operand_tile(node: Node, operand: Node, tile: tuple[Side, ...]) -> tuple[Side, ...]:
    """The tile of an operand that a tile of the result is computed from."""
    whole = tuple(-size for size in sizes_of(operand))
    if not whole:
        return ()
    match node.opcode:
        case opcodes.BROADCAST:
            return tuple(tile[d] for d in node.instruction.integers("dimensions"))
        case opcodes.TRANSPOSE:
            order = node.instruction.integers("dimensions")
            return tuple(tile[order.index(d)] for d in range(len(order)))
        case opcodes.REDUCE:
            reduced = node.instruction.integers("dimensions")
            kept = iter(tile)
            return tuple(whole[d] if d in reduced else next(kept) for d in range(len(whole)))
        case opcodes.BITCAST | opcodes.RESHAPE:
            return _reshaped_tile(sizes_of(node), sizes_of(operand), tile, node.opcode)
    if is_elementwise(node) and is_elementwise_in_triton(node.opcode, type_of(node.operands[0])):
        return tile
    raise NotTiled(TILED.format(opcode=node.opcode))


def _reshaped_tile(
    result: Sequence[int], operand: Sequence[int], tile: tuple[Side, ...], opcode: str
) -> tuple[Side, ...]:
    """The same tile without, or with, dimensions of one element."""
    kept = [side for size, side in zip(result, tile, strict=True) if size != 1]
    if [size for size in result if size != 1] != [size for size in operand if size != 1]:
        raise NotTiled(TILED.format(opcode=opcode))
    sides = iter(kept)
    return tuple(_WHOLE if size == 1 else next(sides) for size in operand)


# --- time of a tiling ---
# Mirrors `EstimateRunTimeForTiledHloComputation` of xla/service/gpu/model/gpu_indexing_performance_model.cc, and
# xla/service/gpu/model/coalescing_analysis.cc.


_KEPT: Final = 0.4  # `DoesComputationFitInRegisters`: the share of registers that a tile may take
_MAX_TILE: Final = 1_048_576  # Triton's own limit on elements of a tensor
_TRANSACTION: Final = 64  # bytes that are read at least, as of a sector pair
_WARPS: Final = ((256, 1), (1024, 2), (4096, 4))
"""Warps by the number of elements of the largest tile, from the first that is not exceeded (`GetNumWarps`)."""
_MOST_WARPS: Final = 8  # of larger tiles, in the same function
_WARP: Final = 32  # threads of a warp on NVIDIA GPUs


class Tiling(NamedTuple):
    """A tile of the result with the time of the kernel in ticks, its warps, and its blocks."""

    tile: tuple[int, ...]
    ticks: int
    warps: int
    blocks: int


class TritonModel:
    """Times of fusions that Triton compiles, on one device."""

    __slots__ = ("_bandwidth", "_time", "_work")

    def __init__(self, device: GpuDevice) -> None:
        self._time = DeviceTime(device)
        self._work = OperationWork(device.profile)
        self._bandwidth = device.memory_bandwidth

    def tilings(self, tiles: TritonTiles) -> list[Tiling | None]:
        """Every tiling that Triton can compile, with its time; None for those whose tiles a block cannot hold.

        >>> from hlo_cli import parse_module
        >>> from hlo_cli.analysis.fusion.gpu_emitters import Part
        >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
        >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
        >>> root = mutable_graph_of(parse_module("r = f32[9,8192] negate(f32[9,8192] a)").entry).root
        >>> found = TritonModel(gpu_device("h100")).tilings(TritonTiles(View(Part(root))))
        >>> len(found), found.count(None)
        (70, 6)
        """
        found = []
        for tile in tiles.tilings():
            each = _Concrete(tiles, tile)
            if each.largest <= _MAX_TILE:
                found.append(self._timed(tiles, each) if each.fits else None)
        return found

    def best(self, tiles: TritonTiles) -> Tiling | None:
        """The fastest tiling, the first of equals; None if a block can hold none."""
        found: Tiling | None = None
        for tile in tiles.tilings():
            # Most tiles are too large already as those of the result or an argument, which is quickly seen.
            if _fits(tile) and all(_fits(_concrete(sides, tile)) for _, sides in tiles.arguments):
                each = _Concrete(tiles, tile)
                tiling = self._timed(tiles, each) if each.largest <= _MAX_TILE else None
                if tiling is not None and (found is None or tiling.ticks < found.ticks):
                    found = tiling
        return found

    def _timed(self, tiles: TritonTiles, concrete: _Concrete) -> Tiling:
        tile = concrete.tile
        warps = next((warps for most, warps in _WARPS if concrete.largest <= most), _MOST_WARPS)
        blocks = prod(-(-size // side) for size, side in zip(tiles.sizes, tile, strict=True))
        flops = sum(self._work.per_element(node) * blocks * _padded(sides) for node, sides in concrete.operations)
        memory = self._read(concrete.arguments, blocks)
        rate = _rate(tiles.root, tile, is_result=True)
        # In whole bytes a second, as XLA truncates it.
        memory += seconds(bytes_of(tiles.root.shape) / int(rate * self._bandwidth))
        ticks = overlapped(self._time.compute(flops, Launch(blocks, warps * _WARP)), memory)
        return Tiling(tile, ticks, warps, blocks)

    def _read(self, arguments: set[tuple[Node, tuple[int, ...]]], blocks: int) -> int:
        """Ticks to read all arguments."""
        counts: dict[Node, int] = {}
        rates: dict[Node, float] = {}
        for node, sides in arguments:
            elements = prod(min(side, size) for side, size in zip(sides, sizes_of(node), strict=True))
            counts[node] = counts.get(node, 0) + blocks * elements * -(-bits_of(node.shape) // 8)
            # XLA takes the worst pattern for all reads of an argument.
            rates[node] = min(rates.get(node, 1.0), _rate(node, sides, is_result=False))
        return sum(self._time.read(bytes_of(node.shape), counts[node], blocks, rates[node]) for node in counts)


class _Concrete:
    """The tiles of all operations and arguments for one tile of the result; equal ones are computed once."""

    __slots__ = ("arguments", "largest", "operations", "tile")

    def __init__(self, tiles: TritonTiles, tile: tuple[int, ...]) -> None:
        self.tile = tile
        self.arguments = {(node, _concrete(sides, tile)) for node, sides in tiles.arguments}
        self.operations = {(node, _concrete(sides, tile)) for node, sides in tiles.operations}
        self.largest = max(_padded(sides) for _, sides in (*self.operations, *self.arguments))

    @property
    def fits(self) -> bool:
        """Whether the registers of a block hold the tiles of the result and of each argument."""
        return _fits(self.tile) and all(_fits(sides) for _, sides in self.arguments)


def _fits(sides: tuple[int, ...]) -> bool:
    """Whether the registers of a block hold a tile."""
    return _padded(sides) <= _KEPT * BLOCK_REGISTERS


def _concrete(sides: tuple[Side, ...], tile: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([tile[side] if side >= 0 else -side for side in sides])


def _padded(sides: tuple[int, ...]) -> int:
    """Elements of a tile whose sides are rounded up to powers of two, as Triton requires."""
    return prod([1 << (side - 1).bit_length() for side in sides])


def _rate(node: Node, sides: tuple[int, ...], *, is_result: bool) -> float:
    """Share of the bandwidth that reading or writing tiles of an array uses."""
    shape = node.shape
    assert isinstance(shape, ArrayShape)
    count = -(-bits_of(shape) // 8)
    for d in shape.layout.minor_to_major:
        size = shape.sizes[d]
        # XLA sees no stride in a dimension of one element of an argument, so that it stops there.
        if size == 1 and not is_result:
            break
        count *= min(sides[d], size)
        if sides[d] < size:
            break
    return count / (-(-count // _TRANSACTION) * _TRANSACTION)


# --- kernels of Triton among others ---
# Mirrors how xla/backends/gpu/transforms/priority_fusion.cc asks for the best tiling of what Triton compiles.


TRITON_EMITTER: Final = "triton"


class TritonKernelModel(KernelModel):
    """Times of kernels, those of fusions that Triton compiles among them."""

    __slots__ = ("_alone", "_pairs", "_triton")

    def __init__(self, device: GpuDevice) -> None:
        super().__init__(device)
        self._triton = TritonModel(device)
        self._alone: dict[Node, Tiling | str] = {}
        self._pairs: dict[Node, dict[Node, Tiling | str]] = {}

    def forget(self, node: Node) -> None:
        """Forgets what is known of a node that changed."""
        super().forget(node)
        self._alone.pop(node, None)
        self._pairs.pop(node, None)
        for operand in node.operands:
            self._pairs.get(operand, {}).pop(node, None)

    def tiling_of(self, node: Node) -> Tiling | None:
        """The best tiling of a fusion; None if it has none or none is known."""
        if node not in self._alone:
            self._alone[node] = self._best(View(self.part(node)))
        found = self._alone[node]
        return found if isinstance(found, Tiling) else None

    def triton_reason(self, producer: Node, consumer: Node) -> str | None:
        """The reason against fusing two of which Triton compiles one; None if there is none."""
        found = self._pair(producer, consumer)
        return found if isinstance(found, str) else None

    def time(self, node: Node) -> KernelTime:
        """Time of the kernel of a node; of a fusion for Triton, with its best tiling."""
        if is_triton(node) and (tiling := self.tiling_of(node)) is not None:
            return _kernel_time(tiling)
        return super().time(node)

    def fused_time(self, producer: Node, consumer: Node, *, keeps_producer: bool = False) -> KernelTime:
        """Time of the kernel of a producer fused into a consumer."""
        if is_triton(producer) or is_triton(consumer):
            found = self._pair(producer, consumer)
            if isinstance(found, Tiling):
                return _kernel_time(found)
        return super().fused_time(producer, consumer, keeps_producer=keeps_producer)

    def _pair(self, producer: Node, consumer: Node) -> Tiling | str:
        known = self._pairs.setdefault(producer, {})
        if consumer not in known:
            known[consumer] = self._best(View(self.part(consumer), self.part(producer)))
        return known[consumer]

    def _best(self, view: View) -> Tiling | str:
        try:
            return self._triton.best(TritonTiles(view)) or NO_TILING
        except NotTiled:
            return TRITON


def _kernel_time(tiling: Tiling) -> KernelTime:
    """The time of a kernel by its tiling; the parts are not kept."""
    return KernelTime(tiling.ticks, 0, 0, 0, 0, tiling.blocks, tiling.warps * _WARP, True, TRITON_EMITTER, 0, 0)
