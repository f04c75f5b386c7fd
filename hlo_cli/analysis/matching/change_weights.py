"""What it weighs that instructions differ, so that of two explanations the one that tells less is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.graph import Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.dataclass import dataclass

ONE: Final = 1 << 20
"""The weight of an instruction that is told as added, removed or changed."""
_STRAY: Final = ONE // 2
"""What a pair weighs that nothing of both modules uses in both: it only looks the same."""
_REWIRED: Final = ONE * 5 // 8
"""What it weighs more if an instruction only takes others than before: with a stray pair, more than one new and one
gone. Mostly it is these that changed then, and not who takes them.
"""
_CHANGE: Final = 1 << 6
_MOST_CHANGES: Final = 1 << 10
_OTHER_NAME: Final = 8
_USED: Final = 3
_BESIDE: Final = 2
_MOST_USERS: Final = 16


@dataclass(frozen=True, slots=True)
class ChangeWeights:
    """Weighs pairs by their changes: first how many instructions differ, then in how many ways.

    Names weigh little, then by whom it is used, and what stands beside it in the text least.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> ChangeWeights(pairs, {}).of([0, 1], [0, 1], []) // ONE
    4
    """

    pairs: Pairs
    changes: Mapping[Node, tuple[Change, ...]]

    def of(self, ones: Iterable[Node], twos: Iterable[Node], ends: Iterable[Node]) -> int:
        """What nodes weigh, those of the second graph only if they are in no pair; by their users only the ends do."""
        pairs, weight = self.pairs, -_USED * sum(map(self._is_used_alike, ends))
        for a in ones:
            if pairs.after[a] < 0:
                weight += ONE
                continue
            weight += _OTHER_NAME * (not pairs.have_one_name(a, pairs.after[a]))
            weight += _STRAY * self.is_stray(a)
            if changes := self.changes.get(a):
                weight += ONE + _CHANGE * min(len(changes), _MOST_CHANGES)
                weight += _REWIRED * all(change.kind == "operands" for change in changes)
        weight += ONE * sum(pairs.before[b] < 0 for b in twos)
        places = {place for a in ones for place in (a - 1, a) if 0 <= place < len(pairs.after) - 1}
        return weight - _BESIDE * sum(0 < pairs.after[place] + 1 == pairs.after[place + 1] for place in places)

    def is_stray(self, a: Node) -> bool:
        """Whether what uses one of a pair never uses the other, though all that uses them is in both modules."""
        pairs = self.pairs
        one, two = pairs.plain
        b = pairs.after[a]
        ones, twos = one.users[a], two.users[b]
        if not 0 < len(ones) + len(twos) <= _MOST_USERS or a in one.roots or b in two.roots:
            return False
        others = [pairs.before[v] for v, _ in twos]
        return NONE not in others and all(pairs.after[u] >= 0 and u not in others for u, _ in ones)

    def _is_used_alike(self, a: Node) -> bool:
        """Whether some pair takes both of a pair, or both are results."""
        pairs = self.pairs
        one, two = pairs.plain
        if a in one.roots and pairs.after[a] in two.roots:
            return True
        users = [pairs.after[user] for user, _ in one.users[a][:_MOST_USERS]]
        return any(pairs.after[a] in two.operands[user] for user in users if user >= 0)
