"""`hlo profile TRACE --predicted --chip NAME`: predicted times next to measured ones, the worst predictions first.

What the time model does not cover has a row, too: its measured time is in the sum, and only like is compared with like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.commands.options.io_options import requirement_error
from hlo_cli.commands.profile.operations import source_of
from hlo_cli.commands.profile.prediction import predictions_of
from hlo_cli.commands.profile.words import facts_of, numbers_of
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_count, format_percent, format_ratio, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import Estimate
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed


@dataclass(frozen=True, slots=True)
class _Prediction:
    """An operation with the predicted time of a call, None if the time model does not cover it.

    What runs inside an operation has rows of its own, so `seconds` is the self time of all calls.
    """

    timed: Timed
    estimate: Estimate | None

    @property
    def seconds(self) -> float:
        """The measured time of all calls."""
        return self.timed.measure.self_time

    @property
    def mean(self) -> float:
        """The measured time of a call."""
        return self.seconds / max(self.timed.measure.calls, 1)

    @property
    def predicted(self) -> float:
        """The predicted time of all calls; 0 where it is unknown."""
        return 0.0 if self.estimate is None else self.estimate.seconds * self.timed.measure.calls

    @property
    def difference(self) -> float | None:
        """The measured time of all calls less the predicted one; None if that is unknown."""
        return None if self.estimate is None else self.seconds - self.predicted

    @property
    def unexplained(self) -> float:
        """The measured time that the prediction does not explain: all of it where there is none."""
        return self.seconds if self.difference is None else abs(self.difference)

    @property
    def is_within(self) -> bool | None:
        """Whether the measured time is within the band; None without one."""
        return None if self.estimate is None else self.estimate.low <= self.mean <= self.estimate.high


@dataclass(frozen=True, slots=True)
class _Predictions:
    """All selected operations: those with a prediction, and the others; `ranked` has both, as they are shown."""

    ranked: Sequence[_Prediction]
    known: Sequence[_Prediction]
    unknown: Sequence[_Prediction]

    @property
    def measured(self) -> float:
        """The measured time of those with a prediction."""
        return sum(each.seconds for each in self.known)

    @property
    def predicted(self) -> float:
        """The predicted time of the same."""
        return sum(each.predicted for each in self.known)

    @property
    def unpredicted(self) -> float:
        """The measured time of the others."""
        return sum(each.seconds for each in self.unknown)


def report_of_predictions(measured: Measured) -> Report:
    """One row for each operation, those with the largest difference of all calls first; HloError without a chip."""
    chip = measured.chip
    if chip is None:
        raise requirement_error("--predicted", "--chip NAME", hint="run `hlo help chips` to list all chips")
    found = _predictions(measured)
    return Report(
        "profile",
        _answer(measured, found, chip.chip),
        version=1,
        numbers={
            **numbers_of(measured),
            "predicted_instructions": len(found.known),
            "unpredicted_instructions": sum(each.timed.operation.is_joined for each in found.unknown),
            "unpredicted_operations": len(found.unknown),
            "measured_seconds": found.measured,
            "predicted_seconds": found.predicted,
            "unpredicted_seconds": found.unpredicted,
            "within_band": sum(bool(each.is_within) for each in found.known),
        },
        parts=(facts_of(measured), _table(measured, found)),
        next=_next(measured, found, chip.chip),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _predictions(measured: Measured) -> _Predictions:
    estimates = predictions_of(measured)
    found = [_Prediction(each, estimates.get(each)) for each in measured.selected]
    found.sort(key=lambda each: (-each.unexplained, each.timed.operation.name))
    known = [each for each in found if each.estimate is not None]
    return _Predictions(found, known, [each for each in found if each.estimate is None])


def _answer(measured: Measured, found: _Predictions, chip: str) -> str:
    """Predicted and measured time of the same operations, then what has no prediction."""
    number = len(found.known)
    if not found.known:
        words = f"No predictions for {format_count(len(measured.selected), 'operations')} on {chip}"
        return (
            f"{words}: they take {format_seconds(measured.per_device(found.unpredicted))}" if found.unknown else words
        )
    within = [each for each in found.known if each.is_within]
    part = sum(each.seconds for each in within)
    words = f"Predicted {format_seconds(measured.per_device(found.predicted))} on {chip}"
    words += f", measured {format_seconds(measured.per_device(found.measured))}"
    words += f" ({format_ratio(found.measured / found.predicted)})" if found.predicted else ""
    if found.unpredicted:
        words += f" for {format_count(number, 'operations')}; {_unknown_words(measured, found)}"
    share = format_percent(part / found.measured) if found.measured else "0"
    count = format_count(number, "measured times")
    return f"{words}; {len(within):,} of {count} in the predicted range ({share}% of the time)"


def _unknown_words(measured: Measured, found: _Predictions) -> str:
    """How much has no prediction, such as `4 custom-call instructions of 6.7 ms have no prediction`."""
    instructions = [each.timed.operation.instruction for each in found.unknown]
    opcodes = {"" if each is None else each.opcode for each in instructions}
    kind, number = opcodes.pop() if len(opcodes) == 1 else "", len(found.unknown)
    count = format_count(number, f"{kind} instructions" if kind else "operations")
    time = format_seconds(measured.per_device(found.unpredicted))
    return f"{count} of {time} {verb(number, 'has', 'have')} no prediction"


def _table(measured: Measured, found: _Predictions) -> Table:
    many = f"per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""
    columns = (
        Column("seconds", "measured", "seconds", total="sum", group=many),
        Column("predicted_total_seconds", "predicted", "seconds", total="sum", group=many),
        Column("difference_seconds", "difference", "seconds", total="sum", group=many),
        Column("calls", "calls", "count", from_width=120),
        Column("call_seconds", "measured", "seconds", group="per call", rank=6),
        Column("predicted_seconds", "predicted", "seconds", like="call_seconds", group="per call", rank=6),
        Column("predicted_low_seconds", "low", "seconds", like="call_seconds", from_width=120),
        Column("predicted_high_seconds", "high", "seconds", like="call_seconds", from_width=120),
        Column("predicted_launch_seconds", "launch", "seconds", person=False),
        Column("factor", "factor", "ratio"),
        Column("within_band", "in range", "flag", from_width=120),
        Column("prediction_model", "model", from_width=120),
        Column("instruction", "instruction", "name"),
        Column("category", "category", from_width=120),
        Column("source", "source", "source", from_width=120),
    )
    rows = tuple(_row(measured, each) for each in found.ranked)
    return Table("predictions", columns, rows, noun="instructions")


def _row(measured: Measured, each: _Prediction) -> Row:
    operation, estimate, difference = each.timed.operation, each.estimate, each.difference
    per_call: Row = (None,) * 4
    if estimate is not None:
        per_call = (estimate.seconds, estimate.low, estimate.high, estimate.launch_seconds)
    return (
        measured.per_device(each.seconds),
        None if estimate is None else measured.per_device(each.predicted),
        None if difference is None else measured.per_device(difference),
        each.timed.measure.calls,
        each.mean,
        *per_call,
        None if estimate is None else each.mean / estimate.seconds,
        each.is_within,
        None if estimate is None else ", ".join(sorted(estimate.sources)),
        operation.name,
        operation.category,
        source_of(each.timed),
    )


def _next(measured: Measured, found: _Predictions, chip: str) -> tuple[str, ...]:
    if not measured.command or not found.known:
        return ()
    return (f"{measured.command} {found.known[0].timed.operation.name} --chip {chip}",)
