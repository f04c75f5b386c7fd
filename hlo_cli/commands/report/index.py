"""What does the index of many dumps show? A page for each module, and a row for each."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from uuid import uuid4

from hlo_cli.analysis.cache import sharing
from hlo_cli.analysis.memory.memory_analysis import memory_fits
from hlo_cli.commands.memspace.usage import decisive_fit
from hlo_cli.commands.modules.loading import Loaded, Many, check_running, devices_together, module_words
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs, ranking_of
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.options.writing import (
    is_page_file,
    note_written,
    print_diagnostics,
    removed_on_signals,
    write,
    write_page,
    write_report,
)
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.report.page import dump_name, exposed_of, platform_of, report_of
from hlo_cli.commands.report.sources import Sources, sources_of
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import MAX_FILE_BYTES, read_utf8
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.render.web.interactive import PagePieces, pages_in_one, report_pieces
from hlo_cli.render.web.markup import encoded
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, number_of
from hlo_cli.scan_modules import ScanResult
from hlo_cli.source import Diagnostic, HloError

# --- names of the pages ---
# File names of the pages of several modules, in the folder of their index.


INDEX: Final = "index.html"
_UNUSUAL = lazy_regex(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 80  # file systems take 255 bytes, from which a number and the ending are taken


def _page_names(modules: Sequence[str]) -> list[str]:
    """A file name for each module, unlike all others and the index in any case of letters.

    >>> _page_names(["jit_step", "Jit_Step", "../../x y<é>", "", "index", "jit_step-2"])
    ['jit_step.html', 'Jit_Step-2.html', 'x_y.html', 'module.html', 'index-2.html', 'jit_step-2-2.html']
    """
    taken = {INDEX}
    names = list[str]()
    for module in modules:
        plain = _UNUSUAL.sub("_", module).strip("._-")[:_MAX_NAME] or "module"
        number, name = 1, f"{plain}.html"
        while name.casefold() in taken:
            number += 1
            name = f"{plain}-{number}.html"
        taken.add(name.casefold())
        names.append(name)
    return names


# --- one module as a row ---
# One module of many in numbers: a row of the index.


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """The numbers of one module: of main memory, or of the memory that the chip has too little of.

    `fits` is None without a limit, and if it is unknown for a module that is not the final program. `page` is the name
    of its page. `devices` is the number of devices whose work the numbers hold together.
    """

    module: str
    chip: str | None
    is_final: bool
    space: str | None
    peak_bytes: int
    needed_bytes: int | None
    limit_bytes: int | None
    fits: bool | None
    execution_seconds: float | None
    exposed_seconds: float | None
    exposed_share: float | None
    unoverlapped_bytes: int
    padding: float
    saving_bytes: int
    errors: int
    warnings: int
    notes: int
    devices: int = 1
    page: str | None = None


def summary_of(sources: Sources, chip: str | None) -> ModuleSummary:
    """The numbers of a module, as its page has them."""
    memory = sources.memory_analysis
    fits = memory_fits(memory, None, sources.memory_chip)
    shown = decisive_fit(fits)
    space = memory.main if shown is None else memory.space(shown.space)
    is_final = sources.stage == "optimized"
    exposed = exposed_of(sources.schedule)
    padded, padding = (_int_of(sources.padding.numbers.get(name)) for name in ("padded_bytes", "padding_bytes"))
    found = sources.findings.numbers
    return ModuleSummary(
        sources.loaded.module.name,
        platform_of(sources.loaded, chip) or None,
        is_final,
        None if space is None else space.name,
        0 if space is None else space.peak_bytes,
        None if shown is None else shown.needed_bytes,
        None if shown is None else shown.limit_bytes,
        None if shown is None else shown.excess_bytes <= 0 or (False if is_final else None),
        number_of(sources.schedule.numbers.get("execution_seconds")),
        exposed.seconds,
        exposed.share,
        exposed.unoverlapped_bytes,
        padding / padded if padded else 0.0,
        _int_of(sources.padding.numbers.get("saving_bytes")),
        _int_of(found.get("errors")),
        _int_of(found.get("warnings")),
        _int_of(found.get("notes")),
        devices_together(sources.loaded),
    )


def columns_of(summaries: Sequence[ModuleSummary], *, has_pages: bool) -> tuple[Column[ModuleSummary], ...]:
    """The columns of the index; those of times need a chip, and those of limits a limit."""
    has_limit = any(each.limit_bytes is not None for each in summaries)
    has_times = any(each.execution_seconds is not None for each in summaries)
    times: tuple[Column[ModuleSummary], ...] = (
        Column("execution_seconds", "est. time", "seconds", of=lambda module: _if_known(module.execution_seconds)),
        Column(
            "exposed_seconds", "exposed", "seconds", role="waste", of=lambda module: _if_known(module.exposed_seconds)
        ),
        Column("exposed_share", "exposed", "percent", role="waste", of=lambda module: _if_known(module.exposed_share)),
    )
    return (
        Column("page", "page", "page", person=has_pages, of=lambda module: module.page),
        Column("chip", "chip", of=lambda module: module.chip),
        Column("space", "space", of=lambda module: module.space),
        Column("peak_bytes", "peak", "bytes", of=lambda module: module.peak_bytes),
        Column("needed_bytes", "needed", "bytes", person=has_limit, of=lambda module: module.needed_bytes),
        Column("limit_bytes", "limit", "bytes", person=has_limit, of=lambda module: module.limit_bytes),
        Column("fits", "fits", "flag", person=has_limit, of=lambda module: module.fits),
        *(times if has_times else ()),
        Column("unoverlapped_bytes", "no overlap", "bytes", role="waste", person=not has_times,
               of=lambda module: module.unoverlapped_bytes),
        Column("padding", "padding", "percent", role="waste", of=lambda module: module.padding),
        Column("saving_bytes", "saving", "bytes", role="saving", of=lambda module: module.saving_bytes),
        Column("errors", "errors", "count", of=lambda module: module.errors),
        Column("warnings", "warnings", "count", of=lambda module: module.warnings),
        Column("notes", "notes", "count", person=False, of=lambda module: module.notes),
    )  # fmt: skip


def _if_known(time: float | None) -> Cell:
    return UNKNOWN if time is None else time


def answer_of(summaries: Sequence[ModuleSummary]) -> str:
    """How many modules there are, how many do not fit or have errors, and which needs most memory."""
    number = format_count(len(summaries), "modules")
    failing = sum(each.fits is False for each in summaries)
    errors, warnings = (sum(getattr(each, name) for each in summaries) for name in ("errors", "warnings"))
    fullest = max(summaries, key=lambda each: each.peak_bytes, default=None)
    words = []
    if failing:
        words.append(f"{failing:,} {'does' if failing == 1 else 'do'} not fit")
    elif summaries and all(each.fits for each in summaries):
        words.append("all fit" if len(summaries) > 1 else "it fits")
    if fullest is not None and fullest.space is not None:
        words.append(f"highest peak is {format_bytes(fullest.peak_bytes)} of {fullest.space} in {fullest.module}")
    words += [format_count(count, noun) for count, noun in ((errors, "errors"), (warnings, "warnings")) if count]
    return f"{number}: {'; '.join(words)}" if words else number


def _int_of(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


# --- pages and index ---
# `hlo report` of many dumps: an index with a row for each module, and pages behind its names, in one file or in many.


_VERSION: Final = 1  # of the schema `hlo.report`; it grows when a field changes its meaning
_SMALL: Final = 0.01
"""The share of the cost and of the bytes of all modules below which one has no page in a file for the mail."""
_MOST_PAGES: Final = 12
"""How many modules have a page in one file: as many names as fit two lines above the page."""
_MOST_BYTES: Final = 15_000_000
"""The size of the pages in one file: mail servers take 20 to 25 MB, and the encoding of mail adds a third."""


@dataclass(frozen=True, slots=True)
class _WrittenModule:
    """The numbers of one module, and its page in the folder of unfinished pages, if pages are written."""

    summary: ModuleSummary
    unfinished: str | None


@dataclass(frozen=True, slots=True)
class _ModuleWriter:
    """Computes the report of one module and writes its page into a folder, if there is one.

    `in_one` asks for the pieces of the page, as JSON, in place of the page.
    """

    options: ReportOptions
    reading: InputOptions
    folder: str | None
    in_one: bool
    ascii: bool

    def __call__(self, module: Module, given: Input) -> _WrittenModule:
        check_running(module)
        loaded = Loaded(module, given)
        with sharing():
            sources = sources_of(loaded, self.options, given.path or "")
            summary = summary_of(sources, self.options.chip)
            if self.folder is None:
                return _WrittenModule(summary, None)
            report = replace(report_of(sources, self.options, ""), errors=module.errors)
            path = os.path.join(self.folder, f"{uuid4().hex}.html")
            if self.in_one:
                pieces = report_pieces(report)
                write((json.dumps([pieces.title, pieces.body, pieces.data]),), path)
            else:
                write_page(report, path, ascii=self.ascii)
            return _WrittenModule(summary, path)


def report_each(
    many: Many, reading: InputOptions, options: ReportOptions, output: OutputOptions, *, in_folder: bool
) -> int:
    """Writes the index, and pages if the index is one: behind it in the same file, or in its folder.

    Pages are complete before any gets its name, and an unreadable input does not prevent those of the others. Returns
    the exit code.
    """
    options.check_chip()
    with _unfinished_pages(output) as folder:
        ask = _ModuleWriter(replace(options, each=True), reading, folder, not in_folder, output.style(1).ascii)
        answers = list(map_inputs(many, reading, options.jobs, ask))
        has_pages = folder is not None
        pages = _Pages.of(answers) if has_pages and not in_folder else None
        found = _with_pages(answers, output.path if in_folder else None, pages)
        summaries = [each.answer for each in found if each.answer is not None]
        code = finish_each(
            "report",
            many,
            reading,
            found,
            Rows(columns_of(summaries, has_pages=has_pages), devices=lambda summary: summary.devices),
            answer=answer_of(summaries),
            unfinished=sum(not summary.is_final for summary in summaries),
            output=output,
            version=_VERSION,
            shown=_without_directories(found) if has_pages else None,
            next=() if has_pages else None,
            write=write_report if pages is None else pages.write,
        )
    folder = os.path.dirname(output.path or "")
    files = [os.path.join(folder, each.page) for each in summaries if each.page is not None] if in_folder else []
    note_written(output, files, "" if pages is None else pages.remark)
    return code


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of one file, the main module's first: names, paths of pieces, and the indices of the results."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    indices: tuple[int, ...]
    remark: str

    @staticmethod
    def of(found: Sequence[ScanResult[_WrittenModule]]) -> _Pages:
        """Those of the modules that cost most, as far as they fit; helpers and small ones are only counted."""
        ranking, read = ranking_of(found)
        share_of, bytes_of = (dict(zip(read, of, strict=True)) for of in (ranking.shares, ranking.bytes_shares))
        helpers = {read[at] for at in ranking.helpers}
        chosen, paths, room = list[int](), list[str](), _MOST_BYTES
        for at in (read[each] for each in ranking.order):
            answer = found[at].answer
            if answer is None or answer.unfinished is None or len(chosen) == _MOST_PAGES:
                continue
            size = os.path.getsize(answer.unfinished)
            # One that runs seldom may still be large, such as the prefill next to decoding.
            is_small = share_of[at] < _SMALL and bytes_of[at] < _SMALL
            if chosen and (at in helpers or is_small or size > room):
                continue
            chosen.append(at)
            paths.append(answer.unfinished)
            room -= size
        left = [at for at in read if at not in chosen]
        share = ranking.bytes_share([place for place, at in enumerate(read) if at in left])
        words = f"{format_count(len(left), 'other modules')} omitted"
        words += f" ({format_percent(share)}% of the bytes if all run once)"
        names = tuple(module_words(found, at) for at in chosen)
        return _Pages(names, tuple(paths), tuple(chosen), words if left else "")

    def write(self, report: Report, output: OutputOptions, errors: Sequence[Diagnostic], *, read: str) -> int:
        """Writes the file, and the diagnostics of all inputs; returns the exit code."""
        if not self.paths:
            return write_report(report, output, errors, read=read)
        pages = list[PagePieces]()
        for path in self.paths:
            pages.append(PagePieces(*json.loads(read_utf8(path, limit=MAX_FILE_BYTES))))
        arranged = report.arrange(columns=output.columns, sort=output.sort)
        is_ascii = output.style(1).ascii
        chunks = pages_in_one(pages, self.names, arranged, self.remark)
        write((encoded(chunk, ascii=is_ascii) for chunk in chunks), output.path)
        return print_diagnostics(report.notes, errors, output, read=read)


def _without_directories(found: Sequence[ScanResult[ModuleSummary]]) -> list[ScanResult[ModuleSummary]]:
    """The results with the names of their files alone, for an index that is sent to others."""
    results = list[ScanResult[ModuleSummary]]()
    for each in found:
        folder, place = os.path.dirname(each.path), dump_name(each.path)
        problem = each.problem.replace(each.path, place)
        remark = (
            each.remark.replace(folder, os.path.basename(folder.rstrip(os.sep))) if each.remark and folder else None
        )
        results.append(replace(each, path=place, problem=problem, remark=remark))
    return results


@contextmanager
def _unfinished_pages(output: OutputOptions) -> Iterator[str | None]:
    """A folder next to the index for pages without a final name, removed at the end; None if no pages are written."""
    if output.path is None or not is_page_file(output):
        if output.format == "html":
            raise HloError("pages of several modules require a file", hint="use -o FILE.html, or -o DIR/ for many")
        yield None
        return
    with removed_on_signals():
        try:
            folder = tempfile.mkdtemp(prefix=".hlo-report-", dir=os.path.dirname(os.path.abspath(output.path)))
        except OSError as error:
            raise HloError(f"cannot write {output.path}: {error.strerror or error}") from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _with_pages(
    found: Sequence[ScanResult[_WrittenModule]], index: str | None, pages: _Pages | None
) -> list[ScanResult[ModuleSummary]]:
    """The summaries with their pages: places in the file of `pages`, or files next to the index, which get names."""
    names = iter(_page_names([each.module or "" for each in found if each.answer is not None]))
    results = list[ScanResult[ModuleSummary]]()
    for at, each in enumerate(found):
        summary = None
        if each.answer is not None:
            summary, name = each.answer.summary, next(names)
            if pages is not None and at in pages.indices:
                summary = replace(summary, page=f"#first?module={pages.indices.index(at)}")
            elif index is not None and each.answer.unfinished is not None:
                os.replace(each.answer.unfinished, os.path.join(os.path.dirname(index), name))
                summary = replace(summary, page=name)
        results.append(
            ScanResult(each.path, each.module, each.stage, summary, each.problem, each.errors, each.remark, each.cost)
        )
    return results
