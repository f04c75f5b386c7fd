"""`hlo lint --by`: what the findings cost together, by line of the program, named scope, argument, or rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.origin.origins import UNKNOWN_KEY, Key
from hlo_cli.commands.lint.options import cause_grouping
from hlo_cli.commands.modules.by import IN_BYTES, IN_SECONDS, Group, describe_costs, group_by, key_cells, key_columns
from hlo_cli.render.formats.screen import statistics_of
from hlo_cli.report.findings import Finding, Findings
from hlo_cli.report.findings import Group as Cause
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table, number_of

_LISTED: Final = 3
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
    rows = sorted((_row(group, findings) for group in groups), key=_rank)
    has_times = any(each.seconds is not None for each in findings.found)
    columns = (
        Column("cost_bytes", "cost", "bytes", total="sum"),
        Column("seconds", "est. time", "seconds", person=has_times),
        Column("groups", "groups", "count", rank=4),
        Column("count", "findings", "count", total="sum"),
        *key_columns(by, "cost_bytes", groups, has_inferred=any(group.inferred for group in groups)),
        Column("rules", "rules", rank=5),
    )
    table = Table(f"{by}s", columns, tuple(rows), noun=f"{by}s")
    costs = sorted(((group.key, _cost(group.members, has_times)) for group in groups), key=lambda each: -each[1])
    answer = report.answer
    if costs[0][1]:
        answer = describe_costs(
            costs, by, noun="findings", verb=("cost", "costs"), amount=IN_SECONDS if has_times else IN_BYTES
        )
    return replace(report, answer=answer, parts=(table, *(part for part in report.parts if part is not findings)))


def _key(found: Finding) -> Key:
    return Key(*found.key) if found.key is not None else Key(UNKNOWN_KEY, UNKNOWN_KEY)


def _cost(found: Sequence[Finding], has_times: bool) -> float:
    whole = Cause(tuple(found))
    return (whole.seconds if has_times else whole.cost_bytes) or 0


def _row(group: Group[Finding], findings: Findings) -> Row:
    whole, inferred = Cause(group.members), Cause(group.inferred)
    members = {id(each) for each in group.members}
    causes = sum(any(id(each) in members for each in cause.found) for cause in findings.groups)
    rules = [code for code, _ in Counter(each.code for each in group.members).most_common()]
    listed = ", ".join(rules[:_LISTED]) + (", …" if len(rules) > _LISTED else "")
    cost, part = whole.cost_bytes or 0, (inferred.cost_bytes or 0) if group.inferred else 0
    return (whole.cost_bytes, whole.seconds, causes, len(group.members), *key_cells(group, cost, part), listed)


def _rank(row: Row) -> tuple[float, ...]:
    """Rows that cost most first, by time if a chip is known, then by bytes and by findings."""
    return tuple(-(number_of(row[at]) or 0) for at in (1, 0, 3))
