"""Pages and lists of rules, for `hlo lint --explain` and `--list-rules`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from textwrap import wrap
from typing import Final

from hlo_cli.lint.finding_facts import cost_meaning
from hlo_cli.lint.rule import Page
from hlo_cli.lint.run import RULES, rule_of
from hlo_cli.lint.settings import MEANINGS, Kind, LintSettings
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import format_amount
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Column, Table
from hlo_cli.report.text import Line, Passage, Run, line_of

_VALUES: Final[Mapping[Kind, str]] = {
    "when": "WHEN",
    "count": "N",
    "bytes": "SIZE",
    "fraction": "FRACTION",
    "chip": "NAME",
}
"""The placeholder of a setting's value, by kind."""


def report_of_rule(code: str) -> Report:
    """The page of a rule: the defect, why it matters, an example, how to fix it, and the XLA reference.

    >>> report_of_rule("HLO101").answer
    'HLO101: mostly padding (warning)'
    """
    rule = rule_of(code)
    page = rule.page
    cost = cost_meaning(code.upper())
    sections = (
        ("How to fix", page.fix),
        ("Cost", f"{cost}, in all executions" if cost else ""),
        ("Settings", _settings(page)),
        ("Reference", page.reference),
    )
    after = [(label, text) for label, text in sections if text]
    parts: list[Part] = [
        Passage("summary", (page.summary,), is_answer=True),
        Passage("why", ((Run("Why: ", "quiet"), page.why),), is_answer=True),
    ]
    if page.example:
        parts.append(Figure("example", partial(_example, page.example)))
    lines = tuple((Run(f"{label}: ", "quiet"), text) for label, text in after)
    parts.append(Passage("fix", lines, is_answer=True))
    is_off = "" if rule.is_default else ", off by default"
    return Report(
        "lint-rule",
        f"{rule.code}: {rule.name} ({rule.severity}{is_off})",
        numbers={"code": rule.code, "name": rule.name, "severity": rule.severity, "default": rule.is_default},
        parts=tuple(parts),
    )


def _settings(page: Page) -> str:
    """The settings that a page mentions, with their defaults."""
    text = f"{page.summary} {page.why}"
    words = {word for word in re.findall(r"\w+", text) if "_" in word} | set(re.findall(r"\bsetting (\w+)", text))
    names = [name for name in MEANINGS if name in words]
    if not names:
        return ""
    shown = ", ".join(f"{name} ({_default(name)})" for name in names)
    return f"{shown}; override with `--set {names[0]}={_VALUES[MEANINGS[names[0]][0]]}`"


def _default(name: str) -> str:
    kind, value = MEANINGS[name][0], getattr(LintSettings(), name)
    if value is None:
        return "not set"
    return f"default {format_amount(value, kind).replace(' ', '') if kind == 'bytes' else value}"


def _example(text: str, room: int) -> tuple[Line, ...]:
    """The lines of an example, wrapped to the room that there is, as HLO allows.

    >>> from hlo_cli.report.text import plain_text
    >>> for line in _example("y = f32[8] custom-call(x), custom_call_target=\\"f\\"", 40): print(plain_text(line))
      y = f32[8] custom-call(x),
          custom_call_target="f"
    """
    lines = (
        part
        for line in text.splitlines()
        for part in wrap(
            line,
            room,
            initial_indent="  ",
            subsequent_indent=" " * (6 + len(line) - len(line.lstrip())),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=False,
        )
    )
    return tuple(line_of(line.rstrip()) for line in lines)


def report_of_rules() -> Report:
    """A table with one row for each rule.

    >>> report_of_rules().main_table.rows[0]
    ('HLO001', 'error', True, 'syntax error or unresolved name')
    """
    rows = tuple((rule.code, rule.severity, rule.is_default, rule.name) for rule in RULES)
    columns = (
        Column("code", "rule", "name"), Column("severity", "severity"), Column("default", "default", "flag"),
        Column("name", "name"),
    )  # fmt: skip
    table = Table("rules", columns, rows, noun="rules", limit=0)
    answer = f"{len(RULES)} rules, {sum(rule.is_default for rule in RULES)} enabled by default"
    return Report("lint-rules", answer, parts=(table,), next=(f"hlo lint --explain {RULES[0].code}",))
