"""`hlo schedule DUMP`: every asynchronous operation, what overlaps it, and how many of its bytes are exposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.commands.schedule.messages import describe_overlap
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.commands.shared.loop_brackets import loops_of
from hlo_cli.commands.shared.where import rows_where
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.cell import UNKNOWN, Row, Unknown
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:  # times need a chip
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.commands.schedule.time import PairTimes


def report_of_pairs(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    *,
    within: Computation | None,
    where: str | None,
    argument: str,
    throughput: ChipSpec | None = None,
) -> Report:
    """A table of the pairs in the order of their starts, with totals by operation."""
    flights = [flight for flight in overlap.intervals if within is None or flight.pair.start.computation is within]
    blocking = {i: size for i, size in overlap.synchronous.items() if within is None or i.computation is within}
    times = _times_of(overlap, throughput, flights, blocking)
    everything = _pairs_table(overlap, flights, times)
    table = everything if where is None else rows_where(where, everything)
    kinds = _kinds_table(flights, [(instruction.opcode, size) for instruction, size in blocking.items()], times)
    exposed = [flight for flight in flights if flight.is_exposed]
    return Report(
        "schedule",
        describe_overlap(overlap, flights, blocking) if times is None else times.answer(),
        numbers={
            "steps": len(overlap.sequence),
            "order": "schedule" if loaded.module.is_scheduled else "text",
            "pairs": len(flights),
            "waited_for": sum(flight.done_step is not None for flight in flights),
            "exposed": len(exposed),
            "bytes": sum(flight.total_bytes for flight in flights),
            "exposed_bytes": sum(flight.exposed_bytes for flight in flights),
            "blocking": len(blocking),
            "blocking_bytes": sum(blocking.values()),
            "unscheduled_pairs": len(overlap.unexecuted),
            **({} if times is None else times.numbers()),
        },
        parts=_parts(table, everything, kinds, _why_nothing(loaded)),
        next=_next(exposed, argument, suggests_chip=times is None and target_of(loaded.module) in ("gpu", "tpu")),
        notes=(*_notes(overlap, flights), *(() if times is None else times.notes()), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def order_notes(overlap: OverlapAnalysis) -> tuple[Diagnostic, ...]:
    """Notes on a module that has no schedule."""
    if overlap.module.is_scheduled:
        return ()
    return (Diagnostic("note", "the module is not scheduled: the order of its text is taken for one"),)


def _parts(table: Table, everything: Table, kinds: Table, why: str) -> tuple[Part, ...]:
    if not everything.rows:
        return Passage("nothing", (why,)), replace(kinds, person=bool(kinds.rows)), table
    if not table.rows:
        return Passage("nothing", (f"None of {format_count(len(everything.rows), 'pairs')} is so.",)), table
    return table, kinds


def _why_nothing(loaded: Loaded) -> str:
    """The reason why a module may have no asynchronous operations."""
    if not loaded.module.is_scheduled:
        words = "Compilers make operations asynchronous when they schedule, and this is before that"
        return f"{words}; --reorder memory makes a schedule."
    return "The compiler made no pair of a start and a done here, in any spelling."


def _times_of(
    overlap: OverlapAnalysis,
    throughput: ChipSpec | None,
    flights: Sequence[AsyncInterval],
    blocking: Iterable[Instruction],
) -> PairTimes | None:
    if throughput is None:
        return None
    from hlo_cli.analysis.schedule.step_time import estimate_time
    from hlo_cli.commands.schedule.time import PairTimes

    return PairTimes(overlap, estimate_time(overlap, throughput), flights, blocking)


def _pairs_table(overlap: OverlapAnalysis, flights: Sequence[AsyncInterval], times: PairTimes | None) -> Table:
    opcodes = {flight.pair.start.opcode for flight in flights}
    several = len({flight.pair.operation for flight in flights}) > 1
    repeated = any(flight.times != 1 for flight in flights)
    columns = (
        Column("start", "start", "step"),
        Column("bound", "bound", "step", person=any(flight.bound_step != flight.start_step for flight in flights)),
        Column("done", "done", "step"),
        Column("bytes", "", "bytes", total=None if repeated else "sum"),
        Column("times", "times", "count", person=repeated),
        Column("total_bytes", "in all", "bytes", total="sum", person=repeated),
        *(() if times is None else times.columns(repeated=repeated)),
        Column("meanwhile", "kernels", align="right", machine=False, from_width=120 if times else 0),
        Column("kernels", "kernels", "count", person=False),
        Column("flops", "flops", "count", from_width=120, group="meanwhile"),
        Column("between_bytes", "moved", "bytes", from_width=120, group="meanwhile"),
        Column("exposed", "exposed", "flag", person=False),
        Column("is_sync", "is_sync", "flag", person=False),
        Column("operation", "operation", "opcode", person=several, from_width=120 if times else 0),
        Column("instruction", opcodes.pop() if len(opcodes) == 1 else "instruction", "name", role="name"),
        times.span_column() if times else _span_column(overlap),
        Column("done_instruction", "waited for by", "name", from_width=200),
        Column("spelling", "spelling", person=False),
        Column("updates", "updates", "count", person=False),
        Column("thread", "thread", person=False),
        Column("computation", "computation", "name", person=False),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", from_width=120, rank=4),
    )
    return Table("pairs", columns, tuple(_pair_row(overlap, flight, times) for flight in flights), noun="pairs")


def _span_column(overlap: OverlapAnalysis) -> Column:
    loops = tuple(loops_of(overlap.runs))
    return Column("span", "step", "span", steps=len(overlap.sequence), loops=loops, machine=False)


def _pair_row(overlap: OverlapAnalysis, flight: AsyncInterval, times: PairTimes | None) -> Row:
    pair = flight.pair
    location = overlap.module.location(pair.start)
    done = overlap.sequence[flight.done_step].name if flight.done_step is not None else None
    return (
        flight.start_step,
        flight.bound_step,
        flight.done_step,
        flight.moved_bytes,
        UNKNOWN if flight.times is None else flight.times,
        flight.total_bytes,
        *(() if times is None else times.cells(flight)),
        _meanwhile(flight),
        flight.between.kernels,
        UNKNOWN if flight.between.unknown else flight.between.flops,
        flight.between.bytes,
        flight.is_exposed,
        flight.is_sync,
        f"host {pair.operation}" if pair.is_host_transfer else pair.operation,
        pair.start.name,
        _span(flight) if times is None else times.span(flight),
        done,
        pair.spelling,
        len(pair.updates),
        pair.thread,
        pair.start.computation.name,
        pair.start.metadata.op_name or None,
        str(location) if location is not None else None,
    )


def _meanwhile(flight: AsyncInterval) -> str | Unknown:
    if flight.done_step is None:
        return UNKNOWN
    return "exposed" if flight.is_exposed else f"{flight.between.kernels:,}"


def _span(flight: AsyncInterval) -> tuple[int, int, bool] | None:
    """The bar of a pair; None for the next iteration of a loop, where the done comes first."""
    if flight.done_step is None or flight.done_step < flight.start_step:
        return None
    return flight.start_step, flight.done_step, not flight.is_exposed


def _kinds_table(
    flights: Sequence[AsyncInterval], blocking: Sequence[tuple[str, int]], times: PairTimes | None
) -> Table:
    """One row for each operation, with the count and bytes of its synchronous instructions."""
    waits = any(flight.is_exposed for flight in flights)
    columns = (
        Column("operation", "operation", "opcode"),
        Column("pairs", "pairs", "count", total="sum", person=bool(flights)),
        Column("bytes", "", "bytes", total="sum", person=bool(flights)),
        Column("exposed", "exposed", "count", total="sum", person=waits),
        Column("exposed_bytes", "exposed", "bytes", total="sum", role="waste", person=waits),
        Column("blocking", "blocking", "count", total="sum", person=bool(blocking)),
        Column("blocking_bytes", "blocking", "bytes", total="sum", role="waste", person=bool(blocking)),
        *(() if times is None else times.kind_columns()),
    )
    names = dict.fromkeys([flight.pair.operation for flight in flights] + [opcode for opcode, _ in blocking])
    rows = [
        (
            *_kind_row(
                name,
                [flight for flight in flights if flight.pair.operation == name],
                [size for opcode, size in blocking if opcode == name],
            ),
            *(() if times is None else times.kind_cells(name)),
        )
        for name in names
    ]
    rows.sort(key=lambda row: (-sum(cell for cell in (row[4], row[6]) if isinstance(cell, int)), str(row[0])))
    return Table("operations", columns, tuple(rows), noun="operations", main=False, person=len(rows) > 1)


def _kind_row(name: str, flights: Sequence[AsyncInterval], blocking: Iterable[int]) -> Row:
    exposed = [flight for flight in flights if flight.is_exposed]
    sizes = list(blocking)
    total = sum(flight.total_bytes for flight in flights)
    return name, len(flights), total, len(exposed), sum(f.exposed_bytes for f in exposed), len(sizes), sum(sizes)


def _next(exposed: Sequence[AsyncInterval], argument: str, *, suggests_chip: bool) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    largest = max(exposed, key=lambda flight: (flight.exposed_bytes, -flight.start_step), default=None)
    more = (f"hlo parse {argument} --explain {largest.pair.start.name}",) if largest is not None else ()
    time = (f"hlo schedule {argument} --chip NAME",) if suggests_chip else ()
    return (f"hlo schedule {argument} --sequence", *time, *more)


def _notes(overlap: OverlapAnalysis, flights: Sequence[AsyncInterval]) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    unknown = sum(flight.times is None for flight in flights)
    if unknown:
        words = "is in a loop whose rounds" if unknown == 1 else "are in loops whose rounds"
        yield Diagnostic("note", f"{format_count(unknown, 'pairs')} {words} the text does not tell: counted once")
    if overlap.unexecuted:
        names = ", ".join(sorted({pair.start.computation.name for pair in overlap.unexecuted}))
        number = format_count(len(overlap.unexecuted), "pairs")
        yield Diagnostic("note", f"not in the schedule, as nothing in it runs {names}: {number}")
