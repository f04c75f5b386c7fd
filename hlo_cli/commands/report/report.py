"""`hlo report DUMP`: the reports of the other commands as sections of one report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_cli.analysis.cache import sharing
from hlo_cli.commands.modules.loading import Loaded, input_facts
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.report.lines import lines_table
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.report.sections import sections_of
from hlo_cli.commands.report.sources import Sources, sources_of
from hlo_cli.commands.report.subject import details_of, title_of
from hlo_cli.commands.report.verdicts import verdicts_of
from hlo_cli.commands.shared.memory_timeline import chosen_spaces
from hlo_cli.report.overview import Overview, Section, Verdict
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Column, Table
from hlo_cli.source import Diagnostic


def report_of_module(loaded: Loaded, options: ReportOptions, argument: str) -> Report:
    """All sections on a module; their tables have the names and the rows that the other commands give them."""
    with sharing():
        return report_of(sources_of(loaded, options, argument), options, argument)


def report_of(sources: Sources, options: ReportOptions, argument: str) -> Report:
    """The same for results of analyses; tables are computed when they are read, best within `sharing`."""
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
        parts=(overview, _verdicts_table(verdicts), *_parts(sources, sections), *([lines] if lines.rows else ())),
        next=_next(sources, options, argument),
        notes=tuple(_notes(sources)),
        input=input_facts(loaded),
    )


def _highest_space(sources: Sources) -> str | None:
    """The memory with the highest peak, on which the page opens."""
    return next((space.name for space in chosen_spaces(sources.memory_analysis, None)), None)


def _answer(title: str, verdicts: Sequence[Verdict]) -> str:
    """The title, and the headlines as one sentence."""
    words = "; ".join(_in_sentence(each) for each in verdicts if each.headline)
    return f"{title}: {words}"


def _in_sentence(verdict: Verdict) -> str:
    """A headline in lower case, unless it begins with a name; one of a word has its title too."""
    headline = verdict.headline
    if headline[1:2].islower() or headline[1:2] == " ":
        headline = f"{headline[:1].lower()}{headline[1:]}"
    return headline if " " in headline else f"{verdict.title.lower()} {headline}"


def _parts(sources: Sources, sections: Sequence[Section]) -> Iterator[Part]:
    """The parts of the sections, each once, without what a command shows of them only to people."""
    wanted = {name for section in sections for name in section.parts}
    for report in sources.reports:
        for part in report.parts:
            if part.kind in ("table", "timeline", "findings") and part.name in wanted:
                wanted.discard(part.name)
                yield _for_machines(part)


def _for_machines(part: Part) -> Part:
    """A part that screens do not show; findings as rows, because lint alone writes them in formats of their own."""
    if part.kind == "timeline":
        return replace(part, person=False)
    table = part.as_table()
    assert table is not None
    return replace(table, main=False, person=False)


def _verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    """The verdicts as rows, for pipes."""
    columns = (
        Column("key", "key"),
        Column("tone", "tone"),
        Column("headline", "headline"),
        Column("sentence", "sentence"),
        Column("section", "section"),
    )
    rows = tuple((each.title.lower(), each.tone, each.headline, each.sentence, each.section) for each in verdicts)
    return Table("verdicts", columns, rows, noun="verdicts", person=False)


def _next(sources: Sources, options: ReportOptions, argument: str) -> tuple[str, ...]:
    """The command that writes the page, with the chip that is given or that the dump names."""
    if not argument or argument == "-":
        return ()
    chip = options.chip or (sources.memory_chip.name if sources.memory_chip is not None else None)
    given = (("--chip", chip), ("--chip-file", options.chip_file), ("--profile", options.profile))
    view = format_options((*given, ("-o", "report.html")))
    return (f"hlo report {argument} {view}",)


def _notes(sources: Sources) -> Iterator[Diagnostic]:
    """The notes of all reports, each once."""
    yield from dict.fromkeys(note for report in sources.reports for note in report.notes)
