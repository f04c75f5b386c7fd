"""The measured times of a module, from a profile: by instruction, next to the prediction, and by source line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING

from hlo_cli.analysis.origin.origins import UNKNOWN_KEY
from hlo_cli.analysis.profile.operation_times import MeanTime, MeanTimes, has_steps, mean_times
from hlo_cli.analysis.profile.profile import MIN_SHARE, PS, program_of
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import longest_program, mean_words, per_words
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Row, Table, number_of
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import Keys
    from hlo_cli.analysis.profile.profile import Operation
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.profile.load import Loaded as LoadedProfile
    from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A measured operation with its time, and its instruction in the module of the dump, None if it has none."""

    operation: Operation
    time: MeanTime
    instruction: Instruction | None


@dataclass(frozen=True, slots=True)
class MeasuredModule:
    """The measured times of one module: kernels with their times per unit, most time of the trace first.

    `seconds` is the sum per unit, `step_seconds` the median duration of whole steps, None if there are none; `missing`
    is the number of kernels that the module does not have, and `notes` are on its trip counts.
    """

    measured: Measured
    means: MeanTimes
    kernels: tuple[TimedKernel, ...]
    seconds: float
    step_seconds: float | None
    missing: int
    notes: tuple[Diagnostic, ...]

    @property
    def per(self) -> str:
        """The unit in words."""
        return per_words(self.measured.profile, self.means)


def longest_module(profile: LoadedProfile) -> str | None:
    """The name of the program that takes most time in a profile; None if there is none."""
    program = longest_program(Measured(profile).every)
    return None if program is None else program.name


def measured_module(profile: LoadedProfile, loaded: Loaded, notes: tuple[Diagnostic, ...] = ()) -> MeasuredModule:
    """The times of a module in a profile; HloError if it did not run, or if another compilation of it did."""
    from hlo_cli.commands.profile.load import program_id

    found, module = profile.profile, loaded.module
    names = {instruction.name: instruction for instruction in module.instructions}
    program = program_of(found, module, proto=loaded.input.proto, id=program_id(loaded.input))
    if program is None:
        there = ", ".join(each.name for each in found.programs[:3]) or "no program"
        raise HloError(f"module {module.name} is not in the profile", hint=f"{profile.path} has {there}")
    means = mean_times(found)
    pairs = [each for each in zip(found.operations, means.times, strict=True) if each[0].program is program]
    if pairs and not any(time.calls for _, time in pairs):  # all of it ran outside of the steps
        means = mean_times(found, per_unit=False)
        pairs = [each for each in zip(found.operations, means.times, strict=True) if each[0].program is program]
    own = [TimedKernel(operation, time, names.get(operation.name)) for operation, time in pairs]
    missing = sum(each.instruction is None for each in own)
    if missing > (1 - MIN_SHARE) * len(own):
        part = f"{missing:,} of {format_count(len(own), 'kernels')} are not in the dump"
        hint = "profile the same compilation, or report the trace itself"
        raise HloError(f"the profile is of another compilation: {part}", hint=hint)
    steps = [step.duration_ps * PS for step in found.steps if step.is_whole]
    own.sort(key=lambda each: (-each.time.busy_seconds, each.operation.name))
    return MeasuredModule(
        Measured(profile),
        means,
        tuple(own),
        sum(each.time.seconds for each in own),
        median(steps) if steps and has_steps(found) else None,
        missing,
        notes,
    )


def report_of_measured(measured: MeasuredModule, kernels: Table | None, keys: Keys) -> Report:
    """The kernels with their measured times; `kernels` has predictions, if a chip is given, and `keys` source lines."""
    predicted, found = _predictions(kernels), measured.measured
    table = _table(measured, predicted, keys)
    return Report(
        "profile",
        _answer(measured),
        numbers=_numbers(measured, predicted),
        parts=(table,),
        notes=(*measured.notes, *_notes(measured), *found.time_notes, *found.loaded.notes),
    )


def _answer(measured: MeasuredModule) -> str:
    """The time per step, of which it is the mean, and the longest kernel with its share as `hlo profile` has it."""
    if not measured.kernels or not measured.seconds:
        return "No measured time"
    first, number = measured.kernels[0], len(measured.kernels)
    mean = f" ({words})" if (words := mean_words(measured.means)) else ""
    takes = f"{format_count(number, 'kernels')} {verb(number, 'takes', 'take')}"
    words = f"{takes} {format_seconds(measured.seconds)} {measured.per}{mean}"
    whole = measured.measured.whole_words
    return f"{words}; {first.operation.name} takes {format_percent(first.time.share)}% of {whole}"


def _predictions(kernels: Table | None) -> Mapping[str, float]:
    """Predicted seconds per call by the name of the kernel."""
    names = [] if kernels is None else [column.name for column in kernels.columns]
    if kernels is None or "estimated_seconds" not in names:
        return {}
    at, name = names.index("estimated_seconds"), names.index("instruction")
    return {str(row[name]): seconds for row in kernels.rows if (seconds := number_of(row[at])) is not None}


def _table(measured: MeasuredModule, predicted: Mapping[str, float], keys: Keys) -> Table:
    group = measured.per
    columns = (
        Column("measured_seconds", "measured", "seconds", total="sum", group=group),
        Column("share", "share", "percent", total="sum"),
        Column("calls", "calls", "count", group=group, rank=6),
        Column("mean_seconds", "avg", "seconds", rank=6),
        *(
            (
                Column(
                    "predicted_total_seconds", "predicted", "seconds", total="sum", like="measured_seconds", group=group
                ),
                Column("factor", "factor", "ratio"),
            )
            if predicted
            else ()
        ),
        Column("instruction", "instruction", "name"),
        Column("category", "category", rank=5),
        Column("source", "source", "source", rank=5),
        Column("op_name", "op_name", "op_name", rank=4, from_width=120),
    )
    rows = tuple(_row(measured, each, predicted, keys) for each in measured.kernels)
    return Table("measured", columns, rows, noun="kernels", main=False)


def _row(measured: MeasuredModule, each: TimedKernel, predicted: Mapping[str, float], keys: Keys) -> Row:
    operation, time = each.operation, each.time
    seconds = predicted[operation.name] * time.calls if operation.name in predicted else None
    return (
        time.seconds,
        time.share,
        time.calls,
        time.seconds / time.calls if time.calls else None,
        *((seconds, time.seconds / seconds if seconds else None) if predicted else ()),
        operation.name,
        operation.category or None,
        None if each.instruction is None else keys(each.instruction),
        operation.op_name or None,
    )


def _numbers(measured: MeasuredModule, predicted: Mapping[str, float]) -> dict[str, Cell]:
    timed = [each for each in measured.kernels if each.operation.name in predicted]
    compared = sum(each.time.seconds for each in timed)
    return {
        "unit": measured.means.unit,
        "units": measured.means.count,
        "devices": len(measured.measured.profile.devices),
        "measured_seconds": measured.seconds,
        "step_seconds": measured.step_seconds,
        "kernels": len(measured.kernels),
        "missing": measured.missing,
        "predicted_seconds": sum(predicted[each.operation.name] * each.time.calls for each in timed) if timed else None,
        "predicted_kernels": len(timed) if timed else None,
        "compared_seconds": compared if timed else None,
    }


def _notes(measured: MeasuredModule) -> Iterator[Diagnostic]:
    if measured.missing:
        subject = f"{format_count(measured.missing, 'measured operations')} {verb(measured.missing, 'is', 'are')}"
        yield Diagnostic("note", f"{subject} not in the module")


def measured_by_source(measured: MeasuredModule, keys: Keys) -> Table:
    """Measured seconds by source line."""
    found: dict[str, float] = {}
    for each in measured.kernels:
        source = UNKNOWN_KEY if each.instruction is None else keys(each.instruction)
        found[source] = found.get(source, 0.0) + each.time.seconds
    columns = (Column("source", "source", "source"), Column("measured_seconds", "measured", "seconds", total="sum"))
    return Table("by_source", columns, tuple(found.items()), noun="lines")
