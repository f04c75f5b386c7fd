"""`hlo report DUMP`: the reports of the other commands as sections of one report."""

from __future__ import annotations

from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.report.sources import Sources, sources_of
from hlo_cli.commands.shared.load import Loaded, input_facts, program_notes
from hlo_cli.report.overview import Gauge, Overview, Section, Verdict
from hlo_cli.report.report import Part, Report


def report_of_module(loaded: Loaded, options: ReportOptions, argument: str) -> Report:
    """All sections on a module; their tables have the names and the rows that the other commands give them."""
    sources = sources_of(loaded, options, argument)
    overview = Overview(
        "overview",
        loaded.module.name,
        f"{loaded.module.instruction_count:,} instructions",
        _verdicts(sources),
        _sections(sources),
    )
    return Report(
        "report",
        sources.memory.answer,
        version=1,
        numbers=sources.numbers,
        parts=(overview, *_parts(sources)),
        notes=program_notes(loaded),
        input=input_facts(loaded),
    )


def _verdicts(sources: Sources) -> tuple[Verdict, ...]:
    peaks = sources.memory.numbers["peak_bytes"]
    gauges = tuple(
        Gauge(name, value, None) for name, value in peaks.items() if isinstance(value, int)
    ) if isinstance(peaks, dict) else ()  # fmt: skip
    return (
        Verdict("Memory", "neutral", "Memory", sources.memory.answer, section="memory", gauges=gauges),
        Verdict("Exposed", "neutral", "Exposed", sources.schedule.answer, section="schedule"),
        Verdict("Padding", "neutral", "Padding", sources.padding.answer, section="padding"),
        Verdict("Findings", "neutral", "Findings", sources.findings.answer, section="findings"),
    )


def _sections(sources: Sources) -> tuple[Section, ...]:
    return (
        Section("memory", "Memory", sources.memory.answer, ("spaces", "buffers")),
        Section("schedule", "Schedule", sources.schedule.answer, ("pairs", "operations", "steps")),
        Section("kernels", "Kernels", sources.fusions.answer, ("kernels", "fusions")),
        Section("padding", "Padding", sources.padding.answer, ("shapes",)),
        Section("findings", "Findings", sources.findings.answer, ("groups", "findings")),
    )


def _parts(sources: Sources) -> tuple[Part, ...]:
    wanted = {name for section in _sections(sources) for name in section.parts}
    parts = (part for report in sources.reports for part in report.parts)
    return tuple(part for part in parts if part.kind in ("table", "timeline", "findings") and part.name in wanted)
