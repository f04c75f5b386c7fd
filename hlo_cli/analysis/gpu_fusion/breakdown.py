"""Parts of the time of a kernel on a GPU: computing, reading each operand, and writing.

Mirrors `EstimateRunTimeForFusion` of xla/service/gpu/model/gpu_performance_model.cc, whose parts its log has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.model import KernelModel, KernelTime, Read


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
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> root = graph_of(parse_module("r = f32[1000,1000] sine(f32[1000,1000] a)").entry).root
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
        found: dict[Node, OperandRead] = {}
        for operand, size, count in reads:
            ticks = self.read_ticks(operand, size, count, time.blocks, time.is_coalesced)
            before = found.get(operand)
            if before is not None:
                count, ticks = count + before.bytes_read, ticks + before.ticks
            found[operand] = OperandRead(operand.name, count, size, ticks)
        return KernelParts(time, time.compute_ticks, time.memory_ticks, tuple(found.values()))
