"""Work without garbage collection, which would go through all that has been made again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Nothing that is made while reading is garbage, nor in analyses; looking for it would take a third of the time.

    Freezing for a moment moves what was made to the oldest generation, so that the next collection leaves it alone.
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
