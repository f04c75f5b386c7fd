"""`hlo schedule DUMP --critical-path MODEL`: the longest chain of instructions that wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from hlo_cli.analysis.async_overlap import Overlap
from hlo_cli.analysis.critical_path import CriticalPath, critical_path
from hlo_cli.analysis.work import Work, works_of_all
from hlo_cli.commands.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.where import rows_where
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.render.numbers import bytes_in_words, counted, percent
from hlo_cli.report.cell import Row
from hlo_cli.report.column import Column
from hlo_cli.report.report import Report
from hlo_cli.report.table import Table

Model = Literal["bytes", "flops", "kernels"]

_WEIGHT: Final[Mapping[Model, Callable[[Work], int]]] = {
    "bytes": lambda work: work.bytes,
    "flops": lambda work: work.flops,
    "kernels": lambda work: work.kernels,
}
_MEANING: Final[Mapping[Model, str]] = {
    "bytes": "Time by the bytes that a kernel reads and writes, as XLA's cost analysis counts them.",
    "flops": "Time by a kernel's operations, as XLA's cost analysis counts them.",
    "kernels": "Time by the number of kernels.",
}


def report_of_path(
    loaded: Loaded, overlap: Overlap, *, model: Model, within: Computation | None, where: str | None
) -> Report:
    """The instructions of the critical path, one a row, by one of three simple models of what takes time."""
    computation = within or loaded.module.entry
    works = works_of_all(computation.instructions)
    path = critical_path(computation, {i: _WEIGHT[model](work) for i, work in works.items()})
    everything = _table(loaded, overlap, path, works, model)
    return Report(
        "schedule",
        _answer(computation, path, model),
        numbers={
            "model": model,
            "computation": computation.name,
            "instructions": len(path.instructions),
            "path": path.length,
            "all": path.whole,
        },
        parts=(everything if where is None else rows_where(where, everything),),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _answer(computation: Computation, path: CriticalPath, model: Model) -> str:
    if not path.instructions:
        return f"{computation.name} has no critical path: none of its instructions costs {model}"
    chain = counted(len(path.instructions), "instructions")
    share = percent(path.length / path.whole)
    amount = bytes_in_words(path.length) if model == "bytes" else f"{path.length:,} {model}"
    return f"The critical path of {computation.name} is {chain} long: {amount}, {share}% of all"


def _table(
    loaded: Loaded, overlap: Overlap, path: CriticalPath, works: Mapping[Instruction, Work], model: Model
) -> Table:
    columns = (
        Column("step", "step", "step"),
        Column("share", "", "percent", total="sum"),
        Column("bytes", "", "bytes", total="sum"),
        Column("flops", "flops", "count", total="sum"),
        Column("kernels", "kernels", "count", total="sum", person=model == "kernels"),
        Column("instruction", "instruction", "name", role="name"),
        Column("opcode", "opcode", "opcode"),
        Column("shape", "shape", "shape", rank=5),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", rank=4),
    )

    def row(instruction: Instruction) -> Row:
        work = works[instruction]
        location = loaded.module.location(instruction)
        return (
            overlap.positions.get(instruction),
            _WEIGHT[model](work) / path.length,
            work.bytes,
            work.flops,
            work.kernels,
            instruction.name,
            instruction.opcode,
            str(instruction.shape),
            instruction.metadata.op_name or None,
            str(location) if location is not None else None,
        )

    return Table("path", columns, tuple(map(row, path.instructions)), noun="instructions", footnote=_MEANING[model])
