"""One kernel as XLA analyzes it before it exists: a producer and a consumer, seen as one fusion.

Mirrors `HloFusionAdaptor` and `HloInstructionAdaptor` of xla/hlo/utils/hlo_traversal.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.parts import Part
from hlo_cli.ir import opcodes


class View:
    """Operations of a consumer, and of the producer that would be fused into it, if any.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = "ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> view = View(Part(graph.root), Part(graph.root.operands[0]))
    >>> view.roots, [node.name for node in view.nodes], view.operands(view.roots[0])
    ([<node not b>], ['b', 'a'], [<node not a>])
    """

    __slots__ = ("_operands", "_users", "consumer", "is_plain", "parts", "producer")

    def __init__(self, consumer: Part, producer: Part | None = None) -> None:
        self.parts: tuple[Part, ...] = (consumer,)
        self.consumer, self.is_plain = consumer.node, consumer.is_plain
        self.producer: Node | None = None
        if producer is not None:
            self.parts = consumer, producer
            self.producer, self.is_plain = producer.node, consumer.is_plain and producer.is_plain
        self._operands: dict[Node, list[Node]] = {}
        self._users: dict[Node, list[Node]] | None = None

    @property
    def nodes(self) -> Iterator[Node]:
        """Operations without parameters and the tuple of results."""
        for part in self.parts:
            yield from part.operations

    @property
    def movers(self) -> list[Node]:
        """Transposes and concatenates among the operations."""
        return [mover for part in self.parts for mover in part.movers]

    @property
    def roots(self) -> list[Node]:
        """Nodes that compute the results."""
        results = self.parts[0].results
        return results if self.consumer.body is None else [self._source(node, self.consumer) for node in results]

    def has_any(self, wanted: Collection[str]) -> bool:
        """Whether there is an operation with one of these opcodes."""
        return not all(part.opcodes.isdisjoint(wanted) for part in self.parts)

    def contains(self, node: Node) -> bool:
        """Whether a node is an operation of the fusion."""
        if node.opcode == opcodes.PARAMETER:
            return False
        return self.parts[0].contains(node) or (self.producer is not None and self.parts[1].contains(node))

    def operands(self, node: Node) -> list[Node]:
        """Operands of a node, across the boundary of producer and consumer; parameters are nodes outside."""
        found = self._operands.get(node)
        if found is None:
            owner = self._owner(node)
            found = self._operands[node] = [self._source(operand, owner) for operand in node.operands]
        return found

    def users(self, node: Node) -> list[Node]:
        """Operations of the fusion that use a node inside or outside of it."""
        if self._users is None:
            self._users = {}
            for user in self.nodes:
                for operand in dict.fromkeys(self.operands(user)):
                    self._users.setdefault(operand, []).append(user)
        return self._users.get(node, [])

    def walk(self, starts: list[Node], visit: Callable[[Node], bool]) -> None:
        """Calls `visit` for nodes breadth first from `starts` to operands; it returns whether to continue there."""
        waiting = list(dict.fromkeys(starts))
        seen = set(waiting)
        for node in waiting:
            if visit(node):
                for operand in self.operands(node):
                    if operand not in seen and self.contains(operand):
                        seen.add(operand)
                        waiting.append(operand)

    def arguments(self) -> list[Node]:
        """Nodes outside that operations of the fusion use."""
        found = dict.fromkeys([operand for node in self.nodes for operand in self.operands(node)])
        return [operand for operand in found if not self.contains(operand)]

    def _owner(self, node: Node) -> Node:
        producer = self.producer
        return producer if producer is not None and self.parts[1].contains(node) else self.consumer

    def _source(self, node: Node, owner: Node) -> Node:
        """Node that computes a value that `owner`, or an operation in it, uses."""
        if node.opcode == opcodes.PARAMETER and owner.body is not None and node in owner.body.nodes:
            node = owner.operands[node.number]
        if node is self.producer and owner is self.consumer:
            return node if node.body is None else self._source(node.body.root, node)
        return node
