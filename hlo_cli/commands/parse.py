"""`hlo parse`: what is in a dump, its instructions and loops, its text again, one instruction taken apart."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.options import complain, finish, input_options, output_of, output_options, reading_of, write
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.loading import Loaded
    from hlo_cli.commands.options import Output
    from hlo_cli.report.report import Report

HELP = """What is in a dump; one instruction taken apart.

INPUT is a file, a directory that --xla_dump_to wrote, a glob, or - for standard input.

\b
Examples:
  hlo parse dump/ --tree
  hlo parse --explain 'add.936 = bf16[8,128]{1,0:T(8,128)(2,1)} add(a, b)'
  hlo parse dump.txt --format hlo -o canonical.txt
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--instructions", is_flag=True, help="List every instruction.")
@click.option("--tree", is_flag=True, help="Draw loops, branches and calls as they contain each other.")
@click.option("--explain", metavar="NAME", help="Take one instruction apart: a name, or its text; - reads it.")
@click.option("--computation", metavar="NAME", help="With --instructions: only those of this computation.")
@input_options
@output_options
def command(
    inputs: tuple[str, ...],
    instructions: bool,
    tree: bool,
    explain: str | None,
    computation: str | None,
    **options: object,
) -> int:
    """The summary, unless something else is asked for."""
    output, reading = output_of(options), reading_of(options)
    asked = [name for name, given in (("--instructions", instructions), ("--tree", tree)) if given]
    asked += ["--explain"] if explain is not None else []
    if len(asked) > 1 or (computation is not None and asked not in ([], ["--instructions"])):
        raise HloError(f"{' and '.join((*asked, *(['--computation'] if computation else ())))} do not go together")
    if explain is not None and not inputs:
        return finish(_explain_text(explain), output)
    from hlo_cli.commands.loading import load_one, what_was_read

    loaded = load_one(inputs, reading)
    if output.format == "hlo":
        return _print(loaded, output)
    argument = inputs[0] if len(inputs) == 1 else ""
    report = _report(loaded, argument, instructions, tree, explain, computation)
    return finish(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _report(
    loaded: Loaded, argument: str, instructions: bool, tree: bool, explain: str | None, computation: str | None
) -> Report:
    if explain is not None:
        from hlo_cli.commands.explain import explain_instruction

        return explain_instruction(loaded.module, loaded.module.instruction(explain))
    if tree:
        from hlo_cli.commands.parse_tree import report_of_tree

        return report_of_tree(loaded)
    if instructions or computation is not None:
        from hlo_cli.commands.parse_instructions import report_of_instructions

        return report_of_instructions(loaded, computation=computation)
    from hlo_cli.commands.parse_summary import report_of_module

    return report_of_module(loaded, argument)


def _explain_text(text: str) -> Report:
    from hlo_cli.commands.explain import explain_text

    if text == "-":
        text = sys.stdin.read()
    if not text.strip():
        raise HloError("there is no instruction to explain", hint="hlo parse DUMP --explain NAME")
    if "(" not in text:
        raise HloError(
            f"{text} is no instruction, and there is no dump to find it in", hint=f"hlo parse DUMP --explain {text}"
        )
    return explain_text(text)


def _print(loaded: Loaded, output: Output) -> int:
    """The module as canonical text."""
    from hlo_cli.commands.loading import notes_of
    from hlo_cli.ir.printer import module_chunks

    write(module_chunks(loaded.module), output.path)
    return complain(notes_of(loaded), loaded.module.errors, output)
