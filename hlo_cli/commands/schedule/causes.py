"""`hlo schedule DUMP --by source|scope|argument|pass`: transfers, summed up by what makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.analysis.origin.origins import By, Keys
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
from hlo_cli.commands.modules.by import (
    IN_BYTES,
    IN_SECONDS,
    Group,
    Verb,
    describe_costs,
    group_by,
    key_cells,
    key_columns,
    keys_for,
    next_command,
    with_origins,
)
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.commands.options.filters import matching_rows
from hlo_cli.commands.schedule.async_table import Transfers, pairs_table, report_of_pairs, transfers_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table, number_of
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:  # times need a chip
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec


@dataclass(frozen=True, slots=True)
class _Transfer:
    """An async pair, or a synchronous transfer, with the bytes and the estimated times of all its executions.

    `exposed` are the bytes that no compute overlaps, all of them if it is synchronous. Times are None if unknown.
    """

    instruction: Instruction
    is_synchronous: bool
    bytes: int
    exposed: int
    seconds: float | None = None
    exposed_seconds: float | None = None

    @property
    def is_exposed(self) -> bool:
        """Whether it is asynchronous, and no compute overlaps it."""
        return not self.is_synchronous and self.exposed > 0


def report_of_causes(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    by: By,
    *,
    within: Computation | None,
    where: str | None,
    argument: str,
    throughput: ChipSpec | None,
) -> Report:
    """One row for each key: its async pairs and synchronous transfers; with `where`, only the pairs that match."""
    selected = transfers_of(loaded, overlap, within, throughput)
    whole = report_of_pairs(loaded, overlap, within=within, where=None, argument=argument, selected=selected)
    skipped: tuple[Diagnostic, ...] = ()
    if where is not None:
        table = pairs_table(overlap, selected.intervals, selected.times)
        starts = [(each.pair.start, ()) for each in selected.intervals]
        kept, skipped = matching_rows(where, with_origins(table, starts, loaded.module, where))
        selected = replace(selected, intervals=tuple(selected.intervals[at] for at in kept), synchronous={})
    found = tuple(_transfers(selected))
    if not found:
        words = "No matches among async operations." if where is not None else "The module has no transfers."
        return replace(whole, parts=(Passage("nothing", (words,)), _table((), keys_for(loaded, by), selected)))
    keys = keys_for(loaded, by)
    table = _table(group_by(found, lambda each: keys.of(each.instruction)), keys, selected)
    return replace(
        whole,
        answer=_answer(table, by, selected),
        parts=(table,),
        next=_next(argument, table, by),
        notes=(*skipped, *whole.notes),
    )


def transfers_by_cause(loaded: Loaded, selected: Transfers, by: By) -> Table:
    """The table of that report on all of some transfers; without rows if there are none."""
    keys = keys_for(loaded, by)
    return _table(group_by(tuple(_transfers(selected)), lambda each: keys.of(each.instruction)), keys, selected)


def _transfers(selected: Transfers) -> Iterator[_Transfer]:
    times = selected.times
    for interval in selected.intervals:
        time = times.times[interval.pair.start] if times is not None else None
        yield _Transfer(
            interval.pair.start,
            False,
            interval.total_bytes,
            interval.exposed_bytes,
            None if time is None else time.total_seconds,
            None if time is None else time.exposed_seconds,
        )
    for instruction, size in selected.synchronous.items():
        seconds = times.synchronous[instruction] if times is not None else None
        yield _Transfer(instruction, True, size, size, seconds, seconds)


def _table(groups: Sequence[Group[_Transfer]], keys: Keys, selected: Transfers) -> Table:
    has_times, has_synchronous = selected.times is not None, bool(selected.synchronous)
    times = (
        Column("exposed_seconds", "exposed", "seconds", total="sum", role="waste"),
        Column("total_seconds", "duration", "seconds", total="sum"),
    )
    columns = (
        *(times if has_times else ()),
        Column("exposed_bytes", "exposed", "bytes", total="sum", role="waste", from_width=120 if has_times else 0),
        Column(
            "synchronous_bytes",
            "sync",
            "bytes",
            total="sum",
            role="waste",
            person=has_synchronous,
            from_width=120 if has_times else 0,
        ),
        Column("bytes", "bytes", "bytes", total="sum"),
        Column("pairs", "async", "count", total="sum", person=bool(selected.intervals)),
        Column("exposed", "exposed", "count", total="sum", person=bool(selected.intervals), from_width=120),
        Column("synchronous", "sync", "count", total="sum", person=has_synchronous),
        *key_columns(
            keys.by, "bytes", groups, has_inferred=any(group.inferred for group in groups), inferred_from_width=120
        ),
        Column("largest", "largest", "name", role="name", rank=7),
    )
    rows = sorted(
        (_row(group, has_times=has_times) for group in groups), key=lambda row: _rank(row, has_times=has_times)
    )
    return Table(f"by_{keys.by}", columns, tuple(rows), noun="rows")


def _row(group: Group[_Transfer], *, has_times: bool) -> Row:
    synchronous = [each for each in group.members if each.is_synchronous]
    pairs = [each for each in group.members if not each.is_synchronous]
    total = sum(each.bytes for each in group.members)
    largest = max(group.members, key=lambda each: (each.exposed, each.bytes, each.instruction.name))
    exposed_seconds = [each.exposed_seconds for each in group.members if each.exposed_seconds is not None]
    seconds = [each.seconds for each in group.members if each.seconds is not None]
    times = (sum(exposed_seconds) if exposed_seconds else None, sum(seconds) if seconds else None)
    return (
        *(times if has_times else ()),
        sum(each.exposed for each in pairs),
        sum(each.bytes for each in synchronous),
        total,
        len(pairs),
        sum(each.is_exposed for each in pairs),
        len(synchronous),
        *key_cells(group, total, sum(each.bytes for each in group.inferred)),
        largest.instruction.name,
    )


def _rank(row: Row, *, has_times: bool) -> tuple[float, float, float, str]:
    """Most exposed time first, then most bytes that are exposed or synchronous, then most bytes."""
    seconds = number_of(row[0]) or 0 if has_times else 0
    exposed, synchronous, total, *_ = (number_of(cell) or 0 for cell in row[2 * has_times :])
    return -seconds, -(exposed + synchronous), -total, str(row[-2])


def _answer(table: Table, by: By, selected: Transfers) -> str:
    """Which key has most of the exposed time or bytes, else of all bytes."""
    verb: Verb = ("have", "has")

    def costs(*names: str) -> list[tuple[str, float]]:
        places = [table.column_index(name) for name in names]
        found = [
            (str(row[table.column_index(by)]), sum(number_of(row[at]) or 0 for at in places)) for row in table.rows
        ]
        return sorted(found, key=lambda each: -each[1])

    if selected.times is not None and _is_any(exposed := costs("exposed_seconds")):
        place = f"of exposed transfers on {selected.times.step.throughput.chip}"
        return describe_costs(exposed, by, noun="transfers", verb=verb, amount=IN_SECONDS, place=place)
    if _is_any(exposed := costs("exposed_bytes", "synchronous_bytes")):
        kinds = [name for name in ("exposed", "synchronous") if _is_any(costs(f"{name}_bytes"))]
        place = f"of {' and '.join(kinds)} transfers"
        return describe_costs(exposed, by, noun="transfers", verb=verb, amount=IN_BYTES, place=place)
    return describe_costs(costs("bytes"), by, noun="transfers", verb=verb, amount=IN_BYTES, place="of transfers")


def _is_any(costs: Sequence[tuple[str, float]]) -> bool:
    return any(cost for _, cost in costs)


def _next(argument: str, table: Table, by: By) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    keys, pairs = table.column_index(by), table.column_index("pairs")
    return next_command(f"hlo schedule {argument}", by, [str(row[keys]) for row in table.rows if row[pairs]])
