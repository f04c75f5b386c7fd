"""Pairs of nodes of two graphs found so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.matching.element_pairs import ElementMap, ElementPairs
from hlo_cli.analysis.matching.graph import ESSENTIAL, Graph, Key, Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation

NONE: Final = -1


class Pairs:
    """Two graphs and the pairs of their nodes; a node is in at most one pair.

    `after[a]` is the partner of node a in the second graph, `before[b]` that of node b in the first; NONE if unpaired.
    `found` has the pairs in the order found. `one` and `two` are the graphs in use, `plain` the original, unflattened
    ones. `elements` pairs the elements of tuples, given the pairs found so far.
    """

    __slots__ = ("_bags", "after", "before", "elements", "found", "one", "plain", "two")

    def __init__(self, one: Graph, two: Graph) -> None:
        self.one = one
        self.two = two
        self.plain = one, two
        self.after: list[Node] = [NONE] * len(one.nodes)
        self.before: list[Node] = [NONE] * len(two.nodes)
        self.found: list[tuple[Node, Node]] = []
        self.elements = ElementPairs(one, two, self.after, self.before)
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

    def shifted_elements(self, a: Node, b: Node) -> ElementMap | None:
        """Elements of two tuple instructions if they are not the same at the same indices, else None."""
        if self.one.nodes[a].opcode != opcodes.TUPLE or self.two.nodes[b].opcode != opcodes.TUPLE:
            return None
        elements = self.elements.of(a, b)
        return None if elements.is_identity else elements

    def operand_pairs(self, a: Node, b: Node) -> Iterable[tuple[Node, Node]]:
        """Operands at the same positions; those of tuples at corresponding ones."""
        ones, twos = self.one.operands[a], self.two.operands[b]
        if (elements := self.shifted_elements(a, b)) is None:
            return zip(ones, twos, strict=False)
        return [(ones[i], twos[j]) for i, j in enumerate(elements.after) if j >= 0]

    def operand_at(self, user: Node, position: int) -> Node:
        """Operand of the partner of `user` at the position that corresponds to one of `user`; NONE if it has none."""
        other = self.after[user]
        if (elements := self.shifted_elements(user, other)) is not None:
            position = elements.new_index(position)
        operands = self.two.operands[other]
        return operands[position] if 0 <= position < len(operands) else NONE

    def is_same_element(self, a: Node, b: Node) -> bool:
        """Whether two nodes whose operands are paired take the same element of these; True if they take none."""
        i, j = self.one.tuple_index[a], self.two.tuple_index[b]
        ones, twos = self.plain[0].operands[a], self.plain[1].operands[b]
        if i < 0 or j < 0 or not ones or not twos:
            return i < 0 and j < 0
        return self.elements.of(ones[0], twos[0]).new_index(i) == j

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
