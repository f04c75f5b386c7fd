"""`hlo fuse DUMP --by source|scope|argument|pass`: the cost of kernels, summed up by what makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_cli.analysis.cost.cost_analysis import cost_analysis, costs_among
from hlo_cli.analysis.cost.counting import RUN, Cost
from hlo_cli.analysis.dataflow.executions import asynchronous_computations
from hlo_cli.analysis.fusion.kernels import Kernel, fusions_of, kernels_of
from hlo_cli.analysis.origin.origins import By, Keys
from hlo_cli.commands.fuse.kernel_kinds import CUSTOM_CALLS
from hlo_cli.commands.fuse.roofline_columns import TIME_TITLES, TimingColumns, model_of, notes_on_costs
from hlo_cli.commands.modules.by import (
    IN_BYTES,
    IN_SECONDS,
    Group,
    describe_costs,
    group_by,
    key_cells,
    key_columns,
    keys_for,
    next_command,
)
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.filters import chosen as chosen_among
from hlo_cli.commands.options.filters import instructions_where
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table, number_of
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic


@dataclass(frozen=True, slots=True)
class _Work:
    """A kernel, transfer, or fusion with the cost of one execution.

    `seconds` is what is known of its time, None without a chip, and of what runs beside the program: transfers, and
    kernels of async computations.
    """

    instruction: Instruction
    kernel: Kernel | None
    flops: int
    bytes: int
    saved_bytes: int
    seconds: float | None
    has_unknown_time: bool = False

    @property
    def times(self) -> int:
        """The number of executions, 0 of a fusion that is not executed; a loop of unknown trip count counts as one
        iteration.
        """
        return 0 if self.kernel is None else self.kernel.executions.count


def report_of_causes(
    loaded: Loaded,
    by: By,
    *,
    within: Computation | None,
    where: str | None,
    timing: TimingColumns | None,
    argument: str,
) -> Report:
    """One row for each key: the kernels and fusions with that key, and their cost in one execution of the module."""
    module = loaded.module
    everything = tuple(_works(loaded, timing, within))
    test = None if where is None else instructions_where(where, module)
    chosen, skipped = chosen_among(None if test is None else lambda work: test(work.instruction), everything, "kernels")
    keys = keys_for(loaded, by)
    groups = group_by(chosen, lambda work: keys.of(work.instruction))
    table = _table(groups, keys, timing)
    nothing = (Passage("nothing", (f"No matches among {format_count(len(everything), 'kernels')}.",)),)
    return Report(
        "fuse",
        _answer(table, by, timing) if chosen else "No kernels",
        numbers={
            "kernels": sum(map(_is_kernel, chosen)),
            "flops": sum(work.flops for work in chosen),
            "bytes": sum(work.bytes for work in chosen),
            "saved_bytes": sum(work.saved_bytes for work in chosen),
            "total_flops": sum(work.flops * work.times for work in chosen),
            "total_bytes": sum(work.bytes * work.times for work in chosen),
            **model_of(timing),
        },
        parts=(table,) if chosen else (*nothing, table),
        next=_next(argument, table, by),
        notes=(*skipped, *program_notes(loaded), *notes_on_costs(loaded, timing), *_notes(chosen)),
        input=input_facts(loaded),
    )


def _works(loaded: Loaded, timing: TimingColumns | None, within: Computation | None) -> Iterator[_Work]:
    """The kernels and fusions of a module or of one computation, in the order of the text."""
    costs = cost_analysis(loaded.module)
    saved = {fusion.instruction: fusion.saved_bytes for fusion in fusions_of(loaded.module, costs=costs)}
    kernels = {kernel.instruction: kernel for kernel in kernels_of(loaded.module)}
    beside = asynchronous_computations(loaded.module)
    calls = (instruction for instruction in kernels if instruction.opcode == opcodes.CUSTOM_CALL)
    costs_of_calls = costs_among(calls, rules=RUN)
    for instruction in {**kernels, **saved}:
        if within is None or instruction.computation is within:
            cost = costs_of_calls.get(instruction) or costs[instruction]
            timed = None if instruction.computation in beside else timing
            yield _work(instruction, kernels.get(instruction), cost, saved.get(instruction, 0), timed)


def _work(
    instruction: Instruction, kernel: Kernel | None, cost: Cost, saved: int, timing: TimingColumns | None
) -> _Work:
    if kernel is None:
        return _Work(instruction, None, 0, 0, saved, None)
    seconds, is_known = None, True
    if timing is not None and not kernel.is_transfer:
        seconds, is_known = timing.seconds(instruction, cost)
    return _Work(instruction, kernel, round(cost.flops), round(cost.bytes_accessed), saved, seconds, not is_known)


def _table(groups: Sequence[Group[_Work]], keys: Keys, timing: TimingColumns | None) -> Table:
    works = [work for group in groups for work in group.members]
    repeats = any(work.times > 1 for work in works)
    has_transfers = any(work.kernel is not None and work.kernel.is_transfer for work in works)
    unknown = timing is not None and any(map(_has_unknown_time, works))
    title = TIME_TITLES[timing is not None and timing.is_unfused]
    times = (
        replace(Column("total_seconds", "est.", "seconds", total="sum"), title=title),
        Column("unknown_times", "unknown time", "count", total="sum", person=unknown, from_width=120),
    )
    columns = (
        *(times if timing is not None else ()),
        Column("total_bytes", "accessed", "bytes", total="sum"),
        Column("bytes", "accessed", "bytes", total="sum", person=False),
        Column("total_flops", "flops", "count", total="sum", from_width=0 if timing is None else 120),
        Column("flops", "flops", "count", total="sum", person=False),
        Column("total_saved_bytes", "saved", "bytes", role="saving", total="sum"),
        Column("saved_bytes", "saved", "bytes", role="saving", total="sum", person=False),
        Column("kernels", "kernels", "count", total="sum"),
        Column("transfers", "transfers", "count", total="sum", person=has_transfers, from_width=120),
        Column("launches", "launches", "count", total="sum", person=repeats, from_width=120),
        *key_columns(
            keys.by,
            "total_bytes",
            groups,
            has_inferred=any(group.inferred for group in groups),
            inferred_from_width=120,
        ),
        Column("largest", "largest", "name", role="name", rank=7),
    )
    rows = sorted((_row(group, timing) for group in groups), key=lambda row: _rank(row, timing))
    calls = any(work.instruction.opcode == opcodes.CUSTOM_CALL for work in works)
    name = f"by_{keys.by}"
    return Table(name, columns, tuple(rows), noun="rows", footnote=CUSTOM_CALLS if calls else "")


def _row(group: Group[_Work], timing: TimingColumns | None) -> Row:
    works = group.members
    seconds = [work.seconds * work.times for work in works if work.seconds is not None]
    accessed = sum(work.bytes * work.times for work in works)
    kernels = [work.kernel for work in works if work.kernel is not None]
    launched = [kernel for kernel in kernels if not kernel.is_transfer]
    largest = max(works, key=lambda work: (_is_kernel(work), work.bytes * work.times, work.instruction.name))
    times = (sum(seconds) if seconds else None, sum(map(_has_unknown_time, works)))
    return (
        *(times if timing is not None else ()),
        accessed,
        sum(work.bytes for work in works),
        sum(work.flops * work.times for work in works),
        sum(work.flops for work in works),
        sum(work.saved_bytes * work.times for work in works),
        sum(work.saved_bytes for work in works),
        len(launched),
        len(kernels) - len(launched),
        sum(work.times for work in works if _is_kernel(work)),
        *key_cells(group, accessed, sum(work.bytes * work.times for work in group.inferred)),
        largest.instruction.name,
    )


def _has_unknown_time(work: _Work) -> bool:
    return work.has_unknown_time and _is_kernel(work)


def _is_kernel(work: _Work) -> bool:
    return work.kernel is not None and not work.kernel.is_transfer


def _rank(row: Row, timing: TimingColumns | None) -> tuple[float, float, float, str]:
    """Most time first, then most bytes and flops."""
    seconds = number_of(row[0]) or 0 if timing is not None else 0
    accessed, _, flops, *_ = (number_of(cell) or 0 for cell in row[2 * (timing is not None) :])
    return -seconds, -accessed, -flops, str(row[-2])


def _answer(table: Table, by: By, timing: TimingColumns | None) -> str:
    """Which key needs most time on the chip, or accesses most bytes."""
    keys, sizes = table.column_index(by), table.column_index("total_bytes")
    if timing is not None:
        seconds = table.column_index("total_seconds")
        times = [(str(row[keys]), number_of(row[seconds]) or 0) for row in table.rows]
        if any(time for _, time in times):
            place = f"on {timing.throughput.chip}"
            return describe_costs(times, by, noun="kernels", verb=("need", "needs"), amount=IN_SECONDS, place=place)
    costs = sorted(((str(row[keys]), number_of(row[sizes]) or 0) for row in table.rows), key=lambda each: -each[1])
    return describe_costs(costs, by, noun="kernels", verb=("access", "accesses"), amount=IN_BYTES)


def _notes(chosen: Sequence[_Work]) -> Iterator[Diagnostic]:
    if any(work.times > 1 for work in chosen):
        yield Diagnostic("note", "costs are those of all iterations of loops")
    unknown = sum(work.kernel is not None and work.kernel.times is None for work in chosen)
    if unknown:
        loops = "in a loop with unknown trip count is" if unknown == 1 else "in loops with unknown trip count are"
        yield Diagnostic("note", f"{format_count(unknown, 'kernels')} {loops} counted once")


def _next(argument: str, table: Table, by: By) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    keys = [str(row[table.column_index(by)]) for row in table.rows]
    return next_command(f"hlo fuse {argument} --cost", by, keys, condition="kernel")
