"""Local search that improves the pairs near differences.

Pairs are made one after the other from what is known at the time, so an early pair can prevent a better one, for
example between parallel chains of equal instructions. Finally other pairs are tried around each difference and kept if
the total cost decreases, after Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs" (1970).

A difference is a removed or added node, or a changed pair. `CandidatePairs` offers other pairs there;
`IncrementalDiffCost.pair` makes one on trial and returns the change of the cost, by `ChangeWeights`. Neighbors that
become inconsistent are tried next, even if the cost rises on the way; the steps up to the lowest cost are kept and the
rest is undone. Edges are those of the text (`pairs.plain`) and, where fused instructions differ, also those of the
flattened graphs (`pairs.one` and `pairs.two`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.matching.candidates import CandidatePairs
from hlo_cli.analysis.matching.change_weights import PER_INSTRUCTION
from hlo_cli.analysis.matching.diff_cost import IncrementalDiffCost
from hlo_cli.analysis.matching.graph import CONTENT, LEVELS, Key, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir.instruction import Computation

_MAX_DIFFERENCES: Final = 300
"""Maximum number of differences for which the search runs; a computation without any pair counts as one."""
_MIN_COMPARISONS: Final = 1000
_COMPARISONS_PER_DIFFERENCE: Final = 50
"""Maximum number of instruction comparisons, on average per difference."""
_MAX_STEPS: Final = 24
_MAX_STEP_COST: Final = 3 * PER_INSTRUCTION
"""Maximum cost of a step after the first; a costlier one is no part of an exchange."""
_MAX_IDENTICAL_CANDIDATES: Final = 8
_MAX_USERS: Final = 16


def improve_matching(pairs: Pairs, cost: IncrementalDiffCost) -> None:
    """Replaces pairs near differences while that lowers the cost.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text = "HloModule m  ENTRY e { p = s8[2] parameter(0)  q = s8[2] not(p)  ROOT n = s8[2] negate(q) }"
    >>> numbers = Keys()
    >>> pairs = Pairs(*(graph_of(parse_module(text), numbers) for _ in range(2)))
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
        for self._same_content_only in (True, False):
            differences = self._differences()
            count = self._count(differences)
            if count > _MAX_DIFFERENCES:
                return
            self._enqueue(differences)
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
        if a >= 0 and b >= 0 and (a not in cost.changes or cost.pair_enclosing_computations(a)):
            return
        best, steps = 0, list[tuple[Node, Node]]()
        mark = cost.mark
        for x, y in dict.fromkeys(self._alternatives(a, b)):
            if self._same_content_only and (y < 0 or pairs.one.keys[CONTENT][x] != pairs.two.keys[CONTENT][y]):
                continue
            weight, tried = self._try(x, y)
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
            if len(group) <= _MAX_IDENTICAL_CANDIDATES:
                yield from (b for b in group if pairs.after[a] != b)
