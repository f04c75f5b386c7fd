"""`hlo fuse DUMP --dots`: the sizes of every matmul and every convolution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hlo_cli.analysis.cost.counting import BYTES, FLOPS, Cost
from hlo_cli.analysis.cost.matmuls import Matmul, matmul_type, matmuls_of
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, Executions, executions_of
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, columns_for, model_of, notes_on_costs
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count, format_flops
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Column, Row, Table, number_of
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic


def report_of_dots(
    loaded: Loaded, *, within: Computation | None, where: str | None, timing: TimingColumns | None
) -> Report:
    """One row for each matmul, those with most flops first; the answer is about the rows that `where` selects."""
    every = matmuls_of(loaded.module)
    found = [each for each in every if within in (None, _place(each), each.instruction.computation)]
    everything = _table(loaded, found, executions_of(loaded.module), timing)
    table = everything if where is None else rows_where(where, everything)
    total = _total_of(table)
    checked = Passage("nothing", (f"Checked {format_count(loaded.module.instruction_count, 'instructions')}.",))
    no_matches = Passage("nothing", (f"No matches among {format_count(len(found), 'matmuls')}.",))
    return Report(
        "fuse",
        _answer(found, table, total),
        numbers={
            "matmuls": len(table.rows),
            "flops": total.flops if total.is_exact else None,
            "known_flops": total.flops,
            **model_of(timing),
        },
        parts=(table,) if table.rows else (no_matches if found else checked, table),
        notes=(*notes_of(loaded), *_notes(loaded, found, timing)),
        input=input_facts(loaded),
    )


def _place(matmul: Matmul) -> Computation:
    """The computation that runs a matmul; inside a fusion, that of the fusion."""
    return (matmul.fusion or matmul.instruction).computation


def _notes(loaded: Loaded, found: Sequence[Matmul], timing: TimingColumns | None) -> Iterator[Diagnostic]:
    """How costs are counted, and which matmuls may run more or less often than they count."""
    if not found:
        return
    yield from notes_on_costs(loaded, timing)
    runs = [executions_of(loaded.module).get(_place(each), NO_EXECUTIONS) for each in found]
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
    at, times = table.column_index("flops"), table.column_index("execution_count")
    runs = [(number_of(row[at]), number_of(row[times])) for row in table.rows]
    flops = sum(round(flops or 0) * (1 if number is None else round(number)) for flops, number in runs)
    return _Total(flops, all(number is not None for _, number in runs))


def _answer(found: Sequence[Matmul], table: Table, total: _Total) -> str:
    """The number of matmuls in the table, and their flops in one execution of the module."""
    if not table.rows:
        return "No matmuls"
    at, fusion = table.column_index("kind"), table.column_index("fusion")
    convolutions = sum(row[at] in ("convolution", "cuDNN") for row in table.rows)
    numbers = ((len(table.rows) - convolutions, "matmuls"), (convolutions, "convolutions"))
    words = " and ".join(format_count(number, noun) for number, noun in numbers if number)
    shown = f" of {len(found):,}" if len(table.rows) < len(found) else ""
    if fused := sum(row[fusion] is not None for row in table.rows):
        some = f"{fused:,} in fusions" if fused < len(table.rows) else "all in fusions" if fused > 1 else "in a fusion"
        words += f" ({some})"
    return f"{words}{shown}: {'' if total.is_exact else 'at least '}{format_flops(total.flops)}"


def _table(
    loaded: Loaded, found: Sequence[Matmul], executions: Mapping[Computation, Executions], timing: TimingColumns | None
) -> Table:
    origins = origins_of(loaded.module)
    repeats = any(executions.get(_place(each), NO_EXECUTIONS).known != 1 for each in found)
    columns = (
        Column("total_flops", "total flops", "count", total="sum", person=repeats),
        Column("flops", "flops", "count", total=None if repeats else "sum"),
        Column("execution_count", "executions", "count", person=repeats),
        Column("batch", "batch", "count", person=any(each.batch != 1 for each in found)),
        Column("m", "m", "count"),
        Column("n", "n", "count"),
        Column("k", "k", "count"),
        Column("types", "types"),
        Column("intensity", "flops/B", "count", from_width=120),
        *columns_for(timing),
        Column("kind", "kind", rank=6),
        Column("instruction", "instruction", "name", role="name"),
        Column("fusion", "fusion", "name", from_width=120, rank=6),
        Column("lhs", "lhs", "shape", from_width=200, rank=3),
        Column("rhs", "rhs", "shape", from_width=200, rank=3),
        Column("result", "result", "shape", from_width=200, rank=3),
        Column("dimensions", "dimensions", from_width=200, rank=2),
        Column("bytes", "accessed", "bytes", person=False),
        Column("source", "source", "source", rank=4),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("computation", "computation", "name", person=False),
    )
    counted = {each: executions.get(_place(each), NO_EXECUTIONS) for each in found}
    ranked = sorted(found, key=lambda each: (-each.flops * counted[each].count, each.instruction.name))
    rows = tuple(_row(each, counted[each].known, origins, timing) for each in ranked)
    return Table("dots", columns, rows, noun="matmuls")


def _row(matmul: Matmul, times: int | None, origins: Origins, timing: TimingColumns | None) -> Row:
    origin = origins.own(matmul.instruction)
    cost = Cost({FLOPS: matmul.flops, BYTES: matmul.logical_bytes})
    return (
        UNKNOWN if times is None else matmul.flops * times,
        matmul.flops,
        UNKNOWN if times is None else times,
        matmul.batch,
        matmul.m,
        matmul.n,
        matmul.k,
        _types(matmul),
        cost.intensity,
        *(timing.cells(matmul.instruction, cost, matmul_type(matmul)) if timing is not None else ()),
        matmul.kind,
        matmul.instruction.name,
        matmul.fusion.name if matmul.fusion is not None else None,
        str(matmul.lhs),
        str(matmul.rhs),
        str(matmul.result),
        str(matmul.numbers),
        matmul.logical_bytes,
        origin.source or None,
        origin.op_name or None,
        matmul.instruction.computation.name,
    )


def _types(matmul: Matmul) -> str:
    """The element types, `bf16×s8→f32`, or the one that all share."""
    lhs, rhs, result = (_name(shape) for shape in (matmul.lhs, matmul.rhs, matmul.result))
    if lhs == rhs:
        return lhs if lhs == result else f"{lhs}→{result}"
    return f"{lhs}×{rhs}→{result}"


def _name(shape: ArrayShape) -> str:
    return shape.element_type.name
