"""`hlo run DUMP`: a summary of every result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.evaluate.run import Run, arrays_of
from hlo_cli.analysis.evaluate.summary import Summary, summary_of
from hlo_cli.commands.run.notes import notes_on_devices, notes_on_run
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.results import result_label, result_name
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.ir.index_text import index_text
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table

if TYPE_CHECKING:
    from hlo_cli.ir.instruction import Instruction

_SUMMARY = (
    Column("least", "least", "number"),
    Column("most", "most", "number"),
    Column("mean", "mean", "number"),
    Column("rms", "rms", "number"),
    Column("zeros", "zeros", "count"),
    Column("nan", "NaN", "count", role="alarm"),
    Column("inf", "Inf", "count", role="alarm"),
    Column("first", "first elements"),
)
_RESULTS = (
    Column("result", "result"),
    Column("value", "value", "name"),
    Column("shape", "shape", "shape"),
    *_SUMMARY,
)
_WATCHED = (
    Column("value", "value", "name"),
    Column("execution", "run", "count"),
    Column("index", "index"),
    Column("shape", "shape", "shape"),
    *_SUMMARY,
)


def report_of_run(loaded: Loaded, run: Run, options: RunOptions, watched: Sequence[Instruction]) -> Report:
    """The results, or the values of the instructions that were asked for."""
    module = loaded.module
    root = module.entry.root
    assert root is not None
    rows = tuple(_result_rows(run, root))
    results = Table("results", _RESULTS, rows, noun="results", main=not watched)
    parts = [*([_watched_table(run, watched)] if watched else []), results]
    bad = sum(1 for row in rows if row[-3] or row[-2])
    state = "all finite" if not bad else f"{bad} of {len(rows)} with NaN or Inf"
    return Report(
        "run",
        f"Ran {format_count(run.executed, 'instructions')}: {format_count(len(rows), 'results')}, {state}",
        version=1,
        numbers={
            "executed_instructions": run.executed,
            "results": len(rows),
            "operations": run.estimate.operations,
            "live_bytes": run.estimate.live_bytes,
            "floats": options.floats,
            "seed": None if options.args else options.seed,
        },
        parts=tuple(parts),
        notes=(*notes_on_devices(run, watched), *notes_on_run(module, options), *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _result_rows(run: Run, root: Instruction) -> Iterator[Row]:
    for index, array, shape in arrays_of(run.result, root.shape):
        yield (result_label(index), result_name(root, index), str(shape), *_cells(summary_of(array)))


def _watched_table(run: Run, watched: Sequence[Instruction]) -> Table:
    rows: list[Row] = []
    for instruction in watched:
        for at, value in enumerate(run.watched[instruction]):
            for index, array, shape in arrays_of(value, instruction.shape):
                where = index_text(index) if index else None
                rows.append((instruction.name, at, where, str(shape), *_cells(summary_of(array))))
    return Table("values", _WATCHED, tuple(rows), noun="values")


def _cells(summary: Summary) -> tuple[Cell, ...]:
    return (
        summary.least, summary.most, summary.mean, summary.rms, summary.zeros, summary.nan, summary.inf,
        " ".join(f"{each:.4g}" for each in summary.first),
    )  # fmt: skip
