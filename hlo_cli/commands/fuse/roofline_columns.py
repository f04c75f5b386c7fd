"""`--chip NAME` of `hlo fuse`: the bound of an operation on a chip, its predicted time, and its minimum time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.shared.chips import kernel_times_in_words, time_model, time_notes
from hlo_cli.commands.shared.load import Loaded
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, wrapped_opcode
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_seconds, format_seconds_range
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:  # rooflines need a chip
    from hlo_cli.analysis.cost.roofline import Roofline
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.hardware.estimate import Estimate

_OTHER_LINKS: Final = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS
_MODEL: Final = "costs follow XLA's cost analysis"
_COLUMNS = (
    Column("bottleneck", "bottleneck"),
    Column("estimated_seconds", "est.", "seconds", total="sum"),
    Column("low_seconds", "low", "seconds", total="sum", person=False),
    Column("high_seconds", "high", "seconds", total="sum", person=False),
    Column("minimum_seconds", "at least", "seconds", total="sum", person=False),
)


@dataclass(frozen=True, slots=True)
class TimingColumns:
    """A chip and its throughputs."""

    throughput: ChipSpec

    def cells(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Row:
        """The bound of an operation, its predicted time with its band, and its minimum time.

        `element_type` is that of its flops, if at hand.
        """
        found = self._times(instruction, cost, element_type)
        if found is None:
            return (UNKNOWN,) * len(_COLUMNS)
        bound, estimate = found
        return bound.bound, estimate.seconds, estimate.low, estimate.high, bound.at_least_seconds

    def seconds(self, instruction: Instruction, cost: Cost) -> float | None:
        """The predicted time of an operation; None if unknown."""
        found = self._times(instruction, cost)
        return None if found is None else found[1].seconds

    def describe(self, instruction: Instruction, cost: Cost) -> str:
        """The estimated and the minimum time of an operation, and its bottleneck."""
        found = self._times(instruction, cost)
        if found is None:
            return "unknown"
        bound, estimate = found
        bottleneck = "no cost" if bound.bound == "free" else f"{bound.bound}-bound"
        seconds = format_seconds_range(estimate.low, estimate.seconds, estimate.high)
        least = f"; at least {format_seconds(bound.at_least_seconds)}" if bound.at_least_seconds else ""
        return f"about {seconds}, {bottleneck}{least}"

    def _times(
        self, instruction: Instruction, cost: Cost, element_type: str | None = None
    ) -> tuple[Roofline, Estimate] | None:
        """Roofline and prediction; None if unknown, and for transfers between chips, which do not use memory alone."""
        from hlo_cli.analysis.cost.predicted_time import kernel_estimate, kernel_roofline

        opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
        found, matmuls = kernel_roofline(instruction, cost, self.throughput, element_type)
        if found.bound == "unknown" or opcode in _OTHER_LINKS:
            return None
        return found, kernel_estimate(instruction, found, matmuls, self.throughput)


def columns_for(timing: TimingColumns | None) -> tuple[Column, ...]:
    """The columns that a chip adds; empty without a chip."""
    return _COLUMNS if timing is not None else ()


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
    has_loops = counts_loops and any(instruction.opcode == opcodes.WHILE for instruction in loaded.module.instructions)
    assumptions = [
        *(["bytes exclude tile padding"] if target_of(loaded.module) == "tpu" else []),
        *(["loop bodies are counted once"] if has_loops else []),
    ]
    words = f"{_MODEL}; {', and '.join(assumptions)}" if assumptions else _MODEL
    return (*times, Diagnostic("note", words))
