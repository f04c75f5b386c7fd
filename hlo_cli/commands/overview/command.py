"""`hlo overview`, which `hlo DUMP` implies: one screen that answers what runs, whether it fits, and what costs most."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_option
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import io_of, io_options
from hlo_cli.commands.options.writing import write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded


@dataclass(frozen=True, slots=True)
class OverviewOptions:
    """The chip to judge by, if it is not the one that the dump names."""

    chip: str | None = chip_option("Check memory and estimate times for this chip")


HELP = """\
Say what runs, whether it fits, what costs most, and what to fix first.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. Of several modules, the main one is reported: the program's, by cost.
"""
EXAMPLES = (
    "hlo overview dump/",
    "hlo dump/",
    "hlo overview dump/ --chip v5e",
    "hlo overview dump/ --module jit_eval",
    "hlo overview dump/ --json",
)
DETAILS = """\
`hlo dump/` is `hlo overview dump/`. Modules made from functions of the program
come first, then those that JAX compiles to run its own functions one by one,
such as jit__normal: the helpers. Within both, the order is by cost, the mean of
the shares in the bytes, flops, and kernels of all modules. A function whose
results take the memory of donated arguments, such as a decoding step, counts 10
times.
`hlo parse dump/` lists all modules.

Lines are those of the program, not of libraries. Memory is checked against the
chip that the dump names, or against --chip.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(OverviewOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads the module that costs most, and what it takes to say the most important about it."""
    output, reading = io_of(given)
    options = OverviewOptions(**given)
    from hlo_cli.analysis.cache import sharing
    from hlo_cli.commands.modules.loading import Many, one_or_many, read_one, what_was_read
    from hlo_cli.commands.overview.report import others_of, report_of_overview, with_hosts
    from hlo_cli.inputs.dumps import hosts_in

    hosts = hosts_in(inputs[0]) if len(inputs) == 1 and reading.module is None else ()
    shown = hosts[0][1] if hosts else inputs
    chosen, others = one_or_many(shown, reading), None
    argument = reading.command_line(shown)
    if isinstance(chosen, Many):
        others = others_of(chosen, reading)
        argument = others.argument
        chosen = others.chosen
    loaded = read_one(chosen, reading)
    if not _is_whole(loaded):
        from hlo_cli.commands.parse.command import summary_of

        return write_report(summary_of(loaded, inputs, reading), output, loaded.module.errors)
    problems = () if others is None else others.problems
    with sharing():
        folder = inputs[0] if len(inputs) == 1 and os.path.isdir(inputs[0]) else ""
        report = report_of_overview(loaded, options.chip, argument, others, folder=folder)
        if hosts:
            report = with_hosts(report, inputs[0], [name for name, _ in hosts])
        return write_report(report, output, problems, read=what_was_read(loaded.module))


def _is_whole(loaded: Loaded) -> bool:
    """Whether a text is a whole program, of which memory and costs are known, not a single instruction."""
    from hlo_cli.commands.modules.loading import check_running
    from hlo_cli.commands.parse.overview import lone_instruction

    try:
        check_running(loaded.module)
    except HloError:
        return False
    return not (loaded.module.is_part or loaded.module.errors or lone_instruction(loaded.module))


def options_of_parse_alone() -> frozenset[str]:
    """The options that `hlo parse` has and the overview does not: with one of them, an input is one of `parse`.

    >>> sorted(options_of_parse_alone() & {"--tree", "--json", "--top"})
    ['--tree']
    """
    from hlo_cli.commands.parse.command import command as parse

    own, other = ({name for parameter in each.params for name in parameter.opts} for each in (command, parse))
    return frozenset(other - own)
