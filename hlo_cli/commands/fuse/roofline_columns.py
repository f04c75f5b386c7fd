"""`--chip NAME` of `hlo fuse`: the bound of an operation on a chip, and its minimum time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost import Cost
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.shared.chips import time_model, time_notes
from hlo_cli.commands.shared.load import Loaded
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, wrapped_opcode
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_seconds
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:  # rooflines need a chip
    from hlo_cli.analysis.cost.roofline import Roofline
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec

_OTHER_LINKS: Final = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS
_MODEL: Final = "costs follow XLA's cost analysis"
_COLUMNS = (
    Column("bottleneck", "bottleneck"),
    Column("estimated_seconds", "est.", "seconds", total="sum"),
    Column("minimum_seconds", "at least", "seconds", total="sum", person=False),
)


@dataclass(frozen=True, slots=True)
class TimingColumns:
    """A chip and its throughputs."""

    throughput: ChipSpec

    def cells(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Row:
        """The bound and seconds of an operation; `element_type` is that of its flops, if at hand."""
        found = self._roofline(instruction, cost, element_type)
        if found is None:
            return UNKNOWN, UNKNOWN, UNKNOWN
        return found.bound, found.seconds, found.at_least_seconds

    def describe(self, instruction: Instruction, cost: Cost) -> str:
        """The estimated and the minimum time of an operation, and its bottleneck."""
        found = self._roofline(instruction, cost)
        if found is None:
            return "unknown"
        bottleneck = "no cost" if found.bound == "free" else f"{found.bound}-bound"
        if found.at_least_seconds == found.seconds:
            return f"at least {format_seconds(found.seconds)} ({bottleneck})"
        least = f"; at least {format_seconds(found.at_least_seconds)}" if found.at_least_seconds else ""
        return f"about {format_seconds(found.seconds)} ({bottleneck}){least}"

    def _roofline(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Roofline | None:
        """The roofline; None if unknown, and for collectives and sends, which use other links than memory."""
        from hlo_cli.analysis.cost.roofline import compute_type, roofline

        opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
        found = roofline(cost, self.throughput, element_type or compute_type(instruction))
        return None if found.bound == "unknown" or opcode in _OTHER_LINKS else found


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
    times = time_notes(timing.throughput, loaded.module) if timing is not None else ()
    has_loops = counts_loops and any(instruction.opcode == opcodes.WHILE for instruction in loaded.module.instructions)
    assumptions = [
        *(["bytes exclude tile padding"] if target_of(loaded.module) == "tpu" else []),
        *(["loop bodies are counted once"] if has_loops else []),
    ]
    words = f"{_MODEL}; {', and '.join(assumptions)}" if assumptions else _MODEL
    return (*times, Diagnostic("note", words))
