"""A profile: the timed operations of one or several traces, joined to the instructions of their programs."""

from __future__ import annotations

from dataclasses import field
from typing import Final, Literal, TypeAlias

import numpy as np

from hlo_cli.analysis.profile.occurrences import Occurrences
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Tabular
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import Integers, Trace

Platform: TypeAlias = Literal["CPU", "GPU", "TPU"]
NO_STEP: Final = -1
PS: Final = 1e-12
"""Seconds of a picosecond."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredProgram:
    """A program that ran: its id as unsigned 64-bit integer, its name, and its module, None if it is not at hand."""

    id: int | None
    name: str
    module: Module | None = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A timed operation: an instruction of a program, or a kernel without one.

    `name` is that of the instruction, else that of the kernel. `flops` and `bytes` are those of one call as the trace
    declares them, else by XLA's cost analysis of the instruction; None if unknown. `main_bytes` are the bytes in main
    memory. `category` is XLA's category; `kernels` are the names of the kernels that the operation ran as.
    """

    name: str
    program: MeasuredProgram | None
    instruction: Instruction | None
    category: str = ""
    op_name: str = ""
    source: str = ""
    flops: float | None = None
    bytes: float | None = None
    main_bytes: float | None = None
    kernels: tuple[str, ...] = ()

    @property
    def is_joined(self) -> bool:
        """Whether the operation has an instruction."""
        return self.instruction is not None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step: its name, its time, and whether it lies in the trace as a whole. `device` is None for all devices."""

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
class Peaks:
    """Peak rates of a device: FLOP/s, and bytes per second of main memory. `source` says who states them."""

    flops: float
    main_bytes: float
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Profile(Tabular):
    """Joined operations: row `i` of `occurrences` is one of `operations[codes[i]]`, in step `steps[step_codes[i]]`.

    `spans_ps` is the time of each device from its first to its last operation or step.
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

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return self.occurrences.device_names

    @property
    def total_ps(self) -> int:
        """The time of all devices together, of which shares are parts: idle time included."""
        busy = np.bincount(
            self.occurrences.devices, self.occurrences.self_ps.astype(np.float64), minlength=len(self.devices)
        )
        return sum(max(span, round(own)) for span, own in zip(self.spans_ps, busy.tolist(), strict=True))
