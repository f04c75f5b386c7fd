"""Reads the trace of any profiler from bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

_HEAD: Final = 1 << 12
_XPLANE: Final = bytes((0x0A, 0x12, 0x1A, 0x22))
"""The tags of the fields of an xplane."""
_HINT: Final = "pass *.xplane.pb or *.trace.json.gz of a profiler, or what nsys or rocprof wrote"


def read_trace(data: Buffer, name: str) -> Trace:
    """The trace in a file's content; HloError if it is of no known format or corrupt."""
    head = data[:_HEAD]
    if not head.strip():
        raise HloError(f"{name} is empty")
    from hlo_cli.syntax.traces.trace_json import is_json, read_trace_json

    if is_json(head):
        return read_trace_json(data, name)
    if head[0] not in _XPLANE:
        raise HloError(f"{name} is not a profiler trace", hint=_HINT)
    from hlo_cli.syntax.traces.xplane import read_xplane

    return read_xplane(data, name)
