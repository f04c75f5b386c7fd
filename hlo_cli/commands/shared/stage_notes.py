"""Notes that numbers are upper bounds because the module is not optimized yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hlo_cli.analysis.query.program_stage import ProgramStage, program_stage
from hlo_cli.commands.shared.load import Loaded
from hlo_cli.report.cell import Cell
from hlo_cli.report.report import Report


def stage_of(loaded: Loaded) -> ProgramStage:
    """The compilation stage of a module, by its text and the name of its file."""
    return program_stage(loaded.module, loaded.input.stage)


def bounded(answer: str, stage: ProgramStage, *, name: str = "", is_upper: bool = True) -> str:
    """An answer about a program, as an upper bound if the module is not optimized yet.

    `name` is the module's; its case is kept if the answer begins with it. Without `is_upper`, only the stage is named.

    >>> bounded("HBM needs 3 GiB", "optimized")
    'HBM needs 3 GiB'
    >>> bounded("No async operations in 9 steps", "before optimization")
    'Before optimization (upper bounds): no async operations in 9 steps'
    >>> bounded("HBM usage peaks at 3 GiB", "during optimization")
    'During optimization (upper bounds): HBM usage peaks at 3 GiB'
    """
    if stage == "optimized":
        return answer
    is_word = (answer[1:2].islower() or answer[1:2] == " ") and not (name and answer.startswith(name))
    rest = f"{answer[:1].lower()}{answer[1:]}" if is_word else answer
    return f"{stage[:1].upper()}{stage[1:]}{' (upper bounds)' if is_upper else ''}: {rest}"


def bounded_report(report: Report, loaded: Loaded) -> Report:
    """A report with times, as upper bounds if the module is not optimized yet, nor fused by rule."""
    stage, is_upper = stage_of(loaded), not report.numbers.get("is_fused_by_rule")
    numbers = {**report.numbers, **stage_numbers(stage), **({} if is_upper else {"upper_bound": False})}
    answer = bounded(report.answer, stage, name=loaded.module.name, is_upper=is_upper)
    return replace(report, answer=answer, numbers=numbers)


def stage_numbers(stage: ProgramStage) -> Mapping[str, Cell]:
    """The stage and the bound, for programs.

    >>> stage_numbers("before optimization")
    {'program_stage': 'before optimization', 'upper_bound': True}
    """
    return {"program_stage": stage, "upper_bound": stage != "optimized"}
