"""`hlo memspace DUMP --compare`: memory usage computed from the text against the compiler's buffer assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hlo_cli.analysis.memory.memory_analysis import (
    LiveValue,
    MemoryAnalysis,
    allocated_bytes,
    assigned_values,
    compiled_memory,
    value_key,
)
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.shared.compiler_memory import compiler_live_ranges
from hlo_cli.ir.buffer_assignment import BufferAssignment, DumpedLiveRanges
from hlo_cli.report.numbers import format_bytes, format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, Table


def report_of_comparison(loaded: Loaded, memory: MemoryAnalysis, assignment: BufferAssignment) -> Report:
    """The totals of every space in both versions, and the values whose sizes, offsets, or live ranges differ."""
    theirs = compiled_memory(memory, assignment)
    totals = tuple(_totals(memory, theirs))
    differing = tuple(_differing(memory, assignment))
    ranges = compiler_live_ranges(loaded)
    differing_ranges = _differing_live_ranges(memory, ranges) if ranges is not None else None
    return Report(
        "memspace",
        _answer(memory, totals, differing, differing_ranges),
        numbers={
            "values": len(memory.values),
            "differing_values": len(differing),
            "differing_totals": sum(_differs(row) for row in totals),
            "differing_live_ranges": UNKNOWN if differing_ranges is None else len(differing_ranges),
            "live_range_peak_step": memory.live_range_peak,
            "compiler_live_range_peak_step": UNKNOWN if ranges is None else ranges.peak_time,
        },
        parts=(_totals_table(totals), _values_table(differing), _live_ranges_table(differing_ranges or ())),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _answer(
    memory: MemoryAnalysis, totals: Sequence[Row], differing: Sequence[Row], differing_ranges: Sequence[Row] | None
) -> str:
    values = format_count(len(memory.values), "values")
    all_values = f"all {values}" if len(memory.values) != 1 else values
    all_totals = "all totals" if all(isinstance(row[4], int) for row in totals) else "all known totals"
    wrong = [row for row in totals if _differs(row)]
    if differing_ranges:
        number = f"{len(differing_ranges):,} of {format_count(len(memory.values), 'live ranges')}"
        return f"{number} {verb(len(differing_ranges), 'differs', 'differ')} from the compiler's"
    if not wrong and not differing:
        compared = "sizes" if differing_ranges is None else "live ranges and sizes"
        return f"The computed numbers match the compiler's: {all_totals}, and the {compared} of {all_values}"
    worst = max(wrong, key=lambda row: abs(_number(row[4])), default=None)
    words = f"{len(differing):,} of {values} {verb(len(differing), 'differs', 'differ')} from the compiler's"
    if worst is None:
        return f"{words}; {all_totals} match"
    return f"{words}; {worst[0]} {worst[1]} differ by {format_bytes(abs(_number(worst[4])))}"


def _totals(ours: MemoryAnalysis, theirs: MemoryAnalysis) -> Iterator[Row]:
    for our, their in zip(ours.spaces, theirs.spaces, strict=True):
        known = our.offsets != "unknown"
        pairs: tuple[tuple[str, Cell, Cell], ...] = (
            ("temporaries", our.totals.temporaries if known else UNKNOWN, their.totals.temporaries),
            ("allocations", allocated_bytes(ours, our) if known else UNKNOWN, allocated_bytes(theirs, their)),
        )
        for total, mine, its in pairs:
            difference = mine - its if isinstance(mine, int) and isinstance(its, int) else UNKNOWN
            yield our.name, total, mine, its, difference


def _totals_table(rows: tuple[Row, ...]) -> Table:
    columns = (
        Column("space", "space"),
        Column("total", "total"),
        Column("computed_bytes", "computed", "bytes", exact=True),
        Column("compiler_bytes", "compiler", "bytes", exact=True),
        Column("difference_bytes", "difference", "bytes", role="waste", exact=True),
    )
    return Table("totals", columns, rows, noun="totals", limit=0)


def _differing(memory: MemoryAnalysis, assignment: BufferAssignment) -> Iterator[Row]:
    """Values that the assignment lacks, or has with another size or offset."""
    assigned = assigned_values(assignment)
    for value in memory.values:
        place = assigned.get(value_key(value))
        if place is None:
            yield _value_row(value, None, None, "not in the buffer assignment")
        elif place.bytes != value.padded_bytes:
            yield _value_row(value, place.bytes, place.offset, "size")
        elif value.offset is not None and value.offset != place.offset:
            yield _value_row(value, place.bytes, place.offset, "offset")


def _differing_live_ranges(memory: MemoryAnalysis, ranges: DumpedLiveRanges) -> tuple[Row, ...]:
    """Values whose live range differs from the compiler's, and values that only one side has.

    A value of the compiler whose name sugar hides from the text matches any value with the same live range.
    """
    theirs = {str(found.place): (found.start, found.end) for found in ranges.ranges}
    ours = {str(value): (value.start, value.end) for value in memory.values}
    hidden = {str(found.place): (found.start, found.end) for found in ranges.ranges if found.place.instruction is None}
    spare = Counter(live_range for name, live_range in ours.items() if name not in theirs)
    found: list[Row] = []
    for name in dict.fromkeys((*theirs, *ours)):
        our, their = ours.get(name), theirs.get(name)
        if our is None and name in hidden and spare[hidden[name]]:
            spare[hidden[name]] -= 1
        elif our is not None and their is not None and our != their:
            found.append((name, *our, *their))
        elif our is None and their is not None:
            found.append((name, None, None, *their))
    left = [(name, *own, None, None) for name, own in ours.items() if name not in theirs and spare[own] > 0]
    return (*found, *left)


def _live_ranges_table(rows: tuple[Row, ...]) -> Table:
    columns = (
        Column("value", "value", "name", role="name"),
        Column("start", "start", "step"),
        Column("end", "end", "step"),
        Column("compiler_start", "compiler start", "step"),
        Column("compiler_end", "compiler end", "step"),
    )
    return Table("live_ranges", columns, rows, noun="live ranges", main=False, limit=10, person=bool(rows))


def _value_row(value: LiveValue, bytes_: int | None, offset: int | None, difference: str) -> Row:
    return difference, value.padded_bytes, bytes_, value.offset, offset, value.kind, str(value), str(value.shape)


def _values_table(rows: tuple[Row, ...]) -> Table:
    columns = (
        Column("difference", "difference"),
        Column("computed_bytes", "computed", "bytes", exact=True),
        Column("compiler_bytes", "compiler", "bytes", exact=True),
        Column("computed_offset", "offset", "address"),
        Column("compiler_offset", "compiler offset", "address"),
        Column("kind", "kind", rank=3),
        Column("value", "value", "name", role="name"),
        Column("shape", "shape", "shape"),
    )
    return Table("differences", columns, rows, noun="values", main=False, limit=10, person=bool(rows))


def _differs(row: Row) -> bool:
    return _number(row[4]) != 0


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0
