"""The users of a value, in the order in which the compiler has them: who leaves is replaced by the last.

Mirrors `HloInstruction::Users` of xla/hlo/ir/hlo_instruction.cc. Of pairs that save the same, that order decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")
_FEW: Final = 8
"""So many are looked through; of more it is noted where each stands."""


class Users(Generic[_T]):
    """A set with an order.

    >>> users = Users[str]()
    >>> for name in "abcd":
    ...     users.add(name)
    >>> users.remove("a")
    >>> users.add("c")
    >>> list(users), len(users), "a" in users
    (['d', 'b', 'c'], 3, False)
    """

    __slots__ = ("_order", "_place")

    def __init__(self) -> None:
        self._order: list[_T] = []
        self._place: dict[_T, int] | None = None

    def __iter__(self) -> Iterator[_T]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, user: object) -> bool:
        return user in (self._order if self._place is None else self._place)

    def add(self, user: _T) -> None:
        """Put a user last, if it is not there yet."""
        order, place = self._order, self._place
        if user in (order if place is None else place):
            return
        if place is not None:
            place[user] = len(order)
        order.append(user)
        if place is None and len(order) > _FEW:
            self._place = {each: number for number, each in enumerate(order)}

    def remove(self, user: _T) -> None:
        """Take a user away, if it is there."""
        if user not in self:
            return
        place = self.index(user)
        last = self._order.pop()
        if self._place is not None:
            del self._place[user]
        if place < len(self._order):
            self._order[place] = last
            if self._place is not None:
                self._place[last] = place

    def index(self, user: _T) -> int:
        """Where a user stands."""
        return self._order.index(user) if self._place is None else self._place[user]

    def between(self, first: int, end: int) -> list[_T]:
        """The users that stand there."""
        return self._order[first:end]
