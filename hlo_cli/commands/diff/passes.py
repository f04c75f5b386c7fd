"""`hlo diff DIR --passes`: the changes of each pass, from the dumps that `--xla_dump_hlo_pass_re` makes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.commands.diff.inputs import Found, side_of
from hlo_cli.commands.diff.view import View
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import DumpName, matching_stages, not_found_error, pass_between, pass_number, read_directory
from hlo_cli.inputs.input import read_inputs
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.source import Diagnostic, HloError

_HOW = "create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'"
_COLUMNS = (
    Column("number", "", "line"),
    Column("pass", "pass", role="name"),
    Column("before", "before", "count", group="instructions"),
    Column("after", "after", "count", group="instructions"),
    Column("changed", "changed", "count"),
    Column("added", "added", "count"),
    Column("removed", "removed", "count"),
    Column("change_kinds", "change", rank=2),
    Column("pipeline", "pipeline", rank=1, from_width=120),
    Column("stage", "stage", person=False),
)


@dataclass(frozen=True, slots=True)
class _Step:
    """The changes between two consecutive dumps: the stage of the second, and the differences."""

    stage: str
    before: str
    comparison: ModuleDiff


def report_of_passes(arguments: Sequence[str], reading: InputOptions, view: View) -> Found:
    """One row for each pass that changed something, and the number of those that did not."""
    if len(arguments) != 1 or not os.path.isdir(arguments[0]):
        raise HloError("--passes requires a directory of per-pass dumps", hint=_HOW)
    steps: list[_Step] = []
    errors: list[Diagnostic] = []
    last = None
    for file_name, dump in pass_dumps(arguments[0], reading):
        (each,) = read_inputs([os.path.join(arguments[0], file_name)])[:1]
        side = side_of(each, reading)
        errors += side.module.errors
        if last is not None:
            steps.append(_Step(dump.stage, last[1], view.compare(last[0], side.module)))
        last = side.module, dump.stage
    changing = [step for step in steps if view.differs(step.comparison)]
    numbers = {"passes": len(steps), "changing": len(changing)}
    table = Table(
        "passes",
        _COLUMNS,
        tuple(_row(step, view) for step in changing),
        noun="passes",
        footnote=_unchanged(steps, changing),
    )
    report = Report(
        "diff", _answer(steps, changing), numbers=numbers, parts=(table,), next=_next(arguments[0], changing)
    )
    return report, bool(changing), tuple(errors)


def pass_dumps(folder: str, reading: InputOptions) -> list[tuple[str, DumpName]]:
    """The dumps of one module, in the order in which they were made."""
    dumps = list(read_directory(folder).dumps)
    if reading.module is not None:
        kept = matching_stages(reading.module, [dump.names for _, dump in dumps])
        if not kept:
            raise not_found_error("module", reading.module, [dump.module for _, dump in dumps], folder)
        dumps = [dumps[at] for at in kept]
    groups: dict[str, list[tuple[str, DumpName]]] = {}
    for name, dump in dumps:
        groups.setdefault(dump.group, []).append((name, dump))
    largest: list[tuple[str, DumpName]] = max(groups.values(), key=len) if groups else []
    if (several := sum(len(group) > 1 for group in groups.values())) > 1:
        name = largest[0][1].label or largest[0][1].group
        raise HloError(
            f"--passes requires the dumps of one module, and {folder} has {several:,} modules",
            hint=f"use --module {name} for the module with the most dumps",
        )
    found = sorted(largest, key=lambda each: each[1].order)
    if len(found) < 2:
        raise HloError(f"no per-pass dumps in {folder}", hint=_HOW)
    return found


def _row(step: _Step, view: View) -> Row:
    comparison = step.comparison
    number, name, pipeline = pass_between(step.before, step.stage)
    kinds = dict.fromkeys(change.kind.replace("_", " ") for each in comparison.changed for change in each.changes)
    schedule = ["schedule"] if view.with_schedule and comparison.moved else []
    header = [f"header {change.name}" for change in comparison.header]
    return (
        number,
        name,
        comparison.before.instruction_count,
        comparison.after.instruction_count,
        len(comparison.changed),
        len(comparison.added),
        len(comparison.removed),
        ", ".join((*kinds, *schedule, *header)) or None,
        pipeline,
        step.stage,
    )


def _answer(steps: Sequence[_Step], changing: Sequence[_Step]) -> str:
    if not changing:
        return f"No changes in {format_count(len(steps), 'passes')}"
    first, last = steps[0].comparison.before.instruction_count, steps[-1].comparison.after.instruction_count
    most = max(changing, key=lambda step: _size(step.comparison))
    words = f"{len(changing):,} of {format_count(len(steps), 'passes')} changed the module"
    words += f" ({first:,} → {last:,} instructions)"
    return f"{words}. Largest change: {pass_between(most.before, most.stage).name} ({_counts(most.comparison)})"


def _counts(comparison: ModuleDiff) -> str:
    """The changes by kind, without those that are zero."""
    counts = {
        "changed": len(comparison.changed),
        "added": len(comparison.added),
        "removed": len(comparison.removed),
        "moved": len(comparison.moved),
        "in the header": len(comparison.header),
    }
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def _size(comparison: ModuleDiff) -> int:
    return len(comparison.changed) + len(comparison.added) + len(comparison.removed)


def _unchanged(steps: Sequence[_Step], changing: Sequence[_Step]) -> str:
    unchanged = len(steps) - len(changing)
    return f"{format_count(unchanged, 'passes')} without changes" if unchanged else ""


def _next(folder: str, changing: Sequence[_Step]) -> tuple[str, ...]:
    if not changing:
        return ()
    most = max(changing, key=lambda step: _size(step.comparison))
    numbers = [pass_number(stage) or stage for stage in (most.before, most.stage)]
    return (f"hlo diff {folder} --stage {numbers[0]}..{numbers[1]}",)
