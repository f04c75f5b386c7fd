"""When allocations that may be shared are free, so that those that can take a buffer are found without asking each."""

from __future__ import annotations

from typing import Final

import numpy as np

_ALWAYS: Final = 2**31 - 1


class Gaps:
    """Times, from the end of one value to the start of the next, in which an allocation holds nothing.

    >>> gaps = Gaps()
    >>> first, second = gaps.open(0), gaps.open(1)
    >>> behind = gaps.split(first, 3, 5)
    >>> gaps.around(4, 6), gaps.around(5, 6)
    ([1], [1, 0])
    """

    __slots__ = ("_columns", "_count")

    def __init__(self) -> None:
        self._columns = np.zeros((3, 64), dtype=np.int32)
        self._count = 0

    def open(self, allocation: int) -> int:
        """The gap of an allocation that holds nothing yet."""
        return self._new(-1, _ALWAYS, allocation)

    def split(self, gap: int, start: int, end: int) -> int:
        """Cuts a value's life out of a gap, and gives the gap behind it; the one before it keeps its name."""
        _, last, allocation = (int(number) for number in self._columns[:, gap])
        self._columns[1, gap] = start
        return self._new(end, last, allocation)

    def around(self, start: int, end: int) -> list[int]:
        """The allocations with a gap in which a value may live, touching others at most; the newest first."""
        first, last, allocation = self._columns[:, : self._count]
        found: list[int] = allocation[(first <= start) & (last >= end)].tolist()
        return sorted(set(found), reverse=True)

    def _new(self, first: int, last: int, allocation: int) -> int:
        if self._count == self._columns.shape[1]:
            self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)), axis=1)
        self._columns[:, self._count] = first, last, allocation
        self._count += 1
        return self._count - 1
