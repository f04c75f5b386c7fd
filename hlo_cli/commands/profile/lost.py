"""`hlo profile TRACE --lost`: measured time above the least time at the peak rates, the largest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.profile.operation_times import touched_tiles
from hlo_cli.commands.profile.operations import source_of
from hlo_cli.commands.profile.words import facts_of, numbers_of, over_peak_words
from hlo_cli.ir.operations import COLLECTIVES, wrapped_opcode
from hlo_cli.report.numbers import format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed


def report_of_lost(measured: Measured) -> Report:
    """One row for each instruction, those that lose most time first; HloError if no peak rates are known."""
    if not measured.roofs.is_known:
        hint = "add --chip NAME; run `hlo help chips` to list all chips"
        raise HloError(f"--lost requires peak rates, which {measured.loaded.path} does not have", hint=hint)
    found = sorted((each for each in measured.selected if each.operation.is_joined), key=_rank)
    lost = sum(each.lost or 0.0 for each in found)
    return Report(
        "profile",
        _answer(measured, found, lost),
        version=1,
        numbers={**numbers_of(measured), "lost_seconds": lost},
        parts=(facts_of(measured), _table(measured, found), *_remarks(found)),
        next=_next(measured, found),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _rank(each: Timed) -> tuple[bool, float, float, str]:
    return each.lost is None, -(each.lost or 0.0), -each.measure.self_time, each.operation.name


def _table(measured: Measured, found: Sequence[Timed]) -> Table:
    rows = [_row(measured, each) for each in found]
    has_tiles = any(row[5] is not None for row in rows)
    many = len(measured.profile.devices) > 1
    columns = (
        Column("lost_seconds", f"lost per {measured.device_noun}" if many else "lost", "seconds", total="sum"),
        Column("call_seconds", "measured", "seconds"),
        Column("floor_seconds", "floor", "seconds", like="call_seconds"),
        Column("factor", "factor", "ratio"),
        Column("accessed_bytes", "accessed", "bytes", person=has_tiles, rank=5),
        Column("touched_bytes", "in tiles", "bytes", person=has_tiles, rank=5),
        Column("roofline_fraction", "of roof", "percent", from_width=120),
        Column("bound", "bound", from_width=120),
        Column("calls", "calls", "count", from_width=120),
        Column("instruction", "instruction", "name"),
        Column("category", "category", rank=6),
        Column("source", "source", "source", from_width=120),
    )
    return Table("lost", columns, tuple(rows), noun="instructions")


def _row(measured: Measured, each: Timed) -> Row:
    calls, rates = max(each.measure.calls, 1), each.rates
    mean, floor = each.measure.total / calls, None if each.floor is None else each.floor / calls
    return (
        None if each.lost is None else measured.per_device(each.lost),
        mean,
        floor,
        mean / floor if floor else None,
        each.operation.bytes,
        _touched_bytes(each),
        rates.efficiency or None,
        rates.bound_by or None,
        each.measure.calls,
        each.operation.name,
        each.operation.category,
        source_of(each),
    )


def _touched_bytes(each: Timed) -> int | None:
    """The bytes of the tiles that slices touch, if they are more than those of the slices."""
    found = () if each.operation.instruction is None else touched_tiles(each.operation.instruction)
    return sum(tiles.bytes for tiles in found) or None


def _answer(measured: Measured, found: Sequence[Timed], lost: float) -> str:
    if not found:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    known = [each for each in found if each.lost is not None]
    if not known:
        return f"The work of {format_count(len(found), 'instructions')} is unknown, so no time above the roofline is"
    words = f"{format_seconds(measured.per_device(lost))} of {measured.whole_words} is above the roofline"
    if not lost:
        return f"No time of {measured.whole_words} is above the roofline"
    by_kind: dict[str, list[Timed]] = {}
    for each in known:
        by_kind.setdefault(each.operation.category or each.operation.name, []).append(each)
    kind, members = max(by_kind.items(), key=lambda each: sum(one.lost or 0.0 for one in each[1]))
    part = sum(each.lost or 0.0 for each in members)
    largest = members[0]
    if len(by_kind) == 1 or (largest.lost or 0.0) > part / 2:
        return f"{words}: {format_percent((largest.lost or 0.0) / lost)}% of that in {largest.operation.name}"
    return f"{words}: {format_percent(part / lost)}% of that in {format_count(len(members), 'instructions')} ({kind})"


def _remarks(found: Sequence[Timed]) -> Iterator[Passage]:
    texts = [*over_peak_words(found)]
    collectives = [each for each in found if each.lost and _is_collective(each)]
    if collectives:
        names = format_count(len(collectives), "collectives")
        texts.append(f"The floor of {names} is that of memory traffic; the time on links is not in it.")
    if texts:
        yield Passage("remarks", tuple(texts))


def _is_collective(each: Timed) -> bool:
    instruction = each.operation.instruction
    if instruction is None:
        return False
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start").removesuffix("-done")
    return opcode in COLLECTIVES


def _next(measured: Measured, found: Sequence[Timed]) -> tuple[str, ...]:
    if not measured.command or not found or not found[0].lost:
        return ()
    return (f"{measured.command} {found[0].operation.name}",)
