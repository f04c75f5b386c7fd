"""Pairs found from their neighbours, the likeliest first.

What stands at the same place beside a pair may be a pair too. Such candidates wait in a queue, by how much they are
alike and how many of their neighbours are pairs already; each new pair brings its own neighbours into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from hlo_cli.analysis.matching.content import op_name_in
from hlo_cli.analysis.matching.graph import LEVELS, SAID, Node
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape

_MOST_USERS: Final = 32
"""How many users of a node are looked at: what is used everywhere tells little of each use."""
_MOST_COMBINATIONS: Final = 64
_NARROW: Final = 64
"""Up to how many operands all are looked at whenever one becomes known; where there are more, now and then."""
_SAME_OP_NAME: Final = 1.0
_SAME_NAME: Final = 0.01
_MOVES: Final = frozenset((opcodes.BITCAST, opcodes.BROADCAST, opcodes.COPY, opcodes.RESHAPE, opcodes.TRANSPOSE))
"""Opcodes that only move data, which do not come in the place of those that compute."""
_ALL_AGREE: Final = 4
"""The score of nodes with the same operands and users that say nothing the same."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """How alike two nodes are: in what they say, in how many operands and users are one, in how many surely are not."""

    said: int
    taken: int
    used: int
    differing: int
    score: float


class MatchPropagation:
    """The queue of candidates; `spread` takes from it until nothing likely enough is left.

    Candidates are looked for among some nodes of the first graph, beside those whose pairs are known.
    """

    __slots__ = ("_any_opcode", "_nodes", "_pairs", "_put_off", "_queue", "_seen")

    def __init__(self, pairs: Pairs, nodes: Iterable[Node]) -> None:
        self._pairs = pairs
        self._queue: list[tuple[float, Node, Node]] = []
        self._put_off: dict[tuple[Node, Node], int] = {}
        self._nodes = [a for a in nodes if pairs.after[a] < 0]
        self._any_opcode = False

    def spread(self) -> None:
        """Pair what is likely enough, starting beside what is not paired yet."""
        pairs = self._pairs
        self._seen = len(pairs.found)
        self._nodes = [a for a in self._nodes if pairs.after[a] < 0]
        beside = {x: None for a in self._nodes for x in (*pairs.one.operands[a], *(u for u, _ in pairs.one.users[a]))}
        for x in beside:
            if pairs.after[x] >= 0:
                self._offer_beside(x, pairs.after[x])
        while True:
            while self._seen < len(pairs.found):
                self._offer_beside(*pairs.found[self._seen])
                self._seen += 1
            if not self._queue and not self._take_up():
                return
            negative, a, b = heappop(self._queue)
            if not pairs.are_free(a, b):
                continue
            likeness = self.likeness(a, b)
            if -likeness.score > negative + 1e-9:
                heappush(self._queue, (-likeness.score, a, b))
            elif _is_likely(likeness):
                pairs.add(a, b)

    def spread_to_other_opcodes(self) -> None:
        """Start again beside all pairs, and pair also what has become another operation at the same place."""
        self._any_opcode = True
        self.spread()

    def offer(self, a: Node, b: Node) -> None:
        """These two may be a pair."""
        if self._pairs.are_free(a, b) and self._are_candidates(a, b) and self._is_due(a, b):
            self._push(a, b)

    def _push(self, a: Node, b: Node) -> None:
        heappush(self._queue, (-self.likeness(a, b).score, a, b))

    def _is_due(self, a: Node, b: Node) -> bool:
        """Whether enough is new to look again at two nodes: each of thousands of operands offers the same two."""
        width = len(self._pairs.one.operands[a])
        if width <= _NARROW:
            return True
        offers = self._put_off.get((a, b), width) + 1
        is_due = offers * _NARROW > width
        self._put_off[a, b] = 0 if is_due else offers
        return is_due

    def _take_up(self) -> bool:
        """Look at what was put off, where nothing else is left; whether there is any of it."""
        waiting = [(a, b) for (a, b), offers in self._put_off.items() if offers and self._pairs.are_free(a, b)]
        for a, b in waiting:
            self._put_off[a, b] = 0
            self._push(a, b)
        return bool(waiting)

    def likeness(self, a: Node, b: Node) -> Similarity:
        """How alike two free nodes are, by what is known now."""
        pairs = self._pairs
        agreeing = differing = 0
        ones, twos = pairs.one.operands[a], pairs.two.operands[b]
        for x, y in zip(ones, twos, strict=False):
            if pairs.same_value(x, y):
                agreeing += 1
            elif pairs.after[x] >= 0 and pairs.before[y] >= 0:
                differing += 1
        taken = agreeing / max(len(ones), len(twos)) if ones or twos else 1.0
        used, not_used = self._users_in_common(a, b)
        users = used / max(len(pairs.one.users[a]), len(pairs.two.users[b]), 1)
        if a in pairs.one.roots and b in pairs.two.roots:
            used, users = used + 1, 1.0
        said = self._said(a, b)
        score = said + 2 * taken + 2 * min(users, 1.0) - 2 * (differing > 0) - 1 * (not_used > 0)
        if pairs.one.nodes[a].called_computations:
            score += 2 * pairs.likeness_of_calls(a, b)
        score += _SAME_OP_NAME * (said > LEVELS or self._have_one_op_name(a, b))
        score += _SAME_NAME * pairs.have_one_name(a, b)
        return Similarity(said, agreeing, used, differing + not_used, score)

    def _said(self, a: Node, b: Node) -> int:
        """How much of what two nodes say is the same: all of it down to the opcode, or nothing."""
        one, two = self._pairs.one, self._pairs.two
        for level in range(LEVELS):
            if one.keys[level][a] == two.keys[level][b]:
                return LEVELS + 1 - level
        return int(one.nodes[a].opcode == two.nodes[b].opcode)

    def _are_candidates(self, a: Node, b: Node) -> bool:
        """Whether two nodes may be one at all: with one opcode, or with other ones for arrays of the same sizes."""
        one, two = self._pairs.one.nodes[a], self._pairs.two.nodes[b]
        if one.opcode == two.opcode:
            return True
        if one.called_computations or two.called_computations or (one.opcode in _MOVES) != (two.opcode in _MOVES):
            return False
        if not self._any_opcode or not (isinstance(one.shape, ArrayShape) and isinstance(two.shape, ArrayShape)):
            return False
        return one.shape.to_string(layout=False) == two.shape.to_string(layout=False)

    def _have_one_op_name(self, a: Node, b: Node) -> bool:
        one, two = self._pairs.one.metadata[a], self._pairs.two.metadata[b]
        return bool(one) and bool(two) and op_name_in(one) == op_name_in(two)

    def _users_in_common(self, a: Node, b: Node) -> tuple[int, int]:
        """How many users are pairs that take both at one place, and how many take one of them and another node."""
        pairs = self._pairs
        common = different = 0
        for user, slot in pairs.one.users[a][:_MOST_USERS]:
            other = pairs.after[user]
            if other < 0:
                continue
            operands = pairs.two.operands[other]
            if slot < len(operands) and operands[slot] == b:
                common += 1
            elif slot < len(operands) and pairs.before[operands[slot]] >= 0:
                different += 1
        return common, different

    def _offer_beside(self, a: Node, b: Node) -> None:
        pairs = self._pairs
        for x, y in zip(pairs.one.operands[a], pairs.two.operands[b], strict=False):
            self.offer(x, y)
        for x, y in self._free_users(a, b):
            self.offer(x, y)

    def _free_users(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Free users of both that may be one: all combinations if they are few, else those that say the same."""
        pairs = self._pairs
        ones = {u for u, _ in pairs.one.users[a] if pairs.after[u] < 0}
        twos = {u for u, _ in pairs.two.users[b] if pairs.before[u] < 0}
        if len(ones) * len(twos) <= _MOST_COMBINATIONS:
            yield from ((x, y) for x in sorted(ones) for y in sorted(twos))
            return
        for level in range(LEVELS):
            groups: dict[int, list[Node]] = {}
            for y in sorted(twos):
                groups.setdefault(pairs.two.keys[level][y], []).append(y)
            for x in sorted(ones):
                group = groups.get(pairs.one.keys[level][x], ())
                if len(group) <= _MOST_USERS:
                    yield from ((x, y) for y in group)


def _is_likely(likeness: Similarity) -> bool:
    """Whether two nodes are taken for one: the less they say the same, the more must be known to agree."""
    agreeing = likeness.taken + likeness.used
    if likeness.said > LEVELS - SAID:
        return agreeing > 0 and agreeing >= likeness.differing
    if likeness.said > 0:
        return agreeing > likeness.differing
    return likeness.taken > 0 and likeness.used > 0 and likeness.score >= _ALL_AGREE
