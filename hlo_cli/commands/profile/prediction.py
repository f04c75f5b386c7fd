"""Predicted times of instructions on a chip, next to the measured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.report.numbers import format_ratio, format_seconds

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.estimate import Estimate
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed


def prediction_of(measured: Measured, timed: Timed) -> Estimate | None:
    """The predicted time of one call; None without a chip, and for what the time model does not cover."""
    instruction, chip = timed.operation.instruction, measured.roofs.chip
    if instruction is None or chip is None:
        return None
    from hlo_cli.analysis.cost.predicted_time import predicted_time

    found = predicted_time(instruction, chip)
    return found if found is not None and found.seconds else None


def prediction_words(found: Estimate, timed: Timed, chip: str) -> str:
    """A prediction with its band, and where the measured time is."""
    mean = timed.measure.total / max(timed.measure.calls, 1)
    band = f"{format_seconds(found.seconds)} ({format_seconds(found.low)} to {format_seconds(found.high)}) on {chip}"
    if found.low <= mean <= found.high:
        return f"{band}; measured within the band"
    return f"{band}; measured {format_ratio(mean / found.seconds)}"
