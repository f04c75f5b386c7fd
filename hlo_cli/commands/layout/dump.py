"""`hlo layout DUMP`: the cost of padding in a module, and the savings of better dimension orders."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.dependencies import Value
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import (
    Footprint,
    Grouping,
    KnownOrders,
    data_values,
    footprints,
    grouping_key,
    orders_of,
)
from hlo_cli.analysis.layout.tpu_layout import LayoutAlternative
from hlo_cli.commands.modules.instruction_tables import chosen as chosen_among
from hlo_cli.commands.modules.instruction_tables import source_of, values_where, with_costs
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, partition_notes
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Column, Share, Table, Unit, columns_of_part, rows_from
from hlo_cli.report.text import Passage, Run, Text

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By, Keys

_MAX_ADVICE = 2
"""The largest number of shapes that get a line of advice."""

_KEY_UNITS: dict[Grouping, Unit] = {
    "shape": "shape",
    "instruction": "name",
    "computation": "name",
    "opcode": "opcode",
    "op_name": "op_name",
}

_BEST_ORDER: Final[tuple[Column[tuple[str | None, int | None]], ...]] = (
    Column("best_order", "best order", person=False, of=lambda best: best[0]),
    Column("best_order_bytes", "in best order", "bytes", person=False, of=lambda best: best[1]),
)


def report_of_dump(
    loaded: Loaded,
    *,
    grouping: Grouping = "shape",
    cause: By | None = None,
    computation: str | None = None,
    where: str | None = None,
    argument: str = "",
    columns: Collection[str] = (),
) -> Report:
    """One row for each distinct shape, or other group of values; those with most padding first.

    Values are grouped by `cause`, if there is one.
    `columns` are those that the user names; they may be cost columns if values are grouped by instruction.
    """
    module = loaded.module
    chosen = module.computation(computation) if computation is not None else None
    all_values = data_values(module, chosen)
    # of all values, so that a filter changes no order
    orders = orders_of(module, all_values)
    test = None if where is None else values_where(where, module)
    values, skipped = chosen_among(test, all_values, "values")
    shapes = footprints(values, orders, grouping_key("shape"))
    keys: Keys | None = None
    answer = ""
    if cause is not None:
        from hlo_cli.commands.layout.sums import describe_causes, footprints_by_cause
        from hlo_cli.commands.modules.by import keys_for

        keys = keys_for(loaded, cause)
        groups = footprints_by_cause(values, orders, keys)
        answer = describe_causes(groups, keys)
    else:
        groups = shapes if grouping == "shape" else footprints(values, orders, grouping_key(grouping))
    answer = answer or _padding_answer(values, groups)
    return Report(
        "layout",
        answer if values or not all_values else f"No matches among {format_count(len(all_values), 'values')}",
        numbers={
            "values": len(values),
            "shapes": len(shapes),
            "logical_bytes": sum(f.logical_bytes for f in groups),
            "padded_bytes": sum(f.padded_bytes for f in groups),
            "padding_bytes": sum(f.padding_bytes for f in groups),
            "saving_bytes": sum(f.saving_bytes for f in groups),
        },
        parts=_report_parts(module, groups, shapes, orders, grouping, keys, chosen, columns),
        next=_next_commands(argument, shapes, None if keys is None else keys.by, groups),
        notes=(*skipped, *partition_notes(loaded), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _padding_answer(values: Sequence[Value], groups: Sequence[Footprint]) -> str:
    padded = sum(f.padded_bytes for f in groups)
    padding = sum(f.padding_bytes for f in groups)
    saving = sum(f.saving_bytes for f in groups)
    if not values:
        return "No arrays are stored in memory"
    if not padding:
        tiled = any(value.shape.layout.tiles for value in values)
        why = "all tiles are full" if tiled else "no layout is tiled"
        return f"No padding in {format_count(len(values), 'values')} ({format_bytes(padded)}): {why}"
    better = f"better dimension orders would save {format_bytes(saving)}"
    share = padding / padded
    # below half a percent, a rounded share would read 0%
    percent = f"{format_percent(share)}%" if share >= 0.005 else format_bytes(padding)
    return f"{percent} of {format_bytes(padded)} is padding; {better if saving else 'no dimension order reduces it'}"


def _report_parts(
    module: Module,
    groups: Sequence[Footprint],
    shapes: Sequence[Footprint],
    orders: KnownOrders,
    grouping: Grouping,
    keys: Keys | None,
    chosen: Computation | None,
    columns: Collection[str],
) -> tuple[Part, ...]:
    if keys is not None:
        from hlo_cli.commands.layout.sums import causes_table

        table = causes_table(groups, keys)
    else:
        table = _groups_table(module, groups, orders, grouping)
    if grouping == "instruction":
        table = with_costs(table, (f.example.instruction for f in groups), module, columns)
    if not groups:
        checked = Passage("checked", (f"Checked {format_count(module.instruction_count, 'instructions')}.",))
        return checked, replace(table, person=False)
    advice = [line for shape in shapes if (line := _advice(shape, orders)) is not None][:_MAX_ADVICE]
    parts: list[Part] = [table]
    if advice:
        parts.append(Passage("advice", tuple(advice)))
    if chosen is not None and chosen.name not in {v.instruction.computation.name for f in groups for v in f.values}:
        parts.append(Passage("where", (f"{chosen.name} defines no arrays.",)))
    return tuple(parts)


def _groups_table(module: Module, groups: Sequence[Footprint], orders: KnownOrders, grouping: Grouping) -> Table:
    target = target_of(module)
    is_shape, is_instruction = grouping == "shape", grouping == "instruction"
    has_saving = any(f.saving_bytes for f in groups)
    example: Column[Footprint] = (
        Column("example", "example", "name", role="name", of=lambda f: str(f.example))
        if is_shape
        else Column("shape", "shape", "shape", of=lambda f: str(f.example.shape))
    )
    columns: tuple[Column[Footprint], ...] = (
        Column("count", "count", "count", total="sum", rank=5, person=not is_instruction, of=lambda f: len(f.values)),
        Column("logical_bytes", "data", "bytes", total="sum", from_width=120, of=lambda f: f.logical_bytes),
        Column("padded_bytes", "padded", "bytes", total="sum", of=lambda f: f.padded_bytes),
        Column("padding_bytes", "padding", "bytes", total="sum", from_width=120, role="waste",
               of=lambda f: f.padding_bytes),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "padded_bytes", rest=True),
               of=lambda f: f.padding),
        Column("saving_bytes", "saving", "bytes", role="saving", total="sum", person=has_saving,
               of=lambda f: f.saving_bytes),
        Column("space", "space", "count", from_width=120, person=False, of=lambda f: f.example.shape.memory_space),
        Column("space_name", "space", "text", from_width=120, machine=False, person=is_shape or is_instruction,
               of=lambda f: space_name(f.example.shape.memory_space, target)),
        Column(grouping, grouping.replace("_", " ") if grouping != "op_name" else "op_name", _KEY_UNITS[grouping],
               of=lambda f: f.key or "(unknown)"),
        example,
        Column("example_source", "source", "source", from_width=120, rank=2,
               of=lambda f: source_of(module, f.example.instruction)),
        *(columns_of_part(_BEST_ORDER, lambda f: _best_order(f, orders)) if is_shape or is_instruction else ()),
    )  # fmt: skip
    rows = rows_from(columns, groups)
    return Table(f"{grouping}s", columns, rows, noun=f"{grouping}s")


def _best_order(footprint: Footprint, orders: KnownOrders) -> tuple[str | None, int | None]:
    """The best order of values of one shape, with its tiles if they are others, and the bytes of all in that order."""
    current = footprint.example.shape
    if not footprint.saving_bytes or (better := orders.alternative(current)) is None:
        return None, None
    tiles = better.layout.tiles if better.layout.tiles != current.layout.tiles else ()
    order = Layout(better.layout.minor_to_major, tiles)
    return str(order), footprint.padded_bytes - footprint.saving_bytes


def _advice(footprint: Footprint, orders: KnownOrders) -> Text | None:
    """The size in another order, the dimension that becomes minor, and the copies into that order in the module."""
    value = footprint.example
    better = orders.alternative(value.shape)
    if better is None:
        return None
    order = index_text(better.layout.minor_to_major)
    each = " each" if len(footprint.values) > 1 else ""
    sizes = f"{format_bytes(better.padded_bytes)}{each} instead of {format_bytes(value.shape.padded_bytes)}"
    reason = _minor_dimension_change(value.shape, better)
    line: list[str | Run] = [f"With dimension order {order}, ", Run(str(value), "name"), f" needs {sizes}{reason}."]
    if (copy := _copy_into(value.instruction, better)) is not None:
        distance = format_count(copy.index - value.instruction.index, "instructions")
        line += [" ", Run(copy.name, "name"), f" already copies it to that order {distance} later."]
    return tuple(line)


def _minor_dimension_change(shape: ArrayShape, better: LayoutAlternative) -> str:
    old, new = shape.layout.minor_to_major[0], better.layout.minor_to_major[0]
    if old != new:
        return f": the minor dimension is {shape.dimensions[new]} instead of {shape.dimensions[old]}"
    old, new = shape.layout.minor_to_major[1], better.layout.minor_to_major[1]
    change = f": the second minor dimension is {shape.dimensions[new]} instead of {shape.dimensions[old]}"
    return change if old != new else ""


def _copy_into(instruction: Instruction, better: LayoutAlternative) -> Instruction | None:
    for user in instruction.computation.instructions[instruction.index + 1 :]:
        # where the compiler copies into the better order anyway, the array could have been made in it
        copies = user.opcode == opcodes.COPY and user.operands[:1] == (instruction,)
        if copies and isinstance(user.shape, ArrayShape) and _order(user.shape) == better.layout.minor_to_major:
            return user
    return None


def _order(shape: ArrayShape) -> tuple[int, ...]:
    return shape.layout.minor_to_major


def _next_commands(
    argument: str, shapes: Sequence[Footprint], cause: By | None, groups: Sequence[Footprint]
) -> tuple[str, ...]:
    if not argument or argument == "-" or not shapes or not shapes[0].padding_bytes:
        return ()
    largest = shapes[0].example.instruction.name
    dump, *choice = shlex.split(argument)
    named = shlex.join((f"{dump}:{largest}", "--draw", *choice))
    if cause is not None:
        from hlo_cli.commands.modules.by import next_command

        return next_command(f"hlo layout {argument}", cause, [each.key for each in groups], options="--by instruction")
    return (f"hlo layout {argument} --by source", f"hlo layout {named}")
