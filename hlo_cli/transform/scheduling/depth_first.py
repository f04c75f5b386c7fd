"""Depth first, in two ways: as it comes, and the heaviest operands first.

Mirrors `PostOrderScheduler` and `DFSMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hlo_cli.transform.scheduling.graph import Graph


def post_order(graph: Graph) -> list[int]:
    """Before each node what it needs, in the order in which it takes that.

    >>> graph = Graph(((),) * 3, ((), (), (1, 0)), ((2,), (2,), ()), ((),) * 3, {}, frozenset(), (0,) * 3)
    >>> post_order(graph)
    [1, 0, 2]
    """
    return _visited(graph, lambda before: before)


def heaviest_first(graph: Graph) -> list[int]:
    """Before each node what it needs, first that with most other users above it, then with most bytes, then by name.

    >>> before, after, held = ((), (), (0, 1)), ((2,), (2,), ()), ((0,), (1,), ())
    >>> graph = Graph(((),) * 3, before, after, held, {0: 4, 1: 8}, frozenset(), (0,) * 3)
    >>> heaviest_first(graph)
    [1, 0, 2]
    """
    weights = _weights(graph)
    return _visited(graph, lambda before: sorted(before, key=weights.__getitem__, reverse=True))


def _weights(graph: Graph) -> Sequence[tuple[int, int, str]]:
    """Other users and bytes of a node and of all above it, what operands share more than once; at most all."""
    made: set[int] = set()
    users, sizes = [0] * len(graph), [0] * len(graph)
    most = sum(graph.size.values())
    for node in range(len(graph)):
        own = sum(graph.size[buffer] for buffer in graph.held[node] if buffer not in made)
        made.update(graph.held[node])
        before = graph.before[node]
        users[node] = min(len(graph), max(len(graph.after[node]) - 1, 0) + sum(users[each] for each in before))
        sizes[node] = min(most, own + sum(sizes[each] for each in before))
    names = (node[0].name if node else "" for node in graph.members)
    return list(zip(users, sizes, names, strict=True))


def _visited(graph: Graph, sort: Callable[[tuple[int, ...]], Iterable[int]]) -> list[int]:
    order: list[int] = []
    done = bytearray(len(graph))
    for last in (node for node in range(len(graph)) if not graph.after[node]):
        waiting = [last]
        while waiting:
            node = waiting[-1]
            if done[node]:
                waiting.pop()
                if done[node] == 1:
                    done[node] = 2
                    order.append(node)
                continue
            done[node] = 1
            waiting.extend(each for each in reversed(list(sort(graph.before[node]))) if not done[each])
    return order
