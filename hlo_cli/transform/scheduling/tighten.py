"""An order made tighter: what needs memory waits until it is needed, what frees memory comes as soon as it can.

Nothing of XLA's does this; its schedulers decide on each instruction once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.transform.scheduling.graph import Graph
from hlo_cli.transform.scheduling.live_memory import PeakMeasure


def tightened(graph: Graph, measure: PeakMeasure, order: Sequence[int], grown: Sequence[int]) -> list[int]:
    """The order with nodes that take more than they free just before their first users, and others behind their needs.

    `grown` are the bytes that each node takes in this order less those that it frees.

    >>> held, size = ((0,), (1,), (0,), (1,)), {0: 8, 1: 800}
    >>> graph = Graph(((),) * 4, ((), (), (0,), (1,)), ((2,), (3,), (), ()), held, size, frozenset(), (0,) * 4)
    >>> measure = PeakMeasure(graph)
    >>> tightened(graph, measure, (0, 1, 2, 3), measure.of((0, 1, 2, 3))[1])
    [0, 2, 1, 3]
    """
    late = _pulled(order, graph.after, grown, sign=1)
    early = _pulled(late[::-1], graph.before, measure.of(late)[1], sign=-1)
    return early[::-1]


def _pulled(order: Sequence[int], neighbours: Sequence[Sequence[int]], grown: Sequence[int], *, sign: int) -> list[int]:
    """Nodes with growth of this sign stand right before the first of their neighbours, which are all behind them."""
    goal = [0] * len(order)
    for place, node in zip(range(len(order) - 1, -1, -1), reversed(order), strict=True):
        is_pulled = grown[node] * sign > 0 and neighbours[node]
        goal[node] = min([goal[other] for other in neighbours[node]]) if is_pulled else place
    return sorted(order, key=goal.__getitem__)
