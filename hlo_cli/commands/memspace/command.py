"""`hlo memspace`: memory usage over time in each memory space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.shared.io_options import io_of, io_options
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.commands.shared.where import where_option
from hlo_cli.commands.shared.writing import write_report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.memspace.options import MemspaceOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.report.report import Report

GROUPINGS = ("value", "scope", "op_name", "source", "kind", "shape", "opcode")
RELEASES = ("0.10.2", "2026-08")

HELP = """What fills each memory, and when.

INPUT is a dump: a file, a directory that --xla_dump_to wrote, a glob, or - for standard input; of several modules,
each gets a row and is checked. Lives and sizes are computed as XLA's own buffer assignment does; where the compiler's
lies beside the dump, the numbers are its own.

\b
Examples:
  hlo memspace dump/ --chip v5e
  hlo memspace dump/ --space VMEM --by source
  hlo memspace dump/ --value copy.10
  hlo memspace dump/ -o memory.html
  hlo memspace dump/ --oom error.txt
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--space", metavar="SPACE", help="Which memory: HBM, VMEM …, its number, or all.")
@click.option("--at", metavar="NAME", help="What is alive at this instruction, not at the peak.")
@click.option("--value", metavar="NAME", help="The life of one value: NAME, or NAME{1} for an element of a tuple.")
@click.option("--by", "grouping", type=click.Choice(GROUPINGS), default="value", help="What makes a row.")
@click.option("--traffic", is_flag=True, help="What is moved between memories, and how far ahead.")
@click.option("--limit", metavar="SIZE", help="Whether it fits into this, as 16GiB; exit code 1 if not.")
@click.option("--chip", metavar="NAME", help="Whether it fits this chip: v5e, h100 …; exit code 1 if not.")
@click.option("--gate-unoptimized", is_flag=True, help="With --chip: exit 1 also for a module before optimization.")
@click.option("--compare", is_flag=True, help="What the text alone tells, against the compiler's own files.")
@click.option("--oom", metavar="FILE", help="An out-of-memory error to explain, or - for standard input.")
@click.option("--release", type=click.Choice(RELEASES), default=RELEASES[0], help="Whose rules are followed.")
@where_option
@each_options
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, computes, and reports."""
    output, reading = io_of(given)
    from hlo_cli.commands.memspace.options import about_one, memspace_options
    from hlo_cli.commands.shared.load import check_running, load, what_was_read
    from hlo_cli.commands.shared.selection import Many

    single = about_one(given)
    options = memspace_options(given)
    if options.oom is not None and not inputs:
        from hlo_cli.commands.memspace.oom import report_of_message

        return write_report(report_of_message(options.oom, None), output)
    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=single)
    if isinstance(loaded, Many):
        from hlo_cli.commands.memspace.each import memspace_each

        return memspace_each(loaded, reading, options, output)
    check_running(loaded.module)
    if options.oom is not None:
        from hlo_cli.commands.memspace.oom import report_of_message

        return write_report(report_of_message(options.oom, loaded), output)
    report = _report(loaded, options, reading.again(inputs))
    code = write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))
    return code or int(report.numbers.get("fits") is False)


def _report(loaded: Loaded, options: MemspaceOptions, argument: str) -> Report:
    from hlo_cli.commands.shared.compiler_memory import compiler_memory, estimate_and_assignment

    if options.compare:
        from hlo_cli.commands.memspace.compare import report_of_comparison

        estimate, assignment = estimate_and_assignment(loaded, chip=options.chip, release=options.release)
        if assignment is None:
            raise HloError(
                "no buffer assignment found next to the dump",
                hint="use a dump of the after_optimizations stage, with which XLA writes it",
            )
        return report_of_comparison(loaded, estimate, assignment)
    memory = compiler_memory(loaded, chip=options.chip, release=options.release)
    if options.value is not None:
        from hlo_cli.commands.memspace.value import report_of_value

        return report_of_value(loaded, memory, options.value)
    if options.traffic:
        from hlo_cli.commands.memspace.traffic import report_of_traffic

        return report_of_traffic(loaded, memory, options.where)
    from hlo_cli.commands.memspace.report import report_of_memory

    return report_of_memory(loaded, memory, options, argument)
