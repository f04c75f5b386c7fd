"""`hlo memspace DUMP --by GROUP`: the live values, summed up by what makes them or by a property."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.memory.memory_analysis import LiveValue, MemoryAnalysis, MemorySpaceUsage
from hlo_cli.analysis.origin.origins import By, Key, Keys, keys_of
from hlo_cli.commands.memspace.tables import format_kind, live_values_table
from hlo_cli.commands.modules.by import IN_BYTES, Group, describe_costs, group_by, key_cells, key_columns, with_origins
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.filters import matching_rows
from hlo_cli.commands.shared.memory_timeline import step_label
from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import Cell, Column, DeferredRows, Row, Share, Table, Unit
from hlo_cli.source import Diagnostic

_UNITS: Final[Mapping[str, Unit]] = {"op_name": "op_name", "shape": "shape", "opcode": "opcode"}
_PROPERTIES: Final[Mapping[str, Callable[[MemoryAnalysis, LiveValue], str]]] = {
    "op_name": lambda _memory, value: value.instruction.metadata.op_name or "(unknown)",
    "kind": lambda memory, value: format_kind(memory, value),
    "shape": lambda _memory, value: str(value.shape),
    "opcode": lambda _memory, value: value.instruction.opcode,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The values of a memory space that are summed up, and the identities of those live at the step of the report."""

    space: MemorySpaceUsage
    values: tuple[LiveValue, ...]
    live: frozenset[int]

    def live_among(self, values: Iterable[LiveValue]) -> list[LiveValue]:
        """The values that are live at the step of the report."""
        return [value for value in values if id(value) in self.live]


def select_values(
    memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], step: int | None, where: str | None
) -> tuple[tuple[Selection, ...], tuple[Diagnostic, ...]]:
    """The values of memory spaces that match an expression; those that are live at a step, by default at the peak."""
    live = {space.number: space.live_at(space.peak if step is None else step) for space in spaces}
    identities = {number: frozenset(map(id, values)) for number, values in live.items()}
    if where is None:
        return tuple(Selection(space, space.values, identities[space.number]) for space in spaces), ()
    values = [(space, value) for space in spaces for value in space.values]
    table = live_values_table(memory, values, title="", marked=frozenset())
    places = [(value.instruction, value.index) for _, value in values]
    kept, notes = matching_rows(where, with_origins(table, places, memory.module, where))
    chosen = [values[at] for at in kept]
    return (
        tuple(
            Selection(space, tuple(value for where, value in chosen if where is space), identities[space.number])
            for space in spaces
        ),
        notes,
    )


def totals_table(
    memory: MemoryAnalysis,
    selections: Sequence[Selection],
    grouping: str,
    *,
    keys: Keys | None,
    title: str = "",
) -> Table:
    """One row for each key: its live bytes first, then the bytes of all its values; `keys` are those of a cause."""
    groups = _groups(memory, selections, grouping, keys)
    whole = sum(_bytes(selection.live_among(selection.values)) for selection in selections)
    rows = tuple(_row(selection, group, whole, with_key=keys is not None) for selection, group in groups)
    has_inferred = any(selection.live_among(group.inferred) for selection, group in groups)
    key = (
        key_columns(keys.by, "bytes", [group for _, group in groups], has_inferred=has_inferred)
        if keys is not None
        else (Column(grouping, grouping, _UNITS.get(grouping, "text")),)
    )
    columns = _columns(key, several=len(selections) > 1)
    return Table(f"by_{grouping}", columns, rows, title=title, noun="rows", limit=10)


def deferred_totals(memory: MemoryAnalysis, selections: Sequence[Selection], cause: By) -> Table:
    """The same table for programs, whose rows are computed when they are read."""

    def rows() -> Sequence[Row]:
        return totals_table(memory, selections, cause, keys=keys_of(memory.module, cause)).rows

    return Table(
        f"by_{cause}",
        _columns(key_columns(cause, "bytes", (), has_inferred=False), several=len(selections) > 1),
        DeferredRows(rows),
        noun="rows",
        limit=10,
        main=False,
        person=False,
    )


def describe_totals(memory: MemoryAnalysis, spaces: Sequence[MemorySpaceUsage], table: Table, step: int | None) -> str:
    """Which key holds most of the memory space with the highest peak; empty for groupings by a property."""
    grouping = table.name.removeprefix("by_")
    cause = cause_of(grouping)
    if cause is None or not spaces:
        return ""
    space = max(spaces, key=lambda space: space.peak_bytes if step is None else space.timeline[step])
    names, sizes, keys = (table.column_index(name) for name in ("space", "bytes", grouping))
    costs = [(str(row[keys]), _number(row[sizes])) for row in table.rows if row[names] == space.name]
    if not any(size for _, size in costs):
        return f"No values are live in {space.name}"
    place = f"at the {space.name} peak" if step is None else f"in {space.name} at {step_label(memory, step)}"
    return describe_costs(costs, cause, noun="values", verb=("hold", "holds"), amount=IN_BYTES, place=place)


def _groups(
    memory: MemoryAnalysis, selections: Sequence[Selection], grouping: str, keys: Keys | None
) -> list[tuple[Selection, Group[LiveValue]]]:
    """The groups of each memory space, those with most live bytes first."""
    if keys is None:
        property_of = _PROPERTIES[grouping]

        def key_of(value: LiveValue) -> Key:
            text = property_of(memory, value)
            return Key(text, text)
    else:

        def key_of(value: LiveValue) -> Key:
            return keys.of(value.instruction, value.index)

    found = [(selection, group) for selection in selections for group in group_by(selection.values, key_of)]
    return sorted(found, key=lambda each: _rank(*each))


def _rank(selection: Selection, group: Group[LiveValue]) -> tuple[int, int, str]:
    return -_bytes(selection.live_among(group.members)), -_bytes(group.members), group.key


def _columns(key: Sequence[Column], *, several: bool) -> tuple[Column, ...]:
    return (
        Column("space", "space", person=several),
        Column("bytes", "live", "bytes", total="sum"),
        Column("logical_bytes", "data", "bytes", total="sum", person=False),
        Column("share", "", "percent", total="sum"),
        Column("padding_bytes", "padding", "bytes", total="sum", role="waste", from_width=120),
        Column("padding", "padding", "percent", role="waste", total=Share("logical_bytes", "bytes", rest=True)),
        Column("values", "values", "count", total="sum"),
        Column("all_bytes", "all values", "bytes", total="sum", from_width=120),
        Column("all_values", "all values", "count", total="sum", from_width=120),
        *key,
        Column("largest", "largest", "name", role="name", rank=7),
    )


def _row(selection: Selection, group: Group[LiveValue], whole: int, *, with_key: bool) -> Row:
    held = selection.live_among(group.members)
    padded, logical = _bytes(held), sum(value.logical_bytes for value in held)
    inferred = _bytes(selection.live_among(group.inferred))
    largest = max(held or group.members, key=lambda value: value.padded_bytes)
    key: tuple[Cell, ...] = key_cells(group, padded, inferred) if with_key else (group.key,)
    return (
        selection.space.name,
        padded,
        logical,
        padded / whole if whole else 0.0,
        padded - logical,
        1 - logical / padded if padded else 0.0,
        len(held),
        _bytes(group.members),
        len(group.members),
        *key,
        str(largest),
    )


def _bytes(values: Iterable[LiveValue]) -> int:
    return sum(value.padded_bytes for value in values)


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0
