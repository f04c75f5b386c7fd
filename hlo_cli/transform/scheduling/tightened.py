"""An order made tighter: what needs memory waits until it is needed, what frees memory comes as soon as it can.

Nothing of XLA's does this; its schedulers decide on each instruction once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.transform.scheduling.graph import Graph
from hlo_cli.transform.scheduling.held import changes


def tightened(graph: Graph, order: Sequence[int]) -> list[int]:
    """The order with nodes that take more than they free just before their first users, and others behind their needs.

    >>> held, size = ((0,), (1,), (0,), (1,)), {0: 8, 1: 800}
    >>> graph = Graph(((),) * 4, ((), (), (0,), (1,)), ((2,), (3,), (), ()), held, size, frozenset(), (0,) * 4)
    >>> tightened(graph, (0, 1, 2, 3))
    [0, 2, 1, 3]
    """
    late = _pulled(order, graph.after, _grown(graph, order), sign=1)
    early = _pulled(late[::-1], graph.before, _grown(graph, late), sign=-1)
    return early[::-1]


def _grown(graph: Graph, order: Sequence[int]) -> list[int]:
    """The bytes that each node takes less those that it frees."""
    grown = [0] * len(graph)
    for node, (begins, ends) in zip(order, changes(graph, order), strict=True):
        grown[node] = begins - ends
    return grown


def _pulled(order: Sequence[int], neighbours: Sequence[Sequence[int]], grown: Sequence[int], *, sign: int) -> list[int]:
    """Nodes with growth of this sign stand right before the first of their neighbours, which are all behind them."""
    place = [0] * len(order)
    for number, node in enumerate(order):
        place[node] = number
    goal = [0] * len(order)
    for node in reversed(order):
        is_pulled = neighbours[node] and grown[node] * sign > 0
        goal[node] = min([goal[other] for other in neighbours[node]]) if is_pulled else place[node]
    return sorted(order, key=lambda node: (goal[node], place[node]))
