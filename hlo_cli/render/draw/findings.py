"""Findings as text: each with its line quoted, highest severity first, up to the requested number."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.draw.diagnostics import diagnostic_lines
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Findings
from hlo_cli.report.numbers import format_shown
from hlo_cli.report.text import Line
from hlo_cli.source import SEVERITIES

LIMIT = 20


def lines(findings: Findings, style: Style) -> Iterator[Line]:
    """The findings, highest severity first, then in the order of the text."""
    worst = sorted(findings.found, key=lambda each: SEVERITIES.index(each.severity))
    for each in worst[: style.rows_shown(LIMIT, len(worst))]:
        yield from diagnostic_lines(each, style)


def footer(findings: Findings, style: Style) -> tuple[str, ...]:
    """The number of shown findings, unless all are shown."""
    total = len(findings.found)
    shown = style.rows_shown(LIMIT, total)
    return () if shown == total else (format_shown(shown, total, "findings"),)
