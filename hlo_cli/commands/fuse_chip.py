"""`--chip NAME` of `hlo fuse`: what bounds an operation on a chip, and how long it takes at least."""

from __future__ import annotations

from dataclasses import dataclass

from hlo_cli.analysis.async_pairs import COLLECTIVES
from hlo_cli.analysis.chips import find_chip
from hlo_cli.analysis.costs.figures import Cost
from hlo_cli.analysis.roofline import calculating_type, roofline
from hlo_cli.analysis.target import target_of
from hlo_cli.analysis.throughput import Throughput, throughput_of
from hlo_cli.commands.loading import Loaded
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.opcode import wrapped_opcode
from hlo_cli.render.numbers import scaled
from hlo_cli.report.cell import UNKNOWN, Row
from hlo_cli.report.column import Column
from hlo_cli.source import Diagnostic

COLUMNS = (
    Column("bound", "bound"),
    Column("microseconds", "µs", "count", machine=False, total="sum"),
    Column("seconds", "seconds", "count", person=False, total="sum"),
)
"""The columns that a chip adds to a table."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A chip and what it can do in a second."""

    throughput: Throughput

    def cells(self, instruction: Instruction, cost: Cost, element_type: str | None = None) -> Row:
        """The cells of `COLUMNS`; `element_type` is that of the flops where it is at hand."""
        opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
        found = roofline(cost, self.throughput, element_type or calculating_type(instruction))
        if found.bound == "unknown" or opcode in COLLECTIVES:
            return UNKNOWN, UNKNOWN, UNKNOWN
        return found.bound, found.seconds * 1e6, found.seconds

    def in_words(self, instruction: Instruction, cost: Cost) -> str:
        """How long an operation takes at least, and what bounds it."""
        found = roofline(cost, self.throughput, calculating_type(instruction))
        if found.bound == "unknown":
            return "not known"
        return f"at least {scaled(found.seconds * 1e6, decimals=1)} µs, bound by {found.bound}"

    @property
    def note(self) -> Diagnostic:
        """The model behind the numbers."""
        memory = self.throughput.memory.per_second / 1e9
        flops = ", ".join(f"{name} {rate.per_second / 1e12:,.0f}" for name, rate in self.throughput.flops.items())
        return Diagnostic(
            "note",
            f"times are for {self.throughput.chip}: the longer of flops at the peak ({flops} Tflop/s) and bytes at"
            f" {memory:,.0f} GB/s; no kernel is faster",
        )


def timing_of(chip: str) -> Timing:
    """The chip of this name, however it is written; HloError if there is none."""
    return Timing(throughput_of(find_chip(chip).name))


def columns_for(timing: Timing | None) -> tuple[Column, ...]:
    """The columns that a chip adds, none where none was named."""
    return COLUMNS if timing is not None else ()


def notes_on_costs(loaded: Loaded, timing: Timing | None) -> tuple[Diagnostic, ...]:
    """What a reader of costs should know: how times are found, and that padding does not count."""
    notes = (timing.note,) if timing is not None else ()
    if target_of(loaded.module) != "tpu":
        return notes
    return (*notes, Diagnostic("note", "bytes are without the padding of tiles, as XLA's cost analysis counts them"))
