"""What does `hlo lint` report on the findings, and what do they cost together?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, Key
from hlo_cli.commands.lint.checking import NOT_IN_BASELINE, LintResult
from hlo_cli.commands.lint.options import cause_grouping
from hlo_cli.commands.modules.by import (
    IN_BYTES,
    IN_SECONDS,
    Group,
    KeyCost,
    describe_costs,
    group_by,
    key_columns,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import Expectation
from hlo_cli.lint.rule import Rule
from hlo_cli.lint.run import selected_rules
from hlo_cli.lint.settings import LintSettings
from hlo_cli.render.formats.screen import statistics_of
from hlo_cli.report.findings import Finding, Findings, RuleWords
from hlo_cli.report.findings import Group as Cause
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table, columns_of_part, rows_from

if TYPE_CHECKING:
    from hlo_cli.commands.lint.measured import MeasuredFindings
# --- --by: costs by line of the program, named scope, argument, or rule ---


_MAX_LISTED: Final = 3
"""The most rules that a row names."""


def by_key(report: Report, grouping: str) -> Report:
    """The report with one row for each key in place of the findings, those that cost most first."""
    by = cause_grouping(grouping)
    if by is None:
        return statistics_of(report)
    findings = next(part for part in report.parts if isinstance(part, Findings))
    if not findings.found:
        return report
    groups = group_by(findings.found, _key)
    causes = sorted((_key_findings(group, findings) for group in groups), key=_rank)
    has_times = any(each.seconds is not None for each in findings.found)
    columns: tuple[Column[_KeyFindings], ...] = (
        Column("cost_bytes", "cost", "bytes", total="sum", of=lambda cause: cause.whole.cost_bytes),
        Column("seconds", "est. time", "seconds", person=has_times, of=lambda cause: cause.whole.seconds),
        Column("groups", "groups", "count", rank=4, of=lambda cause: cause.groups),
        Column("count", "findings", "count", total="sum", of=lambda cause: len(cause.whole.found)),
        *columns_of_part(
            key_columns(by, "cost_bytes", groups, has_inferred=any(group.inferred for group in groups)),
            lambda cause: cause.key,
        ),
        Column("rules", "rules", rank=5, of=lambda cause: cause.rules),
    )
    table = Table(f"{by}s", columns, rows_from(columns, causes), noun=f"{by}s")
    costs = sorted(((group.key, _cost(group.members, has_times)) for group in groups), key=lambda each: -each[1])
    answer = report.answer
    if costs[0][1]:
        answer = describe_costs(
            costs, by, noun="findings", verb=("cost", "costs"), amount=IN_SECONDS if has_times else IN_BYTES
        )
    return replace(report, answer=answer, parts=(table, *(part for part in report.parts if part is not findings)))


def _key(finding: Finding) -> Key:
    return Key(*finding.key) if finding.key is not None else Key(UNKNOWN_KEY, UNKNOWN_KEY)


def _cost(found: Sequence[Finding], has_times: bool) -> float:
    whole = Cause(tuple(found))
    return (whole.seconds if has_times else whole.cost_bytes) or 0


@dataclass(frozen=True, slots=True)
class _KeyFindings:
    """The findings with one key: their costs together, the number of groups that have one of them, and their rules."""

    whole: Cause
    groups: int
    key: KeyCost
    rules: str


def _key_findings(group: Group[Finding], findings: Findings) -> _KeyFindings:
    whole, inferred = Cause(group.members), Cause(group.inferred)
    members = {id(each) for each in group.members}
    groups = sum(any(id(each) in members for each in cause.found) for cause in findings.groups)
    rules = [code for code, _ in Counter(each.code for each in group.members).most_common()]
    listed = ", ".join(rules[:_MAX_LISTED]) + (", …" if len(rules) > _MAX_LISTED else "")
    part = (inferred.cost_bytes or 0) if group.inferred else 0
    return _KeyFindings(whole, groups, KeyCost(group, whole.cost_bytes or 0, part), listed)


def _rank(cause: _KeyFindings) -> tuple[float, ...]:
    """Those that cost most first, by time if a chip is known, then by bytes and by findings."""
    return -(cause.whole.seconds or 0), -(cause.whole.cost_bytes or 0), -len(cause.whole.found)


# --- the report ---


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
    answer = _answer_of(result, findings, rules, known)
    groups = findings.groups_table(person=False)
    parts: tuple[Part, ...] = (findings, groups)
    notes = result.notes
    if measured is not None:
        numbers |= measured.numbers
        answer = "; ".join(filter(None, (answer, measured.words)))
        notes = (*notes, *measured.notes)
    if expectations:
        from hlo_cli.commands.lint.assertion_results import answer_of, checks_of, notes_on_skipped, numbers_of, table_of

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


def _answer_of(result: LintResult, findings: Findings, rules: Sequence[Rule], known: int) -> str:
    more = f"; {format_count(known, 'baseline findings')} hidden" if known else ""
    unread = f"{format_count(len(result.unread), 'inputs')} unreadable"
    more += f"; {unread}" if result.unread and (findings.found or result.paths) else ""
    if findings.found:
        return f"{findings.summary}{more}"
    if result.unread and not result.paths:
        return f"Nothing was checked: {unread}{more}"
    nothing = "No new findings" if known else "No findings"
    where = f" in {format_count(len(result.paths), 'inputs')}" if len(result.paths) != 1 else ""
    checked = f"{format_count(result.instructions, 'instructions')}{where} with {format_count(len(rules), 'rules')}"
    return f"{nothing}: checked {checked}{more}"


def _next(findings: Findings, argument: str) -> tuple[str, ...]:
    """The rule that leads, and a baseline of all findings."""
    explain = tuple(f"hlo lint --explain {group.code}" for group in findings.own_groups[:1])
    is_new = any(each.code not in NOT_IN_BASELINE for each in findings.found)
    if not is_new or argument in ("", "-"):
        return explain
    return (*explain, f"hlo lint {argument} --write-baseline baseline.json")
