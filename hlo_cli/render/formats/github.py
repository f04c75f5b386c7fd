"""Findings as workflow commands, with which GitHub annotates the lines of a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Findings, stopped_by
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, Severity

_COMMANDS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report, style: Style) -> Iterator[str]:
    r"""One command for each group, at its worst finding, and one for each input that cannot be read.

    >>> from hlo_cli.report.finding import Finding
    >>> from hlo_cli.source import Source, Span
    >>> finding = Finding("error", "97% is padding", Source("a.txt", "x = 1"), Span(0, 1), "{0,1}", "HLO101")
    >>> report = Report("lint", "", parts=(Findings("findings", (finding,), ()),))
    >>> list(render(report, Style()))
    ['::error title=HLO101,file=a.txt,line=1,endLine=1,col=1,endColumn=2::97%25 is padding%0Ahelp: {0,1}\n']
    """
    for part in report.parts:
        if isinstance(part, Findings):
            names = {rule.code: f"{rule.code} {rule.name}" for rule in part.rules}
            for group in part.groups[: style.top or None]:
                each, more = group.worst, f" ({group.remark})" if group.remark else ""
                title = names.get(each.code, each.code)
                yield _command(each, group.named_message + more, {"title": title, "file": each.path}) + "\n"
    for error in report.errors:
        file = {"file": error.source.name} if error.source is not None else {}
        yield _command(error, error.message, {"title": stopped_by(error), **file}) + "\n"


def _command(diagnostic: Diagnostic, message: str, properties: dict[str, str]) -> str:
    if diagnostic.source is not None and diagnostic.span is not None:
        start, end = (diagnostic.source.position(at) for at in (diagnostic.span.start, diagnostic.span.end))
        properties |= {"line": str(start.line), "endLine": str(end.line)}
        if start.line == end.line:  # GitHub accepts columns only within one line
            properties |= {"col": str(start.column), "endColumn": str(end.column)}
    message += f"\nhelp: {diagnostic.hint}" if diagnostic.hint else ""
    written = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{_COMMANDS[diagnostic.severity]} {written}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """The text with characters that end a command or a property percent-encoded, and control characters escaped."""
    text = "\n".join(map(sanitize, text.split("\n")))
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
