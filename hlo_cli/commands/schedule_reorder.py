"""`hlo schedule DUMP --reorder HOW`: another order, what it is worth, and what moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlo_cli.analysis.async_overlap import Flight, Overlap, overlap_of
from hlo_cli.analysis.memory import Memory
from hlo_cli.analysis.memory_of import memory_of
from hlo_cli.commands.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.schedule_pairs import order_notes
from hlo_cli.commands.where import rows_where
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.module import Module
from hlo_cli.render.numbers import bytes_in_words, counted, percent
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic
from hlo_cli.transform.moved import MovedBlock, moved_blocks
from hlo_cli.transform.reorder import How
from hlo_cli.transform.scheduling.flights import LINK


def report_of_reordering(
    loaded: Loaded,
    overlap: Overlap,
    new: Module,
    *,
    how: How,
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """What the new order does to memory and to what is waited for, and one row for each block that moved."""
    before, after = memory_of(loaded.module), memory_of(new)
    new_overlap = overlap_of(new)
    blocks = [
        block for block in moved_blocks(loaded.module, new) if within is None or block.before[0].computation is within
    ]
    everything = _moved_table(blocks, before, after)
    table = everything if where is None else rows_where(where, everything)
    waits = _Waits(overlap.flights), _Waits(new_overlap.flights)
    peaks = _peaks(before, after)
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


def _peaks(before: Memory, after: Memory) -> Peaks:
    """The name of each memory space with its peaks before and after."""
    found = {space.number: (space.name, space.peak_bytes, 0) for space in before.spaces}
    for space in after.spaces:
        found[space.number] = (space.name, found[space.number][1] if space.number in found else 0, space.peak_bytes)
    return [found[number] for number in sorted(found)]


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


def _moved_table(blocks: Iterable[MovedBlock], before: Memory, after: Memory) -> Table:
    columns = (
        Column("from", "from", "step"),
        Column("to", "to", "step"),
        Column("by", "by", "count", from_width=120),
        Column("instructions", "count", "count"),
        Column("first", "first", "name", role="name"),
        Column("last", "last", "name", rank=2),
        Column("behind", "now behind", "name", rank=3),
        Column("computation", "computation", "name", from_width=120),
        Column("op_name", "op_name", "op_name", from_width=200, rank=1),
    )

    def row(block: MovedBlock) -> Row:
        old, new = before.positions.get(block.before[0]), after.positions.get(block.instructions[0])
        by: Cell = None if old is None or new is None else new - old
        first, last = block.instructions[0], block.instructions[-1]
        return (
            old,
            new,
            by,
            len(block.instructions),
            first.name,
            last.name if last is not first else None,
            block.behind.name if block.behind is not None else None,
            first.computation.name,
            first.metadata.op_name or None,
        )

    rows = tuple(map(row, blocks))
    return Table("moved", columns, rows, noun="blocks", title="moved")


def _notes(overlap: Overlap, how: How) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    if how == "latency":
        words = "time by the bytes that kernels read and write, as XLA's cost analysis counts them"
        yield Diagnostic("note", f"{words}; a byte between devices takes {LINK} times as long as one within")


def _next(argument: str, how: How) -> tuple[str, ...]:
    return (f"hlo schedule {argument} --reorder {how} -o new.hlo",) if argument and argument != "-" else ()
