"""The traces that a command line names, as values: files, directories of profiles, and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

from hlo_cli.inputs.compression import MAXIMUM_BYTES, compression_of, decompress
from hlo_cli.inputs.files import MAX_FILE_BYTES, STDIN, missing, open_bounded, read_bounded, read_bytes, unreadable
from hlo_cli.inputs.traces import find_traces
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.ir.traces.trace import Trace


_ANY_SIZE: Final = 1 << 62
"""A database is not read as a whole."""


def read_traces(
    arguments: Sequence[str], *, stdin: BinaryIO | None = None, maximum_bytes: int = MAXIMUM_BYTES
) -> tuple[Trace, ...]:
    """The traces that the arguments name; of a directory, those of all hosts in its latest profile.

    `-` is standard input. Compressed files are read up to `maximum_bytes`. HloError if an argument names no trace, or
    if one cannot be read.

    >>> [trace] = read_traces(["fixtures/traces/cpu_steps"])
    >>> trace.format, [plane.name for plane in trace.planes]
    ('xplane', ['/host:metadata', '/host:CPU', 'Task Environment'])
    """
    traces: list[Trace] = []
    for argument in arguments:
        found = find_traces(argument)
        read = [_read(path, stdin, maximum_bytes) for path in found.paths]
        if found.note is not None:
            read[0] = replace(read[0], notes=(found.note, *read[0].notes))
        traces += read
    return tuple(traces)


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """The trace of a profiler: an `.xplane.pb`, a `.trace.json`, or what Nsight Systems or rocprof exported.

    The format is detected from the content, which may be compressed; a directory stands for the trace in its latest
    profile. Events are read when asked for. Raises HloError if the file cannot be read.

    >>> trace = read_trace("fixtures/traces/cpu_steps/trace.xplane.pb")
    >>> line = trace.plane("/host:CPU").lines[0]
    >>> line.name, line.begins_ps[:2].tolist(), line.statistic("step_num").of(0)
    ('python', [19526000, 24245000], 0)
    >>> [program.name for program in trace.programs()]
    ['jit_normalize(20)', 'jit_train_step(0)']
    """
    traces = read_traces([os.fsdecode(path)])
    if len(traces) > 1:
        hint = f"pass one of its files, such as {traces[0].name}"
        raise HloError(f"{os.fsdecode(path)} contains traces of {len(traces)} hosts", hint=hint)
    return traces[0]


def _read(path: str, stdin: BinaryIO | None, maximum_bytes: int) -> Trace:
    from hlo_cli.syntax.traces.read import HEAD, format_of, read_database, read_trace

    if path == "-":
        stream = stdin or getattr(sys.stdin, "buffer", None)
        if stream is None or stream.closed or stream.isatty():
            raise HloError("stdin is not available", hint="pass a file or directory, or pipe a trace to stdin")
        data, name = read_bounded(stream, STDIN, maximum_bytes), STDIN
        return read_trace(decompress(data, name, maximum_bytes=maximum_bytes), name)
    try:
        with open_bounded(path, limit=_ANY_SIZE if os.path.isfile(path) else maximum_bytes) as file:
            head = file.read(HEAD)
            if os.path.isfile(path) and compression_of(head) is None and format_of(head, path) == "database":
                return read_database(path)
            data = head if os.path.isfile(path) else head + file.read()
        if os.path.isfile(path):
            data = read_bytes(path, limit=MAX_FILE_BYTES)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return read_trace(decompress(data, path, maximum_bytes=maximum_bytes), path)
