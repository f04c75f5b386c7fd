"""`hlo report DUMP`: the reports of the other commands as sections of one report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_cli.analysis.cache import sharing
from hlo_cli.commands.report.lines import lines_table
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.report.sections import sections_of
from hlo_cli.commands.report.sources import Sources, sources_of
from hlo_cli.commands.report.subject import details_of, title_of
from hlo_cli.commands.report.verdicts import verdicts_of
from hlo_cli.commands.shared.load import Loaded, input_facts
from hlo_cli.commands.shared.memory_timeline import chosen_spaces
from hlo_cli.report.overview import Overview, Section, Verdict
from hlo_cli.report.report import Part, Report
from hlo_cli.source import Diagnostic


def report_of_module(loaded: Loaded, options: ReportOptions, argument: str) -> Report:
    """All sections on a module; their tables have the names and the rows that the other commands give them."""
    with sharing():
        return _report(sources_of(loaded, options, argument), options, argument)


def _report(sources: Sources, options: ReportOptions, argument: str) -> Report:
    loaded = sources.loaded
    lines = lines_table(sources.costs_by_line, _highest_space(sources))
    sections = sections_of(sources, lines)
    verdicts = verdicts_of(sources)
    overview = Overview(
        "overview",
        title_of(loaded, options.chip),
        details_of(loaded, len(sources.memory_analysis.sequence)),
        verdicts,
        sections,
    )
    return Report(
        "report",
        _answer(overview.title, verdicts),
        version=1,
        numbers=sources.numbers,
        parts=(overview, *_parts(sources, sections), *([lines] if lines.rows else ())),
        next=_next(options, argument),
        notes=tuple(_notes(sources)),
        input=input_facts(loaded),
    )


def _highest_space(sources: Sources) -> str | None:
    """The memory with the highest peak, on which the page opens."""
    return next((space.name for space in chosen_spaces(sources.memory_analysis, None)), None)


def _answer(title: str, verdicts: Sequence[Verdict]) -> str:
    return f"{title}: {'; '.join(f'{each.title.lower()}: {each.headline}' for each in verdicts)}"


def _parts(sources: Sources, sections: Sequence[Section]) -> Iterator[Part]:
    """The parts of the sections, each once, without what a command shows of them only to people."""
    wanted = {name for section in sections for name in section.parts}
    for report in sources.reports:
        for part in report.parts:
            if part.kind in ("table", "timeline", "findings") and part.name in wanted:
                wanted.discard(part.name)
                yield replace(part, main=False, person=False) if part.kind == "table" else part


def _next(options: ReportOptions, argument: str) -> tuple[str, ...]:
    """The command that writes the page, with the same chip."""
    if not argument or argument == "-":
        return ()
    chip = f" --chip {options.chip}" if options.chip else ""
    return (f"hlo report {argument}{chip} -o report.html",)


def _notes(sources: Sources) -> Iterator[Diagnostic]:
    """The notes of all reports, each once."""
    yield from dict.fromkeys(note for report in sources.reports for note in report.notes)
