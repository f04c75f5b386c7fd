"""What each phi depends on, directly or through others: its sources, and whether those phis are all settled.

Strongly connected components of the phis (R. Tarjan, 1972) answer this in constant time for each phi, where a search
would pass through all loops around or inside of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

MANY: Final = object()
"""More than one source."""


class Closures:
    """The components of phis that depend on each other, each after those that it depends on.

    `component[phi]` is the number of a component, `sources[number]` the only value other than a phi that its phis
    depend on, `MANY` if there are several, or None. `have_sources` tells whether each has one, as in all modules that
    are not malformed.

    >>> closures = Closures({1: (2, 7), 2: (1, 7), 3: (1, 8)})
    >>> [closures.source(phi) for phi in (1, 2)], closures.source(3) is MANY
    ([7, 7], True)
    """

    __slots__ = ("component", "dependents", "have_sources", "sizes", "sources", "successors")

    def __init__(self, operands: Mapping[int, Sequence[int]]) -> None:
        self.component: dict[int, int] = {}
        self.sizes: list[int] = []
        self.sources: list[object] = []
        self.successors: list[int] = []
        self.dependents: list[list[int]] = []
        for members in _components(operands):
            number = len(self.sizes)
            self.component.update(dict.fromkeys(members, number))
            below = {self.component[each] for phi in members for each in operands[phi] if each in operands} - {number}
            for each in below:
                self.dependents[each].append(number)
            found: set[object] = {each for phi in members for each in operands[phi] if each not in operands}
            found |= {self.sources[each] for each in below} - {None}
            self.sources.append(MANY if len(found) > 1 else next(iter(found), None))
            self.sizes.append(len(members))
            self.successors.append(len(below))
            self.dependents.append([])
        self.have_sources = None not in self.sources

    def source(self, phi: int) -> object:
        """The only value other than a phi that a phi depends on, `MANY` if there are several, or None."""
        return self.sources[self.component[phi]]


class Settled:
    """Which phis are settled, and which of them depend on settled ones alone.

    >>> settled = Settled(Closures({1: (2, 7), 2: (3, 7), 3: (8,)}))
    >>> settled.add(3), settled.is_last(2), settled.is_last(1)
    (None, True, False)
    >>> settled.add(2), settled.is_last(1), settled.is_complete(2), settled.is_complete(1)
    (None, True, True, False)
    """

    __slots__ = ("_closures", "_left", "_phis", "_waiting")

    def __init__(self, closures: Closures) -> None:
        self._closures = closures
        self._phis: set[int] = set()
        self._left = list(closures.sizes)
        self._waiting = list(closures.successors)

    def __contains__(self, phi: int) -> bool:
        """Whether a phi is settled."""
        return phi in self._phis

    def add(self, phi: int) -> None:
        """Settles a phi."""
        if phi in self._phis:
            return
        self._phis.add(phi)
        number = self._closures.component[phi]
        self._left[number] -= 1
        complete = [number] if not (self._left[number] or self._waiting[number]) else []
        while complete:
            for each in self._closures.dependents[complete.pop()]:
                self._waiting[each] -= 1
                if not (self._left[each] or self._waiting[each]):
                    complete.append(each)

    def is_complete(self, phi: int) -> bool:
        """Whether a phi and all that it depends on are settled."""
        number = self._closures.component[phi]
        return not (self._left[number] or self._waiting[number])

    def is_last(self, phi: int) -> bool:
        """Whether all that a phi depends on is settled, but not the phi itself."""
        number = self._closures.component[phi]
        return self._left[number] == 1 and not self._waiting[number] and phi not in self._phis


def _components(operands: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected components, each after those that it depends on."""
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_phis: list[int] = []
    done: set[int] = set()
    for first in operands:
        if first in number:
            continue
        path = [(first, iter(operands[first]))]
        number[first] = lowest[first] = len(number)
        open_phis.append(first)
        while path:
            phi, left = path[-1]
            for each in left:
                if each in done or each not in operands:
                    continue
                if each not in number:
                    number[each] = lowest[each] = len(number)
                    open_phis.append(each)
                    path.append((each, iter(operands[each])))
                    break
                lowest[phi] = min(lowest[phi], number[each])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[phi])
                if lowest[phi] == number[phi]:
                    members = [open_phis.pop()]
                    while members[-1] != phi:
                        members.append(open_phis.pop())
                    done.update(members)
                    yield members
