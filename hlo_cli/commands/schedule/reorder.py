"""`hlo schedule DUMP --reorder HOW`: another order, its effect on memory and wait time, and the moved blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.step_time import TimeEstimate, estimate_time, sum_if_known
from hlo_cli.commands.schedule.async_table import order_notes
from hlo_cli.commands.schedule.moved_blocks import moved_table
from hlo_cli.commands.shared.chips import time_model, time_notes
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.commands.shared.where import rows_where
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic
from hlo_cli.transform.in_place import copies_note
from hlo_cli.transform.moved_blocks import moved_blocks
from hlo_cli.transform.reorder import How, Reordered
from hlo_cli.transform.scheduling.async_latencies import BY_BYTES


def report_of_reordering(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    new: Reordered,
    *,
    how: How,
    within: Computation | None,
    where: str | None,
    argument: str,
    options: str,
    has_limit: bool = False,
    throughput: ChipSpec | None = None,
) -> Report:
    """Peaks of memory and exposed transfers before and after, and one row for each moved block."""
    new_overlap = analyze_overlap(new.module)
    blocks = [
        block
        for block in moved_blocks(loaded.module, new.module)
        if within is None or block.before[0].computation is within
    ]
    everything = moved_table(loaded.module, new.module, blocks)
    table = everything if where is None else rows_where(where, everything)
    waits = _Waits(overlap, throughput), _Waits(new_overlap, throughput)
    peaks = _peaks(new)
    is_new = not loaded.module.is_scheduled
    moved = sum(len(block.instructions) for block in blocks)
    return Report(
        "schedule",
        _answer(how, peaks, waits, moved, len(blocks), is_new=is_new, has_limit=has_limit),
        numbers={
            "reorder": how,
            "moved": moved,
            "blocks": len(blocks),
            "peak_bytes_before": {name: peak for name, peak, _ in peaks},
            "peak_bytes_after": {name: peak for name, _, peak in peaks},
            "constant_bytes": sum(new.before.constants.values()),
            "exposed_before": waits[0].exposed,
            "exposed_after": waits[1].exposed,
            "exposed_bytes_before": waits[0].exposed_bytes,
            "exposed_bytes_after": waits[1].exposed_bytes,
            **_seconds(waits, throughput),
        },
        parts=(*_compared(peaks, waits), table),
        next=(f"hlo schedule {argument} {options} -o new.hlo",)
        if argument not in ("", "-") and (moved or is_new)
        else (),
        notes=(
            *_notes(overlap, new, how, throughput),
            *_unknown_notes(waits),
            *(Diagnostic("note", words) for words in copies_note(new.copies)),
            *notes_of(loaded),
        ),
        input=input_facts(loaded),
    )


class _Waits:
    """The number of pairs, how many of them and of their bytes are exposed, and the time estimate on a chip."""

    def __init__(self, overlap: OverlapAnalysis, throughput: ChipSpec | None) -> None:
        self.pairs = len(overlap.intervals)
        self.exposed = sum(flight.is_exposed for flight in overlap.intervals)
        self.exposed_bytes = sum(flight.exposed_bytes for flight in overlap.intervals)
        self.step = None if throughput is None else estimate_time(overlap, throughput)


def _seconds(waits: tuple[_Waits, _Waits], throughput: ChipSpec | None) -> dict[str, Cell]:
    """Time and wait time per execution before and after, and the time model; empty without a chip."""
    before, after = waits[0].step, waits[1].step
    if throughput is None or before is None or after is None:
        return {}
    return {
        "exposed_seconds_before": _exposed(before),
        "exposed_seconds_after": _exposed(after),
        "step_seconds_before": before.least_seconds,
        "step_seconds_after": after.least_seconds,
        "lower_bounds": _lower_bounds(before, after),
        "time_model": time_model(throughput),
    }


def _exposed(step: TimeEstimate) -> float | None:
    return sum_if_known(flight.exposed_seconds for flight in step.intervals)


def _lower_bounds(before: TimeEstimate, after: TimeEstimate) -> tuple[str, ...]:
    """Names of the times that have both a known and an unknown part."""
    named = (("step_seconds_before", before), ("step_seconds_after", after))
    return tuple(name for name, step in named if not step.is_known and step.least_seconds is not None)


def _unknown_notes(waits: tuple[_Waits, _Waits]) -> Iterable[Diagnostic]:
    if any(each.step is not None and not each.step.is_known for each in waits):
        yield Diagnostic("note", "how long a part of the step takes is unknown; its times are lower bounds")


Peaks = Sequence[tuple[str, int, int]]


def _peaks(new: Reordered) -> Peaks:
    """The name of each memory space, with its peaks before and after."""
    target = target_of(new.module)
    return [
        (space_name(space, target), new.before.whole.get(space, 0), new.after.whole.get(space, 0))
        for space in sorted(new.before.whole.keys() | new.after.whole.keys())
    ]


def _answer(
    how: How,
    peaks: Peaks,
    waits: tuple[_Waits, _Waits],
    moved: int,
    blocks: int,
    *,
    is_new: bool,
    has_limit: bool,
) -> str:
    if not moved:
        words = "The order of the text becomes the schedule" if is_new else "The order stays as it is"
        return f"{words}: {_stays(how, waits[0], has_limit=has_limit)}"
    said = [_peak_in_words(peaks)]
    if waits[0].pairs:
        said.insert(0 if how == "latency" else 1, _waits_in_words(waits))
    where = "" if blocks == 1 else f" in {blocks:,} blocks"
    words = f"{'; '.join(said)}; {format_count(moved, 'instructions')} moved{where}"
    return words[0].upper() + words[1:]


def _peak_in_words(peaks: Peaks) -> str:
    """The peak of the memory space that changes most, or of the largest space if no change is significant."""
    largest = max(peak for _, *both in peaks for peak in both)
    main, old, new = max(peaks, key=lambda peak: (_worth_saying(peak[2] - peak[1], largest), max(peak[1:])))
    if new == old:
        return f"{main} peaks at {format_bytes(new)}, as before"
    if format_bytes(new) == format_bytes(old):
        return f"{main} peaks at {format_bytes(new)}, {format_bytes(abs(new - old))} {_more(new - old)} than before"
    change = f"{format_percent(abs(new - old) / old)}% {_more(new - old)}" if old else "from nothing"
    return f"{main} peaks at {format_bytes(new)} instead of {format_bytes(old)}, {change}"


def _more(change: int) -> str:
    return "less" if change < 0 else "more"


def _worth_saying(change: int, whole: int) -> int:
    return abs(change) if abs(change) * 1000 > whole else 0


def _waits_in_words(waits: tuple[_Waits, _Waits]) -> str:
    before, after = waits[0].step, waits[1].step
    if before is None or after is None:
        return f"{waits[1].exposed:,} of {format_count(waits[1].pairs, 'pairs')} wait, before {waits[0].exposed:,}"
    if _exposed(before) is None and not any(flight.total_seconds for flight in before.intervals):
        return f"how long {format_count(waits[1].pairs, 'pairs')} wait is unknown on {after.throughput.chip}"
    least = "at least " if _exposed(after) is None else ""
    waiting, was = format_seconds(after.exposed_seconds), format_seconds(before.exposed_seconds)
    return f"{least}{waiting} a step are waited for, before {least}{was}"


def _stays(how: How, waits: _Waits, *, has_limit: bool) -> str:
    match how:
        case "memory":
            return "no other has a lower peak"
        case "latency" if not waits.pairs:
            return "nothing is asynchronous"
        case "latency":
            memory = "keeps to the limit" if has_limit else "takes no more memory"
            return f"no other that {memory} waits for less"
    return "nothing has to move"


def _compared(peaks: Peaks, waits: tuple[_Waits, _Waits]) -> tuple[Table, ...]:
    """Tables of peaks by memory space and of exposed pairs, before and after."""
    after = Column("after_bytes", "after", "bytes", like="before_bytes")
    both = (Column("before_bytes", "before", "bytes"), after)
    change = Column("change_bytes", "change", "bytes")
    rows = [(name, old, new, new - old) for name, old, new in peaks]
    tables = [Table("peaks", (Column("space", "space"), *both, change), tuple(rows), noun="spaces", main=False)]
    if waits[0].pairs:
        columns = (Column("order", "order"), Column("pairs", "pairs", "count"), Column("exposed", "exposed", "count"))
        timed = (Column("exposed_seconds", "waits", "seconds"), Column("step_seconds", "step", "seconds"))
        exposed: list[Row] = []
        for name, each in zip(("before", "after"), waits, strict=True):
            times = () if each.step is None else tuple(map(_or_unknown, (_exposed(each.step), each.step.least_seconds)))
            exposed.append((name, each.pairs, each.exposed, each.exposed_bytes, *times))
        columns = (*columns, Column("exposed_bytes", "exposed", "bytes"), *(timed if waits[0].step else ()))
        tables.append(Table("overlaps", columns, tuple(exposed), noun="orders", main=False))
    return tuple(tables)


def _or_unknown(seconds: float | None) -> Cell:
    return UNKNOWN if seconds is None else seconds


def _notes(overlap: OverlapAnalysis, new: Reordered, how: How, throughput: ChipSpec | None) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    size = sum(new.before.constants.values())
    if any(_looks_other(peaks.standing, peaks.whole) for peaks in (new.before, new.after)):
        words = f"constants, {format_bytes(size)}, count for the whole run, as compilers keep them"
        yield Diagnostic("note", f"{words}; hlo memspace counts each from where it stands")
    marked = sum(flight.is_sync is True for flight in overlap.intervals)
    if marked and how == "latency":
        waits, them = ("pair waits", "it") if marked == 1 else ("pairs wait", "them")
        yield Diagnostic("note", f"{marked:,} {waits} at once in any order: the compiler marks {them} is_sync")
    if throughput is not None:
        yield from time_notes(throughput, overlap.module)
    elif how == "latency":
        yield Diagnostic("note", BY_BYTES, hint="--chip NAME takes the times of a chip")


def _looks_other(ones: Mapping[int, int], others: Mapping[int, int]) -> bool:
    """Whether sizes differ in their formatted form."""
    return any(format_bytes(size) != format_bytes(others.get(space, 0)) for space, size in ones.items())
