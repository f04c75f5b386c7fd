"""Layered layout of a directed graph without cycles: the same as `js/layered.js`, in the same order of operations.

Ranks run from top to bottom, with few crossings and straight long lines. Sums are plain loops over floats, so that
the coordinates equal those of the page. `arrange` knows no sizes; `place` gives coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.render.web.columns import Columns, columns_of, horizontal

LONG_EDGE: Final = 8
"""An edge over more ranks is drawn as a stub at each end; a point in each rank would make the layout quadratic."""
RANK_LIMIT: Final = 24
"""More nodes without operands (or without users) in one rank go to further ranks."""
SWEEPS: Final = 10
POINT: Final = 6.0
"""The width that a line takes where it passes a rank."""
LEAST_GAP: Final = 30.0
MOST_GAP: Final = 80.0
BASE_GAP: Final = 24.0
SLOPE: Final = 0.04

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
    x = horizontal(arrangement.columns, sizes, count)
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
