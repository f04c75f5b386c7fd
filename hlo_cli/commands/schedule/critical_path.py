"""`hlo schedule DUMP --critical-path COST`: the longest chain of dependent instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.analysis.cost.cost_analysis import KernelCost, inclusive_costs
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
from hlo_cli.analysis.schedule.step_time import CriticalPath, critical_path
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.chips import time_model, time_notes
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Column, Row, Table
from hlo_cli.source import Diagnostic

if TYPE_CHECKING:
    from hlo_cli.analysis.schedule.step_time import TimeEstimate

Model = Literal["bytes", "flops", "kernels", "time"]

_WEIGHT: Final[Mapping[str, Callable[[KernelCost], int]]] = {
    "bytes": lambda cost: cost.bytes,
    "flops": lambda cost: cost.flops,
    "kernels": lambda cost: cost.kernels,
}
_NUMBER: Final[Mapping[Model, str]] = {"bytes": "bytes", "flops": "flops", "kernels": "kernels", "time": "seconds"}
"""The unit of each cost, in the names of numbers."""
_MEANING: Final[Mapping[Model, str]] = {
    "bytes": "Cost: bytes accessed by each kernel, from XLA's cost analysis.",
    "flops": "Cost: flops of each kernel, from XLA's cost analysis.",
    "kernels": "Cost: number of kernels.",
    "time": "Cost: estimated time; transfers are charged at their start, loops for all iterations.",
}


def report_of_path(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    *,
    model: Model,
    within: Computation | None,
    where: str | None,
    throughput: ChipSpec | None = None,
) -> Report:
    """One row for each instruction of the critical path, by a simple cost or by estimated times on a chip."""
    computation = within or loaded.module.entry
    costs = inclusive_costs(computation.instructions)
    timed = throughput if model == "time" else None
    step = _step(overlap, timed) if timed else None
    weights = _seconds(overlap, costs, step) if step else {i: _WEIGHT[model](cost) for i, cost in costs.items()}
    unknown = [i for i in computation.instructions if step is not None and i in step.unknown]
    path = critical_path(computation, weights)
    everything = _table(loaded, overlap, path, costs, weights, model, frozenset(unknown))
    return Report(
        "schedule",
        _answer(computation, path, model, timed, is_known=not unknown),
        numbers={
            "model": model,
            "computation": computation.name,
            "instructions": len(path.instructions),
            f"path_{_NUMBER[model]}": path.length if path.length or not unknown else None,
            f"total_{_NUMBER[model]}": path.whole if path.whole or not unknown else None,
            **({"unknown": len(unknown), "time_model": time_model(timed)} if timed else {}),
        },
        parts=(everything if where is None else rows_where(where, everything),),
        notes=(*(time_notes(timed, loaded.module) if timed else ()), *_unknown_notes(unknown), *program_notes(loaded)),
        input=input_facts(loaded),
    )


def _step(overlap: OverlapAnalysis, throughput: ChipSpec) -> TimeEstimate:
    from hlo_cli.analysis.schedule.step_time import estimate_time

    return estimate_time(overlap, throughput)


def _seconds(
    overlap: OverlapAnalysis, costs: Mapping[Instruction, KernelCost], step: TimeEstimate
) -> Mapping[Instruction, float]:
    from hlo_cli.analysis.schedule.step_time import path_seconds

    found = path_seconds(step, overlap)
    return {instruction: found.get(instruction, 0.0) for instruction in costs}


def _unknown_notes(unknown: Sequence[Instruction]) -> tuple[Diagnostic, ...]:
    if not unknown:
        return ()
    have = "has" if len(unknown) == 1 else "have"
    number = format_count(len(unknown), "instructions")
    message = f"{number} {have} unknown duration, so the critical path may be a different, longer one"
    return (Diagnostic("note", message),)


def _answer(
    computation: Computation, path: CriticalPath, model: Model, timed: ChipSpec | None, *, is_known: bool
) -> str:
    if not path.instructions:
        why = f"no instruction has a cost in {model}" if is_known else "the durations of its instructions are unknown"
        return f"{computation.name} has no critical path: {why}"
    amount = format_count(int(path.length), model)
    if model == "bytes":
        amount = format_bytes(path.length)
    if timed is not None:
        amount = f"{'' if is_known else 'at least '}{format_seconds(path.length)} on {timed.chip}"
    chain = format_count(len(path.instructions), "instructions")
    share = f" ({format_percent(path.length / path.whole)}% of the total)" if is_known else ""
    return f"Critical path of {computation.name}: {chain}, {amount}{share}"


def _table(
    loaded: Loaded,
    overlap: OverlapAnalysis,
    path: CriticalPath,
    costs: Mapping[Instruction, KernelCost],
    weights: Mapping[Instruction, float],
    model: Model,
    unknown: frozenset[Instruction],
) -> Table:
    columns = (
        Column("step", "step", "step"),
        Column("share", "", "percent", total="sum"),
        *((Column("seconds", "", "seconds", total="sum"),) if model == "time" else ()),
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
        cost = costs[instruction]
        location = loaded.module.location(instruction)
        return (
            overlap.positions.get(instruction),
            UNKNOWN if unknown else weights[instruction] / path.length,
            *((UNKNOWN if instruction in unknown else weights[instruction],) if model == "time" else ()),
            cost.bytes,
            cost.flops,
            cost.kernels,
            instruction.name,
            instruction.opcode,
            str(instruction.shape),
            instruction.metadata.op_name or None,
            str(location) if location is not None else None,
        )

    return Table(
        "critical_path", columns, tuple(map(row, path.instructions)), noun="instructions", footnote=_MEANING[model]
    )
