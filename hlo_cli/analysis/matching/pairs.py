"""Pairs of nodes of two graphs found so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.matching.graph import ESSENTIAL, Graph, Key, Node
from hlo_cli.ir.instruction import Computation

NONE: Final = -1


class Pairs:
    """Two graphs and the pairs of their nodes; a node is in at most one pair.

    `after[a]` is the partner of node a in the second graph, `before[b]` that of node b in the first; NONE if unpaired.
    `found` has the pairs in the order found. `one` and `two` are the graphs in use, `plain` the original, unflattened
    ones.
    """

    __slots__ = ("_bags", "after", "before", "found", "one", "plain", "two")

    def __init__(self, one: Graph, two: Graph) -> None:
        self.one = one
        self.two = two
        self.plain = one, two
        self.after: list[Node] = [NONE] * len(one.nodes)
        self.before: list[Node] = [NONE] * len(two.nodes)
        self.found: list[tuple[Node, Node]] = []
        self._bags: dict[Computation, Counter[Key]] = {}

    @property
    def sides(self) -> tuple[tuple[Graph, list[Node]], tuple[Graph, list[Node]]]:
        """Both graphs, each with the partners of its nodes."""
        return (self.one, self.after), (self.two, self.before)

    def add(self, a: Node, b: Node) -> None:
        """Pairs two nodes."""
        self.after[a] = b
        self.before[b] = a
        self.found.append((a, b))

    def add_all(self, ones: Sequence[Node], twos: Sequence[Node]) -> None:
        """Pairs the nodes of two computations in order."""
        self.after[ones[0] : ones[-1] + 1] = twos
        self.before[twos[0] : twos[-1] + 1] = ones
        self.found.extend(zip(ones, twos, strict=True))

    def are_identical(self, x: Computation, y: Computation) -> bool:
        """Whether two computations have identical text and are paired line by line."""
        one, two = self.plain
        a, b, count = one.first_nodes[x], two.first_nodes[y], len(x.instructions)
        return two.unit_of[y].twin is x and self.after[a : a + count] == list(range(b, b + count))

    def are_free(self, a: Node, b: Node) -> bool:
        """Whether both nodes are unpaired."""
        return self.after[a] < 0 and self.before[b] < 0

    def same_value(self, a: Node, b: Node) -> bool:
        """Whether two operands are a pair, or compute the same from the same parameters."""
        return self.after[a] == b or 0 <= self.one.comparable[a] == self.two.comparable[b]

    def have_same_name(self, a: Node, b: Node) -> bool:
        """Whether two nodes have the same name, which decides only between equal candidates."""
        return self.one.nodes[a].name == self.two.nodes[b].name

    def call_similarity(self, a: Node, b: Node) -> float:
        """Average similarity of the computations that two nodes call, from 0 to 1."""
        ones, twos = self.one.nodes[a].called_computations, self.two.nodes[b].called_computations
        if not ones or len(ones) != len(twos):
            return float(len(ones) == len(twos))
        similarities = [self.computation_similarity(x, y) for x, y in zip(ones, twos, strict=True)]
        return sum(similarities) / len(similarities)

    def computation_similarity(self, x: Computation, y: Computation) -> float:
        """Share of instructions with equal essential keys in two computations, from 0 to 1 (Dice coefficient)."""
        ones, twos = self._bag(self.one, x), self._bag(self.two, y)
        common = sum(min(count, twos[key]) for key, count in ones.items() if key in twos)
        return 2 * common / max(ones.total() + twos.total(), 1)

    def _bag(self, graph: Graph, computation: Computation) -> Counter[Key]:
        """Number of nodes for each essential key in a computation."""
        if (bag := self._bags.get(computation)) is None:
            first, keys = graph.first_nodes[computation], graph.keys[ESSENTIAL]
            bag = self._bags[computation] = Counter(keys[first : first + len(computation.instructions)])
        return bag
