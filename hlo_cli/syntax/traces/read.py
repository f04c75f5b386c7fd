"""Reads the trace of any profiler from bytes."""

from __future__ import annotations

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.syntax.traces.xplane import read_xplane


def read_trace(data: bytes, name: str) -> Trace:
    """The trace in a file's content; HloError if it is of no known format or corrupt."""
    return read_xplane(data, name)
