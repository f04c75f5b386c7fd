"""Findings of rules that other commands tell of too, as diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo_cli.lint.context import Located
from hlo_cli.lint.finding import Finding
from hlo_cli.source import Severity


def findings_of(problems: Iterable[Located], severity: Severity) -> Iterator[Finding]:
    """Those that are so bad, as findings.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.source import Diagnostic
    >>> start = parse_module("s = (f32[4], f32[4], u32[]) copy-start(f32[4] p)").entry.root
    >>> [(found.at, found.message) for found in findings_of([(start, Diagnostic("error", "no done"))], "error")]
    [(<copy-start s>, 'no done')]
    """
    for at, diagnostic in problems:
        if diagnostic.severity == severity:
            yield Finding(diagnostic.message, at, diagnostic.span, diagnostic.hint)
