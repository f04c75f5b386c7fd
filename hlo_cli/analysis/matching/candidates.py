"""Which other pairs may be made beside the pairs that there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.matching.graph import MEANT, Graph, Node
from hlo_cli.analysis.matching.instruction_diff import is_plumbing
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

_MOST_USERS: Final = 16
_FEW: Final = 4


@dataclass(frozen=True, slots=True)
class CandidatePairs:
    """Looks for pairs along the links of two graphs; only instructions of one opcode are offered.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> pairs.add(0, 0)
    >>> list(CandidatePairs(pairs, *pairs.plain).places(1, -1))
    [(1, 1)]
    """

    pairs: Pairs
    one: Graph
    two: Graph

    def out_of_step(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """What stands at the same places beside two, and is no pair."""
        after, (one, two) = self.pairs.after, (self.one, self.two)
        yield from self._operands(a, b)
        users: dict[tuple[str, int], list[Node]] = {}
        for v, slot in two.users[b][:_MOST_USERS]:
            users.setdefault((two.nodes[v].opcode, slot), []).append(v)
        for u, slot in one.users[a][:_MOST_USERS]:
            group = users.get((one.nodes[u].opcode, slot), [])
            if after[u] not in group:
                yield from ((u, v) for v in group)

    def wrong(self, a: Node, b: Node) -> Iterator[Node]:
        """Operands of two whose pairs may be none, for they are not where these take them."""
        after, before = self.pairs.after, self.pairs.before
        for x, y in zip(self.one.operands[a][:_MOST_USERS], self.two.operands[b], strict=False):
            if after[x] != y:
                yield from (node for node in (x, before[y]) if node >= 0 and after[node] >= 0)

    def places(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Pairs of either with what stands where it may stand itself."""
        if a >= 0:
            opcode, after = self.one.nodes[a].opcode, self.pairs.after
            around = _around(self.one, self.two, a, after)
            yield from ((a, y) for y in around if after[a] != y and self.two.nodes[y].opcode == opcode)
        if b >= 0:
            opcode, before = self.two.nodes[b].opcode, self.pairs.before
            around = _around(self.two, self.one, b, before)
            yield from ((x, b) for x in around if before[b] != x and self.one.nodes[x].opcode == opcode)

    def may_pair(self, a: Node, b: Node) -> bool:
        """Whether two have one shape, and one number where that counts; with NONE, whether one may be in no pair."""
        one, two = self.one, self.two
        if b >= 0 and one.keys[MEANT][a] != two.keys[MEANT][b] and not _have_one_shape(one.nodes[a], two.nodes[b]):
            return False
        if one.nodes[a].opcode != opcodes.PARAMETER or (is_plumbing(one, a) and (b < 0 or is_plumbing(two, b))):
            return True
        return b >= 0 and one.nodes[a].parameter_number == two.nodes[b].parameter_number

    def _operands(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Operands at one place, also behind one that is in no pair."""
        one, two, pairs = self.one, self.two, self.pairs
        for x, y in zip(one.operands[a], two.operands[b], strict=False):
            if pairs.after[x] == y:
                continue
            both = [(x, y)]
            both += [(x, z) for z in two.operands[y][:_FEW] if pairs.before[y] < 0]
            both += [(z, y) for z in one.operands[x][:_FEW] if pairs.after[x] < 0]
            yield from (pair for pair in both if one.nodes[pair[0]].opcode == two.nodes[pair[1]].opcode)


def _have_one_shape(one: Instruction, two: Instruction) -> bool:
    return one.shape.to_string(layout=False) == two.shape.to_string(layout=False)


def _around(graph: Graph, opposite: Graph, node: Node, other: list[Node]) -> Iterator[Node]:
    """Where a node may stand in the opposite graph, by its users and operands: there, or behind what is new there."""
    for user, slot in graph.users[node][:_MOST_USERS]:
        if (pair := other[user]) >= 0:
            yield pair
            for operand in opposite.operands[pair][slot : slot + 1]:
                yield operand
                yield from opposite.operands[operand][:1]
    for operand in graph.operands[node][:_MOST_USERS]:
        if (pair := other[operand]) >= 0:
            yield pair
            for user, _ in opposite.users[pair][:_MOST_USERS]:
                yield user
                yield from (u for u, _ in opposite.users[user][:2])
