"""`hlo graph`: the dataflow of a module, folded by default."""

from __future__ import annotations

from typing import Any

import click

from hlo_cli.commands.graph.options import GraphOptions
from hlo_cli.commands.shared import completion
from hlo_cli.commands.shared.chips import chip_options
from hlo_cli.commands.shared.command import OUTPUT, Command, flag, option
from hlo_cli.commands.shared.io_options import io_of, io_options
from hlo_cli.commands.shared.writing import write_report

HELP = """\
Draw the dataflow of a module, a computation, or a neighborhood.

INPUT is a dump: a file, a directory written by --xla_dump_to, or - for stdin.
"""
EXAMPLES = (
    "hlo graph dump/ -o graph.html",
    "hlo graph dump/ --around fusion.2 --depth 1",
)


@click.command(cls=Command, help=HELP, examples=EXAMPLES)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@option(
    "--computation",
    group="Filters",
    is_common=True,
    metavar="NAME",
    shell_complete=completion.computations,
    help="Draw this computation instead of the entry.",
)
@option(
    "--around",
    group="Filters",
    is_common=True,
    metavar="NAME",
    shell_complete=completion.instructions,
    help="Draw the neighborhood of this instruction.",
)
@option(
    "--depth",
    group="Filters",
    is_common=True,
    type=click.IntRange(min=0),
    metavar="N",
    default=2,
    help="Include neighbors at a distance of at most N edges.",
)
@chip_options("Estimate times on this chip")
@flag("--open", group=OUTPUT, is_common=True, help="Show the page in a web browser.")
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, folds, and draws."""
    output, reading = io_of(given)
    options = GraphOptions(**given)
    from hlo_cli.commands.graph.report import report_of_graph
    from hlo_cli.commands.shared.load import load_one, what_was_read

    loaded = load_one(inputs, reading)
    report = report_of_graph(loaded, options)
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))
