"""Launch dimensions of kernels: blocks, and threads per block.

Mirrors `GetFusionEmitter` and `launch_dimensions` of xla/backends/gpu/codegen/emitters, `ComputeLoopFusionConfig` and
`MaxUnrollFactor` of xla/service/gpu/gpu_fusible.cc, and xla/service/gpu/launch_dimensions.cc.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.dynamic_updates import updates_in_place
from hlo_cli.analysis.gpu_fusion.emitters import CONCATENATE, LOOP, SCATTER, TRANSPOSE, Analysis
from hlo_cli.analysis.gpu_fusion.reductions import MAX_BLOCK_THREADS, Reduction
from hlo_cli.analysis.gpu_fusion.shapes import arrays_of, bits_of, elements_of, first_array, sizes_of
from hlo_cli.analysis.gpu_fusion.transposes import BANKS, TiledTranspose, normalized_transpose
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

_THREADS: Final = 128
_WARPS: Final = 4
_UNROLL: Final = 4
_BLACKWELL_UNROLL: Final = 8
_NARROW_UNROLL: Final = 16
_NARROW_BITS: Final = 8
_FULL_BITS: Final = 32
_TILE: Final = 32
_ROW_THREADS: Final = 256
_MAX_WINDOW: Final = 8
_MAX_CONCATENATED: Final = 10
_WIDE_BITS: Final = 64
_NO_BITS: Final = 1 << 30
_SLOW_UNROLLED: Final = frozenset(
    (opcodes.SORT, opcodes.DOT, opcodes.CONCATENATE, opcodes.REDUCE, opcodes.REDUCE_WINDOW)
)
"""Opcodes of operations that may be slower if unrolled."""


class Launch(NamedTuple):
    """Number of blocks, and of threads in each."""

    blocks: int
    threads: int


class Launches:
    """Launch dimensions on one device; those of plain loops, which depend on the result alone, are remembered."""

    __slots__ = ("_device", "_loops")

    def __init__(self, device: GpuDevice) -> None:
        self._device = device
        self._loops: dict[int, tuple[Shape, Launch]] = {}

    def of(self, view: View, analysis: Analysis) -> Launch:
        """The same as `launch_of`."""
        root = analysis.roots[0]
        if not view.is_plain or analysis.emitter != LOOP or len(analysis.roots) > 1 or root.opcode == opcodes.BITCAST:
            return launch_of(view, analysis, self._device)
        if not self.is_by_result(analysis.roots):
            return launch_of(view, analysis, self._device)
        found = self._loops.get(id(root.shape))
        if found is None:
            found = self._loops[id(root.shape)] = root.shape, launch_of(view, analysis, self._device)
        return found[1]

    def is_by_result(self, roots: tuple[Node, ...]) -> bool:
        """Whether the launch of a plain loop depends on results alone; on Blackwell, arguments of bytes count, too."""
        return not self._device.is_blackwell or _least_bits(roots) > _NARROW_BITS


def launch_of(view: View, analysis: Analysis, device: GpuDevice) -> Launch:
    """Launch dimensions of the kernel of a fusion.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> from hlo_cli.analysis.gpu_fusion.emitters import analyze
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> from hlo_cli.analysis.gpu_fusion.parts import Part
    >>> view = View(Part(graph_of(parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry).root))
    >>> launch_of(view, analyze(view, 32), gpu_device("h100"))
    Launch(blocks=1954, threads=128)
    """
    root, hero = analysis.roots[0], analysis.heroes[0]
    if analysis.reduction is not None:
        return _reduction_launch(view, analysis, analysis.reduction, device)
    if analysis.transpose is not None:
        return _transpose_launch(analysis, analysis.transpose, device)
    if analysis.emitter == SCATTER:
        return _scatter_launch(view, analysis, root, device)
    if analysis.emitter == CONCATENATE:
        (dimension,) = hero.instruction.integers("dimensions")[:1]
        largest = max(hero.operands, key=lambda operand: sizes_of(operand)[dimension])
        unroll = _unroll(view, analysis, elements_of(largest.shape), device)
        for operand in hero.operands:
            unroll = gcd(unroll, sizes_of(operand)[dimension])
        return _loop(elements_of(largest.shape), unroll, device)
    if (update := updates_in_place(view, analysis.roots)) is not None:
        elements = elements_of(update.operands[1].shape)
    else:
        elements = elements_of(first_array(root.shape))
    return _loop(elements, _unroll(view, analysis, elements, device), device)


def _loop(elements: int, unroll: int, device: GpuDevice) -> Launch:
    """One thread per unrolled element, four warps in a block (`CalculateLaunchDimensions`)."""
    if elements <= 1:
        return Launch(1, 1)
    work = _ceil(elements, unroll)
    threads = min(_WARPS * device.threads_per_warp, work)
    return Launch(_ceil(work, threads), threads)


def _unroll(view: View, analysis: Analysis, elements: int, device: GpuDevice) -> int:
    """Elements that a thread of a loop computes (`ComputeLoopFusionConfig`)."""
    unroll = 1
    if elements >= device.threads_per_core * device.core_count and not _hurts_unrolled(view):
        unroll = gcd(elements, _max_unroll(view, analysis, device))
    return max(unroll, _ceil(8, _least_bits(analysis.roots)))


def _hurts_unrolled(view: View) -> bool:
    """Whether the fusion contains operations that are slower if unrolled (`MayCausePerformanceDropIfUnrolled`)."""
    if view.is_plain or not view.has_any(_SLOW_UNROLLED):
        return False
    for node in view.nodes:
        match node.opcode:
            case opcodes.SORT | opcodes.DOT:
                return True
            case opcodes.CONCATENATE if len(node.operands) > _MAX_CONCATENATED:
                return True
            case opcodes.REDUCE if isinstance(node.shape, TupleShape) and len(node.shape.elements) > 1:
                return True
            case opcodes.REDUCE_WINDOW:
                window = node.instruction.window
                if window is not None and prod(d.size for d in window.dimensions) > _MAX_WINDOW:
                    return True
    return False


def _max_unroll(view: View, analysis: Analysis, device: GpuDevice) -> int:
    """Largest unroll factor; Blackwell computes 8 elements of narrower types than 32 bits, and 16 of bytes alone."""
    if (
        not device.is_blackwell
        or analysis.emitter not in (LOOP, TRANSPOSE, CONCATENATE)
        or len(analysis.roots) > 1
        or _least_bits(analysis.roots) >= _FULL_BITS
        or view.has_any((opcodes.REDUCE,))
    ):
        return _UNROLL
    if max(_most_bits(analysis.roots), _most_bits(view.arguments())) > _NARROW_BITS:
        return _BLACKWELL_UNROLL
    transposes = [node for node in view.movers if node.opcode == opcodes.TRANSPOSE]
    is_coarse = any(_minor_size(node) < _NARROW_UNROLL for node in transposes)
    return _BLACKWELL_UNROLL if is_coarse else _NARROW_UNROLL


def _minor_size(transpose: Node) -> int:
    sizes, _ = normalized_transpose(transpose)
    return sizes[-1] if sizes else (sizes_of(transpose) or (1,))[-1]


def _least_bits(nodes: tuple[Node, ...] | list[Node]) -> int:
    """Bits of the narrowest element type of the nodes that are arrays; large without any."""
    return min((bits_of(node.shape) for node in nodes if isinstance(node.shape, ArrayShape)), default=_NO_BITS)


def _most_bits(nodes: tuple[Node, ...] | list[Node]) -> int:
    """Bits of the widest element type of the nodes that are arrays; 0 without any."""
    return max((bits_of(node.shape) for node in nodes), default=0)


def _scatter_launch(view: View, analysis: Analysis, scatter: Node, device: GpuDevice) -> Launch:
    """One thread per unrolled part of an update."""
    count = len(scatter.operands) // 2
    updates = scatter.operands[count + 1]
    window = scatter.instruction.integers("update_window_dims")
    slice_elements = prod(sizes_of(updates)[d] for d in window)
    elements = elements_of(updates.shape)
    launch = _loop(elements, gcd(slice_elements, _unroll(view, analysis, elements, device)), device)
    threads = _ceil(launch.threads, _TILE) * _TILE
    return Launch(launch.blocks, threads)


def _transpose_launch(analysis: Analysis, transpose: TiledTranspose, device: GpuDevice) -> Launch:
    threads, widest_read = (256, 16) if device.is_rocm else (_THREADS, 4)
    if transpose.tiles:
        tiles = zip(transpose.packed_sizes, transpose.tiles, strict=True)
        return Launch(prod(_ceil(size, tile) for size, tile in tiles), threads)
    given, order = transpose.input_sizes, transpose.permutation
    heroes = [hero for hero in analysis.heroes if hero.opcode == opcodes.TRANSPOSE]
    widths = [_ceil(bits_of(hero.shape), 8) for hero in heroes]
    if transpose.keeps_minor:
        return Launch(_blocks(given, {len(given) - 1: given[-1], len(given) - 2: _TILE, order[-2]: _TILE}), threads)
    blocks = _blocks(given, {len(given) - 1: _TILE, order[-1]: _TILE})
    shared = sum(BANKS * (BANKS + 1) * width for width in widths)
    vector = widest_read // max(widths)
    while vector > 1:
        has_work = blocks * threads >= vector * vector * device.core_count * device.threads_per_core
        fits = shared * vector * vector <= device.shared_memory_per_block
        if has_work and fits and given[-1] % vector == 0 and given[order[-1]] % vector == 0:
            return Launch(_blocks(given, {len(given) - 1: _TILE * vector, order[-1]: _TILE * vector}), threads)
        vector //= 2
    return Launch(blocks, threads)


def _ceil(one: int, other: int) -> int:
    return -(-one // other)


def _blocks(sizes: tuple[int, ...], tiles: dict[int, int]) -> int:
    return prod(_ceil(size, tiles.get(place, 1)) for place, size in enumerate(sizes))


def _reduction_launch(view: View, analysis: Analysis, reduction: Reduction, device: GpuDevice) -> Launch:
    major, middle, minor = reduction.sizes
    inputs = _least_bits(view.arguments())
    warp = device.threads_per_warp
    if not reduction.is_row:
        if warp % minor == 0:
            vector = _vector(analysis, inputs, middle * minor, _TILE)
            threads, rows = _THREADS, vector * _THREADS // minor
            while rows > _TILE and vector > 1:
                vector //= 2
                rows //= 2
            return Launch(major, threads // (rows // _TILE) if rows > _TILE else threads)
        vector = _vector(analysis, inputs, minor, _TILE)
        return Launch(major * _ceil(minor, _TILE * vector), _TILE * _TILE)
    if (several := _several_rows(analysis, reduction, inputs, device)) is not None:
        return several
    row_threads = min(MAX_BLOCK_THREADS, _ceil(_ceil(minor, 16), warp) * warp)
    rows = 1
    if row_threads * 2 <= _ROW_THREADS:
        rows = middle if middle * row_threads <= _ROW_THREADS else _ROW_THREADS // row_threads
    vector = _vector(analysis, inputs, minor, row_threads)
    columns = minor // vector
    tile = min(16 // vector, _ceil(columns, row_threads)) * row_threads
    return Launch(_ceil(middle, rows) * _ceil(columns, tile), rows * row_threads)


def _several_rows(analysis: Analysis, reduction: Reduction, inputs: int, device: GpuDevice) -> Launch | None:
    """Launch of the emitter in which a warp reduces several rows (`MultiRowReductionFusion::TryCreate`)."""
    _, kept, minor = reduction.sizes
    if minor & (minor - 1):
        return None
    outputs = _least_bits(analysis.roots)
    least, most = min(inputs, outputs), max(inputs, outputs)
    most = outputs if most == _NO_BITS else most
    vector = min(minor, 64 // least)
    if most >= 32:
        vector = min(128 // most, vector)
    warp = device.threads_per_warp
    if minor > warp * vector:
        return None
    launch = _rows_of(kept, minor, vector)
    while vector > 1 and launch.blocks < device.core_count:
        vector //= 2
        launch = _rows_of(kept, minor, vector)
    return launch if minor <= warp * vector else None


def _rows_of(kept: int, minor: int, vector: int) -> Launch:
    threads = minor // vector
    rows = kept if kept * threads <= _ROW_THREADS else max(1, _ROW_THREADS // threads)
    return Launch(_ceil(kept, rows), rows * threads)


def _vector(analysis: Analysis, input_bits: int, minor: int, threads: int) -> int:
    """Elements that a thread of a reduction reads at once (`GetVectorSizeForMlir`)."""
    if minor % 2 or threads * 2 > minor or input_bits >= _WIDE_BITS:
        return 1
    operands = (array for hero in analysis.heroes for o in hero.operands for array in arrays_of(o.shape))
    if any(array.element_type.is_complex for array in operands):
        return 1
    if input_bits >= 32 or threads * 4 > minor:
        return 2
    return 4 if minor % 4 == 0 else 2
