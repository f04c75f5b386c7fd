"""`hlo report` of many dumps: a page for each module, and an index page with a row for each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from uuid import uuid4

from hlo_cli.analysis.cache import sharing
from hlo_cli.commands.modules.loading import Loaded, Many, check_running
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.options.writing import is_page_file, removed_on_signals, write_page
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.report.page_names import page_names
from hlo_cli.commands.report.report import report_of
from hlo_cli.commands.report.sources import sources_of
from hlo_cli.commands.report.subject import dump_name
from hlo_cli.commands.report.summary import ModuleSummary, answer_of, columns_of, summary_of
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.scan_modules import ScanResult
from hlo_cli.source import HloError

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class _Answer:
    """The numbers of one module, and its page in the folder of unfinished pages, if pages are written."""

    summary: ModuleSummary
    unfinished: str | None


@dataclass(frozen=True, slots=True)
class _Ask:
    """Computes the report of one module and writes its page into a folder, if there is one."""

    options: ReportOptions
    reading: InputOptions
    folder: str | None
    ascii: bool

    def __call__(self, module: Module, given: Input) -> _Answer:
        check_running(module)
        loaded = Loaded(module, given)
        with sharing():
            sources = sources_of(loaded, self.options, given.path or "")
            summary = summary_of(sources, self.options.chip)
            if self.folder is None:
                return _Answer(summary, None)
            report = replace(report_of(sources, self.options, ""), errors=module.errors)
            path = os.path.join(self.folder, f"{uuid4().hex}.html")
            write_page(report, path, ascii=self.ascii)
            return _Answer(summary, path)


def report_each(many: Many, reading: InputOptions, options: ReportOptions, output: OutputOptions) -> int:
    """Writes the index, and next to it the pages if the index is one; returns the exit code.

    Pages are complete before any gets its name, and an unreadable input does not prevent those of the others.
    """
    options.check_chip()
    with _unfinished_pages(output) as folder:
        ask = _Ask(replace(options, each=True), reading, folder, output.style(1).ascii)
        found = _with_pages(list(map_inputs(many, reading, options.jobs, ask)), output.path)
    has_pages = folder is not None
    summaries = [each.answer for each in found if each.answer is not None]
    columns = columns_of(summaries, has_pages=has_pages)
    return finish_each(
        "report",
        found,
        Rows(
            columns,
            lambda summary: summary.cells(columns),
            by="peak_bytes",
            devices=lambda summary: summary.devices,
        ),
        answer=answer_of(summaries),
        unfinished=sum(not summary.is_final for summary in summaries),
        output=output,
        version=_VERSION,
        shown=_without_directories(found) if has_pages else None,
        next=() if has_pages else None,
    )


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
            raise HloError("pages of several modules require a file", hint="use -o FILE.html")
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


def _with_pages(found: Sequence[ScanResult[_Answer]], index: str | None) -> list[ScanResult[ModuleSummary]]:
    """The summaries with the names of their pages, to which the unfinished ones are moved."""
    names = iter(page_names(index or "", [each.module or "" for each in found if each.answer is not None]))
    results = list[ScanResult[ModuleSummary]]()
    for each in found:
        summary = None
        if each.answer is not None:
            summary, name = each.answer.summary, next(names)
            if each.answer.unfinished is not None:
                os.replace(each.answer.unfinished, os.path.join(os.path.dirname(index or ""), name))
                summary = replace(summary, page=name)
        results.append(ScanResult(each.path, each.module, each.stage, summary, each.problem, each.errors, each.remark))
    return results
