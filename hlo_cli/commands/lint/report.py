"""`hlo lint`: the report on the findings in all inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.commands.lint.baseline import NOT_IN_BASELINE
from hlo_cli.lint.rule import Rule
from hlo_cli.lint.run import selected_rules
from hlo_cli.report.findings import Finding, Findings, RuleWords
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell

if TYPE_CHECKING:
    from hlo_cli.commands.lint.measured import MeasuredFindings
    from hlo_cli.commands.lint.run import LintResult
    from hlo_cli.ir.expressions import Expectation
    from hlo_cli.lint.settings import LintSettings


def report_of(
    result: LintResult,
    found: Sequence[Finding],
    settings: LintSettings,
    argument: str,
    *,
    expectations: Sequence[Expectation] = (),
    in_place: bool = False,
    measured: MeasuredFindings | None = None,
) -> Report:
    """The report on new findings; those of the baseline are only counted. Assertions have a table."""
    rules = selected_rules(settings)
    per = "" if measured is None else measured.per
    texts = tuple(map(texts_of, rules))
    findings = Findings("findings", tuple(found), texts, result.paths, in_place=in_place, measured_per=per)
    known = len(result.found) - len(found)
    severities = Counter(each.severity for each in found)
    numbers: dict[str, Cell] = {
        "findings": len(found),
        "groups": len(findings.groups),
        "cost_bytes": findings.cost_bytes,
        "errors": severities["error"],
        "warnings": severities["warning"],
        "notes": severities["note"],
        "known": known,
        "rules": len(rules),
        "inputs": len(result.paths),
        "instructions": result.instructions,
        "unread_inputs": len(result.unread),
    }
    answer = _answer(result, findings, rules, known)
    groups = findings.groups_table(person=False)
    parts: tuple[Part, ...] = (findings, groups)
    notes = result.notes
    if measured is not None:
        numbers |= measured.numbers
        answer = "; ".join(filter(None, (answer, measured.words)))
        notes = (*notes, *measured.notes)
    if expectations:
        from hlo_cli.commands.lint.assertions import answer_of, checks_of, notes_on_skipped, numbers_of, table_of

        answer = f"{answer_of(expectations, result.outcomes)}; {answer[:1].lower()}{answer[1:]}"
        numbers |= numbers_of(expectations, result.outcomes)
        findings = replace(findings, checks=checks_of(expectations, result.outcomes))
        parts = (findings, groups, table_of(expectations, result.outcomes))
        notes = (*notes, *notes_on_skipped(expectations, result.outcomes, strict=settings.strict))
    return Report(
        "lint",
        answer,
        numbers=numbers,
        parts=parts,
        next=_next(findings, argument),
        notes=notes,
        input={"paths": result.paths, "modules": tuple(dict.fromkeys(each.module for each in result.modules))},
    )


def in_order(found: Sequence[Finding], order: str) -> tuple[Finding, ...]:
    """The findings with errors first and then by cost, or in the order of the text for `place`."""
    return tuple(found) if order == "place" else tuple(sorted(found, key=lambda each: each.rank))


def report_of_writing(result: LintResult, path: str) -> Report:
    """The report after findings were written to a baseline."""
    answer = f"Wrote {format_count(len(result.found), 'findings')} to {path}"
    return Report("lint-baseline", answer, numbers={"findings": len(result.found)}, notes=result.notes)


def texts_of(rule: Rule) -> RuleWords:
    """The texts of a rule, for every format."""
    page = rule.page
    return RuleWords(rule.code, rule.name, rule.severity, page.summary, page.why, page.fix, page.reference)


def _answer(result: LintResult, findings: Findings, rules: Sequence[Rule], known: int) -> str:
    more = f"; {format_count(known, 'baseline findings')} hidden" if known else ""
    more += f"; {format_count(len(result.unread), 'inputs')} unreadable" if result.unread else ""
    if findings.found:
        return f"{findings.summary}{more}"
    if result.unread and not result.paths:
        return f"No input could be checked{more}"
    nothing = "No new findings" if known else "No findings"
    where = f" in {format_count(len(result.paths), 'inputs')}" if len(result.paths) != 1 else ""
    checked = f"{format_count(result.instructions, 'instructions')}{where} with {format_count(len(rules), 'rules')}"
    return f"{nothing}: checked {checked}{more}"


def _next(findings: Findings, argument: str) -> tuple[str, ...]:
    if not findings.found:
        return ()
    most = findings.statistics().rows[0][0]
    explain = f"hlo lint --explain {most}"
    is_new = any(each.code not in NOT_IN_BASELINE for each in findings.found)
    if not is_new or argument in ("", "-"):
        return (explain,)
    return (explain, f"hlo lint {argument} --write-baseline baseline.json")
