"""`--chip NAME` of `hlo fuse`: the bound of an operation on a chip, its predicted time, and its minimum time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.modules.loading import Loaded, stage_of
from hlo_cli.commands.options.chips import kernel_times_in_words, time_model, time_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_seconds, format_seconds_range
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:  # rooflines need a chip
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.schedule.kernel_times import KernelTimes, Prediction

_MODEL: Final = "costs follow XLA's cost analysis"
TIME_TITLES: Final = {False: "est.", True: "est. unfused"}
"""The titles of estimated times of kernels: of those that run, or of operations that are not fused yet."""
_COLUMNS = (
    Column("bottleneck", "bottleneck"),
    Column("estimated_seconds", "est.", "seconds", total="sum"),
    Column("low_seconds", "low", "seconds", total="sum", person=False),
    Column("high_seconds", "high", "seconds", total="sum", person=False),
    Column("minimum_seconds", "at least", "seconds", total="sum", person=False),
    Column("kernel_seconds", "kernel", "seconds", total="sum", person=False),
    Column("launch_seconds", "launch", "seconds", total="sum", person=False),
    Column("estimate_source", "estimate", person=False),
)


@dataclass(frozen=True, slots=True)
class TimingColumns:
    """A chip and its throughputs; with `module`, as the kernels of that module run on the chip.

    `is_unfused` if the compiler still fuses the operations, each of which is timed as a kernel.
    """

    throughput: ChipSpec
    module: Module | None = field(default=None, repr=False, compare=False)
    is_unfused: bool = False
    times: KernelTimes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from hlo_cli.analysis.schedule.kernel_times import KernelTimes

        object.__setattr__(self, "times", KernelTimes(self.throughput, module=self.module))

    def cells(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Row:
        """The bound of an operation, its predicted time with its band and parts, its minimum time, and the model.

        `element_type` is that of its flops, if at hand.
        """
        found = self.times.known(instruction, cost, element_type)
        if found is None:
            return (UNKNOWN,) * len(_COLUMNS)
        bound, estimate, _ = found
        return (
            bound.bound,
            estimate.seconds,
            estimate.low,
            estimate.high,
            bound.at_least_seconds,
            found.kernel_seconds,
            estimate.launch_seconds,
            ", ".join(sorted(estimate.sources)) or None,
        )

    def prediction(self, instruction: Instruction, cost: Cost) -> Prediction | None:
        """The prediction of an operation; None if its time is unknown."""
        return self.times.known(instruction, cost)

    def model_cells(self, instruction: Instruction, cost: Cost) -> Row:
        """XLA's own account of a kernel, for `MODEL_COLUMNS`."""
        from hlo_cli.commands.fuse.kernel_model import model_cells

        found = self.prediction(instruction, cost)
        return model_cells(None if found is None else found.kernel)

    def seconds(self, instruction: Instruction, cost: Cost) -> tuple[float, bool]:
        """The predicted time of an operation as far as it is known, and whether it is known."""
        found = self.times.least(instruction, cost)
        return (0.0, False) if found is None else (found.estimate.seconds, found.roofline.bound != "unknown")

    def describe(self, instruction: Instruction, cost: Cost) -> str:
        """The estimated and the minimum time of an operation, and its bottleneck."""
        found = self.times.known(instruction, cost)
        if found is None:
            return "unknown"
        bound, estimate, _ = found
        bottleneck = "no cost" if bound.bound == "free" else f"{bound.bound}-bound"
        seconds = format_seconds_range(estimate.low, estimate.seconds, estimate.high)
        least = f"; at least {format_seconds(bound.at_least_seconds)}" if bound.at_least_seconds else ""
        return f"about {seconds}, {bottleneck}{least}"


def timing_of(loaded: Loaded, throughput: ChipSpec | None) -> TimingColumns | None:
    """The time columns for a module; None without a chip."""
    if throughput is None:
        return None
    return TimingColumns(throughput, loaded.module, is_unfused=stage_of(loaded) == "before optimization")


def columns_for(timing: TimingColumns | None) -> tuple[Column, ...]:
    """The columns that a chip adds; empty without a chip."""
    if timing is None:
        return ()
    return tuple(
        replace(each, title=TIME_TITLES[timing.is_unfused]) if each.title == "est." else each for each in _COLUMNS
    )


def model_of(timing: TimingColumns | None) -> Mapping[str, Cell]:
    """The model of the times, for programs; empty without a chip."""
    return {"model": time_model(timing.throughput)} if timing is not None else {}


def notes_on_costs(
    loaded: Loaded, timing: TimingColumns | None, *, counts_loops: bool = False
) -> tuple[Diagnostic, ...]:
    """Notes on how times are estimated and how costs are counted."""
    times: tuple[Diagnostic, ...] = ()
    if timing is not None:
        kernels = Diagnostic("note", kernel_times_in_words(timing.throughput))
        times = (*time_notes(timing.throughput, loaded.module), kernels)
        if timing.is_unfused:
            words = (
                "operations are timed before fusion; `hlo schedule --chip NAME` times the module after fusion by rule"
            )
            times = (*times, Diagnostic("note", words))
    has_loops = counts_loops and any(instruction.opcode == opcodes.WHILE for instruction in loaded.module.instructions)
    assumptions = [
        *(["bytes exclude tile padding"] if target_of(loaded.module) == "tpu" else []),
        *(["loop bodies are counted once"] if has_loops else []),
    ]
    words = f"{_MODEL}; {', and '.join(assumptions)}" if assumptions else _MODEL
    return (*times, Diagnostic("note", words))
