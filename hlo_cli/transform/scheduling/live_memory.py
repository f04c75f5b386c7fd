"""How much memory an order takes: buffers are there from the first node that has to do with them to the last.

Mirrors `HeapSimulator::MinimumMemoryForComputation` of xla/service/heap_simulator/heap_simulator.cc, without sharing
between operands and results that are not in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.transform.scheduling.graph import Graph


class LiveMemory:
    """The memory of a computation while nodes are taken one after the other."""

    __slots__ = ("_frees", "_graph", "_left", "_needs", "_sum", "_waiting", "alive")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.alive = 0
        self._left: dict[int, int] = {}
        self._sum: dict[int, int] = {}
        # by buffer that is not there yet the nodes that would bring it
        self._waiting: dict[int, list[int]] = {}
        size, kept = graph.size, graph.kept
        for node, buffers in enumerate(graph.held):
            for buffer in buffers:
                # what is kept has one user more, who never comes
                self._left[buffer] = self._left.get(buffer, buffer in kept) + 1
                self._sum[buffer] = self._sum.get(buffer, 0) + node
                self._waiting.setdefault(buffer, []).append(node)
        left = self._left
        self._needs = [sum([size[b] for b in buffers]) for buffers in graph.held]
        self._frees = [sum([size[b] for b in buffers if left[b] == 1]) for buffers in graph.held]

    def needs(self, node: int) -> int:
        """The bytes that a node adds while it runs."""
        return self._needs[node] + self._graph.inner[node]

    def gains(self, node: int) -> int:
        """The bytes that a node frees less those that it adds."""
        return self._frees[node] - self._needs[node] - self._graph.inner[node]

    def take(self, node: int) -> list[int]:
        """Runs a node; returns the nodes that are now the last to need a buffer."""
        size, left = self._graph.size, self._left
        self.alive += self._needs[node]
        last: list[int] = []
        for buffer in self._graph.held[node]:
            for other in self._waiting.pop(buffer, ()):
                self._needs[other] -= size[buffer]
            left[buffer] -= 1
            self._sum[buffer] -= node
            if not left[buffer]:
                self.alive -= size[buffer]
            elif left[buffer] == 1 and buffer not in self._graph.kept:
                self._frees[self._sum[buffer]] += size[buffer]
                last.append(self._sum[buffer])
        return last


class PeakMeasure:
    """Measures orders of the nodes of one graph.

    >>> chain = Graph(((),) * 2, ((), (0,)), ((1,), ()), ((0,), (0, 1)), {0: 8, 1: 16}, frozenset((1,)), (0,) * 2)
    >>> PeakMeasure(chain).of((0, 1))
    (24, [8, 8])
    """

    __slots__ = ("_graph", "_nodes")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[int, list[int]] = {}
        for node, buffers in enumerate(graph.held):
            for buffer in buffers:
                self._nodes.setdefault(buffer, []).append(node)

    def of(self, order: Sequence[int]) -> tuple[int, list[int]]:
        """The most bytes that an order holds at once, and of each node those that it takes less those that it frees."""
        size, kept, inner = self._graph.size, self._graph.kept, self._graph.inner
        place = [0] * len(order)
        for number, node in enumerate(order):
            place[node] = number
        begins, ends = [0] * len(order), [0] * len(order)
        for buffer, nodes in self._nodes.items():
            places = [place[node] for node in nodes]
            begins[min(places)] += size[buffer]
            if buffer not in kept:
                ends[max(places)] += size[buffer]
        most = alive = 0
        grown = [0] * len(order)
        for node, begin, end in zip(order, begins, ends, strict=True):
            alive += begin
            most = max(most, alive + inner[node])
            alive -= end
            grown[node] = begin - end
        return most, grown


def peak_of_order(graph: Graph, order: Sequence[int]) -> int:
    """The most bytes that an order holds at once.

    >>> size = {0: 8, 1: 16}
    >>> before, after, held = ((), (0,), (1,)), ((1,), (2,), ()), ((0,), (0, 1), (1,))
    >>> chain = Graph(((),) * 3, before, after, held, size, frozenset(), (0,) * 3)
    >>> peak_of_order(chain, (0, 1, 2))
    24
    """
    return PeakMeasure(graph).of(order)[0]
