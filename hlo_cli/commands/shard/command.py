"""`hlo shard`: what each device holds, and what travels along which axis of the mesh."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, io_of, io_options
from hlo_cli.commands.options.writing import write_report
from hlo_cli.commands.shape.argument import is_hlo_text, is_sharding_text, resolve_name
from hlo_cli.commands.shard.options import ShardOptions
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError

HELP = """\
Show shards, replication, and collectives by mesh axis.

INPUT is a shape with its sharding, an instruction in a dump (DUMP:NAME), or a
dump: a file, a directory written by --xla_dump_to, a glob, or - for stdin.
Several modules get one row each.
"""
EXAMPLES = (
    "hlo shard 'f32[16,6]' '{devices=[4,2]<=[8]}' --mesh data=4,model=2",
    "hlo shard 'f32[16,6]' '{devices=[4,2]<=[8]}' --device 5",
    "hlo shard 'f32[16,6]' '{devices=[4,2]<=[8]}' --to '{devices=[2,4]<=[8]}'",
    "hlo shard dump/ --where 'replication > 1'",
    "hlo shard dump/ --comms",
    "hlo shard dump/ --comms --by source --chip v5e",
    "hlo shard --warning log.txt",
)


@click.command(cls=Command, help=HELP, examples=EXAMPLES)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(ShardOptions)
@io_options
def command(inputs: tuple[str, ...], **arguments: Any) -> int:
    """Answers for a shape and its sharding, for a dump, or for a warning."""
    output, reading = io_of(arguments)
    options = ShardOptions(**arguments)
    if options.warning is not None:
        from hlo_cli.commands.shard.reshard import report_of_warning

        return write_report(report_of_warning(options), output)
    if inputs and (is_hlo_text(inputs[0]) or resolve_name(inputs[0], reading) is not None):
        options.check_for_shape()
        return write_report(_of_shape(inputs, options, reading), output)
    options.check_for_dump()
    return _of_dump(inputs, options, reading, output)


def _of_shape(inputs: tuple[str, ...], options: ShardOptions, reading: InputOptions) -> Report:
    """The report on a shape with its sharding, or on an instruction of a dump, or on the way to another sharding."""
    from hlo_cli.commands.shard.given import given_array

    given = given_array(inputs, options, reading)
    if given.target is not None:
        from hlo_cli.commands.shard.reshard import report_of_steps

        return report_of_steps(given)
    from hlo_cli.commands.shard.array import report_of_shape

    return report_of_shape(given, options)


def _of_dump(inputs: tuple[str, ...], options: ShardOptions, reading: InputOptions, output: OutputOptions) -> int:
    """Reports on the parameters or on the collectives of a dump, or on many dumps."""
    from hlo_cli.commands.modules.loading import Many, load, what_was_read

    if any(is_sharding_text(each) and not os.path.exists(each) for each in inputs):
        raise HloError("a sharding requires a shape or DUMP:NAME", hint=f"for example: {EXAMPLES[0]}")
    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=options.about_one)
    if isinstance(loaded, Many):
        from hlo_cli.commands.shard.dump import shard_each

        return shard_each(loaded, reading, options, output)
    module, argument = loaded.module, reading.command_line(inputs)
    if module.is_truncated and not module.has_entry:
        cut = Diagnostic("error", "truncated before the ENTRY computation; parameters and executions are unknown")
        raise HloError.of((cut, *module.errors))
    if options.comms:
        from hlo_cli.commands.shard.comms import report_of_comms

        report = report_of_comms(loaded, options, argument)
    else:
        from hlo_cli.commands.shard.dump import report_of_dump

        report = report_of_dump(loaded, options, argument)
    if module.is_truncated:
        report = replace(report, answer=f"The dump is truncated; {report.answer[:1].lower()}{report.answer[1:]}")
    return write_report(report, output, module.errors, read=what_was_read(module))
