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
_DATABASE: Final = b"SQLite format 3\0"
_HINT: Final = "pass *.xplane.pb or *.trace.json.gz of a profiler, or what nsys or rocprof wrote"


def read_trace(data: Buffer, name: str) -> Trace:
    """The trace in a file's content; HloError if it is of no known format or corrupt."""
    head = data[:_HEAD]
    if not head.strip():
        raise HloError(f"{name} is empty")
    from hlo_cli.syntax.traces.trace_json import is_json, read_trace_json

    if is_json(head):
        return read_trace_json(data, name)
    if is_database(head):
        from hlo_cli.syntax.traces.nsys_sqlite import read_sqlite_bytes

        return read_sqlite_bytes(bytes(data), name)
    if (trace := _of_table(data, head, name)) is not None:
        return trace
    if head[0] not in _XPLANE:
        raise HloError(f"{name} is not a profiler trace", hint=_HINT)
    from hlo_cli.syntax.traces.xplane import read_xplane

    return read_xplane(data, name)


def is_database(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a database of SQLite, as `nsys export` writes it.

    >>> is_database(b"SQLite format 3" + bytes(1)), is_database(b"HloModule m")
    (True, False)
    """
    return head.startswith(_DATABASE)


def read_database(path: str) -> Trace:
    """The trace in a database that is a file, without reading all of it; HloError if it is of no known format."""
    from hlo_cli.syntax.traces.nsys_sqlite import read_sqlite_file

    return read_sqlite_file(path)


def _of_table(data: Buffer, head: bytes, name: str) -> Trace | None:
    """The trace in a table of comma-separated values; None if the content is no such table."""
    from hlo_cli.syntax.traces.tables import table_kind

    match table_kind(head):
        case "nsys":
            from hlo_cli.syntax.traces.nsys_csv import read_nsys_csv

            return read_nsys_csv(data, name)
        case "rocprof":
            from hlo_cli.syntax.traces.rocprof import read_rocprof

            return read_rocprof(data, name)
    return None
