"""Whether XLA:GPU may fuse a producer into a consumer: the first reason against it, in XLA's order.

Mirrors `CanFuse` of xla/backends/gpu/transforms/priority_fusion.cc, and `FusionFitsInBudget` and
`CanEmitInputFusedScatter` of xla/service/gpu/gpu_fusible.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion.elements import is_elementwise, is_fusible
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion import reasons
from hlo_cli.analysis.gpu_fusion.emitters import LOOP, REDUCTION
from hlo_cli.analysis.gpu_fusion.in_place import in_place_reason
from hlo_cli.analysis.gpu_fusion.model import KernelModel
from hlo_cli.analysis.gpu_fusion.reductions import fast_reduction
from hlo_cli.analysis.gpu_fusion.shapes import bits_of, elements_of
from hlo_cli.analysis.gpu_fusion.transposes import tiled_transpose_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

_GENERATED: Final = frozenset(
    (
        *(
            opcodes.BROADCAST,
            opcodes.CONCATENATE,
            opcodes.CONSTANT,
            opcodes.DYNAMIC_SLICE,
            opcodes.DYNAMIC_UPDATE_SLICE,
        ),
        *(opcodes.GATHER, opcodes.IOTA, opcodes.PAD, opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.RESHAPE),
        *(opcodes.REVERSE, opcodes.SCATTER, opcodes.SLICE, opcodes.TRANSPOSE, opcodes.COPY),
    )
)
"""Opcodes of operations other than elementwise ones that the loop emitter can compute."""
_LONG_REDUCE: Final = 16
_MAX_UNNESTED_REDUCTIONS: Final = 8
_MAX_OPERANDS_AND_OUTPUTS: Final = 96
_MAX_SIZE: Final = 10_000
_MAX_COLUMN_VECTOR: Final = 4
_TILE: Final = 32


def is_fusible_bitcast(node: Node) -> bool:
    """Whether a node is a bitcast that keeps the width of elements (`IsFusibleBitcast`)."""
    return node.opcode == opcodes.BITCAST and bits_of(node.shape) == bits_of(node.operands[0].shape)


def is_triton(node: Node) -> bool:
    """Whether a node is a fusion that Triton compiles (`IsGenericTritonFusion`)."""
    if node.kind != "kCustom":
        return False
    config = node.instruction.attribute("backend_config") or ""
    return '"kind":"__triton"' in config.replace(" ", "")


def can_be_fused(node: Node) -> bool:
    """Whether an operation can be part of a fusion (`IsFusible` of priority_fusion.cc).

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> [can_be_fused(node) for node in graph_of(parse_module("r = f32[] sine(f32[] a)").entry).nodes]
    [False, True]
    """
    if node.opcode == opcodes.FUSION and node.kind != "kCustom":
        return True
    if not is_fusible(node):
        return False
    return node.opcode in _GENERATED or is_elementwise(node) or is_fusible_bitcast(node) or is_triton(node)


def is_scatter_fusion(node: Node) -> bool:
    """Whether a node is a scatter, or an input fusion of one."""
    if node.body is not None:
        return node.kind == "kInput" and node.body.root.opcode == opcodes.SCATTER
    return node.opcode == opcodes.SCATTER


@dataclass(frozen=True, slots=True)
class _Budget:
    """What a node adds to a fusion: bytes of shared memory, and reductions."""

    shared_bytes: int
    reductions: int
    has_long_reduce: bool


class GpuFusionRules:
    """Decisions on pairs of nodes of a computation; `root` is the node with its result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> text = "ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> rules = GpuFusionRules(KernelModel(gpu_device("h100")), graph.root)
    >>> rules.reason(graph.root.operands[0], graph.root), rules.reason(graph.root, graph.root.operands[0])
    (None, 'not fusing into the output of the root instruction')
    """

    __slots__ = ("_budgets", "_model", "root")

    def __init__(self, model: KernelModel, root: Node | None) -> None:
        self._model = model
        self._budgets: dict[Node, _Budget] = {}
        self.root = root

    def forget(self, node: Node) -> None:
        """Forgets what is known of a node that changed."""
        self._budgets.pop(node, None)

    def reason(self, producer: Node, consumer: Node) -> str | None:
        """The first reason against fusing a producer into a consumer; None if there is none."""
        if producer is self.root:
            return reasons.ROOT
        if not can_be_fused(producer):
            return reasons.PRODUCER_NOT_FUSIBLE
        if not can_be_fused(consumer):
            return reasons.CONSUMER_NOT_FUSIBLE
        if is_triton(producer) or is_triton(consumer):
            return reasons.TRITON
        if is_fusible_bitcast(consumer):
            return reasons.BITCAST_CONSUMER
        if (reason := scatter_reason(producer, consumer)) is not None:
            return reason
        if self._budget(producer).has_long_reduce and self._budget(consumer).has_long_reduce:
            return reasons.TWO_REDUCES
        is_reduction = self._model.analysis(producer).emitter == REDUCTION
        if is_reduction and self._model.merged_analysis(producer, consumer).emitter == LOOP:
            return reasons.REDUCE_BECOMES_LOOP
        if (reason := self.budget_reason(producer, consumer, is_merged=True)) is not None:
            return reason
        if self.is_too_large(producer, consumer):
            return reasons.CODE_SIZE
        return in_place_reason(producer, consumer)

    def budget_reason(self, producer: Node, consumer: Node, *, is_merged: bool) -> str | None:
        """Reason against one kernel of both: shared memory, reductions, or operands (`FusionFitsInBudget`)."""
        one, other = self._budget(producer), self._budget(consumer)
        limit = self._model.device.shared_memory_per_block
        if one.shared_bytes + other.shared_bytes > limit:
            return reasons.SHARED_MEMORY.format(budget=limit)
        if one.reductions + other.reductions > _MAX_UNNESTED_REDUCTIONS:
            return reasons.TOO_MANY_REDUCTIONS
        outputs = _count(producer.shape) + _count(consumer.shape)
        if len(producer.operands) + len(consumer.operands) - 1 + outputs <= _MAX_OPERANDS_AND_OUTPUTS:
            return None
        operands = {*producer.operands, *consumer.operands} - {producer, consumer}
        if is_merged and len(operands) <= len(consumer.operands):
            return None
        return reasons.TOO_MANY_OPERANDS if len(operands) + outputs > _MAX_OPERANDS_AND_OUTPUTS else None

    def is_too_large(self, producer: Node, consumer: Node) -> bool:
        """Whether the producer's code would be repeated too often (`ProducerConsumerMergedTooLarge`)."""
        other = self._model.work(consumer)
        times = 1
        if consumer.body is not None and producer in consumer.operands:
            times = other.copies[consumer.operands.index(producer)]
        return self._model.work(producer).size * times + other.size > _MAX_SIZE

    def _budget(self, node: Node) -> _Budget:
        found = self._budgets.get(node)
        if found is None:
            inside = [node] if node.body is None else node.body.operations
            inside = [each for each in inside if each.opcode in (opcodes.REDUCE, opcodes.TRANSPOSE)]
            warp = self._model.device.threads_per_warp
            shared = reductions = 0
            for each in inside:
                if each.opcode == opcodes.REDUCE and (reduction := fast_reduction(each, warp)) is not None:
                    width = sum(_width(operand.shape) for operand in each.operands[: len(each.operands) // 2])
                    shared += _TILE * width * (1 if reduction.is_row else _MAX_COLUMN_VECTOR * _TILE + 1)
                    reductions += 1
                elif each.opcode == opcodes.TRANSPOSE and (tiled := tiled_transpose_of(each)) is not None:
                    shared += tiled.shared_bytes
            found = self._budgets[node] = _Budget(shared, reductions, any(map(_is_long_reduce, inside)))
        return found


def scatter_reason(producer: Node, consumer: Node) -> str | None:
    """Reason against a fusion with a scatter (`CanEmitInputFusedScatter`)."""
    if is_scatter_fusion(producer):
        return reasons.SCATTER_OUTPUT
    if not is_scatter_fusion(consumer):
        return None
    overwritten = consumer.operands[0]
    if consumer.body is not None:
        overwritten = consumer.operands[consumer.body.root.operands[0].number]
    if overwritten is producer:
        return reasons.SCATTER_OPERAND
    return reasons.SCATTER_SHARED if overwritten in producer.operands else None


def _is_long_reduce(node: Node) -> bool:
    if node.opcode != opcodes.REDUCE or not isinstance(node.shape, ArrayShape):
        return False
    results = node.shape.elements
    return bool(results) and elements_of(node.operands[0].shape) // results >= _LONG_REDUCE


def _width(shape: Shape) -> int:
    return shape.element_type.byte_width if isinstance(shape, ArrayShape) else 0


def _count(shape: Shape) -> int:
    """Number of shapes in a shape, tuples counted (`ShapeUtil::SubshapeCount`)."""
    return 1 + sum(map(_count, shape.elements)) if isinstance(shape, TupleShape) else 1
