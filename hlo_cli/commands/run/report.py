"""`hlo run DUMP`: a summary of every result, of the values of --at, and of what outfeeds wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.evaluate.run import Run, Summary, summary_of
from hlo_cli.analysis.semantics.typed_values import arrays_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.run.notes import notes_on_devices, notes_on_missing, notes_on_run
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.results import result_label, result_name
from hlo_cli.commands.run.summaries import summary_cells, summary_columns
from hlo_cli.ir.notation import index_text
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.semantics.typed_values import Value
    from hlo_cli.ir.instruction import Instruction

Line = tuple[tuple[Cell, ...], Summary]
"""The cells that tell a value, and its summary."""

_VALUE: Final = Column("value", "value", "name")
_SHAPE: Final = Column("shape", "shape", "shape")


def report_of_run(loaded: Loaded, run: Run, options: RunOptions, watched: Sequence[Instruction]) -> Report:
    """The results, or the values of the instructions that were asked for."""
    module = loaded.module
    root = module.entry.root
    assert root is not None
    lines = list(_result_lines(run, root))
    results = _table("results", (Column("result", "result"), _VALUE, _SHAPE), lines, main=not watched)
    parts = [results]
    if run.outfed:
        parts.append(_outfed_table(run))
    if watched:
        parts.insert(0, _watched_table(run, watched))
    bad = sum(1 for _, summary in lines if summary.nan or summary.inf)
    state = "all finite" if not bad else f"{bad} of {len(lines)} with NaN or Inf"
    return Report(
        "run",
        f"Ran {format_count(run.executed, 'instructions')}: {format_count(len(lines), 'results')}, {state}",
        version=1,
        numbers={
            "executed_instructions": run.executed,
            "results": len(lines),
            "operations": run.estimate.operations,
            "live_bytes": run.estimate.live_bytes,
            "floats": options.floats,
            "seed": None if options.args and not options.fills else options.seed,
        },
        parts=tuple(parts),
        notes=(
            *notes_on_missing(watched, {each for each in watched if run.watched[each]}),
            *notes_on_devices(run, options),
            *notes_on_run(module, options),
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )


def _table(
    name: str, columns: tuple[Column, ...], lines: Sequence[Line], *, noun: str = "results", main: bool = True
) -> Table:
    rows = tuple((*cells, *summary_cells(summary)) for cells, summary in lines)
    return Table(name, (*columns, *summary_columns([summary for _, summary in lines])), rows, noun=noun, main=main)


def _result_lines(run: Run, root: Instruction) -> Iterator[Line]:
    for index, array, shape in arrays_of(run.result, root.shape):
        whole = replace(shape, dimensions=array.shape) if array.ndim == len(shape.dimensions) else shape
        yield (result_label(index), result_name(root, index), str(whole)), summary_of(array)


def _watched_table(run: Run, watched: Sequence[Instruction]) -> Table:
    lines = [
        ((instruction.name, at, index_text(index) if index else None, str(shape)), summary_of(array))
        for instruction in watched
        for at, value in enumerate(run.watched[instruction])
        for index, array, shape in arrays_of(value, instruction.shape)
    ]
    columns = (
        _VALUE,
        Column("execution", "run", "count", person=any(cells[1] for cells, _ in lines)),
        Column("index", "index", person=any(cells[2] for cells, _ in lines)),
        _SHAPE,
    )
    return _table("values", columns, lines, noun="values")


def _outfed_table(run: Run) -> Table:
    def arrays(instruction: Instruction, value: Value) -> Iterator[tuple[str, str, Summary]]:
        for index, array, shape in arrays_of(value, instruction.operand_shape(0)):
            yield index_text(index) if index else "", str(shape), summary_of(array)

    lines: list[Line] = [
        ((at, instruction.name, index or None, shape), summary)
        for at, (instruction, value) in enumerate(run.outfed)
        for index, shape, summary in arrays(instruction, value)
    ]
    columns = (
        Column("execution", "run", "count"),
        _VALUE,
        Column("index", "index", person=any(cells[2] for cells, _ in lines)),
        _SHAPE,
    )
    return _table("outfed", columns, lines, noun="values", main=False)
