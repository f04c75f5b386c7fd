"""Pairs of what goes into computations and comes out of them: parameters, and the tuples of results."""

from __future__ import annotations

from hlo_cli.analysis.matching.graph import MEANT, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.ir.computation import Computation


def pair_by_arguments(pairs: Pairs, one: Computation, two: Computation) -> None:
    """The parameters of what is fused by what is handed to them: their numbers mean nothing."""
    if one not in pairs.one.bodies or two not in pairs.two.bodies:
        return
    others: dict[Node, list[Node]] = {}
    for parameter, argument in zip(two.parameters, pairs.two.bodies[two].operands, strict=True):
        others.setdefault(pairs.two.node(argument), []).append(pairs.two.node(parameter))
    for parameter, argument in zip(one.parameters, pairs.one.bodies[one].operands, strict=True):
        a, same = pairs.one.node(parameter), others.get(pairs.after[pairs.one.node(argument)], ())
        if (b := next((b for b in same if pairs.are_free(a, b)), NONE)) != NONE:
            pairs.add(a, b)


def pair_by_number(pairs: Pairs, one: Computation, two: Computation) -> None:
    """Parameters by number; where there are not as many, only those of the same sizes."""
    ones, twos = one.parameters, two.parameters
    for x, y in zip(ones, twos, strict=False):
        a, b = pairs.one.node(x), pairs.two.node(y)
        as_large = pairs.one.keys[MEANT][a] == pairs.two.keys[MEANT][b]
        if pairs.are_free(a, b) and (len(ones) == len(twos) or as_large):
            pairs.add(a, b)


def pair_results(pairs: Pairs, one: Computation, two: Computation) -> None:
    """The tuples of results, whatever came before or between them; a fusion's stand for what uses them."""
    if one in pairs.one.bodies or two in pairs.two.bodies or one.root is None or two.root is None:
        return
    a, b = pairs.one.node(one.root), pairs.two.node(two.root)
    if pairs.are_free(a, b) and one.root.opcode == two.root.opcode == "tuple":
        pairs.add(a, b)
