"""Pairs nodes whose operands, users, or both agree as far as the nearest nodes that are already paired.

Each node gets two colors (hashes): one of the values it is computed from, one of the values computed from it. A color
stops at paired nodes, so two passes over the nodes pair whole regions that both modules share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import count
from typing import Final

from hlo_cli.analysis.matching.graph import CONTENT, Key, Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs

_Color = tuple[object, ...]
_Colors = dict[Node, int]
_Groups = dict[int, list[Node]]
_Numbers = Callable[[_Color], int]
"""Gives equal numbers to equal colors of the two computations."""

_MAX_IDENTICAL_CANDIDATES: Final = 64
"""Number of nodes of one color among which a partner is searched."""


def anchor(pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], level: int) -> None:
    """Pairs the unpaired nodes of two computations that have the same colors at one level of detail.

    `ones` and `twos` are in topological order. Nodes that agree in both colors are paired first, then those that agree
    in their operands, then those that agree in their users: the regions between, before, and after the differences.
    """
    ones, twos = [a for a in ones if pairs.after[a] < 0], [b for b in twos if pairs.before[b] < 0]
    if not ones or not twos:
        return
    common = _common_keys(pairs, ones, twos, level)
    if not common:
        return
    numbers: _Numbers = defaultdict[_Color, int](count().__next__).__getitem__
    sides = _Side(pairs, common, is_new=False), _Side(pairs, common, is_new=True)
    up = _operand_colors(sides[0], ones, level, numbers), _operand_colors(sides[1], twos, level, numbers)
    down = _user_colors(sides[0], ones, level, numbers), _user_colors(sides[1], twos, level, numbers)
    both = _combined(sides[0], up[0], down[0], numbers), _combined(sides[1], up[1], down[1], numbers)
    _pair_same_color(pairs, ones, twos, both, is_certain=True)
    _pair_same_color(pairs, ones, twos, up, is_certain=False)
    _pair_same_uses(pairs, ones, twos, down)


def _common_keys(pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], level: int) -> AbstractSet[Key]:
    """Keys that nodes of both computations have."""
    old, new = pairs.one.keys[level], pairs.two.keys[level]
    return {old[a] for a in ones}.intersection([new[b] for b in twos])


class _Side:
    """One of the two graphs, with the partners of its nodes.

    `alone` is the color of all nodes that differ from every node of the other graph: by a key that is not in `common`,
    or by a neighbor of that color.
    """

    __slots__ = ("alone", "common", "graph", "is_new", "other", "pairs")

    def __init__(self, pairs: Pairs, common: AbstractSet[Key], *, is_new: bool) -> None:
        self.pairs = pairs
        self.common = common
        self.alone = -2 - len(pairs.after) - is_new
        self.is_new = is_new
        self.graph, self.other = pairs.sides[is_new]

    def paired_color(self, node: Node) -> int:
        """Color of a paired node: equal for both nodes of the pair, and negative, unlike any key."""
        return -2 - (self.other[node] if self.is_new else node)

    def element(self, node: Node) -> int:
        """Index of a get-tuple-element; if its operand is paired, that in the new tuple."""
        index, operand = self.graph.tuple_index[node], self.pairs.plain[self.is_new].operands[node][:1]
        if self.is_new or not operand or self.other[operand[0]] < 0:
            return index
        new = self.pairs.elements.of(operand[0], self.other[operand[0]]).new_index(index)
        return new if new >= 0 else _gone(index)

    def position(self, user: Node, position: int) -> int:
        """Operand position at a paired user; if that is a tuple, the position in the new one."""
        if self.is_new or (elements := self.pairs.shifted_elements(user, self.other[user])) is None:
            return position
        new = elements.new_index(position)
        return new if new >= 0 else _gone(position)


def _gone(index: int) -> int:
    """Number for an element that is not in the new tuple."""
    return -2 - index


def _operand_colors(side: _Side, nodes: Sequence[Node], level: int, numbers: _Numbers) -> _Colors:
    """Colors that combine the key of a node with the colors of its operands."""
    graph, other, color_of = side.graph, side.other, side.paired_color
    keys, operands, indices, colors = graph.keys[level], graph.operands, graph.tuple_index, _Colors()
    known, common, alone = colors.get, side.common, side.alone
    for node in nodes:
        if keys[node] not in common:
            colors[node] = alone
            continue
        taken = [known(o, NONE) if other[o] < 0 else color_of(o) for o in operands[node]]
        if alone in taken:
            colors[node] = alone
            continue
        index = -1 if indices[node] < 0 else side.element(node)
        colors[node] = numbers((keys[node], index, *taken))
    return colors


def _user_colors(side: _Side, nodes: Sequence[Node], level: int, numbers: _Numbers) -> _Colors:
    """Colors that combine the key of a node with the colors of its users and their operand positions."""
    graph, other, color_of, position_at = side.graph, side.other, side.paired_color, side.position
    keys, users, roots, colors = graph.keys[level], graph.users, graph.roots, _Colors()
    known, common, alone = colors.get, side.common, side.alone
    for node in reversed(nodes):
        if keys[node] not in common or (alone in [known(u) for u, _ in users[node] if other[u] < 0]):
            colors[node] = alone
            continue
        used = [
            (known(u, NONE), position) if other[u] < 0 else (color_of(u), position_at(u, position))
            for u, position in users[node]
        ]
        if len(used) > 1:
            used.sort()
        colors[node] = numbers((keys[node], node in roots, tuple(used)))
    return colors


def _combined(side: _Side, first: _Colors, second: _Colors, numbers: _Numbers) -> _Colors:
    """Colors that agree where both given colors agree."""
    alone = side.alone
    return {
        node: alone if color == alone or second[node] == alone else numbers((color, second[node]))
        for node, color in first.items()
    }


def _group_free(nodes: Sequence[Node], colors: _Colors, other: Sequence[Node]) -> _Groups:
    """Unpaired nodes by color."""
    groups: _Groups = {}
    for node in nodes:
        if other[node] < 0:
            groups.setdefault(colors[node], []).append(node)
    return groups


def _pair_same_color(
    pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], colors: tuple[_Colors, _Colors], *, is_certain: bool
) -> None:
    """Pairs nodes of one color, users before operands, so that identical nodes follow the users that are already
    paired.

    If a color has more nodes in one module, only nodes that paired users determine are paired, unless `is_certain`.
    """
    groups = _group_free(ones, colors[0], pairs.after), _group_free(twos, colors[1], pairs.before)
    same_name = _SameName(pairs, twos)
    for a in reversed(ones):
        color = colors[0][a]
        if pairs.after[a] >= 0 or (group := groups[1].get(color)) is None:
            continue
        b = _from_users(pairs, a, color, colors[1])
        if b < 0 and (is_certain or len(group) == len(groups[0][color])):
            b = _select(pairs, a, group)
        if b >= 0 and (is_certain or not same_name.has_competitor(a, b)):
            pairs.add(a, b)


class _SameName:
    """Unpaired nodes of the second graph by name, to detect a second candidate for a pair."""

    def __init__(self, pairs: Pairs, twos: Sequence[Node]) -> None:
        self._pairs = pairs
        self._twos = [b for b in twos if pairs.before[b] < 0]

    @cached_property
    def _named(self) -> Mapping[str, Node]:
        return {self._pairs.two.nodes[b].name: b for b in self._twos}

    def has_competitor(self, a: Node, b: Node) -> bool:
        """Whether an unpaired node other than `b` has the name and the content of `a`."""
        pairs = self._pairs
        other = self._named.get(pairs.one.nodes[a].name, b)
        same = pairs.one.keys[CONTENT][a] == pairs.two.keys[CONTENT][other]
        return other != b and pairs.before[other] < 0 and same


def _from_users(pairs: Pairs, a: Node, color: int, color_of_two: _Colors) -> Node:
    """Node that a paired user of `a` has at the operand position of `a`, if it is unpaired and of this color; else
    NONE.
    """
    for user, position in pairs.one.users[a]:
        if pairs.after[user] >= 0:
            b = pairs.operand_at(user, position)
            if b >= 0 and pairs.before[b] < 0 and color_of_two.get(b) == color:
                return b
    return NONE


def _select(pairs: Pairs, a: Node, group: list[Node]) -> Node:
    """Partner of `a` among nodes of one color: the node of the same name, or the last one; NONE if all are paired."""
    while group and pairs.before[group[-1]] >= 0:
        group.pop()
    free = [b for b in group[-_MAX_IDENTICAL_CANDIDATES:] if pairs.before[b] < 0] if len(group) > 1 else group
    return max(reversed(free), key=lambda b: pairs.have_same_name(a, b), default=NONE)


def _pair_same_uses(pairs: Pairs, ones: Sequence[Node], twos: Sequence[Node], colors: tuple[_Colors, _Colors]) -> None:
    """Pairs nodes with equal user colors, operands first: the only nodes of a color, or those whose paired operands
    agree.
    """
    groups = _group_free(ones, colors[0], pairs.after), _group_free(twos, colors[1], pairs.before)
    same_name = _SameName(pairs, twos)
    for a in ones:
        candidates = groups[1].get(colors[0][a], []) if pairs.after[a] < 0 else []
        group = [b for b in candidates if pairs.before[b] < 0] if len(candidates) <= _MAX_IDENTICAL_CANDIDATES else []
        if len(group) > 1 or (group and len(groups[0][colors[0][a]]) > 1):
            group = [b for b in group if _operands_agree(pairs, a, b)]
        if len(group) == 1 and not same_name.has_competitor(a, group[0]) and not _operands_conflict(pairs, a, group[0]):
            pairs.add(a, group[0])


def _operands_agree(pairs: Pairs, a: Node, b: Node) -> bool:
    """Whether at least one operand of `a` is paired and every paired one is paired with the operand of `b` at its
    position.
    """
    ones, twos = pairs.one.operands[a], pairs.two.operands[b]
    if len(ones) != len(twos) or (ones and pairs.after[ones[0]] == twos[0] and not pairs.is_same_element(a, b)):
        return False
    known = [pairs.after[x] == y for x, y in zip(ones, twos, strict=True) if pairs.after[x] >= 0]
    return bool(known) and all(known)


def _operands_conflict(pairs: Pairs, a: Node, b: Node) -> bool:
    """Whether two operands at the same position are both paired, but not the same value."""
    both = list(pairs.operand_pairs(a, b))
    if pairs.one.tuple_index[a] >= 0 and both and pairs.after[both[0][0]] == both[0][1]:
        return not pairs.is_same_element(a, b)
    return any(pairs.after[x] >= 0 and pairs.before[y] >= 0 and not pairs.same_value(x, y) for x, y in both)
