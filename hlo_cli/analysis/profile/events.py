"""Which events of a trace are timed operations, on each platform, and what places them in steps?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.profile.event_columns import (
    HOST,
    bounded_times,
    integers,
    joint_codes,
    line_times,
    nested_order,
    self_times,
    text,
    unsigned,
    value_at,
    whole,
)
from hlo_cli.analysis.profile.profile import (
    NO_FLOW,
    NO_RUN,
    InstructionNames,
    OccurrenceList,
    Occurrences,
    OperationKey,
    Peaks,
    Platform,
    Programs,
    Step,
)
from hlo_cli.analysis.profile.steps import (
    DeviceSteps,
    Stepped,
    add_launches,
    annotated_steps,
    host_stepped,
    host_steps,
    launches,
    outer_steps,
    steps_of_executions,
    steps_of_lines,
    steps_of_runs,
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

# --- CPUs ---
# The lines of `/host:CPU` are threads, with one event for each thunk.
#
# Mirrors the annotations of xla/backends/cpu/runtime/thunk.cc.


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
        annotated += annotated_steps(line)
        add_launches(line, launched)
        if not visit(line):
            line.forget()
    return HostLines(outer_steps(annotated), launched)


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
    return Clock(*bounded_times(begins, lengths), host, bool(len(host)) and bool(on_device.all()))


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
            return steps_of_lines(self.cores, rows, self.first)
        plane, host = self.trace.plane(HOST), self.host
        hosts = [each for each in self.trace.planes if each.name in _HOST_PLANES]
        steps = () if plane is None else host_steps(plane.lines) if host is None else host.steps
        if plane is not None and steps:
            stepped = (
                host_stepped(rows, steps, _launch_times(hosts, self.correlations, rows.begins_ps))
                if len(self.correlations)
                else steps_of_runs(rows, steps, launches(plane.lines) if host is None else host.launched)
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
