"""Which instruction of one module is which of another, found by structure: names decide only between equals.

After Falleri et al., "Fine-grained and accurate source code differencing" (2014), as xla/hlo/tools/hlo_diff, with
graphs in place of trees: what is certain first, then what lies beside it. Fusions are instructions like others at
first; only what is left over then is looked for across them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from hlo_cli.analysis.matching.anchors import anchor
from hlo_cli.analysis.matching.boundaries import pair_by_arguments, pair_by_number, pair_by_path, pair_results
from hlo_cli.analysis.matching.build_graph import graph_of
from hlo_cli.analysis.matching.flattened import flattened
from hlo_cli.analysis.matching.graph import LEVELS, MEANT, SAID, TOLD, Graph, Keys, Node, Unit
from hlo_cli.analysis.matching.origin import grouped, operation_of, pair_by_origin
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.analysis.matching.propagation import MatchPropagation
from hlo_cli.analysis.matching.wrappers import pair_wrappers
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module

_MOST_COMPARED: Final = 100_000
_LIKE: Final = 0.5
"""How much of two computations must say the same for them to be one, where nothing else tells."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The pairs of instructions that are one in both modules, and of computations."""

    pairs: Pairs
    computations: dict[Computation, Computation]
    pair_nodes: Callable[[Pairs, Unit, Unit], None]


@no_garbage_collection()
def match(before: Module, after: Module) -> Matching:
    """The instructions of two modules that are the same ones, changed or not.

    >>> from hlo_cli import parse_module
    >>> a = parse_module("HloModule m  ENTRY e { p = s8[2] parameter(0)  n = s8[2] not(p)  ROOT s = s8[2] add(n, p) }")
    >>> b = parse_module("HloModule m  ENTRY f { x = s8[2] parameter(0)  ROOT y = s8[2] add(x, x) }")
    >>> pairs = match(a, b).pairs
    >>> [(pairs.one.nodes[i].name, pairs.two.nodes[j].name) for i, j in sorted(pairs.found)]
    [('p', 'x'), ('s', 'y')]
    """
    numbers = Keys()
    same_frames = before.stack_tables == after.stack_tables
    one = graph_of(before, numbers, same_frames=same_frames)
    two = graph_of(after, numbers, same_frames=same_frames, other=one)
    pairs = Pairs(one, two)
    units = _Units(pairs, numbers)
    units.pair(before.entry, after.entry)
    units.pair_not_inlined()
    left, fused = _left_of_one_opcode(pairs)
    if fused:
        _pair_across_fusions(pairs, units.computations, numbers)
        units.pair_wrappers()
    if left:
        units.pair_moved()
    _pair_other_opcodes(pairs)
    return Matching(pairs, units.computations, partial(_pair_nodes, numbers))


def _left_of_one_opcode(pairs: Pairs) -> tuple[bool, bool]:
    """Whether both modules have instructions of one opcode that are in no pair, and whether some of these are fused."""
    left: list[set[str]] = []
    inlined: list[set[str]] = []
    for graph, others in pairs.sides:
        free = [graph.nodes[node] for node, other in enumerate(others) if other < 0]
        left.append({operation_of(i.opcode) for i in free})
        inlined.append({operation_of(i.opcode) for i in free if i.computation in graph.bodies})
    common = left[0] & left[1]
    return bool(common), not common.isdisjoint(inlined[0] | inlined[1])


def _pair_other_opcodes(pairs: Pairs) -> None:
    """What has become another operation at the same place."""
    flat = pairs.one, pairs.two
    pairs.one, pairs.two = pairs.plain
    if len(pairs.found) < min(len(pairs.after), len(pairs.before)):
        MatchPropagation(pairs, range(len(pairs.after))).spread_to_other_opcodes()
    pairs.one, pairs.two = flat


def _pair_across_fusions(pairs: Pairs, computations: Mapping[Computation, Computation], numbers: Keys) -> None:
    """Pair what is fused in one module only, or fused with other things."""
    pairs.one, pairs.two = flattened(pairs.one), flattened(pairs.two)
    units = [
        (pairs.one.unit_of[x], pairs.two.unit_of[y])
        for x, y in computations.items()
        if x not in pairs.one.bodies and y not in pairs.two.bodies
    ]
    for one, two in units:
        for level in range(LEVELS):
            anchor(pairs, one.nodes, two.nodes, level, numbers)
    spreading = MatchPropagation(pairs, (a for one, _ in units for a in one.nodes))
    spreading.spread()
    for one, two in units:
        pair_by_origin(pairs, one.nodes, two.nodes)
    spreading.spread()


class _Units:
    """Pairs computations, those first that pairs of instructions call."""

    def __init__(self, pairs: Pairs, numbers: Keys) -> None:
        self._pairs = pairs
        self._numbers = numbers
        self._taken: set[Computation] = set()
        self.computations: dict[Computation, Computation] = {}

    def pair(self, x: Computation, y: Computation) -> None:
        """Pair two computations, and all that they call at the same places."""
        pairs = self._pairs
        waiting = [(x, y)]
        while waiting:
            x, y = waiting.pop()
            if x in self.computations or y in self._taken:
                continue
            self.computations[x] = y
            self._taken.add(y)
            first = len(pairs.found)
            _pair_nodes(self._numbers, pairs, pairs.one.unit_of[x], pairs.two.unit_of[y])
            for a, b in reversed(pairs.found[first:]):
                if called := pairs.one.nodes[a].called_computations:
                    others = pairs.two.nodes[b].called_computations
                    waiting.extend(reversed(list(zip(called, others, strict=False))))

    def pair_not_inlined(self) -> None:
        """Computations whose callers are no pairs: those that compute the same, else those of one name.

        What nothing calls comes first, for it pairs what it calls itself.
        """
        one, two = self._pairs.plain
        lefts = [[c for c in self._left(graph) if c not in graph.bodies] for graph in (one, two)]
        if not all(lefts):
            return
        called = {c for graph in (one, two) for i in graph.nodes for c in i.called_computations}
        for is_called in (False, True):
            for key_of in (_content, _name_and_parameters):
                ones, twos = (
                    grouped((graph.unit_of[c] for c in left if (c in called) is is_called and c not in paired), key_of)
                    for graph, left, paired in zip((one, two), lefts, (self.computations, self._taken), strict=True)
                )
                self._pair_groups(ones, twos)

    def pair_wrappers(self) -> None:
        """Fusions and calls by what they run, where that is known by now."""
        self.computations = pair_wrappers(self._pairs, self.computations)
        self._taken = set(self.computations.values())

    def pair_moved(self) -> None:
        """Computations that nothing in them is paired of: called from elsewhere, or not at all any more."""
        pairs = self._pairs
        flat = pairs.one, pairs.two
        one, two = pairs.one, pairs.two = pairs.plain
        for key_of in (_content, _name_and_parameters):
            ones = grouped((one.unit_of[c] for c in self._left(one) if _is_free(c, one, pairs.after)), key_of)
            twos = grouped((two.unit_of[c] for c in self._left(two) if _is_free(c, two, pairs.before)), key_of)
            self._pair_groups(ones, twos)
        for x, y in self._likest():
            self.pair(x, y)
        pairs.one, pairs.two = flat

    def _likest(self) -> list[tuple[Computation, Computation]]:
        """Computations that say much the same, one of which nothing calls any more, or nothing did; likest first."""
        pairs = self._pairs
        one, two = pairs.plain
        ones = [c for c in self._left(one) if _is_free(c, one, pairs.after)]
        twos = [c for c in self._left(two) if _is_free(c, two, pairs.before)]
        if len(ones) * len(twos) > _MOST_COMPARED:
            return []
        called = {c for graph in pairs.plain for i in graph.nodes for c in i.called_computations}
        likenesses = [
            (likeness, x, y)
            for x in ones
            for y in twos
            if (x not in called or y not in called) and (likeness := pairs.likeness_of_computations(x, y)) >= _LIKE
        ]
        return [(x, y) for _, x, y in sorted(likenesses, key=lambda found: -found[0])]

    def _left(self, graph: Graph) -> Iterator[Computation]:
        paired: Container[Computation] = self.computations if graph is self._pairs.plain[0] else self._taken
        return (computation for computation in graph.module.computations if computation not in paired)

    def _pair_groups(self, ones: Mapping[object, list[Unit]], twos: Mapping[object, list[Unit]]) -> None:
        """Pair those of one key: first those of one name too, then the others in their order."""
        for key, group in ones.items():
            others = {unit.computation.name: unit for unit in twos.get(key, ())}
            named = sorted(group, key=lambda unit: unit.computation.name not in others)
            for x in named[: len(others)]:
                name = x.computation.name
                y = others.pop(name if name in others else next(iter(others)))
                self.pair(x.computation, y.computation)


def _is_free(computation: Computation, graph: Graph, other: Sequence[Node]) -> bool:
    first = graph.taken[computation]
    return all(other[first + index] < 0 for index in range(len(computation.instructions)))


def _content(unit: Unit) -> object:
    return unit.content


def _name_and_parameters(unit: Unit) -> object:
    return unit.computation.name, len(unit.computation.parameters)


def _pair_nodes(numbers: Keys, pairs: Pairs, one: Unit, two: Unit) -> None:
    """The pairs of two computations: what is certain, parameters, then what lies beside pairs."""
    if _are_copies(pairs, one, two):
        pairs.add_all(one.nodes, two.nodes)
        return
    first = len(pairs.found)
    if one.content != two.content:
        pair_by_arguments(pairs, one.computation, two.computation)
        pair_by_path(pairs, one.computation, two.computation)
    for level in (TOLD, SAID):
        anchor(pairs, one.nodes, two.nodes, level, numbers)
    pair_by_number(pairs, one.computation, two.computation)
    for level in range(MEANT, LEVELS):
        anchor(pairs, one.nodes, two.nodes, level, numbers)
    if len(pairs.found) - first == min(len(one.nodes), len(two.nodes)):
        return
    spreading = MatchPropagation(pairs, one.nodes)
    root, other = one.computation.root, two.computation.root
    if root is not None and other is not None:
        spreading.offer(pairs.one.node(root), pairs.two.node(other))
    spreading.spread()
    pair_results(pairs, one.computation, two.computation)
    pair_by_origin(pairs, one.nodes, two.nodes)
    spreading.spread()


def _are_copies(pairs: Pairs, one: Unit, two: Unit) -> bool:
    """Whether two computations say the same line by line, names aside, and nothing in them is paired yet."""
    count = len(one.nodes)
    if one.content != two.content or count != len(two.nodes) or not count:
        return False
    a, b = one.nodes[0], two.nodes[0]
    if max(*pairs.after[a : a + count], *pairs.before[b : b + count]) >= 0:
        return False
    if two.twin is one.computation:
        return True
    if pairs.one.keys[TOLD][a : a + count] != pairs.two.keys[TOLD][b : b + count]:
        return False
    ones, twos = pairs.one.operands[a : a + count], pairs.two.operands[b : b + count]
    return all([x - a for x in old] == [y - b for y in new] for old, new in zip(ones, twos, strict=True))
