"""`hlo schedule` of many dumps: the exposed bytes of each module, and its violations of rules for async operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.async_verifier import verify_async
from hlo_cli.commands.modules.loading import Loaded, Many, check_running, devices_together, stage_of
from hlo_cli.commands.modules.many import Rows, Seen, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.schedule.async_table import report_of_pairs
from hlo_cli.commands.schedule.messages import is_or_are
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count, format_part
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, number_of

_COLUMNS: Final = (
    Column("is_scheduled", "scheduled", "flag", from_width=120),
    Column("steps", "steps", "count", from_width=120, total="sum"),
    Column("pairs", "pairs", "count", total="sum"),
    Column("exposed", "exposed", "count", total="sum"),
    Column("bytes", "bytes", "bytes", total="sum"),
    Column("exposed_bytes", "exposed", "bytes", total="sum", role="waste"),
    Column("synchronous", "sync", "count", total="sum", from_width=120),
    Column("synchronous_bytes", "sync", "bytes", total="sum", from_width=120),
)
_TIMES: Final = (
    Column("execution_seconds", "est. time", "seconds"),
    Column("execution_low_seconds", "low time", "seconds", person=False),
    Column("execution_high_seconds", "high time", "seconds", person=False),
    Column("exposed_seconds", "exposed time", "seconds", total="sum", role="waste"),
)
_BOUND: Final = Column("upper_bound", "upper bound", "flag")
_BROKEN: Final = (Column("errors", "errors", "count", total="sum"),)


@dataclass(frozen=True, slots=True)
class _Ask:
    """Computes the numbers of the report on one module; called for every module."""

    throughput: ChipSpec | None

    def __call__(self, module: Module, given: Input) -> Seen:
        check_running(module)
        loaded = Loaded(module, given)
        overlap = analyze_overlap(module)
        report = report_of_pairs(loaded, overlap, within=None, where=None, argument="", throughput=self.throughput)
        numbers = {**report.numbers, "is_scheduled": module.is_scheduled}
        broken = tuple(each.excerpt() for each in verify_async(module, overlap.pairs))
        devices = devices_together(loaded)
        is_timed_as_program = stage_of(loaded) == "optimized" or bool(report.numbers.get("is_fused_by_rule"))
        return Seen(is_timed_as_program and devices == 1, numbers, broken, devices)


def schedule_each(
    many: Many, reading: InputOptions, jobs: int | None, throughput: ChipSpec | None, output: OutputOptions
) -> int:
    """Writes the table, most exposed modules first, and returns the exit code."""
    found = list(map_inputs(many, reading, jobs, _Ask(throughput)))
    seen = [each.answer for each in found if each.answer is not None]
    unfinished = sum(not each.is_program for each in seen)
    times = (*_TIMES, replace(_BOUND, person=unfinished > 0)) if throughput is not None else ()
    columns = (*_COLUMNS, *times, *_BROKEN)
    return finish_each(
        "schedule",
        found,
        Rows(
            columns,
            lambda seen: _cells(seen, columns),
            by="exposed_bytes" if throughput is None else "exposed_seconds",
            findings=lambda seen: seen.broken,
            fails=lambda seen: seen.errors > 0,
            devices=lambda seen: seen.devices,
        ),
        answer=_answer(seen),
        numbers={"errors": sum(each.errors for each in seen)},
        unfinished=None if throughput is None else unfinished,
        output=output,
    )


def _cells(seen: Seen, columns: Sequence[Column]) -> Row:
    named: dict[str, Cell] = {**seen.numbers, "errors": seen.errors, "upper_bound": not seen.is_program}
    cells = (named[column.name] for column in columns)
    return tuple(UNKNOWN if cell is None else cell for cell in cells)  # unknown times are never 0


def _answer(seen: Sequence[Seen]) -> str:
    pairs, exposed, bytes_, exposed_bytes = (
        sum(number_of(each.numbers[name]) or 0 for each in seen)
        for name in ("pairs", "exposed", "bytes", "exposed_bytes")
    )
    words = f"{format_count(len(seen), 'modules')}: "
    if pairs:
        number = f"{exposed:,} of {format_count(int(pairs), 'async operations')}"
        words += f"{number} {is_or_are(int(exposed))} exposed ({format_part(int(exposed_bytes), int(bytes_))})"
    else:
        words += "no async operations"
    if failing := sum(each.errors > 0 for each in seen):
        words += f"; {failing:,} {'violates' if failing == 1 else 'violate'} XLA's rules for async operations"
    return words
