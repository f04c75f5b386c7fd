"""Lints a module with the selected rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Results
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.lint.catalog import selected_rules
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import Needs
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.finding import Finding
from hlo_cli.source import SEVERITIES, Diagnostic, Severity

if TYPE_CHECKING:
    from hlo_cli.analysis.query.assertions import AssertionResult


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked: the path and the name of a module, the number of its instructions, and the codes of rules."""

    path: str
    name: str
    instructions: int
    rules: tuple[str, ...]


class FindingList(Results[Finding, Checked]):
    """Findings, as a tuple that notebooks show by cause; it does not hold the module, so it can outlive it."""


def lint_module(
    module: Module,
    settings: LintSettings | None = None,
    *,
    rejections: Sequence[Diagnostic] = (),
    verdicts: Sequence[AssertionResult] = (),
    chip: ChipSpec | None = None,
) -> FindingList:
    """The findings of the rules, in the order of the text, without duplicates.

    `rejections` are errors of XLA's own parser; `verdicts` are results of assertions. With `chip`, findings about
    efficiency have times.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[3] negate(p) }")
    >>> for found in lint_module(module): print(found.name, found.code, found)
    e/n HLO010 text:1:45: error: n: expected the shape f32[2], found f32[3]
    """
    settings = settings or LintSettings()
    context = LintContext(module, settings, tuple(rejections), tuple(verdicts), chip)
    found: dict[Finding, None] = {}
    rules = selected_rules(settings)
    with no_garbage_collection():
        satisfied = _satisfied(context)
        for rule in rules:
            if rule.needs in satisfied and _is_shown(rule.severity_under(settings), settings):
                found |= dict.fromkeys(rule.findings(context))
    codes = tuple(rule.code for rule in rules)
    checked = Checked(module.source.name or "-", module.name, module.instruction_count, codes)
    return FindingList.of(sorted(found, key=_order), checked)


def _satisfied(context: LintContext) -> tuple[Needs, ...]:
    """The values of `Rule.needs` that the text satisfies: fewer for a part of a module, or after errors."""
    if context.omissions:
        return ("text",)
    is_whole = not (context.module.errors or context.module.is_part)
    return ("text", "instructions") if not is_whole else ("text", "instructions", "module")


def _is_shown(severity: Severity, settings: LintSettings) -> bool:
    return SEVERITIES.index(severity) <= SEVERITIES.index(settings.min_severity)


def _order(found: Finding) -> tuple[int, str]:
    return (found.span.start if found.span is not None else 0), found.code
