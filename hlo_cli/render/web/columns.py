"""Places of nodes in ordered layers from left to right, with the same order of operations as `js/horizontal.js`.

After Brandes and Koepf, "Fast and simple horizontal coordinate assignment" (2001): four times every node is aligned
with the middle one of its neighbors (above or below, from the left or from the right), and the columns so made are
pushed together; the answer is the mean of the two middle ones. Linear, and long lines are straight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from hlo_cli.dataclass import dataclass

NODE_GAP: Final = 16.0
POINT_GAP: Final = 8.0

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


def horizontal(columns: Sequence[Columns], widths: Sequence[float], count: int) -> list[float]:
    """The centers of all nodes.

    >>> horizontal(columns_of([[0, 1]], [[], []], [[], []], 2), [10.0, 10.0], 2)
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
