"""How pairs near differences are improved: other pairs are tried and kept if the differences cost less."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from hlo_cli.analysis.matching.changes import Change, InstructionDiff, is_inlined_parameter
from hlo_cli.analysis.matching.graph import CONTENT, ESSENTIAL, LEVELS, Key, ModuleGraph, Node, Unit
from hlo_cli.analysis.matching.pairs import NONE, Pairs, pair_by_number
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction

# --- weights of changes ---
# Weighs the differences of two modules, so that the matching with the fewest and smallest differences is chosen.


PER_INSTRUCTION: Final = 1 << 20
"""Weight of an instruction that is added, removed, or changed."""
_NO_SHARED_USER: Final = PER_INSTRUCTION // 2
"""Weight of a pair whose nodes have no user in common, although all their users are paired: it is equal by chance."""
_OPERANDS_ONLY: Final = PER_INSTRUCTION * 5 // 8
"""Additional weight of an instruction in which only operands changed.

With _NO_SHARED_USER it exceeds the weight of one added and one removed instruction: usually the operands changed, and
not their user.
"""
# below the weight of an instruction even 1,024 times: the number of instructions decides first
_PER_CHANGE: Final = 1 << 6
_MAX_CHANGES: Final = 1 << 10  # 2^6 · 2^10 is 1/16 of an instruction
_NAME_DIFFERS: Final = 8  # below one change, so that names decide only between equal matchings
_SHARED_USER_BONUS: Final = 3  # below a name: users are a weaker hint than a name that stayed
_ADJACENT_BONUS: Final = 2  # below a shared user; two neighbors together above it
_MAX_USERS: Final = 16  # values used more often are weak evidence, and all of their users cost quadratic time


@dataclass(frozen=True, slots=True)
class ChangeWeights:
    """Weighs pairs by the number of changed instructions first, and by the number of their changes second.

    Equal names, shared users, and adjacency in the text weigh little, in this order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(module_graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> ChangeWeights(pairs, {}).of([0, 1], [0, 1], []) // PER_INSTRUCTION
    4
    """

    pairs: Pairs
    changes: Mapping[Node, tuple[Change, ...]]

    def of(self, ones: Iterable[Node], twos: Iterable[Node], ends: Iterable[Node]) -> int:
        """Weight of nodes `ones` of the first graph and of the unpaired ones among `twos` of the second.

        Shared users count for `ends` only.
        """
        pairs, weight = self.pairs, -_SHARED_USER_BONUS * sum(map(self._has_shared_user, ends))
        for a in ones:
            if pairs.after[a] < 0:
                weight += PER_INSTRUCTION
                continue
            weight += _NAME_DIFFERS * (not pairs.have_same_name(a, pairs.after[a]))
            weight += _NO_SHARED_USER * self.lacks_shared_user(a)
            if changes := self.changes.get(a):
                weight += PER_INSTRUCTION + _PER_CHANGE * min(len(changes), _MAX_CHANGES)
                weight += _OPERANDS_ONLY * all(change.kind == "operands" for change in changes)
        weight += PER_INSTRUCTION * sum(pairs.before[b] < 0 for b in twos)
        # A pair is adjacent to the one before and to the one after it, each place counted once.
        places = {place for a in ones for place in (a - 1, a) if 0 <= place < len(pairs.after) - 1}
        return weight - _ADJACENT_BONUS * sum(0 < pairs.after[place] + 1 == pairs.after[place + 1] for place in places)

    def lacks_shared_user(self, a: Node) -> bool:
        """Whether no user of `a` is paired with a user of its partner, although all users of both are paired."""
        pairs = self.pairs
        one, two = pairs.plain
        b = pairs.after[a]
        ones, twos = one.users[a], two.users[b]
        # Roots are used by callers, too; unused nodes have no user to lack.
        if not 0 < len(ones) + len(twos) <= _MAX_USERS or a in one.roots or b in two.roots:
            return False
        others = [pairs.before[v] for v, _ in twos]
        return NONE not in others and all(pairs.after[u] >= 0 and u not in others for u, _ in ones)

    def _has_shared_user(self, a: Node) -> bool:
        """Whether a user of `a` is paired with a user of its partner, or both are results."""
        pairs = self.pairs
        one, two = pairs.plain
        if a in one.roots and pairs.after[a] in two.roots:
            return True
        users = [pairs.after[user] for user, _ in one.users[a][:_MAX_USERS]]
        return any(pairs.after[a] in two.operands[user] for user in users if user >= 0)


# --- the cost of a matching ---
# Cost of the differences under the current pairs, updated incrementally while pairs are changed on trial.


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
    >>> from hlo_cli.analysis.matching.match_modules import match
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
        # A trial may not repair a whole computation: its cost would be that of a new matching.
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
        # Half, as in `pair_bodies`: a majority cannot be claimed by two other computations.
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
        # Two opcodes are hardly ever exchanged: the former partners stay alone.
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
        # Called computations are paired in the graphs of the text, as matching did it.
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


def _control_successors_of(graph: ModuleGraph) -> dict[Node, list[Node]]:
    """Control successors of each node that is a control predecessor."""
    successors: dict[Node, list[Node]] = {}
    for computation in {graph.nodes[node].computation for node in graph.controlled}:
        named = {i.name: graph.node(i) for i in computation.instructions}
        for i in computation.instructions:
            for name in i.control_predecessors if graph.node(i) in graph.controlled else ():
                if name in named:
                    successors.setdefault(named[name], []).append(graph.node(i))
    return successors


def _nodes(graph: ModuleGraph, computation: Computation | None) -> range:
    if computation is None:
        return range(0)
    first = graph.first_nodes[computation]
    return range(first, first + len(computation.instructions))


def _with_users(graphs: Iterable[ModuleGraph], partners: list[Node], nodes: list[Node]) -> set[Node]:
    """Nodes with their users, transitively through unpaired users and from fused parameters to the fusion."""
    # A removed operand changes what its users' users take, hence through unpaired ones.
    affected, waiting, starts = set(nodes), list(nodes), set(nodes)
    while waiting and len(affected) <= _MAX_AFFECTED + len(starts):
        node = waiting.pop()
        if node not in starts and partners[node] >= 0:
            continue
        for graph in graphs:
            new = [user for user, _ in graph.users[node] if user not in affected]
            if graph.nodes[node].opcode == opcodes.PARAMETER:
                caller = graph.bodies.get(graph.nodes[node].computation)
                new += [graph.node(caller)] if caller is not None and graph.node(caller) not in affected else []
            affected.update(new)
            waiting.extend(new)
    return affected


# --- candidate pairs ---


_MAX_SKIPPED_OPERANDS: Final = 4  # what compilers insert has few operands; wide tuples would multiply the candidates


@dataclass(frozen=True, slots=True)
class CandidatePairs:
    """Finds candidate pairs along the edges of two graphs; both nodes of a candidate have one opcode.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(module_graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> pairs.add(0, 0)
    >>> list(CandidatePairs(pairs, *pairs.plain).candidate_positions(1, -1))
    [(1, 1)]
    """

    pairs: Pairs
    one: ModuleGraph
    two: ModuleGraph

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
            # Equal shapes may be another opcode's work, but equal essential keys never have other sizes.
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


def _nearby(graph: ModuleGraph, opposite: ModuleGraph, node: Node, partners: list[Node]) -> Iterator[Node]:
    """Nodes of the opposite graph at the position of a node, as given by its paired users and operands, or one node
    further.
    """
    for user, position in graph.users[node][:_MAX_USERS]:
        if (pair := partners[user]) >= 0:
            yield pair
            for operand in opposite.operands[pair][position : position + 1]:
                yield operand
                # One node further, as compilers insert one bitcast, copy, or convert.
                yield from opposite.operands[operand][:1]
    for operand in graph.operands[node][:_MAX_USERS]:
        if (pair := partners[operand]) >= 0:
            yield pair
            for user, _ in opposite.users[pair][:_MAX_USERS]:
                yield user
                # Two users of a user: enough for a copy that was inserted, and bounded for values used everywhere.
                yield from (u for u, _ in opposite.users[user][:2])


# --- the search ---
# Local search that improves the pairs near differences.
#
# Pairs are made one after the other from what is known at the time, so an early pair can prevent a better one, for
# example between parallel chains of equal instructions. Finally other pairs are tried around each difference and kept
# if the total cost decreases, after Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs"
# (1970).
#
# A difference is a removed or added node, or a changed pair. `CandidatePairs` offers other pairs there;
# `IncrementalDiffCost.pair` makes one on trial and returns the change of the cost, by `ChangeWeights`. Neighbors that
# become inconsistent are tried next, even if the cost rises on the way; the steps up to the lowest cost are kept and
# the rest is undone. Edges are those of the text (`pairs.plain`) and, where fused instructions differ, also those of
# the flattened graphs (`pairs.one` and `pairs.two`).


_MAX_DIFFERENCES: Final = 300
"""Maximum number of differences for which the search runs; a computation without any pair counts as one."""
_MIN_COMPARISONS: Final = 1000  # small modules get a search even for one difference; chosen, not measured
_COMPARISONS_PER_DIFFERENCE: Final = 50
"""Maximum number of instruction comparisons, on average per difference."""
_MAX_STEPS: Final = 24  # exchanges two chains of up to 24 nodes; chosen, not measured
_MAX_STEP_COST: Final = 3 * PER_INSTRUCTION
"""Maximum cost of a step after the first; a costlier one is no part of an exchange."""
_MAX_EQUAL_PARTNERS: Final = 8  # among more equal nodes a partner is chance; shared users decide there


def improve_matching(pairs: Pairs, cost: IncrementalDiffCost) -> None:
    """Replaces pairs near differences while that lowers the cost.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.graph import module_graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = "HloModule m  ENTRY e { p = s8[2] parameter(0)  q = s8[2] not(p)  ROOT n = s8[2] negate(q) }"
    >>> numbers = Keys()
    >>> pairs = Pairs(*(module_graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> pairs.add(0, 0), pairs.add(2, 2)
    (None, None)
    >>> improve_matching(pairs, IncrementalDiffCost(pairs, {}, lambda pairs, one, two: None))
    >>> pairs.after
    [0, 1, 2]
    """
    _LocalSearch(pairs, cost).run()
    pairs.found[:] = [(a, b) for a, b in enumerate(pairs.after) if b >= 0]


class _LocalSearch:
    """Queue of differences as nodes of both graphs, with NONE for a node without partner."""

    def __init__(self, pairs: Pairs, cost: IncrementalDiffCost) -> None:
        self._pairs = pairs
        self._cost = cost
        self._views = [CandidatePairs(pairs, *pairs.plain)]
        if pairs.one is not pairs.plain[0]:
            self._views.append(CandidatePairs(pairs, pairs.one, pairs.two))
        self._queue: deque[tuple[Node, Node]] = deque()
        # Differing nodes of the second graph by level and key; the inner dict is an ordered set.
        self._differing_by_key: dict[tuple[int, Key], dict[Node, None]] = {}
        self._same_content_only = True

    def run(self) -> None:
        """Processes all differences twice: first with pairs of equal content only, as a wrong pair can block many right
        ones.
        """
        work = 0
        # Equal content first: wrong pairs of it block many right ones.
        for self._same_content_only in (True, False):
            differences = self._differences()
            count = self._count(differences)
            if count > _MAX_DIFFERENCES:
                return
            self._enqueue(differences)
            # In proportion to the differences, so that time is linear in what there is to explain.
            work += _MIN_COMPARISONS + _COMPARISONS_PER_DIFFERENCE * count
            while self._queue and self._cost.comparisons < work:
                self._improve_at(*self._queue.popleft())
            self._queue.clear()
        for a in sorted(self._cost.changes):
            if a in self._cost.changes:
                self._cost.pair_enclosing_computations(a)

    def _differences(self) -> list[tuple[Node, Node]]:
        """Removed, added, and changed nodes; changed callers first, as their callees depend on them."""
        pairs, nodes = self._pairs, self._pairs.one.nodes
        removed = [(a, NONE) for a, b in enumerate(pairs.after) if b < 0]
        added = [(NONE, b) for b, a in enumerate(pairs.before) if a < 0]
        # Called computations are paired with their callers, which settles differences inside.
        changed = sorted(self._cost.changes, key=lambda a: (not nodes[a].called_computations, a))
        return [*removed, *added, *((a, pairs.after[a]) for a in changed)]

    def _count(self, differences: Iterable[tuple[Node, Node]]) -> int:
        """Number of differences; a computation without any pair counts as one."""
        (one, two), (after, before) = self._pairs.plain, (self._pairs.after, self._pairs.before)
        with_pair = {one.nodes[a].computation for a, b in enumerate(after) if b >= 0}
        with_pair.update(two.nodes[b].computation for b, a in enumerate(before) if a >= 0)
        alone = 0
        others = set[Computation]()
        for a, b in differences:
            computation = (one.nodes[a] if a >= 0 else two.nodes[b]).computation
            if computation in with_pair:
                alone += 1
            else:
                others.add(computation)
        return alone + len(others)

    def _enqueue(self, differences: Iterable[tuple[Node, Node]]) -> None:
        two = self._pairs.two
        for a, b in differences:
            self._queue.append((a, b))
            for level in range(LEVELS if b >= 0 else 0):
                self._differing_by_key.setdefault((level, two.keys[level][b]), {})[b] = None

    def _improve_at(self, a: Node, b: Node) -> None:
        """Makes the best alternative pair at a difference, if it lowers the cost."""
        pairs, cost = self._pairs, self._cost
        if (a >= 0 and pairs.after[a] != b) or (b >= 0 and pairs.before[b] != a):
            return
        # Pairing the enclosing computations may remove the difference without a trial.
        if a >= 0 and b >= 0 and (a not in cost.changes or cost.pair_enclosing_computations(a)):
            return
        best, steps = 0, list[tuple[Node, Node]]()
        mark = cost.mark
        for x, y in dict.fromkeys(self._alternatives(a, b)):
            if self._same_content_only and (y < 0 or pairs.one.keys[CONTENT][x] != pairs.two.keys[CONTENT][y]):
                continue
            weight, tried = self._try(x, y)
            # Every alternative starts from the same state; the best one is repeated below.
            cost.undo(mark)
            if weight < best:
                best, steps = weight, tried
        touched = list(steps)
        for x, y in steps:
            touched.append((pairs.before[y] if y >= 0 else NONE, pairs.after[x]))
            cost.pair(x, y)
        self._enqueue_neighbors(touched)

    def _enqueue_neighbors(self, steps: list[tuple[Node, Node]]) -> None:
        """Enqueues the differences near changed pairs."""
        pairs, changes = self._pairs, self._cost.changes
        for x, y in steps:
            ones = (x, *(user for user, _ in pairs.one.users[x][:_MAX_USERS]), *pairs.one.operands[x])
            self._enqueue((a, pairs.after[a]) for a in ones if x >= 0 and (a in changes or pairs.after[a] < 0))
            twos = (y, *(user for user, _ in pairs.two.users[y][:_MAX_USERS]), *pairs.two.operands[y])
            self._enqueue((NONE, b) for b in twos if y >= 0 and pairs.before[b] < 0)

    def _try(self, x: Node, y: Node) -> tuple[int, list[tuple[Node, Node]]]:
        """Pairs `x` with `y`, then the neighbors that become inconsistent; returns the lowest cost and the steps up to
        it.
        """
        pairs, cost = self._pairs, self._cost
        weight = best = 0
        steps: list[tuple[Node, Node]] = []
        length, next_ = 0, deque([(x, y)])
        seen = set[tuple[Node, Node]]()
        while next_ and len(steps) < _MAX_STEPS:
            a, b = next_.popleft()
            if (a, b) in seen or (steps and pairs.after[a] == b) or not self._views[0].can_pair(a, b):
                continue
            seen.add((a, b))
            mark, displaced = cost.mark, (pairs.before[b] if b >= 0 else NONE, pairs.after[a])
            more = cost.pair(a, b)
            # Kernighan–Lin steps may cost, but one that breaks three instructions leads nowhere.
            if more is None or (steps and more >= _MAX_STEP_COST):
                cost.undo(mark)
                continue
            steps.append((a, b))
            weight += more
            if weight < best:
                best, length = weight, len(steps)
            for candidates in self._views:
                if b >= 0:
                    next_.extend(candidates.inconsistent_neighbors(a, b))
                if min(displaced) >= 0 and pairs.after[displaced[0]] == displaced[1]:
                    next_.extend(candidates.inconsistent_neighbors(*displaced))
        return best, steps[:length]

    def _alternatives(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Yields pairs to try in place of `a` and `b`; NONE for no partner."""
        if a >= 0 and b >= 0:
            for candidates in self._views:
                yield from candidates.inconsistent_neighbors(a, b)
                yield from ((x, NONE) for x in candidates.mismatched(a, b))
            yield from ((x, NONE) for x in self._operands_without_shared_user(a))
            if any(change.kind != "operands" for change in self._cost.changes[a]):
                yield a, NONE
            if self._pairs.one.nodes[a].called_computations:
                yield a, b
        if a >= 0:
            yield from ((a, y) for y in self._similar(a))
        for candidates in self._views:
            yield from candidates.candidate_positions(a, b)

    def _operands_without_shared_user(self, a: Node) -> Iterator[Node]:
        pairs = self._pairs
        operands = pairs.plain[0].operands[a][:_MAX_USERS]
        return (x for x in operands if pairs.after[x] >= 0 and self._cost.weights.lacks_shared_user(x))

    def _similar(self, a: Node) -> Iterator[Node]:
        """Yields differing nodes of the second graph with a key of `a`."""
        pairs = self._pairs
        for level in range(LEVELS):
            group = self._differing_by_key.get((level, pairs.one.keys[level][a]), ())
            if len(group) <= _MAX_EQUAL_PARTNERS:
                yield from (b for b in group if pairs.after[a] != b)
