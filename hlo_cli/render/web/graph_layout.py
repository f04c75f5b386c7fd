"""Where does each node of a graph stand: in which rank, and at which place in it? The same as in the scripts.

`js/layered.js` and `js/horizontal.js` have the same order of operations, so that coordinates equal those of the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from hlo_cli.dataclass import dataclass

# --- places within ranks ---
# Places of nodes in ordered layers from left to right, with the same order of operations as `js/horizontal.js`.
#
# After Brandes and Koepf, "Fast and simple horizontal coordinate assignment" (2001): four times every node is aligned
# with the middle one of its neighbors (above or below, from the left or from the right), and the columns so made are
# pushed together; the answer is the mean of the two middle ones. Linear, and long lines are straight.


NODE_GAP: Final = 16.0  # px between boxes
POINT_GAP: Final = 8.0  # px between lines, which may be closer than boxes

Rows = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Columns:
    """One of the four: the first node of each node's column, the columns in order, and neighbors in rows.

    `pairs[c]` are the nodes of column c that have a neighbor to the right in their row, each with this neighbor.
    """

    roots: Sequence[int]
    order: Sequence[int]
    pairs: Sequence[Sequence[tuple[int, int]]]
    is_mirrored: bool


def columns_of(layers: Rows, up: Rows, down: Rows, count: int) -> tuple[Columns, ...]:
    """What does not depend on sizes; nodes from `count` on are points of lines.

    >>> [columns.roots for columns in columns_of([[0], [1]], [[], [0]], [[1], []], 2)]
    [[0, 0], [0, 0], [1, 1], [1, 1]]
    """
    conflicts = _conflicts(layers, up, count)
    found: list[Columns] = []
    for is_upward in (False, True):
        for is_mirrored in (False, True):
            rows = layers[::-1] if is_upward else layers
            if is_mirrored:
                rows = [row[::-1] for row in rows]
            roots = _aligned(rows, down if is_upward else up, conflicts, is_upward=is_upward)
            found.append(Columns(roots, *_ordered(rows, roots), is_mirrored))
    return tuple(found)


def _horizontal(columns: Sequence[Columns], widths: Sequence[float], count: int) -> list[float]:
    """The centers of all nodes.

    >>> _horizontal(columns_of([[0, 1]], [[], []], [[], []], 2), [10.0, 10.0], 2)
    [0.0, 26.0]
    """
    candidates = []
    for each in columns:
        x = _pushed_together(each, widths, count)
        candidates.append([-value for value in x] if each.is_mirrored else x)
    return _balanced(candidates, widths)


def _conflicts(layers: Rows, up: Rows, count: int) -> set[int]:
    """Lines that cross a straight piece (between two points) and must give way to it, as `from * nodes + to`."""
    conflicts: set[int] = set()
    places = _places(layers, len(up))
    for above, layer in pairwise(layers):
        left = scanned = 0
        for at, node in enumerate(layer):
            inner = up[node][0] if node >= count and up[node][0] >= count else -1
            if inner < 0 and at < len(layer) - 1:
                continue
            right = len(above) if inner < 0 else places[inner]
            for end in layer[scanned : at + 1]:
                for start in up[end]:
                    is_straight = start >= count and end >= count
                    if not is_straight and (places[start] < left or right < places[start]):
                        conflicts.add(start * len(up) + end)
            scanned = at + 1
            left = right
    return conflicts


def _places(rows: Rows, size: int) -> list[int]:
    places = [0] * size
    for row in rows:
        for at, node in enumerate(row):
            places[node] = at
    return places


def _aligned(rows: Rows, near: Rows, conflicts: set[int], *, is_upward: bool) -> list[int]:
    """The first node of the column of each node."""
    size = len(near)
    places = _places(rows, size)
    roots = list(range(size))
    is_taken = [False] * size
    for row in rows:
        last = -1
        for node in row:
            others = near[node]
            if not others:
                continue
            ranked = sorted(others, key=places.__getitem__)
            for other in (ranked[(len(ranked) - 1) >> 1], ranked[len(ranked) >> 1]):
                key = node * size + other if is_upward else other * size + node
                if roots[node] != node or is_taken[other] or last >= places[other] or key in conflicts:
                    continue
                roots[node] = roots[other]
                is_taken[other] = True
                last = places[other]
    return roots


def _ordered(rows: Rows, roots: Sequence[int]) -> tuple[list[int], list[list[tuple[int, int]]]]:
    """The columns, each after those to its left, and the pairs of neighbors in rows by the column of the left one."""
    pairs: list[list[tuple[int, int]]] = [[] for _ in roots]
    pending = [0] * len(roots)
    for row in rows:
        for left, right in pairwise(row):
            pairs[roots[left]].append((left, right))
            pending[roots[right]] += 1
    order = [node for node, root in enumerate(roots) if root == node and not pending[node]]
    for root in order:  # grows on the way
        for _, right in pairs[root]:
            pending[roots[right]] -= 1
            if not pending[roots[right]]:
                order.append(roots[right])
    return order, pairs


def _pushed_together(columns: Columns, widths: Sequence[float], count: int) -> list[float]:
    """As far to the left as columns allow, then back to the right where there is room."""
    roots, order, pairs = columns.roots, columns.order, columns.pairs
    x = [0.0] * len(roots)

    def distance(left: int, right: int) -> float:
        return (widths[left] + widths[right]) / 2 + (POINT_GAP if left >= count and right >= count else NODE_GAP)

    for root in order:
        for left, right in pairs[root]:
            other = roots[right]
            x[other] = max(x[other], x[root] + distance(left, right))
    for root in reversed(order):
        room = math.inf
        for left, right in pairs[root]:
            room = min(room, x[roots[right]] - distance(left, right))
        if room < math.inf:
            x[root] = max(x[root], room)
    return [x[root] for root in roots]


def _balanced(candidates: Sequence[Sequence[float]], widths: Sequence[float]) -> list[float]:
    """The four at one place, left or right edges on those of the narrowest; then the mean of the two in the middle."""
    spans = [
        (
            min((value - width / 2 for value, width in zip(x, widths, strict=True)), default=math.inf),
            max((value + width / 2 for value, width in zip(x, widths, strict=True)), default=-math.inf),
        )
        for x in candidates
    ]
    narrowest = spans[0]
    for span in spans:
        if span[1] - span[0] < narrowest[1] - narrowest[0]:
            narrowest = span
    shifts = [narrowest[1] - span[1] if at % 2 else narrowest[0] - span[0] for at, span in enumerate(spans)]
    found = []
    for values in zip(*candidates, strict=True):
        ranked = sorted(value + shift for value, shift in zip(values, shifts, strict=True))
        found.append((ranked[1] + ranked[2]) / 2)
    return found


# --- ranks ---
# Layered layout of a directed graph without cycles: the same as `js/layered.js`, in the same order of operations.
#
# Ranks run from top to bottom, with few crossings and straight long lines. Sums are plain loops over floats, so that
# the coordinates equal those of the page. `arrange` knows no sizes; `place` gives coordinates.


LONG_EDGE: Final = 8
"""An edge over more ranks is drawn as a stub at each end; a point in each rank would make the layout quadratic."""
RANK_LIMIT: Final = 24
"""More nodes without operands (or without users) in one rank go to further ranks: 24 boxes are some screens wide."""
SWEEPS: Final = 10  # as in js/layered.js; crossings hardly fall after the first few
POINT: Final = 6.0
"""The width that a line takes where it passes a rank: the widest line of an edge and some room."""
LEAST_GAP: Final = 30.0  # px between ranks: an edge and its arrow
MOST_GAP: Final = 80.0  # px: however far an edge goes, the graph must not fall apart
BASE_GAP: Final = 24.0  # px, to which the slope adds
SLOPE: Final = 0.04  # of the farthest edge: flat edges over a small gap would cross the boxes

Bend = tuple[float, float, float]
"""A point of an edge: its x, and the top and bottom of the rank that it passes."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order of nodes in ranks: nodes from `count` on are points of edges; `paths[e]` are those of edge e."""

    count: int
    ranks: Sequence[int]
    layers: Sequence[Sequence[int]]
    up: Sequence[Sequence[int]]
    columns: tuple[Columns, ...]
    paths: Sequence[Sequence[int]]
    is_long: Sequence[bool]


@dataclass(frozen=True, slots=True)
class Placement:
    """The centers of nodes, and the bends of each edge."""

    x: Sequence[float]
    y: Sequence[float]
    bends: Sequence[Sequence[Bend]]
    width: float
    height: float


def arrange(count: int, edges: Sequence[tuple[int, int]], *, longest: int = LONG_EDGE) -> Arrangement:
    """Arranges nodes; edges lead from a smaller to a larger node, each pair once; those over more ranks are long.

    >>> arrange(3, [(0, 1), (1, 2), (0, 2)]).ranks
    [0, 1, 2, 1]
    """
    ranks = _ranks(count, edges)
    up: list[list[int]] = [[] for _ in range(count)]
    down: list[list[int]] = [[] for _ in range(count)]
    paths: list[list[int]] = [[] for _ in edges]
    is_long = [ranks[target] - ranks[source] > longest for source, target in edges]
    for (source, target), path, is_cut in zip(edges, paths, is_long, strict=True):
        if not is_cut:
            _add_path(source, target, ranks, up, down, path)
    layers = _swept(_first_layers(ranks, up, down), up, down)
    return Arrangement(count, ranks, layers, up, columns_of(layers, up, down, count), paths, is_long)


def _add_path(
    source: int, target: int, ranks: list[int], up: list[list[int]], down: list[list[int]], path: list[int]
) -> None:
    last = source
    for rank in range(ranks[source] + 1, ranks[target]):
        point = len(ranks)
        ranks.append(rank)
        up.append([last])
        down.append([])
        down[last].append(point)
        path.append(point)
        last = point
    down[last].append(target)
    up[target].append(last)


def _ranks(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """As early as operands allow; then, users first, as late as users allow for nodes with no fewer users."""
    operands: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        operands[target].append(source)
        users[source].append(target)
    ranks = [0] * count
    for node in range(count):
        for operand in operands[node]:
            ranks[node] = max(ranks[node], ranks[operand] + 1)
    for node in reversed(range(count)):
        if users[node] and len(users[node]) >= len(operands[node]):
            ranks[node] = min(ranks[user] for user in users[node]) - 1
    _spread(ranks, lambda node: not operands[node] and bool(users[node]), -1)
    _spread(ranks, lambda node: bool(operands[node]) and not users[node], 1)
    places = {rank: at for at, rank in enumerate(sorted(set(ranks)))}
    return [places[rank] for rank in ranks]


def _spread(ranks: list[int], may_move: Callable[[int], bool], direction: int) -> None:
    """Moves what is too much in a rank, of the nodes that may move, to the next one in a direction."""
    lists: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for node, rank in enumerate(ranks):
        sizes[rank] = sizes.get(rank, 0) + 1
        lists.setdefault(rank, [])
        if may_move(node):
            lists[rank].append(node)
    if not sizes:
        return
    order = sorted(sizes, key=lambda rank: direction * rank)
    rank = order[0]
    while True:
        movable = lists.get(rank, [])
        staying = max(0, min(len(movable), RANK_LIMIT - (sizes.get(rank, 0) - len(movable))))
        moved = movable[staying:]
        for node in moved:
            ranks[node] = rank + direction
        if moved:
            lists[rank + direction] = [*moved, *lists.get(rank + direction, [])]
            sizes[rank + direction] = sizes.get(rank + direction, 0) + len(moved)
        elif direction * (order[-1] - rank) <= 0:
            return
        rank += direction


def _first_layers(ranks: Sequence[int], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> list[list[int]]:
    """Depth first, so that what belongs together is side by side to begin with."""
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    seen = [False] * len(ranks)
    for start in range(len(ranks)):
        stack = [start]
        while stack:
            node = stack.pop()
            if seen[node]:
                continue
            seen[node] = True
            layers[ranks[node]].append(node)
            stack += [user for user in down[node] if not seen[user]]
            stack += [operand for operand in up[node] if not seen[operand]]
    return layers


def _swept(
    layers: list[list[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> Sequence[Sequence[int]]:
    """Sorts layers by the mean place of neighbors above, then below, in turn; keeps the order with fewest crossings."""
    places = [0] * len(up)

    def number(layer: Sequence[int]) -> None:
        for at, node in enumerate(layer):
            places[node] = at

    def key(near: Sequence[Sequence[int]], node: int) -> float:
        others = near[node]
        return sum(places[other] for other in others) / len(others) if others else places[node]

    for layer in layers:
        number(layer)
    best = [layer[:] for layer in layers]
    fewest = _crossings(layers, up, places)
    for turn in range(SWEEPS):
        if not fewest:
            break
        near = down if turn % 2 else up
        for at in range(len(layers)):
            layer = layers[len(layers) - 1 - at if turn % 2 else at]
            layer.sort(key=lambda node: key(near, node))
            number(layer)
        found = _crossings(layers, up, places)
        if found < fewest:
            fewest = found
            best = [layer[:] for layer in layers]
    return best


def _crossings(layers: Sequence[Sequence[int]], up: Sequence[Sequence[int]], places: Sequence[int]) -> int:
    """Crossings of lines between neighboring layers, as inversions counted in a Fenwick tree."""
    total = 0
    for above, layer in pairwise(layers):
        size = len(above)
        tree = [0] * (size + 1)
        count = 0
        for node in layer:
            ends = [places[other] for other in up[node]]
            for end in ends:
                below, at = 0, end + 1
                while at > 0:
                    below += tree[at]
                    at -= at & -at
                total += count - below
            for end in ends:
                at = end + 1
                while at <= size:
                    tree[at] += 1
                    at += at & -at
            count += len(ends)
    return total


def place(arrangement: Arrangement, widths: Sequence[float], heights: Sequence[float]) -> Placement:
    """Coordinates of an arrangement for nodes of given sizes.

    >>> placed = place(arrange(2, [(0, 1)]), [40.0, 20.0], [10.0, 10.0])
    >>> placed.x, placed.y, placed.width, placed.height
    ([20.0, 20.0], [5.0, 45.0], 40.0, 50.0)
    """
    count, ranks = arrangement.count, arrangement.ranks
    sizes = [widths[node] if node < count else POINT for node in range(len(ranks))]
    x = _horizontal(arrangement.columns, sizes, count)
    tops = _tops(arrangement, x, heights)
    left, right = math.inf, -math.inf
    for at, size in zip(x, sizes, strict=True):
        left, right = min(left, at - size / 2), max(right, at + size / 2)
    if not sizes:
        left = right = 0.0
    return Placement(
        [at - left for at in x[:count]],
        [tops[ranks[node]][0] + heights[node] / 2 for node in range(count)],
        [[(x[point] - left, *tops[ranks[point]]) for point in path] for path in arrangement.paths],
        right - left,
        tops[-1][1] if tops else 0.0,
    )


def _tops(arrangement: Arrangement, x: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    """Top and bottom of each rank."""
    tops: list[tuple[float, float]] = []
    y = 0.0
    for rank, layer in enumerate(arrangement.layers):
        farthest = height = 0.0
        for node in layer:
            if node < arrangement.count:
                height = max(height, heights[node])
            for other in arrangement.up[node]:
                farthest = max(farthest, abs(x[other] - x[node]))
        if rank:
            y += min(MOST_GAP, max(LEAST_GAP, BASE_GAP + SLOPE * farthest))
        tops.append((y, y + height))
        y += height
    return tops
