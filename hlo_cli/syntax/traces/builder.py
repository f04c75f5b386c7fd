"""How a trace is built event by event, for formats other than xplane, with kernels of GPUs as in an xplane."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hlo_cli.ir.traces.trace import PS_PER_NS, EventMetadata, Events, Line, Plane, Trace, Value
from hlo_cli.source import HloError, counted
from hlo_cli.syntax.traces.xplane_columns import (
    DOUBLE,
    REFERENCE,
    SIGNED,
    UNSIGNED,
    Names,
    OwnStatistics,
    Statistics,
    narrow,
)

# --- events one by one ---
# Builds a trace event by event, for formats that are not xplane: columns grow, and equal texts are kept once.


INTEGERS: Final = frozenset(
    """
    run_id device_ordinal program_id symbol_id step_num step_id group_id correlation_id context_id stream_id queue_id _r
    flops model_flops bytes_accessed raw_bytes_accessed device_offset_ps device_duration_ps min_duration_ps
    self_duration_ps dma_stall_duration_ps num_occurrences replica partition global_device_id num_replicas
    num_partitions cuda_graph_id cuda_graph_node_id cuda_graph_exec_id unique_hlo_op_id scope_range_id kernel_id
    dispatch_id flow offload_core_id tc_offload_start_id global_chip_id replica_id is_async all_reduce_id
    """.split()
)
"""Statistics that are integers in an xplane; formats that have texts alone write them in digits."""
FLOATS: Final = frozenset(("occupancy_pct", "theoretical_occupancy_pct", "time_scale_multiplier"))
_LIMIT: Final = 1 << 63  # times and values are int64 in the columns of a trace
_MAX_DIGITS: Final = 21  # 2^64 has 20 digits; more is text
_MAX_NUMBERS: Final = 1 << 16  # a bound on the memory of values that do not recur, such as correlation ids


def number_of(name: str, text: str) -> Value:
    """The value of a statistic from its text: a number if statistics of this name are numbers.

    >>> number_of("run_id", "-7"), number_of("hlo_op", "7")
    (-7, '7')
    """
    try:
        if name in INTEGERS and len(text) < _MAX_DIGITS and text.isascii():
            return int(text)
        if name in FLOATS:
            return float(text)
    except ValueError:
        pass
    return text


def printable(text: str) -> str:
    """A text in which lone surrogates, which cannot be written, are replaced.

    >>> printable("a" + chr(0xD800))
    'a?'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class LineBuilder:
    """A line that grows: times are picoseconds from `origin_ns` of the trace."""

    def __init__(self, id: int, name: str, texts: Texts) -> None:
        self.id, self.name, self._texts = id, name, texts
        self.kinds, self.begins, self.durations, self.counts, self.occurrences = (array("q") for _ in range(5))
        self._codes = array("I")

    def __len__(self) -> int:
        return len(self.kinds)

    def add(
        self, kind: int, begin_ps: int, duration_ps: int, statistics: Mapping[str, Value], occurrences: int = 0
    ) -> None:
        """Adds an event, or the sum of some; OverflowError if a number has more than 64 bits."""
        if not (-_LIMIT <= begin_ps < _LIMIT and -_LIMIT <= duration_ps < _LIMIT):
            raise OverflowError
        self.kinds.append(kind)
        self.begins.append(begin_ps)
        self.durations.append(duration_ps)
        self.occurrences.append(occurrences)
        self.counts.append(len(statistics))
        code_of, append = self._texts.code_of, self._codes.append
        for name, value in statistics.items():
            append(code_of(name, value))

    def line(self, kinds: Mapping[int, EventMetadata], origin_ns: int) -> Line:
        """The line; nothing may be added afterwards."""
        return Line(self.id, self.name, self._events, kinds=lambda: kinds, timestamp_ns=origin_ns, origin_ns=origin_ns)

    def _events(self) -> Events:
        grown = (self.kinds, self.begins, self.durations, self.occurrences, self.counts)
        kinds, begins, durations, occurrences, counts = (
            np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64) for column in grown
        )
        codes = np.frombuffer(self._codes, np.uintc) if self._codes else np.zeros(0, np.uintc)
        firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        own = OwnStatistics(b"", firsts, self._texts.statistics(codes), self._texts.names)
        return Events(kinds, begins, durations, occurrences, own.of, own.at)


class Texts:
    """The distinct texts of a trace, each with an id, and its distinct statistics, each with a code.

    Of numbers, only some are remembered: of many statistics, every event has another.
    """

    def __init__(self) -> None:
        self.names = Names()
        self._known: dict[str, int] = {}
        self._codes: dict[tuple[str, Value], int] = {}
        self._numbers: dict[tuple[str, Value], int] = {}
        self._ids, self._tags, self._values = array("q"), bytearray(), array("q")

    def code_of(self, name: str, value: Value) -> int:
        """The code of a statistic; the text of a number becomes one if statistics of its name are numbers."""
        known = self._codes if type(value) is str else self._numbers if type(value) is int else {}
        code = known.get((name, value))
        if code is None:
            code = len(self._ids)
            number = number_of(name, value) if isinstance(value, str) else value
            if isinstance(number, str) or len(known) < _MAX_NUMBERS:
                known[name, value] = code
            tag, bits = _bits(number, self)
            self._ids.append(self.id_of(name))
            self._tags.append(tag)
            self._values.append(bits)
        return code

    def statistics(self, codes: NDArray[np.uintc]) -> Statistics:
        """The statistics with some codes."""
        ids, values = (np.array(column, np.int64)[codes] for column in (self._ids, self._values))
        tags = np.frombuffer(bytes(self._tags), np.uint8)[codes]
        return Statistics(narrow(ids), tags, narrow(values), np.broadcast_to(np.int64(0), len(codes)))

    def id_of(self, text: str) -> int:
        """The id of a text."""
        id = self._known.get(text)
        if id is None:
            id = self._known[text] = len(self._known)
            self.names[id] = printable(text)
        return id


class Kinds:
    """The distinct kinds of events of a plane."""

    def __init__(self) -> None:
        self.by_id: dict[int, EventMetadata] = {}
        self._known: dict[tuple[str, str], int] = {}

    def id_of(self, name: str, display_name: str = "") -> int:
        """The id of the metadata with these names."""
        key = name, display_name
        id = self._known.get(key)
        if id is None:
            id = self._known[key] = len(self._known) + 1
            self.by_id[id] = EventMetadata(id, printable(name), printable(display_name))
        return id


class PlaneBuilder:
    """A plane that grows."""

    def __init__(self, id: int, name: str, texts: Texts) -> None:
        self.id, self.name, self._texts = id, name, texts
        self.kinds = Kinds()
        self.lines: dict[object, LineBuilder] = {}
        self.statistics: dict[str, Value] = {}

    def line(self, key: object, id: int = 0, name: str = "") -> LineBuilder:
        """The line of a key, which may be new."""
        builder = self.lines.get(key)
        if builder is None:
            builder = self.lines[key] = LineBuilder(id, name, self._texts)
        return builder

    def plane(self, origin_ns: int = 0) -> Plane:
        """The plane; nothing may be added afterwards."""
        lines = [line.line(self.kinds.by_id, origin_ns) for line in self.lines.values()]
        return Plane(self.id, self.name, lines, lambda: self.kinds.by_id, lambda: self.statistics)


def _bits(value: Value, texts: Texts) -> tuple[int, int]:
    """The tag and the 64 bits of a value, signed."""
    if isinstance(value, str):
        return REFERENCE, texts.id_of(value)
    if isinstance(value, float):
        bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
        return DOUBLE, bits
    if isinstance(value, bytes):
        return REFERENCE, texts.id_of(value.decode("utf-8", "replace"))
    if -_LIMIT <= value < _LIMIT:
        return SIGNED, value
    return (UNSIGNED, value - 2 * _LIMIT) if 0 <= value < 2 * _LIMIT else (REFERENCE, texts.id_of(str(value)))


# --- kernels on GPUs ---
# Builds a trace of kernels on GPUs in the form that XLA's own profiler gives it, from what other profilers wrote.


HOST: Final = "/host:CPU"
_PS_PER_MS: Final = 10**9  # origins are whole milliseconds, see `origin_ps`
_FAR: Final = 1 << 62
"""Picoseconds: a clock beyond counts from an origin."""


def origin_ps(begin_ps: int, far_ps: int) -> int:
    """The time that a trace counts from, by its first event: 0, or if that begins beyond `far_ps`, its millisecond.

    Whole milliseconds, so that the times of events keep their digits; all in picoseconds.

    >>> origin_ps(1_795_453_653_675_443_111_111, 1 << 62), origin_ps(29_525_000, 1 << 62)
    (1795453653675000000000, 0)
    """
    return begin_ps // _PS_PER_MS * _PS_PER_MS if begin_ps > far_ps else 0


class KernelTrace:
    """A trace that grows kernel by kernel; times are picoseconds of one clock.

    >>> building = KernelTrace("t.csv", "rocprof")
    >>> building.add_kernel(0, 7, "loop_fusion", 5_000_000, 1_000_000, {"hlo_op": "fusion.1"})
    >>> [plane] = building.trace().planes
    >>> plane.name, plane.lines[0].name, plane.lines[0].begins_ps.tolist()
    ('/device:GPU:0', 'Stream #7', [5000000])
    """

    def __init__(self, name: str, format: str) -> None:
        self.name, self._format = name, format
        self.notes: list[str] = []
        self._texts = Texts()
        self._devices: dict[int, PlaneBuilder] = {}
        self._host = PlaneBuilder(0, HOST, self._texts)
        self._origin_ps: int | None = None
        self._skipped = self._count = 0

    def device(self, number: int) -> PlaneBuilder:
        """The plane of a device, which may be new."""
        device = self._devices.get(number)
        if device is None:
            device = self._devices[number] = PlaneBuilder(number + 1, f"/device:GPU:{number}", self._texts)
        return device

    def add_kernel(
        self, device: int, stream: int, name: str, begin_ps: int, duration_ps: int, statistics: Mapping[str, Value]
    ) -> None:
        """Adds a kernel, or a copy, that ran on a stream of a device."""
        self._add(self.device(device), stream, f"Stream #{stream}", name, begin_ps, duration_ps, statistics)

    def add_range(
        self, thread: int, name: str, begin_ps: int, duration_ps: int, statistics: Mapping[str, Value]
    ) -> None:
        """Adds a range of the host, such as a step."""
        self._add(self._host, thread, f"thread {thread}", name, begin_ps, duration_ps, statistics)

    def add_sum(self, name: str, calls: int, total_ps: int) -> None:
        """Adds the sum of all calls of a kernel, without a time."""
        plane = self.device(0)
        try:
            plane.line(0, 0, "Kernels").add(plane.kinds.id_of(name), 0, total_ps, {}, calls)
            self._count += 1
        except OverflowError:
            self._skipped += 1

    def skip(self) -> None:
        """Counts what has no valid time."""
        self._skipped += 1

    def _add(
        self,
        plane: PlaneBuilder,
        id: int,
        line: str,
        name: str,
        begin_ps: int,
        duration_ps: int,
        statistics: Mapping[str, Value],
    ) -> None:
        if self._origin_ps is None:
            self._origin_ps = origin_ps(begin_ps, _FAR)
        builder = plane.lines.get(id) or plane.line(id, id, line)
        try:
            builder.add(plane.kinds.id_of(name), begin_ps - self._origin_ps, duration_ps, statistics)
            self._count += 1
        except OverflowError:
            self._skipped += 1

    def trace(self) -> Trace:
        """The trace; HloError if it has no events."""
        if not self._count:
            reason = f" ({self.notes[0]})" if self.notes else ""
            if self._skipped:
                kernels = f"{self.name} contains no kernels with a valid time"
                hint = "each needs a begin and an end in whole nanoseconds, and the end must not be before the begin"
                raise HloError(f"{kernels}: {counted(self._skipped, 'rows')} without one{reason}", hint=hint)
            raise HloError(f"{self.name} contains no kernels{reason}", hint="record it while a program runs")
        if self._skipped:
            self.notes.append(f"omitted {counted(self._skipped, 'rows')} of {self.name} without a valid time")
        origin_ns = (self._origin_ps or 0) // PS_PER_NS
        planes = [self._host] if self._host.lines else []
        planes += [self._devices[number] for number in sorted(self._devices)]
        return Trace(self.name, self._format, [plane.plane(origin_ns) for plane in planes], notes=tuple(self.notes))
