"""How long does a kernel take on a GPU by XLA's own model, alone or with a producer fused into it?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import floor, gcd, prod
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.fusion.gpu_emitters import (
    BANKS,
    CONCATENATE,
    LOOP,
    MAX_BLOCK_THREADS,
    SCATTER,
    TRANSPOSE,
    Analysis,
    Part,
    Reduction,
    Sizes,
    TiledTranspose,
    View,
    analyze,
    arrays_of,
    bits_of,
    elements_of,
    first_array,
    is_coalesced,
    is_reduction_like,
    normalized_transpose,
    sizes_of,
    transposes_minor,
)
from hlo_cli.analysis.fusion.gpu_work import (
    EXACT,
    TICKS_PER_MICROSECOND,
    Work,
    WorkCounter,
    concatenated_dimension,
    f32,
    nanoseconds,
    scale,
    seconds,
)
from hlo_cli.analysis.fusion.mutable_graph import ELEMENTWISE_WHEN_FUSED, Node, is_elementwise
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

# --- updates in place ---
# Dynamic-update-slices whose kernel writes only the update, over an operand of the fusion.
#
# Mirrors `CanEmitFusedDynamicUpdateSliceInPlace` of xla/codegen/ir_emission_utils.cc, without buffers.


def _updates_in_place(view: View, roots: tuple[Node, ...]) -> Node | None:
    """The first dynamic-update-slice of a fusion all of whose results are updated in place, else None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> text = "r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)"
    >>> from hlo_cli.analysis.fusion.gpu_emitters import Part
    >>> view = View(Part(mutable_graph_of(parse_module(text).entry).root))
    >>> _updates_in_place(view, tuple(view.roots))
    <node dynamic-update-slice r>
    """
    updates: list[Node] = []
    for root in roots:
        update = root
        if update.opcode == opcodes.BITCAST:
            # ir_emission_utils.cc looks through one bitcast only; a chain of them is not followed.
            (update,) = view.operands(update)
        if update.opcode != opcodes.DYNAMIC_UPDATE_SLICE or not view.contains(update):
            return None
        updates.append(update)
    shape = updates[0].operands[1].shape
    # One launch serves all results, so updates of different shapes cannot share it.
    is_in_place = all(each.operands[1].shape == shape and _is_in_place(view, each) for each in updates)
    return updates[0] if is_in_place else None


def _is_in_place(view: View, update: Node) -> bool:
    """Whether no other operation reads elements of the operand that the update overwrites."""
    result = update
    # The result may only be relabeled: any other reader would see the buffer while it is being overwritten.
    while users := view.users(result):
        if len(users) > 1 or users[0].opcode != opcodes.BITCAST:
            return False
        result = users[0]
    overwritten = view.operands(update)[0]
    if view.contains(overwritten) and overwritten.opcode == opcodes.BITCAST:
        (overwritten,) = view.operands(overwritten)
    # An operand that the fusion computes has no buffer that the update could be written into.
    if view.contains(overwritten):
        return False
    waiting = [overwritten]
    visited = {overwritten, update}
    for node in waiting:
        for user in view.users(node):
            if not _reads_same_elements(view, user, update):
                return False
            if user not in visited:
                visited.add(user)
                waiting.append(user)
    return True


def _reads_same_elements(view: View, user: Node, update: Node) -> bool:
    if user is update:
        return True
    shape = update.operands[1].shape
    if (
        user.opcode == opcodes.DYNAMIC_SLICE
        and view.operands(user)[0] is view.operands(update)[0]
        and user.shape == shape
    ):
        # Of a single element it does not matter where it is read: XLA accepts a scalar at any index.
        return elements_of(shape) == 1 or user.operands[1:] == update.operands[2:]
    return is_elementwise(user) or user.opcode in (opcodes.BITCAST, opcodes.TUPLE)


# --- launch dimensions ---
# Launch dimensions of kernels: blocks, and threads per block.
#
# Mirrors `GetFusionEmitter` and `launch_dimensions` of xla/backends/gpu/codegen/emitters, `ComputeLoopFusionConfig` and
# `MaxUnrollFactor` of xla/service/gpu/gpu_fusible.cc, and xla/service/gpu/launch_dimensions.cc.


_THREADS: Final = 128  # transpose.cc: four warps; the small column reduction has as many
_WARPS: Final = 4  # launch_dimensions.cc: a warp for each of the four schedulers of a core
_UNROLL: Final = 4  # `MaxUnrollFactor` of gpu_fusible.h: 16 bytes of elements of 32 bits
_BLACKWELL_UNROLL: Final = 8  # gpu_fusible.cc: 16 bytes again, of elements of 16 bits
_NARROW_UNROLL: Final = 16  # gpu_fusible.cc: 16 bytes of elements of a byte
_NARROW_BITS: Final = 8  # the widest element, of results and arguments, of that case
_FULL_BITS: Final = 32  # elements this wide fill a vector by `_UNROLL`, so Blackwell has no larger factor for them
_TILE: Final = 32  # reduction.cc and transpose.cc: the side of a tile is the number of threads of a warp
_ROW_THREADS: Final = 256  # reduction.cc, `kThreadsPerBlockTarget`: within the 128 to 512 that are recommended
_MAX_WINDOW: Final = 8  # `MayCausePerformanceDropIfUnrolled` of gpu_fusible.cc
_MAX_CONCATENATED: Final = 10  # the same function: operands of a concatenate, each of which becomes a branch
_WIDE_BITS: Final = 64  # `GetVectorSizeForMlir` of reduction.cc: elements of 8 bytes are read one at a time
_NO_BITS: Final = 1 << 30  # above the width of every type: the minimum over no arrays at all
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
        """The same as `_launch_of`."""
        root = analysis.roots[0]
        # Only the plain loop depends on the result alone; every hero and update in place adds a shape of its own.
        if not view.is_plain or analysis.emitter != LOOP or len(analysis.roots) > 1 or root.opcode == opcodes.BITCAST:
            return _launch_of(view, analysis, self._device)
        if not self.is_by_result(analysis.roots):
            return _launch_of(view, analysis, self._device)
        # By identity: shapes are shared within a module, and hashing one costs more than the launch. The value keeps
        # it.
        found = self._loops.get(id(root.shape))
        if found is None:
            found = self._loops[id(root.shape)] = root.shape, _launch_of(view, analysis, self._device)
        return found[1]

    def is_by_result(self, roots: tuple[Node, ...]) -> bool:
        """Whether the launch of a plain loop depends on results alone; on Blackwell, arguments of bytes count, too."""
        return not self._device.is_blackwell or _least_bits(roots) > _NARROW_BITS


def _launch_of(view: View, analysis: Analysis, device: GpuDevice) -> Launch:
    """Launch dimensions of the kernel of a fusion.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.fusion.gpu_emitters import analyze
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> from hlo_cli.analysis.fusion.gpu_emitters import Part
    >>> view = View(Part(mutable_graph_of(parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry).root))
    >>> _launch_of(view, analyze(view, 32), gpu_device("h100"))
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
        dimension = concatenated_dimension(hero)
        # concatenate.cc: each thread handles one index of every operand, so the largest along the dimension decides.
        largest = max(hero.operands, key=lambda operand: sizes_of(operand)[dimension])
        unroll = _unroll(view, analysis, elements_of(largest.shape), device)
        for operand in hero.operands:
            unroll = gcd(unroll, sizes_of(operand)[dimension])
        return _loop(elements_of(largest.shape), unroll, device)
    if (update := _updates_in_place(view, analysis.roots)) is not None:
        # Only the update is written; its size, not that of the result, gives the number of threads.
        elements = elements_of(update.operands[1].shape)
    else:
        elements = elements_of(first_array(root.shape))
    return _loop(elements, _unroll(view, analysis, elements, device), device)


def _loop(elements: int, unroll: int, device: GpuDevice) -> Launch:
    """One thread per unrolled element, four warps in a block (`CalculateLaunchDimensions`)."""
    if elements <= 1:
        # XLA launches a single thread for a scalar, and for a result without elements.
        return Launch(1, 1)
    work = _ceil(elements, unroll)
    threads = min(_WARPS * device.threads_per_warp, work)
    return Launch(_ceil(work, threads), threads)


def _unroll(view: View, analysis: Analysis, elements: int, device: GpuDevice) -> int:
    """Elements that a thread of a loop computes (`ComputeLoopFusionConfig`)."""
    unroll = 1
    # Below this the device is not full, and unrolling would leave cores without a block.
    if elements >= device.threads_per_core * device.core_count and not _hurts_unrolled(view):
        unroll = gcd(elements, _max_unroll(view, analysis, device))
    # Elements narrower than a byte: one thread writes at least a whole byte.
    return max(unroll, _ceil(8, _least_bits(analysis.roots)))


def _hurts_unrolled(view: View) -> bool:
    """Whether the fusion contains operations that are slower if unrolled (`MayCausePerformanceDropIfUnrolled`)."""
    # A plain view has none of these opcodes; the walk over all nodes is the costly part.
    if view.is_plain or not view.has_any(_SLOW_UNROLLED):
        return False
    for node in view.nodes:
        match node.opcode:
            case opcodes.SORT | opcodes.DOT:
                return True
            case opcodes.CONCATENATE if len(node.operands) > _MAX_CONCATENATED:
                return True
            # Only reduces of several values; those of one value are unrolled.
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
    # Vectors of 16 would cross the minor run of a transpose that is shorter than that.
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
    # scatter.cc rounds up to whole warps; the variant for sorted indices is read in the source only.
    threads = _ceil(launch.threads, _TILE) * _TILE
    return Launch(launch.blocks, threads)


def _transpose_launch(analysis: Analysis, transpose: TiledTranspose, device: GpuDevice) -> Launch:
    # transpose.cc: 4 bytes at once, 128 threads; larger on AMD. Constants of ROCm are from the source, not compared.
    threads, widest_read = (256, 16) if device.is_rocm else (_THREADS, 4)
    if transpose.tiles:
        tiles = zip(transpose.packed_sizes, transpose.tiles, strict=True)
        return Launch(prod(_ceil(size, tile) for size, tile in tiles), threads)
    sizes, order = transpose.input_sizes, transpose.permutation
    heroes = [hero for hero in analysis.heroes if hero.opcode == opcodes.TRANSPOSE]
    widths = [_ceil(bits_of(hero.shape), 8) for hero in heroes]
    # The minor dimension moves as a whole: tiles cover the two dimensions before it that are swapped.
    if transpose.keeps_minor:
        return Launch(_blocks(sizes, {len(sizes) - 1: sizes[-1], len(sizes) - 2: _TILE, order[-2]: _TILE}), threads)
    blocks = _blocks(sizes, {len(sizes) - 1: _TILE, order[-1]: _TILE})
    # One column more than banks, so that threads that read a column hit different banks.
    shared = sum(BANKS * (BANKS + 1) * width for width in widths)
    vector = widest_read // max(widths)
    # A vector of v widens the tile v times in both directions: v² the shared memory, and v² fewer blocks.
    while vector > 1:
        has_work = blocks * threads >= vector * vector * device.core_count * device.threads_per_core
        fits = shared * vector * vector <= device.shared_memory_per_block
        if has_work and fits and sizes[-1] % vector == 0 and sizes[order[-1]] % vector == 0:
            return Launch(_blocks(sizes, {len(sizes) - 1: _TILE * vector, order[-1]: _TILE * vector}), threads)
        vector //= 2
    return Launch(blocks, threads)


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _blocks(sizes: tuple[int, ...], tiles: dict[int, int]) -> int:
    return prod(_ceil(size, tiles.get(place, 1)) for place, size in enumerate(sizes))


def _reduction_launch(view: View, analysis: Analysis, reduction: Reduction, device: GpuDevice) -> Launch:
    major, middle, minor = reduction.sizes
    inputs = _least_bits(view.arguments())
    warp = device.threads_per_warp
    if not reduction.is_row:
        # reduction.cc has a separate emitter where several kept elements fit in one warp.
        if warp % minor == 0:
            vector = _vector(analysis, inputs, middle * minor, _TILE)
            threads, rows = _THREADS, vector * _THREADS // minor
            # XLA halves the vector until the block has no more rows than a tile, whether or not threads are left idle.
            while rows > _TILE and vector > 1:
                vector //= 2
                rows //= 2
            return Launch(major, threads // (rows // _TILE) if rows > _TILE else threads)
        vector = _vector(analysis, inputs, minor, _TILE)
        return Launch(major * _ceil(minor, _TILE * vector), _TILE * _TILE)
    if (several := _several_rows(analysis, reduction, inputs, device)) is not None:
        return several
    # reduction.cc: each thread takes 16 elements of a row, in whole warps.
    row_threads = min(MAX_BLOCK_THREADS, _ceil(_ceil(minor, 16), warp) * warp)
    rows = 1
    if row_threads * 2 <= _ROW_THREADS:
        rows = middle if middle * row_threads <= _ROW_THREADS else _ROW_THREADS // row_threads
    vector = _vector(analysis, inputs, minor, row_threads)
    columns = minor // vector
    # 16 elements a thread again, now counted in vectors.
    tile = min(16 // vector, _ceil(columns, row_threads)) * row_threads
    return Launch(_ceil(middle, rows) * _ceil(columns, tile), rows * row_threads)


def _several_rows(analysis: Analysis, reduction: Reduction, inputs: int, device: GpuDevice) -> Launch | None:
    """Launch of the emitter in which a warp reduces several rows (`MultiRowReductionFusion::TryCreate`)."""
    _, row_count, minor = reduction.sizes
    # Rows share a warp by shuffles, which need a power of two.
    if minor & (minor - 1):
        return None
    outputs = _least_bits(analysis.roots)
    least, most = min(inputs, outputs), max(inputs, outputs)
    # A fusion without array arguments has no input width; the outputs decide alone.
    most = outputs if most == _NO_BITS else most
    # reduction.cc: 8 bytes of the narrowest type.
    vector = min(minor, 64 // least)
    if most >= 32:
        # No load of more than 16 bytes, which binds only for types of 32 bits and more.
        vector = min(128 // most, vector)
    warp = device.threads_per_warp
    if minor > warp * vector:
        return None
    launch = _rows_of(row_count, minor, vector)
    # Shorter vectors mean more blocks: XLA prefers a block for every core to wide loads.
    while vector > 1 and launch.blocks < device.core_count:
        vector //= 2
        launch = _rows_of(row_count, minor, vector)
    return launch if minor <= warp * vector else None


def _rows_of(row_count: int, minor: int, vector: int) -> Launch:
    threads = minor // vector
    rows = row_count if row_count * threads <= _ROW_THREADS else max(1, _ROW_THREADS // threads)
    return Launch(_ceil(row_count, rows), rows * threads)


def _vector(analysis: Analysis, input_bits: int, minor: int, threads: int) -> int:
    """Elements that a thread of a reduction reads at once (`GetVectorSizeForMlir`)."""
    # An odd row would need a remainder, a short one would leave threads idle.
    if minor % 2 or threads * 2 > minor or input_bits >= _WIDE_BITS:
        return 1
    operands = (array for hero in analysis.heroes for o in hero.operands for array in arrays_of(o.shape))
    if any(array.element_type.is_complex for array in operands):
        return 1
    # 8 bytes at once for 32-bit types; four narrow elements only if every thread still has work.
    if input_bits >= 32 or threads * 4 > minor:
        return 2
    return 4 if minor % 4 == 0 else 2


# --- time to compute, read, and write ---
# Time that a GPU takes to compute, and to read and write memory.
#
# Mirrors `ComputeTime`, `ReadTimeWithDRAMHeuristic`, and `WriteTime` of
# xla/service/gpu/model/gpu_performance_model_base.cc.


_L2_SPEEDUP: Final = 2.5  # gpu_performance_model_base.h, `kL2CacheSpeedup`: an estimate, as caches cannot be queried
_L1_SPEEDUP: Final = 8.0  # the same file, `kL1CacheSpeedup`: another estimate, on top of the first
_PARALLELISM: Final = 0.95
"""`kMemoryComputeParallelism`: the share of computing that memory accesses overlap."""


class DeviceTime:
    """Durations on one device, in ticks of a quarter nanosecond; those computed are remembered, as few are distinct.

    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> time = DeviceTime(gpu_device("h100"))
    >>> time.write(4_000_000), time.read(4_000_000, 4_000_000, blocks=1954, rate=1.0)
    (4773, 4773)
    """

    __slots__ = ("_compute", "_device", "_reads", "_writes")

    def __init__(self, device: GpuDevice) -> None:
        self._device = device
        self._compute: dict[tuple[int, Launch], int] = {}
        self._reads: dict[tuple[int, int, int, float], int] = {}
        self._writes: dict[int, int] = {}

    def compute(self, flops: int, launch: Launch) -> int:
        """Time to compute for a number of clock cycles, divided among the units that have work."""
        # A module has few distinct pairs; rounding to single precision in Python is what costs.
        key = flops, launch
        ticks = self._compute.get(key)
        if ticks is None:
            device = self._device
            units = min(launch.blocks, device.core_count) * min(launch.threads, device.fpus_per_core)
            # XLA truncates here, to whole operations a nanosecond; the digits of its dump show it.
            per_nanosecond = int(f32(f32(device.clock_rate_ghz) * 2) * units)
            ticks = self._compute[key] = nanoseconds(f32(f32(flops) / f32(per_nanosecond)))
        return ticks

    def read(self, size: int, count: int, blocks: int, rate: float) -> int:
        """Time to read `count` bytes of an operand of `size` bytes: the first time from memory, again from the caches.

        `rate` is the share of the bandwidth of memory that is used.
        """
        key = size, count, blocks, rate
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = self._two_part_read(min(size, count), count, blocks, rate)
        return found

    def write(self, count: int) -> int:
        """Time to write a number of bytes."""
        found = self._writes.get(count)
        if found is None:
            found = self._writes[count] = seconds(f32(f32(count) / f32(self._device.memory_bandwidth)))
        return found

    def _two_part_read(self, first: int, count: int, blocks: int, rate: float) -> int:
        device = self._device
        memory = f32(device.memory_bandwidth * rate)
        cached = f32(device.memory_bandwidth)
        # XLA's oddity: a reread from the cache is always coalesced, one from memory only if the first read is.
        if first < device.l2_cache_bytes:
            cached = f32(cached * _L2_SPEEDUP)
            if first < device.l1_cache_bytes_per_core * device.core_count:
                cached = f32(cached * _L1_SPEEDUP)
        else:
            cached = f32(cached * rate)
        per_block = f32(f32(f32(device.clock_rate_ghz) * 1e9) * device.transaction_bytes_per_clock)
        most = f32(f32(blocks) * per_block)
        again = count - first
        # Both parts are rounded to ticks before they are added: one rounding gives other times.
        return seconds(f32(f32(first) / min(memory, most))) + seconds(f32(f32(again) / min(cached, most)))


def overlapped(compute: int, memory: int) -> int:
    """Time of computing and of memory accesses, which overlap for the most part."""
    # Not 0.05 · min: `scale` goes through seconds as absl does, which decides ties between fusions.
    return compute + memory - scale(min(compute, memory), _PARALLELISM)


# --- time of a kernel ---
# Time of a kernel on a GPU, of an instruction or of a producer fused into a consumer.
#
# Mirrors xla/service/gpu/model/gpu_performance_model.cc and gpu_performance_model_base.cc.


TRITON: Final = "touches Triton: not modeled"
"""Not a reason of XLA: its decision on some Triton fusions is not modeled."""
LAUNCH: Final = TICKS_PER_MICROSECOND
"""`kKernelLaunchOverhead` in ticks."""
_UNKNOWN_BYTES: Final = 4  # gpu_performance_model_base.cc takes 4 bytes for an operand that is not an array


class KernelTime(NamedTuple):
    """Time of a kernel in ticks of a quarter nanosecond, with its parts.

    Computing (`compute_ticks`) and memory accesses (`memory_ticks`, of which `write_ticks` are writes) overlap.
    """

    ticks: int
    flops: int
    bytes_read: int
    bytes_written: int
    write_ticks: int
    blocks: int
    threads: int
    is_coalesced: bool
    emitter: str
    compute_ticks: int
    memory_ticks: int


@dataclass(slots=True, eq=False)
class _Kernel:
    """A node as a kernel of its own, valid until the node changes.

    `places` has the first place of each of the `operands`, and `sizes` their bytes; other nodes of the same shapes may
    take their places. `read_times` has the ticks to read each, and all, by blocks and whether
    reads are coalesced.
    """

    part: Part
    work: Work
    operands: list[Node]
    places: dict[Node, int]
    sizes: tuple[int, ...]
    is_elementwise: bool
    moves_minor: bool
    is_reduction: bool
    analysis: Analysis
    launch: Launch
    time: KernelTime
    read_times: dict[tuple[int, bool], list[int]] = field(default_factory=dict)


Read: TypeAlias = tuple[Node, int, int]
"""What a kernel reads of an operand: the operand, its size, and the bytes of all accesses."""


class KernelModel:
    """Times of kernels of nodes, remembered until `forget`.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> root = mutable_graph_of(parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry).root
    >>> time = KernelModel(gpu_device("h100")).time(root)
    >>> time.ticks, time.blocks, time.bytes_read, time.emitter
    (57750, 1954, 4000000, 'loop')
    """

    __slots__ = ("_counter", "_kernels", "_launches", "_merged", "_parts", "_sizes", "_takes", "device")

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self._sizes = Sizes()
        self._counter = WorkCounter(device.profile, self._sizes)
        self._launches = Launches(device)
        self._takes = DeviceTime(device)
        self._parts: dict[Node, Part] = {}
        self._kernels: dict[Node, _Kernel] = {}
        self._merged: tuple[Part, Part, Analysis, Launch] | None = None

    def forget(self, node: Node) -> None:
        """Forgets what is known of a node that changed."""
        self._parts.pop(node, None)
        self._kernels.pop(node, None)
        # A removed node has no operands any more.
        if not node.operands:
            self._counter.forget(node)

    def work(self, node: Node) -> Work:
        """Work of a node."""
        return self._kernel(node).work

    def analysis(self, node: Node) -> Analysis:
        """Emitter of the kernel of a node."""
        return self._kernel(node).analysis

    def merged_analysis(self, producer: Node, consumer: Node) -> Analysis:
        """Emitter of the kernel of a producer fused into a consumer."""
        return self._merge(self.part(producer), self.part(consumer))[0]

    def time(self, node: Node) -> KernelTime:
        """Time of the kernel of a node (`EstimateRunTimeForInstruction`)."""
        return (self._kernels.get(node) or self._kernel(node)).time

    def triton_reason(self, producer: Node, consumer: Node) -> str | None:
        """The reason against fusing two of which Triton compiles one; None if there is none."""
        return TRITON

    def fused_time(self, producer: Node, consumer: Node, *, keeps_producer: bool = False) -> KernelTime:
        """Time of the kernel of a producer fused into a consumer (`EstimateRunTimeForFusion`).

        With `keeps_producer` it also writes the producer's result.
        """
        producer_kernel, consumer_kernel = self._kernel(producer), self._kernel(consumer)
        first, second = producer_kernel.time, consumer_kernel.time
        # Of two plain parts the merged kernel is the consumer's loop, so no view has to be built: most pairs are such.
        if (
            producer_kernel.part.is_plain
            and consumer_kernel.part.is_plain
            and self._launches.is_by_result(consumer_kernel.analysis.roots)
        ):
            analysis, launch = consumer_kernel.analysis, consumer_kernel.launch
        else:
            analysis, launch = self._merge(producer_kernel.part, consumer_kernel.part)
        blocks, emitter = launch.blocks, analysis.emitter
        coalesced = is_coalesced(
            emitter,
            moves_minor=producer_kernel.moves_minor or consumer_kernel.moves_minor,
            both_reduce=producer_kernel.is_reduction and consumer_kernel.is_reduction,
        )
        use, read, ticks = self._fused_read_time(producer_kernel, consumer_kernel, blocks, coalesced)
        flops = int(f32(f32(f32(first.flops) * use) + f32(second.flops)))
        written, write_ticks = second.bytes_written, second.write_ticks
        if keeps_producer:
            written, write_ticks = written + first.bytes_written, write_ticks + first.write_ticks
        compute, memory = self._takes.compute(flops, launch), ticks + write_ticks
        total = overlapped(compute, memory)
        return KernelTime(total, flops, read, written, write_ticks, *launch, coalesced, emitter, compute, memory)

    def _fused_read_time(self, first: _Kernel, second: _Kernel, blocks: int, coalesced: bool) -> tuple[float, int, int]:
        """How often a consumer uses its producer, and what the kernel of both reads: bytes and ticks.

        Of what the consumer reads alone, the times are known; the sums change where the producer reads.
        """
        places = second.places
        if len(places) < len(second.operands):
            use, reads = _fused_reads(first, second)
            times = [self.read_ticks(operand, size, count, blocks, coalesced) for operand, size, count in reads]
            return use, sum([count for _, _, count in reads]), sum(times)
        times = self._read_times(second, blocks, coalesced)
        place, counts = places[first.part.node], second.work.reads
        read, ticks = second.time.bytes_read - counts[place], times[-1] - times[place]
        for operand, own in first.places.items():
            count = _shared_bytes(first, second, operand)
            read += count
            size, other = first.sizes[own], places.get(operand)
            if other is not None:
                size, count = second.sizes[other], count + counts[other]
                ticks -= times[other]
            ticks += self.read_ticks(operand, size, count, blocks, coalesced)
        return second.work.utilization[place], read, ticks

    def _read_times(self, kernel: _Kernel, blocks: int, coalesced: bool) -> list[int]:
        """Ticks to read each operand in a launch of so many blocks, and at the end their sum."""
        times = kernel.read_times.get((blocks, coalesced))
        if times is None:
            reads = _reads(kernel.operands, kernel.places, kernel.sizes, kernel.work)
            times = [self.read_ticks(operand, size, count, blocks, coalesced) for operand, size, count in reads]
            times.append(sum(times))
            kernel.read_times[blocks, coalesced] = times
        return times

    def part(self, node: Node) -> Part:
        """The operations of a node."""
        found = self._parts.get(node)
        if found is None:
            found = self._parts[node] = Part(node)
        return found

    def _merge(self, producer: Part, consumer: Part) -> tuple[Analysis, Launch]:
        """Emitter and launch of both as one kernel; the last are remembered, as rules ask for them before times do."""
        if (last := self._merged) is not None and last[0] is producer and last[1] is consumer:
            return last[2], last[3]
        view = View(consumer, producer)
        analysis = analyze(view, self.device.threads_per_warp)
        launch = self._launches.of(view, analysis)
        self._merged = producer, consumer, analysis, launch
        return analysis, launch

    def _kernel(self, node: Node) -> _Kernel:
        kernel = self._kernels.get(node)
        if kernel is None:
            kernel = self._kernels[node] = self._new_kernel(node)
        # A body that did not change keeps its work; only who its operands are can change without a fusion.
        elif kernel.operands != node.operands:
            kernel.operands, kernel.places = list(node.operands), _places(node.operands)
        return kernel

    def _new_kernel(self, node: Node) -> _Kernel:
        part, work, operands = self.part(node), self._counter.of(node), list(node.operands)
        places, sizes = _places(operands), tuple([self._sizes.of(operand.shape) for operand in operands])
        view = View(part)
        analysis = analyze(view, self.device.threads_per_warp)
        launch = self._launches.of(view, analysis)
        moves_minor, is_reduction = transposes_minor(part), is_reduction_like(part, self.device.threads_per_warp)
        coalesced = is_coalesced(analysis.emitter, moves_minor=moves_minor, both_reduce=False)
        read = ticks = 0
        for operand, size, count in _reads(operands, places, sizes, work):
            read += count
            ticks += self.read_ticks(operand, size, count, launch.blocks, coalesced)
        write_ticks = self._takes.write(work.written)
        compute, memory = self._takes.compute(work.flops, launch), ticks + write_ticks
        time = KernelTime(
            overlapped(compute, memory),
            work.flops,
            read,
            work.written,
            write_ticks,
            *launch,
            coalesced,
            analysis.emitter,
            compute,
            memory,
        )
        elementwise = part.opcodes <= ELEMENTWISE_WHEN_FUSED or is_elementwise(node)
        return _Kernel(
            part, work, operands, places, sizes, elementwise, moves_minor, is_reduction, analysis, launch, time
        )

    def reads(self, node: Node) -> list[Read]:
        """What the kernel of a node reads, for each operand in its order."""
        kernel = self._kernel(node)
        return _reads(kernel.operands, kernel.places, kernel.sizes, kernel.work)

    def fused_reads(self, producer: Node, consumer: Node) -> list[Read]:
        """What the kernel of a producer fused into a consumer reads."""
        return _fused_reads(self._kernel(producer), self._kernel(consumer))[1]

    def read_ticks(self, operand: Node, size: int, count: int, blocks: int, coalesced: bool) -> int:
        """Time to read this many bytes of an operand of a size, in ticks."""
        rate = 1.0
        if not coalesced:
            shape = operand.shape
            width = shape.element_type.byte_width if isinstance(shape, ArrayShape) else _UNKNOWN_BYTES
            # Uncoalesced: each element costs a whole transaction of memory, whatever is used of it.
            rate = width / self.device.dram_transaction_bytes
        return self._takes.read(size, count, blocks, rate)


def _reads(operands: list[Node], places: dict[Node, int], sizes: tuple[int, ...], work: Work) -> list[Read]:
    """What a kernel reads."""
    return [(each, size, work.reads[places[each]]) for each, size in zip(operands, sizes, strict=True)]


def _fused_reads(first: _Kernel, second: _Kernel) -> tuple[float, list[Read]]:
    """How often a consumer uses its producer, and what the kernel of both reads."""
    producer, producer_places, consumer_places = first.part.node, first.places, second.places
    use = 0.0
    reads: list[Read] = []
    for operand, size, used in zip(second.operands, second.sizes, second.work.utilization, strict=False):
        if operand is producer:
            # Adding to zero is exact, so the first use needs no rounding.
            use = f32(use + used) if use else used
            continue
        count = second.work.reads[consumer_places[operand]]
        reads.append(
            (operand, size, count + _shared_bytes(first, second, operand) if operand in producer_places else count)
        )
    reads += [
        (each, first.sizes[place], _shared_bytes(first, second, each))
        for each, place in producer_places.items()
        if each not in consumer_places
    ]
    return use, reads


def _places(operands: list[Node]) -> dict[Node, int]:
    """The first place of each operand."""
    places = dict(zip(operands, range(len(operands)), strict=True))
    return places if len(places) == len(operands) else {operand: operands.index(operand) for operand in places}


def _shared_bytes(first: _Kernel, second: _Kernel, operand: Node) -> int:
    """Bytes of a producer's operand that the fused kernel reads for it (`GetSharedOperandBytesAccessed`).

    Without those that the consumer reads anyway; negative if both together read fewer.
    """
    use = second.work.utilization[second.places[first.part.node]]
    place = first.places[operand]
    count = first.work.reads[place]
    # Below 2²⁴ a count times one is itself in single precision, so the conversion is skipped.
    if use != 1.0 or count >= EXACT:
        count = _rounded(f32(f32(count) * use))
    common = _common_utilization(first, second, operand) if operand in second.places else 0.0
    return count - _rounded(f32(f32(first.sizes[place]) * common)) if common else count


def _common_utilization(first: _Kernel, second: _Kernel, operand: Node) -> float:
    """How much of an operand both a producer and its consumer use at the same places."""
    # `GetCommonUtilization`: a producer shares reads only if it reads the operand at the index that it computes.
    if not first.is_elementwise:
        if first.part.node.body is None:
            return 0.0
        work = first.work
        assert work.root_groups is not None
        if work.common(work.groups[first.places[operand]], work.root_groups) != 1.0:
            return 0.0
    if second.part.node.body is None:
        # A bare consumer reads both at the same index, or it shares nothing.
        return 1.0 if second.is_elementwise else 0.0
    work = second.work
    return work.common(work.groups[second.places[operand]], work.groups[second.places[first.part.node]])


def _rounded(value: float) -> int:
    # `std::llround` for values that are not negative; Python's `round` would take halves to even.
    return floor(value + 0.5)


# --- parts of the time ---
# Parts of the time of a kernel on a GPU: computing, reading each operand, and writing.
#
# Mirrors `EstimateRunTimeForFusion` of xla/service/gpu/model/gpu_performance_model.cc, whose parts its log has.


class OperandRead(NamedTuple):
    """What a kernel reads of an operand: the bytes of all accesses, the operand's size, and the time in ticks."""

    operand: str
    bytes_read: int
    size_bytes: int
    ticks: int


class KernelParts(NamedTuple):
    """Time of a kernel, and of it computing and memory accesses alone, in ticks; they overlap for the most part."""

    time: KernelTime
    compute_ticks: int
    memory_ticks: int
    reads: tuple[OperandRead, ...]


class KernelBreakdown(KernelModel):
    """Model of kernels that also states the parts of a time.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> root = mutable_graph_of(parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry).root
    >>> parts = KernelBreakdown(gpu_device("h100")).parts_of(root)
    >>> parts.compute_ticks, parts.memory_ticks, parts.reads[0].bytes_read
    (57273, 9546, 4000000)
    """

    __slots__ = ()

    def parts_of(self, node: Node) -> KernelParts:
        """Parts of the time of a node."""
        return self._parts_with(self.time(node), self.reads(node))

    def fused_parts(self, producer: Node, consumer: Node) -> KernelParts:
        """Parts of the time of a producer fused into a consumer."""
        return self._parts_with(self.fused_time(producer, consumer), self.fused_reads(producer, consumer))

    def _parts_with(self, time: KernelTime, reads: Iterable[Read]) -> KernelParts:
        reads_by_operand: dict[Node, OperandRead] = {}
        for operand, size, count in reads:
            ticks = self.read_ticks(operand, size, count, time.blocks, time.is_coalesced)
            before = reads_by_operand.get(operand)
            if before is not None:
                count, ticks = count + before.bytes_read, ticks + before.ticks
            reads_by_operand[operand] = OperandRead(operand.name, count, size, ticks)
        return KernelParts(time, time.compute_ticks, time.memory_ticks, tuple(reads_by_operand.values()))
