"""Which instruction is which in the other module, while that is being found out."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.matching.graph import Graph, Node

NONE: Final = -1


class Pairs:
    """Two graphs, and the pairs of nodes found so far; every node is in one pair at most.

    `after[a]` is the node of the second graph that a is paired with, `before[b]` the other way round; NONE if there is
    none. `found` holds the pairs in the order in which they were found.
    """

    __slots__ = ("after", "before", "found", "one", "two")

    def __init__(self, one: Graph, two: Graph) -> None:
        self.one = one
        self.two = two
        self.after: list[Node] = [NONE] * len(one.nodes)
        self.before: list[Node] = [NONE] * len(two.nodes)
        self.found: list[tuple[Node, Node]] = []

    def add(self, a: Node, b: Node) -> None:
        """These two are one instruction."""
        self.after[a] = b
        self.before[b] = a
        self.found.append((a, b))

    def are_free(self, a: Node, b: Node) -> bool:
        """Whether neither is paired yet."""
        return self.after[a] < 0 and self.before[b] < 0

    def same_value(self, a: Node, b: Node) -> bool:
        """Whether two operands are one: a pair, or computed alike from the same parameters."""
        return self.after[a] == b or self.one.expression[a] == self.two.expression[b]

    def have_one_name(self, a: Node, b: Node) -> bool:
        """Whether they are called the same, which decides only where nothing else does."""
        return self.one.nodes[a].name == self.two.nodes[b].name
