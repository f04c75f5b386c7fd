"""Findings: the diagnostics of lint rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import UNKNOWN, Row
from hlo_cli.report.column import Column
from hlo_cli.report.finding import Finding
from hlo_cli.report.groups import Group, groups_of
from hlo_cli.report.numbers import format_bytes, format_count
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
    Column("measured_seconds", "measured", "seconds", person=False, machine=False),
    Column("kernel", "kernel", "name", person=False, machine=False),
    Column("scope", "scope", "op_name", person=False), Column("argument", "argument", "op_name", person=False),
    Column("inferred", "inferred", person=False), Column("fingerprint", "fingerprint", person=False),
)  # fmt: skip


_GROUP: Final = Column("group", "group", "count", person=False)
_GROUP_COLUMNS: Final = (
    Column("group", "group", "count", person=False), Column("cost_bytes", "cost", "bytes"),
    Column("seconds", "est. time", "seconds", rank=2, person=False),
    Column("measured_seconds", "measured", "seconds", person=False, machine=False), Column("count", "count", "count"),
    Column("code", "rule"), Column("severity", "severity", rank=3), Column("message", "message"),
    Column("hint", "help", person=False), Column("path", "path", "source", rank=1),
    Column("line", "line", "line", rank=1), Column("instruction", "instruction", "name", person=False),
    Column("computation", "computation", "name", person=False),
    Column("scope", "scope", "op_name", person=False), Column("argument", "argument", "op_name", person=False),
    Column("source", "source", "source", from_width=200), Column("at_least", "at least", person=False),
    Column("other_rules", "other rules", from_width=120), Column("instructions", "instructions", person=False),
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


@dataclass(frozen=True)
class Findings:
    """All findings in the order in which they are reported, their rules, and the checked inputs.

    With `in_place`, groups are in the order of the text too, and not in that of their cost. `checks` are the assertions
    without findings. `measured_per` says what measured times are of, such as `per step`; empty without a profile.

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
    in_place: bool = False
    measured_per: str = ""

    def first(self, most: int | None) -> tuple[Finding, ...]:
        """The first `most` findings; all of them for 0 and None.

        >>> len(Findings("findings", (Finding("note", ""),) * 3, ()).first(2))
        2
        """
        return self.found[:most] if most else self.found

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The findings by cause."""
        return groups_of(self.found, in_place=self.in_place)

    @cached_property
    def cost_bytes(self) -> int:
        """The bytes that all groups waste."""
        return sum(group.cost_bytes or 0 for group in self.groups)

    def share(self, groups: Iterable[Group]) -> float | None:
        """The share of groups in the cost of all: in time if that is known, else in bytes; None without costs."""
        listed = tuple(groups)
        if whole := sum(group.seconds or 0.0 for group in self.groups):
            return sum(group.seconds or 0.0 for group in listed) / whole
        return sum(group.cost_bytes or 0 for group in listed) / self.cost_bytes if self.cost_bytes else None

    @property
    def summary(self) -> str:
        """The number of findings of each severity, and what the rules that cost most found."""
        by_severity = Counter(each.severity for each in self.found)
        total = ", ".join(
            format_count(by_severity[severity], f"{severity}s") for severity in SEVERITIES if by_severity[severity]
        )
        if not total:
            return ""
        if len(self.groups) < len(self.found):
            total += f" in {format_count(len(self.groups), 'groups')}"
        rules = [_rule_words(each) for each in self._totals]
        more = len(rules) - _NAMED
        if more > 1:
            rules[_NAMED:] = [f"{more} more rules"]
        return f"Found {total}: {', '.join(rules)}"

    def as_table(self) -> Table:
        """One row for each finding; people see the name columns if a finding has no position in a text."""
        has_places = all(each.position is not None or not each.name for each in self.found)
        columns = self._with_measured(_COLUMNS if has_places else tuple(map(_with_names, _COLUMNS)))
        numbers = {id(each): number for number, group in enumerate(self.groups, 1) for each in group.found}
        rows = tuple((*_row(each), numbers[id(each)]) for each in self.found)
        return Table(self.name, (*columns, _GROUP), rows, noun="findings")

    def groups_table(self, *, person: bool) -> Table:
        """One row for each group, with the place of its worst finding."""
        rows = tuple(_group_row(number, group) for number, group in enumerate(self.groups, 1))
        has_places = all(each.position is not None or not each.name for each in self.found)
        columns = self._with_measured(_GROUP_COLUMNS if has_places else tuple(map(_with_names, _GROUP_COLUMNS)))
        if any(each.seconds is not None for each in self.found):
            columns = tuple(replace(each, person=True) if each.name == "seconds" else each for each in columns)
        return Table("groups", columns, rows, noun="groups", person=person, main=person)

    def _with_measured(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns with those of measured times, if there is a profile."""
        if not self.measured_per:
            return columns
        names = ("measured_seconds", "kernel")
        return tuple(
            replace(each, person=each.unit == "seconds", machine=True) if each.name in names else each
            for each in columns
        )

    def statistics(self) -> Table:
        """One row for each rule with findings: errors first, then the rules whose findings cost most."""
        rows = tuple(
            (each.code, each.severity, each.groups, each.count, each.cost_bytes, each.seconds, each.name)
            for each in self._totals
        )
        columns = (
            Column("code", "rule"),
            Column("severity", "severity"),
            Column("groups", "groups", "count", total="sum"),
            Column("count", "count", "count", total="sum"),
            Column("cost_bytes", "cost", "bytes"),
            Column("seconds", "est. time", "seconds", person=any(each.seconds is not None for each in self._totals)),
            Column("name", "name"),
        )
        return Table("rules", columns, rows, noun="rules")

    @cached_property
    def _totals(self) -> tuple[RuleTotal, ...]:
        names = {rule.code: rule.name for rule in self.rules}
        by_rule: dict[str, list[Finding]] = {}
        for each in self.found:
            by_rule.setdefault(each.code, []).append(each)
        groups = Counter(code for group in self.groups for code in (group.code, *group.other_codes))
        totals = [RuleTotal.of(found, names.get(code, ""), groups[code]) for code, found in by_rule.items()]
        return tuple(sorted(totals, key=lambda each: (each.rank, -each.count, each.code)))


@dataclass(frozen=True, slots=True)
class RuleTotal:
    """What one rule found: groups, findings, and what they cost together."""

    code: str
    name: str
    severity: Severity
    groups: int
    count: int
    cost_bytes: int | None
    seconds: float | None
    rank: tuple[int, float, float, int]

    @staticmethod
    def of(found: Sequence[Finding], name: str, groups: int) -> RuleTotal:
        """The total of the findings of a rule."""
        whole = Group(tuple(found))
        worst = found[0]
        return RuleTotal(
            worst.code, name, worst.severity, groups, len(found), whole.cost_bytes, whole.seconds, whole.rank
        )


def _rule_words(total: RuleTotal) -> str:
    """What a rule found, for a sentence."""
    words = f"{total.count:,} × {total.code} {total.name}".rstrip()
    details = [format_count(total.groups, "groups")] if total.groups < total.count else []
    details += [format_bytes(total.cost_bytes)] if total.cost_bytes else []
    return f"{words} ({', '.join(details)})" if details else words


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
        None if each.measured is None else each.measured.seconds,
        None if each.measured is None else each.measured.name,
        each.scope or None,
        each.argument or None,
        each.is_inferred,
        each.identity,
    )


def _group_row(number: int, group: Group) -> Row:
    worst, place = group.worst, group.worst.position
    return (
        number,
        group.cost_bytes,
        group.seconds,
        group.measured_seconds,
        len(group.members),
        group.code,
        group.severity,
        group.message,
        worst.hint,
        worst.path,
        place.line if place else None,
        worst.instruction,
        worst.computation,
        worst.scope or None,
        worst.argument or None,
        worst.location,
        group.is_at_least,
        ", ".join(group.other_codes) or None,
        tuple(each.instruction for each in group.found),
    )
