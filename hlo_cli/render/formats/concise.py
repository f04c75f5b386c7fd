"""Findings as lines in the style of compilers: place, rule, severity, message."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.style import Style
from hlo_cli.report.finding import Finding
from hlo_cli.report.findings import Findings
from hlo_cli.report.report import Report


def render(report: Report, style: Style) -> Iterator[str]:
    r"""One line for each group, at its worst finding; one for each finding if the style is verbose.

    >>> from hlo_cli.report.finding import Finding
    >>> from hlo_cli.source import Source, Span
    >>> finding = Finding("warning", "mostly padding", Source("a.txt", "x\ny = 1"), Span(2, 3), code="HLO101")
    >>> report = Report("lint", "", parts=(Findings("findings", (finding,), ()),))
    >>> list(render(report, Style()))
    ['a.txt:2:1: HLO101 warning mostly padding\n']
    """
    for part in report.parts:
        if isinstance(part, Findings) and style.verbose:
            yield from (_line(each, each.message) for each in part.first(style.top))
        elif isinstance(part, Findings):
            for group in part.groups[: style.top or None]:
                details = f" ({group.remark})" if group.remark else ""
                yield _line(group.worst, group.message + details)


def _line(each: Finding, message: str) -> str:
    return sanitize(f"{each.where}: {each.code} {each.severity} {message}") + "\n"
