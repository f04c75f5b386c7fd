"""One kernel as XLA analyzes it before it exists: a producer and a consumer, seen as one fusion.

Mirrors `HloFusionAdaptor` and `HloInstructionAdaptor` of xla/hlo/utils/hlo_traversal.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir import opcodes


class View:
    """Operations of a consumer, and of the producer that would be fused into it, if any.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = "ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> view = View(graph.root, graph.root.operands[0])
    >>> view.roots, view.parameters, [node.name for node in view.nodes]
    ([<node not b>], [<node parameter p>], ['b', 'a'])
    """

    __slots__ = ("_movers", "_operands", "_users", "consumer", "producer")

    def __init__(
        self, consumer: Node, producer: Node | None = None, movers: dict[Node, list[Node]] | None = None
    ) -> None:
        """`movers` remembers those of each part, for several views."""
        self.consumer = consumer
        self.producer = producer
        self._movers = {} if movers is None else movers
        self._operands: dict[Node, list[Node]] = {}
        self._users: dict[Node, list[Node]] | None = None

    @property
    def nodes(self) -> Iterator[Node]:
        """Operations without parameters and the tuple of results."""
        for part in (self.consumer, self.producer):
            if part is not None:
                yield from _operations(part)

    @property
    def movers(self) -> list[Node]:
        """Transposes and concatenates among the operations."""
        return self._movers_of(self.consumer) + (self._movers_of(self.producer) if self.producer is not None else [])

    @property
    def roots(self) -> list[Node]:
        """Nodes that compute the results."""
        body = self.consumer.body
        if body is None:
            return [self.consumer]
        results = body.root.operands if body.root.opcode == opcodes.TUPLE else [body.root]
        return [self._source(node, self.consumer) for node in results]

    @property
    def parameters(self) -> list[Node]:
        """Operands of the fusion: the consumer's without the producer, then new ones of the producer."""
        if self.producer is None:
            return self.consumer.operands
        merged = [operand for operand in self.consumer.operands if operand is not self.producer]
        known = set(merged)
        for operand in self.producer.operands:
            if operand not in known:
                known.add(operand)
                merged.append(operand)
        return merged

    def contains(self, node: Node) -> bool:
        """Whether a node is an operation of the fusion."""
        if node.opcode == opcodes.PARAMETER:
            return False
        for part in (self.consumer, self.producer):
            if part is not None and (node is part if part.body is None else node in part.body.nodes):
                return True
        return False

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
        return list(dict.fromkeys(o for node in self.nodes for o in self.operands(node) if not self.contains(o)))

    def _movers_of(self, part: Node) -> list[Node]:
        found = self._movers.get(part)
        if found is None:
            found = [node for node in _operations(part) if node.opcode in (opcodes.TRANSPOSE, opcodes.CONCATENATE)]
            self._movers[part] = found
        return found

    def _owner(self, node: Node) -> Node:
        producer = self.producer
        if producer is None:
            return self.consumer
        if node is producer or (producer.body is not None and node in producer.body.nodes):
            return producer
        return self.consumer

    def _source(self, node: Node, owner: Node) -> Node:
        """Node that computes a value that `owner`, or an operation in it, uses."""
        if node.opcode == opcodes.PARAMETER and owner.body is not None and node in owner.body.nodes:
            node = owner.operands[node.number]
        if node is self.producer and owner is self.consumer:
            return node if node.body is None else self._source(node.body.root, node)
        return node


def _operations(part: Node) -> Iterator[Node]:
    """A node, or the operations of a fusion without parameters and the tuple of results."""
    if part.body is None:
        yield part
        return
    root = part.body.root
    for node in part.body.nodes:
        if node.opcode != opcodes.PARAMETER and not (node is root and node.opcode == opcodes.TUPLE):
            yield node
