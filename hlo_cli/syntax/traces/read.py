"""Reads the trace of any profiler from bytes."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.source import HloError
from hlo_cli.wire import DECODED_HINT, is_decoded

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

Format = Literal["database", "json", "nsys", "rocprof", "xplane"]
HEAD: Final = 1 << 12
"""How many bytes tell the format of a file."""
_XPLANE: Final = bytes((0x0A, 0x12, 0x1A, 0x22))
"""The tags of the fields of an xplane."""
_DATABASE: Final = b"SQLite format 3\0"
_REPORTS: Final = (".nsys-rep", ".qdrep")
_EXPORT: Final = "run `nsys export --type sqlite {}`, and pass the database"
_HINT: Final = "pass *.xplane.pb or *.trace.json.gz of a profiler, or what nsys or rocprof wrote"


def read_trace(data: Buffer, name: str) -> Trace:
    """The trace in a file's content; HloError if it is of no known format or corrupt."""
    match format_of(data[:HEAD], name):
        case "database":
            from hlo_cli.syntax.traces.nsys_sqlite import read_sqlite_bytes

            return read_sqlite_bytes(bytes(data), name)
        case "json":
            from hlo_cli.syntax.traces.trace_json import read_trace_json

            return read_trace_json(data, name)
        case "nsys":
            from hlo_cli.syntax.traces.kernel_tables import read_nsys_csv

            return read_nsys_csv(data, name)
        case "rocprof":
            from hlo_cli.syntax.traces.kernel_tables import read_rocprof

            return read_rocprof(data, name)
        case "xplane":
            from hlo_cli.syntax.traces.xplane import read_xplane

            return read_xplane(data, name)


def format_of(head: bytes, name: str) -> Format:
    """The format of a file that begins with these bytes, as many as `HEAD`; HloError if it is no known one.

    >>> format_of(b"SQLite format 3" + bytes(1), "t"), format_of(b'{"traceEvents":[', "t")
    ('database', 'json')
    """
    from hlo_cli.syntax.traces.kernel_tables import table_kind
    from hlo_cli.syntax.traces.trace_json import is_json

    if not head.strip():
        raise HloError(f"{name} is empty")
    if is_decoded(head):
        raise HloError(f"{name} is not a trace any more: bytes were replaced by U+FFFD", hint=DECODED_HINT)
    if head.startswith(_DATABASE):
        return "database"
    if is_json(head):
        return "json"
    if (kind := table_kind(head)) is not None:
        return kind
    if head[0] in _XPLANE:
        return "xplane"
    is_report = name.endswith(_REPORTS)
    raise HloError(f"{name} is not a profiler trace", hint=_EXPORT.format(quote(name)) if is_report else _HINT)


def read_database(path: str) -> Trace:
    """The trace in a database that is a file, without reading all of it; HloError if it is of no known format."""
    from hlo_cli.syntax.traces.nsys_sqlite import read_sqlite_file

    return read_sqlite_file(path)
