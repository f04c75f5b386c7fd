"""`hlo schedule DUMP`: every async operation, the compute that overlaps it, and its exposed bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.padding import generation_of
from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis
from hlo_cli.commands.modules.instruction_columns import loops_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes, text_order_note
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.commands.schedule.messages import describe_overlap, is_or_are
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Column, Row, Table, Unknown
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:  # times need a chip
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.commands.schedule.time import PairTimes

_USUAL_GPU = "h100"


@dataclass(frozen=True, slots=True)
class Transfers:
    """Async pairs, synchronous transfers with their bytes, and the times of both on a chip, if there is one."""

    intervals: tuple[AsyncInterval, ...]
    synchronous: Mapping[Instruction, int]
    times: PairTimes | None


def transfers_of(
    loaded: Loaded, overlap: OverlapAnalysis, within: Computation | None, throughput: ChipSpec | None
) -> Transfers:
    """The transfers of a module or of one computation."""
    intervals = tuple(each for each in overlap.intervals if within is None or each.pair.start.computation is within)
    synchronous = {i: size for i, size in overlap.synchronous.items() if within is None or i.computation is within}
    return Transfers(intervals, synchronous, _times_of(loaded, overlap, throughput, intervals, synchronous))


def report_of_pairs(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    *,
    within: Computation | None,
    where: str | None,
    argument: str,
    throughput: ChipSpec | None = None,
    selected: Transfers | None = None,
    columns: Collection[str] = (),
) -> Report:
    """A table of the pairs in the order of their starts, with totals by operation; `selected` are those in `within`.

    `columns` are those that the user names; they may be those of collectives, and origins.
    """
    selected = selected or transfers_of(loaded, overlap, within, throughput)
    intervals, synchronous, times = selected.intervals, selected.synchronous, selected.times
    starts = [each.pair.start for each in intervals]
    everything = pairs_table(overlap, intervals, times)
    if columns or where is not None:
        from hlo_cli.commands.modules.by import with_origins
        from hlo_cli.commands.modules.instruction_columns import with_traffic

        everything = with_traffic(everything, starts, loaded.module, columns, where)
        everything = with_origins(everything, [(start, ()) for start in starts], loaded.module, (*columns, where or ""))
    table = everything if where is None else rows_where(where, everything)
    kinds = _kinds_table(intervals, [(instruction.opcode, size) for instruction, size in synchronous.items()], times)
    exposed = [interval for interval in intervals if interval.is_exposed]
    return Report(
        "schedule",
        describe_overlap(overlap, intervals, synchronous) if times is None else times.answer(),
        numbers={
            "steps": len(overlap.sequence),
            "order": "schedule" if loaded.module.is_scheduled else "text",
            "pairs": len(intervals),
            "pairs_with_done": sum(interval.done_step is not None for interval in intervals),
            "exposed": len(exposed),
            "bytes": sum(interval.total_bytes for interval in intervals),
            "exposed_bytes": sum(interval.exposed_bytes for interval in intervals),
            "synchronous": len(synchronous),
            "synchronous_bytes": sum(synchronous.values()),
            "unexecuted_pairs": len(overlap.unexecuted),
            **({} if times is None else times.numbers()),
        },
        parts=_parts(table, everything, kinds, _why_nothing(loaded)),
        next=_next(exposed, argument, chip=_likely_chip(loaded.module) if times is None else None),
        notes=(*_notes(overlap, intervals), *(() if times is None else times.notes()), *program_notes(loaded)),
        input=input_facts(loaded),
    )


def order_notes(overlap: OverlapAnalysis) -> tuple[Diagnostic, ...]:
    """Notes on a module that has no schedule."""
    if overlap.module.is_scheduled:
        return ()
    return (text_order_note(),)


def _parts(table: Table, everything: Table, kinds: Table, why: str) -> tuple[Part, ...]:
    if not everything.rows:
        return Passage("nothing", (why,)), replace(kinds, person=bool(kinds.rows)), table
    if not table.rows:
        words = [f"No matches among {format_count(len(everything.rows), 'pairs')}."]
        if any(column.name == "exposed_seconds" for column in everything.columns):
            words.append("The field exposed selects pairs without any overlap; exposed_seconds > 0 selects by time.")
        return Passage("nothing", (" ".join(words),)), table
    return table, kinds


def _why_nothing(loaded: Loaded) -> str:
    """The likely reason why a module has no async operations."""
    if not loaded.module.is_scheduled:
        words = "Operations become asynchronous during scheduling, and this module is not scheduled."
        return f"{words} Use --reorder memory to create a schedule."
    return "The module has no async start/done pairs."


def _times_of(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    throughput: ChipSpec | None,
    intervals: Sequence[AsyncInterval],
    synchronous: Iterable[Instruction],
) -> PairTimes | None:
    if throughput is None:
        return None
    from hlo_cli.analysis.schedule.step_time import estimate_time
    from hlo_cli.commands.schedule.time import PairTimes, whole_time

    step = estimate_time(overlap, throughput)
    return PairTimes(overlap, step, intervals, synchronous, whole=whole_time(loaded, overlap, step))


def pairs_table(overlap: OverlapAnalysis, intervals: Sequence[AsyncInterval], times: PairTimes | None) -> Table:
    """One row for each async pair."""
    opcodes = {interval.pair.start.opcode for interval in intervals}
    several = len({interval.pair.operation for interval in intervals}) > 1
    repeated = any(interval.times != 1 for interval in intervals)
    columns = (
        Column("start", "start", "step"),
        Column(
            "bound_step",
            "bound",
            "step",
            person=any(interval.bound_step != interval.start_step for interval in intervals),
        ),
        Column("done", "done", "step"),
        Column("bytes", "", "bytes", total=None if repeated else "sum"),
        Column("execution_count", "executions", "count", person=repeated),
        Column("total_bytes", "total", "bytes", total="sum", person=repeated, from_width=120 if times else 0),
        *(() if times is None else times.columns(repeated=repeated)),
        Column("overlap", "overlap", align="right", machine=False, from_width=120 if times else 0),
        Column("kernels", "kernels", "count", person=False),
        Column("flops", "flops", "count", from_width=120, group="overlap"),
        Column("bytes_accessed", "accessed", "bytes", from_width=120, group="overlap"),
        Column("exposed", "exposed", "flag", person=False),
        Column("is_sync", "is_sync", "flag", person=False),
        Column("operation", "operation", "opcode", person=several, from_width=120 if times else 0),
        Column("instruction", opcodes.pop() if len(opcodes) == 1 else "instruction", "name", role="name"),
        times.span_column() if times else _span_column(overlap),
        Column("done_instruction", "done instruction", "name", from_width=200),
        Column("form", "form", person=False),
        Column("updates", "updates", "count", person=False),
        Column("thread", "thread", person=False),
        Column("computation", "computation", "name", person=False),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", from_width=120, rank=4),
    )
    return Table("pairs", columns, tuple(_pair_row(overlap, interval, times) for interval in intervals), noun="pairs")


def _span_column(overlap: OverlapAnalysis) -> Column:
    loops = tuple(loops_of(overlap.runs))
    return Column("span", "steps", "span", steps=len(overlap.sequence), loops=loops, machine=False)


def _pair_row(overlap: OverlapAnalysis, interval: AsyncInterval, times: PairTimes | None) -> Row:
    pair = interval.pair
    location = overlap.module.location(pair.start)
    done = overlap.sequence[interval.done_step].name if interval.done_step is not None else None
    return (
        interval.start_step,
        interval.bound_step,
        interval.done_step,
        interval.moved_bytes,
        UNKNOWN if interval.times is None else interval.times,
        interval.total_bytes,
        *(() if times is None else times.cells(interval)),
        _overlap_cell(interval),
        interval.between.kernels,
        UNKNOWN if interval.between.unknown else interval.between.flops,
        interval.between.bytes,
        interval.is_exposed,
        interval.is_sync,
        f"host {pair.operation}" if pair.is_host_transfer else pair.operation,
        pair.start.name,
        _span(interval) if times is None else times.span(interval),
        done,
        pair.form,
        len(pair.updates),
        pair.thread,
        pair.start.computation.name,
        pair.start.metadata.op_name or None,
        str(location) if location is not None else None,
    )


def _overlap_cell(interval: AsyncInterval) -> str | Unknown:
    if interval.done_step is None:
        return UNKNOWN
    return "exposed" if interval.is_exposed else f"{interval.between.kernels:,}"


def _span(interval: AsyncInterval) -> tuple[int, int, bool] | None:
    """The bar of a pair; None for the next iteration of a loop, where the done comes first."""
    if interval.done_step is None or interval.done_step < interval.start_step:
        return None
    return interval.start_step, interval.done_step, not interval.is_exposed


def _kinds_table(
    intervals: Sequence[AsyncInterval], synchronous: Sequence[tuple[str, int]], times: PairTimes | None
) -> Table:
    """One row for each operation, with the number and bytes of its synchronous instructions."""
    has_exposed = times is None and any(interval.is_exposed for interval in intervals)
    columns = (
        Column("operation", "operation", "opcode"),
        Column("pairs", "pairs", "count", total="sum", person=bool(intervals)),
        Column("bytes", "", "bytes", total="sum", person=bool(intervals)),
        Column("exposed", "exposed", "count", total="sum", person=has_exposed),
        Column("exposed_bytes", "exposed", "bytes", total="sum", role="waste", person=has_exposed),
        Column("synchronous", "sync", "count", total="sum", person=bool(synchronous)),
        Column("synchronous_bytes", "sync", "bytes", total="sum", role="waste", person=bool(synchronous)),
        *(() if times is None else times.kind_columns()),
    )
    names = dict.fromkeys([interval.pair.operation for interval in intervals] + [opcode for opcode, _ in synchronous])
    rows = [
        (
            *_kind_row(
                name,
                [interval for interval in intervals if interval.pair.operation == name],
                [size for opcode, size in synchronous if opcode == name],
            ),
            *(() if times is None else times.kind_cells(name)),
        )
        for name in names
    ]
    rows.sort(key=lambda row: (-sum(cell for cell in (row[4], row[6]) if isinstance(cell, int)), str(row[0])))
    return Table("operations", columns, tuple(rows), noun="operations", main=False, person=len(rows) > 1)


def _kind_row(name: str, intervals: Sequence[AsyncInterval], synchronous: Iterable[int]) -> Row:
    exposed = [interval for interval in intervals if interval.is_exposed]
    sizes = list(synchronous)
    total = sum(interval.total_bytes for interval in intervals)
    return name, len(intervals), total, len(exposed), sum(f.exposed_bytes for f in exposed), len(sizes), sum(sizes)


def _likely_chip(module: Module) -> str | None:
    """A chip that can run the module, for a command that can be run as it stands; None for a CPU."""
    match target_of(module):
        case "tpu":
            return generation_of(module)
        case "gpu":
            return _USUAL_GPU
        case _:
            return None


def _next(exposed: Sequence[AsyncInterval], argument: str, *, chip: str | None) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    largest = max(exposed, key=lambda interval: (interval.exposed_bytes, -interval.start_step), default=None)
    more = (f"hlo parse {argument} --explain {largest.pair.start.name}",) if largest is not None else ()
    time = (f"hlo schedule {argument} --chip {chip}",) if chip is not None else ()
    return (f"hlo schedule {argument} --sequence", *time, *more)


def _notes(overlap: OverlapAnalysis, intervals: Sequence[AsyncInterval]) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    unknown = sum(interval.times is None for interval in intervals)
    if unknown:
        loops = "in a loop with unknown trip count is" if unknown == 1 else "in loops with unknown trip count are"
        yield Diagnostic("note", f"{format_count(unknown, 'pairs')} {loops} counted once")
    if overlap.unexecuted:
        names = sorted({pair.start.computation.name for pair in overlap.unexecuted})
        number = format_count(len(overlap.unexecuted), "pairs")
        why = f"{', '.join(names)} {is_or_are(len(names))} never executed"
        yield Diagnostic("note", f"{number} {is_or_are(len(overlap.unexecuted))} not in the schedule because {why}")
