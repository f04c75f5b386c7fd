"""What tables of kernels say that profilers of GPUs write as comma-separated values: nsys, rocprof, rocprofv3."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Trace, Value
from hlo_cli.source import counted
from hlo_cli.syntax.traces.builder import KernelTrace

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer


# --- tables ---
# Tables of comma-separated values that profilers write: which profiler's, and their rows with columns by name.


MAX_PREAMBLE: Final = 50
"""The most lines before the header; nsys writes what it does there."""
# Names of C++ templates have thousands of characters; a file without quotes at its end would be one cell.
_MAX_CELL_CHARACTERS: Final = 1 << 20
_PIECE: Final = 1 << 20  # decoded at once: files of many GB are read without a copy of them
# the units that nsys has for columns of times: by default ns, as chosen otherwise
_PS_PER_UNIT: Final = {"ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
_UNIT: Final = re.compile(r"(.*) \(([^()]{1,20})\)")
_HEADERS: Final[tuple[tuple[Literal["nsys", "rocprof"], frozenset[str]], ...]] = (
    ("nsys", frozenset(("name", "projected start", "projected duration"))),
    ("nsys", frozenset(("start", "duration", "device", "strm", "name"))),
    ("rocprof", frozenset(("kernel_name", "start_timestamp", "end_timestamp"))),
    ("rocprof", frozenset(("name", "calls", "totaldurationns"))),
    ("rocprof", frozenset(("kernelname", "beginns", "endns"))),
)
"""By profiler, columns that tell its tables from others."""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table: names in lower case, and the picoseconds of those that are times."""

    columns: Mapping[str, int]
    picoseconds: Mapping[str, int]


def table_kind(head: bytes) -> Literal["nsys", "rocprof"] | None:
    """Whose table a file is that begins with these bytes; None if it is no table of a profiler.

    >>> table_kind(b'"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"')
    'rocprof'
    """
    if b"," not in head:
        return None
    lines = head.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:MAX_PREAMBLE]
    return next((kind for line in lines if (kind := _kind_of(line)) is not None), None)


def _kind_of(line: str) -> Literal["nsys", "rocprof"] | None:
    names = _header(line).columns.keys() if "," in line else set[str]()
    return next((kind for kind, columns in _HEADERS if columns <= names), None)


def _read_table(data: Buffer) -> tuple[Header, Iterator[Sequence[str]]]:
    """The header of a table, and its rows; rows that are too short have empty cells at their end.

    Lines before the header are skipped; ValueError if there is no header.
    """
    lines = _lines(data)
    for _, line in zip(range(MAX_PREAMBLE), lines, strict=False):
        if _kind_of(line) is not None:
            header = _header(line)
            width = max(header.columns.values()) + 1
            return header, _rows(lines, width)
    raise ValueError


def _rows(lines: Iterator[str], width: int) -> Iterator[Sequence[str]]:
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    try:
        for row in csv.reader(lines):
            if row:
                yield row + [""] * (width - len(row))
    except csv.Error as error:
        raise ValueError(error) from None


def picoseconds(text: str, unit_ps: int) -> int | None:
    """A time in picoseconds; None if the cell is no number.

    >>> picoseconds("10758298", 1000), picoseconds("1.5", 1000), picoseconds("", 1000)
    (10758298000, 1500, None)
    """
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text) * unit_ps
    try:
        number = Decimal(text.replace(",", ""))
        return int((number * unit_ps).to_integral_value()) if abs(number) < 1 << 64 else None
    except InvalidOperation:
        return None


def _header(line: str) -> Header:
    columns: dict[str, int] = {}
    times: dict[str, int] = {}
    for index, cell in enumerate(next(csv.reader([line]), [])):
        match = _UNIT.fullmatch(cell.strip())
        name = (match[1] if match else cell).strip().lower()
        columns.setdefault(name, index)
        times.setdefault(name, _PS_PER_UNIT.get(match[2], 1000) if match else 1000)
    return Header(columns, times)


def _lines(data: Buffer) -> Iterator[str]:
    """The lines of a file, decoded a piece at a time; lone carriage returns and NULs are white space."""
    at, rest = 0, b""
    while at < len(data):
        rest += data[at : at + _PIECE]
        at += _PIECE
        *lines, rest = rest.split(b"\n")
        for line in lines:
            yield _clean(line) + "\n"
        if len(rest) > _MAX_CELL_CHARACTERS:
            raise ValueError
    if rest:
        yield _clean(rest)


def _clean(line: bytes) -> str:
    return line.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r", "").replace("\0", " ")


# --- annotations of XLA ---
# The annotations of XLA in NVTX ranges: which module and instruction a range is for.
#
# Mirrors xla/backends/gpu/runtime/annotation.cc. A range of a module is
# `TSL:XlaModule:#hlo_module=jit_f,program_id=7#`, one of an instruction in it `TSL:Thunk:#name=NAME,hlo_op=dot.1#`; not
# all exports have the `TSL:`.


MODULE, THUNK = "XlaModule", "Thunk"
_RANGE: Final = re.compile(r"(?:TSL:)?(XlaModule|Thunk|XlaLauncher):#([^#]*+)#?")
_ITEM: Final = re.compile(r"(?:^|,)(prefix|hlo_module|program_id|name|hlo_op|unique_hlo_op_id|global|local|process)=")
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_MAX_ITEMS: Final = 20  # a step has two or three; ranges of other tools may have any number of commas
_INTEGERS: Final = frozenset(("program_id", "unique_hlo_op_id", "global", "local", "process"))


@lru_cache(maxsize=1 << 16)
def annotation_of(text: str) -> tuple[str, Mapping[str, Value]] | None:
    """The kind of an annotation, and what it holds; None if a range is not one of XLA.

    >>> annotation_of("TSL:XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_f,program_id=7#")
    ('XlaModule', {'prefix': 'jit(f)/jit(main)', 'hlo_module': 'jit_f', 'program_id': 7})
    >>> annotation_of("Thunk:#name=while/body/dot_general[x=1,y=2],hlo_op=dot.1#")
    ('Thunk', {'name': 'while/body/dot_general[x=1,y=2]', 'hlo_op': 'dot.1'})
    """
    match = _RANGE.match(text)
    if match is None:
        return None
    content = match[2]
    items = list(_ITEM.finditer(content))
    values: dict[str, Value] = {}
    for item, following in zip(items, [*items[1:], None], strict=True):
        name, value = item[1], content[item.end() : following.start() if following else len(content)]
        values[name] = int(value) if name in _INTEGERS and _INTEGER.fullmatch(value) else value
    return match[1], values


def step_of(text: str) -> tuple[str, Mapping[str, Value]] | None:
    """The name and the statistics of a step, from the range of a `StepTraceAnnotation`; None for other ranges.

    >>> step_of("TSL:train#_r=1,step_num=3#")
    ('train', {'_r': 1, 'step_num': 3})
    """
    if "step_num=" not in text:
        return None
    name, _, content = text.removeprefix("TSL:").rstrip("#").partition("#")
    values: dict[str, Value] = {}
    for item in content.split(",")[:_MAX_ITEMS]:
        key, _, value = item.partition("=")
        values[key] = int(value) if _INTEGER.fullmatch(value) else value
    return (name, values) if isinstance(values.get("step_num"), int) else None


def statistics_of(module: Mapping[str, Value], thunk: Mapping[str, Value]) -> dict[str, Value]:
    """The statistics that a trace of XLA's own profiler has for a kernel of these ranges; `hlo_op` is the last part."""
    both = {**module, **thunk}
    return {
        name: both[name] for name in ("hlo_module", "program_id", "hlo_op", "name", "unique_hlo_op_id") if name in both
    }


# --- nsys stats ---
# Reads tables of `nsys stats --format csv`: `nvtx_gpu_proj_trace` and `cuda_gpu_trace`.
#
# The former has the time on the GPU of each range, among them those of XLA's modules and instructions; the latter has
# the kernels by name. Mirrors the joins of nsys-jax (NVIDIA/JAX-Toolbox, nsys_jax/data_loaders.py).


_DEVICE: Final = re.compile(r".*\((\d{1,9})\)")
_FEWEST: Final = 2
"""Whole executions of a module that tell how many operations one has."""
_DEEPEST: Final = 100  # ranges name their parents, and in a damaged table they may go round in a circle


@dataclass(frozen=True, slots=True, eq=False)
class _Range:
    """A range of XLA; `execution` of a module is its number among those of the same program and thread."""

    id: str
    parent: str
    kind: str
    values: Mapping[str, Value]
    begin_ps: int
    duration_ps: int
    thread: tuple[str, str]
    operations: int


def read_nsys_csv(data: Buffer, name: str) -> Trace:
    """Reads a table; HloError if it has no kernels or ranges."""
    trace = KernelTrace(name, "Nsight Systems")
    ranges: list[_Range] = []
    try:
        header, rows = _read_table(data)
        if "projected start" in header.columns:
            _read_ranges(trace, header, rows, ranges)
        else:
            _read_kernels(trace, header, rows)
    except ValueError:
        trace.notes.append(f"{name} is damaged; rows after the damage are omitted")
    _add_thunks(trace, ranges)
    return trace.trace()


def _read_kernels(trace: KernelTrace, header: Header, rows: Iterable[Sequence[str]]) -> None:
    columns = header.columns
    start, duration = columns["start"], columns["duration"]
    units = header.picoseconds["start"], header.picoseconds["duration"]
    device, stream, name, correlation = columns["device"], columns["strm"], columns["name"], columns.get("corrid")
    for row in rows:
        begin, length = picoseconds(row[start], units[0]), picoseconds(row[duration], units[1])
        if begin is None or length is None:
            trace.skip()
            continue
        match = _DEVICE.match(row[device])
        own: dict[str, Value] = {}
        if correlation is not None and row[correlation].isdecimal():
            # CUPTI counts in 32 bits; what is longer is damage, and any number will do
            own["correlation_id"] = int(row[correlation][:18])
        # CUDA numbers streams in 32 bits
        line = int(row[stream]) if row[stream].isdecimal() and len(row[stream]) < 10 else 0
        trace.add_kernel(int(match[1]) if match else 0, line, row[name], begin, length, own)


def _read_ranges(trace: KernelTrace, header: Header, rows: Iterable[Sequence[str]], ranges: list[_Range]) -> None:
    columns, units = header.columns, header.picoseconds
    at = [columns.get(name, -1) for name in ("rangeid", "parentid", "pid", "tid", "numgpuops")]
    for row in rows:
        text = row[columns["name"]]
        annotation, step = annotation_of(text), step_of(text)
        if annotation is None and step is None:
            continue
        times = [
            picoseconds(row[columns[column]], units[column]) for column in ("projected start", "projected duration")
        ]
        if times[0] is None or times[1] is None:
            trace.skip()
            continue
        id, parent, pid, tid, operations = (row[place] if place >= 0 else "" for place in at)
        if step is not None:
            trace.add_range(int(tid) if tid.isdecimal() and len(tid) < 19 else 0, step[0], times[0], times[1], step[1])
        elif annotation is not None:
            count = int(operations) if operations.isdecimal() and len(operations) < 19 else 0
            ranges.append(_Range(id, parent, *annotation, times[0], times[1], (pid, tid), count))


def _add_thunks(trace: KernelTrace, ranges: Sequence[_Range]) -> None:
    """Adds the ranges of instructions that have no others inside, as kernels of the device of their thread."""
    by_id: dict[str, list[_Range]] = {}
    for range_ in ranges:
        by_id.setdefault(range_.id, []).append(range_)
    outer = {id(parent) for range_ in ranges if range_.kind == THUNK and (parent := _parent(range_, by_id)) is not None}
    threads = sorted({range_.thread for range_ in ranges if range_.kind == MODULE}, key=_numbers)
    devices = {thread: number for number, thread in enumerate(threads)}
    runs, cut = _executions([range_ for range_ in ranges if range_.kind == MODULE])
    lost = autotuning = 0
    for range_ in ranges:
        if range_.kind != THUNK or id(range_) in outer:
            continue
        module = _module_of(range_, by_id)
        if module is None:
            lost += 1
        elif "program_id" not in module.values:
            autotuning += 1
        elif id(module) not in cut:
            own = {**statistics_of(module.values, range_.values), "run_id": runs[id(module)]}
            op = own.get("hlo_op", "")
            name = op if isinstance(op, str) else ""
            trace.add_kernel(devices[module.thread], 0, name, range_.begin_ps, range_.duration_ps, own)
    if lost:
        trace.notes.append(f"omitted {counted(lost, 'ranges')} outside of any module")
    if autotuning:
        trace.notes.append(f"omitted {counted(autotuning, 'ranges')} of autotuning")
    if cut:
        trace.notes.append(f"omitted {counted(len(cut), 'executions')} truncated by the end of the capture")


def _parent(range_: _Range, by_id: Mapping[str, Sequence[_Range]]) -> _Range | None:
    """The range around another; of several with the same id, which some versions write, the one around it in time."""
    parents = by_id.get(range_.parent, ()) if range_.parent != range_.id else ()
    if len(parents) < 2:
        return parents[0] if parents else None
    end = range_.begin_ps + range_.duration_ps
    around = (
        parent
        for parent in parents
        if parent.thread == range_.thread
        and parent.begin_ps <= range_.begin_ps
        and end <= parent.begin_ps + parent.duration_ps
    )
    return next(around, None)


def _module_of(range_: _Range, by_id: Mapping[str, Sequence[_Range]]) -> _Range | None:
    """The innermost module around an instruction."""
    for _ in range(_DEEPEST):
        parent = _parent(range_, by_id)
        if parent is None or parent.kind == MODULE:
            return parent
        range_ = parent
    return None


def _executions(modules: Sequence[_Range]) -> tuple[Mapping[int, int], frozenset[int]]:
    """The number of each execution, equal on all devices, and those with fewer operations than all before."""
    groups: dict[tuple[object, ...], list[_Range]] = {}
    for run in modules:
        groups.setdefault((run.values.get("hlo_module"), run.values.get("program_id"), run.thread), []).append(run)
    numbers: dict[tuple[object, ...], int] = {}
    runs: dict[int, int] = {}
    cut: set[int] = set()
    for (name, program, _), group in groups.items():
        group.sort(key=lambda run: run.begin_ps)
        for index, run in enumerate(group):
            runs[id(run)] = numbers.setdefault((name, program, index), len(numbers))
        *whole, last = group
        if len(whole) >= _FEWEST and last.operations < min(run.operations for run in whole):
            cut.add(id(last))
    return runs, frozenset(cut)


def _numbers(thread: tuple[str, str]) -> tuple[tuple[int, str], ...]:
    """Numbers are compared as such."""
    return tuple((len(part), part) for part in thread)


# --- rocprof ---
# Reads the tables of rocprofv3 and rocprof: `*_kernel_trace.csv`, and the sums of kernels of older ones.
#
# They name kernels, not instructions, which are then found by the names of kernels. Columns differ by version and are
# found by name.


_NUMBER: Final = re.compile(r"\d{1,9}")


def read_rocprof(data: Buffer, name: str) -> Trace:
    """Reads a table; HloError if it has no kernels."""
    trace = KernelTrace(name, "rocprof")
    try:
        header, rows = _read_table(data)
        read = _Kernels(trace, header)
        for row in rows:
            read.add(row)
    except ValueError:
        trace.notes.append(f"{name} is damaged; rows after the damage are omitted")
    return trace.trace()


class _Kernels:
    """Adds one row after the other; which columns it has decides how."""

    def __init__(self, trace: KernelTrace, header: Header) -> None:
        self._trace, columns = trace, header.columns
        self._kind = columns.get("kind")
        self._name = columns.get("kernel_name", columns.get("kernelname", columns.get("name", 0)))
        self._begin = columns.get("start_timestamp", columns.get("beginns"))
        self._end = columns.get("end_timestamp", columns.get("endns"))
        self._device = columns.get("agent_id", columns.get("gpu-id"))
        self._stream = columns.get("stream_id", columns.get("queue_id", columns.get("queue-id")))
        self._calls, self._total = columns.get("calls"), columns.get("totaldurationns")
        self._statistics = [
            (own, columns[own]) for own in ("correlation_id", "queue_id", "kernel_id") if own in columns
        ]

    def add(self, row: Sequence[str]) -> None:
        if self._kind is not None and row[self._kind] not in ("KERNEL_DISPATCH", ""):
            return
        if self._begin is None or self._end is None:
            self._add_sum(row)
            return
        begin, end = picoseconds(row[self._begin], 1000), picoseconds(row[self._end], 1000)
        if begin is None or end is None or end < begin:
            self._trace.skip()
            return
        device = _first_number(row[self._device]) if self._device is not None else 0
        stream = _first_number(row[self._stream]) if self._stream is not None else 0
        own = {name: number for name, at in self._statistics if (number := _whole(row[at])) is not None}
        self._trace.add_kernel(device, stream, row[self._name], begin, end - begin, own)

    def _add_sum(self, row: Sequence[str]) -> None:
        """Adds the sum of all calls of a kernel, which has no time."""
        calls = _whole(row[self._calls]) if self._calls is not None else None
        total = picoseconds(row[self._total], 1000) if self._total is not None else None
        if calls is None or total is None:
            self._trace.skip()
            return
        self._trace.add_sum(row[self._name], calls, total)


def _first_number(text: str) -> int:
    match = _NUMBER.search(text)
    return int(match[0]) if match else 0


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
