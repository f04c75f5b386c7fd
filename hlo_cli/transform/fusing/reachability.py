"""Which nodes need which, kept up to date while two become one.

Mirrors xla/hlo/analysis/hlo_reachability.h as `UpdateReachability` of xla/service/multi_output_fusion.cc uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from hlo_cli.analysis.fusion.graph import Node


class Reaching:
    """For each node those that it needs, directly or not, as bits; of joined nodes one stands for both.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = "ENTRY e { p = s8[] parameter(0)  a = s8[] not(p)  b = s8[] negate(p)  ROOT c = s8[] add(a, b) }"
    >>> graph = graph_of(parse_module(text).entry)
    >>> p, a, b, c = graph.nodes
    >>> reaching = Reaching(graph.sorted_nodes(), graph.dependencies, lambda node: True)
    >>> reaching.are_connected(a, b), reaching.are_connected(c, p)
    (False, True)
    """

    __slots__ = ("_bit", "_needed")

    def __init__(
        self, order: Sequence[Node], needed: Callable[[Node], Iterable[Node]], is_asked_for: Callable[[Node], bool]
    ) -> None:
        """The order is one with operands before users; only nodes that are asked for can be asked about."""
        self._bit: dict[Node, int] = {}
        self._needed: dict[Node, int] = {}
        for node in order:
            found = 0
            for other in needed(node):
                found |= self._needed.get(other, 0)
            if is_asked_for(node):
                self._bit[node] = len(self._bit)
                found |= 1 << self._bit[node]
            self._needed[node] = found

    def are_connected(self, one: Node, other: Node) -> bool:
        """Whether one of the two needs the other."""
        return self._needs(one, other) or self._needs(other, one)

    def join(self, one: Node, other: Node, gone: Collection[Node]) -> None:
        """What needs one of the two needs both, and all that they need."""
        for node in self._bit:
            if node in gone:
                continue
            needs_one, needs_other = self._needs(node, one), self._needs(node, other)
            if needs_other and not needs_one:
                self._needed[node] |= self._needed[one]
            if self._needs(node, one) and not needs_other:
                self._needed[node] |= self._needed[other]

    def _needs(self, node: Node, other: Node) -> bool:
        return bool(self._needed[node] >> self._bit[other] & 1)
