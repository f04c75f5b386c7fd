"""The reports of the other commands on one module, which share what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hlo_cli.analysis.hardware.chip_specs import chip_in
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.layout.padding import data_values, orders_of
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.commands.fuse.causes import report_of_causes as kernels_by_cause
from hlo_cli.commands.fuse.fusion_table import report_of_fusions
from hlo_cli.commands.fuse.roofline_columns import timing_of
from hlo_cli.commands.layout.causes import causes_table, footprints_by_cause
from hlo_cli.commands.layout.dump import report_of_dump as report_of_padding
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.report import report_of_memory
from hlo_cli.commands.modules.by import keys_for
from hlo_cli.commands.modules.loading import Loaded, bounded_report, stage_of
from hlo_cli.commands.options.chips import chosen_throughput
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.profile.load import read_profile
from hlo_cli.commands.profile.trips import with_measured_trips
from hlo_cli.commands.report.findings import report_of_findings
from hlo_cli.commands.report.lines import LineCosts
from hlo_cli.commands.report.measured import (
    MeasuredModule,
    measured_by_source,
    measured_module,
    report_of_measured,
)
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.schedule.async_table import report_of_pairs, transfers_of
from hlo_cli.commands.schedule.causes import transfers_by_cause
from hlo_cli.commands.schedule.sequence import report_of_steps
from hlo_cli.commands.shard.comms import report_of_comms
from hlo_cli.commands.shard.dump import report_of_dump as report_of_arguments
from hlo_cli.commands.shard.options import ShardOptions
from hlo_cli.commands.shared.compiler_memory import compiler_memory
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import target_texts
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Table
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_table import Chip, ChipSpec
    from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
    from hlo_cli.analysis.query.module_summary import ProgramStage
    from hlo_cli.commands.profile.load import Loaded as LoadedProfile


@dataclass(frozen=True, slots=True)
class Sources:
    """The report of each command, and what the verdicts need besides.

    `memory_chip` is the chip whose memories limit the program, `chip_spec` the rates of time estimates.
    """

    loaded: Loaded
    stage: ProgramStage
    memory_analysis: MemoryAnalysis
    memory_chip: Chip | None
    chip_spec: ChipSpec | None
    memory: Report
    schedule: Report
    steps: Report
    fusions: Report
    collectives: Report
    arguments: Report
    padding: Report
    findings: Report
    costs_by_line: LineCosts
    measured: Report | None = None

    @property
    def reports(self) -> tuple[Report, ...]:
        """All of them, in the order of the page."""
        first = (self.memory, self.schedule, self.steps, self.fusions)
        measured = () if self.measured is None else (self.measured,)
        return (*measured, *first, self.collectives, self.arguments, self.padding, self.findings)

    @property
    def numbers(self) -> Mapping[str, Cell]:
        """The numbers of each command, by the name of the command."""
        named = {
            "memspace": self.memory,
            "schedule": self.schedule,
            "fuse": self.fusions,
            "comms": self.collectives,
            "shard": self.arguments,
            "layout": self.padding,
            "lint": self.findings,
        }
        if self.measured is not None:
            named["profile"] = self.measured
        return {name: dict(report.numbers) for name, report in named.items()}


def sources_of(loaded: Loaded, options: ReportOptions, argument: str) -> Sources:
    """Runs every analysis of the page once."""
    loaded, profile, measured = _measured(loaded, options)
    spec = chosen_throughput(options.chip, options.chip_file)
    timing = timing_of(loaded, spec)
    chip = _memory_chip(loaded, options)
    name = None if chip is None else chip.name
    memory = compiler_memory(loaded, chip=name)
    overlap = analyze_overlap(loaded.module)
    sharding = ShardOptions(comms=True, chip=options.chip, chip_file=options.chip_file)
    of_memory = report_of_memory(loaded, memory, MemspaceOptions(space="all", chip=name), argument)
    kernels = kernels_by_cause(loaded, "source", within=None, where=None, timing=timing, argument=argument)
    transfers = transfers_of(loaded, overlap, None, spec)
    pairs = report_of_pairs(loaded, overlap, within=None, where=None, argument=argument, selected=transfers)
    steps = report_of_steps(loaded, overlap, space=None, within=None, where=None, throughput=spec, memory=memory)
    fusions = report_of_fusions(loaded, within=None, where=None, timing=timing, argument=argument)
    keys = keys_for(loaded, "source")
    return Sources(
        loaded=loaded,
        stage=stage_of(loaded),
        memory_analysis=memory,
        memory_chip=chip,
        chip_spec=spec,
        memory=of_memory,
        schedule=_bounded(pairs, loaded, spec),
        steps=_bounded(steps, loaded, spec),
        fusions=_bounded(fusions, loaded, spec),
        collectives=report_of_comms(loaded, sharding, argument),
        arguments=report_of_arguments(loaded, ShardOptions(), argument),
        padding=report_of_padding(loaded, argument=argument),
        findings=report_of_findings(loaded, options, argument, profile),
        costs_by_line=LineCosts(
            kernels=_table_by_source(kernels),
            memory=_table_by_source(of_memory),
            transfers=transfers_by_cause(loaded, transfers, "source"),
            padding=_padding_by_source(loaded),
            measured=None if measured is None else measured_by_source(measured, keys),
        ),
        measured=None if measured is None else report_of_measured(measured, _kernels_of(fusions), keys),
    )


def _measured(loaded: Loaded, options: ReportOptions) -> tuple[Loaded, LoadedProfile | None, MeasuredModule | None]:
    """The module with measured trip counts, the profile, and the measured times of the module.

    Of many modules, those that did not run have none.
    """
    if options.profile is None:
        return loaded, None, None
    profile = read_profile(options.profile, (loaded.input.path,) if loaded.input.path else (), InputOptions())
    try:
        loaded, notes = with_measured_trips(loaded, profile.profile)
        return loaded, profile, measured_module(profile, loaded, notes)
    except HloError:
        if not options.each:
            raise
        return loaded, profile, None


def _kernels_of(report: Report) -> Table | None:
    """The table of kernels, with predictions if a chip is given."""
    return next((table for table in report.tables if table.name == "kernels"), None)


def _memory_chip(loaded: Loaded, options: ReportOptions) -> Chip | None:
    """The chip that is given, else the one that the dump names; None for one that only a file describes."""
    name = options.chip
    if name is None and options.chip_file is None:
        name = chip_in(target_texts(loaded.input))
    try:
        return None if name is None else find_chip(name)
    except HloError:
        if options.chip_file is None:
            raise
        return None


def _bounded(report: Report, loaded: Loaded, spec: ChipSpec | None) -> Report:
    """A report with times, as the commands bound it."""
    return bounded_report(report, loaded, has_times=spec is not None)


def _padding_by_source(loaded: Loaded) -> Table:
    """The table of `hlo layout --by source`."""
    values, keys = data_values(loaded.module), keys_for(loaded, "source")
    return causes_table(footprints_by_cause(values, orders_of(loaded.module, values), keys), keys)


def _table_by_source(report: Report) -> Table:
    found = next((part for part in report.parts if isinstance(part, Table) and part.name == "by_source"), None)
    return found if found is not None else Table("by_source", (), ())
