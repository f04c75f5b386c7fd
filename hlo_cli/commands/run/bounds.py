"""Bounds of the process while a module runs: memory that the system refuses, and an end that leaves nothing behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

SLACK: Final = 1 << 30
"""Bytes of memory for the program itself and the text."""
_TERMINATED: Final = 128 + signal.SIGTERM


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as an exception that nothing on the way takes for an error."""


@contextmanager
def bounded(max_bytes: int) -> Iterator[None]:
    """Ends cleanly on SIGTERM, and limits the memory to twice what a module may take, where the system can.

    Estimates are of values and of large temporary arrays; what exceeds them is an error, not a frozen machine.

    >>> with bounded(1 << 30): print("runs")
    runs
    """
    with _termination(), _limited_memory(SLACK + 2 * max_bytes):
        yield


@contextmanager
def _termination() -> Iterator[None]:
    """Makes SIGTERM an exception, so that files that are not finished are removed; in the main thread alone."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:
        yield
        return
    try:
        yield
    except _Terminated:
        raise SystemExit(_TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


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
    from hlo_cli.analysis.evaluate.clock import reserve_for_products

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
