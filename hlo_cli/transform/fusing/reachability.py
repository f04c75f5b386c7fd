"""Reachability between nodes, updated while pairs are fused.

Mirrors xla/hlo/analysis/hlo_reachability.h as `UpdateReachability` of xla/service/multi_output_fusion.cc uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from hlo_cli.analysis.fusion.mutable_graph import Node


class Reachability:
    """Transitive dependencies of each node, as bits; after a merge one node represents both.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import graph_of
    >>> text = "ENTRY e { p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] negate(p)  ROOT c = s8[] add(a, b) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> p, a, b, c = graph.nodes
    >>> reachability = Reachability(graph.sorted_nodes(), graph.dependencies, lambda node: True)
    >>> reachability.are_connected(a, b), reachability.are_connected(c, p)
    (False, True)
    """

    __slots__ = ("_bit", "_reachable")

    def __init__(
        self, order: Sequence[Node], needed: Callable[[Node], Iterable[Node]], is_tracked: Callable[[Node], bool]
    ) -> None:
        """Computes the dependencies; `order` has operands before users, and only tracked nodes can be queried."""
        self._bit: dict[Node, int] = {}
        self._reachable: dict[Node, int] = {}
        for node in order:
            found = 0
            for other in needed(node):
                found |= self._reachable.get(other, 0)
            if is_tracked(node):
                self._bit[node] = len(self._bit)
                found |= 1 << self._bit[node]
            self._reachable[node] = found

    def are_connected(self, one: Node, other: Node) -> bool:
        """Whether one of the two nodes depends on the other."""
        return self._reaches(one, other) or self._reaches(other, one)

    def merge(self, one: Node, other: Node, gone: Collection[Node]) -> None:
        """Makes every node that depends on one of the two depend on both, and on all their dependencies."""
        for node in self._bit:
            if node in gone:
                continue
            reaches_one, reaches_other = self._reaches(node, one), self._reaches(node, other)
            if reaches_other and not reaches_one:
                self._reachable[node] |= self._reachable[one]
            if self._reaches(node, one) and not reaches_other:
                self._reachable[node] |= self._reachable[other]

    def _reaches(self, node: Node, other: Node) -> bool:
        return bool(self._reachable[node] >> self._bit[other] & 1)
