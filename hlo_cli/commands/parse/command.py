"""`hlo parse`: summary, instructions, and loops of a dump, its canonical text, and explained instructions."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import (
    OUTPUT,
    each_option,
    flag,
    jobs_option,
    option,
    timeout_option,
    where_option,
)
from hlo_cli.commands.options.io_options import (
    InputOptions,
    OutputOptions,
    check_options,
    conflict_error,
    given_about,
    given_in,
    io_of,
    io_options,
    requirement_error,
)
from hlo_cli.commands.options.writing import print_diagnostics, write, write_bytes, write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded

# --- options ---
# Options of `hlo parse`.


_NARROWING: Final = ("--where", "--computation", "--operands", "--users")
"""The options that narrow a report; given alone, the first two imply --instructions."""
_DEFAULT_LEVELS: Final = 1
"""The default levels of operands and users in a slice: the neighbors, which show how an instruction is used."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """The report and the part of the module that are selected."""

    instructions: bool = flag(
        "--instructions",
        group="Reports",
        is_common=True,
        help="List all instructions in a table.",
        one_of="report",
        excludes=("--operands", "--users"),
        about="one",
    )
    tree: bool = flag(
        "--tree",
        group="Reports",
        is_common=True,
        help="Show loops, branches, and calls as a tree with trip counts.",
        one_of="report",
        excludes=_NARROWING,
        about="one",
    )
    explain: str | None = option(
        "--explain",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Explain one instruction, given by name or as HLO text (- for stdin).",
        one_of="report",
        excludes=_NARROWING,
        about="one",
    )
    why: str | None = option(
        "--why",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Show where an instruction comes from: source lines, argument, and compiler pass.",
        one_of="report",
        excludes=_NARROWING,
        about="one",
    )
    select: str | None = option(
        "--select",
        "EXPR",
        group="Reports",
        is_common=True,
        help="Print the instructions that match EXPR as HLO text, unchanged.",
        one_of="report",
        excludes=("--where", "--operands", "--users"),
        about="one",
    )
    part: str | None = option(
        "--slice",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Extract an instruction with its operands and users as a standalone module.",
        one_of="report",
        excludes=("--where",),
        about="one",
    )
    operands: int | None = option(
        "--operands",
        "N",
        group="Reports",
        least=0,
        default_text=str(_DEFAULT_LEVELS),
        help="Include N levels of operands in --slice.",
        about="one",
        needs="--slice",
        needs_hint="add --slice NAME",
    )
    users: int | None = option(
        "--users",
        "N",
        group="Reports",
        least=0,
        default_text=str(_DEFAULT_LEVELS),
        help="Include N levels of users in --slice.",
        about="one",
        needs="--slice",
        needs_hint="add --slice NAME",
    )
    desugar: bool = flag(
        "--desugar",
        group=OUTPUT,
        help="Expand short forms such as slice-start and t#0 (with --format hlo).",
        one_of="form",
        needs="--format hlo",
    )
    sugar: bool = flag(
        "--sugar",
        group=OUTPUT,
        help="Use short forms where possible (with --format hlo).",
        one_of="form",
        needs="--format hlo",
    )
    verify: bool = flag(
        "--verify",
        group=OUTPUT,
        help="Run the old and new module, and compare results (with --slice, --desugar, or --sugar).",
        needs="--slice, --desugar, or --sugar",
    )
    computation: str | None = option(
        "--computation",
        "NAME",
        group="Filters",
        complete=completion.computations,
        help="Include only instructions in this computation.",
        about="one",
    )
    profile: str | None = option(
        "--profile",
        "TRACE",
        group="Reports",
        complete=completion.files,
        help="Use trip counts measured in TRACE for loops without one (--tree, --format hlo).",
        needs="--tree or --format hlo",
        or_needs=("--format pb",),
        needs_hint="add --tree",
    )
    where: str | None = where_option(about="one")
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    def check(self, output: OutputOptions) -> None:
        """Raises HloError for conflicting reports, and for a filter on a report that has none.

        >>> from hlo_cli.commands.options.io_options import OutputOptions
        >>> ParseOptions(tree=True, where="rank > 1").check(OutputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --where cannot be used with --tree
          help: use only one of them
        """
        check_options(self, output)
        if self.profile is not None and not self.tree and given_in(self, "report"):
            raise requirement_error("--profile", "--tree or --format hlo", hint="add --tree")

    def about_one(self, format: str) -> list[str]:
        """The given options that require a single module, as typed."""
        writes = (f"--format {format}",) if format in ("hlo", "pb") else ()
        return [*given_about(self, "one"), *writes]

    @property
    def lists_instructions(self) -> bool:
        """Whether the report is the table of instructions."""
        return self.instructions or self.where is not None or self.computation is not None


# --- the command ---


HELP = """\
Summarize a module, or explain one instruction.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. Several modules get one row each.
"""
EXAMPLES = (
    "hlo parse dump/ --tree",
    "hlo parse dump/ --where 'opcode == fusion and padded_bytes > 1MiB'",
    "hlo parse dump/ --explain fusion.2",
    "hlo parse dump/ --why copy.12",
    "hlo parse --explain 'add.936 = bf16[8,128]{1,0:T(8,128)(2,1)} add(a, b)'",
    "hlo parse dump/ --slice fusion.2 --operands 2 -o part.hlo",
    "hlo parse dump.hlo.pb --format hlo -o dump.txt",
    "hlo parse dump.txt -o dump.hlo.pb",
    "hlo parse dump.txt --format hlo --desugar -o canonical.txt",
    "hlo parse runs/ --each --jobs 0",
)
DETAILS = """\
Without a report option, a summary of the module is shown. `--format hlo` writes
the module as HLO text and `--format pb` as a binary HloModuleProto; -o FILE.hlo
and -o FILE.pb select these formats.

Exits with code 1 if --verify finds other results.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(ParseOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Writes the summary, unless an option selects another report."""
    output, reading = io_of(given, writes=("hlo", "pb"))
    options = ParseOptions(**given)
    options.check(output)
    if options.explain is not None and not inputs:
        return write_report(_explain_text(options.explain), output)
    from hlo_cli.commands.modules.loading import Many, load, what_was_read

    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=options.about_one(output.format))
    if isinstance(loaded, Many):
        from hlo_cli.commands.parse.instruction_list import parse_each

        return parse_each(loaded, reading, options.jobs, output)
    notes: tuple[Diagnostic, ...] = ()
    if options.profile is not None:
        loaded, notes = _with_trips(loaded, options.profile, reading)
    if output.format in ("hlo", "pb") or options.select is not None or options.part is not None:
        code = _print(loaded, options, output)
        return print_diagnostics(notes, (), output) or code
    report = _report(loaded, options, output, reading, inputs)
    report = replace(report, notes=(*report.notes, *notes))
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _report(
    loaded: Loaded, options: ParseOptions, output: OutputOptions, reading: InputOptions, inputs: tuple[str, ...]
) -> Report:
    if options.lists_instructions:
        from hlo_cli.commands.parse.instruction_list import report_of_instructions

        return report_of_instructions(
            loaded, computation=options.computation, where=options.where, columns=output.requested_columns
        )
    if options.explain is not None:
        return _explain(loaded, options.explain, reading, inputs)
    if options.why is not None:
        from hlo_cli.commands.parse.why import report_of_origin

        return report_of_origin(loaded, options.why, reading, reading.command_line(inputs))
    if options.tree:
        from hlo_cli.commands.parse.overview import report_of_tree

        return report_of_tree(loaded)
    return summary_of(loaded, inputs, reading)


def summary_of(loaded: Loaded, inputs: tuple[str, ...], reading: InputOptions) -> Report:
    """The summary of a module; of a text that has one instruction only, its explanation."""
    from hlo_cli.commands.parse.overview import lone_instruction, report_of_module

    if (instruction := lone_instruction(loaded.module)) is not None:
        from hlo_cli.commands.parse.explain import explain_alone

        notes = tuple(Diagnostic("note", note) for note in loaded.input.notes)
        return explain_alone(loaded.module, instruction, notes=notes)
    return report_of_module(loaded, reading.command_line(inputs))


def _with_trips(loaded: Loaded, profile: str, reading: InputOptions) -> tuple[Loaded, tuple[Diagnostic, ...]]:
    """The module with measured trip counts of a trace, and notes on them."""
    from hlo_cli.commands.profile.measured import load_profile, with_measured_trips

    measured = load_profile(profile, (), reading)
    if any(program.module is None for program in measured.profile.programs) and loaded.input.path is not None:
        measured = load_profile(profile, (loaded.input.path,), reading)
    return with_measured_trips(loaded, measured.profile)


def _explain(loaded: Loaded, name: str, reading: InputOptions, inputs: tuple[str, ...]) -> Report:
    """The explanation of a named instruction, and the command that shows its sharding or its kernel if it has one."""
    from hlo_cli.analysis.hardware.target import is_pallas
    from hlo_cli.commands.modules.loading import notes_of
    from hlo_cli.commands.parse.explain import explain_instruction

    instruction = loaded.module.instruction(name)
    report = explain_instruction(loaded.module, instruction)
    report = replace(report, notes=(*report.notes, *notes_of(loaded)))
    if len(inputs) != 1 or inputs[0] == "-":
        return report
    if is_pallas(instruction):
        return replace(report, next=(f"hlo kernel {reading.command_line(inputs)} {instruction.name}",))
    if instruction.attribute("sharding") is None:
        return report
    return replace(report, next=(f"hlo shard {reading.command_line((f'{inputs[0]}:{instruction.name}',))}",))


def _explain_text(text: str) -> Report:
    from hlo_cli.commands.parse.explain import explain_text

    if text == "-":
        text = sys.stdin.read()
    if not text.strip():
        raise HloError("--explain requires an instruction name or HLO text", hint="run `hlo parse DUMP --explain NAME`")
    if "(" not in text:
        raise HloError(
            f"'{text}' is not an HLO instruction; to look up a name, pass a dump",
            hint=f"run `hlo parse DUMP --explain {shlex.quote(text)}`",
        )
    return explain_text(text)


def _print(loaded: Loaded, options: ParseOptions, output: OutputOptions) -> int:
    """Writes the module, or a part of it, as text or as a proto."""
    if options.select is not None:
        from hlo_cli.commands.parse.instruction_list import print_instructions

        return print_instructions(loaded, options.select, output, computation=options.computation)
    if options.part is not None:
        from hlo_cli.commands.parse.instruction_list import print_slice

        up, down = (_DEFAULT_LEVELS if steps is None else steps for steps in (options.operands, options.users))
        within = options.computation
        return print_slice(
            loaded, options.part, output, operands=up, users=down, computation=within, verify=options.verify
        )
    for name, value in (("--where", options.where), ("--computation", options.computation)):
        if value is not None:
            raise conflict_error(name, f"--format {output.format}", hint="use --select EXPR to print instructions")
    return _write_proto(loaded, output) if output.format == "pb" else _write_text(loaded, options, output)


def _write_text(loaded: Loaded, options: ParseOptions, output: OutputOptions) -> int:
    """Writes the module as canonical text: sugared, desugared, or unchanged."""
    from hlo_cli.commands.modules.loading import notes_of
    from hlo_cli.commands.modules.rewriting import verify_if

    module = loaded.module
    if options.desugar:
        from hlo_cli.transform.sugar import desugar

        module = desugar(module)
    elif options.sugar:
        from hlo_cli.transform.sugar import sugar

        module = sugar(module)
    verified = verify_if(options.verify, loaded.module, module)
    write(module.chunks(), output.path)
    code = print_diagnostics((*verified.notes, *notes_of(loaded)), loaded.module.errors, output)
    return code or verified.exit_code


def _write_proto(loaded: Loaded, output: OutputOptions) -> int:
    """Writes the module as an `HloModuleProto`, which has no sugar."""
    from hlo_cli.commands.modules.loading import notes_of
    from hlo_cli.syntax.proto.write_module import module_to_bytes, unrepresentable_attributes
    from hlo_cli.transform.sugar import desugar

    module = desugar(loaded.module)
    write_bytes((module_to_bytes(module),), output.path)
    unrepresentable = unrepresentable_attributes(module)
    notes = (
        [
            Diagnostic(
                "note", f"dropped in proto output: {', '.join(unrepresentable)} (not representable in HloModuleProto)"
            )
        ]
        if unrepresentable
        else []
    )
    return print_diagnostics((*notes_of(loaded), *notes), (), output)
