"""Pairs the instructions of two modules by structure; names decide only between equal candidates.

Follows Falleri et al., "Fine-grained and accurate source code differencing" (2014), and xla/hlo/tools/hlo_diff, on
graphs in place of trees: certain pairs first, then their neighbors. What is then unpaired is matched across fusions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.matching.anchors import anchor
from hlo_cli.analysis.matching.boundaries import (
    pair_aliased_results,
    pair_by_arguments,
    pair_by_number,
    pair_by_path,
    pair_carriers,
    pair_results,
)
from hlo_cli.analysis.matching.build_graph import graph_of
from hlo_cli.analysis.matching.flattened import flattened
from hlo_cli.analysis.matching.graph import CONTENT, ESSENTIAL, FULL, LEVELS, Graph, Keys, Node, Unit
from hlo_cli.analysis.matching.origin import grouped, operation_of, pair_by_callees, pair_by_origin
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.analysis.matching.propagation import MatchPropagation
from hlo_cli.analysis.matching.wrappers import pair_wrappers
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module

_MAX_COMPARED: Final = 100_000
_MIN_SIMILARITY: Final = 0.5
"""Minimum similarity of two computations that are paired on no other evidence."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Pairs of instructions and of computations of two modules, with the function that pairs the nodes of two
    computations.
    """

    pairs: Pairs
    computations: dict[Computation, Computation]
    pair_nodes: Callable[[Pairs, Unit, Unit], None]


@no_garbage_collection()
def match(before: Module, after: Module) -> Matching:
    """Pairs the instructions of two modules, changed or not.

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
    units = _ComputationPairs(pairs)
    if before.has_entry == after.has_entry:
        units.pair(before.entry, after.entry)
    units.pair_not_inlined()
    left, fused = _unpaired_opcodes(pairs)
    if fused:
        _pair_across_fusions(pairs, units.computations)
        units.pair_wrappers()
    if left:
        units.pair_moved()
    _pair_other_opcodes(pairs)
    return Matching(pairs, units.computations, _pair_nodes)


def _unpaired_opcodes(pairs: Pairs) -> tuple[bool, bool]:
    """Whether both modules have unpaired instructions of one opcode, and whether some of these are fused or inlined."""
    left: list[set[str]] = []
    inlined: list[set[str]] = []
    for graph, others in pairs.sides:
        free = [graph.nodes[node] for node, other in enumerate(others) if other < 0]
        left.append({operation_of(i.opcode) for i in free})
        inlined.append({operation_of(i.opcode) for i in free if i.computation in graph.bodies})
    common = left[0] & left[1]
    return bool(common), not common.isdisjoint(inlined[0] | inlined[1])


def _pair_other_opcodes(pairs: Pairs) -> None:
    """Pairs instructions at the same position whose opcode changed."""
    flat = pairs.one, pairs.two
    pairs.one, pairs.two = pairs.plain
    if len(pairs.found) < min(len(pairs.after), len(pairs.before)):
        MatchPropagation(pairs, range(len(pairs.after))).propagate_to_other_opcodes()
    pairs.one, pairs.two = flat


def _pair_across_fusions(pairs: Pairs, computations: Mapping[Computation, Computation]) -> None:
    """Pairs instructions that are fused in one module only, or fused with different instructions."""
    pairs.one, pairs.two = flattened(pairs.one), flattened(pairs.two)
    units = [
        (pairs.one.unit_of[x], pairs.two.unit_of[y])
        for x, y in computations.items()
        if x not in pairs.one.bodies and y not in pairs.two.bodies
    ]
    for one, two in units:
        for level in range(LEVELS):
            anchor(pairs, one.nodes, two.nodes, level)
    propagation = MatchPropagation(pairs, (a for one, _ in units for a in one.nodes))
    propagation.propagate()
    for one, two in units:
        pair_by_origin(pairs, one.nodes, two.nodes)
    propagation.propagate()


class _ComputationPairs:
    """Pairs computations, starting with those that paired instructions call."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._taken: set[Computation] = set()
        self.computations: dict[Computation, Computation] = {}

    def pair(self, x: Computation, y: Computation) -> None:
        """Pairs two computations and, transitively, the callees of paired instructions."""
        pairs = self._pairs
        waiting = [(x, y)]
        while waiting:
            x, y = waiting.pop()
            if x in self.computations or y in self._taken:
                continue
            self.computations[x] = y
            self._taken.add(y)
            first = len(pairs.found)
            _pair_nodes(pairs, pairs.one.unit_of[x], pairs.two.unit_of[y])
            for a, b in reversed(pairs.found[first:]):
                if called := pairs.one.nodes[a].called_computations:
                    others = pairs.two.nodes[b].called_computations
                    waiting.extend(reversed(list(zip(called, others, strict=False))))

    def pair_not_inlined(self) -> None:
        """Pairs computations whose callers are not paired: those of equal content, then those of one name.

        Computations without callers come first, as their pairs determine those of their callees.
        """
        one, two = self._pairs.plain
        unpaired = [[c for c in self._unpaired(graph) if c not in graph.bodies] for graph in (one, two)]
        if not all(unpaired):
            return
        called = {c for graph in (one, two) for i in graph.nodes for c in i.called_computations}
        for is_called in (False, True):
            for key_of in (_content, _name_and_parameters):
                ones, twos = (
                    grouped((graph.unit_of[c] for c in left if (c in called) is is_called and c not in paired), key_of)
                    for graph, left, paired in zip((one, two), unpaired, (self.computations, self._taken), strict=True)
                )
                self._pair_groups(ones, twos)

    def pair_wrappers(self) -> None:
        """Pairs fusions and calls by the pairs in their computations."""
        self.computations = pair_wrappers(self._pairs, self.computations)
        self._taken = set(self.computations.values())

    def pair_moved(self) -> None:
        """Pairs computations without any paired node, for example because their callers changed or are gone."""
        pairs = self._pairs
        flat = pairs.one, pairs.two
        one, two = pairs.one, pairs.two = pairs.plain
        for key_of in (_content, _name_and_parameters):
            ones = grouped((one.unit_of[c] for c in self._unpaired(one) if _is_free(c, one, pairs.after)), key_of)
            twos = grouped((two.unit_of[c] for c in self._unpaired(two) if _is_free(c, two, pairs.before)), key_of)
            self._pair_groups(ones, twos)
        for x, y in self._most_similar():
            self.pair(x, y)
        pairs.one, pairs.two = flat

    def _most_similar(self) -> list[tuple[Computation, Computation]]:
        """Pairs of similar computations, at least one of which has no caller; most similar first."""
        pairs = self._pairs
        one, two = pairs.plain
        ones = [c for c in self._unpaired(one) if _is_free(c, one, pairs.after)]
        twos = [c for c in self._unpaired(two) if _is_free(c, two, pairs.before)]
        if len(ones) * len(twos) > _MAX_COMPARED:
            return []
        called = {c for graph in pairs.plain for i in graph.nodes for c in i.called_computations}
        similarities = [
            (similarity, x, y)
            for x in ones
            for y in twos
            if (x not in called or y not in called)
            and (similarity := pairs.computation_similarity(x, y)) >= _MIN_SIMILARITY
        ]
        return [(x, y) for _, x, y in sorted(similarities, key=lambda found: -found[0])]

    def _unpaired(self, graph: Graph) -> Iterator[Computation]:
        paired: Container[Computation] = self.computations if graph is self._pairs.plain[0] else self._taken
        return (computation for computation in graph.module.computations if computation not in paired)

    def _pair_groups(self, ones: Mapping[object, list[Unit]], twos: Mapping[object, list[Unit]]) -> None:
        """Pairs units of one key: those of the same name first, then the others in their order."""
        for key, group in ones.items():
            others = {unit.computation.name: unit for unit in twos.get(key, ())}
            named = sorted(group, key=lambda unit: unit.computation.name not in others)
            for x in named[: len(others)]:
                name = x.computation.name
                y = others.pop(name if name in others else next(iter(others)))
                self.pair(x.computation, y.computation)


def _is_free(computation: Computation, graph: Graph, other: Sequence[Node]) -> bool:
    first = graph.first_nodes[computation]
    return all(other[first + index] < 0 for index in range(len(computation.instructions)))


def _content(unit: Unit) -> object:
    return unit.content


def _name_and_parameters(unit: Unit) -> object:
    return unit.computation.name, len(unit.computation.parameters)


def _pair_nodes(pairs: Pairs, one: Unit, two: Unit) -> None:
    """Pairs the nodes of two computations: certain pairs, parameters, then their neighbors."""
    if _are_copies(pairs, one, two):
        pairs.add_all(one.nodes, two.nodes)
        return
    first = len(pairs.found)
    pairs.elements.forget()
    if one.content != two.content:
        pair_carriers(pairs, one.computation, two.computation)
        pair_by_arguments(pairs, one.computation, two.computation)
        pair_by_path(pairs, one.computation, two.computation)
        pair_aliased_results(pairs, one.computation, two.computation)
    for level in (FULL, CONTENT):
        anchor(pairs, one.nodes, two.nodes, level)
    pair_by_callees(pairs, one.nodes, two.nodes)
    pair_by_number(pairs, one.computation, two.computation)
    pairs.elements.forget()
    pair_results(pairs, one.computation, two.computation)
    for level in range(ESSENTIAL, LEVELS):
        anchor(pairs, one.nodes, two.nodes, level)
    if len(pairs.found) - first == min(len(one.nodes), len(two.nodes)):
        return
    propagation = MatchPropagation(pairs, one.nodes)
    root, other = one.computation.root, two.computation.root
    if root is not None and other is not None:
        propagation.add_candidate(pairs.one.node(root), pairs.two.node(other))
    propagation.propagate()
    pair_by_origin(pairs, one.nodes, two.nodes)
    propagation.propagate()


def _are_copies(pairs: Pairs, one: Unit, two: Unit) -> bool:
    """Whether two computations without pairs are equal line by line, apart from names."""
    count = len(one.nodes)
    if one.content != two.content or count != len(two.nodes) or not count:
        return False
    a, b = one.nodes[0], two.nodes[0]
    if max(*pairs.after[a : a + count], *pairs.before[b : b + count]) >= 0:
        return False
    if two.twin is one.computation:
        return True
    if pairs.one.keys[FULL][a : a + count] != pairs.two.keys[FULL][b : b + count]:
        return False
    if pairs.one.tuple_index[a : a + count] != pairs.two.tuple_index[b : b + count]:
        return False
    ones, twos = pairs.one.operands[a : a + count], pairs.two.operands[b : b + count]
    return all([x - a for x in old] == [y - b for y in new] for old, new in zip(ones, twos, strict=True))
