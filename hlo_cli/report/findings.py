"""Findings: the diagnostics of lint rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import UNKNOWN, Row
from hlo_cli.report.column import Column
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Table
from hlo_cli.source import SEVERITIES, Diagnostic, Severity

_NAMED: Final = 3
"""The number of rules that a summary names."""
_COLUMNS: Final = (
    Column("code", "rule"), Column("severity", "severity", rank=3),
    Column("path", "path", "source"), Column("line", "line", "line"), Column("column", "column", "line", rank=1),
    Column("end_line", "end line", "line", person=False), Column("end_column", "end column", "line", person=False),
    Column("message", "message"), Column("hint", "help", person=False),
    Column("instruction", "instruction", "name", person=False),
    Column("computation", "computation", "name", person=False),
    Column("op_name", "op_name", "op_name", person=False), Column("source", "source", "source", from_width=200),
    Column("cost_bytes", "cost", "bytes", rank=2), Column("executions", "runs", "count", person=False),
    Column("seconds", "est. time", "seconds", person=False),
    Column("scope", "scope", "op_name", person=False), Column("argument", "argument", "op_name", person=False),
    Column("inferred", "inferred", person=False), Column("fingerprint", "fingerprint", person=False),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RuleWords:
    """The texts of a rule for all formats: a short name, a summary, the reason, and a fix."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str = ""
    fix: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """An assertion without a finding: passed, or not checked for the given reason."""

    assertion: str
    path: str
    has_passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings in the order of the text, their rules, and the checked inputs.

    `checks` are the assertions without findings.

    >>> found = Finding("warning", "97% is padding", code="HLO101")
    >>> findings = Findings("findings", (found,), (RuleWords("HLO101", "mostly padding", "warning", "…"),))
    >>> findings.as_table().rows[0][:2], findings.summary
    (('HLO101', 'warning'), 'Found 1 warning: 1 × HLO101 mostly padding')
    """

    kind: ClassVar[Literal["findings"]] = "findings"
    name: str
    found: tuple[Finding, ...]
    rules: tuple[RuleWords, ...]
    paths: tuple[str, ...] = ()
    title: str = ""
    checks: tuple[Check, ...] = ()

    def first(self, most: int | None) -> tuple[Finding, ...]:
        """The first `most` findings; all of them for 0 and None.

        >>> len(Findings("findings", (Finding("note", ""),) * 3, ()).first(2))
        2
        """
        return self.found[:most] if most else self.found

    @property
    def summary(self) -> str:
        """The number of findings of each severity, and of the most frequent rules."""
        by_severity = Counter(each.severity for each in self.found)
        total = ", ".join(
            format_count(by_severity[severity], f"{severity}s") for severity in SEVERITIES if by_severity[severity]
        )
        names = {rule.code: rule.name for rule in self.rules}
        rules = [f"{number:,} × {code} {names.get(code, '')}".rstrip() for code, number in self._by_rule()]
        more = len(rules) - _NAMED
        if more > 1:
            rules[_NAMED:] = [f"{more} more rules"]
        return f"Found {total}: {', '.join(rules)}" if total else ""

    def as_table(self) -> Table:
        """One row for each finding; people see the name columns if a finding has no position in a text."""
        has_places = all(each.position is not None or not each.name for each in self.found)
        columns = _COLUMNS if has_places else tuple(map(_with_names, _COLUMNS))
        return Table(self.name, columns, tuple(map(_row, self.found)), noun="findings")

    def statistics(self) -> Table:
        """One row for each rule with findings, the most frequent first."""
        rules = {rule.code: rule for rule in self.rules}
        worst = {each.code: each.severity for each in self.found}
        rows = tuple(
            (code, worst[code], number, rules[code].name if code in rules else "") for code, number in self._by_rule()
        )
        columns = (
            Column("code", "rule"),
            Column("severity", "severity"),
            Column("count", "count", "count", total="sum"),
            Column("name", "name"),
        )
        return Table("rules", columns, rows, noun="rules")

    def _by_rule(self) -> Sequence[tuple[str, int]]:
        counts = Counter(each.code for each in self.found)
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def stopped_by(error: Diagnostic) -> str:
    """The consequence of an error: an input could not be read, or the command did not check anything.

    >>> stopped_by(Diagnostic("error", "no option --hlep"))
    'not checked'
    """
    return "unreadable" if error.source is not None else "not checked"


def _with_names(column: Column) -> Column:
    """The column as shown to people if a finding has a name but no position."""
    return replace(column, person=True) if column.name in ("instruction", "computation") else column


def _row(each: Finding) -> Row:
    start, end = each.position, None
    if each.source is not None and each.span is not None:
        end = each.source.position(each.span.end)
    return (
        each.code,
        each.severity,
        each.path,
        start.line if start else None,
        start.column if start else None,
        end.line if end else None,
        end.column if end else None,
        each.message,
        each.hint,
        each.instruction,
        each.computation,
        each.op_name,
        each.location,
        each.cost_bytes,
        UNKNOWN if each.executions is None else each.executions if each.cost_bytes is not None else None,
        each.seconds,
        each.scope or None,
        each.argument or None,
        each.is_inferred,
        each.identity,
    )
