"""Findings of rules that other commands tell of too, as diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo_cli.lint.finding import Finding
from hlo_cli.lint.subject import Located
from hlo_cli.source import Severity


def findings_of(problems: Iterable[Located], severity: Severity) -> Iterator[Finding]:
    """Those that are so bad, as findings.

    >>> from hlo_cli.source import Diagnostic
    >>> [found.message for found in findings_of([(None, Diagnostic("error", "no done"))], "error")]
    ['no done']
    """
    for at, diagnostic in problems:
        if diagnostic.severity == severity:
            subject = "" if at is not None else f"{diagnostic.code} {diagnostic.message}"
            yield Finding(diagnostic.message, at, diagnostic.span, diagnostic.hint, subject)
