"""Findings as a Code Quality report for GitLab."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import Final

from hlo_cli.render.formats.json import dumps
from hlo_cli.render.machine import Json
from hlo_cli.render.style import Style
from hlo_cli.report.finding import Finding
from hlo_cli.report.findings import Findings, stopped_by
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, Severity

_SEVERITIES: Final[dict[Severity, str]] = {"error": "major", "warning": "minor", "note": "info"}


def render(report: Report, style: Style) -> Iterator[str]:
    r"""A JSON array with an object for each finding, and one of severity blocker for each input that cannot be read.

    Each has its own fingerprint, as GitLab requires.

    >>> "".join(render(Report("lint", "", parts=(Findings("findings", (), ()),)), Style()))
    '[]\n'
    """
    before = "["
    found = (each for part in report.parts if isinstance(part, Findings) for each in part.first(style.top))
    for issue in chain(map(_issue, found), map(_unread, report.errors)):
        yield f"{before}\n {dumps(issue)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _issue(each: Finding) -> Json:
    place = each.position
    return {
        "description": each.named_message,
        "check_name": each.code,
        "fingerprint": f"{each.code}-{each.identity}",
        "severity": _SEVERITIES[each.severity],
        "location": {"path": each.path, "lines": {"begin": place.line if place else 1}},
    }


def _unread(error: Diagnostic) -> Json:
    path = error.source.name if error.source is not None and error.source.name else "-"
    place = error.position
    line = place.line if place else 1
    digest = sha256(f"{path}:{line}:{error.message}".encode(errors="replace")).hexdigest()
    return {
        "description": f"{stopped_by(error)}: {error.message}",
        "check_name": "unreadable",
        "fingerprint": f"unreadable-{digest[:16]}",
        "severity": "blocker",
        "location": {"path": path, "lines": {"begin": line}},
    }
