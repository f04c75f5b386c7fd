"""Which async operations overlap with compute, and which are exposed? Each, by cause, by module."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import generation_of
from hlo_cli.analysis.origin.origins import By, Keys
from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.async_verifier import verify_async
from hlo_cli.analysis.sharding.collectives import padding_bytes
from hlo_cli.commands.modules.by import (
    IN_BYTES,
    IN_SECONDS,
    Group,
    KeyCost,
    Verb,
    describe_costs,
    group_by,
    key_columns,
    keys_for,
    next_command,
    with_origins,
)
from hlo_cli.commands.modules.instruction_tables import loops_of, matching_rows, rows_where, source_of, with_traffic
from hlo_cli.commands.modules.loading import (
    Loaded,
    Many,
    check_running,
    devices_together,
    input_facts,
    program_notes,
    stage_of,
    text_order_note,
)
from hlo_cli.commands.modules.many import ERRORS, UPPER_BOUND, ModuleAnswer, Rows, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.schedule.messages import describe_overlap, is_or_are, overlap_or_overlaps
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, wrapped_opcode
from hlo_cli.report.numbers import format_bytes, format_count, format_part
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import (
    UNKNOWN,
    Cell,
    Column,
    Table,
    Unknown,
    columns_of_part,
    number_of,
    rows_from,
    unknown_if_none,
)
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.commands.schedule.time import PairTimes


# --- every async operation ---
# `hlo schedule DUMP`: every async operation, the compute that overlaps it, and with a chip its exposed time.


_EXAMPLE_GPU = "h100"  # the GPU with the most measured times (`time_model.py`); any other name can be typed


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
        # Origins and mesh axes take time, so they are computed only where a column or a filter names them.
        everything = with_traffic(everything, starts, loaded.module, columns, where)
        everything = with_origins(everything, [(start, ()) for start in starts], loaded.module, (*columns, where or ""))
    table = everything if where is None else rows_where(where, everything)
    kinds = _kinds_table(intervals, [(instruction.opcode, size) for instruction, size in synchronous.items()], times)
    unoverlapped = [interval for interval in intervals if interval.is_unoverlapped]
    return Report(
        "schedule",
        describe_overlap(overlap, intervals, synchronous) if times is None else times.answer(),
        numbers={
            "steps": len(overlap.sequence),
            "order": "schedule" if loaded.module.is_scheduled else "text",
            "pairs": len(intervals),
            "pairs_with_done": sum(interval.done_step is not None for interval in intervals),
            "bytes": sum(interval.total_bytes for interval in intervals),
            "synchronous": len(synchronous),
            "synchronous_bytes": sum(synchronous.values()),
            "unoverlapped": len(unoverlapped) + len(synchronous),
            "unoverlapped_bytes": sum(each.total_bytes for each in unoverlapped) + sum(synchronous.values()),
            "unexecuted_pairs": len(overlap.unexecuted),
            **({} if times is None else times.numbers()),
        },
        parts=_parts_of_pairs(table, everything, kinds, _why_nothing(loaded)),
        next=_next_of_table(overlap, selected, argument, chip=_likely_chip(loaded.module) if times is None else None),
        notes=(*_pairs_notes(overlap, intervals), *(() if times is None else times.notes()), *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _padding_of_collective(start: Instruction) -> int:
    """The padding in the result of a collective; 0 for other transfers."""
    operation = wrapped_opcode(start.opcode) or start.opcode.removesuffix("-start")
    if operation not in COLLECTIVES:
        return 0
    return padding_bytes(start)


def order_notes(overlap: OverlapAnalysis) -> tuple[Diagnostic, ...]:
    """Notes on a module that has no schedule."""
    if overlap.module.is_scheduled:
        return ()
    return (text_order_note(),)


def _parts_of_pairs(table: Table, everything: Table, kinds: Table, why: str) -> tuple[Part, ...]:
    if not everything.rows:
        return Passage("nothing", (why,)), replace(kinds, person=bool(kinds.rows)), table
    if not table.rows:
        words = (f"No matches among {format_count(len(everything.rows), 'pairs')}.",)
        return Passage("nothing", words), table
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
    # Where pairs run several times, the bytes of one run add up to nothing: the total has a column of its own.
    repeated = any(interval.times != 1 for interval in intervals)
    columns: tuple[Column[AsyncInterval], ...] = (
        Column("start", "start", "step", of=lambda interval: interval.start_step),
        Column("bound_step", "bound", "step",
               person=any(interval.bound_step != interval.start_step for interval in intervals),
               of=lambda interval: interval.bound_step),
        Column("done", "done", "step", of=lambda interval: interval.done_step),
        Column("bytes", "", "bytes", total=None if repeated else "sum", of=lambda interval: interval.moved_bytes),
        Column("execution_count", "executions", "count", person=repeated,
               of=lambda interval: unknown_if_none(interval.times)),
        Column("total_bytes", "total", "bytes", total="sum", person=repeated, from_width=120 if times else 0,
               of=lambda interval: interval.total_bytes),
        *(() if times is None else times.columns(repeated=repeated)),
        Column("overlap", "overlap", align="right", machine=False, from_width=120 if times else 0,
               of=lambda interval: _overlap_cell(interval)),
        Column("kernels", "kernels", "count", person=False, of=lambda interval: interval.between.kernels),
        Column("flops", "flops", "flops", from_width=120, group="overlap",
               of=lambda interval: UNKNOWN if interval.between.unknown else interval.between.flops),
        Column("bytes_accessed", "accessed", "bytes", from_width=120, group="overlap",
               of=lambda interval: interval.between.bytes),
        Column("unoverlapped", "no overlap", "flag", person=False, of=lambda interval: interval.is_unoverlapped),
        Column("is_sync", "is_sync", "flag", person=False, of=lambda interval: interval.is_sync),
        Column("operation", "operation", "opcode", person=several, from_width=120 if times else 0,
               of=lambda interval: (
                   f"host {interval.pair.operation}"
                   if interval.pair.is_host_transfer else interval.pair.operation)),
        Column("instruction", opcodes.pop() if len(opcodes) == 1 else "instruction", "name", role="name",
               of=lambda interval: interval.pair.start.name),
        times.span_column() if times else _span_column(overlap),
        Column("done_instruction", "done instruction", "name", from_width=200,
               of=lambda interval: _done_name(overlap, interval)),
        Column("form", "form", person=False, of=lambda interval: interval.pair.form),
        Column("updates", "updates", "count", person=False, of=lambda interval: len(interval.pair.updates)),
        Column("thread", "thread", person=False, of=lambda interval: interval.pair.thread),
        Column("computation", "computation", "name", person=False,
               of=lambda interval: interval.pair.start.computation.name),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda interval: interval.pair.start.metadata.op_name or None),
        Column("source", "source", "source", from_width=120, rank=4,
               of=lambda interval: source_of(overlap.module, interval.pair.start)),
    )  # fmt: skip
    return Table("pairs", columns, rows_from(columns, intervals), noun="pairs")


def _span_column(overlap: OverlapAnalysis) -> Column[AsyncInterval]:
    loops = tuple(loops_of(overlap.runs))
    return Column("span", "steps", "span", steps=len(overlap.sequence), loops=loops, machine=False, of=_span_of_steps)


def _done_name(overlap: OverlapAnalysis, interval: AsyncInterval) -> str | None:
    return None if interval.done_step is None else overlap.sequence[interval.done_step].name


def _overlap_cell(interval: AsyncInterval) -> str | Unknown:
    if interval.done_step is None:
        return UNKNOWN
    return "none" if interval.is_unoverlapped else f"{interval.between.kernels:,}"


def _span_of_steps(interval: AsyncInterval) -> tuple[int, int, bool] | None:
    """The bar of a pair; None for the next iteration of a loop, where the done comes first."""
    if interval.done_step is None or interval.done_step < interval.start_step:
        return None
    return interval.start_step, interval.done_step, not interval.is_unoverlapped


def _kinds_table(
    intervals: Sequence[AsyncInterval], synchronous: Sequence[tuple[str, int]], times: PairTimes | None
) -> Table:
    """One row for each operation, with the number and bytes of its synchronous instructions."""
    # With a chip the exposed time says more: a pair that overlaps some compute may still be waited for.
    has_unoverlapped = times is None and any(interval.is_unoverlapped for interval in intervals)
    columns: tuple[Column[_Kind], ...] = (
        Column("operation", "operation", "opcode", of=lambda kind: kind.name),
        Column("pairs", "pairs", "count", total="sum", person=bool(intervals), of=lambda kind: len(kind.intervals)),
        Column("bytes", "", "bytes", total="sum", person=bool(intervals),
               of=lambda kind: sum(interval.total_bytes for interval in kind.intervals)),
        Column("synchronous", "sync", "count", total="sum", person=bool(synchronous),
               of=lambda kind: len(kind.synchronous)),
        Column("synchronous_bytes", "sync", "bytes", total="sum", role="waste", person=bool(synchronous),
               of=lambda kind: sum(kind.synchronous)),
        Column("unoverlapped", "no overlap", "count", total="sum", person=has_unoverlapped,
               of=lambda kind: kind.unoverlapped),
        Column("unoverlapped_bytes", "no overlap", "bytes", total="sum", role="waste", person=has_unoverlapped,
               of=lambda kind: kind.unoverlapped_bytes),
        *columns_of_part(() if times is None else times.kind_columns(), lambda kind: kind.name),
    )  # fmt: skip
    names = dict.fromkeys([interval.pair.operation for interval in intervals] + [opcode for opcode, _ in synchronous])
    kinds = [
        _Kind(
            name,
            [interval for interval in intervals if interval.pair.operation == name],
            [size for opcode, size in synchronous if opcode == name],
        )
        for name in names
    ]
    # What blocks the device comes first: async pairs and synchronous transfers alike.
    kinds.sort(key=lambda kind: (-kind.unoverlapped_bytes, kind.name))
    rows = rows_from(columns, kinds)
    return Table("operations", columns, rows, noun="operations", main=False, person=len(rows) > 1)


@dataclass(frozen=True, slots=True)
class _Kind:
    """An operation with its async pairs, and the bytes of each of its synchronous instructions."""

    name: str
    intervals: Sequence[AsyncInterval]
    synchronous: Sequence[int]

    @property
    def unoverlapped(self) -> int:
        """The transfers that overlap no kernel."""
        return sum(interval.is_unoverlapped for interval in self.intervals) + len(self.synchronous)

    @property
    def unoverlapped_bytes(self) -> int:
        """The bytes of all executions of those."""
        return sum(interval.unoverlapped_bytes for interval in self.intervals) + sum(self.synchronous)


def _likely_chip(module: Module) -> str | None:
    """A chip that can run the module, for a command that can be run as it stands; None for a CPU."""
    match target_of(module):
        case "tpu":
            return generation_of(module)
        case "gpu":
            return _EXAMPLE_GPU
        case _:
            return None


def _next_of_table(
    overlap: OverlapAnalysis, selected: Transfers, argument: str, *, chip: str | None
) -> tuple[str, ...]:
    """The times if no chip is given yet, the transfer that costs most, async or not, and the schedule.

    A screen shows two: every step of the schedule says less that is new than those.
    """
    if not argument or argument == "-":
        return ()
    times = selected.times
    # Synchronous transfers are exposed as pairs are, though the table of pairs does not list them.
    costs: Mapping[Instruction, float | None] = overlap.unoverlapped if times is None else times.exposed
    shown = (*(interval.pair.start for interval in selected.intervals), *selected.synchronous)
    # The first of equals, as it is the first that a reader of the schedule meets.
    largest = max(
        (instruction for instruction in shown if costs.get(instruction)),
        key=lambda instruction: (costs[instruction] or 0, -overlap.positions[instruction]),
        default=None,
    )
    more = (f"hlo parse {argument} --explain {largest.name}",) if largest is not None else ()
    time = (f"hlo schedule {argument} --chip {chip}",) if chip is not None else ()
    return (*time, *more, f"hlo schedule {argument} --sequence")


def _pairs_notes(overlap: OverlapAnalysis, intervals: Sequence[AsyncInterval]) -> Iterable[Diagnostic]:
    yield from order_notes(overlap)
    starts = (*overlap.synchronous, *(interval.pair.start for interval in intervals))
    if padded := sum(_padding_of_collective(start) for start in starts):
        words = f"bytes of collectives are padded by {format_bytes(padded)}; `hlo shard DUMP --comms` counts their data"
        yield Diagnostic("note", words)
    unknown = sum(interval.times is None for interval in intervals)
    if unknown:
        loops = "in a loop with unknown trip count is" if unknown == 1 else "in loops with unknown trip count are"
        yield Diagnostic("note", f"{format_count(unknown, 'pairs')} {loops} counted once")
    if overlap.unexecuted:
        names = sorted({pair.start.computation.name for pair in overlap.unexecuted})
        number = format_count(len(overlap.unexecuted), "pairs")
        why = f"{', '.join(names)} {is_or_are(len(names))} never executed"
        yield Diagnostic("note", f"{number} {is_or_are(len(overlap.unexecuted))} not in the schedule because {why}")


# --- --by: transfers by cause ---
# `hlo schedule DUMP --by source|scope|argument|pass`: transfers, summed up by what makes them.


@dataclass(frozen=True, slots=True)
class _Transfer:
    """An async pair, or a synchronous transfer, with the bytes and the estimated times of all its executions.

    `unoverlapped_bytes` are all of its bytes or none. Times are None if unknown.
    """

    instruction: Instruction
    is_synchronous: bool
    bytes: int
    unoverlapped_bytes: int
    is_unoverlapped: bool
    seconds: float | None = None
    exposed_seconds: float | None = None


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
    pairs_report = report_of_pairs(loaded, overlap, within=within, where=None, argument=argument, selected=selected)
    skipped: tuple[Diagnostic, ...] = ()
    if where is not None:
        table = pairs_table(overlap, selected.intervals, selected.times)
        starts = [(each.pair.start, ()) for each in selected.intervals]
        matching, skipped = matching_rows(where, with_origins(table, starts, loaded.module, where))
        # A filter is on the fields of pairs, which synchronous transfers do not have.
        selected = replace(selected, intervals=tuple(selected.intervals[row] for row in matching), synchronous={})
    transfers, keys = tuple(_transfers(selected)), keys_for(loaded, by)
    if not transfers:
        words = "No matches among async operations." if where is not None else "The module has no transfers."
        return replace(
            pairs_report, parts=(Passage("nothing", (words,)), _causes_table((), keys_for(loaded, by), selected))
        )
    keys = keys_for(loaded, by)
    table = _causes_table(group_by(transfers, lambda each: keys.of(each.instruction)), keys, selected)
    return replace(
        pairs_report,
        answer=_causes_answer(table, by, selected),
        parts=(table,),
        next=_next_of_causes(argument, table, by),
        notes=(*skipped, *pairs_report.notes),
    )


def transfers_by_cause(loaded: Loaded, selected: Transfers, by: By) -> Table:
    """The table of that report on all of some transfers; without rows if there are none."""
    keys = keys_for(loaded, by)
    return _causes_table(group_by(tuple(_transfers(selected)), lambda each: keys.of(each.instruction)), keys, selected)


def _transfers(selected: Transfers) -> Iterator[_Transfer]:
    times = selected.times
    for interval in selected.intervals:
        time = times.times[interval.pair.start] if times is not None else None
        yield _Transfer(
            interval.pair.start,
            False,
            interval.total_bytes,
            interval.unoverlapped_bytes,
            interval.is_unoverlapped,
            None if time is None else time.total_seconds,
            None if time is None else time.exposed_seconds,
        )
    for instruction, size in selected.synchronous.items():
        seconds = times.synchronous[instruction] if times is not None else None
        yield _Transfer(instruction, True, size, size, True, seconds, seconds)


def _causes_table(groups: Sequence[Group[_Transfer]], keys: Keys, selected: Transfers) -> Table:
    has_times, has_synchronous = selected.times is not None, bool(selected.synchronous)
    times: tuple[Column[_Cause], ...] = (
        Column(
            "exposed_seconds",
            "exposed",
            "seconds",
            total="sum",
            role="waste",
            of=lambda cause: _sum_known(transfer.exposed_seconds for transfer in cause.group.members),
        ),
        Column(
            "total_seconds",
            "duration",
            "seconds",
            total="sum",
            of=lambda cause: _sum_known(transfer.seconds for transfer in cause.group.members),
        ),
    )
    columns: tuple[Column[_Cause], ...] = (
        *(times if has_times else ()),
        Column("unoverlapped_bytes", "no overlap", "bytes", total="sum", role="waste",
               from_width=120 if has_times else 0, of=lambda cause: cause.unoverlapped_bytes),
        Column("synchronous_bytes", "sync", "bytes", total="sum", role="waste", person=has_synchronous,
               from_width=120 if has_times else 0,
               of=lambda cause: cause.synchronous_bytes),
        Column("bytes", "bytes", "bytes", total="sum", of=lambda cause: cause.bytes),
        Column("pairs", "async", "count", total="sum", person=bool(selected.intervals),
               of=lambda cause: len(cause.pairs)),
        Column("unoverlapped", "no overlap", "count", total="sum", from_width=120,
               of=lambda cause: sum(transfer.is_unoverlapped for transfer in cause.group.members)),
        Column("synchronous", "sync", "count", total="sum", person=has_synchronous,
               of=lambda cause: len(cause.synchronous)),
        *columns_of_part(
            key_columns(
                keys.by, "bytes", groups, has_inferred=any(group.inferred for group in groups), inferred_from_width=120
            ),
            lambda cause: cause.key,
        ),
        Column("largest", "largest", "name", role="name", rank=7, of=lambda cause: cause.largest.instruction.name),
    )  # fmt: skip
    causes = sorted(map(_Cause, groups), key=lambda cause: _rank_of_cause(cause, has_times=has_times))
    return Table(f"by_{keys.by}", columns, rows_from(columns, causes), noun="rows")


@dataclass(frozen=True, slots=True)
class _Cause:
    """The transfers with one key."""

    group: Group[_Transfer]

    @property
    def pairs(self) -> list[_Transfer]:
        """Those that are async."""
        return [transfer for transfer in self.group.members if not transfer.is_synchronous]

    @property
    def synchronous(self) -> list[_Transfer]:
        """The others."""
        return [transfer for transfer in self.group.members if transfer.is_synchronous]

    @property
    def bytes(self) -> int:
        """Those of all."""
        return sum(transfer.bytes for transfer in self.group.members)

    @property
    def unoverlapped_bytes(self) -> int:
        """Those of transfers that overlap no kernel."""
        return sum(transfer.unoverlapped_bytes for transfer in self.group.members)

    @property
    def synchronous_bytes(self) -> int:
        """Those of synchronous transfers."""
        return sum(transfer.bytes for transfer in self.synchronous)

    @property
    def key(self) -> KeyCost:
        """The key, and the bytes that are attributed to it by inference."""
        return KeyCost(self.group, self.bytes, sum(transfer.bytes for transfer in self.group.inferred))

    @property
    def largest(self) -> _Transfer:
        """The one with most bytes that overlap no kernel."""
        return max(
            self.group.members,
            key=lambda transfer: (transfer.unoverlapped_bytes, transfer.bytes, transfer.instruction.name),
        )


def _sum_known(times: Iterable[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return sum(known) if known else None


def _rank_of_cause(cause: _Cause, *, has_times: bool) -> tuple[float, float, float, str]:
    """Most exposed time first, then most bytes that overlap no kernel, then most bytes."""
    seconds = _sum_known(transfer.exposed_seconds for transfer in cause.group.members) or 0 if has_times else 0
    return -seconds, -cause.unoverlapped_bytes, -cause.bytes, cause.group.key


def _causes_answer(table: Table, by: By, selected: Transfers) -> str:
    """Which key has most of the exposed time, or of the bytes that overlap no kernel, else of all bytes."""
    verb: Verb = ("have", "has")

    def costs(name: str) -> list[tuple[str, float]]:
        place = table.column_index(name)
        costs_by_key = [(str(row[table.column_index(by)]), number_of(row[place]) or 0) for row in table.rows]
        return sorted(costs_by_key, key=lambda each: -each[1])

    if selected.times is not None and _is_any(exposed := costs("exposed_seconds")):
        place = f"of exposed transfers on {selected.times.step.throughput.chip}"
        return describe_costs(exposed, by, noun="transfers", verb=verb, amount=IN_SECONDS, place=place)
    if _is_any(unoverlapped := costs("unoverlapped_bytes")):
        place = "of transfers that overlap no kernel"
        return describe_costs(unoverlapped, by, noun="transfers", verb=verb, amount=IN_BYTES, place=place)
    return describe_costs(costs("bytes"), by, noun="transfers", verb=verb, amount=IN_BYTES, place="of transfers")


def _is_any(costs: Sequence[tuple[str, float]]) -> bool:
    return any(cost for _, cost in costs)


def _next_of_causes(argument: str, table: Table, by: By) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    keys, pairs = table.column_index(by), table.column_index("pairs")
    return next_command(f"hlo schedule {argument}", by, [str(row[keys]) for row in table.rows if row[pairs]])


# --- many dumps ---
# `hlo schedule` of many dumps: transfers without overlap of each module, and violations of rules for async operations.


_COLUMNS: Final[tuple[Column[ModuleAnswer], ...]] = (
    Column("is_scheduled", "scheduled", "flag", from_width=120, of=lambda answer: _number(answer, "is_scheduled")),
    Column("steps", "steps", "count", from_width=120, total="sum", of=lambda answer: _number(answer, "steps")),
    # Async or not: the columns without overlap count both.
    Column("transfers", "transfers", "count", total="sum", of=lambda answer: _sum(answer, "pairs", "synchronous")),
    Column("transfer_bytes", "", "bytes", total="sum",
           of=lambda answer: _sum(answer, "bytes", "synchronous_bytes")),
    Column("pairs", "async", "count", total="sum", from_width=120, of=lambda answer: _number(answer, "pairs")),
    Column("bytes", "async", "bytes", total="sum", from_width=120, of=lambda answer: _number(answer, "bytes")),
    Column("synchronous", "sync", "count", total="sum", from_width=120,
           of=lambda answer: _number(answer, "synchronous")),
    Column("synchronous_bytes", "sync", "bytes", total="sum", from_width=120,
           of=lambda answer: _number(answer, "synchronous_bytes")),
    Column("unoverlapped", "no overlap", "count", total="sum", of=lambda answer: _number(answer, "unoverlapped")),
    Column("unoverlapped_bytes", "no overlap", "bytes", total="sum", role="waste",
           of=lambda answer: _number(answer, "unoverlapped_bytes")),
)  # fmt: skip
_TIMES: Final[tuple[Column[ModuleAnswer], ...]] = (
    Column("execution_seconds", "est. time", "seconds", of=lambda answer: _number(answer, "execution_seconds")),
    Column("execution_low_seconds", "low time", "seconds", person=False,
           of=lambda answer: _number(answer, "execution_low_seconds")),
    Column("execution_high_seconds", "high time", "seconds", person=False,
           of=lambda answer: _number(answer, "execution_high_seconds")),
    Column("exposed_seconds", "exposed time", "seconds", total="sum", role="waste",
           of=lambda answer: _number(answer, "exposed_seconds")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _OverlapOfModule:
    """Computes the numbers of the report on one module; called for every module."""

    throughput: ChipSpec | None

    def __call__(self, module: Module, given: Input) -> ModuleAnswer:
        check_running(module)
        loaded = Loaded(module, given)
        overlap = analyze_overlap(module)
        report = report_of_pairs(loaded, overlap, within=None, where=None, argument="", throughput=self.throughput)
        numbers = {**report.numbers, "is_scheduled": module.is_scheduled}
        broken = tuple(each.excerpt() for each in verify_async(module, overlap.pairs))
        devices = devices_together(loaded)
        is_timed_as_program = stage_of(loaded) == "optimized" or bool(report.numbers.get("is_fused_by_rule"))
        return ModuleAnswer(is_timed_as_program and devices == 1, numbers, broken, devices)


def schedule_each(
    many: Many, reading: InputOptions, jobs: int | None, throughput: ChipSpec | None, output: OutputOptions
) -> int:
    """Writes the table and returns the exit code."""
    results = list(map_inputs(many, reading, jobs, _OverlapOfModule(throughput)))
    answers = [each.answer for each in results if each.answer is not None]
    unfinished = sum(not each.is_program for each in answers)
    times = (*_TIMES, replace(UPPER_BOUND, person=unfinished > 0)) if throughput is not None else ()
    columns = (*_COLUMNS, *times, ERRORS)
    return finish_each(
        "schedule",
        many,
        reading,
        results,
        Rows(
            columns,
            findings=lambda answer: answer.broken,
            fails=lambda answer: answer.errors > 0,
            devices=lambda answer: answer.devices,
        ),
        answer=_modules_answer(answers),
        numbers={"errors": sum(each.errors for each in answers)},
        unfinished=None if throughput is None else unfinished,
        output=output,
    )


def _number(answer: ModuleAnswer, name: str) -> Cell:
    return unknown_if_none(answer.numbers[name])  # an unknown time is not 0


def _sum(answer: ModuleAnswer, *names: str) -> Cell:
    return sum(number_of(answer.numbers[name]) or 0 for name in names)


def _modules_answer(answers: Sequence[ModuleAnswer]) -> str:
    def total(*names: str) -> int:
        return round(sum(number_of(each.numbers[name]) or 0 for each in answers for name in names))

    words = f"{format_count(len(answers), 'modules')}: "
    if transfers := total("pairs", "synchronous"):
        alone, part = (
            total("unoverlapped"),
            format_part(total("unoverlapped_bytes"), total("bytes", "synchronous_bytes")),
        )
        number = f"{alone:,} of {format_count(transfers, 'transfers')}"
        words += f"{number} {overlap_or_overlaps(alone)} no kernel ({part})"
    else:
        words += "no transfers"
    if failing := sum(each.errors > 0 for each in answers):
        words += f"; {failing:,} {'violates' if failing == 1 else 'violate'} XLA's rules for async operations"
    return words
