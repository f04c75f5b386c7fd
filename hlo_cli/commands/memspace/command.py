"""`hlo memspace`: memory usage over time in each memory space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, io_of, io_options
from hlo_cli.commands.options.writing import write_report
from hlo_cli.report.report import Report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded
HELP = """\
Show memory use, live ranges, and the peak of each memory space.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. Several modules get one row each, and each is checked.
"""
EXAMPLES = (
    "hlo memspace dump/",
    "hlo memspace dump/ --chip v5e",
    "hlo memspace dump/ --space VMEM --by source",
    "hlo memspace dump/ --value copy.10",
    "hlo memspace dump/ -o memory.html",
    "hlo memspace dump/ --oom error.txt",
)
DETAILS = """\
Without a report option, the values that are live at the peak are listed.
The peak is that of live values; if the dump has a proto, the higher peak of
XProf's memory viewer is reported too.
Numbers are computed with the rules of XLA's buffer assignment. If the dump
includes the compiler's own buffer assignment, its numbers are used. XLA release
0.10.2 is that of jaxlib 0.10.2; 2026-08 is XLA's source of August 2026. See
`hlo help memory` for live ranges, allocations, and how to lower the peak.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(MemspaceOptions)
@io_options
def command(inputs: tuple[str, ...], **arguments: Any) -> int:
    """Reads, computes, and reports."""
    output, reading = io_of(arguments)
    from hlo_cli.commands.modules.loading import Many, check_running, load, part_error, what_was_read
    from hlo_cli.inputs.files import STDIN

    options = MemspaceOptions(**arguments)
    options.check()
    if options.oom is not None:
        return _explain_error(options, inputs, reading, output)
    loaded = load(
        inputs, reading, each=options.each, jobs=options.jobs, about_one=options.about_one, checks=options.has_limit
    )
    if isinstance(loaded, Many):
        from hlo_cli.commands.memspace.report import memspace_each

        return memspace_each(loaded, reading, options, output)
    check_running(loaded.module)
    report = _report(loaded, options, reading.command_line(inputs))
    errors = loaded.module.errors
    if loaded.module.is_part and report.numbers.get("fits"):
        # A part of a module needs less than the whole, so that it fits proves nothing.
        errors = (*errors, part_error(loaded.input.path or STDIN))
    code = write_report(report, output, errors, read=what_was_read(loaded.module))
    return code or int(report.numbers.get("fits") is False)


def _explain_error(
    options: MemspaceOptions, inputs: tuple[str, ...], reading: InputOptions, output: OutputOptions
) -> int:
    """Answers the out-of-memory error of `--oom`, with the dump if one is given."""
    from hlo_cli.inputs.input import read_plain

    if not inputs and options.has_limit:
        from shlex import quote  # rarely needed

        given = "--chip" if options.limit is None else "--limit"
        raise HloError(
            f"{given} with --oom requires a dump", hint=f"hlo memspace DUMP --oom {quote(options.oom or '-')}"
        )
    source = read_plain(options.oom or "-")
    if not inputs:
        from hlo_cli.commands.memspace.oom import report_of_message
        from hlo_cli.ir.out_of_memory import KERNEL_SPACES

        report = report_of_message(source)
        if report.numbers["kind"] in KERNEL_SPACES:
            from hlo_cli.commands.memspace.oom_kernel import report_next_to_dump  # rarely needed

            report = report_next_to_dump(source) or report
        return write_report(report, output)
    from hlo_cli.commands.memspace.compiler_files import compiler_memory
    from hlo_cli.commands.memspace.oom_dump import load_dump, report_of_message_and_dump
    from hlo_cli.commands.modules.loading import check_running, what_was_read

    loaded, argument = load_dump(source, inputs, reading, options.about_one)
    check_running(loaded.module)
    memory = compiler_memory(loaded, chip=options.chip, release=options.release)
    report = report_of_message_and_dump(source, loaded, memory, options, argument)
    code = write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))
    return code or int(options.has_limit and report.numbers.get("fits") is False)


def _report(loaded: Loaded, options: MemspaceOptions, argument: str) -> Report:
    from hlo_cli.commands.memspace.compiler_files import compiler_memory, compiler_viewer_peaks, estimate_and_assignment

    if options.compare:
        from hlo_cli.commands.memspace.values import report_of_comparison

        estimate, assignment = estimate_and_assignment(loaded, chip=options.chip, release=options.release)
        if assignment is None:
            raise HloError(
                "no buffer assignment found next to the dump",
                hint="use a dump of the after_optimizations stage, with which XLA writes it",
            )
        return report_of_comparison(loaded, estimate, assignment)
    memory = compiler_memory(loaded, chip=options.chip, release=options.release)
    if options.value is not None:
        from hlo_cli.commands.memspace.values import report_of_value

        return report_of_value(loaded, memory, options.value)
    if options.traffic:
        from hlo_cli.commands.memspace.values import report_of_traffic

        return report_of_traffic(loaded, memory, options.where)
    from hlo_cli.commands.memspace.report import report_of_memory

    return report_of_memory(loaded, memory, options, argument, compiler_viewer_peaks(loaded))
