"""`hlo schedule DUMP`: every asynchronous operation, what runs meanwhile, and how many bytes are exposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hlo_cli.analysis.async_overlap import Flight, Overlap
from hlo_cli.commands.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.where import rows_where
from hlo_cli.ir.computation import Computation
from hlo_cli.render.numbers import BYTE_UNITS, axis_unit, bytes_in_words, counted, scaled, singular
from hlo_cli.report.cell import UNKNOWN, Row, Unknown
from hlo_cli.report.column import Column
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic


def report_of_pairs(
    loaded: Loaded, overlap: Overlap, *, within: Computation | None, where: str | None, argument: str
) -> Report:
    """The pairs in the order in which they start, and what they come to by operation."""
    flights = [flight for flight in overlap.flights if within is None or flight.pair.start.computation is within]
    blocking = {i: size for i, size in overlap.blocking.items() if within is None or i.computation is within}
    everything = _pairs_table(overlap, flights)
    table = everything if where is None else rows_where(where, everything)
    kinds = _kinds_table(flights, [(instruction.opcode, size) for instruction, size in blocking.items()])
    exposed = [flight for flight in flights if flight.is_exposed]
    return Report(
        "schedule",
        _answer(overlap, flights, list(blocking.values())),
        numbers={
            "steps": len(overlap.sequence),
            "order": "schedule" if loaded.module.is_scheduled else "text",
            "pairs": len(flights),
            "waited_for": sum(flight.done_step is not None for flight in flights),
            "exposed": len(exposed),
            "bytes": sum(flight.total_bytes for flight in flights),
            "exposed_bytes": sum(flight.exposed_bytes for flight in flights),
            "blocking_collectives": len(blocking),
            "blocking_bytes": sum(blocking.values()),
            "unscheduled_pairs": len(overlap.idle),
        },
        parts=_parts(table, everything, kinds, _why_nothing(loaded)),
        next=_next(exposed, argument),
        notes=(*_notes(overlap, flights), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def order_notes(overlap: Overlap) -> tuple[Diagnostic, ...]:
    """What to say of a module that has no schedule."""
    if overlap.module.is_scheduled:
        return ()
    return (Diagnostic("note", "the module is not scheduled: the order of its text is taken for one"),)


def _answer(overlap: Overlap, flights: Sequence[Flight], blocking: Sequence[int]) -> str:
    if flights:
        words = _pairs_in_words(flights)
    else:
        words = f"Nothing is asynchronous in {counted(len(overlap.sequence), 'steps')}"
    is_scheduled = overlap.module.is_scheduled
    if not is_scheduled:
        words = f"Not scheduled; in the order of the text {words[0].lower()}{words[1:]}"
    if not blocking:
        return words
    moved = bytes_in_words(sum(blocking))
    if len(blocking) == 1:
        still = "is not asynchronous" if is_scheduled else "may become asynchronous"
        return f"{words}; 1 collective, which moves {moved}, {still}"
    still = "are not asynchronous" if is_scheduled else "may become asynchronous"
    return f"{words}; {len(blocking):,} collectives, which move {moved}, {still}"


def _pairs_in_words(every: Sequence[Flight]) -> str:
    """How many of the pairs overlap nothing, and how many nothing waits for."""
    flights = [flight for flight in every if flight.done_step is not None]
    if not flights:
        return f"The text does not tell when {counted(len(every), _nouns(every))} {_is(len(every))} waited for"
    lost = len(every) - len(flights)
    return _exposed_in_words(flights) + (f"; nothing waits for {lost:,} more" if lost else "")


def _exposed_in_words(flights: Sequence[Flight]) -> str:
    """How many pairs are exposed, and how many of their bytes."""
    exposed = [flight for flight in flights if flight.is_exposed]
    total, waited = (sum(flight.total_bytes for flight in each) for each in (flights, exposed))
    least = "at least " if any(flight.times is None for flight in flights) else ""
    verb = "overlaps" if len(flights if len(exposed) in (0, len(flights)) else exposed) == 1 else "overlap"
    if exposed and len(exposed) < len(flights):
        number = f"{len(exposed):,} of {len(flights):,} {_noun(flights)}"
        return f"{number} {verb} nothing: {least}{_part_in_words(waited, total)} is exposed"
    every = {1: "The only", 2: "Both"}.get(len(flights), f"All {len(flights):,}")
    what = "nothing: all" if exposed else "other work: none"
    return f"{every} {_noun(flights)} {verb} {what} of {least}{bytes_in_words(total)} is exposed"


def _noun(flights: Sequence[Flight]) -> str:
    """What the pairs are, in the plural unless there is one."""
    return singular(_nouns(flights)) if len(flights) == 1 else _nouns(flights)


def _nouns(flights: Sequence[Flight]) -> str:
    operations = {flight.pair.operation for flight in flights}
    noun = operations.pop() if len(operations) == 1 else "asynchronous operation"
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _part_in_words(part: int, whole: int) -> str:
    """A number of bytes out of another, in one unit.

    >>> _part_in_words(1052672, 3141636), _part_in_words(100, 200)
    ('1.0 of 3.0 MiB', '100 of 200 B')
    """
    unit = axis_unit(whole)
    decimals = 0 if not (part % 1024**unit or whole % 1024**unit) else 1
    return f"{scaled(part, 1024**unit, decimals)} of {scaled(whole, 1024**unit, decimals)} {BYTE_UNITS[unit]}"


def _parts(table: Table, everything: Table, kinds: Table, why: str) -> tuple[Part, ...]:
    if not everything.rows:
        return Passage("nothing", (why,)), replace(kinds, person=bool(kinds.rows)), table
    if not table.rows:
        return Passage("nothing", (f"None of {counted(len(everything.rows), 'pairs')} is so.",)), table
    return table, kinds


def _why_nothing(loaded: Loaded) -> str:
    """Why a module may have nothing asynchronous."""
    if not loaded.module.is_scheduled:
        words = "Compilers make operations asynchronous when they schedule, and this is before that"
        return f"{words}; --reorder memory makes a schedule."
    return "The compiler made no pair of a start and a done here, in any spelling."


def _pairs_table(overlap: Overlap, flights: Sequence[Flight]) -> Table:
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
        Column("meanwhile", "kernels", align="right", machine=False),
        Column("kernels", "kernels", "count", person=False),
        Column("flops", "flops", "count", from_width=120, group="meanwhile"),
        Column("between_bytes", "moved", "bytes", from_width=120, group="meanwhile"),
        Column("exposed", "exposed", "flag", person=False),
        Column("is_sync", "is_sync", "flag", person=False),
        Column("operation", "operation", "opcode", person=several),
        Column("instruction", opcodes.pop() if len(opcodes) == 1 else "instruction", "name", role="name"),
        Column("span", "step", "span", steps=len(overlap.sequence), machine=False),
        Column("done_instruction", "waited for by", "name", from_width=200),
        Column("spelling", "spelling", person=False),
        Column("updates", "updates", "count", person=False),
        Column("thread", "thread", person=False),
        Column("computation", "computation", "name", person=False),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", from_width=120, rank=4),
    )
    return Table("pairs", columns, tuple(_pair_row(overlap, flight) for flight in flights), noun="pairs")


def _pair_row(overlap: Overlap, flight: Flight) -> Row:
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
        _meanwhile(flight),
        flight.between.kernels,
        flight.between.flops,
        flight.between.bytes,
        flight.is_exposed,
        flight.is_sync,
        f"host {pair.operation}" if pair.is_host_transfer else pair.operation,
        pair.start.name,
        _span(flight),
        done,
        pair.spelling,
        len(pair.updates),
        pair.thread,
        pair.start.computation.name,
        pair.start.metadata.op_name or None,
        str(location) if location is not None else None,
    )


def _meanwhile(flight: Flight) -> str | Unknown:
    if flight.done_step is None:
        return UNKNOWN
    return "exposed" if flight.is_exposed else f"{flight.between.kernels:,}"


def _span(flight: Flight) -> tuple[int, int, bool] | None:
    """The bar of a pair; a loop's next round, where the done stands first, is not drawn."""
    if flight.done_step is None or flight.done_step < flight.start_step:
        return None
    return flight.start_step, flight.done_step, not flight.is_exposed


def _kinds_table(flights: Sequence[Flight], blocking: Sequence[tuple[str, int]]) -> Table:
    """One row for each operation, with what of it is not asynchronous."""
    waits = any(flight.is_exposed for flight in flights)
    columns = (
        Column("operation", "operation", "opcode"),
        Column("pairs", "pairs", "count", total="sum"),
        Column("bytes", "", "bytes", total="sum"),
        Column("exposed", "exposed", "count", total="sum", person=waits),
        Column("exposed_bytes", "exposed", "bytes", total="sum", role="waste", person=waits),
        Column("blocking", "blocking", "count", total="sum", person=bool(blocking)),
        Column("blocking_bytes", "blocking", "bytes", total="sum", role="waste", person=bool(blocking)),
    )
    names = dict.fromkeys([flight.pair.operation for flight in flights] + [opcode for opcode, _ in blocking])
    rows = [
        _kind_row(
            name,
            [flight for flight in flights if flight.pair.operation == name],
            [size for opcode, size in blocking if opcode == name],
        )
        for name in names
    ]
    rows.sort(key=lambda row: (-sum(cell for cell in (row[4], row[6]) if isinstance(cell, int)), str(row[0])))
    return Table("kinds", columns, tuple(rows), noun="operations", main=False, person=len(rows) > 1)


def _kind_row(name: str, flights: Sequence[Flight], blocking: Iterable[int]) -> Row:
    exposed = [flight for flight in flights if flight.is_exposed]
    sizes = list(blocking)
    total = sum(flight.total_bytes for flight in flights)
    return name, len(flights), total, len(exposed), sum(f.exposed_bytes for f in exposed), len(sizes), sum(sizes)


def _next(exposed: Sequence[Flight], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    largest = max(exposed, key=lambda flight: (flight.exposed_bytes, -flight.start_step), default=None)
    more = (f"hlo parse {argument} --explain {largest.pair.start.name}",) if largest is not None else ()
    return (f"hlo schedule {argument} --sequence", *more)


def _notes(overlap: Overlap, flights: Sequence[Flight]) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    unknown = sum(flight.times is None for flight in flights)
    if unknown:
        words = "is in a loop whose rounds" if unknown == 1 else "are in loops whose rounds"
        yield Diagnostic("note", f"{counted(unknown, 'pairs')} {words} the text does not tell: counted once")
    if overlap.idle:
        names = ", ".join(sorted({pair.start.computation.name for pair in overlap.idle}))
        number = counted(len(overlap.idle), "pairs")
        yield Diagnostic("note", f"not in the schedule, as nothing in it runs {names}: {number}")
