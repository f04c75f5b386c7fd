"""Code run without garbage collection, which would traverse all live objects repeatedly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
