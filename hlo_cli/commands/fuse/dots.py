"""`hlo fuse DUMP --dots`: the sizes of every matmul and every convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, Cost
from hlo_cli.analysis.cost.matmul_type import matmul_type
from hlo_cli.analysis.cost.matmuls import Matmul, matmuls_of
from hlo_cli.analysis.dataflow.executions import NO_EXECUTIONS, Executions, sequential_executions
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.commands.fuse.roofline_columns import TimingColumns, columns_for, model_of, notes_on_costs
from hlo_cli.commands.shared.load import Loaded, input_facts, notes_of
from hlo_cli.commands.shared.where import rows_where
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.cell import UNKNOWN, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Passage


def report_of_dots(
    loaded: Loaded, *, within: Computation | None, where: str | None, timing: TimingColumns | None
) -> Report:
    """One row for each matmul, those with most flops first."""
    every = matmuls_of(loaded.module)
    found = [each for each in every if within in (None, _place(each), each.instruction.computation)]
    everything = _table(loaded, found, sequential_executions(loaded.module), timing)
    table = everything if where is None else rows_where(where, everything)
    checked = Passage("nothing", (f"Checked {format_count(loaded.module.instruction_count, 'instructions')}.",))
    no_matches = Passage("nothing", (f"No matches among {format_count(len(found), 'matmuls')}.",))
    return Report(
        "fuse",
        _answer(found),
        numbers={"matmuls": len(found), "flops": sum(each.flops for each in found), **model_of(timing)},
        parts=(table,) if table.rows else (no_matches if found else checked, table),
        notes=(*notes_of(loaded), *(notes_on_costs(loaded, timing, counts_loops=True) if found else ())),
        input=input_facts(loaded),
    )


def _place(matmul: Matmul) -> Computation:
    """The computation that runs a matmul; inside a fusion, that of the fusion."""
    return (matmul.fusion or matmul.instruction).computation


def _answer(found: Sequence[Matmul]) -> str:
    if not found:
        return "No matmuls"
    convolutions = sum(each.kind in ("convolution", "cuDNN") for each in found)
    numbers = ((len(found) - convolutions, "matmuls"), (convolutions, "convolutions"))
    words = " and ".join(format_count(number, noun) for number, noun in numbers if number)
    if fused := sum(each.fusion is not None for each in found):
        words += (
            f" ({fused:,} in fusions)" if fused < len(found) else " (all in fusions)" if fused > 1 else " (in a fusion)"
        )
    return f"{words}: {sum(each.flops for each in found):,} flops"


def _table(
    loaded: Loaded, found: Sequence[Matmul], executions: Mapping[Computation, Executions], timing: TimingColumns | None
) -> Table:
    origins = origins_of(loaded.module)
    repeats = any(executions.get(_place(each), NO_EXECUTIONS).known != 1 for each in found)
    columns = (
        Column("flops", "flops", "count", total="sum"),
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
