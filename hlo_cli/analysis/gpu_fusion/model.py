"""Time of a kernel on a GPU, of an instruction or of a producer fused into a consumer.

Mirrors xla/service/gpu/model/gpu_performance_model.cc and gpu_performance_model_base.cc.
"""

from __future__ import annotations

from math import floor
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.coalescing import is_coalesced, is_reduction_like, transposes_minor
from hlo_cli.analysis.gpu_fusion.durations import TICKS_PER_MICROSECOND, f32, nanoseconds, scale, seconds
from hlo_cli.analysis.gpu_fusion.emitters import Analysis, analyze
from hlo_cli.analysis.gpu_fusion.launch import Launch, launch_of
from hlo_cli.analysis.gpu_fusion.shapes import bytes_of
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.analysis.gpu_fusion.work import Work, WorkCounter
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.ir.shape import ArrayShape, Shape

LAUNCH: Final = TICKS_PER_MICROSECOND
"""`kKernelLaunchOverhead` in ticks."""
_L2_SPEEDUP: Final = 2.5
_L1_SPEEDUP: Final = 8.0
_PARALLELISM: Final = 0.95
"""`kMemoryComputeParallelism`: the share of computing that memory accesses overlap."""
_UNKNOWN_BYTES: Final = 4
_EXACT: Final = 1 << 24
"""Integers below are exact in single precision."""
_MAX_MERGED: Final = 1024
"""Merged kernels to remember; most are asked for twice at once."""


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


class _Part(NamedTuple):
    """Properties of one instruction that kernels with it depend on."""

    moves_minor: bool
    is_reduction: bool


class KernelModel:
    """Times of kernels of nodes, remembered until `forget`.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> root = graph_of(parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry).root
    >>> time = KernelModel(gpu_device("h100")).time(root)
    >>> time.ticks, time.blocks, time.bytes_read, time.emitter
    (57750, 1954, 4000000, 'loop')
    """

    __slots__ = (
        *("_analyses", "_compute", "_counter", "_merged", "_movers", "_parts", "_reads", "_sizes", "_times"),
        *("_versions", "_work"),
        "device",
    )

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self._merged: dict[tuple[Node, int, Node, int], tuple[View, Analysis]] = {}
        self._versions: dict[Node, int] = {}
        self._movers: dict[Node, list[Node]] = {}
        self._sizes: dict[int, tuple[Shape, int]] = {}
        self._reads: dict[tuple[int, int, int, float], int] = {}
        self._compute: dict[tuple[int, Launch], int] = {}
        self._counter = WorkCounter(device.profile)
        self._work: dict[Node, Work] = {}
        self._parts: dict[Node, _Part] = {}
        self._times: dict[Node, KernelTime] = {}
        self._analyses: dict[Node, Analysis] = {}

    def forget(self, node: Node) -> None:
        """Forgets what is known of a node that changed."""
        for known in (self._work, self._parts, self._times, self._analyses, self._movers):
            known.pop(node, None)
        self._versions[node] = self._versions.get(node, 0) + 1
        if len(self._merged) > _MAX_MERGED:
            self._merged.clear()

    def work(self, node: Node) -> Work:
        """Work of a node."""
        found = self._work.get(node)
        if found is None:
            found = self._work[node] = self._counter.of(node)
        return found

    def analysis(self, node: Node) -> Analysis:
        """Emitter of the kernel of a node."""
        found = self._analyses.get(node)
        if found is None:
            found = self._analyses[node] = analyze(View(node, movers=self._movers), self.device.threads_per_warp)
        return found

    def merged_analysis(self, producer: Node, consumer: Node) -> Analysis:
        """Emitter of the kernel of a producer fused into a consumer."""
        return self._merge(producer, consumer)[1]

    def _merge(self, producer: Node, consumer: Node) -> tuple[View, Analysis]:
        versions = self._versions
        key = producer, versions.get(producer, 0), consumer, versions.get(consumer, 0)
        found = self._merged.get(key)
        if found is None:
            view = View(consumer, producer, self._movers)
            found = self._merged[key] = view, analyze(view, self.device.threads_per_warp)
        return found

    def time(self, node: Node) -> KernelTime:
        """Time of the kernel of a node (`EstimateRunTimeForInstruction`)."""
        found = self._times.get(node)
        if found is None:
            found = self._times[node] = self._time(node)
        return found

    def fused_time(self, producer: Node, consumer: Node, *, keeps_producer: bool = False) -> KernelTime:
        """Time of the kernel of a producer fused into a consumer (`EstimateRunTimeForFusion`).

        With `keeps_producer` it also writes the producer's result.
        """
        view, analysis = self._merge(producer, consumer)
        launch = launch_of(view, analysis, self.device)
        one, other = self.time(producer), self.time(consumer)
        uses = self.work(consumer).utilization
        use = 0.0
        for place, operand in enumerate(consumer.operands):
            if operand is producer:
                use = f32(use + uses[place])
        flops = int(f32(f32(f32(one.flops) * use) + f32(other.flops)))
        parts = self._part(producer), self._part(consumer)
        coalesced = is_coalesced(
            analysis.emitter,
            moves_minor=parts[0].moves_minor or parts[1].moves_minor,
            both_reduce=parts[0].is_reduction and parts[1].is_reduction,
        )
        read, ticks = 0, 0
        works = self.work(producer), self.work(consumer)
        for parameter in view.parameters:
            count = self._shared_bytes(producer, consumer, parameter, works)
            read += count
            ticks += self._read_ticks(parameter, count, launch.blocks, coalesced)
        written, write_ticks = other.bytes_written, other.write_ticks
        if keeps_producer:
            written, write_ticks = written + one.bytes_written, write_ticks + one.write_ticks
        compute, memory = self._compute_ticks(flops, launch), ticks + write_ticks
        total, size = _overlapped(compute, memory), (launch.blocks, launch.threads)
        return KernelTime(total, flops, read, written, write_ticks, *size, coalesced, analysis.emitter, compute, memory)

    def _time(self, node: Node) -> KernelTime:
        work, view = self.work(node), View(node, movers=self._movers)
        analysis = self._analyses.get(node)
        if analysis is None:
            analysis = self._analyses[node] = analyze(view, self.device.threads_per_warp)
        launch = launch_of(view, analysis, self.device)
        coalesced = is_coalesced(analysis.emitter, moves_minor=self._part(node).moves_minor, both_reduce=False)
        read, ticks = 0, 0
        for operand in node.operands:
            count = _operand_bytes(work, node, operand)
            read += count
            ticks += self._read_ticks(operand, count, launch.blocks, coalesced)
        write_ticks = seconds(f32(f32(work.written) / f32(self.device.memory_bandwidth)))
        compute, memory = self._compute_ticks(work.flops, launch), ticks + write_ticks
        return KernelTime(
            _overlapped(compute, memory),
            work.flops,
            read,
            work.written,
            write_ticks,
            launch.blocks,
            launch.threads,
            coalesced,
            analysis.emitter,
            compute,
            memory,
        )

    def _part(self, node: Node) -> _Part:
        found = self._parts.get(node)
        if found is None:
            found = _Part(transposes_minor(node), is_reduction_like(node, self.device.threads_per_warp))
            self._parts[node] = found
        return found

    def _compute_ticks(self, flops: int, launch: Launch) -> int:
        key = flops, launch
        if (found := self._compute.get(key)) is not None:
            return found
        device = self.device
        units = min(launch.blocks, device.core_count) * min(launch.threads, device.fpus_per_core)
        per_nanosecond = int(f32(f32(device.clock_rate_ghz) * 2) * units)
        ticks = self._compute[key] = nanoseconds(f32(f32(flops) / f32(per_nanosecond)))
        return ticks

    def _read_ticks(self, operand: Node, count: int, blocks: int, coalesced: bool) -> int:
        """Time to read bytes of an operand, again from the caches (`ReadTimeWithDRAMHeuristic`)."""
        first = min(self._size(operand), count)
        rate = 1.0
        if not coalesced:
            shape = operand.shape
            width = shape.element_type.byte_width if isinstance(shape, ArrayShape) else _UNKNOWN_BYTES
            rate = width / self.device.dram_transaction_bytes
        key = first, count, blocks, rate
        ticks = self._reads.get(key)
        if ticks is None:
            ticks = self._reads[key] = self._access_ticks(*key)
        return ticks

    def _access_ticks(self, first: int, count: int, blocks: int, rate: float) -> int:
        """Time to read `first` bytes from memory, at this share of its bandwidth, and the rest again."""
        device = self.device
        memory = f32(device.memory_bandwidth * rate)
        cached = f32(device.memory_bandwidth)
        if first < device.l2_cache_bytes:
            cached = f32(cached * _L2_SPEEDUP)
            if first < device.l1_cache_bytes_per_core * device.core_count:
                cached = f32(cached * _L1_SPEEDUP)
        else:
            cached = f32(cached * rate)
        per_block = f32(f32(f32(device.clock_rate_ghz) * 1e9) * device.transaction_bytes_per_clock)
        most = f32(f32(blocks) * per_block)
        again = count - first
        return seconds(f32(f32(first) / min(memory, most))) + seconds(f32(f32(again) / min(cached, most)))

    def _shared_bytes(self, producer: Node, consumer: Node, operand: Node, works: tuple[Work, Work]) -> int:
        """Bytes of an operand that the fused kernel reads (`GetSharedOperandBytesAccessed`)."""
        one, other = works
        if operand not in producer.operands:
            return _operand_bytes(other, consumer, operand)
        use = other.utilization[consumer.operands.index(producer)]
        by_producer = _operand_bytes(one, producer, operand)
        by_consumer = _operand_bytes(other, consumer, operand)
        common = self._common_utilization(producer, consumer, operand)
        shared = _rounded(f32(f32(self._size(operand)) * common)) if common else 0
        by_both = by_producer if use == 1.0 and by_producer < _EXACT else _rounded(f32(f32(by_producer) * use))
        return by_both + by_consumer - shared

    def _size(self, node: Node) -> int:
        """Bytes of a node's result; shapes are few."""
        found = self._sizes.get(id(node.shape))
        if found is None:
            found = self._sizes[id(node.shape)] = node.shape, bytes_of(node.shape)
        return found[1]

    def _common_utilization(self, producer: Node, consumer: Node, operand: Node) -> float:
        if operand not in producer.operands or operand not in consumer.operands:
            return 0.0
        if not is_elementwise(producer):
            if producer.body is None:
                return 0.0
            work = self.work(producer)
            assert work.root_groups is not None
            if work.common(work.groups[producer.operands.index(operand)], work.root_groups) != 1.0:
                return 0.0
        if consumer.body is None:
            return 1.0 if is_elementwise(consumer) else 0.0
        work = self.work(consumer)
        places = consumer.operands.index(operand), consumer.operands.index(producer)
        return work.common(work.groups[places[0]], work.groups[places[1]])


def _operand_bytes(work: Work, node: Node, operand: Node) -> int:
    return work.reads[node.operands.index(operand)] if operand in node.operands else 0


def _overlapped(compute: int, memory: int) -> int:
    """Time of computing and of memory accesses, which overlap for the most part."""
    return compute + memory - scale(min(compute, memory), _PARALLELISM)


def _rounded(value: float) -> int:
    return floor(value + 0.5)
