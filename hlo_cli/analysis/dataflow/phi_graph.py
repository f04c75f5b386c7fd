"""Removal of redundant phis, whose inputs all resolve to one value.

Mirrors `PhiGraph::Optimize` of xla/service/hlo_phi_graph.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from hlo_cli.analysis.dataflow.phi_closures import MANY, Closures, Settled


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
    """The current operands of each phi, and the users as XLA records them.

    Which sources a phi depends on does not change when others are replaced, so `closures` are those of the beginning;
    except in malformed modules, for a phi without any.
    """

    __slots__ = ("closures", "operands", "replaced", "resolved", "users")

    def __init__(self, inputs: Mapping[int, Iterable[int]]) -> None:
        self.operands = {phi: list(listed) for phi, listed in inputs.items()}
        self.users: dict[int, set[int]] = {}
        self.replaced: dict[int, int] = {}
        for phi, listed in self.operands.items():
            for given in listed:
                self.users.setdefault(given, set()).add(phi)
        self.closures = Closures(self.operands)
        self.resolved = Settled(self.closures)

    def resolve(self, value: int) -> int:
        """Returns the value that currently replaces a value."""
        passed: list[int] = []
        while value in self.replaced:
            passed.append(value)
            value = self.replaced[value]
        for each in passed:
            self.replaced[each] = value
        return value

    def simplify_once(self) -> bool:
        """Visits every phi once and replaces the redundant ones; returns whether any was replaced."""
        changed = False
        checked = Settled(self.closures)
        for phi in self.replaced:
            checked.add(phi)
        for phi, listed in self.operands.items():
            if phi in self.replaced:
                continue
            if phi in listed:
                listed[:] = [each for each in listed if each != phi]
                self.users[phi].discard(phi)
            if listed and all(each == listed[0] for each in listed):
                changed |= self._replace(phi, listed[0], checked)
            elif phi not in checked:
                changed |= self._replace_closed_group(phi, checked)
        return changed

    def _replace_closed_group(self, phi: int, checked: Settled) -> bool:
        """Replaces a closed group of phis by the only other value among their inputs.

        The search is that of XLA, which ends at a second value. It is omitted where it would find one and pass through
        checked phis alone, and leaves out phis that only depend on replaced ones if it will not find one.
        """
        source = self.closures.source(phi) if self.closures.have_sources else None
        if source is MANY and checked.is_last(phi):
            checked.add(phi)
            return False
        seen: dict[int, None] = {}
        waiting = deque((phi,))
        found: int | None = None
        while waiting:
            each = waiting.popleft()
            if each in seen:
                continue
            seen[each] = None
            if each in self.operands:
                checked.add(each)
                given = self.operands[each]
                waiting.extend((g for g in given if not self._is_resolved(g)) if isinstance(source, int) else given)
            elif found is not None and found != each:
                return False
            else:
                found = each
        if isinstance(source, int):
            found = source
        if found is None:
            return False
        group = [each for each in seen if each in self.operands and each not in self.replaced]
        return sum(self._replace(each, found, checked) for each in group) > 0

    def _is_resolved(self, value: int) -> bool:
        """Returns whether a phi and all phis that it depends on are replaced."""
        return value in self.operands and self.resolved.is_complete(value)

    def _replace(self, phi: int, value: int, checked: Settled) -> bool:
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
            users = self.users.setdefault(operand, set())
            if phi in users:
                users.discard(phi)
                users.add(value)
        self.replaced[phi] = value
        checked.add(phi)
        self.resolved.add(phi)
        return True
