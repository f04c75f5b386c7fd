"""`hlo fuse` of many dumps: the traffic that fusion avoids in each module, and violations of XLA's fusion rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.commands.fuse.fusion_table import avoided_traffic, report_of_fusions
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, timing_of
from hlo_cli.commands.modules.loading import Loaded, Many, check_running, devices_together, stage_of
from hlo_cli.commands.modules.many import Rows, Seen, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, Share, Table, number_of

_COLUMNS: Final = (
    Column("kernels", "kernels", "count", total="sum"),
    Column("launches", "launches", "count", total="sum", from_width=120),
    Column("fusions", "fusions", "count", total="sum"),
    Column("saved_bytes", "saved", "bytes", role="saving", total="sum"),
    Column("unfused_bytes", "unfused", "bytes", total="sum", from_width=120),
    Column("saved_share", "saved", "percent", total=Share("saved_bytes", "unfused_bytes")),
    Column("flops", "flops", "count", total="sum", from_width=120),
    Column("bytes", "accessed", "bytes", total="sum", from_width=120),
)
_TIMES: Final = (Column("estimated_seconds", "est.", "seconds", total="sum"),)
_BOUND: Final = Column("upper_bound", "upper bound", "flag")
_BROKEN: Final = (Column("errors", "errors", "count", total="sum"),)


@dataclass(frozen=True, slots=True)
class _Ask:
    """The report of one module, reduced to numbers; called for every module."""

    timing: TimingColumns | None

    def __call__(self, module: Module, given: Input) -> Seen:
        check_running(module)
        loaded = Loaded(module, given)
        timing = timing_of(loaded, None if self.timing is None else self.timing.throughput)  # it remembers kernels
        report = report_of_fusions(loaded, within=None, where=None, timing=timing, argument="")
        saved, unfused = (number_of(report.numbers[name]) or 0 for name in ("saved_bytes", "unfused_bytes"))
        kinds = next(table for table in report.tables if table.name == "kernel_kinds")
        seconds = _total_seconds(kinds) if self.timing is not None else None
        share = saved / unfused if unfused else None
        launches = report.numbers["launches"]
        numbers = {
            **report.numbers,
            "launches": UNKNOWN if launches is None else launches,
            "saved_share": share,
            "estimated_seconds": seconds,
        }
        broken = tuple(each.excerpt() for each in verify_fusions(module))
        return Seen(stage_of(loaded) == "optimized", numbers, broken, devices_together(loaded))


def fuse_each(
    many: Many, reading: InputOptions, jobs: int | None, timing: TimingColumns | None, output: OutputOptions
) -> int:
    """Writes the table, modules with most avoided traffic first, and returns the exit code."""
    found = list(map_inputs(many, reading, jobs, _Ask(timing)))
    seen = [each.answer for each in found if each.answer is not None]
    unfinished = sum(not each.is_program for each in seen)
    times = (*_TIMES, replace(_BOUND, person=unfinished > 0)) if timing is not None else ()
    columns = (*_COLUMNS, *times, *_BROKEN)
    return finish_each(
        "fuse",
        found,
        Rows(
            columns,
            lambda seen: _cells(seen, columns),
            by="saved_bytes",
            findings=lambda seen: seen.broken,
            fails=lambda seen: bool(seen.broken),
            devices=lambda seen: seen.devices,
        ),
        answer=_answer(seen),
        numbers={"errors": sum(each.errors for each in seen)},
        unfinished=None if timing is None else unfinished,
        output=output,
    )


def _total_seconds(kinds: Table) -> Cell:
    """The total time of all kernels, each counted once, as in the table of one module."""
    return kinds.total_of(tuple(kinds.rows))[kinds.column_index("estimated_seconds")]


def _cells(seen: Seen, columns: Sequence[Column]) -> Row:
    named: dict[str, Cell] = {**seen.numbers, "errors": seen.errors, "upper_bound": not seen.is_program}
    return tuple(named[column.name] for column in columns)


def _answer(seen: Sequence[Seen]) -> str:
    kernels, fusions, saved, unfused = (
        sum(int(number_of(each.numbers[name]) or 0) for each in seen)
        for name in ("kernels", "fusions", "saved_bytes", "unfused_bytes")
    )
    words = (
        f"{format_count(len(seen), 'modules')}: {format_count(kernels, 'kernels')}, {format_count(fusions, 'fusions')}"
    )
    if fusions and unfused:
        words += f"; {avoided_traffic(saved, unfused)}"
    if failing := sum(bool(each.broken) for each in seen):
        words += f"; {failing:,} with malformed fusions"
    return words
