"""`--chip NAME` of `hlo fuse`: what bounds an operation on a chip, and how long it takes at least."""

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

if TYPE_CHECKING:  # rooflines take a chip
    from hlo_cli.analysis.cost.roofline import Roofline
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec

_OTHER_WIRES: Final = COLLECTIVES | HOST_FEEDS | CHANNEL_STARTS
_MODEL: Final = "costs are counted as XLA's cost analysis counts them"
_COLUMNS = (
    Column("bound", "bound"),
    Column("seconds", "est.", "seconds", total="sum"),
    Column("at_least_seconds", "at least", "seconds", total="sum", person=False),
)


@dataclass(frozen=True, slots=True)
class TimingColumns:
    """A chip, and what it can do in a second."""

    throughput: ChipSpec

    def cells(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Row:
        """What bounds an operation, and its seconds; `element_type` is that of the flops where it is at hand."""
        found = self._roofline(instruction, cost, element_type)
        if found is None:
            return UNKNOWN, UNKNOWN, UNKNOWN
        return found.bound, found.seconds, found.at_least_seconds

    def in_words(self, instruction: Instruction, cost: Cost) -> str:
        """How long an operation takes at its roofline, what bounds it, and whether nothing makes it faster."""
        found = self._roofline(instruction, cost)
        if found is None:
            return "not known"
        words = f"{format_seconds(found.seconds)}, bound by {found.bound}"
        if found.at_least_seconds == found.seconds:
            return f"at least {words}"
        least = f", at least {format_seconds(found.at_least_seconds)}" if found.at_least_seconds else ""
        return f"about {words}{least}"

    def _roofline(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Roofline | None:
        """None for what nobody knows, and for collectives and sends, which go over other wires than the memory's."""
        from hlo_cli.analysis.cost.roofline import compute_type, roofline

        opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
        found = roofline(cost, self.throughput, element_type or compute_type(instruction))
        return None if found.bound == "unknown" or opcode in _OTHER_WIRES else found


def columns_for(timing: TimingColumns | None) -> tuple[Column, ...]:
    """The columns that a chip adds, none where none was named."""
    return _COLUMNS if timing is not None else ()


def model_of(timing: TimingColumns | None) -> Mapping[str, Cell]:
    """The model behind times, for machines; nothing where no chip was named."""
    return {"model": time_model(timing.throughput)} if timing is not None else {}


def notes_on_costs(
    loaded: Loaded, timing: TimingColumns | None, *, counts_loops: bool = False
) -> tuple[Diagnostic, ...]:
    """What a reader of costs should know: how times are found, and whose way of counting it is."""
    times = time_notes(timing.throughput, loaded.module) if timing is not None else ()
    has_loops = counts_loops and any(instruction.opcode == opcodes.WHILE for instruction in loaded.module.instructions)
    how = [
        *(["bytes without the padding of tiles"] if target_of(loaded.module) == "tpu" else []),
        *(["what a loop runs once"] if has_loops else []),
    ]
    words = f"{_MODEL}: {', '.join(how)}" if how else _MODEL
    return (*times, Diagnostic("note", words))
