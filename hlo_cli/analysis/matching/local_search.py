"""Other pairs beside the places that differ, wherever they leave less to tell.

Pairs are found from what is known at the time, one after the other; what is right for one can make another wrong, as
where equal chains lie side by side. So in the end, around every difference, other pairs are tried: what is gained
decides, as in Kernighan and Lin's "An efficient heuristic procedure for partitioning graphs" (1970).

A place is what differs: a node that is added or removed, or a pair that changed. `CandidatePairs` offers other pairs
there; `IncrementalDiffCost.pair` makes one on trial, compares again what depends on it, and says how much heavier all
is then, by `ChangeWeights`. What that brings out of step beside it is tried next, though it may get worse on the way;
the steps up to the lightest are kept and the rest is undone. Links are followed as they are written (`pairs.plain`)
and, where some of what differs is fused, also as if nothing were (`pairs.one` and `pairs.two`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.matching.candidates import CandidatePairs
from hlo_cli.analysis.matching.change_weights import ONE
from hlo_cli.analysis.matching.diff_cost import IncrementalDiffCost
from hlo_cli.analysis.matching.graph import LEVELS, SAID, Key, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir.computation import Computation

_MOST_PLACES: Final = 300
"""Up to how many differences other pairs are tried: modules that have little in common stay as they were matched.

A computation without any pair is one difference, however much is in it.
"""
_LEAST_WORK: Final = 1000
_WORK: Final = 50
"""How many instructions are compared at most, on average for each difference."""
_MOST_STEPS: Final = 24
_TOO_MUCH: Final = 3 * ONE
"""A step that makes so much worse is left out: it is no part of what was swapped."""
_MOST_TWINS: Final = 8
_MOST_USERS: Final = 16


def improve_matching(pairs: Pairs, reckoning: IncrementalDiffCost) -> None:
    """Change pairs as long as that leaves less to tell, looking only beside what is told.

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
    _Improving(pairs, reckoning).run()
    pairs.found[:] = [(a, b) for a, b in enumerate(pairs.after) if b >= 0]


class _Improving:
    """The places still to look at, as nodes of both graphs, one of them NONE where there is no pair."""

    def __init__(self, pairs: Pairs, reckoning: IncrementalDiffCost) -> None:
        self._pairs = pairs
        self._reckoning = reckoning
        self._views = [CandidatePairs(pairs, *pairs.plain)]
        if pairs.one is not pairs.plain[0]:
            self._views.append(CandidatePairs(pairs, pairs.one, pairs.two))
        self._waiting: deque[tuple[Node, Node]] = deque()
        # What differs in the second graph, by what it says at each level; a dict stands for a set that keeps its order.
        self._twins: dict[tuple[int, Key], dict[Node, None]] = {}
        self._only_same = True

    def run(self) -> None:
        """Go through all that differs, and again through what has come to differ on the way.

        First only what says the same is paired: a wrong pair may stand in the way of many right ones.
        """
        work = 0
        for self._only_same in (True, False):
            places = self._places()
            count = self._count(places)
            if count > _MOST_PLACES:
                return
            self._wait_for(places)
            work += _LEAST_WORK + _WORK * count
            while self._waiting and self._reckoning.work < work:
                self._look_at(*self._waiting.popleft())
            self._waiting.clear()
        for a in sorted(self._reckoning.changes):
            if a in self._reckoning.changes:
                self._reckoning.join(a)

    def _places(self) -> list[tuple[Node, Node]]:
        """What differs: removed, added and changed, callers first, for all that they call may differ by them."""
        pairs, nodes = self._pairs, self._pairs.one.nodes
        removed = [(a, NONE) for a, b in enumerate(pairs.after) if b < 0]
        added = [(NONE, b) for b, a in enumerate(pairs.before) if a < 0]
        changed = sorted(self._reckoning.changes, key=lambda a: (not nodes[a].called_computations, a))
        return [*removed, *added, *((a, pairs.after[a]) for a in changed)]

    def _count(self, places: Iterable[tuple[Node, Node]]) -> int:
        """How many differences there are at these places."""
        (one, two), (after, before) = self._pairs.plain, (self._pairs.after, self._pairs.before)
        with_pair = {one.nodes[a].computation for a, b in enumerate(after) if b >= 0}
        with_pair.update(two.nodes[b].computation for b, a in enumerate(before) if a >= 0)
        alone = 0
        others = set[Computation]()
        for a, b in places:
            computation = (one.nodes[a] if a >= 0 else two.nodes[b]).computation
            if computation in with_pair:
                alone += 1
            else:
                others.add(computation)
        return alone + len(others)

    def _wait_for(self, places: Iterable[tuple[Node, Node]]) -> None:
        two = self._pairs.two
        for a, b in places:
            self._waiting.append((a, b))
            for level in range(LEVELS if b >= 0 else 0):
                self._twins.setdefault((level, two.keys[level][b]), {})[b] = None

    def _look_at(self, a: Node, b: Node) -> None:
        """Take the best of the pairs that may be there instead, if it is better than what is."""
        pairs, reckoning = self._pairs, self._reckoning
        if (a >= 0 and pairs.after[a] != b) or (b >= 0 and pairs.before[b] != a):
            return
        if a >= 0 and b >= 0 and (a not in reckoning.changes or reckoning.join(a)):
            return
        best, steps = 0, list[tuple[Node, Node]]()
        mark = reckoning.mark
        for x, y in dict.fromkeys(self._instead(a, b)):
            if self._only_same and (y < 0 or pairs.one.keys[SAID][x] != pairs.two.keys[SAID][y]):
                continue
            weight, tried = self._try(x, y)
            reckoning.undo(mark)
            if weight < best:
                best, steps = weight, tried
        touched = list(steps)
        for x, y in steps:
            touched.append((pairs.before[y] if y >= 0 else NONE, pairs.after[x]))
            reckoning.pair(x, y)
        self._look_around(touched)

    def _look_around(self, steps: list[tuple[Node, Node]]) -> None:
        """What was touched may be better still."""
        pairs, changes = self._pairs, self._reckoning.changes
        for x, y in steps:
            ones = (x, *(user for user, _ in pairs.one.users[x][:_MOST_USERS]), *pairs.one.operands[x])
            self._wait_for((a, pairs.after[a]) for a in ones if x >= 0 and (a in changes or pairs.after[a] < 0))
            twos = (y, *(user for user, _ in pairs.two.users[y][:_MOST_USERS]), *pairs.two.operands[y])
            self._wait_for((NONE, b) for b in twos if y >= 0 and pairs.before[b] < 0)

    def _try(self, x: Node, y: Node) -> tuple[int, list[tuple[Node, Node]]]:
        """Pair two, then what that brings out of step beside them, as far as it gets better; the gain and the pairs."""
        pairs, reckoning = self._pairs, self._reckoning
        weight = best = 0
        steps: list[tuple[Node, Node]] = []
        length, next_ = 0, deque([(x, y)])
        seen = set[tuple[Node, Node]]()
        while next_ and len(steps) < _MOST_STEPS:
            a, b = next_.popleft()
            if (a, b) in seen or (steps and pairs.after[a] == b) or not self._views[0].may_pair(a, b):
                continue
            seen.add((a, b))
            mark, displaced = reckoning.mark, (pairs.before[b] if b >= 0 else NONE, pairs.after[a])
            more = reckoning.pair(a, b)
            if more is None or (steps and more >= _TOO_MUCH):
                reckoning.undo(mark)
                continue
            steps.append((a, b))
            weight += more
            if weight < best:
                best, length = weight, len(steps)
            for beside in self._views:
                if b >= 0:
                    next_.extend(beside.out_of_step(a, b))
                if min(displaced) >= 0 and pairs.after[displaced[0]] == displaced[1]:
                    next_.extend(beside.out_of_step(*displaced))
        return best, steps[:length]

    def _instead(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Pairs that may be better than this one, or than none."""
        if a >= 0 and b >= 0:
            for beside in self._views:
                yield from beside.out_of_step(a, b)
                yield from ((x, NONE) for x in beside.wrong(a, b))
            yield from ((x, NONE) for x in self._strays(a))
            if any(change.kind != "operands" for change in self._reckoning.changes[a]):
                yield a, NONE
            if self._pairs.one.nodes[a].called_computations:
                yield a, b
        if a >= 0:
            yield from ((a, y) for y in self._alike(a))
        for beside in self._views:
            yield from beside.places(a, b)

    def _strays(self, a: Node) -> Iterator[Node]:
        pairs = self._pairs
        operands = pairs.plain[0].operands[a][:_MOST_USERS]
        return (x for x in operands if pairs.after[x] >= 0 and self._reckoning.weights.is_stray(x))

    def _alike(self, a: Node) -> Iterator[Node]:
        """What differs in the second graph, and says the same."""
        pairs = self._pairs
        for level in range(LEVELS):
            group = self._twins.get((level, pairs.one.keys[level][a]), ())
            if len(group) <= _MOST_TWINS:
                yield from (b for b in group if pairs.after[a] != b)
