"""`hlo profile`: measured times of a profiler's trace, joined to the instructions of its programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.profile.options import ProfileOptions
from hlo_cli.commands.shared import completion
from hlo_cli.commands.shared.command import Command
from hlo_cli.commands.shared.io_options import io_of, io_options
from hlo_cli.commands.shared.writing import write_report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.profile.load import Loaded
    from hlo_cli.report.report import Report

HELP = """\
Show how long each instruction took, from a profiler's trace.

TRACE is a file that jax.profiler wrote (.xplane.pb), or the directory that
holds it. A trace contains the programs that ran; DUMP gives those of a trace
that does not.
"""
EXAMPLES = (
    "hlo profile trace.xplane.pb",
    "hlo profile trace.xplane.pb --sort mean_seconds --top 10",
)
DETAILS = """\
Self time excludes that of events inside an event, such as the body of a while
loop. Shares are parts of the time of all devices, idle time included. See
`hlo help profiles`.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("arguments", nargs=-1, metavar="TRACE [DUMP] [NAME]", shell_complete=completion.file_and_name)
@io_options
def command(arguments: tuple[str, ...], **given: Any) -> int:
    """Reads, joins, and reports."""
    output, reading = io_of(given)
    path, dump, name = _inputs_and_name(arguments)
    options = ProfileOptions(name, **given)
    from hlo_cli.commands.profile.load import load_profile

    return write_report(_report(load_profile(path, dump, reading), options), output)


def _inputs_and_name(arguments: Sequence[str]) -> tuple[str, tuple[str, ...], str | None]:
    """The trace, the dumps for its programs, and the name of an instruction if one follows them."""
    if not arguments:
        raise HloError("hlo profile requires a trace", hint="run `hlo help profiles` to learn how to record one")
    first, *others = arguments
    if not others or os.path.exists(others[-1]) or set(others[-1]) & set("*?[/"):
        return first, tuple(others), None
    return first, tuple(others[:-1]), others[-1]


def _report(loaded: Loaded, options: ProfileOptions) -> Report:
    from hlo_cli.commands.profile.operations import report_of_operations

    return report_of_operations(loaded)
