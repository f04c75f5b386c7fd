"""Time of a kernel on a GPU, of an instruction or of a producer fused into a consumer.

Mirrors xla/service/gpu/model/gpu_performance_model.cc and gpu_performance_model_base.cc.
"""

from __future__ import annotations

from math import floor
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.fusion.elements import ELEMENTWISE, is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.coalescing import is_coalesced, is_reduction_like, transposes_minor
from hlo_cli.analysis.gpu_fusion.device_time import DeviceTime, overlapped
from hlo_cli.analysis.gpu_fusion.durations import TICKS_PER_MICROSECOND, f32
from hlo_cli.analysis.gpu_fusion.emitters import Analysis, analyze
from hlo_cli.analysis.gpu_fusion.launch import Launch, Launches
from hlo_cli.analysis.gpu_fusion.parts import Part
from hlo_cli.analysis.gpu_fusion.shapes import Sizes
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.analysis.gpu_fusion.work import Work, WorkCounter
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape

LAUNCH: Final = TICKS_PER_MICROSECOND
"""`kKernelLaunchOverhead` in ticks."""
_UNKNOWN_BYTES: Final = 4
_EXACT: Final = 1 << 24
"""Integers below are exact in single precision."""


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
    take their places.
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


Read: TypeAlias = tuple[Node, int, int]
"""What a kernel reads of an operand: the operand, its size, and the bytes of all accesses."""


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

    def work(self, node: Node) -> Work:
        """Work of a node."""
        return self._kernel(node).work

    def analysis(self, node: Node) -> Analysis:
        """Emitter of the kernel of a node."""
        return self._kernel(node).analysis

    def merged_analysis(self, producer: Node, consumer: Node) -> Analysis:
        """Emitter of the kernel of a producer fused into a consumer."""
        return self._merge(self._part(producer), self._part(consumer))[0]

    def time(self, node: Node) -> KernelTime:
        """Time of the kernel of a node (`EstimateRunTimeForInstruction`)."""
        return (self._kernels.get(node) or self._kernel(node)).time

    def fused_time(self, producer: Node, consumer: Node, *, keeps_producer: bool = False) -> KernelTime:
        """Time of the kernel of a producer fused into a consumer (`EstimateRunTimeForFusion`).

        With `keeps_producer` it also writes the producer's result.
        """
        one, other = self._kernel(producer), self._kernel(consumer)
        first, second = one.time, other.time
        if one.part.is_plain and other.part.is_plain and self._launches.is_by_result(other.analysis.roots):
            analysis, launch = other.analysis, other.launch
        else:
            analysis, launch = self._merge(one.part, other.part)
        blocks, emitter = launch.blocks, analysis.emitter
        coalesced = is_coalesced(
            emitter,
            moves_minor=one.moves_minor or other.moves_minor,
            both_reduce=one.is_reduction and other.is_reduction,
        )
        read = ticks = 0
        use, reads = _fused_reads(one, other)
        for operand, size, count in reads:
            read += count
            ticks += self.read_ticks(operand, size, count, blocks, coalesced)
        flops = int(f32(f32(f32(first.flops) * use) + f32(second.flops)))
        written, write_ticks = second.bytes_written, second.write_ticks
        if keeps_producer:
            written, write_ticks = written + first.bytes_written, write_ticks + first.write_ticks
        compute, memory = self._takes.compute(flops, launch), ticks + write_ticks
        total = overlapped(compute, memory)
        return KernelTime(total, flops, read, written, write_ticks, *launch, coalesced, emitter, compute, memory)

    def _part(self, node: Node) -> Part:
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
        found = self._kernels.get(node)
        if found is None:
            found = self._kernels[node] = self._new_kernel(node)
        elif found.operands != node.operands:
            found.operands, found.places = list(node.operands), _places(node.operands)
        return found

    def _new_kernel(self, node: Node) -> _Kernel:
        part, work, operands = self._part(node), self._counter.of(node), list(node.operands)
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
        elementwise = part.opcodes <= ELEMENTWISE or is_elementwise(node)
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
            rate = width / self.device.dram_transaction_bytes
        return self._takes.read(size, count, blocks, rate)


def _reads(operands: list[Node], places: dict[Node, int], sizes: tuple[int, ...], work: Work) -> list[Read]:
    """What a kernel reads."""
    return [(each, size, work.reads[places[each]]) for each, size in zip(operands, sizes, strict=True)]


def _fused_reads(one: _Kernel, other: _Kernel) -> tuple[float, list[Read]]:
    """How often a consumer uses its producer, and what the kernel of both reads."""
    producer, at, of = one.part.node, one.places, other.places
    use = 0.0
    reads: list[Read] = []
    for operand, size, used in zip(other.operands, other.sizes, other.work.utilization, strict=False):
        if operand is producer:
            use = f32(use + used) if use else used
            continue
        count = other.work.reads[of[operand]]
        reads.append((operand, size, count + _shared_bytes(one, other, operand) if operand in at else count))
    reads += [(each, one.sizes[place], _shared_bytes(one, other, each)) for each, place in at.items() if each not in of]
    return use, reads


def _places(operands: list[Node]) -> dict[Node, int]:
    """The first place of each operand."""
    places = dict(zip(operands, range(len(operands)), strict=True))
    return places if len(places) == len(operands) else {operand: operands.index(operand) for operand in places}


def _shared_bytes(one: _Kernel, other: _Kernel, operand: Node) -> int:
    """Bytes of a producer's operand that the fused kernel reads for it (`GetSharedOperandBytesAccessed`).

    Without those that the consumer reads anyway; negative if both together read fewer.
    """
    use = other.work.utilization[other.places[one.part.node]]
    place = one.places[operand]
    count = one.work.reads[place]
    if use != 1.0 or count >= _EXACT:
        count = _rounded(f32(f32(count) * use))
    common = _common_utilization(one, other, operand) if operand in other.places else 0.0
    return count - _rounded(f32(f32(one.sizes[place]) * common)) if common else count


def _common_utilization(one: _Kernel, other: _Kernel, operand: Node) -> float:
    """How much of an operand both a producer and its consumer use at the same places."""
    if not one.is_elementwise:
        if one.part.node.body is None:
            return 0.0
        work = one.work
        assert work.root_groups is not None
        if work.common(work.groups[one.places[operand]], work.root_groups) != 1.0:
            return 0.0
    if other.part.node.body is None:
        return 1.0 if other.is_elementwise else 0.0
    work = other.work
    return work.common(work.groups[other.places[operand]], work.groups[other.places[one.part.node]])


def _rounded(value: float) -> int:
    return floor(value + 0.5)
