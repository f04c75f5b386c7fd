"""`hlo lint --each`: the number of findings in each module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.commands.lint.run import LintResult
from hlo_cli.commands.modules.many import short_paths
from hlo_cli.report.findings import Finding
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Column, Row, Table, number_of
from hlo_cli.source import Severity

_COUNTS: Final[tuple[Severity, ...]] = ("error", "warning", "note")


def by_module(report: Report, result: LintResult, found: Sequence[Finding]) -> Report:
    """The report with a row for each module instead of each finding; modules with most errors first."""
    columns = (
        Column("module", "module", "name", role="name"),
        Column("stage", "stage", from_width=120),
        *(Column(f"{severity}s", f"{severity}s", "count", total="sum") for severity in _COUNTS),
        Column("instructions", "instructions", "count", total="sum", from_width=120),
        Column("dump", "dump", "name", machine=False),
        Column("path", "file", person=False),
        Column("problem", "problem", person=bool(result.unread), rank=1),
    )
    return replace(report, parts=(Table("modules", columns, _rows(result, found), noun="modules"),), next=())


def _rows(result: LintResult, found: Sequence[Finding]) -> tuple[Row, ...]:
    counts = Counter((each.path, each.severity) for each in found)
    unread = {error.source.name: error.message for error in reversed(result.errors) if error.source is not None}
    short = short_paths([*(each.path for each in result.modules), *unread])
    read: list[Row] = [
        (each.module, each.stage, *(counts[each.path, severity] for severity in _COUNTS), each.instructions, dump,
         each.path, None)
        for each, dump in zip(result.modules, short, strict=False)
    ]  # fmt: skip
    read.sort(key=lambda row: tuple(-(number_of(cell) or 0) for cell in row[2 : 2 + len(_COUNTS)]))
    others: list[Row] = [
        (None, None, *(UNKNOWN for _ in _COUNTS), UNKNOWN, dump, path, problem)
        for (path, problem), dump in zip(unread.items(), short[len(result.modules) :], strict=True)
    ]
    return (*read, *others)
