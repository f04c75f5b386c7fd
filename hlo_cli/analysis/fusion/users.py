"""Users of a value in XLA's order, in which a removed user is replaced by the last one.

Mirrors `HloInstruction::Users` of xla/hlo/ir/hlo_instruction.cc. The order decides between pairs of equal profit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")
_MAX_LINEAR: Final = 8
"""Number of users up to which membership is a linear search; beyond it, a dict holds positions."""


class Users(Generic[_T]):
    """Ordered set with the removal order of XLA.

    >>> users = Users[str]()
    >>> for name in "abcd":
    ...     users.add(name)
    >>> users.remove("a")
    >>> users.add("c")
    >>> list(users), len(users), "a" in users
    (['d', 'b', 'c'], 3, False)
    """

    __slots__ = ("_order", "_positions")

    def __init__(self) -> None:
        self._order: list[_T] = []
        self._positions: dict[_T, int] | None = None

    def __iter__(self) -> Iterator[_T]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, user: object) -> bool:
        return user in (self._order if self._positions is None else self._positions)

    def add(self, user: _T) -> None:
        """Appends a user unless it is present."""
        order, position = self._order, self._positions
        if user in (order if position is None else position):
            return
        if position is not None:
            position[user] = len(order)
        order.append(user)
        if position is None and len(order) > _MAX_LINEAR:
            self._positions = {each: number for number, each in enumerate(order)}

    def remove(self, user: _T) -> None:
        """Removes a user, if present; the last user takes its position."""
        if user not in self:
            return
        position = self.index(user)
        last = self._order.pop()
        if self._positions is not None:
            del self._positions[user]
        if position < len(self._order):
            self._order[position] = last
            if self._positions is not None:
                self._positions[last] = position

    def index(self, user: _T) -> int:
        """Position of a user."""
        return self._order.index(user) if self._positions is None else self._positions[user]

    def between(self, first: int, end: int) -> list[_T]:
        """Users at positions `first` to `end`, exclusive."""
        return self._order[first:end]
