"""`hlo report`: one self-contained page that answers the usual questions about a dump."""

from __future__ import annotations

from typing import Any

import click

from hlo_cli.commands.report.options import ReportOptions
from hlo_cli.commands.shared import completion
from hlo_cli.commands.shared.chips import chip_options
from hlo_cli.commands.shared.command import OUTPUT, Command, flag
from hlo_cli.commands.shared.io_options import io_of, io_options
from hlo_cli.commands.shared.writing import write_report

HELP = """\
Write one page that answers the usual questions about a dump.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. The page is a single file without network access, so it can be sent.
"""
EXAMPLES = (
    "hlo report dump/ -o report.html",
    "hlo report dump/ --chip v5e --open",
    "hlo report dump/ --json",
)
DETAILS = """\
The page has memory over time, the schedule on the same axis, kernels,
collectives, source lines, padding, and findings. Its numbers are those of the
other commands: memspace, schedule, fuse, shard, layout, and lint.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@flag("--open", group=OUTPUT, is_common=True, help="Show the page in a web browser.")
@chip_options("Judge memory and estimate times for this chip")
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, runs the analyses of the other commands, and writes their results as one report."""
    output, reading = io_of(given)
    options = ReportOptions(**given)
    from hlo_cli.analysis.cache import sharing
    from hlo_cli.commands.report.report import report_of_module
    from hlo_cli.commands.shared.load import check_running, load_one, what_was_read

    loaded = load_one(inputs, reading)
    check_running(loaded.module)
    with sharing():  # tables are computed when they are written
        report = report_of_module(loaded, options, reading.command_line(inputs))
        return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))
