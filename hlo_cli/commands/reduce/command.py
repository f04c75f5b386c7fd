"""`hlo reduce`: the smallest module that still fails, as a folder with a test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import processes
from hlo_cli.commands.options.io_options import InputOptions, io_of, io_options
from hlo_cli.commands.options.writing import removed_on_signals, write_report
from hlo_cli.commands.reduce.options import ReduceOptions
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.reduce.failures import Failure
    from hlo_cli.commands.reduce.results import Journal
    from hlo_cli.ir.module import Module
    from hlo_cli.report.report import Report
    from hlo_cli.transform.reduction.search import Case, Reduction

HELP = """\
Find the smallest module that still fails.

INPUT is a dump: a file, a directory written by --xla_dump_to, or - for stdin.
What must keep failing is one of the options below.
"""
EXAMPLES = (
    "hlo reduce wrong.hlo --against right.hlo -o out/",
    "hlo reduce dump/ --passes -o out/",
    "hlo reduce dump/ --probe nan --args arguments.npz -o out/",
    "hlo reduce dump/ --check 'python compile.py {}' -o out/",
    "hlo reduce dump/ --check ./compile --matching 'RET_CHECK failure' --jobs 0",
    "hlo reduce dump/ --finding HLO102",
    "hlo reduce dump/ --oom 16GiB",
)
DETAILS = """\
The module is made smaller as long as it fails: one result is kept, values
become arguments, called computations become the entry or are inlined, loops run
once, and sizes, types, attributes, and metadata become plain. Every candidate
is checked by the rules of XLA's parser and verifier. The search ends when no
single change is left that keeps the failure, or at a limit. It is the same for
the same input, whatever --jobs is.

With --against, --passes, and --probe, the module is evaluated without XLA, and
cut where values are known: what is right becomes an argument with its observed
value, and the computation of a loop or a branch that goes wrong becomes the
module, with the arguments of that execution.

--check runs COMMAND in a shell, in a directory of its own. It is killed, with
all processes that it started, after --check-seconds, 64 MiB of output, or 1 GiB
of files; the failure is the exit code, the signal, or the limit that it had for
the whole module.

-o DIR writes reduced.hlo, README.md, test_reduced.py, which fails today, and
where the module was evaluated args.npz, all or nothing. A search that was
stopped is resumed by the same command: DIR.part has the verdicts so far.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(ReduceOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, reduces, writes, and reports."""
    place, given["path"] = given["path"] or None, None
    output, reading = io_of(given)
    options = ReduceOptions(**given)
    options.run_check()
    parent = None
    if place is not None:
        from hlo_cli.commands.reduce.results import check_place, unfinished

        check_place(place)
        parent = unfinished(place)
    from hlo_cli.commands.reduce.checks import scratch
    from hlo_cli.commands.reduce.failures import failure_of

    with removed_on_signals(), scratch(parent) as folder:
        began = time.monotonic()
        loaded, case = _case(inputs, reading, options)
        failure, case = failure_of(case, options, folder, tolerance=options.tolerance)
        before = len(loaded.module)
        found, names = _reduced(case, failure, options, place, before, quiet=output.quiet)
        # Files and pipes get the same bytes for the same input; a person has waited.
        seconds = time.monotonic() - began if output.is_for_person else None
        report = _report(loaded, found, failure, seconds, place, names)
    return write_report(report, output)


# --- what is reduced, and what fails ---


def _case(inputs: Sequence[str], reading: InputOptions, options: ReduceOptions) -> tuple[Loaded, Case]:
    """The module or the pair, without arguments."""
    from hlo_cli.commands.modules.loading import load_main
    from hlo_cli.commands.reduce.failures import pair_in
    from hlo_cli.transform.reduction.draft import draft_of
    from hlo_cli.transform.reduction.search import Case

    if options.passes:
        return _changing_pass(inputs, reading, options)
    loaded = load_main(inputs, reading)
    _check_read(loaded.module)
    draft = draft_of(loaded.module)
    if options.against is None:
        return loaded, Case((draft,))
    # --module names one of INPUT; the other dump may have it under another name.
    other = load_main([options.against], replace(reading, module=None))
    _check_read(other.module)
    return loaded, Case(pair_in(other.module, loaded.module, options))


def _check_read(module: Module) -> None:
    if module.errors:
        raise HloError.of(module.errors)
    if module.is_part:
        raise HloError("the module is a part of a program: values that it uses are not in it")


def _changing_pass(inputs: Sequence[str], reading: InputOptions, options: ReduceOptions) -> tuple[Loaded, Case]:
    """The modules before and after the first pass that changes the results."""
    from hlo_cli.commands.diff.inputs import pass_dumps
    from hlo_cli.commands.modules.loading import load_main
    from hlo_cli.commands.reduce.failures import fails_with, made_up_by_name, pair_in, question_of
    from hlo_cli.inputs.files import is_folder
    from hlo_cli.transform.reduction.draft import draft_of
    from hlo_cli.transform.reduction.search import Case

    if len(inputs) != 1 or not is_folder(inputs[0]):
        raise HloError(
            "--passes requires a directory of per-pass dumps",
            hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
        )
    question, before = question_of(options, options.tolerance), None
    for name, _ in pass_dumps(inputs[0], reading):
        loaded = load_main([os.path.join(inputs[0], name) if not os.path.exists(name) else name], InputOptions())
        draft = draft_of(loaded.module)
        # Most passes change nothing, and texts are compared faster than values.
        if before is not None and before[1] != draft.to_string():
            try:
                pair = Case(pair_in(before[0], loaded.module, options))
            except HloError:  # a pass may change the parameters, and what divides the program among devices does
                before = loaded.module, draft.to_string()
                continue
            if fails_with(question, pair, made_up_by_name(loaded.module, options.seed)):
                return loaded, pair
        before = loaded.module, draft.to_string()
    raise HloError(f"no pass in {inputs[0]} changes the results", hint="run `hlo run DIR --passes` for the distances")


# --- the search, and what it leaves ---


def _reduced(
    case: Case, failure: Failure, options: ReduceOptions, place: str | None, before: int, *, quiet: bool
) -> tuple[Reduction, tuple[str, ...]]:
    """The smallest case, written to a folder if there is a place for it, with the names of the files."""
    from hlo_cli.commands.reduce.results import files_of, journal_of, summary_of, write_folder

    if place is None:
        return _searched(case, failure, options, None, quiet=quiet), ()
    # The limits of the search and the number of processes change no verdict.
    asked = [str(getattr(options, each.name)) for each in fields(options) if each.name not in _OF_NO_VERDICT]
    question = blake2b("\0".join((case.key, *asked)).encode(), digest_size=16).hexdigest()
    with journal_of(place, question) as journal:
        found = _searched(case, failure, options, journal, quiet=quiet)
        answer = summary_of(found, before, failure)
        files = files_of(found, failure, _command_line(options), answer)
        write_folder(place, files, journal)
    return found, tuple(sorted(files))


_OF_NO_VERDICT = ("jobs", "max_steps", "max_seconds", "args", "seed")
"""Options that change no verdict, or whose effect is in the arguments of the case."""


def _searched(
    case: Case, failure: Failure, options: ReduceOptions, journal: Journal | None, *, quiet: bool
) -> Reduction:
    from hlo_cli.commands.reduce.failures import Oracle, broken_rules, is_accepted
    from hlo_cli.render.progress import counted
    from hlo_cli.transform.reduction.search import Search

    allowed = frozenset(code for text in case.texts for code in broken_rules(text))
    jobs = processes(options.jobs, 1 << 10)
    seconds = options.check_seconds if options.check is not None else options.limits.max_seconds
    with counted("steps", quiet=quiet) as show:
        search = Search(
            Oracle(failure, allowed, all(map(is_accepted, case.texts))).judge(jobs=jobs, seconds=seconds),
            known={} if journal is None else journal.known,
            note=_nothing if journal is None else journal.note,
            progress=_shown(show),
            jobs=jobs,
            max_steps=options.max_steps,
            max_seconds=options.max_seconds,
        )
        return search.reduce(case, failure.stages)


def _nothing(key: str, fails: bool) -> None:
    del key, fails


def _shown(show: Callable[[int], None] | None) -> Callable[[int, int], None]:
    def progress(instructions: int, steps: int) -> None:
        del instructions
        if show is not None:
            show(steps)

    return progress


def _command_line(options: ReduceOptions) -> list[str]:
    """The failure as options, for the page: without paths of inputs, which readers do not have."""
    given = (
        ("--against", options.against), ("--probe", options.probe), ("--check", options.check),
        ("--matching", options.matching), ("--finding", options.finding), ("--oom", options.oom),
        ("--tolerance", options.tolerance), ("--seed", options.seed or None),
    )  # fmt: skip
    words = [word for name, value in given if value is not None for word in (name, str(value))]
    return ["hlo", "reduce", "INPUT", *(["--passes"] if options.passes else []), *words]


def _report(
    loaded: Loaded,
    found: Reduction,
    failure: Failure,
    seconds: float | None,
    place: str | None,
    names: Sequence[str],
) -> Report:
    """The answer, the module that is left, and the changes that were kept."""
    from hlo_cli.commands.modules.loading import input_facts
    from hlo_cli.commands.reduce.results import summary_of
    from hlo_cli.report.report import Report
    from hlo_cli.report.table import Column, Table, rows_from
    from hlo_cli.transform.reduction.draft import Body, Line
    from hlo_cli.transform.reduction.search import Kept

    lines: list[tuple[Body, Line]] = [(body, line) for body in reversed(found.case.draft.bodies) for line in body.lines]
    columns: tuple[Column[tuple[Body, Line]], ...] = (
        Column("instruction", "instruction", "name", of=lambda each: each[1].name),
        Column("shape", "shape", "shape", of=lambda each: str(each[1].shape)),
        Column("opcode", "opcode", of=lambda each: each[1].opcode),
        Column("operands", "operands", of=lambda each: ", ".join(each[1].operands) or each[1].argument),
        Column("computation", "computation", "name", of=lambda each: each[0].name),
    )
    steps: tuple[Column[Kept], ...] = (
        Column("candidates", "candidates", "count", of=lambda kept: kept.steps),
        Column("instructions", "instructions", "count", of=lambda kept: kept.instructions),
        Column("kept_change", "kept change", of=lambda kept: kept.words),
    )
    written = f"wrote {', '.join(names)} to {place}"
    unwritten = "nothing is written: -o DIR writes the module, its arguments, a page, and a test that fails"
    notes = [Diagnostic("note", unwritten if place is None else written)]
    if not found.is_minimal:
        notes.append(Diagnostic("note", "a limit ended the search; --max-seconds and --max-steps raise it"))
    return Report(
        "reduce",
        summary_of(found, len(loaded.module), failure, seconds),
        version=1,
        numbers={
            "instructions_before": len(loaded.module),
            "instructions": found.case.draft.size,
            "steps": found.steps,
            "minimal": found.is_minimal,
            "failure": failure.words,
            "reduced": found.case.texts[-1],
            "reference": found.case.texts[0] if len(found.case.drafts) > 1 else None,
        },
        parts=(
            Table("reduced", columns, rows_from(columns, lines), noun="instructions"),
            Table(
                "kept_changes", steps, rows_from(steps, found.kept), noun="changes", title="Kept changes", main=False
            ),
        ),
        notes=tuple(notes),
        input=input_facts(loaded),
        next=() if place is None else (f"pytest {place}",),
    )
