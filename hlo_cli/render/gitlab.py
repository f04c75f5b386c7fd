"""Findings as a Code Quality report of GitLab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.json import dumps
from hlo_cli.render.machine import Json
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Findings, ReportedFinding
from hlo_cli.report.report import Report
from hlo_cli.source import Severity

_SEVERITIES: Final[dict[Severity, str]] = {"error": "major", "warning": "minor", "note": "info"}


def render(report: Report, style: Style) -> Iterator[str]:
    r"""A JSON array with one object a finding; each has a fingerprint of its own, as GitLab asks.

    >>> "".join(render(Report("lint", "", parts=(Findings("findings", (), ()),)), Style()))
    '[]\n'
    """
    before = "["
    for part in report.parts:
        for each in part.found if isinstance(part, Findings) else ():
            yield f"{before}\n {dumps(_issue(each))}"
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _issue(each: ReportedFinding) -> Json:
    diagnostic = each.diagnostic
    place = diagnostic.position
    return {
        "description": diagnostic.message,
        "check_name": diagnostic.code,
        "fingerprint": f"{diagnostic.code}-{each.identity}",
        "severity": _SEVERITIES[diagnostic.severity],
        "location": {"path": each.path, "lines": {"begin": place.line if place else 1}},
    }
