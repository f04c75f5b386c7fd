"""Where did the steps go? The parts of a step in one table, and the first line if the largest is no computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from hlo_cli.analysis.profile.step_budget import PARTS, Cause, Part, PartTimes, StepBudget
from hlo_cli.commands.profile.measured import Measured
from hlo_cli.commands.profile.timed import PART_WORDS
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import PS
from hlo_cli.report.numbers import format_percent, format_seconds
from hlo_cli.report.table import Cell, Column, Table, rows_from

_RARE: Final = 0.5
"""A cause of which one step has more than this part is of that step, not of all."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A part of the steps, in seconds per step and device."""

    part: Part
    seconds: float
    share: float
    least: float
    greatest: float
    cause: Cause | None
    cause_seconds: float


def budget_table(measured: Measured) -> Table | None:
    """The parts of a step, which add up to it; None without steps, or where only some operations are selected."""
    budget = measured.budget
    if budget is None or not budget.step_seconds:
        return None
    rows = [row for row in _rows(budget) if row.seconds]
    several = len(measured.profile.devices) > 1
    columns: tuple[Column[_Row], ...] = (
        Column("step_part", "part of a step", of=lambda row: PART_WORDS[row.part]),
        Column("seconds", "mean", "seconds", total="sum", of=lambda row: row.seconds),
        Column("share", "share", "percent", total="sum", of=lambda row: row.share),
        Column("least_seconds", "min", "seconds", from_width=100, of=lambda row: row.least),
        Column("greatest_seconds", "max", "seconds", rank=3, of=lambda row: row.greatest),
        Column("main_cause", "mostly", of=lambda row: _cause_words(row.cause, len(set(budget.steps.tolist())))),
        Column("main_cause_seconds", "mostly", "seconds", person=False, of=lambda row: row.cause_seconds or None),
    )
    title = f"{_budget_words(measured, budget)}{f', per {measured.device_noun}' if several else ''}"
    return Table(
        "step_parts", columns, rows_from(columns, rows), title=title, noun="parts", main=False, limit=len(PARTS)
    )


def _budget_words(measured: Measured, budget: StepBudget) -> str:
    """What the parts add up to: mean steps, or the time to the next one where that is longer than the steps are."""
    if _has_no_steps(measured):
        return "where the time from one execution to the next goes"
    durations = [step.duration_ps * PS for step in measured.profile.steps if step.is_whole]
    is_longer = budget.step_seconds > (1 + _WORTH_NAMING) * (fmean(durations) if durations else 0.0)
    return "where the mean time from one step to the next goes" if is_longer else "where a mean step goes"


_WORTH_NAMING: Final = 0.05
"""The smallest part of a step, besides compute, that is named in its row."""


def part_columns(several: Sequence[PartTimes | None]) -> tuple[Column[PartTimes | None], ...]:
    """What takes most of a row besides compute, for people; all parts, for programs."""

    def seconds_of(part: Part) -> Callable[[PartTimes | None], Cell]:
        return lambda times: None if times is None else times[part]

    return (
        Column("main_part", "besides compute", person=any(map(_main_part, several)), of=_main_part),
        *(
            Column(f"{part}_seconds", PART_WORDS[part], "seconds", total="sum", person=False, of=seconds_of(part))
            for part in PARTS
        ),
    )


def _main_part(times: PartTimes | None) -> str | None:
    if times is None:
        return None
    part = max(PARTS[1:], key=lambda each: times[each])
    is_worth = times[part] > _WORTH_NAMING * sum(times.values())
    return f"{PART_WORDS[part]}, {format_seconds(times[part])}" if is_worth else None


def budget_answer(measured: Measured) -> str:
    """The first line where something other than computation takes most of a step; empty elsewhere."""
    budget = measured.budget
    if budget is None or not budget.step_seconds:
        return ""
    row = max(_rows(budget), key=lambda each: each.seconds)
    if row.part in ("compute", "unexplained"):  # other sentences say more
        return ""
    words = PART_WORDS[row.part]
    time = f"{format_seconds(row.seconds)} of {format_seconds(budget.step_seconds)}"
    unit = "the mean time from one execution to the next" if _has_no_steps(measured) else "a mean step"
    answer = f"{words[0].upper()}{words[1:]} takes {format_percent(row.share)}% of {unit}, {time}"
    cause = row.cause
    if cause is None:
        return answer
    if _is_rare(cause, len(set(budget.steps.tolist()))):
        return f"{answer}: {format_seconds(cause.step_seconds)} for {cause.words} in step {cause.step}"
    return f"{answer}: {cause.words}"


def _has_no_steps(measured: Measured) -> bool:
    """Whether executions stand for steps, which are shorter than the time from one to the next."""
    return measured.profile.step_source == "executions"


def next_of_budget(measured: Measured) -> tuple[str, ...]:
    """The command that shows more of the largest part; none for compute, of which operations are listed."""
    budget, command = measured.budget, measured.command
    if budget is None or not command or not budget.step_seconds:
        return ()
    largest = max(_rows(budget), key=lambda each: each.seconds).part
    if largest == "compute":
        return ()
    own = {"exposed_transfers": "--exposed", "waiting_for_devices": "--by device", "compiling": "--by step"}
    return (f"{command} {own.get(largest, '--by gap')}",)


def _rows(budget: StepBudget) -> list[_Row]:
    rows = []
    for part in PARTS:
        seconds, cause = budget.seconds(part), budget.main_cause(part)
        least, greatest = budget.spread(part)
        per_step = cause.seconds / len(budget.steps) if cause else 0.0
        rows.append(_Row(part, seconds, seconds / budget.step_seconds, least, greatest, cause, per_step))
    return rows


def _is_rare(cause: Cause, steps: int) -> bool:
    return steps > 2 and cause.step_seconds > _RARE * cause.seconds


def _cause_words(cause: Cause | None, steps: int) -> str | None:
    if cause is None:
        return None
    return f"{cause.words}, in step {cause.step}" if _is_rare(cause, steps) else cause.words


# --- two profiles ---


@dataclass(frozen=True, slots=True)
class _Pair:
    """A part of the steps of two profiles, in seconds per step and device, and its causes."""

    part: Part
    before: float
    after: float
    cause: str | None

    @property
    def difference(self) -> float:
        """How much more it is after."""
        return self.after - self.before


def budgets_table(before: StepBudget | None, after: StepBudget | None) -> Table | None:
    """The parts of a mean step before and after, which add up to it; None unless both profiles have steps."""
    pairs = _pairs(before, after)
    if not pairs:
        return None
    columns: tuple[Column[_Pair], ...] = (
        Column("step_part", "part of a step", of=lambda pair: PART_WORDS[pair.part]),
        Column("before_seconds", "before", "seconds", total="sum", of=lambda pair: pair.before),
        Column("after_seconds", "after", "seconds", like="before_seconds", total="sum", of=lambda pair: pair.after),
        Column("difference_seconds", "diff", "seconds", like="before_seconds", total="sum",
               of=lambda pair: pair.difference),
        Column("main_cause", "mostly", rank=5, of=lambda pair: pair.cause),
    )  # fmt: skip
    title = "where a mean step goes, before and after"
    rows = rows_from(columns, pairs)
    return Table("step_parts", columns, rows, title=title, noun="parts", main=False, limit=len(PARTS))


_WORTH_COMPARING: Final = 0.05
"""The least part of a step by which a part besides compute changes that the first line names: means vary by less."""


def budgets_answer(before: StepBudget | None, after: StepBudget | None) -> str:
    """What besides compute changed more than compute did, and by how much; empty if nothing did."""
    pairs = _pairs(before, after)
    if not pairs:
        return ""
    first = max(pairs, key=lambda pair: abs(pair.difference))
    whole = max(sum(pair.before for pair in pairs), sum(pair.after for pair in pairs))
    if first.part in ("compute", "unexplained") or abs(first.difference) < _WORTH_COMPARING * whole:
        return ""
    words, more = PART_WORDS[first.part], "more" if first.difference > 0 else "less"
    time = f"{format_seconds(abs(first.difference))} {more} per step"
    return f"{words[0].upper()}{words[1:]} takes {time}{f': {first.cause}' if first.cause else ''}"


def _pairs(before: StepBudget | None, after: StepBudget | None) -> Sequence[_Pair]:
    if before is None or after is None or not (before.step_seconds and after.step_seconds):
        return ()
    pairs = []
    for part in PARTS:
        times = before.seconds(part), after.seconds(part)
        longer = after if times[1] >= times[0] else before
        words = _cause_words(longer.main_cause(part), len(set(longer.steps.tolist())))
        pairs.append(_Pair(part, *times, words))
    return [pair for pair in pairs if pair.before or pair.after]
