"""Producers that cannot join all that uses them, and are better kept than computed here and there.

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

_MADE_OF_NOTHING: Final = frozenset((opcodes.BROADCAST, opcodes.IOTA))


def must_materialize(order: Sequence[Node], before: dict[Node, list[Node]], decider: FusionDecider) -> set[Node]:
    """The nodes, given in post-order, that must not be fused: they read more than they give, and not all users join.

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
            if not is_fusible(producer) or not paths.all_fuse(producer, consumer):
                paths.kept.add(producer)
    return paths.kept


class _Paths:
    """What reaches what, and which steps on the way fuse; `bit` numbers the producers that it matters for."""

    __slots__ = ("_decider", "_known", "_reaching", "_steps", "bit", "kept")

    def __init__(self, order: Sequence[Node], before: dict[Node, list[Node]], decider: FusionDecider) -> None:
        self.kept: set[Node] = set()
        self.bit: dict[Node, int] = {}
        self._decider = decider
        self._steps: dict[tuple[Node, Node], bool] = {}
        self._known: dict[tuple[Node, Node], bool] = {}
        self._reaching: dict[Node, int] = {}
        for node in order:
            reaching = 0
            for other in (*node.operands, *before.get(node, ())):
                reaching |= self._reaching.get(other, 0)
            if _reads_more_than_it_gives(node):
                self.bit[node] = len(self.bit)
                reaching |= 1 << self.bit[node]
            self._reaching[node] = reaching

    def all_fuse(self, producer: Node, consumer: Node) -> bool:
        """Whether on every way from the producer to the consumer each step can be fused."""
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
        """Whether all ways fuse; or the operand for which that must be known before."""
        if not is_fusible(consumer):
            return False, None
        for operand in consumer.operands:
            if not self._reaching[operand] >> bit & 1:
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


def _reads_more_than_it_gives(node: Node) -> bool:
    """Whether more than one operand is about as large as the result, and all together are larger."""
    rank = max((_true_rank(leaf) for _, leaf in node.shape.leaves), default=0)
    large = (
        _true_rank(operand.shape) >= rank
        for operand in node.operands
        if operand.opcode not in _MADE_OF_NOTHING
        and not (operand.opcode == opcodes.CONSTANT and is_effective_scalar(operand.shape))
    )
    if sum(large) <= 1:
        return False
    return sum(_elements(operand.shape) for operand in dict.fromkeys(node.operands)) > _elements(node.shape)


def _true_rank(shape: Shape) -> int:
    return sum(size != 1 for size in sizes_of(shape))


def _elements(shape: Shape) -> int:
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))
