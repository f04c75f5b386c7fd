"""How fast was each measured operation, and how fast could it be? Rates, sums of them, and the peak rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.measure import MAIN, Measure, Rates, is_inner
from hlo_cli.analysis.profile.profile import MeasuredProgram, Operation, Peaks, Profile
from hlo_cli.analysis.profile.step_budget import Part
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_count, format_percent, format_rate
from hlo_cli.report.table import Cell

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.profile.operation_times import MeanTimes


# --- peak rates ---
# Those in the trace, or of `--chip`.


@dataclass(frozen=True, slots=True)
class Roofs:
    """Peak rates: those of a chip take precedence over those in the trace; without either, no roof is known."""

    traced: Peaks | None = None
    chip: ChipSpec | None = None

    @property
    def is_known(self) -> bool:
        """Whether there are any peak rates."""
        return self.traced is not None or self.chip is not None

    def peaks(self, operation: Operation) -> Peaks | None:
        """The peaks for an operation; of a chip, for the element type of its largest matmul, else of its result."""
        if self.chip is None:
            return self.traced
        rate = self.chip.at_most(_element_type(operation)) if operation.flops else None
        return Peaks(0.0 if rate is None else rate.per_second, self.chip.memory.per_second, self.chip.chip)

    def matmul_peak(self, kind: str, known: ChipSpec | None) -> float | None:
        """The peak for matmuls of a type as data sheets have it; None if unknown. `known` is the chip of the trace."""
        if self.chip is not None:
            rate = self.chip.flops_of(kind)
            return None if rate is None else rate.per_second
        if self.traced is None or not self.traced.flops:
            return None
        # Traces state the rate of 16-bit types; a core of a TPU has a part of what the table has for its chip.
        rate, base = (None, None) if known is None else (known.flops_of(kind), known.flops_of("bf16"))
        return self.traced.flops * (rate.per_second / base.per_second if rate and base else 1.0)

    @property
    def words(self) -> str:
        """The peak rates and who states them, for a note; empty without any."""
        if self.chip is not None:
            # A note has room for one rate: that of the fastest type of 16 bits, if there is one.
            kind = next((each for each in ("bf16", "f16", "f32") if each in self.chip.flops), None)
            rates = [f"{format_rate(self.chip.flops[kind].per_second, 'flop')} in {kind}"] if kind else []
            rates.append(f"{format_rate(self.chip.memory.per_second, 'B')} memory")
            return f"rooflines use the peak rates of {self.chip.chip}: {', '.join(rates)}"
        if self.traced is None:
            return ""
        rates = [f"{format_rate(self.traced.flops, 'flop')}", f"{format_rate(self.traced.main_bytes, 'B')} memory"]
        words = f"rooflines use the peak rates of {self.traced.source}: {', '.join(rates)}"
        pairs = (
            (self.traced.traced_flops, self.traced.flops, "flop", "peak"),
            (self.traced.traced_bytes, self.traced.main_bytes, "B", "memory rate"),
        )
        differ = [
            f"the {name} in the trace is {format_rate(stated, unit)} ({format_percent(stated / used)}%)"
            for stated, used, unit, name in pairs
            if stated
        ]
        return "; ".join((words, *differ))

    @property
    def facts(self) -> dict[str, Cell]:
        """The peak rates, for programs."""
        if self.chip is not None:
            flops = {kind: rate.per_second for kind, rate in self.chip.flops.items()}
            return {"peaks": {"source": self.chip.chip, "flops": flops, "memory": self.chip.memory.per_second}}
        if self.traced is None:
            return {}
        peaks = self.traced
        found: dict[str, Cell] = {"source": peaks.source, "flops": peaks.flops, "memory": peaks.main_bytes}
        traced = {"traced_flops": peaks.traced_flops, "traced_memory": peaks.traced_bytes}
        found |= {name: rate for name, rate in traced.items() if rate}
        return {"peaks": found}


def _element_type(operation: Operation) -> str:
    from hlo_cli.analysis.schedule.kernel_times import compute_type

    return "f32" if operation.instruction is None else compute_type(operation.instruction)


# --- operations with their rates ---


BLOCKS: Final = "▁▂▃▄▅▆▇█"
"""The heights of a bar in one line of text."""


NO_INSTRUCTION: Final = "(no instruction)"
"""What stands for the instruction of a kernel that belongs to none."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """An operation with its times on all devices, and the rates that its calls achieve."""

    operation: Operation
    measure: Measure
    rates: Rates

    @property
    def is_named(self) -> bool:
        """Whether the operation is an instruction: one of its module or, if that is not at hand, of that name."""
        program = self.operation.program
        return self.operation.is_joined or (program is not None and program.module is None)

    @property
    def instruction_name(self) -> str:
        """The name of the instruction; of a kernel without one, `(no instruction)`."""
        return self.operation.name if self.operation.is_joined else NO_INSTRUCTION

    @property
    def floor(self) -> float | None:
        """The least time of all calls at the peak rates, in seconds; None without work or peaks."""
        return self.rates.efficiency * self.measure.total if self.rates.efficiency else None

    @property
    def lost(self) -> float | None:
        """The time above the least time, in seconds: 0 above 100% of the roofline, None without a floor."""
        return None if self.floor is None else max(self.measure.total - self.floor, 0.0)


@dataclass(frozen=True, slots=True)
class Sum:
    """Times of several operations on all devices, in seconds, with the work of those whose work is known.

    `busy_time` is their part of the busy time: see `Measure`.

    `flops` and `bytes` are None if no operation has them. `compute` and `memory` are the times that the work takes at
    the peak rates, `work_time` the time of the operations that have any. Loops and calls have the work of what runs
    inside them, so theirs is not counted.
    """

    operations: int = 0
    calls: int = 0
    events: int = 0
    total: float = 0.0
    self_time: float = 0.0
    flops: float | None = None
    bytes: float | None = None
    compute: float = 0.0
    memory: float = 0.0
    work_time: float = 0.0
    busy_time: float = 0.0

    @property
    def flop_rate(self) -> float | None:
        """Floating-point operations per second of one device, while these operations run."""
        return None if self.flops is None or not self.work_time else self.flops / self.work_time

    @property
    def byte_rate(self) -> float | None:
        """Bytes accessed per second by one device, while these operations run."""
        return None if self.bytes is None or not self.work_time else self.bytes / self.work_time

    @property
    def bound(self) -> str | None:
        """The resource of which the largest part of the peak is used; None if neither is."""
        if not self.roof:
            return None
        return "compute" if self.compute >= self.memory else MAIN

    @property
    def roof(self) -> float | None:
        """The part of the peak of that resource; None without work or peaks.

        >>> Sum(total=2.0, compute=0.5, memory=1.0, work_time=2.0).roof
        0.5
        """
        floor = max(self.compute, self.memory)
        return floor / self.work_time if floor and self.work_time else None


def sum_of(timed: Iterable[Timed]) -> Sum:
    """The sum of operations."""
    operations = calls = events = 0
    busy = total = own = compute = memory = work_time = flops = accessed = 0.0
    has_flops = has_bytes = False
    for each in timed:
        operation, measure, rates = each.operation, each.measure, each.rates
        operations, calls, events = operations + 1, calls + measure.calls, events + measure.events
        total, own, busy = total + measure.total, own + measure.self_time, busy + measure.busy_time
        if is_inner(operation) or (operation.flops is None and operation.bytes is None):
            continue
        work_time += measure.total
        compute += (rates.compute_use or 0.0) * measure.total
        memory += (rates.memory_use or 0.0) * measure.total
        if operation.flops is not None:
            has_flops, flops = True, flops + operation.flops * measure.calls
        if operation.bytes is not None:
            has_bytes, accessed = True, accessed + operation.bytes * measure.calls
    work = (flops if has_flops else None, accessed if has_bytes else None)
    return Sum(operations, calls, events, total, own, *work, compute, memory, work_time, busy)


# --- which events count ---


_UNIT_WORDS: Final = {"step": "step", "run": "execution"}
"""What the units of mean times are called, as in the facts of a profile."""


def per_words(profile: Profile, times: MeanTimes) -> str:
    """What a time is per, such as `per step and device`."""
    words = "in the trace" if times.unit == "trace" else f"per {_UNIT_WORDS[times.unit]}"
    return f"{words} and device" if len(profile.devices) > 1 else words


def mean_words(times: MeanTimes) -> str:
    """The units of which a time per unit is the mean; empty for the whole trace, and for one unit."""
    if times.unit == "trace" or (times.count == 1 and not times.partial):
        return ""
    noun = f"{_UNIT_WORDS[times.unit]}s"
    if times.partial:
        return f"mean of {format_count(times.count, f'whole {noun}')}"
    return f"mean of all {format_count(times.count, noun)}"


def counted_words(times: MeanTimes) -> str:
    """Which events count that are in no whole step, where there are any: in shares and sums, not in means of steps."""
    if not times.partial and not times.outside:
        return ""
    noun = _UNIT_WORDS[times.unit]
    parts = [format_count(times.partial, f"partial {noun}s")] if times.partial else []
    parts += [f"{format_count(times.outside, 'events')} outside of {noun}s"] if times.outside else []
    return f"shares and sums count all events, also {' and '.join(parts)}; times per {noun} do not"


def longest_of(timed: Sequence[Timed]) -> Timed:
    """The operation that takes most time."""
    return min(timed, key=rank)


def rank(timed: Timed) -> tuple[float, float, str]:
    """The order of operations: the largest part of the busy time first."""
    return -timed.measure.busy_time, -timed.measure.self_time, timed.operation.name


def longest_program(timed: Iterable[Timed]) -> MeasuredProgram | None:
    """The program whose operations take most time, of those whose module is at hand; None without any."""
    totals: dict[MeasuredProgram, float] = {}
    for each in timed:
        if (program := each.operation.program) is not None and program.module is not None:
            totals[program] = totals.get(program, 0.0) + each.measure.busy_time
    return max(totals, key=lambda program: totals[program], default=None)


# --- words for parts of steps ---


PART_WORDS: Final[dict[Part, str]] = {
    "compute": "compute",
    "exposed_transfers": "exposed communication",
    "waiting_for_devices": "waiting for other devices",
    "input": "waiting for input",
    "compiling": "compiling",
    "launching": "launching",
    "host": "other host work",
    "unexplained": "idle, unexplained",
}
"""What each part of a step is called."""
