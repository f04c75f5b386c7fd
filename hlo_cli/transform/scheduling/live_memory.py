"""Live memory of an order: a buffer is live from the first node that uses it to the last.

Mirrors `HeapSimulator::MinimumMemoryForComputation` of xla/service/heap_simulator/heap_simulator.cc, without sharing
between operands and results that are not in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.transform.scheduling.graph import Graph


class LiveMemory:
    """Live bytes of a computation while its nodes are scheduled one after the other."""

    __slots__ = ("_frees", "_graph", "_needs", "_user_sum", "_uses_left", "_waiting", "live_bytes")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.live_bytes = 0
        self._uses_left: dict[int, int] = {}
        self._user_sum: dict[int, int] = {}
        # by buffer that is not there yet the nodes that would bring it
        self._waiting: dict[int, list[int]] = {}
        size, live_out = graph.size, graph.live_out
        for node, buffers in enumerate(graph.buffers):
            for buffer in buffers:
                # what is kept has one user more, who never comes
                self._uses_left[buffer] = self._uses_left.get(buffer, buffer in live_out) + 1
                self._user_sum[buffer] = self._user_sum.get(buffer, 0) + node
                self._waiting.setdefault(buffer, []).append(node)
        left = self._uses_left
        self._needs = [sum([size[b] for b in buffers]) for buffers in graph.buffers]
        self._frees = [sum([size[b] for b in buffers if left[b] == 1]) for buffers in graph.buffers]

    def bytes_needed(self, node: int) -> int:
        """Bytes that a node adds while it runs."""
        return self._needs[node] + self._graph.callee_bytes[node]

    def net_bytes_freed(self, node: int) -> int:
        """Bytes that a node frees minus those that it adds."""
        return self._frees[node] - self._needs[node] - self._graph.callee_bytes[node]

    def schedule(self, node: int) -> list[int]:
        """Schedules a node; returns the nodes that are now the last users of a buffer."""
        size, left = self._graph.size, self._uses_left
        self.live_bytes += self._needs[node]
        last: list[int] = []
        for buffer in self._graph.buffers[node]:
            for other in self._waiting.pop(buffer, ()):
                self._needs[other] -= size[buffer]
            left[buffer] -= 1
            self._user_sum[buffer] -= node
            if not left[buffer]:
                self.live_bytes -= size[buffer]
            elif left[buffer] == 1 and buffer not in self._graph.live_out:
                self._frees[self._user_sum[buffer]] += size[buffer]
                last.append(self._user_sum[buffer])
        return last


class PeakMeasure:
    """Computes the peaks of orders of one graph.

    >>> chain = Graph(((),) * 2, ((), (0,)), ((1,), ()), ((0,), (0, 1)), {0: 8, 1: 16}, frozenset((1,)), (0,) * 2)
    >>> PeakMeasure(chain).peak_of((0, 1))
    (24, [8, 8])
    """

    __slots__ = ("_graph", "_nodes")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[int, list[int]] = {}
        for node, buffers in enumerate(graph.buffers):
            for buffer in buffers:
                self._nodes.setdefault(buffer, []).append(node)

    def peak_of(self, order: Sequence[int]) -> tuple[int, list[int]]:
        """Peak of live bytes in an order, and for each node the bytes that it adds minus those that it frees."""
        size, live_out, callee_bytes = self._graph.size, self._graph.live_out, self._graph.callee_bytes
        place = [0] * len(order)
        for number, node in enumerate(order):
            place[node] = number
        begins, ends = [0] * len(order), [0] * len(order)
        for buffer, nodes in self._nodes.items():
            places = [place[node] for node in nodes]
            begins[min(places)] += size[buffer]
            if buffer not in live_out:
                ends[max(places)] += size[buffer]
        most = live_bytes = 0
        growth = [0] * len(order)
        for node, begin, end in zip(order, begins, ends, strict=True):
            live_bytes += begin
            most = max(most, live_bytes + callee_bytes[node])
            live_bytes -= end
            growth[node] = begin - end
        return most, growth


def peak_of_order(graph: Graph, order: Sequence[int]) -> int:
    """Peak of live bytes in an order.

    >>> size = {0: 8, 1: 16}
    >>> before, after, held = ((), (0,), (1,)), ((1,), (2,), ()), ((0,), (0, 1), (1,))
    >>> chain = Graph(((),) * 3, before, after, held, size, frozenset(), (0,) * 3)
    >>> peak_of_order(chain, (0, 1, 2))
    24
    """
    return PeakMeasure(graph).peak_of(order)[0]
