"""List scheduler for low memory: always the node that frees most, with aliased values as one buffer.

Mirrors `ListScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from hlo_cli.transform.scheduling.graph import Graph
from hlo_cli.transform.scheduling.live_memory import LiveMemory


def schedule_by_buffers(graph: Graph) -> list[int]:
    """Orders ready nodes by net bytes freed, then by number of successors, then by their present order.

    >>> small, large = (0, 2), (1, 3)
    >>> size = {0: 8, 1: 800}
    >>> held = ((0,), (1,), (0,), (1,))
    >>> graph = Graph(((),) * 4, ((), (), (0,), (1,)), ((2,), (3,), (), ()), held, size, frozenset(), (0,) * 4)
    >>> schedule_by_buffers(graph)
    [0, 2, 1, 3]
    """
    live_memory = LiveMemory(graph)
    waiting = [len(before) for before in graph.before]
    Key = tuple[int, int, int]
    key: dict[int, Key] = {}

    def rank(node: int) -> Key:
        key[node] = (-live_memory.net_bytes_freed(node), -len(graph.after[node]), node)
        return key[node]

    ready = [rank(node) for node in range(len(graph)) if not waiting[node]]
    heapify(ready)
    order: list[int] = []
    while ready:
        entry = heappop(ready)
        node = entry[2]
        if key.get(node) != entry:
            continue  # it has been ranked again since
        del key[node]
        order.append(node)
        changed = [other for other in live_memory.schedule(node) if other in key]
        for user in graph.after[node]:
            waiting[user] -= 1
            if not waiting[user]:
                changed.append(user)
        for other in dict.fromkeys(changed):
            heappush(ready, rank(other))
    return order
