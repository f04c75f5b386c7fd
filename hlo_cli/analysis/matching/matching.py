"""Which instruction of one module is which of another, found by structure: names decide only between equals.

After Falleri et al., "Fine-grained and accurate source code differencing" (2014), which xla/hlo/tools/hlo_diff follows too,
with graphs in place of trees: what is certain first, then what lies beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hlo_cli.analysis.matching.anchors import anchor
from hlo_cli.analysis.matching.graph import LEVELS, Graph, Keys, Node, Unit
from hlo_cli.analysis.matching.pairs import Pairs
from hlo_cli.analysis.matching.said import op_name_in
from hlo_cli.analysis.matching.spreading import Spreading
from hlo_cli.analysis.matching.wrappers import pair_wrappers
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Matching:
    """The pairs of instructions that are one in both modules, and of computations."""

    pairs: Pairs
    computations: Mapping[Computation, Computation]


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
    pairs = Pairs(Graph(before, numbers), Graph(after, numbers))
    units = _Units(pairs, numbers)
    units.pair(pairs.one.unit_of[before.entry], pairs.two.unit_of[after.entry])
    units.pair_left_over()
    return Matching(pairs, pair_wrappers(pairs, units.computations))


class _Units:
    """Pairs computations, those first that pairs of instructions call."""

    def __init__(self, pairs: Pairs, numbers: Keys) -> None:
        self._pairs = pairs
        self._numbers = numbers
        self._taken: set[Unit] = set()
        self.computations: dict[Computation, Computation] = {}

    def pair(self, one: Unit, two: Unit) -> None:
        """Pair two computations, and all that they call at the same places."""
        pairs = self._pairs
        waiting = [(one, two)]
        while waiting:
            one, two = waiting.pop()
            if one.computation in self.computations or two in self._taken:
                continue
            self.computations[one.computation] = two.computation
            self._taken.add(two)
            first = len(pairs.found)
            _pair_nodes(pairs, one, two, self._numbers)
            for a, b in reversed(pairs.found[first:]):
                if called := pairs.one.called_units(a):
                    waiting.extend(reversed(list(zip(called, pairs.two.called_units(b), strict=False))))

    def pair_left_over(self) -> None:
        """Computations whose callers are no pairs: those that compute the same, else those of one name."""
        for key_of in (_content, _name_and_parameters):
            ones = _grouped((u for u in self._pairs.one.units if u.computation not in self.computations), key_of)
            twos = _grouped((u for u in self._pairs.two.units if u not in self._taken), key_of)
            for key, group in ones.items():
                for one, two in zip(group, twos.get(key, ()), strict=False):
                    self.pair(one, two)


def _content(unit: Unit) -> object:
    return unit.content


def _name_and_parameters(unit: Unit) -> object:
    return unit.computation.name, len(unit.computation.parameters)


def _pair_nodes(pairs: Pairs, one: Unit, two: Unit, numbers: Keys) -> None:
    """The pairs of two computations: what is certain, parameters by number, then what lies beside pairs."""
    first = len(pairs.found)
    anchor(pairs, one.nodes, two.nodes, 0, numbers)
    _pair_parameters(pairs, one, two)
    for level in range(1, LEVELS):
        anchor(pairs, one.nodes, two.nodes, level, numbers)
    if len(pairs.found) - first == min(len(one.nodes), len(two.nodes)):
        return
    spreading = Spreading(pairs, first)
    for a, b in zip(_roots(pairs.one, one), _roots(pairs.two, two), strict=False):
        spreading.offer(a, b)
    spreading.spread()
    _pair_by_origin(pairs, one, two)
    spreading.spread_to_other_opcodes()


def _pair_parameters(pairs: Pairs, one: Unit, two: Unit) -> None:
    """Parameters by number; where there are not as many, only those of the same sizes."""
    ones, twos = one.computation.parameters, two.computation.parameters
    for x, y in zip(ones, twos, strict=False):
        a, b = pairs.one.node(x), pairs.two.node(y)
        if pairs.are_free(a, b) and (len(ones) == len(twos) or pairs.one.keys[1][a] == pairs.two.keys[1][b]):
            pairs.add(a, b)


def _roots(graph: Graph, unit: Unit) -> list[Node]:
    root = unit.computation.root
    return [] if root is None else [graph.value[graph.node(root)]]


def _pair_by_origin(pairs: Pairs, one: Unit, two: Unit) -> None:
    """What no neighbour tells: the same operation under its old name, or the only one from a place in the program."""
    for key_of in (_key_and_name, _key_and_op_name, _opcode_and_op_name):
        ones = _grouped((a for a in one.nodes if pairs.after[a] < 0), partial(key_of, pairs.one))
        twos = _grouped((b for b in two.nodes if pairs.before[b] < 0), partial(key_of, pairs.two))
        for key, group in ones.items():
            others = twos.get(key, ())
            if key is not None and len(group) == 1 == len(others):
                pairs.add(group[0], others[0])


def _key_and_name(graph: Graph, node: Node) -> object:
    return graph.keys[1][node], graph.nodes[node].name


def _key_and_op_name(graph: Graph, node: Node) -> object:
    op_name = op_name_in(graph.metadata[node])
    return (graph.keys[1][node], op_name) if op_name else None


def _opcode_and_op_name(graph: Graph, node: Node) -> object:
    op_name = op_name_in(graph.metadata[node])
    return (graph.nodes[node].opcode, op_name) if op_name else None


def _grouped(things: Iterable[_T], key_of: Callable[[_T], object]) -> dict[object, list[_T]]:
    groups: dict[object, list[_T]] = {}
    for thing in things:
        groups.setdefault(key_of(thing), []).append(thing)
    return groups
