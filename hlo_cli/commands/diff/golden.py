"""`hlo diff GOLDEN NEW --against-golden`: the failed conditions before the statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.statements.statements import ModuleNumbers, Statements, numbers_of
from hlo_cli.commands.diff.conditions import Condition, Failure, failures, limit_text
from hlo_cli.commands.diff.numbers import numbers_between
from hlo_cli.commands.diff.view import View
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Column, Table
from hlo_cli.report.text import Passage
from hlo_cli.transform.normalize import normalize

_MAX_SHOWN: Final = 8
_COLUMNS: Final = (
    Column("condition", "condition"),
    Column("result", "result"),
    Column("before", "before", "count"),
    Column("after", "after", "count"),
    Column("difference", "difference"),
)


def numbers_against(comparison: ModuleDiff, view: View) -> tuple[ModuleNumbers, ModuleNumbers]:
    """The numbers of both modules.

    With conditions, those of the new one go by the order of the golden dump if `--normalize` took its schedule away.
    """
    old, new = comparison.before, comparison.after
    is_unordered = bool(view.conditions) and new.is_scheduled and not old.is_scheduled
    return numbers_of(old), numbers_of(normalize(new) if is_unordered else new)


def without_form(comparison: ModuleDiff) -> ModuleDiff:
    """The differences without those that come from the form of a golden dump: what `--normalize` does not write."""
    golden, new = comparison.before, comparison.after
    ignored = ["is_scheduled"] if new.is_scheduled and not golden.is_scheduled else []
    if not any(each.name == "frontend_attributes" for each in golden.header):
        ignored.append("frontend_attributes")
    kept = tuple(change for change in comparison.header if change.name not in ignored)
    has_metadata = any("metadata=" in each.raw[1] for each in golden.instructions)
    found = comparison if has_metadata else comparison.without(("metadata",))
    return replace(found, header=kept)


def failures_of(
    conditions: Sequence[Condition],
    comparison: ModuleDiff,
    told: Statements,
    numbers: tuple[ModuleNumbers, ModuleNumbers],
) -> tuple[Failure, ...]:
    """The conditions that do not hold."""
    target = target_of(comparison.after) or target_of(comparison.before)
    return tuple(failures(conditions, comparison, told, tuple(numbers_between(*numbers, target))))


def answer_of_failures(conditions: Sequence[Condition], found: Sequence[Failure]) -> str:
    """How many conditions do not hold."""
    number = len({each.condition for each in found})
    of = format_count(len(conditions), "conditions")
    return f"{number:,} of {of} failed" if found else f"All {of} hold" if len(conditions) > 1 else "The condition holds"


def parts_of_failures(conditions: Sequence[Condition], found: Sequence[Failure]) -> Iterator[Passage | Table]:
    """Yields the failed conditions for people, and all conditions for programs."""
    lines = [f"{each.condition.text}: {each.text}" for each in found[:_MAX_SHOWN]]
    if len(found) > _MAX_SHOWN:
        lines.append(f"{len(found) - _MAX_SHOWN:,} more")
    if lines:
        yield Passage("failures", tuple(lines))
    rows = [(each.condition.text, "failed", each.before, each.after, each.text) for each in found]
    failed = {each.condition for each in found}
    rows += [(each.text, "passed", None, None, limit_text(each)) for each in conditions if each not in failed]
    yield Table("conditions", _COLUMNS, tuple(rows), noun="conditions", person=False, main=False)
