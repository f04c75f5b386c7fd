"""`hlo graph`: the dataflow of a module, folded by default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from hlo_cli.commands.graph.options import GraphOptions
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, format_options, io_of, io_options_of
from hlo_cli.commands.options.writing import note_written, write_and_open, write_report

HELP = """\
Draw the dataflow of a module, a computation, or a neighborhood.

INPUT is a dump: a file, a directory written by --xla_dump_to, or - for stdin.
With OLD, the changes that `hlo diff` finds are marked.
"""
EXAMPLES = (
    "hlo graph dump/ -o graph.html",
    "hlo graph dump/ --around fusion.2 --depth 1",
    "hlo graph dump/ --between param.1 fusion.2 --format tree",
    "hlo graph dump/ --where 'opcode ~ \"all-\"' -o collectives.svg",
    "hlo graph dump/ --expand all --heat bytes -o graph.dot",
    "hlo graph old/ new/ --depth 1 -o changes.html",
)
DETAILS = """\
Constants, scalar parameters, tuples and their elements, and bitcasts are not
drawn: edges pass through them. Copies and slices between memories are dashed
edges, unless --transfers draws them. Nodes have XLA's colors; fusions have
that of the most costly operation in them. Edges are wider for more bytes.

HTML pages contain the whole module: fusions, loops, and calls open in place.
SVG and DOT files show what the options select. `--format tree` draws a part in
the terminal: operands above their users, with a line for each value.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="[OLD] INPUT", shell_complete=completion.files)
@with_options(GraphOptions)
@io_options_of("reader", "data", "document", "picture", "graph")
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, folds, and draws."""
    output, reading = io_of(given, writes=("dot", "gv"))
    output = replace(output, format="dot") if output.format == "gv" else output
    options = GraphOptions(**given)
    options.check(output, len(inputs))

    def write(page: OutputOptions) -> int:
        code = _write(inputs, options, page, reading)
        note_written(page)
        return code

    return write_and_open(output, "graph.html", write) if options.open else write(output)


def _write(inputs: tuple[str, ...], options: GraphOptions, output: OutputOptions, reading: InputOptions) -> int:
    """Writes the graph of one module, or of two with what changed; returns the exit code."""
    from hlo_cli.commands.modules.loading import load_main, load_one, what_was_read

    if len(inputs) == 2:
        from hlo_cli.commands.graph.compare import report_of_comparison

        old, new = (load_one([each], reading) for each in inputs)
        given = (*(("", each) for each in inputs), ("--stage", reading.stage), ("--module", reading.module))
        report = report_of_comparison(old, new, options, format_options(given))
        return write_report(report, output, (*old.module.errors, *new.module.errors))
    from hlo_cli.commands.graph.report import report_of_graph

    loaded = load_main(inputs, reading)
    report = report_of_graph(loaded, options, reading.command_line(inputs))
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))
