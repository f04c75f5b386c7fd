"""Reads the trace of any profiler from bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.ir.traces.trace import Trace

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

_HEAD: Final = 1 << 12


def read_trace(data: Buffer, name: str) -> Trace:
    """The trace in a file's content; HloError if it is of no known format or corrupt."""
    head = data[:_HEAD]
    from hlo_cli.syntax.traces.trace_json import is_json, read_trace_json

    if is_json(head):
        return read_trace_json(data, name)
    from hlo_cli.syntax.traces.xplane import read_xplane

    return read_xplane(data, name)
