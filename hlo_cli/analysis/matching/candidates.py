"""Finds candidate pairs near existing pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.matching.graph import ESSENTIAL, Graph, Node
from hlo_cli.analysis.matching.instruction_diff import is_inlined_parameter
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

_MAX_USERS: Final = 16
_MAX_SKIPPED_OPERANDS: Final = 4


@dataclass(frozen=True, slots=True)
class CandidatePairs:
    """Finds candidate pairs along the edges of two graphs; both nodes of a candidate have one opcode.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> pairs.add(0, 0)
    >>> list(CandidatePairs(pairs, *pairs.plain).candidate_positions(1, -1))
    [(1, 1)]
    """

    pairs: Pairs
    one: Graph
    two: Graph

    def inconsistent_neighbors(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Operands and users at the same positions of `a` and `b` that are not paired with each other."""
        after, (one, two) = self.pairs.after, (self.one, self.two)
        yield from self._operands(a, b)
        users: dict[tuple[str, int], list[Node]] = {}
        for v, position in two.users[b][:_MAX_USERS]:
            users.setdefault((two.nodes[v].opcode, position), []).append(v)
        for u, position in one.users[a][:_MAX_USERS]:
            group = users.get((one.nodes[u].opcode, position), [])
            if after[u] not in group:
                yield from ((u, v) for v in group)

    def mismatched(self, a: Node, b: Node) -> Iterator[Node]:
        """Paired operands of `a`, and partners of operands of `b`, that are paired with a node at another position."""
        after, before = self.pairs.after, self.pairs.before
        for x, y in zip(self.one.operands[a][:_MAX_USERS], self.two.operands[b], strict=False):
            if after[x] != y:
                yield from (node for node in (x, before[y]) if node >= 0 and after[node] >= 0)

    def candidate_positions(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Candidate pairs of `a`, and of `b`, with nodes near the partners of their users and operands; NONE stands for
        no node.
        """
        if a >= 0:
            opcode, after = self.one.nodes[a].opcode, self.pairs.after
            around = _nearby(self.one, self.two, a, after)
            yield from ((a, y) for y in around if after[a] != y and self.two.nodes[y].opcode == opcode)
        if b >= 0:
            opcode, before = self.two.nodes[b].opcode, self.pairs.before
            around = _nearby(self.two, self.one, b, before)
            yield from ((x, b) for x in around if before[b] != x and self.one.nodes[x].opcode == opcode)

    def can_pair(self, a: Node, b: Node) -> bool:
        """Whether two nodes have the same shape or essential key and, if parameters, the same number.

        With NONE for `b`: whether `a` can be left unpaired.
        """
        one, two = self.one, self.two
        if (
            b >= 0
            and one.keys[ESSENTIAL][a] != two.keys[ESSENTIAL][b]
            and not _have_same_shape(one.nodes[a], two.nodes[b])
        ):
            return False
        if one.nodes[a].opcode != opcodes.PARAMETER or (
            is_inlined_parameter(one, a) and (b < 0 or is_inlined_parameter(two, b))
        ):
            return True
        return b >= 0 and one.nodes[a].parameter_number == two.nodes[b].parameter_number

    def _operands(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Unequal operands at one position, also with the operands of an unpaired operand in its place."""
        one, two, pairs = self.one, self.two, self.pairs
        for x, y in zip(one.operands[a], two.operands[b], strict=False):
            if pairs.after[x] == y:
                continue
            both = [(x, y)]
            both += [(x, z) for z in two.operands[y][:_MAX_SKIPPED_OPERANDS] if pairs.before[y] < 0]
            both += [(z, y) for z in one.operands[x][:_MAX_SKIPPED_OPERANDS] if pairs.after[x] < 0]
            yield from (pair for pair in both if one.nodes[pair[0]].opcode == two.nodes[pair[1]].opcode)


def _have_same_shape(one: Instruction, two: Instruction) -> bool:
    return one.shape.to_string(layout=False) == two.shape.to_string(layout=False)


def _nearby(graph: Graph, opposite: Graph, node: Node, other: list[Node]) -> Iterator[Node]:
    """Nodes of the opposite graph at the position of a node, as given by its paired users and operands, or one node
    further.
    """
    for user, position in graph.users[node][:_MAX_USERS]:
        if (pair := other[user]) >= 0:
            yield pair
            for operand in opposite.operands[pair][position : position + 1]:
                yield operand
                yield from opposite.operands[operand][:1]
    for operand in graph.operands[node][:_MAX_USERS]:
        if (pair := other[operand]) >= 0:
            yield pair
            for user, _ in opposite.users[pair][:_MAX_USERS]:
                yield user
                yield from (u for u, _ in opposite.users[user][:2])
