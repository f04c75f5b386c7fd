"""`hlo profile TRACE --by step|device`: the time of every step, or of every device, and the idle part of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from hlo_cli.analysis.profile.measure import Measure, is_inner, measures
from hlo_cli.analysis.profile.operation_times import rows_of, sums_by
from hlo_cli.analysis.profile.profile import NO_STEP, PS
from hlo_cli.commands.profile.words import facts_of, numbers_of, step_noun
from hlo_cli.report.numbers import format_count, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Share, Table
from hlo_cli.report.text import Passage

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.ir.traces.trace import Integers


def report_of_steps(measured: Measured) -> Report:
    """One row for each step, in the order of time, and one for what runs outside of steps."""
    steps = measured.profile.steps
    busy = [each * PS for each in measured.profile.step_busy_ps]
    found = _Groups(measured, measured.profile.step_codes, len(steps))
    durations = [step.duration_ps * PS for step in steps]
    rows = [
        (
            *found.cells(at, duration, busy[at]),
            "whole" if step.is_whole else "partial",
            step.name,
        )
        for at, (step, duration) in enumerate(zip(steps, durations, strict=True))
    ]
    rest = measured.profile.busy_outside_ps * PS
    if (outside := found.outside()) is not None and (outside.events or (rest and not measured.is_narrowed)):
        rows.append((*found.cells_of(outside, None, rest), None, "(no step)"))
    columns = (
        *found.columns(f"per {measured.device_noun}" if len(measured.profile.devices) > 1 else ""),
        Column("whole_step", "whole", "flag", person=any(not step.is_whole for step in steps)),
        Column("trace_step", "step"),
    )
    table = Table("steps", columns, tuple(rows), noun="steps")
    whole = [duration for step, duration in zip(steps, durations, strict=True) if step.is_whole]
    return _report(measured, _steps_answer(measured, whole), table)


def report_of_devices(measured: Measured) -> Report:
    """One row for each device: its time, and the idle part of it."""
    profile = measured.profile
    found = _Groups(measured, profile.occurrences.devices, len(profile.devices))
    spans, busy = ([each * PS for each in times] for times in (profile.spans_ps, profile.busy_ps))
    rows = tuple((*found.cells(at, spans[at], busy[at], 1), name) for at, name in enumerate(profile.devices))
    columns = (
        *found.columns(""),
        Column("device", "device"),
    )
    table = Table("devices", columns, rows, noun="devices")
    busiest = max(range(len(rows)), key=lambda at: busy[at])
    name, seconds = profile.devices[busiest], busy[busiest]
    words = f"{name} is busiest: {format_seconds(seconds)} of {format_seconds(spans[busiest])}"
    if len(rows) == 1:
        words = f"{name} is busy for {format_seconds(seconds)} of {format_seconds(spans[0])}"
    return _report(measured, words, table)


def _report(measured: Measured, answer: str, table: Table) -> Report:
    return Report(
        "profile",
        answer,
        version=1,
        numbers=numbers_of(measured),
        parts=(facts_of(measured), table) if table.rows else (facts_of(measured), _nothing(measured), table),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _nothing(measured: Measured) -> Passage:
    annotation = 'with jax.profiler.StepTraceAnnotation("step", step_num=number): ...'
    return Passage("nothing", (f"Steps are those of the trace; annotate them with: {annotation}",))


def _steps_answer(measured: Measured, whole: Sequence[float]) -> str:
    steps = measured.profile.steps
    if not steps:
        return "No steps in this trace"
    if not whole:
        return f"No whole step: {format_count(len(steps), 'partial steps')}"
    words = f"{format_count(len(whole), step_noun(measured))} of {format_seconds(median(whole))}"
    if len(whole) > 1:
        words += f" (median), {format_seconds(min(whole))} to {format_seconds(max(whole))}"
    if partial := len(steps) - len(whole):
        words += f"; {format_count(partial, 'partial steps')} {verb(partial, 'is', 'are')} not counted"
    return words


class _Groups:
    """Times and work of the selected operations in each of several groups of rows."""

    def __init__(self, measured: Measured, groups: Integers, count: int) -> None:
        profile = measured.profile
        self._measured, self._groups, self._rows = measured, groups, None
        if measured.is_narrowed:
            chosen = {each.operation for each in measured.selected}
            self._rows = rows_of(profile, (at for at, each in enumerate(profile.operations) if each in chosen))
        self.measures = measures(profile, groups, count, self._rows)
        chosen = {each.operation for each in measured.selected}
        # as in all sums, loops and calls have the work of what runs inside them, which has rows of its own
        counted = [None if each not in chosen or is_inner(each) else each for each in profile.operations]
        flops, accessed = ([(each and getattr(each, name)) or 0.0 for each in counted] for name in ("flops", "bytes"))
        self._flops, self._bytes = (sums_by(profile, groups, count, amounts) for amounts in (flops, accessed))

    def columns(self, group: str) -> tuple[Column, ...]:
        """The columns of `cells`."""
        return (
            Column("time_seconds", "time", "seconds", total="sum"),
            Column("events", "events", "count", total="sum"),
            Column("seconds", "self", "seconds", total="sum", group=group, person=self._rows is not None),
            Column("busy_seconds", "busy", "seconds", total="sum", group=group),
            Column("idle_seconds", "idle", "seconds", total="sum", group=group),
            Column("idle_share", "idle", "percent", group=group, total=Share("idle_seconds", "time_seconds")),
            Column("self_seconds", "self", "seconds", total="sum", person=False),
            Column("flops", "flops", "count", total="sum", person=False),
            Column("bytes", "bytes", "bytes", total="sum", person=False),
            Column("flop_rate", "", "flop/second", person=any(self._flops), group=group),
            Column("byte_rate", "", "byte/second", person=any(self._bytes), group=group),
        )

    def cells(self, at: int, time: float, busy: float, devices: int | None = None) -> Row:
        """The cells of a group that took this time; `busy` is that of all devices, shown times are those of one."""
        return self.cells_of(self.measures[at], time, busy, (self._flops[at], self._bytes[at]), devices)

    def cells_of(
        self,
        measure: Measure,
        time: float | None,
        busy: float,
        work: tuple[float | None, float | None] = (None, None),
        devices: int | None = None,
    ) -> Row:
        """The cells of a group; None stands for what does not apply.

        Busy and idle time are those of the devices, also where only some operations are selected.
        """
        devices = max(len(self._measured.profile.devices), 1) if devices is None else devices
        idle = None if time is None else max(time - busy / devices, 0.0)
        share = idle / time if time and idle is not None else None
        rates = [None if amount is None or not time else amount / time / devices for amount in work]
        own = measure.self_time
        return (time, measure.events, own / devices, busy / devices, idle, share, own, *work, *rates)

    def outside(self) -> Measure | None:
        """The times of the rows in no group."""
        groups = (self._groups == NO_STEP).astype(self._groups.dtype) - 1
        return measures(self._measured.profile, groups, 1, self._rows)[0] if len(groups) else None
