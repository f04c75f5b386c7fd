"""How much memory an order takes: buffers are there from the first node that has to do with them to the last.

Mirrors `HeapSimulator::MinimumMemoryForComputation` of xla/service/heap_simulator/heap_simulator.cc, without sharing
between operands and results that are not in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.transform.scheduling.graph import Graph


class Held:
    """The memory of a computation while nodes are taken one after the other."""

    __slots__ = ("_graph", "_left", "_sum", "_there", "alive")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.alive = 0
        self._there: set[int] = set()
        self._left: dict[int, int] = {}
        self._sum: dict[int, int] = {}
        for node, buffers in enumerate(graph.held):
            for buffer in buffers:
                # what is kept has one user more, who never comes
                self._left[buffer] = self._left.get(buffer, buffer in graph.kept) + 1
                self._sum[buffer] = self._sum.get(buffer, 0) + node

    def needs(self, node: int) -> int:
        """The bytes that a node adds while it runs."""
        size, there = self._graph.size, self._there
        return sum(size[b] for b in self._graph.held[node] if b not in there) + self._graph.inner[node]

    def gains(self, node: int) -> int:
        """The bytes that a node frees less those that it adds."""
        size, left = self._graph.size, self._left
        return sum(size[b] for b in self._graph.held[node] if left[b] == 1) - self.needs(node)

    def take(self, node: int) -> list[int]:
        """Runs a node; returns the nodes that are now the last to need a buffer."""
        self.alive += self.needs(node) - self._graph.inner[node]
        last: list[int] = []
        for buffer in self._graph.held[node]:
            self._there.add(buffer)
            self._left[buffer] -= 1
            self._sum[buffer] -= node
            if not self._left[buffer]:
                self.alive -= self._graph.size[buffer]
            elif self._left[buffer] == 1 and buffer not in self._graph.kept:
                last.append(self._sum[buffer])
        return last


def peak_of_order(graph: Graph, order: Sequence[int]) -> int:
    """The most bytes that an order holds at once.

    >>> size = {0: 8, 1: 16}
    >>> before, after, held = ((), (0,), (1,)), ((1,), (2,), ()), ((0,), (0, 1), (1,))
    >>> chain = Graph(((),) * 3, before, after, held, size, frozenset(), (0,) * 3)
    >>> peak_of_order(chain, (0, 1, 2))
    24
    """
    most = alive = 0
    for node, (begins, ends) in zip(order, changes(graph, order), strict=True):
        alive += begins
        most = max(most, alive + graph.inner[node])
        alive -= ends
    return most


def changes(graph: Graph, order: Sequence[int]) -> list[tuple[int, int]]:
    """The bytes of the buffers that begin with each node of an order, and of those that end with it.

    >>> chain = Graph(((),) * 2, ((), (0,)), ((1,), ()), ((0,), (0, 1)), {0: 8, 1: 16}, frozenset((1,)), (0,) * 2)
    >>> changes(chain, (0, 1))
    [(8, 0), (16, 8)]
    """
    begins, ends = [0] * len(order), [0] * len(order)
    held, size = graph.held, graph.size
    last: dict[int, int] = {}
    for number, node in enumerate(order):
        for buffer in held[node]:
            if buffer not in last:
                begins[number] += size[buffer]
            last[buffer] = number
    for buffer, number in last.items():
        if buffer not in graph.kept:
            ends[number] += size[buffer]
    return list(zip(begins, ends, strict=True))
