"""Processes as the system knows them: who is whose child, who is gone, and waiting for something with a limit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

_PATIENCE = 30.0


def until(happens: Callable[[], object]) -> None:
    """Wait until something is true; AssertionError if it is not in half a minute."""
    end = time.monotonic() + _PATIENCE
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def children_of(process: int) -> list[int]:
    """The processes that one has started and that have not ended."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, parent, state, *_ in rows if int(parent) == process and not state.startswith("Z")]


def is_gone(process: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return not listed.stdout.strip() or listed.stdout.startswith("Z")
