"""`hlo layout` of many dumps: the cost of padding in each module."""

from __future__ import annotations

from hlo_cli.analysis.layout.padding import by, data_values, footprints, orders_of
from hlo_cli.commands.modules.loading import Many
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.table import Column, Row, Share

_COLUMNS = (
    Column("values", "values", "count", total="sum", from_width=120),
    Column("logical_bytes", "data", "bytes", total="sum", from_width=120),
    Column("padded_bytes", "padded", "bytes", total="sum"),
    Column("padding_bytes", "padding", "bytes", total="sum", from_width=120, role="waste"),
    Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "padded_bytes", rest=True)),
    Column("saving_bytes", "saving", "bytes", role="saving", total="sum"),
    Column("most_padded_value", "most padding", "name"),
)


@dataclass(frozen=True, slots=True)
class _Padding:
    """Padding of one module in bytes, and the value with the most padding."""

    values: int
    logical_bytes: int
    padded_bytes: int
    saving_bytes: int
    most_padded_value: str | None

    def cells(self) -> Row:
        padding = self.padded_bytes - self.logical_bytes
        share = padding / self.padded_bytes if self.padded_bytes else 0.0
        return (
            self.values,
            self.logical_bytes,
            self.padded_bytes,
            padding,
            share,
            self.saving_bytes,
            self.most_padded_value,
        )


def layout_each(many: Many, reading: InputOptions, jobs: int | None, output: OutputOptions) -> int:
    """Writes the table, modules with most padding first, and returns the exit code."""
    found = list(map_inputs(many, reading, jobs, _padding))
    answers = [each.answer for each in found if each.answer is not None]
    padded, logical = sum(a.padded_bytes for a in answers), sum(a.logical_bytes for a in answers)
    words = "no arrays"
    if padded:
        words = f"{format_percent((padded - logical) / padded)}% of {format_bytes(padded)} is padding"
    return finish_each(
        "layout",
        found,
        Rows(_COLUMNS, _Padding.cells, by="padding_bytes"),
        answer=f"{format_count(len(answers), 'modules')}: {words}",
        output=output,
    )


def _padding(module: Module, _input: Input) -> _Padding:
    values = data_values(module)
    found = footprints(values, orders_of(module, values), by("shape"))
    worst = max(found, key=lambda footprint: footprint.padding_bytes, default=None)
    return _Padding(
        len(values),
        sum(f.logical_bytes for f in found),
        sum(f.padded_bytes for f in found),
        sum(f.saving_bytes for f in found),
        str(worst.example) if worst is not None and worst.padding_bytes else None,
    )
