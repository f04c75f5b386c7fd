"""The least time that an operation needs at the peak rates of its device: those in the trace, or of `--chip`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Cell
from hlo_cli.report.numbers import format_rate

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.profile.profile import Operation, Peaks


@dataclass(frozen=True, slots=True)
class Floor:
    """Least seconds of compute and of memory traffic, 0 where the work is unknown or there is none."""

    compute: float = 0.0
    memory: float = 0.0

    @property
    def seconds(self) -> float:
        """The larger of both.

        >>> Floor(1.0, 3.0).seconds
        3.0
        """
        return max(self.compute, self.memory)


@dataclass(frozen=True, slots=True)
class Roofs:
    """Peak rates: those of a chip take precedence over those in the trace; without either, no roof is known."""

    peaks: Peaks | None = None
    chip: ChipSpec | None = None

    @property
    def is_known(self) -> bool:
        """Whether there are any peak rates."""
        return self.peaks is not None or self.chip is not None

    def floor(self, operation: Operation) -> Floor:
        """The least time of one call; by a chip, at its peak for the element type of the operation."""
        flops, accessed = operation.flops or 0.0, operation.bytes or 0.0
        if operation.main_bytes is not None:
            accessed = operation.main_bytes
        compute = memory = None
        if self.chip is not None:
            rate = self.chip.at_most(_element_type(operation)) if flops else None
            compute, memory = None if rate is None else rate.per_second, self.chip.memory.per_second
        elif self.peaks is not None:
            compute, memory = self.peaks.flops, self.peaks.main_bytes
        return Floor(max(flops, 0.0) / compute if compute else 0.0, max(accessed, 0.0) / memory if memory else 0.0)

    @property
    def words(self) -> str:
        """The peak rates and who states them, for a note; empty without any."""
        if self.chip is not None:
            kind = next((each for each in ("bf16", "f16", "f32") if each in self.chip.flops), None)
            rates = [f"{format_rate(self.chip.flops[kind].per_second, 'flop')} in {kind}"] if kind else []
            rates.append(f"{format_rate(self.chip.memory.per_second, 'B')} memory")
            return f"the roof is that of {self.chip.chip}: {', '.join(rates)}"
        if self.peaks is None:
            return ""
        rates = [f"{format_rate(self.peaks.flops, 'flop')}", f"{format_rate(self.peaks.main_bytes, 'B')} memory"]
        return f"the roof is {' and '.join(rates)} ({self.peaks.source})"

    @property
    def facts(self) -> dict[str, Cell]:
        """The peak rates, for programs."""
        if self.chip is not None:
            flops = {kind: rate.per_second for kind, rate in self.chip.flops.items()}
            return {"peaks": {"chip": self.chip.chip, "flops": flops, "memory": self.chip.memory.per_second}}
        if self.peaks is None:
            return {}
        return {
            "peaks": {"source": self.peaks.source, "flops": self.peaks.flops, "memory": self.peaks.main_bytes},
        }


def _element_type(operation: Operation) -> str:
    from hlo_cli.analysis.cost.roofline import compute_type

    return "f32" if operation.instruction is None else compute_type(operation.instruction)
