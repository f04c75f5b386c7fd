"""Phis that are no choice: those whose inputs all come to one value. Mirrors `PhiGraph::Optimize` of hlo_phi_graph.cc.

XLA does not hand the users of a phi on to what it is replaced with, so that a phi may go on asking for one that is long
replaced, and stays a phi although all its inputs come to one value. Buffers depend on it, so it is done here as there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping


def simplified(inputs: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """For every phi that stands for another value, that value; the phis left out remain.

    `inputs` has the inputs of every phi, in the order of XLA; an input that is not a key is a value of its own.

    >>> simplified({1: (1, 7), 2: (7, 8), 3: (2, 2), 4: (5, 9), 5: (4, 9)})
    {1: 7, 3: 2, 4: 9, 5: 9}
    """
    graph = _PhiGraph(inputs)
    while graph.improve():
        pass
    return {phi: graph.final(phi) for phi in inputs if phi in graph.replaced}


class _PhiGraph:
    """The phis by now: operands as they are written, and the users that XLA knows of."""

    __slots__ = ("operands", "replaced", "users")

    def __init__(self, inputs: Mapping[int, Iterable[int]]) -> None:
        self.operands = {phi: list(listed) for phi, listed in inputs.items()}
        self.users: dict[int, list[int]] = {}
        self.replaced: dict[int, int] = {}
        for phi, listed in self.operands.items():
            for given in listed:
                self.users.setdefault(given, []).append(phi)

    def final(self, value: int) -> int:
        """What a value stands for by now."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def improve(self) -> bool:
        """Replace what can be, each phi looked at once; whether anything was."""
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
                changed |= self._close(phi, checked)
        return changed

    def _close(self, phi: int, checked: set[int]) -> bool:
        """Replace phis that hang together with the only other value among them."""
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
        if (value := self.final(value)) == phi:  # only where a broken module goes in a circle
            return False
        for user in self.users.get(phi, ()):
            if user in self.operands:
                self.operands[user] = [value if each == phi else each for each in self.operands[user]]
        for operand in self.operands[phi]:
            self.users[operand] = [value if each == phi else each for each in self.users.get(operand, ())]
        self.replaced[phi] = value
        return True
