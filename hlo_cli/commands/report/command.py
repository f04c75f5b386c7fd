"""`hlo report`: one self-contained page that answers the usual questions about a dump."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, io_of, io_options, requirement_error
from hlo_cli.commands.options.writing import note_written, write_and_open, write_report
from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.inputs.files import is_folder
from hlo_cli.report.report import Part, Report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import LoadedProfile

HELP = """\
Write one page that answers the usual questions about a dump.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin; or a profiler's trace, as for `hlo profile`. The page is a single file
without network access, so it can be sent. Of several modules, -o FILE.html has
the pages of those that cost most in one file, and -o DIR/ has a page for each.
"""
EXAMPLES = (
    "hlo report dump/ -o report.html",
    "hlo report dump/ --chip v5e --open",
    "hlo report dump/ -o pages/ --jobs 4",
    "hlo report dump/ --json",
    "hlo report dump/ --profile trace.xplane.pb -o report.html",
)
DETAILS = """\
The page begins with verdicts and with what to do first: changes with the bytes
and the time that they are worth. Below are memory over time, the schedule on
the same axis, kernels, collectives, source lines, padding, and findings. Its
numbers are those of memspace, schedule, fuse, shard, layout, and lint. It
contains no directories of this machine; source lines keep the names of files.

Without -o, a terminal shows the verdicts, and a pipe gets one line for each.
Several modules with -o FILE.html are one file: the page of the module that
costs most, links to those of others, and a table of all. Helper modules and
those below 1% of the cost are omitted and counted. With -o DIR/, the folder
gets index.html and MODULE.html for each. A note lists what was written.

Verdicts are good, warning, bad, or neutral:
  memory     bad if a memory of the chip is too small; warning from 95% of main
             memory on; the chip is that of --chip, else that of the dump
  transfers  warning if 5% of the time of an execution or more is exposed; if no
             chip is known, if 5% of the bytes or more overlap no kernel
  measured   neutral: the measured time of a step or run, with --profile
  padding    good below 10%; else warning if better orders save 1% or more
  findings   bad with errors, warning with warnings

Exits with code 0 whatever the verdicts are, and with code 2 if an input cannot
be read. Use memspace and lint to check limits in scripts.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(ReportOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, runs the analyses of the other commands, and writes their results as one report."""
    output, reading = io_of(given)
    options = ReportOptions(**given)
    folder = _in_folder(output)
    output = folder or output
    trace = _trace_of(inputs[0]) if options.profile is None and len(inputs) == 1 else None
    if trace is not None and all(program.module is None for program in trace.profile.programs):
        return _write_trace(trace, options, output)
    if trace is not None:
        options, inputs = replace(options, profile=trace.path), ()
    if options.profile is not None and not inputs:
        inputs, reading = (options.profile,), _of_longest(options, reading)
    if not options.open:
        return _write(inputs, options, output, reading, in_folder=folder is not None)

    def write(page: OutputOptions) -> int:
        return _write(inputs, options, page, reading, in_folder=folder is not None)

    return write_and_open(output, "report.html", write)


def _write_trace(trace: LoadedProfile, options: ReportOptions, output: OutputOptions) -> int:
    """Writes the report on a trace without modules; returns the exit code."""

    def write(page: OutputOptions) -> int:
        code = write_report(_report_of_trace(trace, options, is_page=page.format == "html"), page)
        note_written(page)
        return code

    return write_and_open(output, "report.html", write) if options.open else write(output)


def _in_folder(output: OutputOptions) -> OutputOptions | None:
    """The output as the index in the folder that -o names, which is made if it ends in a slash; None for a file."""
    path = output.path
    is_page = output.format == "html" or (output.format == "table" and not output.is_format_given)
    if path is None or not is_page or not (path.endswith((os.sep, "/")) or os.path.isdir(path)):
        return None
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise HloError(f"cannot write {path}: {error.strerror or error}") from error
    return replace(output, format="html", path=os.path.join(path, "index.html"))


def _trace_of(path: str) -> LoadedProfile | None:
    """The profile at a path that names a trace, if it has timed operations; else the modules in it are read.

    HloError of the reader of traces for a file that cannot have modules.
    """
    from hlo_cli.read_traces import is_named_trace

    if not is_named_trace(path):
        return None
    from hlo_cli.commands.profile.measured import read_profile

    try:
        profile = read_profile(path, (), InputOptions())
    except HloError:
        if ".xplane.pb" in path or is_folder(path):
            return None
        raise
    return profile if profile.profile.operations else None


def _report_of_trace(profile: LoadedProfile, options: ReportOptions, *, is_page: bool) -> Report:
    """What a trace shows without the modules that ran: times by instruction, kind, and step, and the timeline."""
    from hlo_cli.commands.options.chips import chosen_throughput
    from hlo_cli.commands.profile.by_group import (
        has_event_times,
        report_of_groups,
        report_of_steps,
        report_of_timeline,
    )
    from hlo_cli.commands.profile.by_operation import report_of_operations
    from hlo_cli.commands.profile.measured import Measured

    measured = Measured(profile, chip=chosen_throughput(options.chip, options.chip_file))
    operations = report_of_operations(measured)
    if not is_page:
        return replace(operations, next=(f"hlo report {profile.argument} -o report.html", *operations.next[:1]))
    reports = [operations, report_of_groups(measured, "kind")]
    reports += [report_of_steps(measured)] if profile.profile.steps else []
    reports += [report_of_timeline(measured, None)] if has_event_times(measured) else []
    parts = {part.name: part for report in reports[1:] for part in _titled(report)}
    parts = {part.name: part for part in operations.parts} | parts
    return replace(operations, parts=tuple(parts.values()), next=())


def _titled(report: Report) -> Iterator[Part]:
    """The parts of a report, its main table under what the report answers."""
    for part in report.parts:
        if part.kind == "table" and part.name == report.main_table.name and not part.title:
            yield replace(part, title=report.answer)
        else:
            yield part


def _of_longest(options: ReportOptions, reading: InputOptions) -> InputOptions:
    """Reads the module of a trace that took most time, unless all or another one are selected."""
    if reading.module is not None or options.each or options.profile is None:
        return reading
    from hlo_cli.commands.profile.measured import read_profile
    from hlo_cli.commands.report.sources import longest_module

    return replace(reading, module=longest_module(read_profile(options.profile, (), reading)))


def _write(
    inputs: tuple[str, ...], options: ReportOptions, output: OutputOptions, reading: InputOptions, *, in_folder: bool
) -> int:
    """Writes the report on one module, or the index and the pages of several; returns the exit code."""
    from hlo_cli.analysis.cache import sharing
    from hlo_cli.commands.modules.loading import Many, check_running, load, what_was_read
    from hlo_cli.commands.report.page import report_of_module

    options.check_chip()
    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, checks=True)
    if isinstance(loaded, Many):
        if options.profile is not None and output.path is None:
            hint = "select it with --module NAME, or write one page per module with -o FILE.html"
            raise requirement_error("--profile", "one module", hint=hint)
        from hlo_cli.commands.report.index import report_each

        return report_each(loaded, reading, options, output, in_folder=in_folder)
    check_running(loaded.module)
    with sharing():  # tables are computed when they are written
        report = report_of_module(loaded, options, reading.command_line(inputs))
        code = write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))
    note_written(output)
    return code
