"""Reads tables of `nsys stats --format csv`: `nvtx_gpu_proj_trace` and `cuda_gpu_trace`.

The former has the time on the GPU of each range, among them those of XLA's modules and instructions; the latter has the
kernels by name. Mirrors the joins of nsys-jax (NVIDIA/JAX-Toolbox, nsys_jax/data_loaders.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Trace, Value
from hlo_cli.source import counted
from hlo_cli.syntax.traces.annotations import MODULE, THUNK, annotation_of, statistics_of, step_of
from hlo_cli.syntax.traces.kernels import KernelTrace
from hlo_cli.syntax.traces.tables import Header, picoseconds, read_table

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

_DEVICE: Final = re.compile(r".*\((\d{1,9})\)")
_FEWEST: Final = 2
"""Whole executions of a module that tell how many operations one has."""
_DEEPEST: Final = 100


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
        header, rows = read_table(data)
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
        found = _DEVICE.match(row[device])
        own: dict[str, Value] = {}
        if correlation is not None and row[correlation].isdecimal():
            own["correlation_id"] = int(row[correlation][:18])
        line = int(row[stream]) if row[stream].isdecimal() and len(row[stream]) < 10 else 0
        trace.add_kernel(int(found[1]) if found else 0, line, row[name], begin, length, own)


def _read_ranges(trace: KernelTrace, header: Header, rows: Iterable[Sequence[str]], ranges: list[_Range]) -> None:
    columns, units = header.columns, header.picoseconds
    at = [columns.get(name, -1) for name in ("rangeid", "parentid", "pid", "tid", "numgpuops")]
    for row in rows:
        text = row[columns["name"]]
        annotation, step = annotation_of(text), step_of(text)
        if annotation is None and step is None:
            continue
        times = [picoseconds(row[columns[each]], units[each]) for each in ("projected start", "projected duration")]
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
    for each in ranges:
        by_id.setdefault(each.id, []).append(each)
    outer = {id(found) for each in ranges if each.kind == THUNK and (found := _parent(each, by_id)) is not None}
    threads = sorted({each.thread for each in ranges if each.kind == MODULE}, key=_numbers)
    devices = {thread: number for number, thread in enumerate(threads)}
    runs, cut = _executions([each for each in ranges if each.kind == MODULE])
    lost = autotuning = 0
    for each in ranges:
        if each.kind != THUNK or id(each) in outer:
            continue
        module = _module_of(each, by_id)
        if module is None:
            lost += 1
        elif "program_id" not in module.values:
            autotuning += 1
        elif id(module) not in cut:
            own = {**statistics_of(module.values, each.values), "run_id": runs[id(module)]}
            op = own.get("hlo_op", "")
            name = op if isinstance(op, str) else ""
            trace.add_kernel(devices[module.thread], 0, name, each.begin_ps, each.duration_ps, own)
    if lost:
        trace.notes.append(f"omitted {counted(lost, 'ranges')} outside of any module")
    if autotuning:
        trace.notes.append(f"omitted {counted(autotuning, 'ranges')} of autotuning")
    if cut:
        trace.notes.append(f"omitted {counted(len(cut), 'executions')} truncated by the end of the capture")


def _parent(given: _Range, by_id: Mapping[str, Sequence[_Range]]) -> _Range | None:
    """The range around another; of several with the same id, which some versions write, the one around it in time."""
    found = by_id.get(given.parent, ()) if given.parent != given.id else ()
    if len(found) < 2:
        return found[0] if found else None
    end = given.begin_ps + given.duration_ps
    around = (
        each
        for each in found
        if each.thread == given.thread and each.begin_ps <= given.begin_ps and end <= each.begin_ps + each.duration_ps
    )
    return next(around, None)


def _module_of(given: _Range, by_id: Mapping[str, Sequence[_Range]]) -> _Range | None:
    """The innermost module around an instruction."""
    for _ in range(_DEEPEST):
        found = _parent(given, by_id)
        if found is None or found.kind == MODULE:
            return found
        given = found
    return None


def _executions(modules: Sequence[_Range]) -> tuple[Mapping[int, int], frozenset[int]]:
    """The number of each execution, equal on all devices, and those with fewer operations than all before."""
    groups: dict[tuple[object, ...], list[_Range]] = {}
    for each in modules:
        groups.setdefault((each.values.get("hlo_module"), each.values.get("program_id"), each.thread), []).append(each)
    numbers: dict[tuple[object, ...], int] = {}
    runs: dict[int, int] = {}
    cut: set[int] = set()
    for (name, program, _), group in groups.items():
        group.sort(key=lambda each: each.begin_ps)
        for index, each in enumerate(group):
            runs[id(each)] = numbers.setdefault((name, program, index), len(numbers))
        *whole, last = group
        if len(whole) >= _FEWEST and last.operations < min(each.operations for each in whole):
            cut.add(id(last))
    return runs, frozenset(cut)


def _numbers(thread: tuple[str, str]) -> tuple[tuple[int, str], ...]:
    """Numbers are compared as such."""
    return tuple((len(part), part) for part in thread)
