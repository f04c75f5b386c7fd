"""`hlo parse`: what is in a dump, its instructions and loops, its text again, one instruction taken apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.shared.io_options import (
    input_options,
    output_of,
    output_options,
    print_diagnostics,
    reading_of,
    write,
    write_bytes,
    write_report,
)
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.commands.shared.where import where_option
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shared.io_options import OutputOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.report.report import Report

HELP = """What is in a dump; one instruction taken apart.

INPUT is a file, a directory that --xla_dump_to wrote, a glob, or - for standard input; several
modules get a row each.

\b
Examples:
  hlo parse dump/ --tree
  hlo parse dump/ --where 'opcode == fusion and padded_bytes > 1MiB'
  hlo parse dump/ --slice fusion.2 --operands 2 -o part.hlo
  hlo parse --explain 'add.936 = bf16[8,128]{1,0:T(8,128)(2,1)} add(a, b)'
  hlo parse dump.hlo.pb --format hlo -o dump.txt
  hlo parse dump.txt -o dump.hlo.pb
  hlo parse runs/ --each --jobs 0
  hlo parse dump.txt --format hlo --desugar -o canonical.txt
"""

_GOES_WITH = {
    "--where": ("--instructions",),
    "--computation": ("--instructions", "--select", "--slice"),
    "--operands": ("--slice",),
    "--users": ("--slice",),
}
"""What an option that narrows an answer narrows; with none of them given, --instructions is meant."""

_STEPS = 1
"""How many steps a slice reaches where nothing else is said."""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--instructions", is_flag=True, help="List every instruction.")
@click.option("--tree", is_flag=True, help="Draw loops, branches and calls as they contain each other.")
@click.option("--explain", metavar="NAME", help="Take one instruction apart: a name, or its text; - reads it.")
@click.option("--select", metavar="EXPR", help="Print the instructions that this is true of, as they stand there.")
@click.option("--slice", "part", metavar="NAME", help="Print an instruction and its neighbours as a module.")
@click.option("--operands", type=click.IntRange(min=0), metavar="N", help="Steps up that --slice goes; 1 if not given.")
@click.option("--users", type=click.IntRange(min=0), metavar="N", help="Steps down that --slice goes; 1 if not given.")
@click.option("--desugar", is_flag=True, help="With --format hlo: slice-start becomes async-start, t#0 an instruction.")
@click.option("--sugar", is_flag=True, help="With --format hlo: the other way round.")
@click.option("--computation", metavar="NAME", help="Look only into this computation.")
@where_option
@each_options
@input_options
@output_options
def command(
    inputs: tuple[str, ...],
    instructions: bool,
    tree: bool,
    explain: str | None,
    select: str | None,
    part: str | None,
    operands: int | None,
    users: int | None,
    desugar: bool,
    sugar: bool,
    computation: str | None,
    where: str | None,
    each: bool,
    jobs: int | None,
    **options: object,
) -> int:
    """The summary, unless something else is asked for."""
    output, reading = output_of(options, writes=("hlo", "pb")), reading_of(options)
    asked = {"--instructions": instructions or None, "--tree": tree or None, "--explain": explain, "--select": select}
    narrowed = {"--where": where, "--computation": computation, "--operands": operands, "--users": users}
    _check_together({**asked, "--slice": part}, narrowed)
    is_proto = output.format == "pb"
    spelling = _spelling(output, desugar=desugar, sugar=sugar)
    if explain is not None and not inputs:
        return write_report(_explain_text(explain), output)
    others = [name for name, given in {**asked, "--slice": part, **narrowed}.items() if given is not None]
    if output.format == "hlo" or is_proto:
        others.append(f"--format {'pb' if is_proto else 'hlo'}")
    from hlo_cli.commands.shared.load import load, what_was_read
    from hlo_cli.commands.shared.selection import Many

    loaded = load(inputs, reading, each=each, jobs=jobs, about_one=others)
    if isinstance(loaded, Many):
        from hlo_cli.commands.parse.each import parse_each

        return parse_each(loaded, reading, jobs, output)
    if select is not None:
        from hlo_cli.commands.parse.text import print_instructions

        return print_instructions(loaded, select, output, computation=computation)
    if part is not None:
        from hlo_cli.commands.parse.text import print_slice

        up, down = (_STEPS if steps is None else steps for steps in (operands, users))
        return print_slice(loaded, part, output, operands=up, users=down, computation=computation)
    if output.format == "hlo" or is_proto:
        if where is not None or computation is not None:
            raise HloError("the module is written whole", hint="--select EXPR prints instructions")
        return _write_proto(loaded, output) if is_proto else _print(loaded, output, spelling)
    argument = reading.again(inputs)
    if instructions or where is not None or computation is not None:
        from hlo_cli.commands.parse.instructions import report_of_instructions

        report = report_of_instructions(loaded, computation=computation, where=where, columns=output.asked_columns)
    else:
        report = _report(loaded, argument, tree, explain)
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _check_together(asked: Mapping[str, object], narrowed: Mapping[str, object]) -> None:
    """HloError if two answers are asked for at once, or an answer is narrowed that cannot be."""
    answers = [option for option, given in asked.items() if given is not None]
    if len(answers) > 1:
        raise HloError(f"{' and '.join(answers)} do not go together")
    for option, given in narrowed.items():
        if given is not None and (answers or ["--instructions"])[0] not in _GOES_WITH[option]:
            if answers:
                raise HloError(f"{answers[0]} and {option} do not go together")
            raise HloError(f"{option} is for {_GOES_WITH[option][0]}")


def _report(loaded: Loaded, argument: str, tree: bool, explain: str | None) -> Report:
    if explain is not None:
        from hlo_cli.commands.parse.explain import explain_instruction

        return explain_instruction(loaded.module, loaded.module.instruction(explain))
    if tree:
        from hlo_cli.commands.parse.tree import report_of_tree

        return report_of_tree(loaded)
    from hlo_cli.commands.parse.summary import report_of_module

    return report_of_module(loaded, argument)


def _explain_text(text: str) -> Report:
    from hlo_cli.commands.parse.explain import explain_text

    if text == "-":
        text = sys.stdin.read()
    if not text.strip():
        raise HloError("there is no instruction to explain", hint="hlo parse DUMP --explain NAME")
    if "(" not in text:
        raise HloError(
            f"{text} is no instruction, and there is no dump to find it in", hint=f"hlo parse DUMP --explain {text}"
        )
    return explain_text(text)


def _spelling(output: OutputOptions, *, desugar: bool, sugar: bool) -> str:
    """What to do with sugar: `--desugar`, `--sugar`, or nothing; HloError where that does not apply."""
    if desugar and sugar:
        raise HloError("--desugar and --sugar do not go together")
    given = "--desugar" if desugar else "--sugar" if sugar else ""
    if given and output.format != "hlo":
        raise HloError(f"{given} is for --format hlo")
    return given


def _print(loaded: Loaded, output: OutputOptions, spelling: str) -> int:
    """The module as canonical text, with sugar, without, or as it is."""
    from hlo_cli.commands.shared.load import notes_of
    from hlo_cli.ir.printer import module_chunks

    module = loaded.module
    if spelling == "--desugar":
        from hlo_cli.transform.desugar import desugar

        module = desugar(module)
    elif spelling == "--sugar":
        from hlo_cli.transform.sugar import sugar

        module = sugar(module)
    write(module_chunks(module), output.path)
    return print_diagnostics(notes_of(loaded), loaded.module.errors, output)


def _write_proto(loaded: Loaded, output: OutputOptions) -> int:
    """The module as a `HloModuleProto`, which knows no sugar."""
    from hlo_cli.commands.shared.load import notes_of
    from hlo_cli.syntax.proto.write import module_to_bytes, unrepresentable_attributes
    from hlo_cli.transform.desugar import desugar

    module = desugar(loaded.module)
    write_bytes((module_to_bytes(module),), output.path)
    lost = unrepresentable_attributes(module)
    notes = [Diagnostic("note", f"protos of modules have no place for {', '.join(lost)}")] if lost else []
    return print_diagnostics((*notes_of(loaded), *notes), (), output)
