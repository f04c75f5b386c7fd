"""The timed operations in a trace of TPUs: the line `XLA Ops` of each core, whose events are nested.

Mirrors xprof/convert/xplane_to_op_metrics_db.cc and tsl/profiler/utils/tpu_xplane_utils.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hlo_cli.analysis.profile.columns import bounded_times, integers, joint_codes, line_times, unsigned, value_at, whole
from hlo_cli.analysis.profile.occurrences import NO_FLOW, NO_RUN, OccurrenceList, OperationKey
from hlo_cli.analysis.profile.profile import Step
from hlo_cli.analysis.profile.self_time import nested_order, self_times
from hlo_cli.analysis.profile.steps import DeviceSteps
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import ABSENT, EventMetadata, Integers, Line, Plane, Value

OPS: Final = "XLA Ops"
SPARSE_OPS: Final = "Sparse Core Ops"
MODULES: Final = ("XLA Modules", "Sparse Core Modules")
STEPS: Final = ("Steps", "Sparse Core Steps")
FRAMEWORK_OPS: Final = "Framework Ops"
_PREFIX: Final = "/device:TPU:"
_NOT_AN_OP: Final = 0
"""The symbol of events that are no operations."""


def core_of(plane: Plane) -> str | None:
    """The TensorCore that a plane belongs to, such as `TPU:0`; None for other planes.

    >>> core_of(Plane(1, "/device:TPU:3", (), dict)), core_of(Plane(1, "/device:TPU:3 SparseCore 1", (), dict))
    ('TPU:3', None)
    """
    number = plane.name.removeprefix(_PREFIX)
    return f"TPU:{number}" if plane.name.startswith(_PREFIX) and number.isascii() and number.isdigit() else None


def sparse_core_of(plane: Plane) -> str | None:
    """The SparseCore that a plane belongs to, such as `TPU:0 SparseCore 1`; None for other planes."""
    core, _, rest = plane.name.removeprefix(_PREFIX).partition(" SparseCore ")
    return f"TPU:{core} SparseCore {rest}" if rest and plane.name.startswith(_PREFIX) else None


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
    on_device = (offsets.codes != ABSENT) & (durations.codes != ABSENT)
    every = np.arange(len(host))
    begins = np.where(on_device, integers(offsets, every, 0), host)
    lengths = np.where(on_device, integers(durations, every, 0), host_durations)
    return Clock(*bounded_times(begins, lengths), host, bool(len(host)) and bool(on_device.all()))


def add_core(plane: Plane, name: str, rows: OccurrenceList, ops_line: str = OPS) -> DeviceSteps | None:
    """Adds the operations of a core; returns its steps and the time of its operations. None if it has no operations."""
    lines = [(line, clock_of(line)) for line in plane.lines if line.name == ops_line and len(line.events)]
    if not lines:
        return None
    first_row, device = len(rows), rows.device(name)
    executions = _executions_of(plane)
    kept = [_add_line(line, clock, device, executions, rows) for line, clock in lines]
    clocks = [clock for _, clock in lines]
    others = [
        (line, clock_of(line)) for line in plane.lines if line.name in (*STEPS, FRAMEWORK_OPS) and len(line.events)
    ]
    on_device = all(clock.is_device for clock in clocks)
    timed = [*clocks, *(clock for _, clock in others if clock.is_device == on_device)]
    steps = [(line, clock) for line, clock in others if line.name in STEPS]
    is_mixed = any(clock.is_device != on_device for _, clock in steps)
    begins = [
        (clock.host_begins if is_mixed else clock.begins)[chosen] for clock, chosen in zip(clocks, kept, strict=True)
    ]
    return DeviceSteps(
        device,
        first_row,
        np.concatenate(begins),
        tuple(each for line, clock in steps for each in _steps(line, clock, is_mixed)),
        min(int(clock.begins.min()) for clock in timed),
        max(int(clock.ends.max()) for clock in timed),
    )


def _steps(line: Line, clock: Clock, on_host: bool) -> Iterator[Step]:
    """The steps of a line, by the clock of the host or that of the device."""
    begins = (clock.host_begins if on_host else clock.begins).tolist()
    durations = (line_times(line)[1] if on_host else clock.durations).tolist()
    for kind, begin, duration in zip(line.events.kinds.tolist(), begins, durations, strict=True):
        yield Step(_kind(line, kind).short_name, begin, begin + duration)


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
        use_device = clock.is_device and self.clock.is_device
        begins = (self.clock.begins if use_device else self.clock.host_begins)[self.order]
        ends = begins + self.clock.durations[self.order]
        times = clock.begins if use_device else clock.host_begins
        found = np.searchsorted(begins, times, side="right") - 1
        inside = (found >= 0) & (times <= ends[np.maximum(found, 0)])
        return np.where(inside, self.order[np.maximum(found, 0)], ABSENT)


def _executions_of(plane: Plane) -> _Executions | None:
    line = next((line for line in plane.lines if line.name in MODULES and len(line.events)), None)
    if line is None:
        return None
    clock, every = clock_of(line), np.arange(len(line.events))
    runs = integers(line.statistic("run_id"), every, NO_RUN)
    kinds, codes = np.unique(line.events.kinds, return_inverse=True)
    programs = [program_of(_kind(line, kind).short_name) for kind in kinds.tolist()]
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


def _add_line(line: Line, clock: Clock, device: int, executions: _Executions | None, rows: OccurrenceList) -> Integers:
    """Adds the operations of a line; returns the indices of their events."""
    events = line.events
    programs, symbols = line.statistic("program_id"), line.statistic("symbol_id")
    running = executions.at(clock) if executions else np.full(len(events), ABSENT, np.int64)
    of_run = executions.codes[running] if executions else running
    codes, distinct = joint_codes(
        [events.kinds, programs.codes, symbols.codes, np.where(running == ABSENT, ABSENT, of_run)]
    )
    _, first = np.unique(codes, return_index=True)
    keys = []
    for (kind, program, symbol, ran), event in zip(distinct, first.tolist(), strict=True):
        if whole(value_at(symbols, symbol)) == _NOT_AN_OP:
            keys.append(ABSENT)
            continue
        id, module = executions.programs[ran] if executions and ran != ABSENT else (None, "")
        known = unsigned(value_at(programs, program))
        if known is not None and id is not None and known != id:
            module = ""
        metadata = _with_own(_kind(line, kind), events.statistics_of(event))
        keys.append(rows.key(OperationKey(id if known is None else known, module, op_of(metadata)), metadata))
    of_event = np.array(keys, np.int64)[codes] if keys else np.zeros(0, np.int64)
    order = nested_order(*line_times(line))
    own = np.zeros(len(events), np.int64)
    own[order] = self_times(clock.begins[order], clock.durations[order])
    chosen = np.flatnonzero(of_event != ABSENT)
    runs = integers(line.statistic("run_id"), chosen, NO_RUN)
    if executions:
        place = running[chosen]
        runs = np.where((runs == NO_RUN) & (place != ABSENT), executions.runs[place], runs)
    counts = np.maximum(events.occurrences[chosen], 1)
    times = clock.begins[chosen], clock.durations[chosen], own[chosen]
    flows = integers(line.statistic("flow"), chosen, NO_FLOW)
    rows.add_line(line.name, of_event[chosen], device, runs, *times, counts, flows)
    return chosen


def _kind(line: Line, kind: int) -> EventMetadata:
    return line.kinds.get(kind, EventMetadata(kind, ""))


def _with_own(metadata: EventMetadata, own: Sequence[tuple[str, Value]]) -> EventMetadata:
    """Metadata with the statistics of an event where it has none itself: JSON files have all of them at events."""
    return replace(metadata, statistics={**dict(own), **metadata.statistics})


def op_of(metadata: EventMetadata) -> str:
    """The name of the instruction: the display name, else the name in the text of the instruction.

    >>> op_of(EventMetadata(1, "%add.1 = f32[2] add(%p, %p)"))
    'add.1'
    """
    return (metadata.display_name or metadata.name.partition(" = ")[0]).removeprefix("%")
