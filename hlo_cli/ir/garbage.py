"""Two limits of Python: garbage collection, which traverses all live objects repeatedly, and the depth of its stack."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

_R = TypeVar("_R")

DeepCall: TypeAlias = Generator[Any, Any, _R]
"""A recursive function as a generator: it yields the walks of what is below, and gets their results."""


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disables garbage collection: reading and analyses make no garbage, and collecting would take a third of the time.

    A short freeze moves all new objects to the oldest generation, so that the next collection skips them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


def run_deep(walk: DeepCall[_R]) -> _R:
    """The result of a recursive function whose depth comes from the input, however deep: its calls wait in a list.

    Such a function is written as a generator, `below = yield function(child)` in place of `below = function(child)`.

    >>> def depth(nest):
    ...     return (1 + (yield depth(nest[0]))) if nest else 0
    >>> nest = []
    >>> for _ in range(5000): nest = [nest]
    >>> run_deep(depth(nest))
    5000
    """
    waiting: list[DeepCall[Any]] = [walk]
    result: Any = None
    while True:
        try:
            below = waiting[-1].send(result)
        except StopIteration as end:  # a generator hands its result over in the exception that ends it
            waiting.pop()
            result = end.value
            if not waiting:
                return result  # type: ignore[no-any-return]
        else:
            waiting.append(below)
            result = None
