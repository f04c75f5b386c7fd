"""The peak rates that operations are compared with: those in the trace, or of `--chip`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.analysis.profile.profile import Peaks
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_percent, format_rate
from hlo_cli.report.table import Cell

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.profile.profile import Operation


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

    @property
    def words(self) -> str:
        """The peak rates and who states them, for a note; empty without any."""
        if self.chip is not None:
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
