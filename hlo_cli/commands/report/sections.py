"""The sections of a page: each has a sentence that answers its question, and the tables that show why."""

from __future__ import annotations

from hlo_cli.analysis.sharding.meshes import devices_of
from hlo_cli.commands.report.lines import describe_lines
from hlo_cli.commands.report.sources import Sources
from hlo_cli.report.overview import Section
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table


def sections_of(sources: Sources, lines: Table) -> tuple[Section, ...]:
    """All sections in the order of the page; one without rows has only its sentence."""
    return (
        *_of_profile(sources),
        _section("memory", "Memory", sources.memory.answer, sources.memory, "spaces", "buffers"),
        _section("schedule", "Schedule", sources.steps.answer, sources.steps, "steps"),
        _section("transfers", "Transfers", sources.schedule.answer, sources.schedule, "operations", "pairs"),
        _section("kernels", "Kernels", sources.fusions.answer, sources.fusions, "kernels", "fusions"),
        *_of_devices(sources),
        _section("arguments", "Arguments", sources.arguments.answer, sources.arguments, "parameters", "results"),
        Section("lines", "Source lines", describe_lines(lines), ("lines",) if lines.rows else ()),
        _section("padding", "Padding", sources.padding.answer, sources.padding, "shapes"),
        _section("findings", "Findings", sources.findings.answer, sources.findings, "groups", "findings"),
    )


def _of_profile(sources: Sources) -> tuple[Section, ...]:
    """The measured times, if there is a profile."""
    if sources.measured is None:
        return ()
    return (_section("measured", "Measured time", sources.measured.answer, sources.measured, "measured"),)


def _of_devices(sources: Sources) -> tuple[Section, ...]:
    """The collectives, if there are several devices."""
    if devices_of(sources.loaded.module).count < 2:
        return ()
    answer = sources.collectives.answer
    return (_section("collectives", "Collectives", answer, sources.collectives, "collectives"),)


def _section(key: str, title: str, answer: str, report: Report, *names: str) -> Section:
    there = {part.name for part in report.parts if part.name in names and _has_content(part)}
    sentence = answer if answer.endswith(".") else f"{answer}."
    return Section(key, title, sentence, tuple(name for name in names if name in there))


def _has_content(part: Part) -> bool:
    if part.kind == "table":
        return bool(part.rows)
    return part.kind == "timeline" or (part.kind == "findings" and bool(part.found))
