"""`hlo parse` of many dumps: a row of numbers for each module."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.query.module_summary import SummaryValue, module_summary
from hlo_cli.commands.shared.io_options import InputOptions, OutputOptions
from hlo_cli.commands.shared.per_module import Rows, finish_each, map_inputs
from hlo_cli.commands.shared.selection import Many
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_bytes, format_count

_COLUMNS = (
    Column("target", "target"),
    Column("is_scheduled", "scheduled", from_width=160),
    Column("instructions", "instructions", "count", total="sum"),
    Column("computations", "computations", "count", total="sum", from_width=160),
    Column("fusions", "fusions", "count", total="sum"),
    Column("collectives", "collectives", "count", total="sum", from_width=120),
    Column("custom_calls", "custom calls", "count", total="sum", from_width=160),
    Column("argument_bytes", "arguments", "bytes", total="sum"),
    Column("result_bytes", "results", "bytes", total="sum", from_width=120),
    Column("values", "values", "count", total="sum", person=False),
    Column("logical_bytes", "data", "bytes", total="sum", person=False),
    Column("padded_bytes", "values", "bytes", total="sum", from_width=120),
    Column("largest_bytes", "largest", "bytes", person=False),
)


def parse_each(many: Many, reading: InputOptions, jobs: int | None, output: OutputOptions) -> int:
    """Writes the table and returns the exit code."""
    found = list(map_inputs(many, reading, jobs, _overview))
    answers = [each.answer for each in found if each.answer is not None]
    instructions, values = (sum(int(a[name] or 0) for a in answers) for name in ("instructions", "padded_bytes"))
    return finish_each(
        "parse",
        found,
        Rows(_COLUMNS, lambda numbers: tuple(numbers[column.name] for column in _COLUMNS), by="instructions"),
        answer=f"{format_count(len(answers), 'modules')}: {format_count(instructions, 'instructions')}, "
        f"{format_bytes(values)} of values",
        output=output,
    )


def _overview(module: Module, _input: Input) -> Mapping[str, SummaryValue]:
    return module_summary(module)
