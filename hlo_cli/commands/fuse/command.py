"""`hlo fuse`: fusions, the memory traffic that they avoid, and the cost of every instruction."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.fuse.options import FuseOptions
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chosen_throughput, throughput_for
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import OutputOptions, given_about, io_of, io_options
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.fuse.kernel_kinds import TimingColumns
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.ir.instruction import Computation
HELP = """\
List fusions, kernels, and costs, or try other fusions.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. Several modules get one row each, and each is checked. NAME is a fusion,
a custom call with --custom-calls or --c-signature, or with --why-not an
instruction or PRODUCER,CONSUMER.
"""
EXAMPLES = (
    "hlo fuse dump/",
    "hlo fuse dump/ multiply_add_fusion.2",
    "hlo fuse dump/ --where 'hero ~ reduce and saved_bytes > 1MiB'",
    "hlo fuse dump/ --cost --sort flops",
    "hlo fuse dump/ --by source --chip v5e",
    "hlo fuse dump/ --dots --chip v5e",
    "hlo fuse dump/ --custom-calls",
    "hlo fuse dump/ --why-not",
    "hlo fuse dump/ loop_add_fusion,input_reduce_fusion --why-not",
    "hlo fuse dump/ --unfuse all --run-pass",
    "hlo fuse dump/ --run-pass --chip h100",
    "hlo fuse dump/ --run-pass --fusion-rules multi-output",
    "hlo fuse dump/ --fuse tanh.3,multiply.7 --keep -o new.hlo",
)
DETAILS = """\
Without a report option, each fusion is listed with the bytes that it reads and
writes and the memory traffic that it saves. Costs are those of XLA's cost
analysis. See `hlo help fusion` for the terms, and `hlo help chips` for
estimated times. With a GPU in --chip, or for a dump that names its GPU,
--run-pass makes the fusions of XLA:GPU, --why-not gives its reasons and times,
and changes have a predicted time; --chip h100,b200 compares GPUs (see
`hlo help gpu-fusion`).

Options that change fusions can be combined: --unfuse comes first, then --fuse,
then --run-pass. `--format hlo` and -o FILE.hlo write the resulting module.
With --verify, both modules run on random arguments (see `hlo help comparing`).

Values of --fusion-rules:
  cpu             apply the CPU compiler's rules, also to a GPU module
  multi-output    form fusions with several results; never duplicate work
  no-duplication  never compute an instruction in two fusions
  guard-softmax   keep the operand of a softmax in memory, as newer XLA does
  wrap-transpose  wrap single transposes in fusions, as newer XLA does
  no-wrap         do not wrap single instructions in fusions

Exits with code 1 if the module violates XLA's rules for fusions, or if --verify
finds other results.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("arguments", nargs=-1, metavar="INPUT [NAME]", shell_complete=completion.file_and_name)
@with_options(FuseOptions)
@io_options
def command(arguments: tuple[str, ...], **given: Any) -> int:
    """Reads, computes, and reports."""
    output, reading = io_of(given, writes=("hlo",))
    inputs, name = _input_and_name(arguments)
    options = FuseOptions(name=name, **given)
    options.check()
    from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
    from hlo_cli.commands.fuse.kernel_kinds import TimingColumns, timing_of
    from hlo_cli.commands.modules.loading import Many, check_running, load, what_was_read

    is_of_gpus = (options.why_not or options.changes.is_requested) and bool(options.changes.gpus)
    throughput = None if is_of_gpus else chosen_throughput(options.chip, options.chip_file)
    timing = TimingColumns(throughput) if throughput is not None else None
    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=given_about(options, "one"))
    if isinstance(loaded, Many):
        from hlo_cli.commands.fuse.fusion_table import fuse_each

        return fuse_each(loaded, reading, options.jobs, timing, output)
    if not is_of_gpus:
        throughput = throughput_for(loaded.input, options.chip, options.chip_file)
    timing = timing_of(loaded, throughput)
    if not options.is_of_parts:
        check_running(loaded.module)
    broken = () if options.is_about_calls else tuple(verify_fusions(loaded.module))
    if options.why_not or options.changes.is_requested:
        # decisions on fusions follow operands and bodies, which an error may have changed
        _check_sound((*loaded.module.errors, *broken))
    if options.c_signature:
        from hlo_cli.commands.fuse.custom_calls import write_c

        return write_c(loaded, output, name=name, within=_within(loaded, options))
    if options.changes.is_requested:
        from hlo_cli.commands.fuse.what_if import options_for_gpu

        options = options_for_gpu(options, loaded, output)
    if options.changes.is_requested and output.is_module:
        return _write_module(loaded, options, output)
    report = _selected_report(loaded, options, timing, reading.command_line(inputs), output.requested_columns)
    # those reports state what the module is on their own
    if not (options.is_one_fusion or options.why_not or options.changes.is_requested):
        from hlo_cli.commands.modules.loading import bounded_report

        report = bounded_report(report, loaded, has_times=timing is not None)
    code = write_report(report, output, (*loaded.module.errors, *broken), read=what_was_read(loaded.module))
    if options.verify and not code:
        from hlo_cli.commands.modules.rewriting import is_refuted

        code = is_refuted(report)
    return code if loaded.module.errors else min(code, 1)


def _input_and_name(arguments: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The inputs, and the name of a fusion if one follows them."""
    # no name of an instruction has a slash or a wildcard, but a missing file and a glob do
    if len(arguments) < 2 or os.path.exists(arguments[-1]) or set(arguments[-1]) & set("*?[/"):
        return tuple(arguments), None
    return tuple(arguments[:-1]), arguments[-1]


def _write_module(loaded: Loaded, options: FuseOptions, output: OutputOptions) -> int:
    """Writes the changed module as canonical text."""
    from hlo_cli.commands.fuse.what_if import what_if
    from hlo_cli.commands.modules.loading import notes_of
    from hlo_cli.commands.modules.rewriting import verify_if
    from hlo_cli.transform.in_place_hazards import copies_note

    result = what_if(loaded.module, options.changes)
    verified = verify_if(options.verify, loaded.module, result.module)
    write(result.module.chunks(), output.path)
    notes = [Diagnostic("note", words) for words in copies_note(result.copies)]
    code = print_diagnostics((*verified.notes, *notes, *notes_of(loaded)), loaded.module.errors, output)
    return code or verified.exit_code


def _check_sound(problems: Sequence[Diagnostic]) -> None:
    """Raises HloError if a module has errors, as its fusion decisions would be undefined."""
    if any(each.severity == "error" for each in problems):
        raise HloError.of((Diagnostic("error", "cannot run fusion on a module with errors"), *problems))


def _within(loaded: Loaded, options: FuseOptions) -> Computation | None:
    return None if options.computation is None else loaded.module.computation(options.computation)


def _selected_report(
    loaded: Loaded, options: FuseOptions, timing: TimingColumns | None, argument: str, columns: Collection[str]
) -> Report:
    within, where = _within(loaded, options), options.where
    if options.custom_calls:
        from hlo_cli.commands.fuse.custom_calls import report_of_custom_calls

        return report_of_custom_calls(loaded, name=options.name, within=within, where=where, argument=argument)
    if options.is_one_fusion and options.name is not None:
        from hlo_cli.commands.fuse.fusion_table import report_of_fusion

        return report_of_fusion(loaded, options.name, timing=timing, argument=argument)
    if len(options.changes.gpus) > 1 and options.apply:
        from hlo_cli.commands.fuse.why_not import report_of_compared_chips

        chips = options.changes.gpus
        return report_of_compared_chips(loaded, chips, within=within, where=where, argument=argument)
    if options.changes.is_requested:
        from hlo_cli.commands.fuse.what_if import report_of_what_if, what_if
        from hlo_cli.commands.modules.rewriting import verify_if

        result = what_if(loaded.module, options.changes)
        report = report_of_what_if(loaded, result, options.changes, argument=argument)
        return verify_if(options.verify, loaded.module, result.module).added_to(report)
    if options.why_not:
        from hlo_cli.commands.fuse.why_not import report_of_reasons

        return report_of_reasons(loaded, options, within=within, argument=argument)
    if options.cost:
        from hlo_cli.commands.fuse.costs import report_of_costs

        return report_of_costs(
            loaded,
            as_xla=options.as_xla,
            within=within,
            where=where,
            timing=timing,
            argument=argument,
            requested_columns=columns,
        )
    if options.dots:
        from hlo_cli.commands.fuse.costs import report_of_dots

        return report_of_dots(loaded, within=within, where=where, timing=timing)
    if (cause := cause_of(options.grouping)) is not None:
        from hlo_cli.commands.fuse.costs import report_of_causes

        return report_of_causes(loaded, cause, within=within, where=where, timing=timing, argument=argument)
    from hlo_cli.commands.fuse.fusion_table import report_of_fusions

    return report_of_fusions(loaded, within=within, where=where, timing=timing, argument=argument)
