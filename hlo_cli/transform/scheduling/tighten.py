"""Tightens an order: allocations move later, frees move earlier.

No counterpart in XLA, whose schedulers decide on each instruction once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.transform.scheduling.graph import Graph
from hlo_cli.transform.scheduling.live_memory import PeakMeasure


def tighten(graph: Graph, measure: PeakMeasure, order: Sequence[int], growth: Sequence[int]) -> list[int]:
    """Order with allocating nodes right before their first users, then freeing nodes right after their dependencies.

    `growth` are the bytes that each node allocates minus those that it frees.

    >>> held, size = ((0,), (1,), (0,), (1,)), {0: 8, 1: 800}
    >>> graph = Graph(((),) * 4, ((), (), (0,), (1,)), ((2,), (3,), (), ()), held, size, frozenset(), (0,) * 4)
    >>> measure = PeakMeasure(graph)
    >>> tighten(graph, measure, (0, 1, 2, 3), measure.peak_of((0, 1, 2, 3))[1])
    [0, 2, 1, 3]
    """
    late = _pull(order, graph.after, growth, sign=1)
    early = _pull(late[::-1], graph.before, measure.peak_of(late)[1], sign=-1)
    return early[::-1]


def _pull(order: Sequence[int], neighbors: Sequence[Sequence[int]], growth: Sequence[int], *, sign: int) -> list[int]:
    """Moves nodes with growth of this sign right before the first of their neighbors, which all follow them."""
    goal = [0] * len(order)
    for place, node in zip(range(len(order) - 1, -1, -1), reversed(order), strict=True):
        is_pulled = growth[node] * sign > 0 and neighbors[node]
        goal[node] = min([goal[other] for other in neighbors[node]]) if is_pulled else place
    return sorted(order, key=goal.__getitem__)
