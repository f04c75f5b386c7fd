"""Removal of redundant phis, whose inputs all resolve to one value.

Mirrors `PhiGraph::Optimize` of xla/service/hlo_phi_graph.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping


def simplify_phis(inputs: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Returns the value that replaces each redundant phi; other phis are omitted.

    `inputs` lists the inputs of every phi in XLA's order; an input that is not a key is an ordinary value.

    >>> simplify_phis({1: (1, 7), 2: (7, 8), 3: (2, 2), 4: (5, 9), 5: (4, 9)})
    {1: 7, 3: 2, 4: 9, 5: 9}
    """
    graph = _PhiGraph(inputs)
    while graph.simplify_once():
        pass
    return {phi: graph.resolve(phi) for phi in inputs if phi in graph.replaced}


class _PhiGraph:
    """The current operands of each phi, and the users as XLA records them."""

    __slots__ = ("operands", "replaced", "users")

    def __init__(self, inputs: Mapping[int, Iterable[int]]) -> None:
        self.operands = {phi: list(listed) for phi, listed in inputs.items()}
        self.users: dict[int, list[int]] = {}
        self.replaced: dict[int, int] = {}
        for phi, listed in self.operands.items():
            for given in listed:
                self.users.setdefault(given, []).append(phi)

    def resolve(self, value: int) -> int:
        """Returns the value that currently replaces a value."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def simplify_once(self) -> bool:
        """Visits every phi once and replaces the redundant ones; returns whether any was replaced."""
        changed = False
        checked: set[int] = set()
        for phi, listed in self.operands.items():
            if phi in self.replaced:
                continue
            if phi in listed:
                listed[:] = [each for each in listed if each != phi]
                self.users[phi] = [each for each in self.users[phi] if each != phi]
            if listed and all(each == listed[0] for each in listed):
                changed |= self._replace(phi, listed[0])
            elif phi not in checked:
                changed |= self._replace_closed_group(phi, checked)
        return changed

    def _replace_closed_group(self, phi: int, checked: set[int]) -> bool:
        """Replaces a closed group of phis by the only other value among their inputs."""
        seen: dict[int, None] = {}
        waiting = deque((phi,))
        source: int | None = None
        while waiting:
            each = waiting.popleft()
            if each in seen:
                continue
            seen[each] = None
            checked.add(each)
            if each in self.operands:
                waiting.extend(self.operands[each])
            elif source is not None and source != each:
                return False
            else:
                source = each
        if source is None:
            return False
        found = [each for each in seen if each in self.operands and each not in self.replaced]
        return sum(self._replace(each, source) for each in found) > 0

    def _replace(self, phi: int, value: int) -> bool:
        """Replaces a phi by a value; returns whether it did."""
        if (value := self.resolve(value)) == phi:  # only in cycles of malformed modules
            return False
        # hlo_phi_graph.cc, PhiGraph::ReplaceNodeWith: users of the replaced phi are not added to those of its
        # replacement. A phi may therefore keep a replaced operand and remain, although all its inputs resolve to one
        # value. Buffers depend on it.
        for user in self.users.get(phi, ()):
            if user in self.operands:
                self.operands[user] = [value if each == phi else each for each in self.operands[user]]
        for operand in self.operands[phi]:
            self.users[operand] = [value if each == phi else each for each in self.users.get(operand, ())]
        self.replaced[phi] = value
        return True
