"""How much differs under the pairs that there are, kept up to date while pairs are made and parted on trial."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.differences import Differences, is_plumbing
from hlo_cli.analysis.matching.graph import Graph, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs

ONE: Final = 1 << 20
"""The weight of an instruction that is told as added, removed or changed."""
_CHANGE: Final = 1 << 4
_MOST_CHANGES: Final = 1 << 10
_OTHER_NAME: Final = 1
_FARTHEST: Final = 100
"""To how many instructions the news of a pair is carried."""

Mark = tuple[int, int]


class Reckoning:
    """The changes of every pair, and what they weigh: first how many instructions differ, then in how many ways.

    Names weigh least. `pair` returns by how much a new pair makes the whole heavier; `undo` leads back to a mark.
    `work` counts how often two instructions have been compared.
    """

    __slots__ = ("_differences", "_pairings", "_pairs", "_tellings", "changes", "work")

    def __init__(self, pairs: Pairs, differences: Differences) -> None:
        self._pairs = pairs
        self._differences = differences
        self._pairings: list[tuple[list[Node], Node, Node]] = []
        self._tellings: list[tuple[Node, tuple[Change, ...]]] = []
        found = ((a, differences.changes(a, b)) for a, b in enumerate(pairs.after) if b >= 0)
        self.changes: dict[Node, tuple[Change, ...]] = {a: changes for a, changes in found if changes}
        self.work = 0

    @property
    def mark(self) -> Mark:
        """This state, to come back to."""
        return len(self._pairings), len(self._tellings)

    def undo(self, mark: Mark) -> None:
        """Everything as it was."""
        while len(self._pairings) > mark[0]:
            others, node, other = self._pairings.pop()
            others[node] = other
        while len(self._tellings) > mark[1]:
            self._tell_again(*self._tellings.pop())

    def pair(self, a: Node, b: Node) -> int | None:
        """Make one of two, and of what they were with; how much heavier all is then, or None if too much hangs on it."""
        pairs = self._pairs
        other_a, other_b = pairs.before[b], pairs.after[a]
        ends = [(a, b), (other_a, other_b)]
        ones, twos = self._concerned(a, b, other_a, other_b)
        weight = self._weight(ones, twos)
        self._link(a, b)
        may_swap = other_a >= 0 and other_b >= 0 and pairs.one.nodes[other_a].opcode == pairs.two.nodes[other_b].opcode
        for x, y in ((other_a, other_b),) if may_swap else ((other_a, NONE), (NONE, other_b)):
            self._link(x, y)
        more, others = self._concerned(*(node for end in ends for node in end))
        weight += self._weight(more - ones, others - twos)
        ones |= more
        twos |= others
        if len(ones) + len(twos) > _FARTHEST:
            return None
        for node in ones:
            self._compare(node)
        return self._weight(ones, twos) - weight

    def _link(self, a: Node, b: Node) -> None:
        for others, node, other in ((self._pairs.after, a, b), (self._pairs.before, b, a)):
            if node >= 0:
                self._pairings.append((others, node, others[node]))
                others[node] = other

    def _compare(self, a: Node) -> None:
        b = self._pairs.after[a]
        self.work += 1
        changes = self._differences.changes(a, b) if b >= 0 else ()
        old = self.changes.get(a, ())
        if changes != old:
            self._tellings.append((a, old))
            self._tell_again(a, changes)

    def _tell_again(self, a: Node, changes: tuple[Change, ...]) -> None:
        if changes:
            self.changes[a] = changes
        else:
            self.changes.pop(a, None)

    def _weight(self, ones: Iterable[Node], twos: Iterable[Node]) -> int:
        """What some nodes weigh; those of the second graph only if they are in no pair."""
        pairs, weight = self._pairs, 0
        for a in ones:
            if pairs.after[a] < 0:
                weight += ONE * (not is_plumbing(pairs.one, a))
                continue
            weight += _OTHER_NAME * (not pairs.have_one_name(a, pairs.after[a]))
            if changes := self.changes.get(a):
                weight += ONE + _CHANGE * min(len(changes), _MOST_CHANGES)
        for b in twos:
            if pairs.before[b] < 0:
                weight += ONE * (not is_plumbing(pairs.two, b))
        return weight

    def _concerned(self, *ends: Node) -> tuple[set[Node], set[Node]]:
        """The nodes whose changes depend on these, which are of both graphs in turn: themselves and their users."""
        pairs = self._pairs
        ones, twos = set[Node](), set[Node]()
        for (graph, other), found, start in ((pairs.sides[side], (ones, twos)[side], ends[side::2]) for side in (0, 1)):
            plain = pairs.plain[0] if found is ones else pairs.plain[1]
            for node in _with_users({graph, plain}, other, [n for n in start if n >= 0]):
                found.add(node)
        ones.update([pairs.before[b] for b in twos if pairs.before[b] >= 0])
        return ones, twos


def _with_users(graphs: Iterable[Graph], other: list[Node], nodes: list[Node]) -> set[Node]:
    """Nodes, and what takes them or what only they lead to that is in no pair."""
    found, waiting = set(nodes), list(nodes)
    starts = set(nodes)
    while waiting and len(found) <= _FARTHEST:
        node = waiting.pop()
        if node not in starts and other[node] >= 0:
            continue
        for graph in graphs:
            new = [user for user, _ in graph.users[node] if user not in found]
            caller = graph.bodies.get(graph.nodes[node].computation)
            if caller is not None and graph.nodes[node].opcode == "parameter":
                new.append(graph.node(caller))
            found.update(new)
            waiting.extend(new)
    return found
