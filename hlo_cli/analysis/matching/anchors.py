"""Pairs that are certain: nodes with the same work before them, the same behind them, or both.

Every node gets two colours: one for all that it is computed from, one for all that is computed from it, each as far as
the next nodes whose pairs are known. Whole regions that two modules share are found in two walks along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.matching.graph import SAID, Graph, Key, Keys, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs

Colours = dict[Node, Key]
Groups = dict[Key, list[Node]]

_MOST_TWINS: Final = 64
"""Among how many nodes that look the same the right one is looked for."""


def anchor(pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], level: int, numbers: Keys) -> None:
    """Pair what has the same colours among the free nodes of two computations, at a level of detail.

    Both are in topological order. First what agrees in both colours, then what is computed alike, then what is used
    alike: the regions above, below and between the places where the modules differ.
    """
    ones, twos = [a for a in ones if pairs.after[a] < 0], [b for b in twos if pairs.before[b] < 0]
    if not ones or not twos:
        return
    up = (
        _sources(pairs.one, ones, level, numbers, pairs.after, None),
        _sources(pairs.two, twos, level, numbers, pairs.before, pairs.before),
    )
    down = (
        _uses(pairs.one, ones, level, numbers, pairs.after, None),
        _uses(pairs.two, twos, level, numbers, pairs.before, pairs.before),
    )
    both = _joined(up[0], down[0], numbers), _joined(up[1], down[1], numbers)
    _pair_alike(pairs, ones, twos, both, surely=True)
    _pair_alike(pairs, ones, twos, up, surely=False)
    _pair_used_alike(pairs, ones, twos, down)


def _atom(node: Node, other: Sequence[Node], of_two: Sequence[Node] | None) -> int:
    """The colour of a node whose pair is known: the same for both, and below zero as no key is."""
    return -2 - (node if of_two is None else other[node])


def _sources(
    graph: Graph, nodes: Sequence[Node], level: int, numbers: Keys, other: Sequence[Node], two: Sequence[Node] | None
) -> Colours:
    """The colours of what nodes are computed from."""
    keys, operands, colours = graph.keys[level], graph.operands, Colours()
    of = numbers.of
    for node in nodes:
        taken = [colours.get(o, NONE) if other[o] < 0 else _atom(o, other, two) for o in operands[node]]
        colours[node] = of((keys[node], *taken))
    return colours


def _uses(
    graph: Graph, nodes: Sequence[Node], level: int, numbers: Keys, other: Sequence[Node], two: Sequence[Node] | None
) -> Colours:
    """The colours of what is computed from nodes."""
    keys, users, roots, colours = graph.keys[level], graph.users, graph.roots, Colours()
    of = numbers.of
    for node in reversed(nodes):
        used = [(colours.get(u, NONE) if other[u] < 0 else _atom(u, other, two), slot) for u, slot in users[node]]
        if len(used) > 1:
            used.sort()
        colours[node] = of((keys[node], node in roots, tuple(used)))
    return colours


def _joined(first: Colours, second: Colours, numbers: Keys) -> Colours:
    return {node: numbers.of((colour, second[node])) for node, colour in first.items()}


def _groups(nodes: Sequence[Node], colours: Colours, other: Sequence[Node]) -> Groups:
    groups: Groups = {}
    for node in nodes:
        if other[node] < 0:
            groups.setdefault(colours[node], []).append(node)
    return groups


def _pair_alike(
    pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], colours: tuple[Colours, Colours], *, surely: bool
) -> None:
    """Pair nodes of one colour, users first, so that twins follow the users that they are already paired by.

    Where a colour has more nodes on one side, only what users decide is paired, unless any choice is as good.
    """
    groups = _groups(ones, colours[0], pairs.after), _groups(twos, colours[1], pairs.before)
    namesakes = _Namesakes(pairs, twos)
    for a in reversed(ones):
        colour = colours[0][a]
        if pairs.after[a] >= 0 or (group := groups[1].get(colour)) is None:
            continue
        b = _by_users(pairs, a, colour, colours[1])
        if b < 0 and (surely or len(group) == len(groups[0][colour])):
            b = _chosen(pairs, a, group)
        if b >= 0 and (surely or not namesakes.compete(a, b)):
            pairs.add(a, b)


class _Namesakes:
    """Free nodes by name, to leave open what one that says the same under the old name may be as well."""

    def __init__(self, pairs: Pairs, twos: Sequence[Node]) -> None:
        self._pairs = pairs
        self._named = {pairs.two.nodes[b].name: b for b in twos if pairs.before[b] < 0}

    def compete(self, a: Node, b: Node) -> bool:
        """Whether another node than b has the name of a, and says what a says."""
        pairs = self._pairs
        other = self._named.get(pairs.one.nodes[a].name, b)
        same = pairs.one.keys[SAID][a] == pairs.two.keys[SAID][other]
        return other != b and pairs.before[other] < 0 and same


def _by_users(pairs: Pairs, a: Node, colour: Key, colour_of_two: Colours) -> Node:
    """What stands where a node does among the operands of a user's pair, if it has the colour."""
    for user, slot in pairs.one.users[a]:
        other = pairs.after[user]
        if other >= 0 and slot < len(pairs.two.operands[other]):
            b = pairs.two.operands[other][slot]
            if pairs.before[b] < 0 and colour_of_two.get(b) == colour:
                return b
    return NONE


def _chosen(pairs: Pairs, a: Node, group: list[Node]) -> Node:
    """One of several that look the same: the one of the same name, else the last."""
    while group and pairs.before[group[-1]] >= 0:
        group.pop()
    free = [b for b in group[-_MOST_TWINS:] if pairs.before[b] < 0] if len(group) > 1 else group
    return max(reversed(free), key=lambda b: pairs.have_one_name(a, b), default=NONE)


def _pair_used_alike(
    pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], colours: tuple[Colours, Colours]
) -> None:
    """Pair nodes that are used alike, operands first: the only ones of a colour, or users of what is paired."""
    groups = _groups(ones, colours[0], pairs.after), _groups(twos, colours[1], pairs.before)
    namesakes = _Namesakes(pairs, twos)
    for a in ones:
        candidates = groups[1].get(colours[0][a], []) if pairs.after[a] < 0 else []
        group = [b for b in candidates if pairs.before[b] < 0] if len(candidates) <= _MOST_TWINS else []
        if len(group) > 1 or (group and len(groups[0][colours[0][a]]) > 1):
            group = [b for b in group if _takes_the_same(pairs, a, b)]
        if len(group) == 1 and not namesakes.compete(a, group[0]) and not _take_others(pairs, a, group[0]):
            pairs.add(a, group[0])


def _takes_the_same(pairs: Pairs, a: Node, b: Node) -> bool:
    """Whether some operand is known to be the same, and none known to differ."""
    ones, twos = pairs.one.operands[a], pairs.two.operands[b]
    if len(ones) != len(twos):
        return False
    known = [pairs.after[x] == y for x, y in zip(ones, twos, strict=True) if pairs.after[x] >= 0]
    return bool(known) and all(known)


def _take_others(pairs: Pairs, a: Node, b: Node) -> bool:
    """Whether some operands are known to be others."""
    both = zip(pairs.one.operands[a], pairs.two.operands[b], strict=False)
    return any(pairs.after[x] >= 0 and pairs.before[y] >= 0 and not pairs.same_value(x, y) for x, y in both)
