"""How instructions of two modules are paired by structure: anchors, their neighbors, what forwards values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import Final

from hlo_cli.analysis.matching.graph import (
    CONTENT,
    ESSENTIAL,
    FULL,
    LEVELS,
    Key,
    Keys,
    ModuleGraph,
    Node,
    Unit,
    flattened,
    module_graph_of,
    op_name_in,
)
from hlo_cli.analysis.matching.pairs import (
    NONE,
    Pairs,
    grouped,
    operation_of,
    pair_aliased_results,
    pair_by_arguments,
    pair_by_callees,
    pair_by_number,
    pair_by_origin,
    pair_by_path,
    pair_carriers,
    pair_results,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

# --- anchors ---
# Pairs nodes whose operands, users, or both agree as far as the nearest nodes that are already paired.
#
# Each node gets two colors (hashes): one of the values it is computed from, one of the values computed from it. A color
# stops at paired nodes, so two passes over the nodes pair whole regions that both modules share.


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

    __slots__ = ("alone", "common", "graph", "is_new", "pairs", "partners")

    def __init__(self, pairs: Pairs, common: AbstractSet[Key], *, is_new: bool) -> None:
        self.pairs = pairs
        self.common = common
        self.alone = -2 - len(pairs.after) - is_new
        self.is_new = is_new
        self.graph, self.partners = pairs.sides[is_new]

    def paired_color(self, node: Node) -> int:
        """Color of a paired node: equal for both nodes of the pair, and negative, unlike any key."""
        return -2 - (self.partners[node] if self.is_new else node)

    def element(self, node: Node) -> int:
        """Index of a get-tuple-element; if its operand is paired, that in the new tuple."""
        index, operand = self.graph.tuple_index[node], self.pairs.plain[self.is_new].operands[node][:1]
        if self.is_new or not operand or self.partners[operand[0]] < 0:
            return index
        new = self.pairs.elements.of(operand[0], self.partners[operand[0]]).new_index(index)
        return new if new >= 0 else _gone(index)

    def position(self, user: Node, position: int) -> int:
        """Operand position at a paired user; if that is a tuple, the position in the new one."""
        if self.is_new or (elements := self.pairs.shifted_elements(user, self.partners[user])) is None:
            return position
        new = elements.new_index(position)
        return new if new >= 0 else _gone(position)


def _gone(index: int) -> int:
    """Number for an element that is not in the new tuple."""
    return -2 - index


def _operand_colors(side: _Side, nodes: Sequence[Node], level: int, numbers: _Numbers) -> _Colors:
    """Colors that combine the key of a node with the colors of its operands."""
    graph, partners, color_of = side.graph, side.partners, side.paired_color
    keys, operands, indices, colors = graph.keys[level], graph.operands, graph.tuple_index, _Colors()
    known_color, common, alone = colors.get, side.common, side.alone
    for node in nodes:
        if keys[node] not in common:
            colors[node] = alone
            continue
        taken = [known_color(o, NONE) if partners[o] < 0 else color_of(o) for o in operands[node]]
        if alone in taken:
            colors[node] = alone
            continue
        index = -1 if indices[node] < 0 else side.element(node)
        colors[node] = numbers((keys[node], index, *taken))
    return colors


def _user_colors(side: _Side, nodes: Sequence[Node], level: int, numbers: _Numbers) -> _Colors:
    """Colors that combine the key of a node with the colors of its users and their operand positions."""
    graph, partners, color_of, position_at = side.graph, side.partners, side.paired_color, side.position
    keys, users, roots, colors = graph.keys[level], graph.users, graph.roots, _Colors()
    known_color, common, alone = colors.get, side.common, side.alone
    for node in reversed(nodes):
        if keys[node] not in common or (alone in [known_color(u) for u, _ in users[node] if partners[u] < 0]):
            colors[node] = alone
            continue
        used = [
            (known_color(u, NONE), position) if partners[u] < 0 else (color_of(u), position_at(u, position))
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


def _group_free(nodes: Sequence[Node], colors: _Colors, partners: Sequence[Node]) -> _Groups:
    """Unpaired nodes by color."""
    groups: _Groups = {}
    for node in nodes:
        if partners[node] < 0:
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


# --- pairs to their neighbors ---
# Propagates pairs to their neighbors, most similar first.
#
# Nodes at the same position next to a pair are candidates. A priority queue orders them by similarity of content and
# the number of paired neighbors; each new pair adds its own neighbors.


_MAX_USERS: Final = 32
"""Maximum number of users compared per node: values used everywhere are weak evidence."""
# All combinations of up to 8 by 8 users, a cost that does not show; then only those of equal keys. Chosen, not
# measured.
_MAX_COMBINATIONS: Final = 64
_MAX_EAGER_OPERANDS: Final = 64
"""Maximum number of operands for which a candidate is scored again whenever one more of them is paired."""
# Half of what full agreement of the operands or the users adds: as much as one level of content.
_SAME_OP_NAME: Final = 1.0
# Less than any other term: a name decides only between candidates that are equal in all else.
_SAME_NAME: Final = 0.01
_DATA_MOVEMENT: Final = frozenset(
    (opcodes.BITCAST, opcodes.BROADCAST, opcodes.COPY, opcodes.RESHAPE, opcodes.TRANSPOSE)
)
"""Opcodes that only move data; they are not paired with opcodes that compute."""
_ALL_AGREE: Final = 4
"""Score of nodes that agree in all operands and users, but not in content."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """Similarity of two nodes: score of the content, number of common operands, common users, and differing
    neighbors.
    """

    content: int
    operands: int
    users: int
    differing: int
    score: float


class MatchPropagation:
    """Priority queue of candidate pairs for given nodes of the first graph."""

    __slots__ = ("_any_opcode", "_deferred", "_nodes", "_pairs", "_queue", "_seen")

    def __init__(self, pairs: Pairs, nodes: Iterable[Node]) -> None:
        self._pairs = pairs
        self._queue: list[tuple[float, Node, Node]] = []
        self._deferred: dict[tuple[Node, Node], int] = {}
        self._nodes = [a for a in nodes if pairs.after[a] < 0]
        self._any_opcode = False

    def propagate(self) -> None:
        """Pairs candidates that are similar enough, starting at the neighbors of unpaired nodes."""
        pairs = self._pairs
        self._seen = len(pairs.found)
        self._nodes = [a for a in self._nodes if pairs.after[a] < 0]
        neighbors = {
            x: None for a in self._nodes for x in (*pairs.one.operands[a], *(u for u, _ in pairs.one.users[a]))
        }
        for x in neighbors:
            if pairs.after[x] >= 0:
                self._add_neighbors(x, pairs.after[x])
        while True:
            while self._seen < len(pairs.found):
                self._add_neighbors(*pairs.found[self._seen])
                self._seen += 1
            if not self._queue and not self._requeue_deferred():
                return
            negative, a, b = heappop(self._queue)
            if not pairs.are_free(a, b):
                continue
            similarity = self.similarity(a, b)
            if -similarity.score > negative + 1e-9:
                heappush(self._queue, (-similarity.score, a, b))
            elif _is_likely(similarity):
                pairs.add(a, b)

    def propagate_to_other_opcodes(self) -> None:
        """Propagates again and also pairs nodes whose opcode changed at the same position."""
        self._any_opcode = True
        self.propagate()

    def add_candidate(self, a: Node, b: Node) -> None:
        """Adds a candidate pair to the queue, if both nodes are unpaired and compatible."""
        if self._pairs.are_free(a, b) and self._can_pair(a, b) and self._is_due(a, b):
            self._push(a, b)

    def _push(self, a: Node, b: Node) -> None:
        heappush(self._queue, (-self.similarity(a, b).score, a, b))

    def _is_due(self, a: Node, b: Node) -> bool:
        """Whether to score a candidate now: each of thousands of operands adds the same pair of users again."""
        width = len(self._pairs.one.operands[a])
        if width <= _MAX_EAGER_OPERANDS:
            return True
        deferrals = self._deferred.get((a, b), width) + 1
        is_due = deferrals * _MAX_EAGER_OPERANDS > width
        self._deferred[a, b] = 0 if is_due else deferrals
        return is_due

    def _requeue_deferred(self) -> bool:
        """Adds the deferred candidates to the queue; whether there are any."""
        waiting = [(a, b) for (a, b), deferrals in self._deferred.items() if deferrals and self._pairs.are_free(a, b)]
        for a, b in waiting:
            self._deferred[a, b] = 0
            self._push(a, b)
        return bool(waiting)

    def similarity(self, a: Node, b: Node) -> Similarity:
        """Similarity of two unpaired nodes under the current pairs."""
        pairs = self._pairs
        ones, twos = pairs.one.operands[a], pairs.two.operands[b]
        agreeing, differing = self._operands_in_common(a, b)
        taken = agreeing / max(len(ones), len(twos)) if ones or twos else 1.0
        used, not_used = self._users_in_common(a, b)
        users = used / max(len(pairs.one.users[a]), len(pairs.two.users[b]), 1)
        if a in pairs.one.roots and b in pairs.two.roots:
            used, users = used + 1, 1.0
        content = self._content_score(a, b)
        score = content + 2 * taken + 2 * min(users, 1.0) - 2 * (differing > 0) - 1 * (not_used > 0)
        if pairs.one.nodes[a].called_computations:
            score += 2 * pairs.call_similarity(a, b)
        score += _SAME_OP_NAME * (content > LEVELS or self._have_same_op_name(a, b))
        score += _SAME_NAME * pairs.have_same_name(a, b)
        return Similarity(content, agreeing, used, differing + not_used, score)

    def _operands_in_common(self, a: Node, b: Node) -> tuple[int, int]:
        """Number of operands of equal value at one position, and of those that are paired with others.

        Positions do not count in tuples, whose elements shift; a tuple element differs if it is another one.
        """
        pairs = self._pairs
        ones, twos = pairs.one.operands[a], pairs.two.operands[b]
        if pairs.one.nodes[a].opcode == pairs.two.nodes[b].opcode == opcodes.TUPLE and len(ones) != len(twos):
            there = set(twos)
            paired = [x for x in ones if pairs.after[x] >= 0]
            agreeing = sum(pairs.after[x] in there for x in paired)
            return agreeing, len(paired) - agreeing
        agreeing = differing = 0
        for x, y in zip(ones, twos, strict=False):
            if pairs.same_value(x, y):
                agreeing += 1
            elif pairs.after[x] >= 0 and pairs.before[y] >= 0:
                differing += 1
        return (0, 1) if agreeing and not pairs.is_same_element(a, b) else (agreeing, differing)

    def _content_score(self, a: Node, b: Node) -> int:
        """Score of equal content: 5 to 2 for the most detailed level at which the keys agree, 1 for the opcode, else
        0.
        """
        one, two = self._pairs.one, self._pairs.two
        for level in range(LEVELS):
            if one.keys[level][a] == two.keys[level][b]:
                return LEVELS + 1 - level
        return int(one.nodes[a].opcode == two.nodes[b].opcode)

    def _can_pair(self, a: Node, b: Node) -> bool:
        """Whether two nodes have one opcode or, if enabled, arrays of the same dimensions."""
        one, two = self._pairs.one.nodes[a], self._pairs.two.nodes[b]
        if one.opcode == two.opcode:
            return True
        if (
            one.called_computations
            or two.called_computations
            or (one.opcode in _DATA_MOVEMENT) != (two.opcode in _DATA_MOVEMENT)
        ):
            return False
        if not self._any_opcode or not (isinstance(one.shape, ArrayShape) and isinstance(two.shape, ArrayShape)):
            return False
        return one.shape.to_string(layout=False) == two.shape.to_string(layout=False)

    def _have_same_op_name(self, a: Node, b: Node) -> bool:
        one, two = self._pairs.one.metadata[a], self._pairs.two.metadata[b]
        return bool(one) and bool(two) and op_name_in(one) == op_name_in(two)

    def _users_in_common(self, a: Node, b: Node) -> tuple[int, int]:
        """Number of paired users that have both nodes at one position, and of those that have only one of them."""
        pairs = self._pairs
        common = different = 0
        for user, position in pairs.one.users[a][:_MAX_USERS]:
            if pairs.after[user] < 0:
                continue
            operand = pairs.operand_at(user, position)
            common += operand == b
            different += operand not in (b, NONE) and pairs.before[operand] >= 0
        return common, different

    def _add_neighbors(self, a: Node, b: Node) -> None:
        for x, y in self._pairs.operand_pairs(a, b):
            self.add_candidate(x, y)
        for x, y in self._free_users(a, b):
            self.add_candidate(x, y)

    def _free_users(self, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
        """Yields candidate pairs of unpaired users: all combinations if few, else those with equal keys."""
        pairs = self._pairs
        ones = {u for u, _ in pairs.one.users[a] if pairs.after[u] < 0}
        twos = {u for u, _ in pairs.two.users[b] if pairs.before[u] < 0}
        if len(ones) * len(twos) <= _MAX_COMBINATIONS:
            yield from ((x, y) for x in sorted(ones) for y in sorted(twos))
            return
        for level in range(LEVELS):
            groups: dict[int, list[Node]] = {}
            for y in sorted(twos):
                groups.setdefault(pairs.two.keys[level][y], []).append(y)
            for x in sorted(ones):
                group = groups.get(pairs.one.keys[level][x], ())
                if len(group) <= _MAX_USERS:
                    yield from ((x, y) for y in group)


def _is_likely(similarity: Similarity) -> bool:
    """Whether a candidate becomes a pair: the less its content agrees, the more neighbors must."""
    agreeing = similarity.operands + similarity.users
    if similarity.content > LEVELS - CONTENT:
        return agreeing > 0 and agreeing >= similarity.differing
    if similarity.content > 0:
        return agreeing > similarity.differing
    return similarity.operands > 0 and similarity.users > 0 and similarity.score >= _ALL_AGREE


# --- what only forwards values ---
# Pairs instructions that only forward values: fusions, calls, parameters of their computations, and tuple elements.
#
# Fusions are paired by the pairs in their fused computations.


def _pair_wrappers(pairs: Pairs, computations: Mapping[Computation, Computation]) -> dict[Computation, Computation]:
    """Pairs forwarding instructions and inlined computations; returns all pairs of computations."""
    wrappers = _Wrappers(pairs, dict(computations), set(computations.values()))
    wrappers.pair_bodies()
    wrappers.pair_operands()
    wrappers.pair_by_index()
    return wrappers.paired


@dataclass(frozen=True, slots=True)
class _Wrappers:
    """Pairs of computations found so far, and the paired computations of the second module."""

    pairs: Pairs
    paired: dict[Computation, Computation]
    taken: set[Computation]

    def pair_bodies(self) -> None:
        """Pairs inlined computations with the same result, or half of the smaller one paired; those with most pairs
        first.
        """
        one, two = self.pairs.one, self.pairs.two
        votes: Counter[tuple[Computation, Computation]] = Counter()
        for a, b in self.pairs.found:
            x, y = one.nodes[a].computation, two.nodes[b].computation
            if x in one.bodies and y in two.bodies:
                votes[x, y] += 1
        for (x, y), voted in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0][0].name != vote[0][1].name)):
            if 2 * voted >= min(_instruction_count(one, x), _instruction_count(two, y)) or self._have_same_result(x, y):
                self._pair_body(x, y)

    def pair_operands(self) -> None:
        """Pairs forwarding instructions at the same operand position of a pair, transitively."""
        pairs, at = self.pairs, 0
        while at < len(pairs.found):
            a, b = pairs.found[at]
            at += 1
            one, two = pairs.one.nodes[a], pairs.two.nodes[b]
            if self.paired.get(one.computation) is not two.computation:
                continue
            for x, y in zip(one.operands, two.operands, strict=False):
                self._pair(x, y)
            for c, d in zip(one.called_computations, two.called_computations, strict=False):
                if self.paired.get(c) is d and c.root is not None and d.root is not None:
                    self._pair(c.root, d.root)

    def pair_by_index(self) -> None:
        """Pairs parameters by number and tuple elements by index where no user determines their pair."""
        pairs = self.pairs
        for x, y in self.paired.items():
            if x in pairs.one.bodies and y in pairs.two.bodies:
                for one, two in zip(x.parameters, y.parameters, strict=False):
                    self._pair(one, two)
        elements = {
            (pairs.two.node(two.operands[0]), two.attribute("index")): two
            for b, two in enumerate(pairs.two.nodes)
            if two.opcode == opcodes.GET_TUPLE_ELEMENT and pairs.before[b] < 0 and pairs.two.value[b] != b
        }
        for a, one in enumerate(pairs.one.nodes) if elements else ():
            if one.opcode == opcodes.GET_TUPLE_ELEMENT and pairs.after[a] < 0 and pairs.one.value[a] != a:
                operand = pairs.after[pairs.one.node(one.operands[0])]
                if (element := elements.get((operand, one.attribute("index")))) is not None:
                    self._pair(one, element)

    def _pair(self, x: Instruction, y: Instruction) -> None:
        """Pairs two forwarding instructions and their computations."""
        pairs = self.pairs
        if x.opcode != y.opcode:
            return
        a, b = pairs.one.node(x), pairs.two.node(y)
        if pairs.are_free(a, b) and pairs.one.value[a] != a and pairs.two.value[b] != b:
            pairs.add(a, b)
            for c, d in zip(x.called_computations, y.called_computations, strict=False):
                if c in pairs.one.bodies and d in pairs.two.bodies:
                    self._pair_body(c, d)

    def _pair_body(self, x: Computation, y: Computation) -> None:
        one, two = self.pairs.one.bodies[x], self.pairs.two.bodies[y]
        if x not in self.paired and y not in self.taken and one.opcode == two.opcode:
            self.paired[x] = y
            self.taken.add(y)
            self._pair(one, two)

    def _have_same_result(self, x: Computation, y: Computation) -> bool:
        assert x.root is not None
        assert y.root is not None
        one, two = self.pairs.one, self.pairs.two
        return self.pairs.after[one.value[one.node(x.root)]] == two.value[two.node(y.root)]


def _instruction_count(graph: ModuleGraph, computation: Computation) -> int:
    """Number of instructions that do not only forward a value."""
    first = graph.first_nodes[computation]
    return sum(graph.value[first + i.index] == first + i.index for i in computation.instructions)


# --- the matching ---
# Pairs the instructions of two modules by structure; names decide only between equal candidates.
#
# Follows Falleri et al., "Fine-grained and accurate source code differencing" (2014), and xla/hlo/tools/hlo_diff, on
# graphs in place of trees: certain pairs first, then their neighbors. What is then unpaired is matched across fusions.


# bounds a quadratic number of comparisons; chosen, not measured
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
    one = module_graph_of(before, numbers, same_frames=same_frames)
    two = module_graph_of(after, numbers, same_frames=same_frames, earlier=one)
    pairs = Pairs(one, two)
    units = _ComputationPairs(pairs)
    # A text without an entry is a fragment, and its first computation corresponds to nothing in particular.
    if before.has_entry == after.has_entry:
        units.pair(before.entry, after.entry)
    units.pair_not_inlined()
    left, fused = _unpaired_opcodes(pairs)
    # Flattening costs a copy of both graphs: only if fused instructions are left.
    if fused:
        _pair_across_fusions(pairs, units.computations)
        units.pair_wrappers()
    if left:
        units.pair_moved()
    # Last, as a pair of two opcodes is the weakest evidence.
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
    # Origins come after the neighbors: op_name repeats in every layer.
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
            # In reverse, so that callees are paired in the order of the text when popped.
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
        # Computations without callers first: their pairs determine those of their callees.
        for is_called in (False, True):
            for key_of in (_content, _name_and_parameters):
                ones, twos = (
                    grouped((graph.unit_of[c] for c in left if (c in called) is is_called and c not in paired), key_of)
                    for graph, left, paired in zip((one, two), unpaired, (self.computations, self._taken), strict=True)
                )
                self._pair_groups(ones, twos)

    def pair_wrappers(self) -> None:
        """Pairs fusions and calls by the pairs in their computations."""
        self.computations = _pair_wrappers(self._pairs, self.computations)
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
            # Two computations that are called belong to their callers, which are not paired.
            if (x not in called or y not in called)
            and (similarity := pairs.computation_similarity(x, y)) >= _MIN_SIMILARITY
        ]
        return [(x, y) for _, x, y in sorted(similarities, key=lambda found: -found[0])]

    def _unpaired(self, graph: ModuleGraph) -> Iterator[Computation]:
        paired: Container[Computation] = self.computations if graph is self._pairs.plain[0] else self._taken
        return (computation for computation in graph.module.computations if computation not in paired)

    def _pair_groups(self, ones: Mapping[object, list[Unit]], twos: Mapping[object, list[Unit]]) -> None:
        """Pairs units of one key: those of the same name first, then the others in their order."""
        for key, group in ones.items():
            others = {unit.computation.name: unit for unit in twos.get(key, ())}
            named = sorted(group, key=lambda unit: unit.computation.name not in others)
            # Of several equal computations those of one name correspond, then the order decides.
            for x in named[: len(others)]:
                name = x.computation.name
                y = others.pop(name if name in others else next(iter(others)))
                self.pair(x.computation, y.computation)


def _is_free(computation: Computation, graph: ModuleGraph, partners: Sequence[Node]) -> bool:
    first = graph.first_nodes[computation]
    return all(partners[first + index] < 0 for index in range(len(computation.instructions)))


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
    # Of equal content everything is paired by anchors; carriers would be paired twice.
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
    # Every node of the smaller computation has a partner: nothing is left to propagate.
    if len(pairs.found) - first == min(len(one.nodes), len(two.nodes)):
        return
    propagation = MatchPropagation(pairs, one.nodes)
    root, other = one.computation.root, two.computation.root
    if root is not None and other is not None:
        propagation.add_candidate(pairs.one.node(root), pairs.two.node(other))
    # Twice, as an origin may determine neighbors that nothing else did.
    propagation.propagate()
    pair_by_origin(pairs, one.nodes, two.nodes)
    propagation.propagate()


def _are_copies(pairs: Pairs, one: Unit, two: Unit) -> bool:
    """Whether two computations without pairs are equal line by line, apart from names."""
    count = len(one.nodes)
    if one.content != two.content or count != len(two.nodes) or not count:
        return False
    a, b = one.nodes[0], two.nodes[0]
    # Pairs that exist already contradict a pairing line by line.
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
