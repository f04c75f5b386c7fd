"""Bounds of the process while a module runs: memory that the system refuses, and an end that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hlo_cli.commands.options.writing import removed_on_signals

SLACK: Final = 1 << 30
"""Bytes of memory for the program itself and the text."""


@contextmanager
def bounded(max_bytes: int) -> Iterator[None]:
    """Ends cleanly on SIGTERM and SIGHUP, and limits the memory to twice what a module may take, where the system can.

    Estimates are of values and of large temporary arrays; what exceeds them is an error, not a frozen machine.

    >>> with bounded(1 << 30): print("runs")
    runs
    """
    with removed_on_signals(), _limited_memory(SLACK + 2 * max_bytes):
        yield


@contextmanager
def _limited_memory(more: int) -> Iterator[None]:
    """Lets the process allocate so many bytes more; systems without such limits are left alone."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError, ValueError):
        yield
        return
    wanted = now + more
    if soft != resource.RLIM_INFINITY and soft <= wanted:
        yield
        return
    from hlo_cli.analysis.evaluate.limits import reserve_for_products

    reserve_for_products()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    except (ValueError, OSError):
        yield
        return
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
