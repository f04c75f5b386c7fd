"""Breadth first: everything as soon as it can be, for machines that run much at once.

Mirrors `BFScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.
"""

from __future__ import annotations

from collections import deque

from hlo_cli.transform.scheduling.graph import Graph


def breadth_first(graph: Graph) -> list[int]:
    """Each node once all that it needs has been seen, first come first served.

    >>> graph = Graph(((),) * 4, ((), (0,), (), (1, 2)), ((1,), (3,), (3,), ()), ((),) * 4, {}, frozenset(), (0,) * 4)
    >>> breadth_first(graph)
    [0, 2, 1, 3]
    """
    waiting = [len(before) for before in graph.before]
    queue = deque(node for node in range(len(graph)) if not waiting[node])
    order: list[int] = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for user in graph.after[node]:
            waiting[user] -= 1
            if not waiting[user]:
                queue.append(user)
    return order
