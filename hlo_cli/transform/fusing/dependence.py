"""Whether nodes depend on each other in a graph whose nodes are being merged.

A search goes back from the later node and stops before the earlier one, so that it is short if both are close. Mirrors
the queries of xla/hlo/analysis/hlo_dfs_reachability.cc.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable

from hlo_cli.analysis.fusion.mutable_graph import Graph, Node


class Dependence:
    """Dependence between nodes of a graph; `merged` reports nodes that were merged.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = "ENTRY e { p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] negate(p)  ROOT c = s8[] add(a, b) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> p, a, b, c = graph.nodes
    >>> dependence = Dependence(graph)
    >>> dependence.are_connected(a, b), dependence.are_connected(c, p)
    (False, True)
    """

    __slots__ = ("_ends", "_graph", "_last", "_starts")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._last = {node: place for place, node in enumerate(graph.sorted_nodes())}
        self._starts: list[int] = []
        self._ends: list[int] = []

    def merged(self, nodes: Iterable[Node], into: Node) -> None:
        """Notes that `into` represents several nodes now; also for nodes made from it, such as its elements."""
        places = [self._last[node] for node in nodes if node in self._last]
        start, end = min(places), max(places)
        self._last[into] = end
        # Between the first and the last of them, the order of places says nothing any more.
        first = bisect_right(self._ends, start - 1) if self._ends else 0
        while first < len(self._starts) and self._starts[first] <= end:
            start, end = min(start, self._starts.pop(first)), max(end, self._ends.pop(first))
        insort(self._starts, start)
        insort(self._ends, end)

    def are_connected(self, one: Node, other: Node) -> bool:
        """Whether one of the two nodes depends on the other."""
        return self.reaches(one, other) or self.reaches(other, one)

    def reaches(self, source: Node, target: Node) -> bool:
        """Whether `target` depends on `source`, directly or indirectly."""
        lowest = self._floor(self._last.get(source, 0))
        seen = {target}
        waiting = [target]
        while waiting:
            for node in self._graph.dependencies(waiting.pop()):
                if node is source:
                    return True
                if node not in seen and self._last.get(node, lowest) >= lowest:
                    seen.add(node)
                    waiting.append(node)
        return False

    def _floor(self, place: int) -> int:
        """The place before which a search need not look: that of the node, or of what was merged across it."""
        at = bisect_right(self._starts, place) - 1
        return self._starts[at] if at >= 0 and self._ends[at] >= place else place
