"""Which instruction is which in the other module, while that is being found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.matching.graph import MEANT, Graph, Key, Node
from hlo_cli.ir.computation import Computation

NONE: Final = -1


class Pairs:
    """Two graphs, and the pairs of nodes found so far; every node is in one pair at most.

    `after[a]` is the node of the second graph that a is paired with, `before[b]` the other way round; NONE if there is
    none. `found` holds the pairs in the order in which they were found. `one` and `two` are the graphs that are looked
    at now, `plain` both as they were at first.
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
        """Both graphs, each with the pairs of its nodes."""
        return (self.one, self.after), (self.two, self.before)

    def add(self, a: Node, b: Node) -> None:
        """These two are one instruction."""
        self.after[a] = b
        self.before[b] = a
        self.found.append((a, b))

    def add_all(self, ones: Sequence[Node], twos: Sequence[Node]) -> None:
        """All instructions of two computations are one, in their order."""
        self.after[ones[0] : ones[-1] + 1] = twos
        self.before[twos[0] : twos[-1] + 1] = ones
        self.found.extend(zip(ones, twos, strict=True))

    def are_twins(self, x: Computation, y: Computation) -> bool:
        """Whether two computations are the same letter by letter, and paired line by line."""
        one, two = self.plain
        a, b, count = one.taken[x], two.taken[y], len(x.instructions)
        return two.unit_of[y].twin is x and self.after[a : a + count] == list(range(b, b + count))

    def are_free(self, a: Node, b: Node) -> bool:
        """Whether neither is paired yet."""
        return self.after[a] < 0 and self.before[b] < 0

    def same_value(self, a: Node, b: Node) -> bool:
        """Whether two operands are one: a pair, or computed alike from the same parameters."""
        return self.after[a] == b or 0 <= self.one.comparable[a] == self.two.comparable[b]

    def have_one_name(self, a: Node, b: Node) -> bool:
        """Whether they are called the same, which decides only where nothing else does."""
        return self.one.nodes[a].name == self.two.nodes[b].name

    def likeness_of_calls(self, a: Node, b: Node) -> float:
        """How much of what two instructions run says the same, from 0 to 1."""
        ones, twos = self.one.nodes[a].called_computations, self.two.nodes[b].called_computations
        if not ones or len(ones) != len(twos):
            return float(len(ones) == len(twos))
        likenesses = [self.likeness_of_computations(x, y) for x, y in zip(ones, twos, strict=True)]
        return sum(likenesses) / len(likenesses)

    def likeness_of_computations(self, x: Computation, y: Computation) -> float:
        """How much of two computations says the same, from 0 to 1."""
        ones, twos = self._bag(self.one, x), self._bag(self.two, y)
        common = sum(min(count, twos[key]) for key, count in ones.items() if key in twos)
        return 2 * common / max(ones.total() + twos.total(), 1)

    def _bag(self, graph: Graph, computation: Computation) -> Counter[Key]:
        """How often each thing is said in a computation."""
        if (bag := self._bags.get(computation)) is None:
            first, keys = graph.taken[computation], graph.keys[MEANT]
            bag = self._bags[computation] = Counter(keys[first : first + len(computation.instructions)])
        return bag
