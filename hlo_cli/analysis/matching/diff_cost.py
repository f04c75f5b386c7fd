"""Cost of the differences under the current pairs, updated incrementally while pairs are changed on trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

from hlo_cli.analysis.matching.boundaries import pair_by_number
from hlo_cli.analysis.matching.change_weights import ChangeWeights
from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.graph import Graph, Node, Unit
from hlo_cli.analysis.matching.instruction_diff import InstructionDiff
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation

_MAX_AFFECTED: Final = 100
"""Maximum number of nodes that are compared again for one new pair, in addition to the nodes that it pairs."""
_OPERANDS_PER_COMPARISON: Final = 16
"""Number of operands, as of wide tuples, whose comparison counts as one of two instructions."""
_MAX_REPAIRED: Final = 200
"""Maximum number of nodes that one new pair can pair again, including those of called computations."""

Mark = tuple[int, int, int]


class IncrementalDiffCost:
    """Changes of every pair, and their weights.

    `pair` returns the cost of a new pair; `undo` restores the state of a mark. `comparisons` counts the comparisons of
    two instructions so far.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.matching import match
    >>> texts = (f"HloModule m  ENTRY e {{ p = s8[2] parameter(0)  ROOT n = s8[2] {op}(p) }}" for op in ("not", "abs"))
    >>> matching = match(*map(parse_module, texts))
    >>> cost = IncrementalDiffCost(matching.pairs, matching.computations, matching.pair_nodes)
    >>> cost.changes
    {1: (Change(kind='opcode', name='', before='not', after='abs'),)}
    """

    __slots__ = (
        *(
            "_computations",
            "_instruction_diff",
            "_pair_nodes",
            "_pair_log",
            "_pairs",
            "_change_log",
            "_same",
            "_computation_log",
        ),
        *("__dict__", "changes", "weights", "comparisons"),
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
        self._instruction_diff = instruction_diff = InstructionDiff(pairs, computations)
        self._pair_log: list[tuple[list[Node], Node, Node]] = []
        self._change_log: list[tuple[Node, tuple[Change, ...]]] = []
        self._computation_log: list[tuple[Computation, Computation | None]] = []
        self._same = same = instruction_diff.unchanged_nodes()
        found = ((a, instruction_diff.changes(a, b)) for a, b in enumerate(pairs.after) if b >= 0 and a not in same)
        self.changes: dict[Node, tuple[Change, ...]] = {a: changes for a, changes in found if changes}
        self.weights = ChangeWeights(pairs, self.changes)
        self.comparisons = 0

    @cached_property
    def _control_successors(self) -> tuple[dict[Node, list[Node]], ...]:
        return tuple(map(_control_successors_of, self._pairs.plain))

    @property
    def mark(self) -> Mark:
        """Current state, as an argument of `undo`."""
        return len(self._pair_log), len(self._change_log), len(self._computation_log)

    def undo(self, mark: Mark) -> None:
        """Restores the pairs and changes of an earlier mark."""
        while len(self._pair_log) > mark[0]:
            others, node, other = self._pair_log.pop()
            others[node] = other
        while len(self._change_log) > mark[1]:
            self._set_changes(*self._change_log.pop())
        while len(self._computation_log) > mark[2]:
            self._set_computation(*self._computation_log.pop())

    def refresh_carriers(self) -> None:
        """Compares tuples and their elements again, as elements correspond by all pairs found."""
        pairs = self._pairs
        pairs.elements.forget()
        one = pairs.plain[0]
        for a, b in enumerate(pairs.after):
            if b >= 0 and a not in self._same and (one.tuple_index[a] >= 0 or one.nodes[a].opcode == opcodes.TUPLE):
                self._compare(a)

    def pair(self, a: Node, b: Node) -> int | None:
        """Pairs `a` with `b`, and their former partners with each other; with NONE for `b`, removes the pair of `a`.

        Returns the increase of the cost, or None, with nothing changed, if too many nodes are affected.
        """
        pairs = self._pairs
        other_a, other_b = pairs.before[b] if b >= 0 else NONE, pairs.after[a]
        called = list(self._callees_to_repair(a, b))
        ends = [n for n in (a, other_a) if n >= 0], [n for n in (b, other_b) if n >= 0]
        for x, y in called:
            ends[0].extend(_nodes(pairs.plain[0], x))
            ends[1].extend(_nodes(pairs.plain[1], y))
        if len(ends[0]) + len(ends[1]) > _MAX_REPAIRED:
            return None
        ones, twos = self._affected(*ends)
        if len(ones) + len(twos) > _MAX_AFFECTED + len(ends[0]) + len(ends[1]):
            return None
        weighed = self._weighed_nodes(ones, ends)
        weight = self.weights.of(weighed, twos, ends[0])
        self._swap(a, b, other_a, other_b)
        if called:
            self._pair_called(called)
        for node in ones:
            self._compare(node)
        return self.weights.of(weighed, twos, ends[0]) - weight

    def pair_enclosing_computations(self, a: Node) -> int | None:
        """Pairs the unpaired computations that contain a pair, if half of the nodes of the smaller one are paired
        across them.

        Returns the number of nodes compared again, or None if nothing was paired. `undo` does not revert it.
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
        found, _ = self._affected(list(ones), list(twos))
        for node in found:
            self._compare(node)
        return len(found)

    def _swap(self, a: Node, b: Node, other_a: Node, other_b: Node) -> None:
        """Pairs `a` with `b`, and their former partners if these have one opcode."""
        pairs = self._pairs
        self._link(a, b)
        if min(other_a, other_b) >= 0 and pairs.one.nodes[other_a].opcode == pairs.two.nodes[other_b].opcode:
            self._link(other_a, other_b)
        else:
            self._link(other_a, NONE)
            self._link(NONE, other_b)

    def _callees_to_repair(self, a: Node, b: Node) -> Iterator[tuple[Computation | None, Computation | None]]:
        """Yields computations to pair again when `a` is paired with `b`: their callees, and the former partners of
        these.
        """
        if b < 0:
            return
        one, two = self._pairs.plain
        for x, y in zip(one.nodes[a].called_computations, two.nodes[b].called_computations, strict=False):
            if (other := self._computations.get(x)) is not y:
                yield x, y
                left = next((c for c, d in self._computations.items() if d is y), None)
                yield left, other if left is None or self._is_only_in(left, y) else None

    def _is_only_in(self, x: Computation, y: Computation) -> bool:
        """Whether all paired nodes of `x` have their partners in `y`."""
        one, two = self._pairs.plain
        others = [self._pairs.after[a] for a in _nodes(one, x)]
        return all(b in _nodes(two, y) for b in others if b >= 0)

    def _pair_called(self, called: list[tuple[Computation | None, Computation | None]]) -> None:
        """Pairs computations again and removes pairs between their nodes and nodes of other computations."""
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
                self._computation_log.append((x, self._computations.get(x)))
                self._set_computation(x, y)
            if x is not None and y is not None:
                self._pair_nodes(pairs, one.unit_of[x], two.unit_of[y])
        pairs.one, pairs.two = flat

    def _set_computation(self, x: Computation, y: Computation | None) -> None:
        if y is None:
            self._computations.pop(x, None)
        else:
            self._computations[x] = y

    def _link(self, a: Node, b: Node) -> None:
        for others, node, other in ((self._pairs.after, a, b), (self._pairs.before, b, a)):
            if node >= 0:
                self._pair_log.append((others, node, others[node]))
                others[node] = other

    def _compare(self, a: Node) -> None:
        b = self._pairs.after[a]
        self.comparisons += 1 + len(self._pairs.one.operands[a]) // _OPERANDS_PER_COMPARISON
        changes = self._instruction_diff.changes(a, b) if b >= 0 else ()
        old = self.changes.get(a, ())
        if changes != old:
            self._change_log.append((a, old))
            self._set_changes(a, changes)

    def _set_changes(self, a: Node, changes: tuple[Change, ...]) -> None:
        if changes:
            self.changes[a] = changes
        else:
            self.changes.pop(a, None)

    def _affected(self, ones: list[Node], twos: list[Node]) -> tuple[set[Node], set[Node]]:
        """Nodes of both graphs whose changes depend on the given nodes: these and their users, data and control."""
        pairs = self._pairs
        found = _with_users({pairs.one, pairs.plain[0]}, pairs.after, ones)
        others = _with_users({pairs.two, pairs.plain[1]}, pairs.before, twos)
        for successors, nodes, ends in zip(self._control_successors, (found, others), (ones, twos), strict=True):
            nodes.update(node for end in ends for node in successors.get(end, ()))
        found.update([pairs.before[b] for b in others if pairs.before[b] >= 0])
        return found, others

    def _weighed_nodes(self, ones: set[Node], ends: tuple[list[Node], list[Node]]) -> set[Node]:
        """Nodes of the first graph that the cost covers: `ones`, and the operands of `ends`, whose shared users can
        change.
        """
        pairs = self._pairs
        one, two = pairs.plain
        of_two = [y for b in ends[1] for y in two.operands[b]]
        operands = {x for a in ends[0] for x in one.operands[a]}
        return {*ones, *operands, *(pairs.before[y] for y in of_two if pairs.before[y] >= 0)}


def _control_successors_of(graph: Graph) -> dict[Node, list[Node]]:
    """Control successors of each node that is a control predecessor."""
    successors: dict[Node, list[Node]] = {}
    for computation in {graph.nodes[node].computation for node in graph.controlled}:
        named = {i.name: graph.node(i) for i in computation.instructions}
        for i in computation.instructions:
            for name in i.control_predecessors if graph.node(i) in graph.controlled else ():
                if name in named:
                    successors.setdefault(named[name], []).append(graph.node(i))
    return successors


def _nodes(graph: Graph, computation: Computation | None) -> range:
    if computation is None:
        return range(0)
    first = graph.first_nodes[computation]
    return range(first, first + len(computation.instructions))


def _with_users(graphs: Iterable[Graph], other: list[Node], nodes: list[Node]) -> set[Node]:
    """Nodes with their users, transitively through unpaired users and from fused parameters to the fusion."""
    found, waiting, starts = set(nodes), list(nodes), set(nodes)
    while waiting and len(found) <= _MAX_AFFECTED + len(starts):
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
