"""Which kernels a database of `nsys export --type sqlite` has, and in which ranges of XLA they were launched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from hlo_cli.ir.traces.trace import PS_PER_NS, Trace, Value
from hlo_cli.source import HloError, counted
from hlo_cli.syntax.traces import rocprof
from hlo_cli.syntax.traces.builder import KernelTrace
from hlo_cli.syntax.traces.databases import Database, Row, limit
from hlo_cli.syntax.traces.kernel_tables import MODULE, annotation_of, statistics_of, step_of

if TYPE_CHECKING:
    from sqlite3 import Connection


# --- ranges around a time ---
# Which NVTX ranges of XLA are around a point of time in a thread: the innermost module and instruction.


_OPEN: Final = 1 << 63  # after every time: a range that was open when the recording stopped
Values = Mapping[str, Value]


class Point(NamedTuple):
    """A point of time in a thread: the place among those of the thread, in the order of asking."""

    thread: int
    place: int


class Ranges:
    """Ranges and points are added first; `solve` then finds the ranges around all points at once.

    >>> ranges = Ranges()
    >>> _ = ranges.add("XlaModule:#hlo_module=f,program_id=1#", 0, 100, 7)
    >>> _ = ranges.add("Thunk:#hlo_op=dot.1#", 10, 20, 7)
    >>> inside, after = ranges.point(15, 7), ranges.point(50, 7)
    >>> ranges.solve()
    >>> ranges.around(inside)[1], ranges.around(after)[1]
    ({'hlo_op': 'dot.1'}, None)
    """

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int, str, Values]]] = {}
        self._points: dict[int, list[int]] = {}
        self._found: dict[int, list[tuple[Values | None, Values | None]]] = {}

    def add(self, text: str, start: int, end: int | None, thread: int) -> tuple[str, Values] | None:
        """Adds a range if it is one of XLA; one without an end is open. A step is returned instead."""
        annotation = annotation_of(text)
        if annotation is None:
            return step_of(text)
        self._ranges.setdefault(thread, []).append((start, _OPEN if end is None else end, *annotation))
        return None

    def point(self, time: int, thread: int) -> Point:
        """Adds a point."""
        points = self._points.setdefault(thread, [])
        points.append(time)
        return Point(thread, len(points) - 1)

    def around(self, point: Point) -> tuple[Values | None, Values | None]:
        """What the innermost module and the innermost instruction around a point hold."""
        return self._found[point.thread][point.place]

    def solve(self) -> None:
        """Finds the ranges around all points, in one pass over each thread in the order of time."""
        for thread, points in self._points.items():
            ranges = sorted(self._ranges.get(thread, ()), key=lambda range_: (range_[0], -range_[1]))
            order = sorted(range(len(points)), key=points.__getitem__)
            positions: list[tuple[Values | None, Values | None]] = [(None, None)] * len(points)
            stack: list[tuple[int, Values | None, Values | None]] = []
            following = 0
            for at in order:
                time = points[at]
                while following < len(ranges) and ranges[following][0] <= time:
                    start, end, kind, values = ranges[following]
                    following += 1
                    while stack and stack[-1][0] < start:
                        stack.pop()
                    module = stack[-1][1] if stack else None
                    inner = (values, None) if kind == MODULE else (module, values)
                    stack.append((end, *inner))
                while stack and stack[-1][0] < time:
                    stack.pop()
                positions[at] = stack[-1][1:] if stack else (None, None)
            self._found[thread] = positions


# --- databases ---
# Reads the databases of `nsys export --type sqlite`: kernels, joined to the ranges of XLA in which they were launched.
#
# A kernel and its launch have the same correlation id; the instruction is that of the innermost range around the launch
# in its thread. A kernel in a CUDA graph belongs to the range in which its node was made. Tables exist only if they
# have rows, and columns differ by version: what is missing is done without.


_PROCESS: Final = ~0xFFFFFF
"""The bits of a thread's number that are its process."""
_MAX_COPIES: Final = 24  # nodes of graphs are clones of clones; in a damaged table they may go round in a circle
# `CUpti_ActivityMemcpyKind` of cupti_activity.h; the names are those of XLA's profiler
_COPIES: Final = {1: "MemcpyH2D", 2: "MemcpyD2H", 8: "MemcpyD2D", 10: "MemcpyP2P"}
_KERNELS, _COPY, _SET = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_LAUNCHES, _RANGES, _NODES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUDA_GRAPH_NODE_EVENTS"
_GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_EVENTS: Final = (_KERNELS, _GRAPHS, _COPY, _SET)
"""The tables of what runs on devices; one row of graphs is the execution of a whole CUDA graph."""
_GPUS: Final = "TARGET_INFO_GPU"
_ABOUT_GPU: Final = {  # names that XLA's own profiler gives the same facts in an xplane
    "name": "gpu_device_name",
    "smCount": "core_count",
    "memoryBandwidth": "memory_bandwidth",
    "totalMemory": "memory_size",
    "computeMajor": "compute_cap_major",
    "computeMinor": "compute_cap_minor",
}
_COLUMNS: Final = {
    _KERNELS: "start end deviceId streamId correlationId globalPid demangledName shortName graphNodeId graphId",
    _GRAPHS: "start end deviceId streamId correlationId globalPid graphId graphExecId",
    _COPY: "start end deviceId streamId correlationId globalPid copyKind bytes graphNodeId",
    _SET: "start end deviceId streamId correlationId globalPid bytes graphNodeId",
    _LAUNCHES: "start correlationId globalTid",
    _RANGES: "start end eventType text textId globalTid",
    _NODES: "start globalTid graphNodeId originalGraphNodeId",
    _GPUS: "id name smCount memoryBandwidth totalMemory computeMajor computeMinor",
    "StringIds": "id value",
}


def read_sqlite_file(path: str) -> Trace:
    """Reads a database; HloError if it is damaged or has no kernels. Nothing is written, not even a lock."""
    import sqlite3

    uri = f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(uri, uri=True)
    except sqlite3.Error as error:
        raise _damaged(path, error) from None
    return _read_database(connection, path)


def read_sqlite_bytes(data: bytes, name: str) -> Trace:
    """Reads a database that is in memory."""
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data)
    except (sqlite3.Error, OverflowError, MemoryError) as error:
        raise _damaged(name, error) from None
    return _read_database(connection, name)


def _damaged(name: str, error: Exception) -> HloError:
    return HloError(f"cannot read the database {name}: {error}", hint="export or record it again")


def _read_database(connection: Connection, name: str) -> Trace:
    import sqlite3

    with closing(connection):
        try:
            limit(connection)
            of_rocprof = Database(connection, rocprof.COLUMNS, rocprof.known_table)
            if rocprof.is_rocpd(of_rocprof):
                return rocprof.read_rocpd(of_rocprof, name)
            database = Database(connection, _COLUMNS, lambda table: table)
            if not {_KERNELS, _GRAPHS, _RANGES} & database.tables.keys():
                hint = "pass a database of `nsys export` or of rocprofv3 (rocpd)"
                raise HloError(f"{name} is not a database of Nsight Systems or rocprofv3", hint=hint)
            return _Reading(database, name).trace()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:  # messages may quote damaged bytes
            raise _damaged(name, error) from None


class _Reading:
    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._trace = KernelTrace(name, "Nsight Systems")
        self._texts = {row["id"]: row["value"] for row in database.rows("StringIds", "id", "value")}
        self._ranges = Ranges()
        self._autotuning = 0

    def trace(self) -> Trace:
        """The trace: ranges first, then launches, then kernels."""
        self._read_ranges()
        launches = self._launches()
        nodes = self._nodes()
        self._ranges.solve()
        devices = self._devices()
        for table in _EVENTS:
            for row in self._database.rows(table, "start", "end"):
                self._add(table, row, launches, nodes, devices)
        if self._autotuning:
            self._trace.notes.append(f"omitted {counted(self._autotuning, 'kernels')} of autotuning")
        self._describe_devices(devices)
        if _RANGES not in self._database.tables:
            self._trace.notes.append("no NVTX ranges: record with `nsys profile --trace=cuda,nvtx`")
        return self._trace.trace()

    def _read_ranges(self) -> None:
        for row in self._database.rows(_RANGES, "start", "globalTid"):
            text = row.get("text") or self._texts.get(row.get("textId"))
            start, end, thread = row["start"], row.get("end"), row["globalTid"]
            if not (isinstance(text, str) and isinstance(start, int) and isinstance(thread, int)):
                continue
            range_ = self._ranges.add(text, start, end if isinstance(end, int) else None, thread)
            if range_ is not None and isinstance(end, int) and end >= start:
                name, own = range_
                self._trace.add_range(thread & ~_PROCESS, name, start * PS_PER_NS, (end - start) * PS_PER_NS, own)

    def _launches(self) -> Mapping[tuple[int, int], Point]:
        """Where each launch is in its thread, by process and correlation id."""
        launches: dict[tuple[int, int], Point] = {}
        for row in self._database.rows(_LAUNCHES, "start", "correlationId", "globalTid"):
            start, correlation, thread = row["start"], row["correlationId"], row["globalTid"]
            if isinstance(start, int) and isinstance(correlation, int) and isinstance(thread, int):
                launches[thread & _PROCESS, correlation] = self._ranges.point(start, thread)
        return launches

    def _nodes(self) -> Mapping[int, Point]:
        """Where each node of a CUDA graph was made; that of a copy is that of its original."""
        made: dict[int, Point] = {}
        originals: dict[int, int] = {}
        for row in self._database.rows(_NODES, "start", "globalTid", "graphNodeId"):
            start, thread, node = row["start"], row["globalTid"], row["graphNodeId"]
            original = row.get("originalGraphNodeId")
            if isinstance(start, int) and isinstance(thread, int) and isinstance(node, int):
                made[node] = self._ranges.point(start, thread)
                if isinstance(original, int) and original != node:
                    originals[node] = original
        strings = {}
        for node in made:
            origin = node
            for _ in range(_MAX_COPIES):
                origin = originals.get(origin, origin)
            strings[node] = made.get(origin, made[node])
        return strings

    def _devices(self) -> Mapping[tuple[int, int], int]:
        """The number of each device of each process: its own, unless two processes have the same."""
        devices = set()
        for table in _EVENTS:
            devices |= {
                _device_of(row) for row in self._database.rows(table, "deviceId", only=("deviceId", "globalPid"))
            }
        numbers = [device for _, device in devices]
        if len(set(numbers)) == len(numbers):
            return {device: device[1] for device in devices}
        return {device: number for number, device in enumerate(sorted(devices))}

    def _describe_devices(self, devices: Mapping[tuple[int, int], int]) -> None:
        """Gives the planes of devices the statistics that XLA's profiler would."""
        known = {row["id"]: row for row in self._database.rows(_GPUS, "id")}
        for (_, device), number in devices.items():
            about = known.get(device, {})
            own = {to: about.get(name) for name, to in _ABOUT_GPU.items()}
            plane = self._trace.device(number)
            plane.statistics |= {name: value for name, value in own.items() if isinstance(value, int | str)}
            plane.statistics["device_vendor"] = "Nvidia"

    def _add(
        self,
        table: str,
        row: Row,
        launches: Mapping[tuple[int, int], Point],
        nodes: Mapping[int, Point],
        devices: Mapping[tuple[int, int], int],
    ) -> None:
        start, end, correlation = row["start"], row["end"], row.get("correlationId")
        if not (isinstance(start, int) and isinstance(end, int)) or end < start:
            self._trace.skip()
            return
        process, device = _device_of(row)
        own: dict[str, Value] = {}
        launch = None
        if isinstance(correlation, int):
            own["correlation_id"] = correlation
            launch = launches.get((process, correlation))
        module, thunk = self._ranges.around(launch) if launch is not None else (None, None)
        node = row.get("graphNodeId")
        if isinstance(node, int) and node:
            own["cuda_graph_node_id"] = node
            if node in nodes:
                thunk = self._ranges.around(nodes[node])[1] or thunk
        graph = row.get("graphExecId")
        if table == _GRAPHS and isinstance(graph, int):
            own["cuda_graph_exec_id"] = graph
        if module is not None and "program_id" not in module:
            self._autotuning += 1
            return
        own |= statistics_of(module or {}, thunk or {})
        stream = row.get("streamId")
        self._trace.add_kernel(
            devices.get((process, device), device),
            stream if isinstance(stream, int) else 0,
            self._name(table, row),
            start * PS_PER_NS,
            (end - start) * PS_PER_NS,
            own,
        )

    def _name(self, table: str, row: Row) -> str:
        if table == _SET:
            return "Memset"
        if table == _GRAPHS:
            graph = row.get("graphExecId")
            return f"CudaGraphExec:{graph if isinstance(graph, int) else 0}"  # as XLA's profiler names it
        if table == _COPY:
            kind = row.get("copyKind")
            return _COPIES.get(kind, "Memcpy") if isinstance(kind, int) else "Memcpy"
        text = self._texts.get(row.get("demangledName")) or self._texts.get(row.get("shortName"))
        return text if isinstance(text, str) else ""


def _device_of(row: Row) -> tuple[int, int]:
    """The process and the number of a device."""
    process, device = row.get("globalPid"), row.get("deviceId")
    return (process & _PROCESS if isinstance(process, int) else 0, device if isinstance(device, int) else 0)
