"""The CPU compiler's second fusion pass: fusions that read the same become one of several results.

Mirrors `MultiOutputFusion::Run` of xla/service/multi_output_fusion.cc with the rules of
xla/service/cpu/cpu_multi_output_fusion.cc. What saves most is fused first, of equals what was found last.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

from hlo_cli.analysis.fusion import rules as by
from hlo_cli.analysis.fusion.graph import Graph, Node
from hlo_cli.analysis.fusion.multi_output import can_fuse_siblings, gives_elements, is_worth_sharing, shared_bytes
from hlo_cli.analysis.fusion.rules import Rule
from hlo_cli.transform.fusing.in_place_hazards import Overwriting
from hlo_cli.transform.fusing.multi_output_results import make_together
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.reachability import Reaching

_USERS_AT_ONCE: Final = 128
"""Of the users of a value so many are looked at together: all pairs would be too many."""


@dataclass(slots=True)
class MultiOutputPass:
    """The pass over one computation; `made` says what went into which fusion."""

    graph: Graph
    names: ModuleNames
    overwriting: Overwriting
    made: list[tuple[Node, Node, Rule]] = field(default_factory=list)
    _number: dict[Node, int] = field(default_factory=dict)
    _gone: set[Node] = field(default_factory=set)
    _partners: dict[Node, dict[Node, int]] = field(default_factory=dict)
    _work: list[tuple[int, int, Node, Node]] = field(default_factory=list)
    _found: int = 0
    _reaching: Reaching = field(init=False)

    def run(self) -> None:
        """Fuse what can be."""
        order = self.graph.sorted_nodes()
        self._number = {node: number for number, node in enumerate(order)}
        self._reaching = Reaching(order, self.graph.dependencies, gives_elements)
        for node in order:
            if gives_elements(node):
                self._find_partners(node)
        while self._work:
            *_, one, other = heapq.heappop(self._work)
            if not {one, other} & self._gone and self._is_legal(one, other):
                self._fuse(one, other)
        if self.made:
            self.graph.sort_topologically()

    def _find_partners(self, node: Node) -> None:
        found: dict[Node, None] = {}
        for operand in node.operands:
            if is_worth_sharing(operand):
                found.update((user, None) for user in self._users_near(operand, node) if self._is_partner(node, user))
        for partner in found:
            profit = shared_bytes(node, partner)
            if profit > 0:
                self._partners.setdefault(node, {})[partner] = profit
                self._partners.setdefault(partner, {})[node] = profit
                self._wait(node, partner, profit)

    def _users_near(self, operand: Node, node: Node) -> list[Node]:
        first = operand.users.index(node) // _USERS_AT_ONCE * _USERS_AT_ONCE
        return operand.users.between(first, first + _USERS_AT_ONCE)

    def _is_partner(self, node: Node, user: Node) -> bool:
        if user is node or not gives_elements(user):
            return False
        is_found_later = user.opcode == "fusion" and self._number[node] < self._number[user]
        return not is_found_later and self._is_legal(node, user)

    def _is_legal(self, one: Node, other: Node) -> bool:
        return (
            can_fuse_siblings(one, other)
            and not any(not node.users and node is not self.graph.root for node in (one, other))
            and not self._reaching.are_connected(one, other)
            and self.overwriting.is_quiet(self.graph, one, other)
        )

    def _wait(self, fusion: Node, other: Node, profit: int) -> None:
        heapq.heappush(self._work, (-profit, -self._found, fusion, other))
        self._found += 1

    def _fuse(self, one: Node, other: Node) -> None:
        self._reaching.join(one, other, self._gone)
        partners = self._partners_of_both(one, other)
        remaining, fused = one, other
        if fused.has_several_results and not remaining.has_several_results:
            remaining, fused = fused, remaining
        self.made.append((fused, remaining, by.SIBLINGS))
        make_together(self.graph, remaining, fused, self.names)
        self._gone.add(fused)
        for partner, old_profit in partners.items():
            profit = shared_bytes(partner, remaining)
            if profit > old_profit:
                self._wait(remaining, partner, profit)
            if not old_profit:
                self._partners.setdefault(remaining, {})[partner] = profit

    def _partners_of_both(self, one: Node, other: Node) -> dict[Node, int]:
        """Who can join the two, with what that was known to save: nothing for those of the other."""
        own = self._partners.setdefault(one, {})
        for node in [node for node in own if not self._is_free(one, node)]:
            del own[node]
        found = dict(own)
        for node in self._partners.pop(other, {}):
            if node is not one and self._is_free(one, node):
                found.setdefault(node, 0)
        return found

    def _is_free(self, one: Node, node: Node) -> bool:
        return node not in self._gone and not self._reaching.are_connected(one, node)
