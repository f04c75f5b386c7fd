"""The reports of the other commands on one module, which share what they compute."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.commands.fuse.fusion_table import report_of_fusions
from hlo_cli.commands.fuse.roofline_columns import TimingColumns
from hlo_cli.commands.layout.dump import report_of_dump
from hlo_cli.commands.lint.report import report_of as report_of_lint
from hlo_cli.commands.lint.run import LintedModule, LintResult
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.report import report_of_memory
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.schedule.async_table import report_of_pairs
from hlo_cli.commands.schedule.sequence import report_of_steps
from hlo_cli.commands.shared.chips import chosen_throughput
from hlo_cli.commands.shared.compiler_memory import compiler_memory
from hlo_cli.commands.shared.load import Loaded
from hlo_cli.dataclass import dataclass
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.cell import Cell
from hlo_cli.report.report import Report


@dataclass(frozen=True, slots=True)
class Sources:
    """The report of each command."""

    memory: Report
    schedule: Report
    steps: Report
    fusions: Report
    padding: Report
    findings: Report

    @property
    def reports(self) -> tuple[Report, ...]:
        """All of them, in the order of the page."""
        return (self.memory, self.schedule, self.steps, self.fusions, self.padding, self.findings)

    @property
    def numbers(self) -> Mapping[str, Cell]:
        """The numbers of each command, by the name of the command."""
        named = {"memspace": self.memory, "schedule": self.schedule, "fuse": self.fusions, "layout": self.padding}
        return {name: dict(report.numbers) for name, report in (*named.items(), ("lint", self.findings))}


def sources_of(loaded: Loaded, options: ReportOptions, argument: str) -> Sources:
    """Runs every analysis of the page once."""
    module = loaded.module
    throughput = chosen_throughput(options.chip, options.chip_file)
    timing = TimingColumns(throughput) if throughput is not None else None
    memory = compiler_memory(loaded, chip=options.chip)
    overlap = analyze_overlap(module)
    path = loaded.input.path or "-"
    settings = LintSettings()
    found = tuple(lint_module(module))
    linted = LintResult(
        found, (), (), (), (LintedModule(path, module.name, loaded.input.stage, module.instruction_count),)
    )
    return Sources(
        memory=report_of_memory(loaded, memory, MemspaceOptions(space="all", chip=options.chip), argument),
        schedule=report_of_pairs(loaded, overlap, within=None, where=None, argument=argument, throughput=throughput),
        steps=report_of_steps(loaded, overlap, space=None, within=None, where=None, throughput=throughput, columns=()),
        fusions=report_of_fusions(loaded, within=None, where=None, timing=timing, argument=argument),
        padding=report_of_dump(loaded, argument=argument),
        findings=report_of_lint(linted, found, settings, argument),
    )
