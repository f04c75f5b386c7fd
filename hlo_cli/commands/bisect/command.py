"""`hlo bisect`: which pass, flag, version, or changed instruction makes a module fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.bisect.options import BisectOptions
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, io_of, io_options
from hlo_cli.commands.options.writing import removed_on_signals, write_report
from hlo_cli.inputs.files import is_folder
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.bisect.searches import (
        ChangeSearch,
        FlagSearch,
        Found,
        PassSearch,
        PassTrial,
        VersionSearch,
        VersionTrial,
    )
    from hlo_cli.commands.reduce.checks import Scratch
    from hlo_cli.report.report import Report
    from hlo_cli.report.table import Cell, Table
    from hlo_cli.transform.reduction.subsets import LineChange

HELP = """\
Find the pass, flag, version, or change that makes a module fail.

INPUT is a directory of per-pass dumps, or two modules, OLD and NEW.
Without an option for what fails, results are compared with those of the first.
"""
EXAMPLES = (
    "hlo bisect dump/",
    "hlo bisect dump/ --finding HLO102",
    "hlo bisect dump/ --check './compile {}' --every",
    "hlo bisect old.hlo new.hlo",
    "hlo bisect old.hlo new.hlo --check './compile {}' --matching 'RET_CHECK'",
    "hlo bisect --flags \"$XLA_FLAGS\" --check 'python step.py'",
    "hlo bisect module.hlo --flags dump/ --check './compile {}'",
    "hlo bisect --python jax-0.9/ --python jax-0.10/ --check 'python step.py'",
)
DETAILS = """\
Of passes, the first dump that fails is found as by `git bisect`: half of the
rest remains after each check. A dump that cannot be judged is skipped. If the
module fails, passes, and fails again, this is one of the causes; --every checks
all dumps and names the first one.

Of OLD and NEW, the instructions that differ are the changes. The smallest set
of them is found that makes OLD fail as NEW does: without any one of these, OLD
does not fail. Instructions in only one of the modules are added or removed with
those that use them.

Of --flags, the smallest set is found in the same way. Flags with their default
value, and those that write files, are omitted. COMMAND gets them in XLA_FLAGS,
those of libtpu in LIBTPU_INIT_ARGS. Of --python, every environment is tried:
its directory of programs is first in PATH.

--check runs COMMAND as `hlo reduce` does: in a directory of its own, killed
with all its processes at a limit of time, memory, output, or disk. It fails if
it ends as it does for the last dump, for NEW, with all flags, or with the
newest version that fails: another exit code is another failure. With exit code
125, a module is skipped.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="[INPUT]...", shell_complete=completion.files)
@with_options(BisectOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, searches, and reports."""
    output, reading = io_of(given)
    options = BisectOptions(**given)
    options.run_check()
    from hlo_cli.commands.reduce.checks import scratch

    with removed_on_signals(), scratch() as folder:
        found = _search(inputs, reading, options, folder, quiet=output.quiet)
    return write_report(_report(found, inputs), output)


def _search(
    inputs: Sequence[str], reading: InputOptions, options: BisectOptions, folder: Scratch, *, quiet: bool
) -> Found:
    from hlo_cli.commands.bisect import searches

    if options.flags is not None or options.python:
        if len(inputs) > 1:
            raise HloError(f"{'--flags' if options.flags else '--python'} takes one input at most, got {len(inputs)}")
        search = searches.search_flags if options.flags is not None else searches.search_versions
        return search(inputs, reading, options, folder, quiet=quiet)
    if options.passes or (len(inputs) == 1 and is_folder(inputs[0])):
        return searches.search_passes(inputs, reading, options, folder, quiet=quiet)
    if len(inputs) != 2:
        raise HloError(
            "expected a directory of per-pass dumps, or two modules",
            hint="such as `hlo bisect dump/` or `hlo bisect OLD NEW`; --flags and --python need no input",
        )
    if options.every:
        raise HloError("--every requires per-pass dumps", hint="remove --every")
    return searches.search_changes(inputs, reading, options, folder, quiet=quiet)


# --- what was found ---


def _report(found: Found, inputs: Sequence[str]) -> Report:
    from hlo_cli.commands.bisect import searches
    from hlo_cli.report.report import Report

    match found:
        case searches.PassSearch():
            table, numbers, notes = _of_passes(found)
        case searches.ChangeSearch():
            table, numbers, notes = _of_changes(found)
        case searches.FlagSearch():
            table, numbers, notes = _of_flags(found)
        case _:
            table, numbers, notes = _of_versions(found)
    return Report(
        "bisect",
        found.answer,
        version=1,
        numbers={**numbers, "failure": found.words},
        parts=(table,),
        notes=tuple(Diagnostic("note", words) for words in notes),
        input={"path": inputs[0] if len(inputs) == 1 else None, "paths": tuple(inputs)},
        next=_next(found),
    )


def _of_passes(found: PassSearch) -> tuple[Table, dict[str, Cell], list[str]]:
    from hlo_cli.report.numbers import format_count
    from hlo_cli.report.table import Column, Table, rows_from

    columns: tuple[Column[PassTrial], ...] = (
        Column("number", "", "line", of=lambda trial: trial.name.number),
        Column("pass", "pass", role="name", of=lambda trial: trial.name.name),
        Column("verdict", "verdict", of=lambda trial: str(trial.verdict)),
        Column("details", "details", of=lambda trial: None if trial.verdict is None else trial.verdict.words or None),
        Column("stage", "stage", person=False, of=lambda trial: trial.stage),
    )
    checked = found.checked
    notes = []
    if len(checked) < len(found.trials):
        left = len(found.trials) - len(checked)
        notes.append(f"{format_count(left, 'dumps')} not checked; --every checks all")
    if found.passes_again:
        notes.append(f"the module passes again after {found.passes_again[0].name.name}")
    numbers: dict[str, Cell] = {
        "dumps": len(found.trials),
        "checked": len(checked),
        "first_failing": found.trials[found.first_bad].stage,
        "last_passing": found.trials[found.last_good].stage,
        "pass": found.trials[found.first_bad].name.name,
    }
    return Table("dumps", columns, rows_from(columns, checked), noun="dumps", title="Checked dumps"), numbers, notes


def _of_changes(found: ChangeSearch) -> tuple[Table, dict[str, Cell], list[str]]:
    from hlo_cli.report.table import Column, Table, rows_from

    columns: tuple[Column[LineChange], ...] = (
        Column("instruction", "instruction", "name", of=lambda change: change.name or change.kind),
        Column("before", "before", of=lambda change: change.before or None),
        Column("after", "after", of=lambda change: change.after or None),
        Column("computation", "computation", "name", of=lambda change: change.computation or None),
    )
    numbers: dict[str, Cell] = {
        "changes": len(found.all),
        "needed": len(found.needed),
        "checks": found.steps,
        "minimal": found.is_minimal,
        "module": found.text,
    }
    table = Table("changes", columns, rows_from(columns, found.needed), noun="changes", title="Changes that matter")
    return table, numbers, _limit_notes(is_minimal=found.is_minimal)


def _limit_notes(*, is_minimal: bool) -> list[str]:
    return (
        []
        if is_minimal
        else ["a limit ended the search, so fewer may do; --max-seconds raises it, and --resume goes on"]
    )


def _of_flags(found: FlagSearch) -> tuple[Table, dict[str, Cell], list[str]]:
    from hlo_cli.report.numbers import format_count
    from hlo_cli.report.table import Column, Table, rows_from

    columns: tuple[Column[tuple[str, str]], ...] = (
        Column("flag", "flag", "name", of=lambda setting: f"--{setting[0]}"),
        Column("value", "value", of=lambda setting: setting[1]),
    )
    notes = _limit_notes(is_minimal=found.is_minimal)
    if found.defaults:
        notes.append(f"{format_count(found.defaults, 'flags')} omitted: defaults, or flags that only write files")
    numbers: dict[str, Cell] = {
        "flags": len(found.all),
        "needed": len(found.needed),
        "omitted": found.defaults,
        "checks": found.steps,
        "minimal": found.is_minimal,
    }
    return Table("flags", columns, rows_from(columns, found.needed), noun="flags"), numbers, notes


def _of_versions(found: VersionSearch) -> tuple[Table, dict[str, Cell], list[str]]:
    from hlo_cli.report.table import Column, Table, rows_from

    columns: tuple[Column[VersionTrial], ...] = (
        Column("version", "version", of=lambda trial: trial.version or None),
        Column("verdict", "verdict", of=lambda trial: str(trial.verdict)),
        Column("details", "details", of=lambda trial: trial.verdict.words or None),
        Column("python", "python", of=lambda trial: trial.place),
    )
    notes = [f"the command passes again with {trial.label}" for trial in found.passes_again]
    numbers: dict[str, Cell] = {
        "versions": len(found.trials),
        "first_failing": found.trials[found.first_bad].label,
        "monotone": not found.passes_again,
    }
    return Table("versions", columns, rows_from(columns, found.trials), noun="versions"), numbers, notes


def _next(found: Found) -> tuple[str, ...]:
    """The command that shows what the pass changed."""
    from shlex import quote

    from hlo_cli.commands.bisect import searches

    if not isinstance(found, searches.PassSearch):
        return ()
    return (f"hlo diff {' '.join(quote(found.trials[at].path) for at in (found.last_good, found.first_bad))}",)
