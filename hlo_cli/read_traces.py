"""Which traces a command line names: files, directories of profiles, standard input, of any profiler's format."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import MAX_DEPTH, MAX_DIRECTORIES, parse_dump_name
from hlo_cli.inputs.files import (
    MAX_FILE_BYTES,
    STDIN,
    exists,
    is_elsewhere,
    is_folder,
    missing,
    names_in,
    open_bounded,
    read_bounded,
    read_bytes,
    unreadable,
)
from hlo_cli.inputs.forms import MAXIMUM_BYTES, compression_of, decompress
from hlo_cli.inputs.input import glob_paths
from hlo_cli.source import HloError, expect
from hlo_cli.wire import DECODED_HINT, is_decoded

if TYPE_CHECKING:
    from hlo_cli.ir.traces.trace import Trace
    from hlo_cli.wire import Buffer


# --- names to files ---
# The traces of profilers that an argument names: a file, the directory of a profile, or a glob pattern.
#
# `jax.profiler` writes `DIR/plugins/profile/DATE/HOST.xplane.pb`, one file for each host, and next to it the same
# events as `HOST.trace.json.gz`; `DIR` may hold several profiles.


_SUBDIRECTORY: Final = "pass one of its subdirectories"
_COMPRESSED: Final = (".gz", ".xz", ".bz2", ".zst")  # people compress large traces by hand; profilers write .gz alone
_ENDINGS: Final = (
    ".xplane.pb",
    ".trace.json",
    "perfetto_trace.json",
    ".sqlite",
    "_results.db",
    "_results.json",
    "nvtx_gpu_proj_trace.csv",
    "_kernel_trace.csv",
    "cuda_gpu_trace.csv",
    "_kernel_stats.csv",
    ".stats.csv",
)
"""How the names of traces end, the best form first: the others hold the same events or fewer."""
_OF_TRACES: Final = (".json", ".sqlite", ".db", ".csv", ".nsys-rep", ".qdrep")
"""Other endings of files that hold no HLO: of traces under names of the user's own, of rocprofv3, and of nsys."""
_OF_HOSTS: Final = 2
"""The first forms are one file for each host; of the others, only the best are read."""
# jax.profiler names a folder by the time of its recording, such as 2025_06_01_12_00_00
_DATE: Final = re.compile(r"\d{4}_\d\d_\d\d_")
RECORD: Final = "to record a trace, use `with jax.profiler.trace(DIR)`; see `hlo help profiles`"


@dataclass(frozen=True, slots=True)
class FoundTraces:
    """The paths of the traces that an argument names, and a note on those that were not selected."""

    paths: tuple[str, ...]
    note: str | None = None


def find_traces(argument: str) -> FoundTraces:
    """The traces that an argument names: of a directory, those of all hosts in its latest profile.

    HloError, with a hint, if there are none.

    >>> find_traces("fixtures/traces/cpu_steps").paths
    ('fixtures/traces/cpu_steps/trace.xplane.pb',)
    """
    if argument == "-":
        return FoundTraces((argument,))
    if is_folder(argument):
        return _in_directory(argument)
    if exists(argument):
        return FoundTraces((argument,))
    paths = glob_paths(argument)
    if paths is None:
        raise missing(argument)
    traces = [find_traces(path) for path in paths]
    return FoundTraces(tuple(dict.fromkeys(path for trace in traces for path in trace.paths)))


def is_named_trace(path: str) -> bool:
    """Whether a path names a trace: a file with the ending of one, or a directory with traces and without dumps.

    >>> [is_named_trace(name) for name in ("t.xplane.pb", "trace.json.gz", "report.sqlite", "module.txt", "m.hlo.pb")]
    [True, True, True, False, False]
    >>> is_named_trace("fixtures/traces/cpu_steps"), is_named_trace("fixtures/tpu")
    (True, False)
    """
    if not is_folder(path):
        plain = os.path.basename(path)
        for ending in _COMPRESSED:
            plain = plain.removesuffix(ending)
        return plain.endswith(_OF_TRACES) or _rank_and_host(plain)[0] < len(_ENDINGS)
    names = [name for _, names in _walk(path) for name in names]
    return any(_rank_and_host(name)[0] < len(_ENDINGS) for name in names) and not any(map(parse_dump_name, names))


def _in_directory(folder: str) -> FoundTraces:
    """The traces of the latest profile in a directory, by date in the name of its directory, or by time."""
    profiles = [(path, paths) for path, names in _walk(folder) if (paths := _best_of(path, names))]
    place = folder.rstrip("/") + "/"
    if not profiles:
        raise HloError(f"no traces found in {place}", hint=RECORD)
    path, paths = max(profiles, key=lambda profile: _age(profile[0], profile[1][0]))
    if len(profiles) == 1:
        return FoundTraces(paths)
    name = os.path.relpath(path, folder)
    return FoundTraces(paths, f"using {name}, the latest of {len(profiles)} profiles in {place}")


def _age(folder: str, path: str) -> tuple[str, float]:
    name = os.path.basename(folder)
    sys.audit("hlo_cli.time_of_file", path)  # so that `kept_answers` keeps no answer that depends on it
    with suppress(OSError):  # a recording that is deleted meanwhile sorts as the oldest
        return name if _DATE.match(name) else "", os.stat(path).st_mtime
    return "", 0.0


def _walk(folder: str) -> Iterator[tuple[str, list[str]]]:
    """The directories with the names of their files; hidden ones and links to directories are left out."""
    pending, count = [(folder, 0)], 0
    while pending:
        path, depth = pending.pop()
        count += 1
        if count > MAX_DIRECTORIES:
            raise HloError(f"{folder} contains too many directories (limit {MAX_DIRECTORIES:,})", hint=_SUBDIRECTORY)
        names: list[str] = []
        if is_elsewhere(path):
            names, folders = names_in(path)
            pending += [(os.path.join(path, name), depth + 1) for name in folders if depth < MAX_DEPTH]
            yield path, sorted(names)
            continue
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        names += [entry.name] * entry.is_file()  # of a pipe, nothing may ever come
                    elif depth < MAX_DEPTH and not entry.name.startswith("."):
                        pending.append((entry.path, depth + 1))
        except OSError as error:
            if not depth:
                raise unreadable(path, error) from None
        yield path, sorted(names)


def _best_of(folder: str, names: Sequence[str]) -> tuple[str, ...]:
    """The traces in a directory: of each host in the best form; files of other profilers only without these."""
    hosts: dict[str, tuple[int, str]] = {}
    for name in names:
        rank, host = _rank_and_host(name)
        if rank < len(_ENDINGS) and (host not in hosts or rank < hosts[host][0]):
            hosts[host] = rank, name
    best = min((rank for rank, _ in hosts.values()), default=0)
    limit = max(best, _OF_HOSTS - 1)
    return tuple(os.path.join(folder, name) for rank, name in sorted(hosts.values()) if rank <= limit)


def _rank_and_host(name: str) -> tuple[int, str]:
    """How good the form of a file is, by its name, and the host: the name without its ending.

    >>> _rank_and_host("vm.xplane.pb.gz"), _rank_and_host("vm.trace.json.gz"), _rank_and_host("README")[0]
    ((0, 'vm'), (1, 'vm'), 11)
    """
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    for rank, ending in enumerate(_ENDINGS):
        if name.endswith(ending):
            return rank, name.removesuffix(ending)
    return len(_ENDINGS), name


# --- the format of a file ---
# Reads the trace of any profiler from bytes.


Format = Literal["database", "json", "nsys", "rocprof", "xplane"]
HEAD: Final = 1 << 12
"""How many bytes tell the format of a file."""
_XPLANE: Final = bytes((0x0A, 0x12, 0x1A, 0x22))
"""The tags of the fields of an xplane."""
_DATABASE: Final = b"SQLite format 3\0"
_REPORTS: Final = (".nsys-rep", ".qdrep")
_EXPORT: Final = "run `nsys export --type sqlite {}`, and pass the database"
_ROCPROF_JSON: Final = re.compile(rb'^\s*\{\s*"rocprofiler-sdk-tool"')
_HINT: Final = "pass *.xplane.pb or *.trace.json.gz of a profiler, or what nsys or rocprof wrote"


def read_trace_bytes(data: Buffer, name: str) -> Trace:
    """The trace in a file's content; HloError if it is of no known format or corrupt."""
    match format_of(data[:HEAD], name):
        case "database":
            from hlo_cli.syntax.traces.nsys_sqlite import read_sqlite_bytes

            return read_sqlite_bytes(bytes(data), name)
        case "json" if _ROCPROF_JSON.search(data[:HEAD]):
            from hlo_cli.syntax.traces.rocprof import read_rocprof_json

            return read_rocprof_json(data, name)
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


def _read_database(path: str) -> Trace:
    """The trace in a database that is a file, without reading all of it; HloError if it is of no known format."""
    from hlo_cli.syntax.traces.nsys_sqlite import read_sqlite_file

    return read_sqlite_file(path)


# --- traces as values ---
# The traces that a command line names, as values: files, directories of profiles, and standard input.


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
        traces_found = find_traces(argument)
        read = [_read_file(path, stdin, maximum_bytes) for path in traces_found.paths]
        read, note = _of_latest_recording(read)
        if notes := [words for words in (traces_found.note, note) if words is not None]:
            read[0] = replace(read[0], notes=(*notes, *read[0].notes))
        traces += read
    return tuple(traces)


def _of_latest_recording(traces: Sequence[Trace]) -> tuple[list[Trace], str | None]:
    """The traces without those that a host recorded at another time than its latest, and a note on these.

    The files of one profile are recorded at once, one for each host. Two files of one host are two recordings, whose
    sums and means would be those of neither, unless their times overlap, as those of several processes do.
    """
    left: dict[str, list[str]] = {}
    kept: list[Trace] = []
    for trace in sorted(traces, key=lambda each: _recorded(each)[1], reverse=True):
        begin, end = _recorded(trace)
        later = (each for each in kept if each.hostnames == trace.hostnames and _recorded(each)[0] >= end > begin)
        latest = next(later, None) if trace.hostnames else None
        if latest is None:
            kept.append(trace)
        else:
            left.setdefault(latest.name, []).append(trace.name)
    kept.sort(key=traces.index)
    if not left:
        return kept, None
    latest_name, others = next(iter(left.items()))
    number, place = 1 + len(others), os.path.dirname(latest_name)
    name, other = os.path.basename(latest_name), os.path.basename(others[-1])
    where = f" in {place}/" if place else ""
    return (
        kept,
        f"using {name}, the latest of {number} recordings{where}; pass another file, such as {other}, to see it",
    )


def _recorded(trace: Trace) -> tuple[int, int]:
    """When a recording began and ended, in ns since 1970, as jax.profiler writes it; zeros if that is unknown."""
    plane = trace.plane("Task Environment")
    times = [None if plane is None else plane.statistics.get(f"profile_{end}_time") for end in ("start", "stop")]
    begin, end = (time if isinstance(time, int) else 0 for time in times)
    return (begin, end) if begin and end else (0, 0)


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
    expect(str | os.PathLike, "the path of a trace", path)
    traces = read_traces([os.fsdecode(path)])
    if len(traces) > 1:
        hint = f"pass one of its files, such as {traces[0].name}"
        raise HloError(f"{os.fsdecode(path)} contains traces of {len(traces)} hosts", hint=hint)
    return traces[0]


def _read_file(path: str, stdin: BinaryIO | None, maximum_bytes: int) -> Trace:
    """The trace in a file; of a truncated one whose names are missing, with the events in JSON next to it."""
    other = _json_next_to(path)
    try:
        trace = _read_one_file(path, stdin, maximum_bytes)
    except HloError:
        if other is None:
            raise
        with suppress(HloError):  # that of the named file counts, if both are damaged
            events = _read_one_file(other, stdin, maximum_bytes)
            return replace(events, notes=(f"{path} cannot be read; using {other}", *events.notes))
        raise
    if other is None or trace.is_whole:
        return trace
    with suppress(HloError):
        events = _read_one_file(other, stdin, maximum_bytes)
        if events.event_count > _readable_events(trace):
            notes = (*trace.notes, f"using the events of {other}", *events.notes)
            return replace(events, notes=notes, programs=trace.programs, errors=trace.errors, hostnames=trace.hostnames)
    return trace


def _readable_events(trace: Trace) -> int:
    """The events of a damaged trace that have their names and statistics; 0 if they cannot be read.

    The names of a plane follow its events, so that those of the last plane before the damage have lost some.
    """
    with suppress(HloError):
        return replace(trace, planes=trace.planes[:-1]).event_count
    return 0


def _json_next_to(path: str) -> str | None:
    """The file of the same recording in JSON next to an xplane, which has at most a million events; None without one.

    >>> _json_next_to("fixtures/traces/cpu_steps/trace.xplane.pb"), _json_next_to("fixtures/traces/cpu/trace.xplane.pb")
    ('fixtures/traces/cpu_steps/trace.json.gz', None)
    """
    rank, host = _rank_and_host(os.path.basename(path))
    if rank or is_elsewhere(path):
        return None
    names = (f"{host}{ending}" for ending in (".trace.json.gz", ".trace.json", ".json.gz"))
    paths = (os.path.join(os.path.dirname(path), name) for name in names)
    return next((each for each in paths if os.path.isfile(each)), None)


def _read_one_file(path: str, stdin: BinaryIO | None, maximum_bytes: int) -> Trace:
    if path == "-":
        stream = stdin or getattr(sys.stdin, "buffer", None)
        if stream is None or stream.closed or stream.isatty():
            raise HloError("stdin is not available", hint="pass a file or directory, or pipe a trace to stdin")
        data, name = read_bounded(stream, STDIN, maximum_bytes), STDIN
        return read_trace_bytes(decompress(data, name, maximum_bytes=maximum_bytes), name)
    try:
        with open_bounded(path, limit=_ANY_SIZE if os.path.isfile(path) else maximum_bytes) as file:
            head = file.read(HEAD)
            if os.path.isfile(path) and compression_of(head) is None and format_of(head, path) == "database":
                return _read_database(path)
            data = head if os.path.isfile(path) else head + file.read()
        if os.path.isfile(path):
            data = read_bytes(path, limit=MAX_FILE_BYTES)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return read_trace_bytes(decompress(data, path, maximum_bytes=maximum_bytes), path)
