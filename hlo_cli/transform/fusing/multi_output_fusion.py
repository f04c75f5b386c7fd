"""Multi-output fusion pass of the CPU compiler: fuses siblings that read the same operands.

Mirrors `MultiOutputFusion::Run` of xla/service/multi_output_fusion.cc with the rules of
xla/service/cpu/cpu_multi_output_fusion.cc. The pair with the highest profit is fused first; on ties the last found.
"""

from __future__ import annotations

import heapq
from dataclasses import field
from typing import Final

from hlo_cli.analysis.fusion import cpu_rules as by
from hlo_cli.analysis.fusion.cpu_rules import Rule, can_fuse_siblings, gives_elements, is_worth_sharing, shared_bytes
from hlo_cli.analysis.fusion.mutable_graph import Graph, Node
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.transform.fusing.in_place_hazards import InPlaceHazards
from hlo_cli.transform.fusing.multi_output_results import make_multi_output
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.reachability import Reachability

_MAX_USERS: Final = 128
"""Number of users of a value among which pairs are formed; all pairs would be too many."""


@dataclass(slots=True)
class MultiOutputFusion:
    """Pass over one computation; `created` has the fused pairs."""

    graph: Graph
    names: ModuleNames
    hazards: InPlaceHazards
    created: list[tuple[Node, Node, Rule]] = field(default_factory=list)
    _index: dict[Node, int] = field(default_factory=dict)
    _removed: set[Node] = field(default_factory=set)
    _partners: dict[Node, dict[Node, int]] = field(default_factory=dict)
    _queue: list[tuple[int, int, Node, Node]] = field(default_factory=list)
    _found: int = 0
    _reachability: Reachability = field(init=False)

    def run(self) -> None:
        """Runs the pass."""
        order = self.graph.sorted_nodes()
        self._index = {node: number for number, node in enumerate(order)}
        self._reachability = Reachability(order, self.graph.dependencies, gives_elements)
        for node in order:
            if gives_elements(node):
                self._find_partners(node)
        while self._queue:
            *_, one, other = heapq.heappop(self._queue)
            if not {one, other} & self._removed and self._is_legal(one, other):
                self._fuse(one, other)
        if self.created:
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
                self._enqueue(node, partner, profit)

    def _users_near(self, operand: Node, node: Node) -> list[Node]:
        first = operand.users.index(node) // _MAX_USERS * _MAX_USERS
        return operand.users.between(first, first + _MAX_USERS)

    def _is_partner(self, node: Node, user: Node) -> bool:
        if user is node or not gives_elements(user):
            return False
        is_found_later = user.opcode == opcodes.FUSION and self._index[node] < self._index[user]
        return not is_found_later and self._is_legal(node, user)

    def _is_legal(self, one: Node, other: Node) -> bool:
        return (
            can_fuse_siblings(one, other)
            and not any(not node.users and node is not self.graph.root for node in (one, other))
            and not self._reachability.are_connected(one, other)
            and self.hazards.has_no_writes(self.graph, one, other)
        )

    def _enqueue(self, fusion: Node, other: Node, profit: int) -> None:
        heapq.heappush(self._queue, (-profit, -self._found, fusion, other))
        self._found += 1

    def _fuse(self, one: Node, other: Node) -> None:
        self._reachability.merge(one, other, self._removed)
        partners = self._partners_of_both(one, other)
        remaining, fused = one, other
        if fused.has_several_results and not remaining.has_several_results:
            remaining, fused = fused, remaining
        self.created.append((fused, remaining, by.SIBLINGS))
        make_multi_output(self.graph, remaining, fused, self.names)
        self._removed.add(fused)
        for partner, old_profit in partners.items():
            profit = shared_bytes(partner, remaining)
            if profit > old_profit:
                self._enqueue(remaining, partner, profit)
            if not old_profit:
                self._partners.setdefault(remaining, {})[partner] = profit

    def _partners_of_both(self, one: Node, other: Node) -> dict[Node, int]:
        """Candidates for the new fusion with their known profit: 0 for those of `other`."""
        own = self._partners.setdefault(one, {})
        for node in [node for node in own if not self._is_free(one, node)]:
            del own[node]
        found = dict(own)
        for node in self._partners.pop(other, {}):
            if node is not one and self._is_free(one, node):
                found.setdefault(node, 0)
        return found

    def _is_free(self, one: Node, node: Node) -> bool:
        return node not in self._removed and not self._reachability.are_connected(one, node)
