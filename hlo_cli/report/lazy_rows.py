"""Rows generated on demand: there may be more than fit in memory, or they may never be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

Item = TypeVar("Item", covariant=True)


class LazyRows(Sequence[Item]):
    """`count` rows or other items, generated again by `make` on each iteration.

    >>> rows = LazyRows(10**12, lambda: ((n,) for n in range(10**12)))
    >>> len(rows), rows[:2], rows[1]
    (1000000000000, ((0,), (1,)), (1,))
    """

    def __init__(self, count: int, make: Callable[[], Iterator[Item]]) -> None:
        """`make` returns an iterator over all items."""
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return self._make()

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, at: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            return tuple(islice(self._make(), start, stop, step))
        at = range(self._count)[at]
        return next(islice(self._make(), at, None))


class DeferredRows(Sequence[Item]):
    """Rows or other items that `make` returns when they are read first.

    >>> rows = DeferredRows(lambda: (("a", 1), ("b", 2)))
    >>> len(rows), rows[1], list(rows)
    (2, ('b', 2), [('a', 1), ('b', 2)])
    """

    def __init__(self, make: Callable[[], Sequence[Item]]) -> None:
        """`make` is called once at most."""
        self._make = make
        self._made: Sequence[Item] | None = None

    @property
    def _items(self) -> Sequence[Item]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        return self._items[at]
