"""`hlo schedule DUMP --reorder HOW`: another order, what it is worth, and what moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlo_cli.analysis.async_overlap import Flight, Overlap, overlap_of
from hlo_cli.analysis.target import space_name, target_of
from hlo_cli.commands.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.schedule_moved import moved_table
from hlo_cli.commands.schedule_pairs import order_notes
from hlo_cli.commands.where import rows_where
from hlo_cli.ir.computation import Computation
from hlo_cli.render.numbers import bytes_in_words, counted, percent
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic
from hlo_cli.transform.moved import moved_blocks
from hlo_cli.transform.reorder import How, Reordered
from hlo_cli.transform.scheduling.flights import BY_BYTES


def report_of_reordering(
    loaded: Loaded,
    overlap: Overlap,
    new: Reordered,
    *,
    how: How,
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """What the new order does to memory and to what is waited for, and one row for each block that moved."""
    new_overlap = overlap_of(new.module)
    blocks = [
        block
        for block in moved_blocks(loaded.module, new.module)
        if within is None or block.before[0].computation is within
    ]
    everything = moved_table(loaded.module, new.module, blocks)
    table = everything if where is None else rows_where(where, everything)
    waits = _Waits(overlap.flights), _Waits(new_overlap.flights)
    peaks = _peaks(new)
    moved = sum(len(block.instructions) for block in blocks)
    return Report(
        "schedule",
        _answer(how, peaks, waits, moved, len(blocks), is_new=not loaded.module.is_scheduled),
        numbers={
            "reorder": how,
            "moved": moved,
            "blocks": len(blocks),
            "peak_bytes_before": {name: peak for name, peak, _ in peaks},
            "peak_bytes_after": {name: peak for name, _, peak in peaks},
            "exposed_before": waits[0].exposed,
            "exposed_after": waits[1].exposed,
            "exposed_bytes_before": waits[0].exposed_bytes,
            "exposed_bytes_after": waits[1].exposed_bytes,
        },
        parts=(*_compared(peaks, waits), table),
        next=_next(argument, how),
        notes=(*_notes(overlap, how), *notes_of(loaded)),
        input=input_facts(loaded),
    )


class _Waits:
    """How many pairs there are, and how many of them with how many bytes are exposed."""

    def __init__(self, flights: Sequence[Flight]) -> None:
        self.pairs = len(flights)
        self.exposed = sum(flight.is_exposed for flight in flights)
        self.exposed_bytes = sum(flight.exposed_bytes for flight in flights)


Peaks = Sequence[tuple[str, int, int]]


def _peaks(new: Reordered) -> Peaks:
    """The name of each memory space with its peaks before and after."""
    target = target_of(new.module)
    return [
        (space_name(space, target), new.before.get(space, 0), new.after.get(space, 0))
        for space in sorted(new.before.keys() | new.after.keys())
    ]


def _answer(how: How, peaks: Peaks, waits: tuple[_Waits, _Waits], moved: int, blocks: int, *, is_new: bool) -> str:
    if not moved:
        words = "The order of the text becomes the schedule" if is_new else "The order stays as it is"
        return f"{words}: {_stays(how)}"
    main, old, new = max(peaks, key=lambda peak: (abs(peak[2] - peak[1]), peak[1]))
    words = f"{main} peaks at {bytes_in_words(new)}, as before"
    if new != old:
        change = f"{percent(abs(new - old) / old)}% {'less' if new < old else 'more'}" if old else "from nothing"
        words = f"{main} peaks at {bytes_in_words(new)} instead of {bytes_in_words(old)}, {change}"
    if waits[0].pairs:
        words += f"; {waits[1].exposed:,} of {counted(waits[1].pairs, 'pairs')} wait, before {waits[0].exposed:,}"
    where = "" if blocks == 1 else f" in {blocks:,} blocks"
    return f"{words}; {counted(moved, 'instructions')} moved{where}"


def _stays(how: How) -> str:
    match how:
        case "memory":
            return "no other has a lower peak"
        case "latency":
            return "no other that takes no more memory waits for less"
    return "nothing has to move"


def _compared(peaks: Peaks, waits: tuple[_Waits, _Waits]) -> tuple[Table, ...]:
    """Peaks of the spaces before and after, and what is exposed."""
    both = (Column("before_bytes", "before", "bytes"), Column("after_bytes", "after", "bytes"))
    change = Column("change_bytes", "change", "bytes")
    rows = [(name, old, new, new - old) for name, old, new in peaks]
    tables = [Table("peaks", (Column("space", "space"), *both, change), tuple(rows), noun="spaces", main=False)]
    if waits[0].pairs:
        columns = (Column("order", "order"), Column("pairs", "pairs", "count"), Column("exposed", "exposed", "count"))
        exposed: list[Row] = [
            (name, each.pairs, each.exposed, each.exposed_bytes)
            for name, each in zip(("before", "after"), waits, strict=True)
        ]
        bytes_column = Column("exposed_bytes", "exposed", "bytes")
        tables.append(Table("exposed", (*columns, bytes_column), tuple(exposed), noun="orders", main=False))
    return tuple(tables)


def _notes(overlap: Overlap, how: How) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    if how == "latency":
        yield Diagnostic("note", BY_BYTES)


def _next(argument: str, how: How) -> tuple[str, ...]:
    return (f"hlo schedule {argument} --reorder {how} -o new.hlo",) if argument and argument != "-" else ()
