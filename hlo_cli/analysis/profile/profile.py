"""What a profile is: timed operations as columns, when devices were busy, and the instruction of each operation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.analysis.origin.scopes_and_moves import UNKNOWN, Origin
from hlo_cli.dataclass import brief_count, dataclass
from hlo_cli.displayed import Tabular, WithItems
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import EventMetadata, Integers, Trace, TracedProgram
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- timed operations ---


NO_RUN: Final = -1  # run ids are not negative in traces
NO_FLOW: Final = 0  # XProf writes no flow as 0


class OperationKey(NamedTuple):
    """What an event says about its operation: the id and the name of the program, the names of op and kernel.

    `program` is None, and names are empty, where the event does not say.
    """

    program: int | None
    module: str
    op: str
    kernel: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Columns of equal length, one row for each timed event: `keys[codes[i]]` is what ran.

    `runs` are ids of executions of a program, `NO_RUN` if unknown. Rows of equal `devices` share a clock; `lines` are
    threads or streams. A row with `counts` above 1 is the sum of that many. The start and the done of one transfer have
    equal `flows`, `NO_FLOW` if unknown. `facts` are the metadata of keys that have some of their own.
    """

    keys: Sequence[OperationKey]
    codes: Integers
    devices: Integers
    lines: Integers
    runs: Integers
    begins_ps: Integers
    durations_ps: Integers
    self_ps: Integers
    counts: Integers
    flows: Integers
    device_names: tuple[str, ...] = ()
    line_names: tuple[str, ...] = ()
    facts: Mapping[OperationKey, EventMetadata] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ends_ps(self) -> Integers:
        """When each row ends."""
        return self.begins_ps + self.durations_ps


def part_of(rows: Occurrences, first: int, end: int) -> Occurrences:
    """The rows from `first` to `end`, with the same keys and devices."""
    return rows_at(rows, slice(first, end))


def rows_at(rows: Occurrences, part: slice | Integers) -> Occurrences:
    """Some of the rows, with the same keys and devices."""
    return replace(
        rows,
        codes=rows.codes[part],
        devices=rows.devices[part],
        lines=rows.lines[part],
        runs=rows.runs[part],
        begins_ps=rows.begins_ps[part],
        durations_ps=rows.durations_ps[part],
        self_ps=rows.self_ps[part],
        counts=rows.counts[part],
        flows=rows.flows[part],
    )


class OccurrenceList:
    """Collects rows, line by line; `watch` is called with the number of rows so far."""

    def __init__(self, watch: Callable[[int], None] | None = None) -> None:
        self._watch = watch
        self._keys: dict[OperationKey, int] = {}
        self._devices: dict[str, int] = {}
        self._lines: list[str] = []
        self._parts: list[tuple[Integers, ...]] = []
        self._facts: dict[OperationKey, EventMetadata] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def key(self, key: OperationKey, facts: EventMetadata | None = None) -> int:
        """The code of an operation."""
        if facts is not None:
            self._facts.setdefault(key, facts)
        return self._keys.setdefault(key, len(self._keys))

    def device(self, name: str) -> int:
        """The code of a device."""
        return self._devices.setdefault(name, len(self._devices))

    def add_line(
        self,
        name: str,
        codes: Integers,
        devices: Integers | int,
        runs: Integers | int,
        begins_ps: Integers,
        durations_ps: Integers,
        self_ps: Integers,
        counts: Integers | int = 1,
        flows: Integers | int = NO_FLOW,
    ) -> None:
        """Adds the rows of a line."""
        line = len(self._lines)
        self._lines.append(name)
        size = len(codes)
        columns = [np.broadcast_to(np.asarray(each, np.int64), size) for each in (devices, line, runs, counts, flows)]
        self._parts.append((codes, columns[0], columns[1], columns[2], begins_ps, durations_ps, self_ps, *columns[3:]))
        self._size += size
        if self._watch is not None:
            self._watch(self._size)

    def occurrences(self) -> Occurrences:
        """All rows, in the order in which they were added."""
        columns = [np.concatenate(each) for each in zip(*self._parts, strict=True)] or [np.zeros(0, np.int64)] * 9
        codes, devices, lines, runs, begins, durations, own, counts, flows = columns
        names = tuple(self._devices), tuple(self._lines)
        return Occurrences(
            tuple(self._keys), codes, devices, lines, runs, begins, durations, own, counts, flows, *names, self._facts
        )


# --- unions of times ---
# Events of one device overlap: on threads of a CPU, on streams of a GPU. Their durations add up to more than the time
# that passed, so every busy, idle, and exposed time is the length of a union, and all of them are made here.


Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals that are sorted, not empty, and do not touch."""

    begins: Integers
    ends: Integers

    @property
    def length(self) -> int:
        """The sum of the lengths.

        >>> union(np.array([0, 5, 6]), np.array([2, 7, 9])).length
        6
        """
        return int((self.ends - self.begins).sum())

    def covered(self, begins: Integers, ends: Integers) -> Integers:
        """How much of each interval from `begins` to `ends` lies in these.

        >>> union(np.array([0, 5]), np.array([2, 9])).covered(np.array([1, 3]), np.array([6, 4])).tolist()
        [2, 0]
        """
        return self._until(ends) - self._until(begins)

    def _until(self, times: Integers) -> Integers:
        """How much of these lies before each time."""
        if not len(self.begins):
            return np.zeros(len(times), np.int64)
        lengths = np.concatenate(([0], np.cumsum(self.ends - self.begins)))
        position = np.searchsorted(self.begins, times, side="right")
        before = np.maximum(position - 1, 0)
        inside = np.minimum(times, self.ends[before]) - self.begins[before]
        result: Integers = np.where(position > 0, lengths[before] + inside, 0)
        return result


def union(begins: Integers, ends: Integers) -> Intervals:
    """The union of intervals; those that are empty add nothing.

    >>> found = union(np.array([4, 0, 1]), np.array([5, 2, 3]))
    >>> found.begins.tolist(), found.ends.tolist()
    ([0, 4], [3, 5])
    """
    is_kept = ends > begins
    begins, ends = begins[is_kept], ends[is_kept]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    if not len(begins):
        return Intervals(begins, ends)
    # Touching intervals become one: a gap of zero is no idle time.
    reached = np.maximum.accumulate(ends)
    first = np.concatenate(([True], begins[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(begins[first], reached[last])


# --- busy time of devices ---


@dataclass(frozen=True, slots=True, eq=False)
class Busy:
    """The time of one device in which operations ran.

    `summed_ps` is that of rows that the trace has only as sums, which have a length but no place in time.
    """

    intervals: Intervals
    summed_ps: int = 0

    @property
    def length(self) -> int:
        """All of the time in which operations ran."""
        return self.intervals.length + self.summed_ps


def busy_of(rows: Occurrences, chosen: Integers | None = None) -> Sequence[Busy]:
    """For each device, the time in which any of its rows ran, or any of the `chosen` ones."""
    devices, begins, ends = rows.devices, rows.begins_ps, rows.ends_ps
    counts, own = rows.counts, rows.self_ps
    if chosen is not None:
        devices, begins, ends = devices[chosen], begins[chosen], ends[chosen]
        counts, own = counts[chosen], own[chosen]
    order = np.argsort(devices, kind="stable")
    bounds = np.searchsorted(devices[order], np.arange(len(rows.device_names) + 1)).tolist()
    busy = []
    for first, last in pairwise(bounds):
        on_device = order[first:last]
        single = on_device[counts[on_device] == 1]
        summed = on_device[counts[on_device] != 1]
        busy.append(Busy(union(begins[single], ends[single]), int(own[summed].sum())))
    return busy


# --- the part of an operation in busy time ---


def shared_times(rows: Occurrences) -> Floats | None:
    """The part of each row in the busy time of its device, in picoseconds; None if that is its self time.

    Time in which several operations run is divided between them, so that the parts add up to the busy time. As in self
    times, an operation does not run while others run inside it on its line.
    """
    shared = rows.self_ps.astype(np.float64)
    busy = busy_of(rows)
    self_sums = np.bincount(rows.devices, shared, len(busy))
    # A difference below one picosecond is rounding of floats.
    is_shared = [abs(self_sums[device] - each.length) >= 1 for device, each in enumerate(busy)]
    for device in np.flatnonzero(is_shared).tolist():
        on_device = np.flatnonzero((rows.devices == device) & (rows.counts == 1))
        begins, ends, owners = _running_intervals(rows, on_device)
        shared[on_device] = 0.0
        np.add.at(shared, owners, divided(begins, ends))
    return shared if any(is_shared) else None


def divided(begins: Integers, ends: Integers) -> Floats:
    """The length of each interval, where time that several share is divided between them.

    >>> divided(np.array([0, 0, 9]), np.array([4, 2, 12])).tolist()
    [3.0, 1.0, 3.0]
    """
    times = np.sort(np.concatenate((begins, ends)))
    times = times[np.append(True, times[1:] != times[:-1])]
    first, last = np.searchsorted(times, begins), np.searchsorted(times, ends)
    changes = np.bincount(first, minlength=len(times)) - np.bincount(last, minlength=len(times))
    # Between two neighboring times the number of running rows is constant.
    running = np.cumsum(changes)[:-1]
    parts = np.divide(np.diff(times), running, out=np.zeros(len(running)), where=running > 0)
    until = np.concatenate(([0.0], np.cumsum(parts)))
    result: Floats = until[last] - until[first]
    return result


def _running_intervals(rows: Occurrences, chosen: Integers) -> tuple[Integers, Integers, Integers]:
    """When the chosen rows ran and nothing inside them did: begins and ends of intervals, and the row of each."""
    begins, ends = rows.begins_ps[chosen], rows.ends_ps[chosen]
    order = np.lexsort((-ends, begins, rows.lines[chosen]))
    lines, begins, ends, owners = rows.lines[chosen][order], begins[order], ends[order], chosen[order]
    # Without nesting each row is its own interval.
    if not ((lines[1:] == lines[:-1]) & (begins[1:] < ends[:-1])).any():
        return begins, ends, owners
    starts: list[int] = []
    stops: list[int] = []
    numbers: list[int] = []
    stack: list[tuple[int, int]] = []  # the end of each row that others may be inside, and its number
    reached: list[int] = []  # until when its time is accounted for
    last_line = -1
    for line, begin, end, row in zip(lines.tolist(), begins.tolist(), ends.tolist(), owners.tolist(), strict=True):
        # Rows that do not contain this one, or are on another line, are over.
        while stack and (line != last_line or end > stack[-1][0]):
            stop, number = stack.pop()
            starts.append(reached.pop())
            stops.append(stop)
            numbers.append(number)
        last_line = line
        if stack:
            starts.append(reached[-1])
            stops.append(begin)
            numbers.append(stack[-1][1])
            reached[-1] = max(reached[-1], end)
        stack.append((end, row))
        reached.append(begin)
    starts += reached
    stops += [end for end, _ in stack]
    numbers += [row for _, row in stack]
    columns = np.array((starts, stops, numbers), np.int64)
    is_kept = columns[1] > columns[0]
    return columns[0][is_kept], columns[1][is_kept], columns[2][is_kept]


# --- the profile ---


Platform: TypeAlias = Literal["CPU", "GPU", "TPU"]
StepSource: TypeAlias = Literal["annotation", "line", "executions"]
NO_STEP: Final = -1  # steps are indices from 0


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredProgram:
    """A program that ran: its id as unsigned 64-bit integer, its name, and its module, None if it is not at hand.

    If another program has the same name, its own one ends in its id: `jit_f(8)`.
    """

    id: int | None
    name: str
    module: Module | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one call accesses: all, those in main memory, and those in the memories next to a TPU's cores.

    The last four may count what is not in `all`, as the trace declares them.
    """

    all: float
    main: float
    cmem_read: float = 0.0
    cmem_written: float = 0.0
    vmem_read: float = 0.0
    vmem_written: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A timed operation: an instruction of a program, or a kernel without one.

    `name` is that of the instruction, else that of the kernel. `flops` and `traffic` are those of one call as the trace
    declares them, else by XLA's cost analysis of the instruction; None if unknown. `model_flops` are without those
    of rematerialization. `category` is XLA's category; `kernels` are the names of the kernels that it ran as.
    With `is_estimated`, its times are a share of those of a CUDA graph.
    """

    name: str
    program: MeasuredProgram | None
    instruction: Instruction | None
    category: str = ""
    declared_op_name: str = ""
    declared_source: str = ""
    flops: float | None = None
    model_flops: float | None = None
    traffic: Traffic | None = None
    kernels: tuple[str, ...] = ()
    is_estimated: bool = False

    @property
    def op_name(self) -> str:
        """The name in the user's program: as the trace declares it, else that of the instruction; empty if unknown."""
        return self.declared_op_name or self._origin.op_name

    @property
    def source(self) -> str:
        """Where the user's program made it, as `file:line`: see `op_name`."""
        return self.declared_source or self._origin.source

    @property
    def _origin(self) -> Origin:
        if self.instruction is None or self.program is None or self.program.module is None:
            return UNKNOWN
        return origins_of(self.program.module).of(self.instruction)

    @property
    def bytes(self) -> float | None:
        """The bytes that one call accesses; None if unknown."""
        return self.traffic.all if self.traffic else None

    @property
    def main_bytes(self) -> float | None:
        """The bytes that one call accesses in main memory; None if unknown."""
        return self.traffic.main if self.traffic else None

    @property
    def is_joined(self) -> bool:
        """Whether the operation has an instruction."""
        return self.instruction is not None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step: its name, its time, and whether it lies in the trace as a whole. `device` is None for all devices.

    The step of several devices is from the first begin to the last end on those of the first host.
    """

    name: str
    begin_ps: int
    end_ps: int
    is_whole: bool = True
    device: int | None = None

    @property
    def duration_ps(self) -> int:
        """How long the step took."""
        return self.end_ps - self.begin_ps


@dataclass(frozen=True, slots=True, eq=False)
class StepWindows:
    """When steps began and ended on each device, by its own clock: columns of equal length, in any order.

    `steps` are indices into the steps. Executions of a device may overlap, and so may their windows.
    """

    steps: Integers
    devices: Integers
    begins_ps: Integers
    ends_ps: Integers


NO_WINDOWS: Final = StepWindows(*(np.zeros(0, np.int64) for _ in range(4)))


# --- what the host did ---


Work: TypeAlias = Literal["compiling", "input", "launching", "host", "waiting"]
"""What a host does; it is `waiting` while it is blocked until a device is done."""
WORKS: Final[tuple[Work, ...]] = ("compiling", "input", "launching", "host", "waiting")


@dataclass(frozen=True, slots=True, eq=False)
class HostWork:
    """What one thread did: disjoint intervals by time, each of `WORKS[codes[i]]`, because of `labels[causes[i]]`.

    `copies` is when other threads copied arrays to a device.
    """

    codes: Integers
    begins_ps: Integers
    ends_ps: Integers
    causes: Integers
    labels: tuple[str, ...]
    copies: Intervals


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak rates of a device: FLOP/s, and bytes per second of its memories; 0 if unknown.

    `source` is who states them. `traced_flops` and `traced_bytes` are those of the trace where the table of chips has
    others, else 0. Those of VMEM count for efficiency only if the core `has_merged_vmem`. `chip` is the GPU by what the
    trace has of it, empty if unknown.
    """

    flops: float
    main_bytes: float
    source: str
    cmem_read: float = 0.0
    cmem_written: float = 0.0
    vmem_read: float = 0.0
    vmem_written: float = 0.0
    shared: float = 0.0
    has_merged_vmem: bool = False
    chip: str = ""
    traced_flops: float = 0.0
    traced_bytes: float = 0.0

    @property
    def ridge(self) -> float | None:
        """The FLOPs per byte of main memory where the two peaks meet; None if unknown.

        >>> Peaks(200e12, 1e12, "trace").ridge
        200.0
        """
        return self.flops / self.main_bytes if self.main_bytes and self.flops else None


@dataclass(frozen=True, slots=True, eq=False)
class Profile(WithItems, Tabular):
    """Joined operations: row `i` of `occurrences` is one of `operations[codes[i]]`, in step `steps[step_codes[i]]`.

    `spans_ps` is the time of each device from its first to its last operation or step, and `windows` are its steps.
    `device_type` is the name that the trace gives the devices. `step_source` says what the steps are: annotations of
    the program, the line of steps of a TPU, or executions of the program that took longest. `call_weights` are the
    calls of its operation that each row counts as, if that is not its count of events. `shared_ps` is the part of each
    row in the busy time of its device, None if that is its self time. `sparse_core` is the profile of the SparseCores
    of TPUs, whose time is no part of this one. `hosts` is what the host of each device did, by the clock of the device;
    empty if unknown. `traced_rows` are the first row and the end of the rows of each trace, empty for one.
    """

    traces: tuple[Trace, ...]
    platform: Platform
    programs: tuple[MeasuredProgram, ...]
    operations: tuple[Operation, ...]
    occurrences: Occurrences
    codes: Integers
    steps: tuple[Step, ...]
    step_codes: Integers
    spans_ps: tuple[int, ...]
    peaks: Peaks | None = None
    notes: tuple[str, ...] = ()
    device_type: str = ""
    step_source: StepSource = "annotation"
    call_weights: Floats | None = None
    sparse_core: Profile | None = None
    windows: StepWindows = NO_WINDOWS
    shared_ps: Floats | None = None
    hosts: tuple[HostWork | None, ...] = ()
    traced_rows: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        counts = f"{brief_count(len(self.operations), 'operations')} of {brief_count(len(self.programs), 'programs')}"
        return f"<Profile {self.platform}: {counts}, {sum(self.busy_ps) / 1e12:.4g} s busy>"

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return self.occurrences.device_names

    @property
    def total_ps(self) -> int:
        """The time of all devices together, of which shares are parts: idle time included."""
        return sum(self.spans_ps)

    @property
    def busy_ps(self) -> tuple[int, ...]:
        """The time of each device in which any operation ran: operations that ran at the same time count once."""
        return tuple(busy.length for busy in busy_of(self.occurrences))

    @property
    def idle_ps(self) -> tuple[int, ...]:
        """The time of each device in which no operation ran.

        >>> from hlo_cli import profile
        >>> found = profile("fixtures/traces/cpu/trace.xplane.pb")
        >>> sum(found.busy_ps) + sum(found.idle_ps) == found.total_ps
        True
        """
        return tuple(span - busy for span, busy in zip(self.spans_ps, self.busy_ps, strict=True))

    @property
    def step_spans_ps(self) -> tuple[int, ...]:
        """The time of all devices together in each of the steps, of which the busy time is a part.

        A step lasts from its first begin to its last end on any device; each device has its own part of that.

        >>> from hlo_cli import profile
        >>> found = profile("fixtures/traces/cpu_steps/trace.xplane.pb")
        >>> found.step_spans_ps[0] == 2 * found.steps[0].duration_ps  # two devices, by the clock of one host
        True
        """
        windows, sums = self.windows, np.zeros(len(self.steps), np.int64)
        np.add.at(sums, windows.steps, windows.ends_ps - windows.begins_ps)
        return tuple(sums.tolist())

    @property
    def step_busy_ps(self) -> tuple[int, ...]:
        """The time of all devices together in which any operation ran during each of the steps."""
        windows, busy_sums = self.windows, np.zeros(len(self.steps), np.int64)
        for device, busy in enumerate(busy_of(self.occurrences)):
            on_device = np.flatnonzero(windows.devices == device)
            covered = busy.intervals.covered(windows.begins_ps[on_device], windows.ends_ps[on_device])
            np.add.at(busy_sums, windows.steps[on_device], covered)
        return tuple(busy_sums.tolist())

    @property
    def busy_outside_ps(self) -> int:
        """The time of all devices together in which any operation ran, but no step."""
        windows, outside = self.windows, 0
        for device, busy in enumerate(busy_of(self.occurrences)):
            on_device = windows.devices == device
            steps = union(windows.begins_ps[on_device], windows.ends_ps[on_device])
            outside += busy.length - int(busy.intervals.covered(steps.begins, steps.ends).sum())
        return outside


# --- names of programs ---


MIN_SHARE: Final = 0.9
"""The smallest part of the operations that ran which the module of the same compilation has."""
_MAX_NAMED: Final = 3  # enough to recognize the programs by; chosen for a line of text


def module_name(program: str) -> str:
    """The name of a module in that of a program, which may end in its id.

    >>> module_name("jit_step(2041036616644817336)")
    'jit_step'
    """
    return program.partition("(")[0]


def _with_distinct_names(programs: Iterable[MeasuredProgram]) -> Mapping[MeasuredProgram, MeasuredProgram]:
    """Each program with its id in its name if another one has the same name.

    >>> first, second, third = (MeasuredProgram(id, name, None) for id, name in ((8, "f"), (9, "f"), (10, "g")))
    >>> [each.name for each in _with_distinct_names([first, second, third]).values()]
    ['f(8)', 'f(9)', 'g']
    """
    distinct = list(dict.fromkeys(programs))
    names = [each.name for each in distinct]
    return {
        each: replace(each, name=f"{each.name}({each.id})")
        if each.id is not None and names.count(each.name) > 1
        else each
        for each in distinct
    }


def program_of(
    profile: Profile, module: Module, *, proto: bytes | None = None, id: int | None = None
) -> MeasuredProgram | None:
    """The program of a profile that ran a module, None if none has its name; HloError if several fit equally.

    Of several programs with that name, it is the one whose `proto` in the trace is that of the module, else the one
    with the most equal instructions; `id` decides between equal programs.
    """
    named = [each for each in profile.programs if module_name(each.name) == module.name]
    # The proto itself identifies a program, before its contents and its id do.
    if len(named) > 1 and proto is not None:
        ids = {each.id for trace in profile.traces for each in trace.programs() if each.proto == proto}
        named = [each for each in named if each.id in ids] or named
    if len(named) > 1:
        named = _fitting(profile, module, named)
    if len(named) > 1:
        # Ids count compilations of a process, so they are the last resort.
        named = [each for each in named if each.id == id] or named
    if len(named) > 1:
        shown = ", ".join(each.name for each in named[:_MAX_NAMED])
        hint = "pass the module of the trace itself, such as TRACE#1"
        raise HloError(f"module {module.name} could be any of {len(named):,} programs: {shown}", hint=hint)
    return named[0] if named else None


def _fitting(profile: Profile, module: Module, programs: Sequence[MeasuredProgram]) -> list[MeasuredProgram]:
    """The programs that have most in common with a module."""
    names = {each.name for each in module.instructions}
    instructions = _comparable_instructions(module)
    ran: dict[MeasuredProgram, list[str]] = {each: [] for each in programs}
    for operation in profile.operations:
        if operation.program in ran:
            ran[operation.program].append(operation.name)
    # What ran decides before what the modules have in common.
    fits = [(_share_of_names(ran[each], names), _share_in_common(instructions, each.module)) for each in programs]
    return [each for each, fit in zip(programs, fits, strict=True) if fit == max(fits)]


def _share_of_names(ran: Sequence[str], names: Collection[str]) -> float:
    return sum(name in names for name in ran) / len(ran) if ran else 0.0


def _share_in_common(instructions: Collection[tuple[str, str, str]], other: Module | None) -> float:
    """The part of the instructions of two modules that are in both; 0 if a module is missing."""
    other_instructions = set() if other is None else _comparable_instructions(other)
    return len(other_instructions.intersection(instructions)) / max(len(other_instructions.union(instructions)), 1)


def _comparable_instructions(module: Module) -> set[tuple[str, str, str]]:
    return {(each.name, each.opcode, each.shape.to_string(layout=False)) for each in module.instructions}


# --- the instruction of an operation ---


Pair: TypeAlias = tuple[int | None, str]
"""Id and name of a program."""
NO_PROGRAM: Final[Pair] = (None, "")
_REPLACED_IN_KERNELS: Final = lazy_regex(r"[.\-]")
_DUPLICATES_SUFFIX: Final = " and its duplicate(s)"


@dataclass(frozen=True, slots=True)
class GivenModule:
    """A module of a dump, with the id of its program if its file name has it."""

    id: int | None
    module: Module


@dataclass(frozen=True, slots=True)
class Programs:
    """The program of each pair of id and name, and what is to be said of modules that were refused."""

    by_pair: Mapping[Pair, MeasuredProgram]
    notes: tuple[str, ...] = ()

    def of(self, key: OperationKey) -> MeasuredProgram | None:
        """The program that a key names."""
        return self.by_pair.get((key.program, key.module))


def programs_of(
    keys: Iterable[OperationKey],
    traced: Sequence[TracedProgram],
    read_module: Callable[[TracedProgram], Module | None],
    given: Sequence[GivenModule] = (),
) -> Programs:
    """The programs that keys name: in the trace, else in a dump that has nine of ten of their operations.

    Of a program that several keys name in different ways, there is one. Those that no key names are not read. Programs
    of one name have their ids in their names, such as `jit_f(8)`.
    """
    programs: dict[Pair, MeasuredProgram] = {}
    read: dict[TracedProgram, MeasuredProgram] = {}
    names, notes = InstructionNames(), []
    traced_by_id, traced_by_name = _indexed(traced)
    given_by_name: dict[str, list[GivenModule]] = {}
    for each in given:
        given_by_name.setdefault(each.module.name, []).append(each)
    ops: dict[Pair, set[str]] = {}
    for key in keys:
        if (key.program, key.module) != NO_PROGRAM:
            ops.setdefault((key.program, key.module), set()).update((key.op,) if key.op else ())
    unnamed = _names_of_unnamed(ops)
    for pair, named in unnamed.items():
        ops[named] |= ops.pop(pair)
    for (id, name), ops_of_program in ops.items():
        of_name = traced_by_name.get(name, ())
        program = _traced_program(id, of_name, traced_by_id)
        module = None if program is None else read_module(program)
        if program is not None and module is not None:
            programs[id, name] = read.setdefault(program, MeasuredProgram(program.id, name or module.name, module))
            continue
        if program is not None:
            notes.append(f"the module of {program.name} in the trace cannot be read; give a dump of it")
        chosen, share = _given_module(id, ops_of_program, given_by_name.get(name, ()) if name else given, names)
        # Nine of ten: less is another compilation, whose instructions have other names.
        if chosen is not None and share < MIN_SHARE:
            notes.append(
                f"{chosen.name} of the dump has only {round(100 * share)}% of the operations that ran; not used"
            )
            chosen = None
        programs[id, name] = MeasuredProgram(id, name, chosen)
    programs |= {pair: programs[named] for pair, named in unnamed.items()}
    labeled = _with_distinct_names(programs.values())
    return Programs({pair: labeled[program] for pair, program in programs.items()}, tuple(notes))


def _names_of_unnamed(pairs: Collection[Pair]) -> Mapping[Pair, Pair]:
    """The pairs without a name whose id only one named pair has, with that."""
    of_id: dict[int, list[Pair]] = {}
    for id, name in pairs:
        if id is not None and name:
            of_id.setdefault(id, []).append((id, name))
    return {(id, ""): named[0] for id, named in of_id.items() if len(named) == 1 and (id, "") in pairs}


def _indexed(
    traced: Iterable[TracedProgram],
) -> tuple[Mapping[int, TracedProgram], Mapping[str, Sequence[TracedProgram]]]:
    """The first program of each id, and the programs of each name."""
    by_id: dict[int, TracedProgram] = {}
    by_name: dict[str, list[TracedProgram]] = {}
    for each in traced:
        by_id.setdefault(each.id, each)
        by_name.setdefault(module_name(each.name), []).append(each)
    return by_id, by_name


def _traced_program(
    id: int | None, named: Sequence[TracedProgram], by_id: Mapping[int, TracedProgram]
) -> TracedProgram | None:
    """The program in the trace with an id, or the only one of a name if it has no id."""
    if id is None:
        return named[0] if len(named) == 1 else None
    return next((each for each in named if each.id == id), by_id.get(id))


def _given_module(
    id: int | None, ops: Collection[str], named: Sequence[GivenModule], names: InstructionNames
) -> tuple[Module | None, float]:
    """The module of a dump for a program, and the part of the operations that it has.

    It is that with its id, else that of its name with the most operations: on TPUs dumps have other ids.
    """
    # CPU and GPU dumps have the id of the program in their file names.
    same = [each for each in named if each.id is not None and each.id == id] or named
    best: tuple[Module | None, float] = (None, 0.0)
    for each in same:
        share = sum(names.find(each.module, op) is not None for op in ops) / len(ops) if ops else 1.0
        if best[0] is None or share > best[1]:
            best = each.module, share
    return best


def join_kernels(
    rows: Occurrences,
    traced: Sequence[TracedProgram],
    read_module: Callable[[TracedProgram], Module | None],
    given: Sequence[GivenModule],
) -> Occurrences:
    """Rows whose kernels name their instruction, if the trace has no annotations: the last resort.

    The kernels that XLA makes have the name of their fusion, with `_` for `.` and `-`. Kernels of libraries stay alone.
    """
    if any(key.op for key in rows.keys):
        return rows
    read = [(each.id, read_module(each)) for each in traced]
    in_trace: list[tuple[int | None, Module]] = [(id, module) for id, module in read if module is not None]
    modules = in_trace or [(each.id, each.module) for each in given]
    instructions_by_kernel: dict[str, list[tuple[int | None, str, str]]] = {}
    for id, module in modules:
        for instruction in module.instructions:
            # XLA turns `.` and `-` of a fusion's name into `_` for its kernel.
            kernel = _REPLACED_IN_KERNELS.sub("_", instruction.name)
            instructions_by_kernel.setdefault(kernel, []).append((id, module.name, instruction.name))
    keys = []
    for key in rows.keys:
        of_key = instructions_by_kernel.get(kernel_name(key.kernel), ())
        named = [each for each in of_key if key.program in (None, each[0]) and key.module in ("", each[1])]
        # A kernel that several fusions share is not joined.
        keys.append(OperationKey(*named[0], key.kernel) if len(named) == 1 else key)
    return replace(rows, keys=keys)


def kernel_name(kernel: str) -> str:
    """The name of a kernel without what compilers and profilers add.

    >>> kernel_name("loop_add_fusion_3.kd"), kernel_name("gemm(float*, int) [clone .kd]")
    ('loop_add_fusion_3', 'gemm')
    """
    return kernel.partition(" [clone")[0].partition("(")[0].removesuffix(".kd").strip()


class InstructionNames:
    """The instructions of programs by the names that traces use."""

    def __init__(self) -> None:
        self._by_name: dict[Module, Mapping[str, Instruction]] = {}

    def find(self, module: Module, name: str) -> Instruction | None:
        """The instruction that a trace means by a name; None if the module has none of it.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
        >>> InstructionNames().find(module, "%p and its duplicate(s)"), InstructionNames().find(module, "q")
        (<parameter p>, None)
        """
        if module not in self._by_name:
            self._by_name[module] = {instruction.name: instruction for instruction in module.instructions}
        # XProf appends it to groups of equal operations.
        return self._by_name[module].get(name.removesuffix(_DUPLICATES_SUFFIX).removeprefix("%"))
