"""What does each instruction cost? `--cost`, the sizes of matmuls by `--dots`, and sums with `--by`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from hlo_cli.analysis.cost.cost_analysis import KernelCost, computation_cost, cost_analysis
from hlo_cli.analysis.cost.counting import BYTES, EXACT, FLOPS, XLA, Cost, Number
from hlo_cli.analysis.cost.matmuls import Matmul, matmul_type, matmuls_of
from hlo_cli.analysis.dataflow.dependencies import depth_first
from hlo_cli.analysis.dataflow.executions import (
    CONTROL_FLOW,
    NO_EXECUTIONS,
    Executions,
    asynchronous_computations,
    executions_of,
    runs_per_call,
)
from hlo_cli.analysis.fusion.kernels import Kernel, execution_cost, fusions_of, kernels_of, launched_costs
from hlo_cli.analysis.origin.origins import By, Keys, Origins, origins_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.analysis.schedule.kernel_times import Prediction, Roofline
from hlo_cli.commands.fuse.kernel_kinds import (
    CUSTOM_CALLS,
    TIME_TITLES,
    TimingColumns,
    columns_for,
    model_of,
    notes_on_costs,
    other_totals,
    total_words,
)
from hlo_cli.commands.modules.by import (
    IN_BYTES,
    IN_SECONDS,
    Group,
    KeyCost,
    describe_costs,
    group_by,
    key_columns,
    keys_for,
    next_command,
)
from hlo_cli.commands.modules.instruction_tables import chosen as chosen_among
from hlo_cli.commands.modules.instruction_tables import instructions_where, rows_where, with_traffic
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, program_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_bytes, format_count, format_flops
from hlo_cli.report.report import Report
from hlo_cli.report.table import (
    UNKNOWN,
    Cell,
    Column,
    Table,
    columns_of_part,
    number_of,
    row_from,
    rows_from,
    with_cell,
)
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

# --- --cost: every instruction ---
# `hlo fuse DUMP --cost`: the cost of every instruction, as XLA's cost analysis counts.


_XLA_VALUES_NOTE = "exact XLA values: float32 sums in XLA's order, with -1 for each custom call"


@dataclass(frozen=True, slots=True)
class _Counted:
    """The computed costs of a computation, with the options they were computed under."""

    loaded: Loaded
    computation: Computation
    costs: Mapping[Instruction, Cost]
    as_xla: bool
    timing: TimingColumns | None

    def number(self, value: Number) -> Cell:
        """A number for display: rounded, unless XLA's own numbers are selected."""
        return float(value) if self.as_xla else round(value)

    def figure(self, value: Number, instruction: Instruction) -> Cell:
        """A number of an instruction; unknown for a call of unknown cost, unless XLA's own numbers are selected.

        Callers of such a call, and totals, have the known part, and the number of unknown calls.
        """
        # XLA's own number for a custom call is -1, which would read as a cost
        is_unknown = self.costs[instruction].unknown and instruction.opcode == opcodes.CUSTOM_CALL and not self.as_xla
        return UNKNOWN if is_unknown else self.number(value)


def report_of_costs(
    loaded: Loaded,
    *,
    as_xla: bool,
    within: Computation | None,
    where: str | None,
    timing: TimingColumns | None,
    argument: str,
    requested_columns: Collection[str] = (),
) -> Report:
    """One row for each instruction of the entry or of the selected computation, those with most bytes accessed first.

    An expression without a computation selects from all of them, without totals: a call has the cost of its callee.
    `requested_columns` are the columns that the user names; they may be those of collectives.
    """
    module, rules = loaded.module, XLA if as_xla else EXACT
    counted = _Counted(loaded, within or module.entry, cost_analysis(module, rules=rules), as_xla, timing)
    is_everywhere = within is None and where is not None
    candidates = tuple(module.instructions) if is_everywhere else counted.computation.instructions
    test = None if where is None else instructions_where(where, module)
    chosen, passed_over = chosen_among(test, candidates, "instructions")
    table = _cost_table(counted, chosen, requested_columns, is_summed=not is_everywhere)
    no_rows = Passage("nothing", (f"No matches among {format_count(len(candidates), 'instructions')}.",))
    total = computation_cost(counted.computation, rules=rules)
    # Of a whole module, one execution may take more or less than what XLA counts.
    run = execution_cost(module) if counted.computation.is_entry else None
    other = "" if run is None else other_totals(module)
    return Report(
        "fuse",
        _cost_answer(counted, total, run),
        numbers={
            "rules": "xla float32" if as_xla else "exact",
            "computation": counted.computation.name,
            "flops": counted.number(total.flops),
            "transcendentals": counted.number(total.transcendentals),
            "bytes": counted.number(total.bytes_accessed),
            "operations_of_unknown_cost": total.unknown,
            **({} if run is None else {"total_flops": run.flops, "total_bytes": run.bytes}),
            "properties": dict(total.properties),
            **model_of(timing),
        },
        parts=(table,) if table.rows else (no_rows, table),
        next=_next_of_cost(counted, chosen, argument),
        notes=(
            *passed_over,
            *program_notes(loaded),
            *([Diagnostic("note", other)] if other else []),
            *notes_on_costs(loaded, timing, counts_loops=not other),
        ),
        input=input_facts(loaded),
    )


def _cost_answer(counted: _Counted, total: Cost, run: KernelCost | None) -> str:
    name = counted.loaded.module.name if counted.computation.is_entry else counted.computation.name
    accessed = round(total.bytes_accessed)
    # negative with --as-xla where custom calls outweigh the rest, -1 each
    size = format_bytes(accessed) if accessed >= 0 else f"{accessed:,} B"
    bound = "at least " if total.unknown and not counted.as_xla else ""
    words = f"{name}: {bound}{round(total.flops):,} flops, {round(total.transcendentals):,} transcendentals,"
    words += f" {size} accessed"
    if run is not None and format_flops(run.flops) != format_flops(round(total.flops)):
        words += f" ({total_words(run.flops, run.bytes, is_bound=run.unknown > 0)} per execution)"
    elif run is not None and format_bytes(run.bytes) != size:
        words += f" ({format_bytes(run.bytes)} per execution)"
    return f"{words}; {format_count(total.unknown, 'operations')} of unknown cost" if total.unknown else words


_LINKS_NOTE = "Times of collectives are those on the links, also where kernels overlap them"


def _cost_table(
    counted: _Counted, chosen: Iterable[Instruction], requested_columns: Collection[str], *, is_summed: bool
) -> Table:
    origins = origins_of(counted.loaded.module)
    total: Literal["sum"] | None = "sum" if is_summed else None
    columns: tuple[Column[_CostRow], ...] = (
        Column("flops", "flops", "flops", total=total, of=lambda row: counted.figure(row.cost.flops, row.instruction)),
        Column("transcendentals", "transc.", "count", total=total,
               of=lambda row: counted.figure(row.cost.transcendentals, row.instruction)),
        Column("bytes", "accessed", "bytes", total=total,
               of=lambda row: counted.figure(row.cost.bytes_accessed, row.instruction)),
        Column("output_bytes", "output", "bytes", total=total,
               of=lambda row: counted.figure(row.cost.output_bytes, row.instruction)),
        Column("operand_bytes", "operand bytes", from_width=200, align="right", rank=6,
               of=lambda row: (
                   tuple(counted.figure(row.cost.operand_bytes(number), row.instruction) for number in row.operands)
                   or None)),
        Column("operand_utilization", "utilization", align="right", from_width=200, rank=3,
               of=lambda row: (
                   tuple(row.cost.operand_utilization(number) for number in row.operands) or None)),
        Column("intensity", "flops/B", "count", from_width=120, of=lambda row: row.cost.intensity),
        *_time_columns(counted, total),
        Column("unknown_costs", "unknown cost", "count", total=total,
               person=any(counted.costs[i].unknown for i in chosen),
               of=lambda row: row.cost.unknown),
        Column("instruction", "instruction", "name", role="name", of=lambda row: row.instruction.name),
        Column("opcode", "opcode", rank=7, of=lambda row: row.instruction.opcode),
        Column("shape", "shape", "shape", from_width=120, rank=5, of=lambda row: str(row.instruction.shape)),
        Column("computation", "computation", "name", person=not is_summed, rank=5,
               of=lambda row: row.instruction.computation.name),
        Column("source", "source", "source", rank=4, of=lambda row: row.origin.source or None),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2, of=lambda row: row.origin.op_name or None),
        Column("properties", "properties", person=False, of=lambda row: dict(row.cost.properties)),
    )  # fmt: skip
    ranked = sorted(chosen, key=lambda each: _cost_rank(counted.costs[each], each.name))
    rows = rows_from(columns, (_CostRow(each, counted.costs[each], origins.own(each)) for each in ranked))
    footnote = _XLA_VALUES_NOTE if counted.as_xla else ""
    if counted.timing is not None and any(each.opcode.removesuffix("-start") in COLLECTIVES for each in ranked):
        footnote = ". ".join(filter(None, (footnote, _LINKS_NOTE)))
    table = Table("costs", columns, rows, noun="instructions", footnote=footnote)
    return with_traffic(table, ranked, counted.loaded.module, requested_columns)


def _cost_rank(cost: Cost, name: str) -> tuple[Number, Number, Number, str]:
    # bytes first, as most kernels of a module are bound by memory
    return -cost.bytes_accessed, -cost.unknown, -cost.flops, name


@dataclass(frozen=True, slots=True)
class _CostRow:
    """An instruction with its cost and its origin."""

    instruction: Instruction
    cost: Cost
    origin: Origin

    @property
    def operands(self) -> range:
        """The numbers of its operands."""
        return range(len(self.instruction.operands))


def _time_columns(counted: _Counted, total: Literal["sum"] | None) -> Iterator[Column[_CostRow]]:
    """The columns that a chip adds: the times of kernels, and for loops and calls those of the kernels that they run.

    All else has none: a tuple or what is inside of a fusion is no kernel, and transfers run next to the program.
    """
    if counted.timing is not None:
        times = _KernelSums(counted.loaded.module, counted.timing)
        for column in columns_for(counted.timing):
            in_total = total if column.total else None
            yield replace(with_cell(column, partial(_time_cell, times, column)), total=in_total)


def _time_cell(times: _KernelSums, column: Column[Prediction | None], row: _CostRow) -> Cell:
    return times.cell(column, row.instruction)


class _KernelSums:
    """The times of kernels, and of what calls kernels, as often as it runs them in one execution of the caller."""

    def __init__(self, module: Module, timing: TimingColumns) -> None:
        costs, beside = launched_costs(module), asynchronous_computations(module)
        self._predictions = {
            kernel.instruction: timing.prediction(kernel.instruction, costs[kernel.instruction])
            for kernel in kernels_of(module)
            if not kernel.is_transfer and kernel.instruction.computation not in beside
        }
        self._predictions.update(_collective_predictions(module, timing, beside))
        self._sums: dict[tuple[str, Computation], Cell] = {}

    def cell(self, column: Column[Prediction | None], instruction: Instruction) -> Cell:
        """The cell of an instruction; None if it neither is a kernel nor calls one."""
        if instruction in self._predictions:
            return row_from((column,), self._predictions[instruction])[0]
        called = instruction.called_computations if instruction.opcode in CONTROL_FLOW else ()
        return _added(
            (self._of_computation(column, each), runs_per_call(instruction, each)) for each in called if column.total
        )

    def _of_computation(self, column: Column[Prediction | None], computation: Computation) -> Cell:
        key = (column.name, computation)
        if key not in self._sums:
            # Callees first, so that nesting, which may be deep, is no recursion.
            for each in depth_first((computation,), _called_by):
                if (column.name, each) not in self._sums:
                    self._sums[column.name, each] = _added((self.cell(column, i), 1) for i in each.instructions)
        return self._sums[key]


def _collective_predictions(
    module: Module, timing: TimingColumns, beside: Collection[Computation]
) -> Iterator[tuple[Instruction, Prediction]]:
    """The times of collectives on the links of the chip, as `hlo shard --comms` estimates them, where they are known.

    No roofline has them: what they move crosses links, not the memory alone. One in an async computation, which runs
    `beside` the program, counts where it starts.
    """
    from hlo_cli.analysis.sharding.collectives import collective_time, collectives_of  # only with a chip

    for each in collectives_of(module):
        time = None if each.caller.computation in beside else collective_time(each, timing.throughput)
        if time is not None:
            least = time.at_least_seconds
            yield each.caller, Prediction(Roofline("links", None, least, None, least), time.estimate)


def _called_by(computation: Computation) -> list[Computation]:
    callers = (each for each in computation.instructions if each.opcode in CONTROL_FLOW)
    return [called for caller in callers for called in caller.called_computations]


def _added(parts: Iterable[tuple[Cell, int | None]]) -> Cell:
    """The sum of cells, each several times: unknown if one is, or how often it counts; None without any."""
    found = [(cell, times) for cell, times in parts if cell is not None]
    if any(number_of(cell) is None or (times is None and cell) for cell, times in found):
        return UNKNOWN
    return sum((number_of(cell) or 0) * (times or 0) for cell, times in found) if found else None


def _next_of_cost(counted: _Counted, chosen: Iterable[Instruction], argument: str) -> tuple[str, ...]:
    """Commands to see inside the most expensive loop or call or, without one, the most expensive fusion."""
    callers = [each for each in chosen if each.called_computations and each.opcode in (*CONTROL_FLOW, opcodes.FUSION)]
    if not argument or argument == "-" or not callers:
        return ()
    first = max(callers, key=lambda each: (each.opcode != opcodes.FUSION, counted.costs[each].bytes_accessed))
    return (f"hlo fuse {argument} --cost --computation {first.called_computations[0].name}",)


# --- --dots: matmuls and convolutions ---
# `hlo fuse DUMP --dots`: the sizes of every matmul and every convolution.


def report_of_dots(
    loaded: Loaded, *, within: Computation | None, where: str | None, timing: TimingColumns | None
) -> Report:
    """One row for each matmul, those with most flops first; the answer is about the rows that `where` selects."""
    every = matmuls_of(loaded.module)
    # a fused matmul is found by the computation of its fusion as well as by the body
    matmuls = [each for each in every if within in (None, _place(each), each.instruction.computation)]
    everything = _dots_table(loaded, matmuls, executions_of(loaded.module), timing)
    table = everything if where is None else rows_where(where, everything)
    total = _total_of(table)
    checked = Passage("nothing", (f"Checked {format_count(loaded.module.instruction_count, 'instructions')}.",))
    no_matches = Passage("nothing", (f"No matches among {format_count(len(matmuls), 'matmuls')}.",))
    return Report(
        "fuse",
        _dots_answer(matmuls, table, total),
        numbers={
            "matmuls": len(table.rows),
            "flops": total.flops if total.is_exact else None,
            "known_flops": total.flops,
            **model_of(timing),
        },
        parts=(table,) if table.rows else (no_matches if matmuls else checked, table),
        notes=(*notes_of(loaded), *_dots_notes(loaded, matmuls, timing)),
        input=input_facts(loaded),
    )


def _place(matmul: Matmul) -> Computation:
    """The computation that runs a matmul; inside a fusion, that of the fusion."""
    return (matmul.fusion or matmul.instruction).computation


def _dots_notes(loaded: Loaded, matmuls: Sequence[Matmul], timing: TimingColumns | None) -> Iterator[Diagnostic]:
    """How costs are counted, and which matmuls may run more or less often than they count."""
    if not matmuls:
        return
    yield from notes_on_costs(loaded, timing)
    runs = [executions_of(loaded.module).get(_place(each), NO_EXECUTIONS) for each in matmuls]
    if unknown := sum(each.known is None for each in runs):
        loops = "is in a loop" if unknown == 1 else "are in loops"
        yield Diagnostic("note", f"{format_count(unknown, 'matmuls')} {loops} of unknown trip count, counted as 1")
    if branches := sum(each.in_branch for each in runs):
        verb = "is in a branch" if branches == 1 else "are in branches"
        yield Diagnostic(
            "note", f"{format_count(branches, 'matmuls')} {verb} of a conditional and may run less often than counted"
        )


@dataclass(frozen=True, slots=True)
class _Total:
    """Flops of all matmuls in one execution of the module; loops of unknown trip count run at least once."""

    flops: int
    is_exact: bool


def _total_of(table: Table) -> _Total:
    """The sum over the rows: the flops of each matmul, as often as it runs."""
    flops_column, count_column = table.column_index("flops"), table.column_index("execution_count")
    runs = [(number_of(row[flops_column]), number_of(row[count_column])) for row in table.rows]
    # a loop of unknown trip count is assumed to run once, which makes the sum a lower bound
    flops = sum(round(flops or 0) * (1 if number is None else round(number)) for flops, number in runs)
    return _Total(flops, all(number is not None for _, number in runs))


def _dots_answer(matmuls: Sequence[Matmul], table: Table, total: _Total) -> str:
    """The number of matmuls in the table, and their flops in one execution of the module."""
    if not table.rows:
        return "No matmuls"
    kind_column, fusion_column = table.column_index("kind"), table.column_index("fusion")
    # cuDNN stands for its convolutions; its attention has no sizes of one matmul
    convolutions = sum(row[kind_column] in ("convolution", "cuDNN") for row in table.rows)
    numbers = ((len(table.rows) - convolutions, "matmuls"), (convolutions, "convolutions"))
    words = " and ".join(format_count(number, noun) for number, noun in numbers if number)
    shown = f" of {len(matmuls):,}" if len(table.rows) < len(matmuls) else ""
    if fused := sum(row[fusion_column] is not None for row in table.rows):
        some = f"{fused:,} in fusions" if fused < len(table.rows) else "all in fusions" if fused > 1 else "in a fusion"
        words += f" ({some})"
    return f"{words}{shown}: {'' if total.is_exact else 'at least '}{format_flops(total.flops)}"


def _dots_table(
    loaded: Loaded,
    matmuls: Sequence[Matmul],
    executions: Mapping[Computation, Executions],
    timing: TimingColumns | None,
) -> Table:
    origins = origins_of(loaded.module)
    repeats = any(executions.get(_place(each), NO_EXECUTIONS).known != 1 for each in matmuls)
    columns: tuple[Column[_DotRow], ...] = (
        Column("total_flops", "total flops", "flops", total="sum", person=repeats,
               of=lambda row: UNKNOWN if row.times is None else row.matmul.flops * row.times),
        Column("flops", "flops", "flops", total=None if repeats else "sum", of=lambda row: row.matmul.flops),
        Column("execution_count", "executions", "count", person=repeats,
               of=lambda row: UNKNOWN if row.times is None else row.times),
        Column("batch", "batch", "count", person=any(each.batch != 1 for each in matmuls),
               of=lambda row: row.matmul.batch),
        Column("m", "m", "count", of=lambda row: row.matmul.m),
        Column("n", "n", "count", of=lambda row: row.matmul.n),
        Column("k", "k", "count", of=lambda row: row.matmul.k),
        Column("types", "types", of=lambda row: _types(row.matmul)),
        Column("intensity", "flops/B", "count", from_width=120, of=lambda row: row.cost.intensity),
        *columns_of_part(columns_for(timing), lambda row: row.prediction),
        Column("kind", "kind", rank=6, of=lambda row: row.matmul.kind),
        Column("instruction", "instruction", "name", role="name", of=lambda row: row.matmul.instruction.name),
        Column("fusion", "fusion", "name", from_width=120, rank=6,
               of=lambda row: row.matmul.fusion.name if row.matmul.fusion is not None else None),
        Column("lhs", "lhs", "shape", from_width=200, rank=3, of=lambda row: str(row.matmul.lhs)),
        Column("rhs", "rhs", "shape", from_width=200, rank=3, of=lambda row: str(row.matmul.rhs)),
        Column("result", "result", "shape", from_width=200, rank=3, of=lambda row: str(row.matmul.result)),
        Column("dimensions", "dimensions", from_width=200, rank=2, of=lambda row: str(row.matmul.numbers)),
        Column("bytes", "accessed", "bytes", person=False, of=lambda row: row.matmul.logical_bytes),
        Column("source", "source", "source", rank=4, of=lambda row: row.origin.source or None),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2, of=lambda row: row.origin.op_name or None),
        Column("computation", "computation", "name", person=False,
               of=lambda row: row.matmul.instruction.computation.name),
    )  # fmt: skip
    counted = {each: executions.get(_place(each), NO_EXECUTIONS) for each in matmuls}
    ranked = sorted(matmuls, key=lambda each: (-each.flops * counted[each].count, each.instruction.name))
    rows = rows_from(columns, (_dot_row(matmul, counted[matmul].known, origins, timing) for matmul in ranked))
    return Table("dots", columns, rows, noun="matmuls")


@dataclass(frozen=True, slots=True)
class _DotRow:
    """A matmul with its executions, None if unknown, its cost and predicted time, and its origin."""

    matmul: Matmul
    times: int | None
    cost: Cost
    prediction: Prediction | None
    origin: Origin


def _dot_row(matmul: Matmul, times: int | None, origins: Origins, timing: TimingColumns | None) -> _DotRow:
    # the matmul alone, also where a fusion around it reads and writes more
    cost = Cost({FLOPS: matmul.flops, BYTES: matmul.logical_bytes})
    prediction = None if timing is None else timing.prediction(matmul.instruction, cost, matmul_type(matmul))
    return _DotRow(matmul, times, cost, prediction, origins.own(matmul.instruction))


def _types(matmul: Matmul) -> str:
    """The element types, `bf16×s8→f32`, or the one that all share."""
    lhs, rhs, result = (_type_name(shape) for shape in (matmul.lhs, matmul.rhs, matmul.result))
    if lhs == rhs:
        return lhs if lhs == result else f"{lhs}→{result}"
    return f"{lhs}×{rhs}→{result}"


def _type_name(shape: ArrayShape) -> str:
    return shape.element_type.name


# --- --by: kernels by cause ---
# `hlo fuse DUMP --by source|scope|argument|pass`: the cost of kernels, summed up by what makes them.


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
    table = _causes_table(groups, keys, timing)
    nothing = (Passage("nothing", (f"No matches among {format_count(len(everything), 'kernels')}.",)),)
    return Report(
        "fuse",
        _causes_answer(table, by, timing) if chosen else "No kernels",
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
        next=_next_of_causes(argument, table, by),
        notes=(*skipped, *program_notes(loaded), *notes_on_costs(loaded, timing), *_causes_notes(chosen)),
        input=input_facts(loaded),
    )


def _works(loaded: Loaded, timing: TimingColumns | None, within: Computation | None) -> Iterator[_Work]:
    """The kernels and fusions of a module or of one computation, in the order of the text."""
    everything = cost_analysis(loaded.module)
    saved = {fusion.instruction: fusion.saved_bytes for fusion in fusions_of(loaded.module, costs=everything)}
    kernels = {kernel.instruction: kernel for kernel in kernels_of(loaded.module)}
    asynchronous = asynchronous_computations(loaded.module)
    costs = {**everything, **launched_costs(loaded.module)}
    for instruction in {**kernels, **saved}:
        # fusions that are not executed come along, with what they would save
        if within is None or instruction.computation is within:
            # runs next to the program, so that its time is no part of the sum
            timed = None if instruction.computation in asynchronous else timing
            yield _work(instruction, kernels.get(instruction), costs[instruction], saved.get(instruction, 0), timed)


def _work(
    instruction: Instruction, kernel: Kernel | None, cost: Cost, saved: int, timing: TimingColumns | None
) -> _Work:
    if kernel is None:
        return _Work(instruction, None, 0, 0, saved, None)
    # transfers run next to the program, and have no time of their own here
    seconds, is_known = None, True
    if timing is not None and not kernel.is_transfer:
        seconds, is_known = timing.seconds(instruction, cost)
    return _Work(instruction, kernel, round(cost.flops), round(cost.bytes_accessed), saved, seconds, not is_known)


def _causes_table(groups: Sequence[Group[_Work]], keys: Keys, timing: TimingColumns | None) -> Table:
    works = [work for group in groups for work in group.members]
    repeats = any(work.times > 1 for work in works)
    has_transfers = any(work.kernel is not None and work.kernel.is_transfer for work in works)
    unknown = timing is not None and any(map(_has_unknown_time, works))
    title = TIME_TITLES[timing is not None and timing.is_unfused]
    times: tuple[Column[_Cause], ...] = (
        replace(Column("total_seconds", "est.", "seconds", total="sum", of=lambda cause: cause.seconds), title=title),
        Column(
            "unknown_times",
            "unknown time",
            "count",
            total="sum",
            person=unknown,
            from_width=120,
            of=lambda cause: sum(map(_has_unknown_time, cause.works)),
        ),
    )
    columns: tuple[Column[_Cause], ...] = (
        *(times if timing is not None else ()),
        Column("total_bytes", "accessed", "bytes", total="sum", of=lambda cause: cause.accessed),
        Column("bytes", "accessed", "bytes", total="sum", person=False,
               of=lambda cause: sum(work.bytes for work in cause.works)),
        Column("total_flops", "flops", "flops", total="sum", from_width=0 if timing is None else 120,
               of=lambda cause: cause.flops),
        Column("flops", "flops", "flops", total="sum", person=False,
               of=lambda cause: sum(work.flops for work in cause.works)),
        Column("total_saved_bytes", "saved", "bytes", role="saving", total="sum",
               of=lambda cause: sum(work.saved_bytes * work.times for work in cause.works)),
        Column("saved_bytes", "saved", "bytes", role="saving", total="sum", person=False,
               of=lambda cause: sum(work.saved_bytes for work in cause.works)),
        Column("kernels", "kernels", "count", total="sum", of=lambda cause: cause.kernels),
        Column("transfers", "transfers", "count", total="sum", person=has_transfers, from_width=120,
               of=lambda cause: cause.transfers),
        Column("launches", "launches", "count", total="sum", person=repeats, from_width=120,
               of=lambda cause: sum(work.times for work in cause.works if _is_kernel(work))),
        *columns_of_part(
            key_columns(
                keys.by,
                "total_bytes",
                groups,
                has_inferred=any(group.inferred for group in groups),
                inferred_from_width=120,
            ),
            lambda cause: cause.key,
        ),
        Column("largest", "largest", "name", role="name", rank=7, of=lambda cause: cause.largest.instruction.name),
    )  # fmt: skip
    causes = sorted(map(_cause, groups), key=_cause_rank)
    calls = any(work.instruction.opcode == opcodes.CUSTOM_CALL for work in works)
    name = f"by_{keys.by}"
    return Table(name, columns, rows_from(columns, causes), noun="rows", footnote=CUSTOM_CALLS if calls else "")


@dataclass(frozen=True, slots=True)
class _Cause:
    """The kernels, transfers, and fusions with one key, and their bytes accessed in all executions."""

    group: Group[_Work]
    accessed: int

    @property
    def works(self) -> tuple[_Work, ...]:
        """All of them."""
        return self.group.members

    @property
    def key(self) -> KeyCost:
        """The key, and the bytes that are attributed to it by inference."""
        return KeyCost(self.group, self.accessed, sum(work.bytes * work.times for work in self.group.inferred))

    @property
    def seconds(self) -> float | None:
        """What is known of their time; None if nothing is."""
        known = [work.seconds * work.times for work in self.works if work.seconds is not None]
        return sum(known) if known else None

    @property
    def flops(self) -> int:
        """Those of all executions."""
        return sum(work.flops * work.times for work in self.works)

    @property
    def kernels(self) -> int:
        """The number of kernels that are no transfers."""
        return sum(map(_is_kernel, self.works))

    @property
    def transfers(self) -> int:
        """The number of transfers."""
        return sum(work.kernel is not None and work.kernel.is_transfer for work in self.works)

    @property
    def largest(self) -> _Work:
        """The kernel that accesses most bytes."""
        # a transfer is named only where nothing else is there: it is not the work of the line
        return max(self.works, key=lambda work: (_is_kernel(work), work.bytes * work.times, work.instruction.name))


def _cause(group: Group[_Work]) -> _Cause:
    return _Cause(group, sum(work.bytes * work.times for work in group.members))


def _has_unknown_time(work: _Work) -> bool:
    return work.has_unknown_time and _is_kernel(work)


def _is_kernel(work: _Work) -> bool:
    return work.kernel is not None and not work.kernel.is_transfer


def _cause_rank(cause: _Cause) -> tuple[float, int, int, str]:
    """Most time first, then most bytes and flops."""
    return -(cause.seconds or 0), -cause.accessed, -cause.flops, cause.group.key


def _causes_answer(table: Table, by: By, timing: TimingColumns | None) -> str:
    """Which key needs most time on the chip, or accesses most bytes."""
    keys, sizes = table.column_index(by), table.column_index("total_bytes")
    if timing is not None:
        seconds = table.column_index("total_seconds")
        times = [(str(row[keys]), number_of(row[seconds]) or 0) for row in table.rows]
        # without a single known time, the bytes still tell which key is the largest
        if any(time for _, time in times):
            place = f"on {timing.throughput.chip}"
            return describe_costs(times, by, noun="kernels", verb=("need", "needs"), amount=IN_SECONDS, place=place)
    costs = sorted(((str(row[keys]), number_of(row[sizes]) or 0) for row in table.rows), key=lambda each: -each[1])
    return describe_costs(costs, by, noun="kernels", verb=("access", "accesses"), amount=IN_BYTES)


def _causes_notes(chosen: Sequence[_Work]) -> Iterator[Diagnostic]:
    if any(work.times > 1 for work in chosen):
        yield Diagnostic("note", "costs are those of all iterations of loops")
    unknown = sum(work.kernel is not None and work.kernel.times is None for work in chosen)
    if unknown:
        loops = "in a loop with unknown trip count is" if unknown == 1 else "in loops with unknown trip count are"
        yield Diagnostic("note", f"{format_count(unknown, 'kernels')} {loops} counted once")


def _next_of_causes(argument: str, table: Table, by: By) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    keys = [str(row[table.column_index(by)]) for row in table.rows]
    return next_command(f"hlo fuse {argument} --cost", by, keys, condition="kernel")
