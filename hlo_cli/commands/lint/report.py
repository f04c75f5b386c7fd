"""`hlo lint`: the report on the findings in all inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.commands.lint.baseline import NEVER_KNOWN
from hlo_cli.lint.catalog import chosen_rules
from hlo_cli.lint.registry import Rule
from hlo_cli.report.cell import Cell
from hlo_cli.report.finding import Finding
from hlo_cli.report.findings import Findings, RuleWords
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report

if TYPE_CHECKING:
    from hlo_cli.commands.lint.run import LintResult
    from hlo_cli.ir.assertion import Expectation
    from hlo_cli.lint.settings import LintSettings


def report_of(
    looked: LintResult,
    found: Sequence[Finding],
    settings: LintSettings,
    argument: str,
    *,
    expectations: Sequence[Expectation] = (),
) -> Report:
    """The report on new findings; known ones are only counted. Expectations have a table."""
    rules = chosen_rules(settings)
    findings = Findings("findings", tuple(found), tuple(map(words_of, rules)), looked.paths)
    known = len(looked.found) - len(found)
    severities = Counter(each.severity for each in found)
    numbers: dict[str, Cell] = {
        "findings": len(found),
        "errors": severities["error"],
        "warnings": severities["warning"],
        "notes": severities["note"],
        "known": known,
        "rules": len(rules),
        "inputs": len(looked.paths),
        "instructions": looked.instructions,
        "unread_inputs": len(looked.unread),
    }
    answer = _answer(looked, findings, rules, known)
    parts: tuple[Part, ...] = (findings,)
    notes = looked.notes
    if expectations:
        from hlo_cli.commands.lint.assertions import answer_of, checks_of, never_asked, numbers_of, table_of

        answer = f"{answer_of(expectations, looked.outcomes)}; {answer[:1].lower()}{answer[1:]}"
        numbers |= numbers_of(expectations, looked.outcomes)
        findings = replace(findings, checks=checks_of(expectations, looked.outcomes))
        parts = (findings, table_of(expectations, looked.outcomes))
        notes = (*notes, *never_asked(expectations, looked.outcomes))
    return Report(
        "lint",
        answer,
        numbers=numbers,
        parts=parts,
        next=_next(findings, argument),
        notes=notes,
        input={"paths": looked.paths},
    )


def report_of_writing(looked: LintResult, path: str) -> Report:
    """The report after findings were written to a baseline."""
    answer = f"{format_count(len(looked.found), 'findings')} written to {path}"
    return Report("lint-baseline", answer, numbers={"findings": len(looked.found)}, notes=looked.notes)


def words_of(rule: Rule) -> RuleWords:
    """The texts of a rule, for every format."""
    page = rule.page
    return RuleWords(rule.code, rule.name, rule.severity, page.what, page.why, page.mend, page.reference)


def _answer(looked: LintResult, findings: Findings, rules: Sequence[Rule], known: int) -> str:
    besides = f"; {format_count(known, 'known findings')} left out" if known else ""
    besides += f"; {format_count(len(looked.unread), 'inputs')} cannot be read" if looked.unread else ""
    if findings.found:
        return f"{findings.summary}{besides}"
    if looked.unread and not looked.paths:
        return f"Nothing could be looked through{besides}"
    nothing = "Nothing new" if known else "Nothing found"
    where = f" in {format_count(len(looked.paths), 'inputs')}" if len(looked.paths) != 1 else ""
    looked_at = f"{format_count(looked.instructions, 'instructions')}{where}, {format_count(len(rules), 'rules')}"
    return f"{nothing}: {looked_at}{besides}"


def _next(findings: Findings, argument: str) -> tuple[str, ...]:
    if not findings.found:
        return ()
    most = findings.statistics().rows[0][0]
    explain = f"hlo lint --explain {most}"
    is_new = any(each.code not in NEVER_KNOWN for each in findings.found)
    if not is_new or argument in ("", "-"):
        return (explain,)
    return (explain, f"hlo lint {argument} --write-baseline FILE")
