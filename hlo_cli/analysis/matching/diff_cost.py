"""How much differs under the pairs that there are, kept up to date while pairs are made and parted on trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

from hlo_cli.analysis.matching.boundaries import pair_by_number
from hlo_cli.analysis.matching.change_weights import ChangeWeights
from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.graph import Graph, Node, Unit
from hlo_cli.analysis.matching.instruction_diff import Differences
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation

_FARTHEST: Final = 100
"""To how many instructions the news of a pair is carried."""
_LARGEST: Final = 200
"""How many instructions a computation has at most that is paired anew with its callers."""

Mark = tuple[int, int, int]


class IncrementalDiffCost:
    """The changes of every pair, and what they weigh.

    `pair` returns by how much a new pair makes the whole heavier; `undo` leads back to a mark. `work` counts how often
    two instructions have been compared.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.matching import match
    >>> texts = (f"HloModule m  ENTRY e {{ p = s8[2] parameter(0)  ROOT n = s8[2] {op}(p) }}" for op in ("not", "abs"))
    >>> matching = match(*map(parse_module, texts))
    >>> reckoning = IncrementalDiffCost(matching.pairs, matching.computations, matching.pair_nodes)
    >>> reckoning.changes
    {1: (Change(kind='opcode', name='', before='not', after='abs'),)}
    """

    __slots__ = (
        *("_computations", "_differences", "_pair_nodes", "_pairings", "_pairs", "_tellings", "_units"),
        *("__dict__", "changes", "weights", "work"),
    )

    def __init__(
        self,
        pairs: Pairs,
        computations: dict[Computation, Computation],
        pair_nodes: Callable[[Pairs, Unit, Unit], None],
    ) -> None:
        self._pairs = pairs
        self._computations = computations
        self._pair_nodes = pair_nodes
        self._differences = differences = Differences(pairs, computations)
        self._pairings: list[tuple[list[Node], Node, Node]] = []
        self._tellings: list[tuple[Node, tuple[Change, ...]]] = []
        self._units: list[tuple[Computation, Computation | None]] = []
        same = differences.known_same()
        found = ((a, differences.changes(a, b)) for a, b in enumerate(pairs.after) if b >= 0 and a not in same)
        self.changes: dict[Node, tuple[Change, ...]] = {a: changes for a, changes in found if changes}
        self.weights = ChangeWeights(pairs, self.changes)
        self.work = 0

    @cached_property
    def _held(self) -> tuple[dict[Node, list[Node]], ...]:
        return tuple(map(_held_back, self._pairs.plain))

    @property
    def mark(self) -> Mark:
        """This state, to come back to."""
        return len(self._pairings), len(self._tellings), len(self._units)

    def undo(self, mark: Mark) -> None:
        """Everything as it was."""
        while len(self._pairings) > mark[0]:
            others, node, other = self._pairings.pop()
            others[node] = other
        while len(self._tellings) > mark[1]:
            self._tell_again(*self._tellings.pop())
        while len(self._units) > mark[2]:
            self._put(*self._units.pop())

    def pair(self, a: Node, b: Node) -> int | None:
        """Make one of two, and of what they were with; how much heavier all is then, or None if too much hangs on it.

        With NONE for b, what was a pair is parted.
        """
        pairs = self._pairs
        other_a, other_b = pairs.before[b] if b >= 0 else NONE, pairs.after[a]
        called = list(self._called_anew(a, b))
        ends = [n for n in (a, other_a) if n >= 0], [n for n in (b, other_b) if n >= 0]
        for x, y in called:
            ends[0].extend(_nodes(pairs.plain[0], x))
            ends[1].extend(_nodes(pairs.plain[1], y))
        if len(ends[0]) + len(ends[1]) > _LARGEST:
            return None
        ones, twos = self._concerned(*ends)
        if len(ones) + len(twos) > _FARTHEST + len(ends[0]) + len(ends[1]):
            return None
        weighed = self._taken(ones, twos, ends)
        weight = self.weights.of(weighed, twos, ends[0])
        self._swap(a, b, other_a, other_b)
        if called:
            self._pair_called(called)
        for node in ones:
            self._compare(node)
        return self.weights.of(weighed, twos, ends[0]) - weight

    def join(self, a: Node) -> int | None:
        """Make one of the computations of a pair that are in no pair, if half of the smaller one is in both.

        Not to be undone. How many instructions there were to compare again, or None if it is not so.
        """
        pairs, (one, two) = self._pairs, self._pairs.plain
        x, y = one.nodes[a].computation, two.nodes[pairs.after[a]].computation
        if x in self._computations or y in self._computations.values():
            return None
        ones, twos = _nodes(one, x), _nodes(two, y)
        if 2 * sum(pairs.after[node] in twos for node in ones) < min(len(ones), len(twos)):
            return None
        self._computations[x] = y
        pair_by_number(pairs, x, y)
        found, _ = self._concerned(list(ones), list(twos))
        for node in found:
            self._compare(node)
        return len(found)

    def _swap(self, a: Node, b: Node, other_a: Node, other_b: Node) -> None:
        """Pair two, and what they were paired with if that is of one opcode."""
        pairs = self._pairs
        self._link(a, b)
        if min(other_a, other_b) >= 0 and pairs.one.nodes[other_a].opcode == pairs.two.nodes[other_b].opcode:
            self._link(other_a, other_b)
        else:
            self._link(other_a, NONE)
            self._link(NONE, other_b)

    def _called_anew(self, a: Node, b: Node) -> Iterator[tuple[Computation | None, Computation | None]]:
        """The computations that two instructions call, and what these are paired with: to be paired anew."""
        if b < 0:
            return
        one, two = self._pairs.plain
        for x, y in zip(one.nodes[a].called_computations, two.nodes[b].called_computations, strict=False):
            if (other := self._computations.get(x)) is not y:
                yield x, y
                left = next((c for c, d in self._computations.items() if d is y), None)
                yield left, other if left is None or self._is_only_in(left, y) else None

    def _is_only_in(self, x: Computation, y: Computation) -> bool:
        """Whether what is in a computation is paired with nothing but what is in this one."""
        one, two = self._pairs.plain
        others = [self._pairs.after[a] for a in _nodes(one, x)]
        return all(b in _nodes(two, y) for b in others if b >= 0)

    def _pair_called(self, called: list[tuple[Computation | None, Computation | None]]) -> None:
        """Pair computations anew, and what is in them with nothing else."""
        pairs = self._pairs
        one, two = pairs.plain
        for x, y in called:
            ones, twos = _nodes(one, x), _nodes(two, y)
            outside = [(a, pairs.after[a]) for a in ones if twos and pairs.after[a] not in twos]
            outside += [(pairs.before[b], b) for b in twos if ones and pairs.before[b] not in ones]
            for a, b in outside:
                self._link(a, NONE)
                self._link(NONE, b)
        flat = pairs.one, pairs.two
        pairs.one, pairs.two = one, two
        for x, y in called:
            if x is not None:
                self._units.append((x, self._computations.get(x)))
                self._put(x, y)
            if x is not None and y is not None:
                self._pair_nodes(pairs, one.unit_of[x], two.unit_of[y])
        pairs.one, pairs.two = flat

    def _put(self, x: Computation, y: Computation | None) -> None:
        if y is None:
            self._computations.pop(x, None)
        else:
            self._computations[x] = y

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

    def _concerned(self, ones: list[Node], twos: list[Node]) -> tuple[set[Node], set[Node]]:
        """The nodes whose changes depend on these of both graphs: themselves and their users."""
        pairs = self._pairs
        found = _with_users({pairs.one, pairs.plain[0]}, pairs.after, ones)
        others = _with_users({pairs.two, pairs.plain[1]}, pairs.before, twos)
        for held, nodes, ends in zip(self._held, (found, others), (ones, twos), strict=True):
            nodes.update(node for end in ends for node in held.get(end, ()))
        found.update([pairs.before[b] for b in others if pairs.before[b] >= 0])
        return found, others

    def _taken(self, ones: set[Node], twos: set[Node], ends: tuple[list[Node], list[Node]]) -> set[Node]:
        """The same nodes of the first graph, and the operands whose use changes with these ends."""
        pairs = self._pairs
        one, two = pairs.plain
        of_two = [y for b in ends[1] for y in two.operands[b]]
        operands = {x for a in ends[0] for x in one.operands[a]}
        return {*ones, *operands, *(pairs.before[y] for y in of_two if pairs.before[y] >= 0)}


def _held_back(graph: Graph) -> dict[Node, list[Node]]:
    """What each node is a control predecessor of."""
    held: dict[Node, list[Node]] = {}
    for computation in {graph.nodes[node].computation for node in graph.controlled}:
        named = {i.name: graph.node(i) for i in computation.instructions}
        for i in computation.instructions:
            for name in i.control_predecessors if graph.node(i) in graph.controlled else ():
                if name in named:
                    held.setdefault(named[name], []).append(graph.node(i))
    return held


def _nodes(graph: Graph, computation: Computation | None) -> range:
    if computation is None:
        return range(0)
    first = graph.taken[computation]
    return range(first, first + len(computation.instructions))


def _with_users(graphs: Iterable[Graph], other: list[Node], nodes: list[Node]) -> set[Node]:
    """Nodes, and what takes them, or takes what is in no pair and takes them."""
    found, waiting, starts = set(nodes), list(nodes), set(nodes)
    while waiting and len(found) <= _FARTHEST + len(starts):
        node = waiting.pop()
        if node not in starts and other[node] >= 0:
            continue
        for graph in graphs:
            new = [user for user, _ in graph.users[node] if user not in found]
            if graph.nodes[node].opcode == opcodes.PARAMETER:
                caller = graph.bodies.get(graph.nodes[node].computation)
                new += [graph.node(caller)] if caller is not None and graph.node(caller) not in found else []
            found.update(new)
            waiting.extend(new)
    return found
