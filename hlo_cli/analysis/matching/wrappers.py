"""Pairs instructions that only forward values: fusions, calls, parameters of their computations, and tuple elements.

Fusions are paired by the pairs in their fused computations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hlo_cli.analysis.matching.graph import Graph
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction


def pair_wrappers(pairs: Pairs, computations: Mapping[Computation, Computation]) -> dict[Computation, Computation]:
    """Pairs forwarding instructions and inlined computations; returns all pairs of computations."""
    wrappers = _Wrappers(pairs, dict(computations), set(computations.values()))
    wrappers.pair_bodies()
    wrappers.pair_operands()
    wrappers.pair_by_index()
    return wrappers.paired


@dataclass(frozen=True, slots=True)
class _Wrappers:
    """Pairs of computations found so far, and the paired computations of the second module."""

    pairs: Pairs
    paired: dict[Computation, Computation]
    taken: set[Computation]

    def pair_bodies(self) -> None:
        """Pairs inlined computations with the same result, or half of the smaller one paired; those with most pairs
        first.
        """
        one, two = self.pairs.one, self.pairs.two
        votes: Counter[tuple[Computation, Computation]] = Counter()
        for a, b in self.pairs.found:
            x, y = one.nodes[a].computation, two.nodes[b].computation
            if x in one.bodies and y in two.bodies:
                votes[x, y] += 1
        for (x, y), voted in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0][0].name != vote[0][1].name)):
            if 2 * voted >= min(_instruction_count(one, x), _instruction_count(two, y)) or self._have_same_result(x, y):
                self._pair_body(x, y)

    def pair_operands(self) -> None:
        """Pairs forwarding instructions at the same operand position of a pair, transitively."""
        pairs, at = self.pairs, 0
        while at < len(pairs.found):
            a, b = pairs.found[at]
            at += 1
            one, two = pairs.one.nodes[a], pairs.two.nodes[b]
            if self.paired.get(one.computation) is not two.computation:
                continue
            for x, y in zip(one.operands, two.operands, strict=False):
                self._pair(x, y)
            for c, d in zip(one.called_computations, two.called_computations, strict=False):
                if self.paired.get(c) is d and c.root is not None and d.root is not None:
                    self._pair(c.root, d.root)

    def pair_by_index(self) -> None:
        """Pairs parameters by number and tuple elements by index where no user determines their pair."""
        pairs = self.pairs
        for x, y in self.paired.items():
            if x in pairs.one.bodies and y in pairs.two.bodies:
                for one, two in zip(x.parameters, y.parameters, strict=False):
                    self._pair(one, two)
        elements = {
            (pairs.two.node(two.operands[0]), two.attribute("index")): two
            for b, two in enumerate(pairs.two.nodes)
            if two.opcode == opcodes.GET_TUPLE_ELEMENT and pairs.before[b] < 0 and pairs.two.value[b] != b
        }
        for a, one in enumerate(pairs.one.nodes) if elements else ():
            if one.opcode == opcodes.GET_TUPLE_ELEMENT and pairs.after[a] < 0 and pairs.one.value[a] != a:
                operand = pairs.after[pairs.one.node(one.operands[0])]
                if (found := elements.get((operand, one.attribute("index")))) is not None:
                    self._pair(one, found)

    def _pair(self, x: Instruction, y: Instruction) -> None:
        """Pairs two forwarding instructions and their computations."""
        pairs = self.pairs
        if x.opcode != y.opcode:
            return
        a, b = pairs.one.node(x), pairs.two.node(y)
        if pairs.are_free(a, b) and pairs.one.value[a] != a and pairs.two.value[b] != b:
            pairs.add(a, b)
            for c, d in zip(x.called_computations, y.called_computations, strict=False):
                if c in pairs.one.bodies and d in pairs.two.bodies:
                    self._pair_body(c, d)

    def _pair_body(self, x: Computation, y: Computation) -> None:
        one, two = self.pairs.one.bodies[x], self.pairs.two.bodies[y]
        if x not in self.paired and y not in self.taken and one.opcode == two.opcode:
            self.paired[x] = y
            self.taken.add(y)
            self._pair(one, two)

    def _have_same_result(self, x: Computation, y: Computation) -> bool:
        assert x.root is not None
        assert y.root is not None
        one, two = self.pairs.one, self.pairs.two
        return self.pairs.after[one.value[one.node(x.root)]] == two.value[two.node(y.root)]


def _instruction_count(graph: Graph, computation: Computation) -> int:
    """Number of instructions that do not only forward a value."""
    first = graph.first_nodes[computation]
    return sum(graph.value[first + i.index] == first + i.index for i in computation.instructions)
