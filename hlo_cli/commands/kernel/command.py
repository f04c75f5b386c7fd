"""`hlo kernel`: the kernels that a program brings along, and what each reads, holds, and computes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option, chosen_throughput, throughput_for
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import (
    argument,
    each_option,
    flag,
    jobs_option,
    timeout_option,
    where_option,
)
from hlo_cli.commands.options.io_options import check_options, conflict_error, given_about, io_of, io_options
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.options.io_options import OutputOptions

HELP = """\
Show the kernels of a program: grid, windows, memory, and work.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. Several modules get one row each. NAME is the instruction that calls a
kernel.
"""
EXAMPLES = (
    "hlo kernel dump/",
    "hlo kernel dump/ matmul.1",
    "hlo kernel dump/ --chip v5e",
    "hlo kernel dump/ --where 'vmem_bytes > 1MiB'",
    "hlo kernel dump/ matmul.1 --body",
)
DETAILS = """\
Pallas kernels for TPUs are read from the body in their call: the grid, the
blocks of each operand and result, the scratch, the matmuls, and the copies.
VMEM is what libtpu reserves for windows and scratch. The compiler adds scratch
of its own and registers that it spills, which the text of a dump does not say;
they are the rest of its own figure, if the dump has it.
Bytes are moved between main memory and the kernel: a block that stays is moved
once. Of Triton and cuDNN kernels for GPUs, the configuration is shown.
"""

_IS_TEXT = "--body prints MLIR; use -o FILE.mlir to write it to a file"


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """The kernel that is selected, and what to show of it."""

    name: str | None = argument("NAME", about="one", excludes=("--where",))
    body: bool = flag(
        "--body",
        group="Reports",
        is_common=True,
        help="Print the MLIR of the kernel NAME.",
        about="one",
        excludes=("--where", "--chip", "--chip-file"),
        needs="NAME",
    )
    where: str | None = where_option(about="one")
    chip: str | None = chip_option("Estimate time and limits on this chip")
    chip_file: str | None = chip_file_option()
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    def check(self) -> None:
        """Raises HloError for options without effect."""
        check_options(self)


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("arguments", nargs=-1, metavar="INPUT [NAME]", shell_complete=completion.file_and_name)
@with_options(KernelOptions)
@io_options
def command(arguments: tuple[str, ...], **given: Any) -> int:
    """Reads, computes, and reports."""
    output, reading = io_of(given, writes=("mlir",) if given["body"] else ())
    inputs, name = _input_and_name(arguments)
    options = KernelOptions(name=name, **given)
    options.check()
    if options.body and output.is_format_given:
        raise conflict_error("--body", "--json" if output.json else f"--format {output.format}", hint=_IS_TEXT)
    from hlo_cli.commands.modules.loading import Many, load, what_was_read

    chosen = chosen_throughput(options.chip, options.chip_file)  # an unknown chip is an error before inputs are read
    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=given_about(options, "one"))
    if isinstance(loaded, Many):
        from hlo_cli.commands.kernel.kernel_list import kernel_each

        return kernel_each(loaded, reading, options.jobs, chosen, output)
    if options.body and options.name is not None:
        return _write_body(loaded, options.name, output)
    throughput = throughput_for(loaded.input, options.chip, options.chip_file)
    argument = reading.command_line(inputs)
    if options.name is not None:
        from hlo_cli.commands.kernel.one_kernel import report_of_kernel

        report = report_of_kernel(loaded, options.name, throughput, argument)
    else:
        from hlo_cli.commands.kernel.kernel_list import report_of_kernels

        report = report_of_kernels(loaded, throughput, options.where, argument)
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _input_and_name(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The inputs, and the name of a kernel if one follows them."""
    # no name of an instruction has a slash or a wildcard, but a missing file and a glob do
    if len(arguments) < 2 or os.path.exists(arguments[-1]) or set(arguments[-1]) & set("*?[/"):
        return arguments, None
    return arguments[:-1], arguments[-1]


def _write_body(loaded: Loaded, name: str, output: OutputOptions) -> int:
    """Writes the MLIR of a kernel, with the place of each operation."""
    from hlo_cli.commands.kernel.one_kernel import body_lines
    from hlo_cli.commands.modules.loading import notes_of

    write(body_lines(loaded, name), output.path)
    return print_diagnostics(notes_of(loaded), loaded.module.errors, output)
