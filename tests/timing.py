"""Whether something is done soon, and takes no more than its share for more input; in time of this process alone.

Other work on the machine makes even that uncertain, so whoever is too slow is asked again before it counts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time

_TRIES = 5
_NOISE = 0.02
"""Seconds below which a measurement says nothing."""


@contextmanager
def soon(seconds: float) -> Iterator[None]:
    """The block takes less than so many seconds."""
    started = process_time()
    yield
    assert process_time() - started < seconds


def is_linear(work: Callable[[int], Callable[[], object]], small: int, large: int) -> bool:
    """Whether work grows with its size rather than with the square of it; `work` makes ready what is then timed."""

    def seconds(size: int) -> float:
        do = work(size)
        gc.disable()  # a collection takes as long as all that other tests have left in this process
        try:
            started = process_time()
            do()
            return process_time() - started
        finally:
            gc.enable()

    seconds(small)
    times = large / small
    between = times**1.5
    return any(seconds(large) < between * (min(seconds(small), seconds(small)) + _NOISE / times) for _ in range(_TRIES))
