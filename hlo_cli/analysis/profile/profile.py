"""A profile: the timed operations of one or several traces, joined to the instructions of their programs."""

from __future__ import annotations

from dataclasses import field
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.analysis.origin.scopes_and_moves import UNKNOWN, Origin
from hlo_cli.analysis.profile.intervals import busy_of, union
from hlo_cli.analysis.profile.occurrences import Occurrences
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Tabular
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import Integers, Trace

Platform: TypeAlias = Literal["CPU", "GPU", "TPU"]
Floats: TypeAlias = NDArray[np.float64]
StepSource: TypeAlias = Literal["annotation", "line", "executions"]
NO_STEP: Final = -1
PS: Final = 1e-12
"""Seconds of a picosecond."""


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
class Profile(Tabular):
    """Joined operations: row `i` of `occurrences` is one of `operations[codes[i]]`, in step `steps[step_codes[i]]`.

    `spans_ps` is the time of each device from its first to its last operation or step, and `windows` are its steps.
    `device_type` is the name that the trace gives the devices. `step_source` says what the steps are: annotations of
    the program, the line of steps of a TPU, or executions of the program that took longest. `call_weights` are the
    calls of its operation that each row counts as, if that is not its count of events. `shared_ps` is the part of each
    row in the busy time of its device, None if that is its self time. `sparse_core` is the profile of the SparseCores
    of TPUs, whose time is no part of this one.
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
    def step_busy_ps(self) -> tuple[int, ...]:
        """The time of all devices together in which any operation ran during each of the steps."""
        windows, found = self.windows, np.zeros(len(self.steps), np.int64)
        for device, busy in enumerate(busy_of(self.occurrences)):
            there = np.flatnonzero(windows.devices == device)
            covered = busy.intervals.covered(windows.begins_ps[there], windows.ends_ps[there])
            np.add.at(found, windows.steps[there], covered)
        return tuple(found.tolist())

    @property
    def busy_outside_ps(self) -> int:
        """The time of all devices together in which any operation ran, but no step."""
        windows, found = self.windows, 0
        for device, busy in enumerate(busy_of(self.occurrences)):
            there = windows.devices == device
            steps = union(windows.begins_ps[there], windows.ends_ps[there])
            found += busy.length - int(busy.intervals.covered(steps.begins, steps.ends).sum())
        return found
