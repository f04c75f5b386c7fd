"""Producers that must be materialized because they cannot be fused into all of their users.

Mirrors `ComputeGloballyUnfusible` and `CanFuseOnAllPaths` of xla/service/instruction_fusion.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.fusion.decide import FusionDecider
from hlo_cli.analysis.fusion.elements import is_effective_scalar, is_fusible, sizes_of
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape

_FREE_OPERANDS: Final = frozenset((opcodes.BROADCAST, opcodes.IOTA))


def must_materialize(order: Sequence[Node], before: dict[Node, list[Node]], decider: FusionDecider) -> set[Node]:
    """Nodes that read more than they write and cannot be fused into all users.

    `order` is the post-order of the unfused graph, `before` has the control predecessors.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> from hlo_cli.analysis.fusion.rules import SHIPPED
    >>> text = "a = s8[9] parameter(0) b = s8[9] parameter(1) c = s8[9] add(a, b) d = s8[9] not(c)"
    >>> graph = graph_of(parse_module(f"ENTRY e {{ {text} ROOT s = (s8[9], s8[9]) tuple(c, d) }}").entry)
    >>> must_materialize(graph.post_order(), {}, FusionDecider(SHIPPED, graph.root))
    {<node add c>}
    """
    paths = _Paths(order, before, decider)
    for consumer in reversed(order):
        for producer in consumer.operands:
            if producer in paths.kept or producer not in paths.bit:
                continue
            if not is_fusible(producer) or not paths.can_fuse_on_all_paths(producer, consumer):
                paths.kept.add(producer)
    return paths.kept


class _Paths:
    """Reachability between nodes, and whether all paths between two can be fused; `bit` indexes the relevant
    producers.
    """

    __slots__ = ("_decider", "_known", "_reachable", "_steps", "bit", "kept")

    def __init__(self, order: Sequence[Node], before: dict[Node, list[Node]], decider: FusionDecider) -> None:
        self.kept: set[Node] = set()
        self.bit: dict[Node, int] = {}
        self._decider = decider
        self._steps: dict[tuple[Node, Node], bool] = {}
        self._known: dict[tuple[Node, Node], bool] = {}
        self._reachable: dict[Node, int] = {}
        for node in order:
            reachable = 0
            for other in (*node.operands, *before.get(node, ())):
                reachable |= self._reachable.get(other, 0)
            if _reads_more_than_it_writes(node):
                self.bit[node] = len(self.bit)
                reachable |= 1 << self.bit[node]
            self._reachable[node] = reachable

    def can_fuse_on_all_paths(self, producer: Node, consumer: Node) -> bool:
        """Whether every edge on every path from `producer` to `consumer` can be fused."""
        if consumer is producer:
            return True
        bit = self.bit[producer]
        waiting = [consumer]
        while waiting:
            at = waiting[-1]
            if (producer, at) in self._known:
                waiting.pop()
                continue
            answer, unknown = self._answer(producer, at, bit)
            if unknown is not None:
                waiting.append(unknown)
            else:
                self._known[producer, at] = answer
                waiting.pop()
        return self._known[producer, consumer]

    def _answer(self, producer: Node, consumer: Node, bit: int) -> tuple[bool, Node | None]:
        """Whether all paths to `consumer` can be fused; or the operand whose answer is required first."""
        if not is_fusible(consumer):
            return False, None
        for operand in consumer.operands:
            if not self._reachable[operand] >> bit & 1:
                continue
            if operand in self.kept or not self._fuses(operand, consumer):
                return False, None
            if operand is not producer:
                known = self._known.get((producer, operand))
                if known is None:
                    return False, operand
                if not known:
                    return False, None
        return True, None

    def _fuses(self, producer: Node, consumer: Node) -> bool:
        if (producer, consumer) not in self._steps:
            self._steps[producer, consumer] = self._decider.rule(producer, consumer).fuses
        return self._steps[producer, consumer]


def _reads_more_than_it_writes(node: Node) -> bool:
    """Whether more than one operand has the true rank of the result or more, and all have more elements than the
    result.
    """
    rank = max((_true_rank(leaf) for _, leaf in node.shape.leaves), default=0)
    large = (
        _true_rank(operand.shape) >= rank
        for operand in node.operands
        if operand.opcode not in _FREE_OPERANDS
        and not (operand.opcode == opcodes.CONSTANT and is_effective_scalar(operand.shape))
    )
    if sum(large) <= 1:
        return False
    return sum(_elements(operand.shape) for operand in dict.fromkeys(node.operands)) > _elements(node.shape)


def _true_rank(shape: Shape) -> int:
    """Number of dimensions of size other than 1."""
    return sum(size != 1 for size in sizes_of(shape))


def _elements(shape: Shape) -> int:
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))
