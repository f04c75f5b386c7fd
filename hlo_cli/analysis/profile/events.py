"""Which events of a trace are timed operations, on each platform, and in which step each ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isfinite
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.profile.profile import (
    NO_FLOW,
    NO_RUN,
    NO_STEP,
    NO_WINDOWS,
    InstructionNames,
    OccurrenceList,
    Occurrences,
    OperationKey,
    Peaks,
    Platform,
    Programs,
    Step,
    StepSource,
    StepWindows,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.traces.trace import (
    ABSENT,
    Coded,
    EventMetadata,
    Integers,
    Line,
    Plane,
    Trace,
    Value,
    distinct_of,
    first_places,
)

# --- statistics of events ---
# As columns of integers, with their values as numbers and text.


_UNSIGNED_MODULUS: Final = 1 << 64  # ids are unsigned 64-bit integers, which some formats write as signed ones
_SIGN_BIT: Final = 1 << 63  # of a 64-bit integer
_MAX_TIME: Final = 1 << 61
"""The longest time that is measured: 27 days."""
_MAX_DIGITS: Final = 20
"""The digits of 2^64, of which no integer in a trace has more."""


def value_at(column: Coded, code: int) -> Value | None:
    """The value with a code; None if it is absent."""
    return None if code == ABSENT else column.values[code]


def whole(value: Value | None) -> int | None:
    """A value as integer, which is text in some formats; None if it is no integer.

    >>> whole(7), whole("-7"), whole("7.5"), whole(None)
    (7, -7, None, None)
    """
    if isinstance(value, str):
        digits = value.removeprefix("-")
        return int(value) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else None
    return int(value) if isinstance(value, int) else None


def real(value: Value | None) -> float | None:
    """A value as finite number, which is text in some formats; None if it is none.

    >>> real(7), real("7.5"), real("nan"), real(b"7")
    (7.0, 7.5, None, None)
    """
    if not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def unsigned(value: Value | None) -> int | None:
    """An id as unsigned 64-bit integer; None if it is no integer.

    >>> unsigned(-1), unsigned("5"), unsigned("x")
    (18446744073709551615, 5, None)
    """
    integer = whole(value)
    return None if integer is None else integer % _UNSIGNED_MODULUS


def signed(value: int) -> int:
    """An integer modulo 2^64, as signed one.

    >>> signed((1 << 64) - 1), signed(1 << 70)
    (-1, 0)
    """
    return (value + _SIGN_BIT) % _UNSIGNED_MODULUS - _SIGN_BIT


def text(value: Value | None) -> str:
    """A value as text; empty if there is none."""
    return "" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def integers(column: Coded, chosen: Integers, default: int) -> Integers:
    """A statistic of the chosen events as integers; the default where an event has none.

    >>> integers(Coded(np.array([0, -1, 1]), (5, "6")), np.array([0, 1, 2]), -1).tolist()
    [5, -1, 6]
    """
    numbers = [whole(value) for value in column.values]
    values = [default if value is None else signed(value) for value in numbers]
    result: Integers = np.array([*values, default], np.int64)[column.codes[chosen]]
    return result


def line_times(line: Line) -> tuple[Integers, Integers]:
    """When the events of a line begin, and how long they take: see `_bounded_times`."""
    return _bounded_times(line.begins_ps, line.events.durations_ps)


def _bounded_times(begins_ps: Integers, durations_ps: Integers) -> tuple[Integers, Integers]:
    """Begins and durations whose sums fit 64 bits; only corrupt files have negative durations or such of weeks.

    >>> [times.tolist() for times in _bounded_times(np.array([5, -7]), np.array([-1, 3]))]
    [[5, -7], [0, 3]]
    """
    # Twice, so that begin and end of a clipped event still differ.
    return np.clip(begins_ps, -2 * _MAX_TIME, 2 * _MAX_TIME), np.clip(durations_ps, 0, _MAX_TIME)


def joint_codes(columns: list[Integers]) -> tuple[Integers, list[tuple[int, ...]]]:
    """Codes of the distinct rows of columns of codes, and those rows.

    >>> codes, rows = joint_codes([np.array([0, 1, 0]), np.array([-1, 2, -1])])
    >>> codes.tolist(), rows
    ([0, 1, 0], [(0, -1), (1, 2)])
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        of_column = distinct_of(column)[1]
        # Column by column, so that products of the numbers of codes stay within 64 bits.
        mixed = codes * (int(of_column.max(initial=0)) + 1) + of_column
        codes = distinct_of(mixed)[1]
    first = first_places(codes, int(codes.max(initial=-1)) + 1)
    rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return codes.astype(np.int64), rows


# --- self time ---
# The duration of an event less those of the events directly inside it.
#
# Mirrors the nesting of xprof/convert/xplane_to_op_metrics_db.cc.


_MAX_NESTED_TIME: Final = 1 << 62
"""A bound on the sum of nested times, which only corrupt files exceed."""


def self_times(begins_ps: Integers, durations_ps: Integers) -> Integers:
    """The self time of each event of one line, whose events are in the order of `nested_order`.

    The parent of an event is the nearest earlier one, among those not yet left, that includes it.

    >>> self_times(np.array([0, 0, 4, 20]), np.array([10, 3, 4, 5])).tolist()
    [3, 3, 4, 5]
    """
    result = durations_ps.copy()
    # Most lines have no nesting, and numpy has compared all neighbors already.
    if len(result) < 2 or not _overlaps(begins_ps, durations_ps):
        return result
    begins, durations = begins_ps.tolist(), durations_ps.tolist()
    inside = [0] * len(begins)
    stack: list[tuple[int, int, int]] = []
    for position, (begin, duration) in enumerate(zip(begins, durations, strict=True)):
        end = begin + duration
        # Inclusive on both sides, as in xplane_to_op_metrics_db.cc: events of equal times nest in the order of the
        # file.
        while stack and not (stack[-1][0] <= begin and end <= stack[-1][1]):
            stack.pop()
        if stack:
            inside[stack[-1][2]] += duration
        stack.append((begin, end, position))
    return result - np.array([min(each, _MAX_NESTED_TIME) for each in inside], np.int64)


def nested_order(begins_ps: Integers, durations_ps: Integers) -> Integers:
    """The order in which events that begin together are nested: the longest first.

    >>> nested_order(np.array([5, 0, 0]), np.array([1, 3, 10])).tolist()
    [2, 1, 0]
    """
    return np.lexsort((-durations_ps, begins_ps)).astype(np.int64)


def _overlaps(begins_ps: Integers, durations_ps: Integers) -> bool:
    """Whether any event begins before the one before it has ended."""
    return bool((begins_ps[1:] < (begins_ps + durations_ps)[:-1]).any() or not durations_ps.all())


# --- steps ---
# On hosts, a step is an event with the statistic `step_num`, written by `StepTraceAnnotation`; a run belongs to the
# step in which it was launched. On TPUs, each core has a line of steps.


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSteps:
    """The rows of a core from `first_row` on, which begin at `begins`, with its steps by the same clock.

    `first_ps` and `last_ps` limit the time of operations and steps.
    """

    device: int
    first_row: int
    begins: Integers
    steps: tuple[Step, ...]
    first_ps: int
    last_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """Steps, the step of each row of one trace, and when the steps were on each device."""

    steps: tuple[Step, ...]
    codes: Integers
    windows: StepWindows
    source: StepSource = "annotation"


def _host_steps(lines: Iterable[Line]) -> tuple[Step, ...]:
    """The annotated steps of a host, by time."""
    return _outer_steps(chain.from_iterable(map(_annotated, lines)))


def _outer_steps(annotated: Iterable[Step]) -> tuple[Step, ...]:
    """Annotated steps by time; an annotation inside another one is left out."""
    outer: list[Step] = []
    for step in sorted(annotated, key=lambda step: (step.begin_ps, -step.end_ps)):
        # JAX programs nest annotations, such as one step of an inner loop; the outer one is the step.
        if not outer or step.begin_ps >= outer[-1].end_ps:
            outer.append(step)
    return tuple(outer)


def _annotated(line: Line) -> Iterable[Step]:
    numbers = line.statistic("step_num")
    begins, durations = line_times(line)
    for event in np.flatnonzero(numbers.codes != ABSENT).tolist():
        begin = int(begins[event])
        yield Step(text(numbers.of(event)), begin, begin + int(durations[event]))


def launches(lines: Iterable[Line]) -> Mapping[int, int]:
    """When each run was launched, by its id: the begin of the first event on the host that names it."""
    launch_of_run: dict[int, int] = {}
    for line in lines:
        _add_launches(line, launch_of_run)
    return launch_of_run


def _add_launches(line: Line, launch_of_run: dict[int, int]) -> None:
    runs, ops = line.statistic("run_id"), line.statistic("hlo_op")
    # Operations name their run too; what names a run without an operation is its launch on the host.
    chosen = np.flatnonzero((runs.codes != ABSENT) & (ops.codes == ABSENT))
    begins = line_times(line)[0][chosen].tolist()
    for run, begin in zip(integers(runs, chosen, NO_RUN).tolist(), begins, strict=True):
        launch_of_run[run] = min(launch_of_run.get(run, begin), begin)


def _steps_of_runs(rows: Occurrences, steps: tuple[Step, ...], launched: Mapping[int, int]) -> Stepped:
    """The step of each row: that in which its run was launched, or in which the run, or the row itself, begins."""
    begins = rows.begins_ps.copy()
    runs, inverse = distinct_of(rows.runs)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, begins)
    for number, run in enumerate(runs.tolist()):
        # The launch decides, as kernels of a step may still run while the host is in the next one.
        first[number] = launched.get(run, first[number])
    known = rows.runs != NO_RUN
    begins[known] = first[inverse][known]
    return _host_stepped(rows, steps, begins)


def _host_stepped(rows: Occurrences, steps: tuple[Step, ...], times: Integers) -> Stepped:
    """The annotated steps of a host, where `times` place its rows in them; they are the same on all of its devices."""
    devices, _ = distinct_of(rows.devices)
    begins, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    windows = StepWindows(
        np.tile(np.arange(len(steps)), len(devices)),
        np.repeat(devices, len(steps)),
        np.tile(begins, len(devices)),
        np.tile(ends, len(devices)),
    )
    return Stepped(steps, _step_numbers_at(times, steps), windows)


def _steps_of_lines(devices: Sequence[DeviceSteps], rows: Occurrences, first: int) -> Stepped:
    """The steps of rows, of which the first one has the number `first`: each by the line of its core.

    Equal names are one step.
    """
    names: dict[tuple[str, int], int] = {}
    begins: list[int] = []
    ends: list[int] = []
    core_counts: list[int] = []
    codes = np.full(len(rows), NO_STEP, np.int64)
    core_steps: list[tuple[int, int, int, int]] = []
    for device in devices:
        row = device.first_row - first
        # steps may be by the clock of the host, and the operations by that of the device
        # What the first operation and its row are apart is how far the two clocks differ.
        ahead = int(rows.begins_ps[row] - device.begins[0]) if len(device.begins) else 0
        steps = sorted(device.steps, key=lambda step: (step.begin_ps, step.end_ps))
        numbers = []
        for key, step in zip(_numbered(steps), steps, strict=True):
            number = names.setdefault(key, len(names))
            if number == len(begins):
                begins.append(step.begin_ps)
                ends.append(step.end_ps)
                core_counts.append(0)
            begins[number], ends[number] = min(begins[number], step.begin_ps), max(ends[number], step.end_ps)
            core_counts[number] += 1
            numbers.append(number)
            core_steps.append((number, device.device, step.begin_ps + ahead, step.end_ps + ahead))
        step_numbers = _step_numbers_at(device.begins, steps)
        codes[row : row + len(step_numbers)] = np.array([*numbers, NO_STEP], np.int64)[step_numbers]
    with_steps = sum(bool(device.steps) for device in devices)
    steps = [
        # A step that some cores lack was cut by the capture.
        Step(name, begin, end, count == with_steps)
        for (name, _), begin, end, count in zip(names, begins, ends, core_counts, strict=True)
    ]
    order = sorted(range(len(steps)), key=lambda number: steps[number].begin_ps)
    places = np.array([*np.argsort(order).tolist(), NO_STEP], np.int64)
    step_of, device_of, first_ps, last_ps = np.array(core_steps, np.int64).reshape(-1, 4).T
    windows = StepWindows(places[step_of], device_of, first_ps, last_ps)
    return Stepped(tuple(steps[number] for number in order), places[codes], windows, "line")


def steps_of_executions(rows: Occurrences) -> Stepped:
    """One step for each execution of the program with the most self time; none if executions are unknown."""
    programs = {
        pair: number for number, pair in enumerate(dict.fromkeys((key.program, key.module) for key in rows.keys))
    }
    of_key = np.array([programs[key.program, key.module] for key in rows.keys], np.int64)
    known = np.flatnonzero(rows.runs != NO_RUN)
    if not len(known):
        return Stepped((), np.full(len(rows), NO_STEP, np.int64), NO_WINDOWS)
    of_row = of_key[rows.codes]
    # One program is the training step; others, such as those of metrics, run beside it.
    largest = int(np.bincount(of_row[known], rows.self_ps[known].astype(np.float64)).argmax())
    chosen = known[of_row[known] == largest]
    runs, inverse = distinct_of(_shared_runs(rows, chosen))
    begins, ends = np.full(len(runs), np.iinfo(np.int64).max), np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(begins, inverse, rows.begins_ps[chosen])
    np.maximum.at(ends, inverse, rows.ends_ps[chosen])
    order = np.argsort(begins, kind="stable")
    steps = tuple(Step(str(number), int(begins[run]), int(ends[run])) for number, run in enumerate(order.tolist()))
    # Rows of other programs are in the step that is under way.
    codes = _step_numbers_at(rows.begins_ps, steps)
    codes[chosen] = np.argsort(order)[inverse]
    windows = _windows_of(rows, chosen, codes[chosen])
    return Stepped(steps, codes, windows, "executions")


def _windows_of(rows: Occurrences, chosen: Integers, steps: Integers) -> StepWindows:
    """When the executions of the chosen rows began and ended on each device."""
    of_row, pairs = joint_codes([steps, rows.devices[chosen]])
    begins, ends = np.full(len(pairs), np.iinfo(np.int64).max), np.full(len(pairs), np.iinfo(np.int64).min)
    np.minimum.at(begins, of_row, rows.begins_ps[chosen])
    np.maximum.at(ends, of_row, rows.ends_ps[chosen])
    step_of, device_of = np.array(pairs, np.int64).reshape(-1, 2).T
    return StepWindows(step_of, device_of, begins, ends)


def _shared_runs(rows: Occurrences, chosen: Integers) -> Integers:
    """The executions of rows of one program: by id, else, if devices share no id, by their number on each device."""
    runs = rows.runs[chosen]
    codes, pairs = joint_codes([rows.devices[chosen], runs])
    # Run ids are shared by devices on some platforms; elsewhere they only count.
    if len({device for device, _ in pairs}) == 1 or len({run for _, run in pairs}) < len(pairs):
        return runs
    begins = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(begins, codes, rows.begins_ps[chosen])
    count: dict[int, int] = {}
    numbers = np.zeros(len(pairs), np.int64)
    for place in np.argsort(begins, kind="stable").tolist():
        device = pairs[place][0]
        numbers[place] = count[device] = count.get(device, -1) + 1
    return numbers[codes]


def _numbered(steps: Iterable[Step]) -> Iterable[tuple[str, int]]:
    """The names of steps, with the number of earlier ones of the same name."""
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.name] = counts.get(step.name, -1) + 1
        yield step.name, counts[step.name]


def join_hosts(hosts: Sequence[Stepped]) -> Stepped:
    """The steps of several hosts: equal names are one step, with the times of the first host that has it."""
    if len(hosts) == 1:
        return hosts[0]
    steps: dict[tuple[str, int], Step] = {}
    parts, windows = [], []
    for host in hosts:
        keys = list(_numbered(host.steps))
        for key, step in zip(keys, host.steps, strict=True):
            before = steps.setdefault(key, step)
            # Whole on one host and cut on another: it is cut.
            steps[key] = replace(before, is_whole=before.is_whole and step.is_whole)
        places = {key: number for number, key in enumerate(steps)}
        numbers = np.array([*(places[key] for key in keys), NO_STEP], np.int64)
        parts.append(numbers[host.codes])
        windows.append(replace(host.windows, steps=numbers[host.windows.steps]))
    names = ("steps", "devices", "begins_ps", "ends_ps")
    joined = StepWindows(*(np.concatenate([getattr(each, name) for each in windows]) for name in names))
    source: StepSource = next((h.source for h in hosts if h.steps), "annotation")
    return Stepped(tuple(steps.values()), np.concatenate(parts), joined, source)


def mark_partial(stepped: Stepped, rows: Occurrences, operations: Integers) -> Stepped:
    """Marks the first and the last step as partial if the capture cuts them.

    On some device, such a step lacks operations that all other steps ran, and does not begin (the last: end) with an
    operation with which another step does: one that lacks operations only because it took another branch is whole.
    """
    steps = stepped.steps
    inside = np.flatnonzero(stepped.codes != NO_STEP)
    if len(steps) < 2 or not len(inside):
        return stepped
    edges = (
        _edges(rows.devices[inside] * len(steps) + stepped.codes[inside], operations[inside], times[inside])
        for times in (rows.begins_ps, -rows.ends_ps)
    )
    of_row, places = joint_codes([rows.devices[inside], operations[inside]])
    of_row *= len(steps)
    of_row += stepped.codes[inside]
    ran = distinct_of(of_row)[0]
    place, step = ran // len(steps), ran % len(steps)
    counts = np.bincount(place, minlength=len(places))
    marked = list(steps)
    for number, edge in zip((0, len(steps) - 1), edges, strict=True):
        counts_in_step = np.bincount(place[step == number], minlength=len(places))
        # An operation that runs in every step but this one is missing: the capture began later or ended earlier.
        lacking = {
            places[each][0] for each in np.flatnonzero((counts_in_step == 0) & (counts == len(steps) - 1)).tolist()
        }
        others = [other for other in range(len(steps)) if other != number]
        cut = [
            device
            for device in lacking
            # The first operation of a step tells as well: one that begins like the others has its beginning.
            if edge.get(device * len(steps) + number) not in {edge.get(device * len(steps) + other) for other in others}
        ]
        # With two steps nothing says which one is usual, so half of the longer one is required.
        is_short = len(steps) > 2 or 2 * steps[number].duration_ps < max(each.duration_ps for each in steps)
        if is_short and cut:
            marked[number] = replace(steps[number], is_whole=False)
    return replace(stepped, steps=tuple(marked))


def _edges(groups: Integers, operations: Integers, times: Integers) -> Mapping[int, int]:
    """The operation of the least time of each group."""
    order = np.lexsort((times, groups))
    distinct, first = np.unique(groups[order], return_index=True)
    return dict(zip(distinct.tolist(), operations[order[first]].tolist(), strict=True))


def _step_numbers_at(times: Integers, steps: Sequence[Step]) -> Integers:
    """The index of the step that each time lies in, `NO_STEP` if in none; steps are in order and do not overlap.

    >>> _step_numbers_at(np.array([5, 15, 25]), (Step("0", 0, 10), Step("1", 20, 30))).tolist()
    [0, -1, 1]
    """
    if not steps:
        return np.full(len(times), NO_STEP, np.int64)
    starts, ends = (np.array([getattr(step, name) for step in steps], np.int64) for name in ("begin_ps", "end_ps"))
    candidate = np.searchsorted(starts, times, side="right") - 1
    # Ends are exclusive: steps follow each other without a gap.
    return np.where((candidate >= 0) & (times < ends[np.maximum(candidate, 0)]), candidate, NO_STEP)


# --- CPUs ---
# The lines of `/host:CPU` are threads, with one event for each thunk.
#
# Mirrors the annotations of xla/backends/cpu/runtime/thunk.cc.


HOST: Final = "/host:CPU"


@dataclass(frozen=True, slots=True)
class HostLines:
    """What all threads of a host have together: its annotated steps, and when each run was launched, by its id."""

    steps: tuple[Step, ...]
    launched: Mapping[int, int]


def _add_cpu_events(plane: Plane, rows: OccurrenceList, host: str, visit: Callable[[Line], bool]) -> HostLines:
    """Adds the operations that ran on the threads of a host; the names of its devices begin with `host`.

    Events of a thread are forgotten after `visit`, unless that returns True: all of a large trace fill the memory.
    """
    annotated: list[Step] = []
    launched: dict[int, int] = {}
    for line in plane.lines:
        ops = line.statistic("hlo_op")
        chosen = np.flatnonzero(ops.codes != ABSENT)
        if len(chosen):
            _add_thread(line, chosen, ops, rows, host)
        annotated += _annotated(line)
        _add_launches(line, launched)
        if not visit(line):
            line.forget()
    return HostLines(_outer_steps(annotated), launched)


def _add_thread(line: Line, chosen: Integers, ops: Coded, rows: OccurrenceList, host: str) -> None:
    begins, durations = line_times(line)
    chosen = chosen[nested_order(begins[chosen], durations[chosen])]
    modules, programs = line.statistic("hlo_module"), line.statistic("program_id")
    ordinals, runs = line.statistic("device_ordinal"), line.statistic("run_id")
    codes, distinct = joint_codes([each.codes[chosen] for each in (programs, modules, ops)])
    keys = [
        rows.key(OperationKey(unsigned(value_at(programs, a)), text(value_at(modules, b)), text(value_at(ops, c))))
        for a, b, c in distinct
    ]
    used, device_of = distinct_of(ordinals.codes[chosen])
    # Programs on one device may omit the ordinal.
    devices = [rows.device(f"{host}CPU:{text(value_at(ordinals, code)) or 0}") for code in used.tolist()]
    begins, durations = begins[chosen], durations[chosen]
    rows.add_line(
        line.name,
        np.array(keys, np.int64)[codes],
        np.array(devices, np.int64)[device_of],
        integers(runs, chosen, NO_RUN),
        begins,
        durations,
        self_times(begins, durations),
    )


# --- GPUs ---
# Each stream is a line of kernels, annotated with the instruction they run.
#
# Mirrors xprof/utils/gpu_event_stats.cc, and the annotations of xla/backends/gpu/runtime/annotation.cc. A CUDA graph
# that the profiler recorded as one event stands for the command buffer that its instruction calls.


_GPU_PREFIX: Final = "/device:GPU:"
# trace_utils.h of tsl/profiler/utils numbers the threads of derived lines from 0xdeadbeef on.
_DERIVED_LINE_IDS: Final = range(0xDEADBEEF, 0xDEADBEEF + 391)
"""The ids of the lines that XProf and TensorBoard add to a file, modulo 2^32."""
_DERIVED_NAMES: Final = frozenset(
    ("Framework Name Scope", "Framework Ops", "XLA Ops", "XLA Modules", "Steps", "Source code", "XLA TraceMe")
)
_ANNOTATION_SEPARATOR: Final = "::"
"""What joins nested annotations, the outer one first."""
NO_CORRELATION: Final = 0  # CUPTI counts correlations from 1
GRAPH: Final = "CudaGraphExec"
"""What the kernel of an event begins with that stands for a whole CUDA graph."""
_LAUNCH_SECONDS: Final = 2e-6  # about what a small kernel takes to begin and end on a GPU; chosen, not measured
_USUAL_RATES: Final = 1e15, 3e12
"""The FLOP/s and bytes/s by which kernels share the time of a graph, where the trace states none."""


def _gpu_of(plane: Plane) -> str | None:
    """The GPU that a plane belongs to, such as `GPU:0`; None for other planes.

    >>> _gpu_of(Plane(1, "/device:GPU:3", (), dict)), _gpu_of(Plane(1, "/host:CPU", (), dict))
    ('GPU:3', None)
    """
    return f"GPU:{plane.name.removeprefix(_GPU_PREFIX)}" if plane.name.startswith(_GPU_PREFIX) else None


def _kernel_lines(plane: Plane) -> Iterable[Line]:
    """The lines of a GPU that the profiler recorded; derived ones, which repeat their events, are left out."""
    for line in plane.lines:
        # In the file the ids are 32-bit numbers, signed or not.
        if line.id % (1 << 32) not in _DERIVED_LINE_IDS and line.name.partition(" - from #")[0] not in _DERIVED_NAMES:
            yield line


def _add_gpu(plane: Plane, name: str, rows: OccurrenceList) -> Integers:
    """Adds the kernels and copies of a GPU; returns the ids that correlate them with their launches on the host."""
    lines = [line for line in _kernel_lines(plane) if len(line.events)]
    correlations = [_add_stream(line, rows.device(name), rows) for line in lines]
    return np.concatenate([np.zeros(0, np.int64), *correlations])


def _add_stream(line: Line, device: int, rows: OccurrenceList) -> Integers:
    events = line.events
    names = ("program_id", "hlo_module", "hlo_op")
    programs, modules, ops = (line.statistic(each) for each in names)
    codes, distinct = joint_codes([events.kinds, programs.codes, modules.codes, ops.codes])
    kinds = line.kinds
    keys = [
        rows.key(
            OperationKey(
                unsigned(value_at(programs, program)),
                text(value_at(modules, module)),
                # Nested annotations belong to the call and to the operation in it; the last is the operation.
                innermost(text(value_at(ops, op))),
                kinds[kind].name if kind in kinds else "",
            )
        )
        for kind, program, module, op in distinct
    ]
    every = np.arange(len(events))
    begins, durations = line_times(line)
    rows.add_line(
        line.name,
        np.array(keys, np.int64)[codes],
        device,
        integers(line.statistic("run_id"), every, NO_RUN),
        begins,
        durations,
        # No nesting on a stream: self time is all of the time, as in XProf.
        durations,
        np.maximum(events.occurrences, 1),
    )
    return integers(line.statistic("correlation_id"), every, NO_CORRELATION)


def innermost(annotation: str) -> str:
    """The instruction in nested annotations, which is the last of them.

    >>> innermost("command_buffer::fusion.3"), innermost("fusion.3")
    ('fusion.3', 'fusion.3')
    """
    return annotation.rpartition(_ANNOTATION_SEPARATOR)[2]


def _launch_times(planes: Iterable[Plane], correlations: Integers, begins_ps: Integers) -> Integers:
    """When the host launched each of the kernels that begin at `begins_ps`; their own begin if that is unknown."""
    launch_of_correlation: dict[int, int] = {}
    for line in chain.from_iterable(plane.lines for plane in planes):
        ids = line.statistic("correlation_id")
        chosen = np.flatnonzero(ids.codes != ABSENT)
        launch_of_correlation.update(
            zip(integers(ids, chosen, NO_CORRELATION).tolist(), line_times(line)[0][chosen].tolist(), strict=True)
        )
    # A missing id is read as 0, so events of id 0 belong to nothing in particular.
    launch_of_correlation.pop(NO_CORRELATION, None)
    distinct, inverse = distinct_of(correlations)
    known = np.array([each in launch_of_correlation for each in distinct.tolist()], bool)
    times = np.array([launch_of_correlation.get(each, 0) for each in distinct.tolist()], np.int64)
    return np.where(known[inverse], times[inverse], begins_ps)


def expand_graphs(rows: Occurrences, programs: Programs, peaks: Peaks | None) -> tuple[Occurrences, Integers]:
    """Rows in which each execution of a whole CUDA graph is replaced by the operations of its command buffer.

    They share its time in the order of their schedule, by the time that the roofline gives each. The second value is
    the row that each stands for.
    """
    names = InstructionNames()
    parts: dict[int, Sequence[tuple[OperationKey, float]]] = {}
    for key_number, key in enumerate(rows.keys):
        program = programs.of(key)
        if key.kernel.startswith(GRAPH) and program is not None and program.module is not None:
            call = names.find(program.module, key.op)
            if call is not None and call.opcode == opcodes.CALL and call.called_computations:
                # Tracing by graphs records one event for all kernels (gpu_enable_cupti_activity_graph_trace).
                parts[key_number] = _graph_parts(key, call.called_computations[0], peaks)
    parts = {key_number: weighted_parts for key_number, weighted_parts in parts.items() if weighted_parts}
    if not parts:
        return rows, np.arange(len(rows))
    keys = list(rows.keys)
    number_of_key = {key: key_number for key_number, key in enumerate(keys)}
    for part, _ in chain.from_iterable(parts.values()):
        if number_of_key.setdefault(part, len(keys)) == len(keys):
            keys.append(part)
    sizes = np.array(
        [len(parts[key_number]) if key_number in parts else 1 for key_number in range(len(rows.keys))], np.int64
    )[rows.codes]
    source = np.repeat(np.arange(len(rows)), sizes)
    place = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    codes, begins, durations = rows.codes[source], rows.begins_ps[source], rows.durations_ps[source]
    self_ps = rows.self_ps[source]
    for key_number, weighted_parts in parts.items():
        chosen = np.flatnonzero(codes == key_number)
        bounds = np.concatenate(([0.0], np.cumsum([weight for _, weight in weighted_parts])))
        bounds /= bounds[-1]
        event_durations = rows.durations_ps[source[chosen]]
        # Rounded at the bounds, so that the parts of an event add up to it.
        first, last = (np.rint(event_durations * bounds[place[chosen] + add]).astype(np.int64) for add in (0, 1))
        begins[chosen] += first
        durations[chosen] = self_ps[chosen] = last - first
        codes[chosen] = np.array([number_of_key[part] for part, _ in weighted_parts], np.int64)[place[chosen]]
    used, codes = distinct_of(codes)
    expanded = replace(
        rows,
        keys=[keys[key_number] for key_number in used.tolist()],
        codes=codes,
        devices=rows.devices[source],
        lines=rows.lines[source],
        runs=rows.runs[source],
        begins_ps=begins,
        durations_ps=durations,
        self_ps=self_ps,
        counts=rows.counts[source],
        flows=rows.flows[source],
    )
    return expanded, source


def _graph_parts(key: OperationKey, body: Computation, peaks: Peaks | None) -> Sequence[tuple[OperationKey, float]]:
    """The kernels of a command buffer, each with its weight."""
    flops, main = (peaks.flops, peaks.main_bytes) if peaks else _USUAL_RATES
    return [
        # The roofline of each kernel, and what any kernel takes to start.
        (key._replace(op=each.name), _LAUNCH_SECONDS + max(cost.flops / flops, cost.bytes_accessed / main))
        for each, cost in costs_of_kernels(body.instructions).items()
    ]


# --- TPUs ---
# The line `XLA Ops` of each core has nested events.
#
# Mirrors xprof/convert/xplane_to_op_metrics_db.cc and tsl/profiler/utils/tpu_xplane_utils.cc.


OPS: Final = "XLA Ops"
SPARSE_OPS: Final = "Sparse Core Ops"
MODULES: Final = ("XLA Modules", "Sparse Core Modules")
STEPS: Final = ("Steps", "Sparse Core Steps")
FRAMEWORK_OPS: Final = "Framework Ops"
_TPU_PREFIX: Final = "/device:TPU:"
_NO_OP_SYMBOL: Final = 0
"""The symbol of events that are no operations."""


def core_of(plane: Plane) -> str | None:
    """The TensorCore that a plane belongs to, such as `TPU:0`; None for other planes.

    >>> core_of(Plane(1, "/device:TPU:3", (), dict)), core_of(Plane(1, "/device:TPU:3 SparseCore 1", (), dict))
    ('TPU:3', None)
    """
    number = plane.name.removeprefix(_TPU_PREFIX)
    return f"TPU:{number}" if plane.name.startswith(_TPU_PREFIX) and number.isascii() and number.isdigit() else None


def _sparse_core_of(plane: Plane) -> str | None:
    """The SparseCore that a plane belongs to, such as `TPU:0 SparseCore 1`; None for other planes."""
    core, _, rest = plane.name.removeprefix(_TPU_PREFIX).partition(" SparseCore ")
    return f"TPU:{core} SparseCore {rest}" if rest and plane.name.startswith(_TPU_PREFIX) else None


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """Begins and durations of the events of a line: by the clock of the device if they have it, and of the host."""

    begins: Integers
    durations: Integers
    host_begins: Integers
    is_device: bool

    @property
    def ends(self) -> Integers:
        """When each event ends."""
        return self.begins + self.durations


def clock_of(line: Line) -> Clock:
    """The times of the events of a line, as `GetDeviceEventTimespan` has them."""
    offsets, durations = line.statistic("device_offset_ps"), line.statistic("device_duration_ps")
    host, host_durations = line_times(line)
    # Either both times are the device's or none: a difference of two clocks means nothing.
    on_device = (offsets.codes != ABSENT) & (durations.codes != ABSENT)
    every = np.arange(len(host))
    begins = np.where(on_device, integers(offsets, every, 0), host)
    lengths = np.where(on_device, integers(durations, every, 0), host_durations)
    return Clock(*_bounded_times(begins, lengths), host, bool(len(host)) and bool(on_device.all()))


def _add_core(plane: Plane, name: str, rows: OccurrenceList, ops_line: str = OPS) -> DeviceSteps | None:
    """Adds the operations of a core; returns its steps and the time of its operations. None if it has no operations."""
    lines = [(line, clock_of(line)) for line in plane.lines if line.name == ops_line and len(line.events)]
    if not lines:
        return None
    first_row, device = len(rows), rows.device(name)
    executions = _executions_of(plane)
    kept_events = [_add_core_line(line, clock, device, executions, rows) for line, clock in lines]
    clocks = [clock for _, clock in lines]
    others = [
        (line, clock_of(line)) for line in plane.lines if line.name in (*STEPS, FRAMEWORK_OPS) and len(line.events)
    ]
    on_device = all(clock.is_device for clock in clocks)
    timed = [*clocks, *(clock for _, clock in others if clock.is_device == on_device)]
    steps = [(line, clock) for line, clock in others if line.name in STEPS]
    is_mixed = any(clock.is_device != on_device for _, clock in steps)
    # Steps by the clock of the host are compared with operations by that clock.
    begins = [
        (clock.host_begins if is_mixed else clock.begins)[chosen]
        for clock, chosen in zip(clocks, kept_events, strict=True)
    ]
    return DeviceSteps(
        device,
        first_row,
        np.concatenate(begins),
        tuple(each for line, clock in steps for each in _steps_of_line(line, clock, is_mixed)),
        min(int(clock.begins.min()) for clock in timed),
        max(int(clock.ends.max()) for clock in timed),
    )


def _steps_of_line(line: Line, clock: Clock, on_host: bool) -> Iterator[Step]:
    """The steps of a line, by the clock of the host or that of the device."""
    begins = (clock.host_begins if on_host else clock.begins).tolist()
    durations = (line_times(line)[1] if on_host else clock.durations).tolist()
    for kind, begin, duration in zip(line.events.kinds.tolist(), begins, durations, strict=True):
        yield Step(_metadata_of_kind(line, kind).short_name, begin, begin + duration)


@dataclass(frozen=True, slots=True, eq=False)
class _Executions:
    """The events of the line `XLA Modules`, by time: `programs[codes[i]]` ran in execution `i`, with id `runs[i]`."""

    clock: Clock
    order: Integers
    programs: Sequence[tuple[int | None, str]]
    codes: Integers
    runs: Integers

    def at(self, clock: Clock) -> Integers:
        """The execution that each event begins in; ABSENT where there is none."""
        # The device's clock only if both lines have it.
        use_device = clock.is_device and self.clock.is_device
        begins = (self.clock.begins if use_device else self.clock.host_begins)[self.order]
        ends = begins + self.clock.durations[self.order]
        times = clock.begins if use_device else clock.host_begins
        executions = np.searchsorted(begins, times, side="right") - 1
        inside = (executions >= 0) & (times <= ends[np.maximum(executions, 0)])
        return np.where(inside, self.order[np.maximum(executions, 0)], ABSENT)


def _executions_of(plane: Plane) -> _Executions | None:
    line = next((line for line in plane.lines if line.name in MODULES and len(line.events)), None)
    if line is None:
        return None
    clock, every = clock_of(line), np.arange(len(line.events))
    runs = integers(line.statistic("run_id"), every, NO_RUN)
    kinds, codes = distinct_of(line.events.kinds)
    programs = [program_of(_metadata_of_kind(line, kind).short_name) for kind in kinds.tolist()]
    order = np.argsort(clock.begins, kind="stable")
    return _Executions(clock, order, programs, codes, np.where(runs == NO_RUN, every, runs))


def program_of(name: str) -> tuple[int | None, str]:
    """The id and the name of a program in the name of an execution.

    >>> program_of("jit_step(2041036616644817336)"), program_of("jit_step")
    ((2041036616644817336, 'jit_step'), (None, 'jit_step'))
    """
    before, _, after = name.removesuffix(")").rpartition("(")
    id = unsigned(after) if before and name.endswith(")") else None
    return (id, before) if id is not None else (None, name)


def _add_core_line(
    line: Line, clock: Clock, device: int, executions: _Executions | None, rows: OccurrenceList
) -> Integers:
    """Adds the operations of a line; returns the indices of their events."""
    events = line.events
    programs, symbols = line.statistic("program_id"), line.statistic("symbol_id")
    running = executions.at(clock) if executions else np.full(len(events), ABSENT, np.int64)
    of_run = executions.codes[running] if executions else running
    codes, distinct = joint_codes(
        [events.kinds, programs.codes, symbols.codes, np.where(running == ABSENT, ABSENT, of_run)]
    )
    first = first_places(codes, len(distinct))
    keys = []
    for (kind, program, symbol, ran), event in zip(distinct, first.tolist(), strict=True):
        # xplane_to_op_metrics_db.cc skips events of symbol 0.
        if whole(value_at(symbols, symbol)) == _NO_OP_SYMBOL:
            keys.append(ABSENT)
            continue
        id, module = executions.programs[ran] if executions and ran != ABSENT else (None, "")
        known = unsigned(value_at(programs, program))
        # The program that an event names and the execution around it contradict each other: no name is sure.
        if known is not None and id is not None and known != id:
            module = ""
        metadata = _with_own(_metadata_of_kind(line, kind), events.statistics_of(event))
        keys.append(rows.key(OperationKey(id if known is None else known, module, _op_of(metadata)), metadata))
    of_event = np.array(keys, np.int64)[codes] if keys else np.zeros(0, np.int64)
    order = nested_order(*line_times(line))
    self_ps = np.zeros(len(events), np.int64)
    self_ps[order] = self_times(clock.begins[order], clock.durations[order])
    chosen = np.flatnonzero(of_event != ABSENT)
    runs = integers(line.statistic("run_id"), chosen, NO_RUN)
    if executions:
        place = running[chosen]
        runs = np.where((runs == NO_RUN) & (place != ABSENT), executions.runs[place], runs)
    counts = np.maximum(events.occurrences[chosen], 1)
    times = clock.begins[chosen], clock.durations[chosen], self_ps[chosen]
    flows = integers(line.statistic("flow"), chosen, NO_FLOW)
    rows.add_line(line.name, of_event[chosen], device, runs, *times, counts, flows)
    return chosen


def _metadata_of_kind(line: Line, kind: int) -> EventMetadata:
    return line.kinds.get(kind, EventMetadata(kind, ""))


def _with_own(metadata: EventMetadata, own: Sequence[tuple[str, Value]]) -> EventMetadata:
    """Metadata with the statistics of an event where it has none itself: JSON files have all of them at events."""
    # The metadata win: they hold for all events of the operation.
    return replace(metadata, statistics={**dict(own), **metadata.statistics})


def _op_of(metadata: EventMetadata) -> str:
    """The name of the instruction: the display name, else the name in the text of the instruction.

    >>> _op_of(EventMetadata(1, "%add.1 = f32[2] add(%p, %p)"))
    'add.1'
    """
    return (metadata.display_name or metadata.name.partition(" = ")[0]).removeprefix("%")


# --- one trace ---


_HOST_PLANES: Final = (HOST, "/host:CUPTI", "/host:ROCTRACER")
"""The planes with the launches of kernels; profilers of these names write them apart from the rest of the host."""
_DEVICE_TYPE_STATISTICS: Final = ("device_type_string", "gpu_device_name", "cpu_version")


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """The rows of one trace from `first` to `end`, with what places them in steps."""

    trace: Trace
    first: int
    end: int
    cores: Sequence[DeviceSteps]
    correlations: Integers
    host: HostLines | None = None

    def expanded(self, source: Integers) -> Capture:
        """The capture where row `i` stands for the former row `source[i]`."""
        first, end = np.searchsorted(source, (self.first, self.end)).tolist()
        correlations = (
            self.correlations[source[first:end] - self.first] if len(self.correlations) else self.correlations
        )
        return replace(self, first=first, end=end, correlations=correlations)

    def limits(self) -> Mapping[int, tuple[int, int]]:
        """When the operations and steps of each device begin and end, where the trace has steps of its own."""
        return {core.device: (core.first_ps, core.last_ps) for core in self.cores}

    def steps(self, rows: Occurrences) -> Stepped:
        """The step of each of its rows: by the lines of cores, by annotations on the host, or by executions."""
        if any(core.steps for core in self.cores):
            return _steps_of_lines(self.cores, rows, self.first)
        plane, host = self.trace.plane(HOST), self.host
        hosts = [each for each in self.trace.planes if each.name in _HOST_PLANES]
        steps = () if plane is None else _host_steps(plane.lines) if host is None else host.steps
        if plane is not None and steps:
            stepped = (
                _host_stepped(rows, steps, _launch_times(hosts, self.correlations, rows.begins_ps))
                if len(self.correlations)
                else _steps_of_runs(rows, steps, launches(plane.lines) if host is None else host.launched)
            )
            # Annotations may be of another thread's work, in which nothing was launched.
            if (stepped.codes >= 0).any():
                return stepped
        return steps_of_executions(rows)


def platform_of(traces: Sequence[Trace]) -> Platform:
    """The platform of traces: that of the devices with operations, else the CPU."""
    planes = [plane for trace in traces for plane in trace.planes]
    # Devices without events do not make a platform: traces of GPUs have a plane of CPUs.
    if any(core_of(plane) and any(line.name == OPS and len(line.events) for line in plane.lines) for plane in planes):
        return "TPU"
    if any(_gpu_of(plane) and any(len(line.events) for line in _kernel_lines(plane)) for plane in planes):
        return "GPU"
    return "CPU"


def capture(
    trace: Trace,
    platform: Platform,
    rows: OccurrenceList,
    host: str,
    *,
    is_sparse: bool = False,
    visit: Callable[[Line], bool] = lambda line: True,
) -> Capture:
    """Adds the timed operations of a trace, or those of SparseCores; the names of devices begin with `host`.

    `visit` is called with each thread on which operations of a CPU may run; it returns whether to keep its events.
    """
    first = len(rows)
    cores = []
    correlations = [np.zeros(0, np.int64)]
    host_lines = None
    for plane in trace.planes:
        if platform == "TPU" and (name := _sparse_core_of(plane) if is_sparse else core_of(plane)):
            core = _add_core(plane, host + name, rows, SPARSE_OPS if is_sparse else OPS)
            cores += [core] if core else []
        elif platform == "CPU" and plane.name == HOST:
            host_lines = _add_cpu_events(plane, rows, host, visit)
        elif platform == "GPU" and (name := _gpu_of(plane)):
            correlations.append(_add_gpu(plane, host + name, rows))
    return Capture(trace, first, len(rows), cores, np.concatenate(correlations), host_lines)


def device_planes(trace: Trace, platform: Platform) -> Sequence[Plane]:
    """The planes of the devices of a trace."""
    if platform == "CPU":
        return [plane for plane in trace.planes if plane.name == HOST]
    name_of = core_of if platform == "TPU" else _gpu_of
    return [plane for plane in trace.planes if name_of(plane) is not None]


def device_type(planes: Sequence[Plane]) -> str:
    """The name of the type of devices; empty if the trace has none."""
    types = (text(plane.statistics.get(name)) for plane in planes for name in _DEVICE_TYPE_STATISTICS)
    return next(filter(None, types), "")
