"""How much memory does padding cost in all? By what causes it, and in each of many dumps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import Value
from hlo_cli.analysis.layout.buffer_sizes import (
    Footprint,
    KnownOrders,
    data_values,
    footprints,
    grouping_key,
    orders_of,
)
from hlo_cli.analysis.origin.origins import Keys
from hlo_cli.commands.modules.by import IN_BYTES, Group, KeyCost, describe_costs, group_by, key_columns
from hlo_cli.commands.modules.loading import Many
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.table import Column, Share, Table, columns_of_part, rows_from_tuples

# --- --by: padding by cause ---
# `hlo layout DUMP --by source|scope|argument|pass`: the padding of values, summed up by what makes them.


MIN_PADDING: Final = 0.005  # what would be shown as 0%
"""The smallest share of padding in all bytes of which the answer names a cause."""


def footprints_by_cause(values: Sequence[Value], orders: KnownOrders, keys: Keys) -> tuple[Footprint, ...]:
    """The values of each key, those with most padding first."""
    return footprints(values, orders, lambda value: keys(value.instruction, value.index))


def causes_table(footprints: Sequence[Footprint], keys: Keys) -> Table:
    """One row for each key: its padding, and what better dimension orders would save."""
    groups = [_group(footprint, keys) for footprint in footprints]
    has_inferred = any(group.inferred for group in groups)
    columns: tuple[Column[Footprint, KeyCost], ...] = (
        Column("count", "values", "count", total="sum", of=lambda footprint, key: len(footprint.values)),
        Column("logical_bytes", "data", "bytes", total="sum", from_width=120,
               of=lambda footprint, key: footprint.logical_bytes),
        Column("padded_bytes", "padded", "bytes", total="sum", of=lambda footprint, key: footprint.padded_bytes),
        Column("padding_bytes", "padding", "bytes", total="sum", role="waste",
               of=lambda footprint, key: footprint.padding_bytes),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "padded_bytes", rest=True),
               of=lambda footprint, key: footprint.padding),
        Column("saving_bytes", "saving", "bytes", role="saving", total="sum",
               person=any(each.saving_bytes for each in footprints),
               of=lambda footprint, key: footprint.saving_bytes),
        *columns_of_part(
            key_columns(keys.by, "padded_bytes", groups, has_inferred=has_inferred), lambda footprint, key: key
        ),
        Column("example", "most padding", "name", role="name", rank=7,
               of=lambda footprint, key: str(_most_padded(footprint))),
        Column("shape", "shape", "shape", from_width=120, rank=6,
               of=lambda footprint, key: str(_most_padded(footprint).shape)),
    )  # fmt: skip
    costs = (
        KeyCost(group, footprint.padded_bytes, sum(value.shape.padded_bytes for value in group.inferred))
        for footprint, group in zip(footprints, groups, strict=True)
    )
    rows = rows_from_tuples(columns, zip(footprints, costs, strict=True))
    return Table(f"{keys.by}s" if keys.by != "pass" else "passes", columns, rows, noun="rows")


def describe_causes(footprints: Sequence[Footprint], keys: Keys) -> str:
    """Which key has most of the padding; empty if there is almost no padding."""
    costs = [(each.key, each.padding_bytes) for each in footprints]
    padding = sum(cost for _, cost in costs)
    if not padding or padding < MIN_PADDING * sum(each.padded_bytes for each in footprints):
        return ""
    return describe_costs(costs, keys.by, noun="values", verb=("add", "adds"), amount=IN_BYTES, place="of padding")


def _group(footprint: Footprint, keys: Keys) -> Group[Value]:
    (group,) = group_by(footprint.values, lambda value: keys.of(value.instruction, value.index))
    return group


def _most_padded(footprint: Footprint) -> Value:
    # the value to look at first, which need not be the largest
    return max(footprint.values, key=lambda value: value.shape.padded_bytes - value.shape.logical_bytes)


# --- many dumps ---
# `hlo layout` of many dumps: the cost of padding in each module.


@dataclass(frozen=True, slots=True)
class _Padding:
    """Padding of one module in bytes, and the value with the most padding."""

    values: int
    logical_bytes: int
    padded_bytes: int
    saving_bytes: int
    most_padded_value: str | None

    @property
    def padding_bytes(self) -> int:
        """What is no data."""
        return self.padded_bytes - self.logical_bytes


_MODULE_COLUMNS: tuple[Column[_Padding], ...] = (
    Column("values", "values", "count", total="sum", from_width=120, of=lambda module: module.values),
    Column("logical_bytes", "data", "bytes", total="sum", from_width=120, of=lambda module: module.logical_bytes),
    Column("padded_bytes", "padded", "bytes", total="sum", of=lambda module: module.padded_bytes),
    Column("padding_bytes", "padding", "bytes", total="sum", role="waste",
           of=lambda module: module.padding_bytes),
    Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "padded_bytes", rest=True),
           of=lambda module: module.padding_bytes / module.padded_bytes if module.padded_bytes else 0.0),
    Column("saving_bytes", "saving", "bytes", role="saving", total="sum", of=lambda module: module.saving_bytes),
    Column("most_padded_value", "most padding", "name", of=lambda module: module.most_padded_value),
)  # fmt: skip


def layout_each(many: Many, reading: InputOptions, jobs: int | None, output: OutputOptions) -> int:
    """Writes the table and returns the exit code."""
    results = list(map_inputs(many, reading, jobs, _padding))
    answers = [each.answer for each in results if each.answer is not None]
    padded, logical = sum(a.padded_bytes for a in answers), sum(a.logical_bytes for a in answers)
    words = "no arrays"
    if padded:
        words = f"{format_percent((padded - logical) / padded)}% of {format_bytes(padded)} is padding"
    return finish_each(
        "layout",
        many,
        reading,
        results,
        Rows(_MODULE_COLUMNS),
        answer=f"{format_count(len(answers), 'modules')}: {words}",
        output=output,
    )


def _padding(module: Module, _input: Input) -> _Padding:
    values = data_values(module)
    shapes = footprints(values, orders_of(module, values), grouping_key("shape"))
    worst = max(shapes, key=lambda footprint: footprint.padding_bytes, default=None)
    return _Padding(
        len(values),
        sum(f.logical_bytes for f in shapes),
        sum(f.padded_bytes for f in shapes),
        sum(f.saving_bytes for f in shapes),
        str(worst.example) if worst is not None and worst.padding_bytes else None,
    )
