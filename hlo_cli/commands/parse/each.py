"""`hlo parse` of many dumps: a row of numbers for each module."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from hlo_cli.analysis.query.module_summary import SummaryValue, module_summary
from hlo_cli.commands.modules.loading import Many
from hlo_cli.commands.modules.many import Rows, devices_of, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import Column
from hlo_cli.scan_modules import ScanResult

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

_DEVICES = "devices_together"
"""The name of a number that is for a note and has no column."""
_TRACE = ".xplane.pb"
"""What the name of a profiler's trace contains."""
_NAMED = 3
"""The most inputs that a next command repeats."""


def parse_each(many: Many, reading: InputOptions, jobs: int | None, output: OutputOptions) -> int:
    """Writes the table, the module with the most bytes of values first, and returns the exit code."""
    found = list(map_inputs(many, reading, jobs, _overview))
    largest = max((each for each in found if each.answer is not None), key=_size, default=None)
    which = f"; {largest.module} is the largest" if largest and largest.module and len(found) > 1 else ""
    answers = [each.answer for each in found if each.answer is not None]
    instructions, values = (sum(int(a[name] or 0) for a in answers) for name in ("instructions", "padded_bytes"))
    return finish_each(
        "parse",
        found,
        Rows(
            _COLUMNS,
            lambda numbers: tuple(numbers[column.name] for column in _COLUMNS),
            by="padded_bytes",
            devices=_devices,
        ),
        answer=f"{format_count(len(answers), 'modules')}: {format_count(instructions, 'instructions')}, "
        f"{format_bytes(values)} of values{which}",
        output=output,
        next=_next(many, reading, found, largest) if largest else None,
    )


def _devices(numbers: Mapping[str, SummaryValue]) -> int:
    return int(numbers[_DEVICES] or 1)


def _size(result: ScanResult[Mapping[str, SummaryValue]]) -> int:
    """The bytes of all values of a module."""
    return int((result.answer or {})["padded_bytes"] or 0)


def _next(
    many: Many,
    reading: InputOptions,
    found: Sequence[ScanResult[Mapping[str, SummaryValue]]],
    largest: ScanResult[Mapping[str, SummaryValue]],
) -> tuple[str, ...]:
    """The commands that compare two modules, report on the largest module, and show the memory of each."""
    if "-" in many.arguments:
        return ()
    names = shlex.join(many.arguments)
    if len(many.arguments) == 1:
        names = reading.command_line(many.arguments)
    lines = [f"hlo diff {names}"] if len(many.arguments) == len(found) == 2 else []
    is_unique = sum(each.module == largest.module for each in found) == 1
    if len(many.arguments) == 1 and reading.module is None and largest.module and is_unique:
        lines.append(f"hlo parse {names} --module {shlex.quote(largest.module)}")
    else:
        lines.append(shlex.join(("hlo", "parse", largest.path)))
    if len(many.arguments) == 1 and _TRACE in many.arguments[0]:
        lines.insert(0, f"hlo profile {names}")
    return (*lines, f"hlo memspace {names}") if len(many.arguments) <= _NAMED else tuple(lines)


def _overview(module: Module, given: Input) -> Mapping[str, SummaryValue]:
    """The numbers of a module, with that of the devices whose work it holds together."""
    return {**module_summary(module), _DEVICES: devices_of(module, given)}
