"""Rows that are made when somebody reads them, so that a table may have more of them than fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import overload

from hlo_cli.report.cell import Row


class LazyRows(Sequence[Row]):
    """As many rows as `count` says, made anew by `make` each time they are read from the first on.

    >>> rows = LazyRows(10**12, lambda: ((n,) for n in range(10**12)))
    >>> len(rows), rows[:2], rows[1]
    (1000000000000, ((0,), (1,)), (1,))
    """

    def __init__(self, count: int, make: Callable[[], Iterator[Row]]) -> None:
        """`make` gives an iterator over all rows."""
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        return self._make()

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            return tuple(islice(self._make(), start, stop, step))
        at = range(self._count)[at]
        return next(islice(self._make(), at, None))
