"""The number of findings of each rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hlo_cli.render.formats import screen
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Findings
from hlo_cli.report.report import Report


def render(report: Report, style: Style) -> Iterator[str]:
    r"""The answer and a table with one row for each rule.

    >>> list(render(Report("lint", "Nothing found", parts=(Findings("findings", (), ()),)), Style()))
    ['Nothing found\n']
    """
    return screen.render(statistics_of(report), style)


def statistics_of(report: Report) -> Report:
    """The report with the number of findings of each rule in place of the findings."""
    parts = tuple(part.statistics() if isinstance(part, Findings) else part for part in report.parts)
    return replace(report, parts=parts)
