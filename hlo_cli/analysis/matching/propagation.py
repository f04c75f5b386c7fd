"""Propagates pairs to their neighbors, most similar first.

Nodes at the same position next to a pair are candidates. A priority queue orders them by similarity of content and the
number of paired neighbors; each new pair adds its own neighbors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from hlo_cli.analysis.matching.content import op_name_in
from hlo_cli.analysis.matching.graph import CONTENT, LEVELS, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

_MAX_USERS: Final = 32
"""Maximum number of users compared per node: values used everywhere are weak evidence."""
_MAX_COMBINATIONS: Final = 64
_MAX_EAGER_OPERANDS: Final = 64
"""Maximum number of operands for which a candidate is scored again whenever one more of them is paired."""
_SAME_OP_NAME: Final = 1.0
_SAME_NAME: Final = 0.01
_DATA_MOVEMENT: Final = frozenset(
    (opcodes.BITCAST, opcodes.BROADCAST, opcodes.COPY, opcodes.RESHAPE, opcodes.TRANSPOSE)
)
"""Opcodes that only move data; they are not paired with opcodes that compute."""
_ALL_AGREE: Final = 4
"""Score of nodes that agree in all operands and users, but not in content."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """Similarity of two nodes: score of the content, number of common operands, common users, and differing
    neighbors.
    """

    content: int
    operands: int
    users: int
    differing: int
    score: float


class MatchPropagation:
    """Priority queue of candidate pairs for given nodes of the first graph."""

    __slots__ = ("_any_opcode", "_deferred", "_nodes", "_pairs", "_queue", "_seen")

    def __init__(self, pairs: Pairs, nodes: Iterable[Node]) -> None:
        self._pairs = pairs
        self._queue: list[tuple[float, Node, Node]] = []
        self._deferred: dict[tuple[Node, Node], int] = {}
        self._nodes = [a for a in nodes if pairs.after[a] < 0]
        self._any_opcode = False

    def propagate(self) -> None:
        """Pairs candidates that are similar enough, starting at the neighbors of unpaired nodes."""
        pairs = self._pairs
        self._seen = len(pairs.found)
        self._nodes = [a for a in self._nodes if pairs.after[a] < 0]
        neighbors = {
            x: None for a in self._nodes for x in (*pairs.one.operands[a], *(u for u, _ in pairs.one.users[a]))
        }
        for x in neighbors:
            if pairs.after[x] >= 0:
                self._add_neighbors(x, pairs.after[x])
        while True:
            while self._seen < len(pairs.found):
                self._add_neighbors(*pairs.found[self._seen])
                self._seen += 1
            if not self._queue and not self._requeue_deferred():
                return
            negative, a, b = heappop(self._queue)
            if not pairs.are_free(a, b):
                continue
            similarity = self.similarity(a, b)
            if -similarity.score > negative + 1e-9:
                heappush(self._queue, (-similarity.score, a, b))
            elif _is_likely(similarity):
                pairs.add(a, b)

    def propagate_to_other_opcodes(self) -> None:
        """Propagates again and also pairs nodes whose opcode changed at the same position."""
        self._any_opcode = True
        self.propagate()

    def add_candidate(self, a: Node, b: Node) -> None:
        """Adds a candidate pair to the queue, if both nodes are unpaired and compatible."""
        if self._pairs.are_free(a, b) and self._can_pair(a, b) and self._is_due(a, b):
            self._push(a, b)

    def _push(self, a: Node, b: Node) -> None:
        heappush(self._queue, (-self.similarity(a, b).score, a, b))

    def _is_due(self, a: Node, b: Node) -> bool:
        """Whether to score a candidate now: each of thousands of operands adds the same pair of users again."""
        width = len(self._pairs.one.operands[a])
        if width <= _MAX_EAGER_OPERANDS:
            return True
        deferrals = self._deferred.get((a, b), width) + 1
        is_due = deferrals * _MAX_EAGER_OPERANDS > width
        self._deferred[a, b] = 0 if is_due else deferrals
        return is_due

    def _requeue_deferred(self) -> bool:
        """Adds the deferred candidates to the queue; whether there are any."""
        waiting = [(a, b) for (a, b), deferrals in self._deferred.items() if deferrals and self._pairs.are_free(a, b)]
        for a, b in waiting:
            self._deferred[a, b] = 0
            self._push(a, b)
        return bool(waiting)

    def similarity(self, a: Node, b: Node) -> Similarity:
        """Similarity of two unpaired nodes under the current pairs."""
        pairs = self._pairs
        ones, twos = pairs.one.operands[a], pairs.two.operands[b]
        agreeing, differing = self._operands_in_common(a, b)
        taken = agreeing / max(len(ones), len(twos)) if ones or twos else 1.0
        used, not_used = self._users_in_common(a, b)
        users = used / max(len(pairs.one.users[a]), len(pairs.two.users[b]), 1)
        if a in pairs.one.roots and b in pairs.two.roots:
            used, users = used + 1, 1.0
        content = self._content_score(a, b)
        score = content + 2 * taken + 2 * min(users, 1.0) - 2 * (differing > 0) - 1 * (not_used > 0)
        if pairs.one.nodes[a].called_computations:
            score += 2 * pairs.call_similarity(a, b)
        score += _SAME_OP_NAME * (content > LEVELS or self._have_same_op_name(a, b))
        score += _SAME_NAME * pairs.have_same_name(a, b)
        return Similarity(content, agreeing, used, differing + not_used, score)

    def _operands_in_common(self, a: Node, b: Node) -> tuple[int, int]:
        """Number of operands of equal value at one position, and of those that are paired with others.

        Positions do not count in tuples, whose elements shift; a tuple element differs if it is another one.
        """
        pairs = self._pairs
        ones, twos = pairs.one.operands[a], pairs.two.operands[b]
        if pairs.one.nodes[a].opcode == pairs.two.nodes[b].opcode == opcodes.TUPLE and len(ones) != len(twos):
            there = set(twos)
            paired = [x for x in ones if pairs.after[x] >= 0]
            agreeing = sum(pairs.after[x] in there for x in paired)
            return agreeing, len(paired) - agreeing
        agreeing = differing = 0
        for x, y in zip(ones, twos, strict=False):
            if pairs.same_value(x, y):
                agreeing += 1
            elif pairs.after[x] >= 0 and pairs.before[y] >= 0:
                differing += 1
        return (0, 1) if agreeing and not pairs.is_same_element(a, b) else (agreeing, differing)

    def _content_score(self, a: Node, b: Node) -> int:
        """Score of equal content: 5 to 2 for the most detailed level at which the keys agree, 1 for the opcode, else
        0.
        """
        one, two = self._pairs.one, self._pairs.two
        for level in range(LEVELS):
            if one.keys[level][a] == two.keys[level][b]:
                return LEVELS + 1 - level
        return int(one.nodes[a].opcode == two.nodes[b].opcode)

    def _can_pair(self, a: Node, b: Node) -> bool:
        """Whether two nodes have one opcode or, if enabled, arrays of the same dimensions."""
        one, two = self._pairs.one.nodes[a], self._pairs.two.nodes[b]
        if one.opcode == two.opcode:
            return True
        if (
            one.called_computations
            or two.called_computations
            or (one.opcode in _DATA_MOVEMENT) != (two.opcode in _DATA_MOVEMENT)
        ):
            return False
        if not self._any_opcode or not (isinstance(one.shape, ArrayShape) and isinstance(two.shape, ArrayShape)):
            return False
        return one.shape.to_string(layout=False) == two.shape.to_string(layout=False)

    def _have_same_op_name(self, a: Node, b: Node) -> bool:
        one, two = self._pairs.one.metadata[a], self._pairs.two.metadata[b]
        return bool(one) and bool(two) and op_name_in(one) == op_name_in(two)

    def _users_in_common(self, a: Node, b: Node) -> tuple[int, int]:
        """Number of paired users that have both nodes at one position, and of those that have only one of them."""
        pairs = self._pairs
        common = different = 0
        for user, position in pairs.one.users[a][:_MAX_USERS]:
            if pairs.after[user] < 0:
                continue
            operand = pairs.operand_at(user, position)
            common += operand == b
            different += operand not in (b, NONE) and pairs.before[operand] >= 0
        return common, different

    def _add_neighbors(self, a: Node, b: Node) -> None:
        for x, y in self._pairs.operand_pairs(a, b):
            self.add_candidate(x, y)
        for x, y in self._free_users(a, b):
            self.add_candidate(x, y)

    def _free_users(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Yields candidate pairs of unpaired users: all combinations if few, else those with equal keys."""
        pairs = self._pairs
        ones = {u for u, _ in pairs.one.users[a] if pairs.after[u] < 0}
        twos = {u for u, _ in pairs.two.users[b] if pairs.before[u] < 0}
        if len(ones) * len(twos) <= _MAX_COMBINATIONS:
            yield from ((x, y) for x in sorted(ones) for y in sorted(twos))
            return
        for level in range(LEVELS):
            groups: dict[int, list[Node]] = {}
            for y in sorted(twos):
                groups.setdefault(pairs.two.keys[level][y], []).append(y)
            for x in sorted(ones):
                group = groups.get(pairs.one.keys[level][x], ())
                if len(group) <= _MAX_USERS:
                    yield from ((x, y) for y in group)


def _is_likely(similarity: Similarity) -> bool:
    """Whether a candidate becomes a pair: the less its content agrees, the more neighbors must."""
    agreeing = similarity.operands + similarity.users
    if similarity.content > LEVELS - CONTENT:
        return agreeing > 0 and agreeing >= similarity.differing
    if similarity.content > 0:
        return agreeing > similarity.differing
    return similarity.operands > 0 and similarity.users > 0 and similarity.score >= _ALL_AGREE
