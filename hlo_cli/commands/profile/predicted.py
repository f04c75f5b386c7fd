"""`hlo profile TRACE --predicted --chip NAME`: predicted times next to measured ones, the worst predictions first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.commands.profile.operations import source_of
from hlo_cli.commands.profile.prediction import predictions_of
from hlo_cli.commands.profile.words import facts_of, numbers_of
from hlo_cli.commands.shared.option_conflicts import requirement_error
from hlo_cli.dataclass import dataclass
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count, format_percent, format_ratio, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.estimate import Estimate
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed


@dataclass(frozen=True, slots=True)
class _Prediction:
    """An operation with the predicted time of a call."""

    timed: Timed
    estimate: Estimate

    @property
    def mean(self) -> float:
        """The measured time of a call."""
        return self.timed.measure.total / max(self.timed.measure.calls, 1)

    @property
    def difference(self) -> float:
        """The time of all calls less the predicted one."""
        return self.timed.measure.total - self.estimate.seconds * self.timed.measure.calls

    @property
    def is_within(self) -> bool:
        """Whether the measured time is within the band."""
        return self.estimate.low <= self.mean <= self.estimate.high


def report_of_predictions(measured: Measured) -> Report:
    """One row for each instruction, those with the largest difference of all calls first; HloError without a chip."""
    chip = measured.chip
    if chip is None:
        raise requirement_error("--predicted", "--chip NAME", hint="run `hlo help chips` to list all chips")
    estimates = predictions_of(measured)
    found = [_Prediction(each, estimates[each]) for each in measured.selected if each in estimates]
    found.sort(key=lambda each: (-abs(each.difference), each.timed.operation.name))
    joined = [each for each in measured.selected if each.operation.is_joined]
    total, predicted = (
        sum(each.timed.measure.total for each in found),
        sum(each.estimate.seconds * each.timed.measure.calls for each in found),
    )
    return Report(
        "profile",
        _answer(measured, found, chip.chip),
        version=1,
        numbers={
            **numbers_of(measured),
            "predicted_instructions": len(found),
            "unpredicted_instructions": len(joined) - len(found),
            "measured_seconds": total,
            "predicted_seconds": predicted,
            "within_band": sum(each.is_within for each in found),
        },
        parts=(facts_of(measured), _table(measured, found)),
        next=_next(measured, found, chip.chip),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _answer(measured: Measured, found: Sequence[_Prediction], chip: str) -> str:
    if not found:
        return f"No predictions for {format_count(len(measured.selected), 'operations')} on {chip}"
    whole = sum(each.timed.measure.total for each in found)
    predicted = sum(each.estimate.seconds * each.timed.measure.calls for each in found)
    within = [each for each in found if each.is_within]
    part = sum(each.timed.measure.total for each in within)
    words = f"Predicted {format_seconds(measured.per_device(predicted))} on {chip}"
    words += f", measured {format_seconds(measured.per_device(whole))}"
    words += f" ({format_ratio(whole / predicted)})" if predicted else ""
    share = format_percent(part / whole) if whole else "0"
    count = format_count(len(found), "measured times")
    return f"{words}; {len(within):,} of {count} in the predicted range ({share}% of the time)"


def _table(measured: Measured, found: Sequence[_Prediction]) -> Table:
    title = f"difference per {measured.device_noun}" if len(measured.profile.devices) > 1 else "difference"
    columns = (
        Column("difference_seconds", title, "seconds", total="sum"),
        Column("calls", "calls", "count", from_width=120),
        Column("call_seconds", "measured", "seconds"),
        Column("predicted_seconds", "predicted", "seconds", like="call_seconds"),
        Column("predicted_low_seconds", "low", "seconds", like="call_seconds", rank=6),
        Column("predicted_high_seconds", "high", "seconds", like="call_seconds", rank=6),
        Column("predicted_launch_seconds", "launch", "seconds", person=False),
        Column("factor", "factor", "ratio"),
        Column("within_band", "in range", "flag", from_width=120),
        Column("prediction_model", "model", from_width=120),
        Column("instruction", "instruction", "name"),
        Column("category", "category", from_width=120),
        Column("source", "source", "source", from_width=120),
    )
    rows = tuple(
        (
            measured.per_device(each.difference),
            each.timed.measure.calls,
            each.mean,
            each.estimate.seconds,
            each.estimate.low,
            each.estimate.high,
            each.estimate.launch_seconds,
            each.mean / each.estimate.seconds,
            each.is_within,
            ", ".join(sorted(each.estimate.sources)),
            each.timed.operation.name,
            each.timed.operation.category,
            source_of(each.timed),
        )
        for each in found
    )
    return Table("predictions", columns, rows, noun="instructions")


def _next(measured: Measured, found: Sequence[_Prediction], chip: str) -> tuple[str, ...]:
    if not measured.command or not found:
        return ()
    return (f"{measured.command} {found[0].timed.operation.name} --chip {chip}",)
