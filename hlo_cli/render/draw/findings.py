"""Findings as text: the groups that matter most, each with its cost, its place, and help, and the rest counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hlo_cli.render.draw.diagnostics import diagnostic_lines
from hlo_cli.render.style import Style
from hlo_cli.report.finding import Finding
from hlo_cli.report.findings import Findings
from hlo_cli.report.groups import Group
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds, format_shown
from hlo_cli.report.text import Line, Run

LIMIT = 10


def lines(findings: Findings, style: Style) -> Iterator[Line]:
    """The first groups: errors first, then those that cost most; with a verbose style, all findings of each.

    The text of the dump is quoted for findings about its form, and for others if the style is verbose: what they
    waste is seen in the cost.
    """
    names = {rule.code: rule.name for rule in findings.rules}
    for group in _shown(findings, style):
        head = replace(group.worst, message=group.message)
        is_quoted = style.verbose or group.cost_bytes is None
        details = _details(group, findings.share((group,)), names, findings.measured_per)
        yield from diagnostic_lines(head, style, details=details, is_quoted=is_quoted)
        if style.verbose and len(group.found) > 1:
            yield from (_member(each, group.code, style) for each in group.found)


def footer(findings: Findings, style: Style) -> tuple[str, ...]:
    """The number of shown groups, unless all are shown, and what the rest costs."""
    total = len(findings.groups)
    shown = _shown(findings, style)
    if len(shown) == total:
        return ()
    hidden = findings.groups[len(shown) :]
    rest = sum(group.cost_bytes or 0 for group in hidden)
    part = findings.share(hidden)
    share = f" ({format_percent(part)}%)" if part is not None else ""
    return (
        *((f"{format_count(total - len(shown), 'more groups')}: {format_bytes(rest)}{share}",) if rest else ()),
        format_shown(len(shown), total, "groups"),
    )


def _shown(findings: Findings, style: Style) -> tuple[Group, ...]:
    return findings.groups[: style.rows_shown(LIMIT, len(findings.groups))]


def _details(group: Group, part: float | None, names: dict[str, str], per: str) -> str:
    """The cost of a group, its share in the total, the measured time, and the other rules on its values."""
    share = f" ({format_percent(part)}%)" if part is not None else ""
    also = [f"also {code} {names.get(code, '')}".rstrip() for code in group.other_codes]
    costs = [f"costs {group.cost}{share}"] if group.cost else []
    if group.measured_seconds is not None:
        costs.append(f"measured {format_seconds(group.measured_seconds)} {per}")
    return " · ".join([*costs, *also])


def _member(each: Finding, code: str, style: Style) -> Line:
    """One finding of a group: its place, its instruction, and its cost."""
    rule = f"{each.code} " if each.code != code else ""
    cost = f"  {format_bytes(each.cost_bytes)}" if each.cost_bytes else ""
    name = f"  {each.instruction}" if each.instruction and each.position is not None else ""
    return (Run(f"    {rule}{style.show(each.where)}{style.show(name)}{cost}", "quiet"),)
