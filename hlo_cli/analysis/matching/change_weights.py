"""Weighs the differences of two modules, so that the matching with the fewest and smallest differences is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.graph import Node
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.dataclass import dataclass

PER_INSTRUCTION: Final = 1 << 20
"""Weight of an instruction that is added, removed, or changed."""
_NO_SHARED_USER: Final = PER_INSTRUCTION // 2
"""Weight of a pair whose nodes have no user in common, although all their users are paired: it is equal by chance."""
_OPERANDS_ONLY: Final = PER_INSTRUCTION * 5 // 8
"""Additional weight of an instruction in which only operands changed.

With _NO_SHARED_USER it exceeds the weight of one added and one removed instruction: usually the operands changed, and
not their user.
"""
_PER_CHANGE: Final = 1 << 6
_MAX_CHANGES: Final = 1 << 10
_NAME_DIFFERS: Final = 8
_SHARED_USER_BONUS: Final = 3
_ADJACENT_BONUS: Final = 2
_MAX_USERS: Final = 16


@dataclass(frozen=True, slots=True)
class ChangeWeights:
    """Weighs pairs by the number of changed instructions first, and by the number of their changes second.

    Equal names, shared users, and adjacency in the text weigh little, in this order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.build_graph import graph_of
    >>> from hlo_cli.analysis.matching.graph import Keys
    >>> text, numbers = "HloModule m  ENTRY e { p = s8[2] parameter(0)  ROOT n = s8[2] negate(p) }", Keys()
    >>> pairs = Pairs(*(graph_of(parse_module(text), numbers) for _ in range(2)))
    >>> ChangeWeights(pairs, {}).of([0, 1], [0, 1], []) // PER_INSTRUCTION
    4
    """

    pairs: Pairs
    changes: Mapping[Node, tuple[Change, ...]]

    def of(self, ones: Iterable[Node], twos: Iterable[Node], ends: Iterable[Node]) -> int:
        """Weight of nodes `ones` of the first graph and of the unpaired ones among `twos` of the second.

        Shared users count for `ends` only.
        """
        pairs, weight = self.pairs, -_SHARED_USER_BONUS * sum(map(self._has_shared_user, ends))
        for a in ones:
            if pairs.after[a] < 0:
                weight += PER_INSTRUCTION
                continue
            weight += _NAME_DIFFERS * (not pairs.have_same_name(a, pairs.after[a]))
            weight += _NO_SHARED_USER * self.lacks_shared_user(a)
            if changes := self.changes.get(a):
                weight += PER_INSTRUCTION + _PER_CHANGE * min(len(changes), _MAX_CHANGES)
                weight += _OPERANDS_ONLY * all(change.kind == "operands" for change in changes)
        weight += PER_INSTRUCTION * sum(pairs.before[b] < 0 for b in twos)
        places = {place for a in ones for place in (a - 1, a) if 0 <= place < len(pairs.after) - 1}
        return weight - _ADJACENT_BONUS * sum(0 < pairs.after[place] + 1 == pairs.after[place + 1] for place in places)

    def lacks_shared_user(self, a: Node) -> bool:
        """Whether no user of `a` is paired with a user of its partner, although all users of both are paired."""
        pairs = self.pairs
        one, two = pairs.plain
        b = pairs.after[a]
        ones, twos = one.users[a], two.users[b]
        if not 0 < len(ones) + len(twos) <= _MAX_USERS or a in one.roots or b in two.roots:
            return False
        others = [pairs.before[v] for v, _ in twos]
        return NONE not in others and all(pairs.after[u] >= 0 and u not in others for u, _ in ones)

    def _has_shared_user(self, a: Node) -> bool:
        """Whether a user of `a` is paired with a user of its partner, or both are results."""
        pairs = self.pairs
        one, two = pairs.plain
        if a in one.roots and pairs.after[a] in two.roots:
            return True
        users = [pairs.after[user] for user, _ in one.users[a][:_MAX_USERS]]
        return any(pairs.after[a] in two.operands[user] for user in users if user >= 0)
