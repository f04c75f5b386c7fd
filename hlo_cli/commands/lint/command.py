"""`hlo lint`: errors and inefficiencies in modules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.lint.options import ORDERS, LintOptions, cause_grouping
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chosen_throughput
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, io_of, io_options_of, requirement_error
from hlo_cli.commands.options.writing import write, write_report
from hlo_cli.report.report import Report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.lint.assertion_results import GoldenModules
    from hlo_cli.commands.lint.checking import LintResult
    from hlo_cli.commands.lint.measured import MeasuredFindings
    from hlo_cli.ir.expressions import Expectation
    from hlo_cli.lint.settings import LintSettings
    from hlo_cli.report.findings import Finding
HELP = """\
Check modules for errors and inefficiencies.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. All modules in it are checked.
"""
EXAMPLES = (
    "hlo lint dump/",
    "hlo lint dump/ --chip v5e --by source",
    "hlo lint --explain HLO101",
    "hlo lint dump/ --select HLO1 --set min_padding_bytes=1MiB",
    "hlo lint dump/ --select HLO2 --set chip=v5e",
    "hlo lint dump/ --profile trace.xplane.pb",
    "hlo lint dump/ --write-baseline known.json",
    "hlo lint dump/ --baseline known.json --format github",
    "hlo lint dump/ --expect expect.toml",
    "hlo lint dump/ --expect expect.toml --golden old-dump/",
    "hlo lint dump/ --prove --python .venv",
    "hlo lint dump/ -o findings.sarif",
)
DETAILS = """\
Rules HLO0xx check that a module is well formed, as XLA's verifier does. Rules
HLO1xx to HLO7xx report inefficiencies: layouts, memory, fusion, exposed
transfers, collectives, host and library calls, and numeric types.

Findings with one cause, such as the same copy in every layer, are one group.
Errors come first, then the groups that waste most bytes, or time with --chip,
weighted by the work of their module. What the program cannot change, such as
helper modules of JAX, comes last. A terminal shows the first ten groups, a
pipe one line per group; --verbose lists every finding. --sort place keeps the
order of the text.

Settings are read from the nearest hlo.toml ([lint]) or pyproject.toml
([tool.hlo.lint]) in the working directory or above it.

--prove applies the hint of each finding to the module, and shows how many bytes
it needs or moves less. Donated arguments, arguments that are not passed, and
layouts of arguments and results can be applied; other hints are changes of the
source. With --python, the program before optimizations is compiled for a CPU,
with the change and without.

Exit codes: 0 no errors or warnings; 1 errors or warnings found; 2 usage error
or unreadable input. Warnings in helper modules and inside of libraries do not
count; --module NAME checks a helper module like any other.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(LintOptions)
@io_options_of("findings", "data", "document")
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Writes pages or settings, which need no input; otherwise reads and checks all inputs."""
    output, reading = io_of(given)
    options = LintOptions(**given)
    if output.sort in ORDERS:
        options, output = replace(options, order=output.sort), replace(output, sort=None)
    options.check(output, reading)
    if options.explain is not None or options.list_rules:
        from hlo_cli.commands.lint.configuration import report_of_rule, report_of_rules

        return write_report(report_of_rules() if options.explain is None else report_of_rule(options.explain), output)
    from hlo_cli.commands.lint.configuration import chip_setting, codes, load_config, report_of_settings
    from hlo_cli.lint.run import selected_rules

    chosen = {
        "select": codes(options.select),
        "ignore": codes(options.ignore),
        "min_severity": options.min_severity,
        "strict": reading.strict,
        "chip": chip_setting(options.chip, options.chip_file),
    }
    config = load_config(chosen, options.assignments, isolated=options.isolated)
    if options.show_settings:
        return write_report(report_of_settings(config), output)
    options = replace(
        options,
        baseline=options.baseline or config.baseline,
        expect=options.expect or _only(config.expect),
    )
    if options.golden is not None and not options.expect:
        raise requirement_error("--golden", "--expect FILE")
    selected = codes(options.select)
    if selected and not options.expect and all(code.startswith("HLO9") for code in selected):
        selected_rules(config.settings)  # an unknown rule is reported first
        raise requirement_error(f"--select {','.join(selected)}", "--expect FILE")
    if options.profile is not None and not inputs:
        inputs = (options.profile,)
    code = _lint(inputs, reading, config.settings, output, options, config.golden)
    return 0 if options.exit_zero and code == 1 else code


def _lint(
    inputs: Sequence[str],
    reading: InputOptions,
    settings: LintSettings,
    output: OutputOptions,
    options: LintOptions,
    default_golden: str | None = None,
) -> int:
    from hlo_cli.commands.lint.checking import baseline_text, lint_inputs, new_findings, read_baseline
    from hlo_cli.commands.lint.report import in_order, report_of, report_of_writing
    from hlo_cli.commands.modules.loading import every_module

    path = options.write_baseline
    known = read_baseline(options.baseline) if options.baseline is not None and path is None else None
    expectations, golden = _assertions(options, reading, default_golden)
    if expectations:
        from hlo_cli.commands.lint.assertion_results import with_expectations

        settings = with_expectations(settings)
    chip = chosen_throughput(settings.chip if options.chip_file is None else options.chip, options.chip_file)
    result = lint_inputs(
        every_module(inputs, reading),
        reading,
        settings,
        expectations=expectations,
        golden=golden,
        jobs=options.jobs,
        chip=chip,
        by=cause_grouping(options.by),
        answers_text=_answers_text(output),
    )
    if path is not None:
        write((baseline_text(result.found),), path)
        return write_report(report_of_writing(result, path), output, result.errors)
    found = result.found if known is None else tuple(new_findings(result.found, known))
    measured = _measured(found, result, options.profile, inputs, reading)
    found = in_order(found if measured is None else measured.found, options.order)
    report = report_of(
        result,
        found,
        settings,
        reading.command_line(inputs),
        expectations=expectations,
        in_place=options.order == "place",
        measured=measured,
    )
    if options.prove:
        report = _with_proofs(report, inputs, reading, settings, options.python)
    if options.each:
        from hlo_cli.commands.lint.checking import by_module

        report = by_module(report, result, found)
    if options.by is not None:
        from hlo_cli.commands.lint.report import by_key

        report = by_key(report, options.by)
    return _write(report, result, found, options, output)


def _with_proofs(
    report: Report, inputs: Sequence[str], reading: InputOptions, settings: LintSettings, python: str | None
) -> Report:
    """The report with a table of what each hint saves, for the main module of the input."""
    from hlo_cli.commands.lint.proving import proof_table, proofs
    from hlo_cli.commands.modules.loading import load_main, stage_of
    from hlo_cli.lint.run import lint_module

    loaded = load_main(inputs, reading)
    before = loaded.module if stage_of(loaded) != "optimized" else None
    if python is not None and before is None:
        with suppress(HloError):  # a file alone has no other stage
            before = load_main(inputs, replace(reading, stage="before_optimizations")).module
    found = proofs(loaded.module, lint_module(loaded.module, settings), settings, before=before, python=python or "")
    return replace(report, parts=(*report.parts, proof_table(found, is_compiled=python is not None)))


def _write(
    report: Report, result: LintResult, found: Sequence[Finding], options: LintOptions, output: OutputOptions
) -> int:
    """Writes the report, and returns the exit code: 1 for findings that fail, 2 for what could not be checked."""
    from hlo_cli.commands.modules.loading import part_error
    from hlo_cli.render.formats.screen import statistics_of

    fails = any(each.fails for each in found) or any(note.severity == "error" for note in report.notes)
    errors = result.errors if fails else (*result.errors, *map(part_error, dict.fromkeys(result.parts)))
    code = write_report(statistics_of(report) if options.statistics else report, output, errors)
    return code or int(fails)


def _answers_text(output: OutputOptions) -> bool:
    """Whether a text that is not a module can be answered: formats of findings have no other tables."""
    from hlo_cli.render.registry import format_names

    return output.format not in format_names("findings")


def _measured(
    found: Sequence[Finding], result: LintResult, profile: str | None, inputs: Sequence[str], reading: InputOptions
) -> MeasuredFindings | None:
    """The findings with measured times; None without a profile."""
    if profile is None:
        return None
    from hlo_cli.commands.lint.measured import measured_findings
    from hlo_cli.commands.profile.measured import read_profile

    return measured_findings(found, result, read_profile(profile, inputs, reading))


def _assertions(
    options: LintOptions, reading: InputOptions, default_golden: str | None
) -> tuple[tuple[Expectation, ...], GoldenModules | None]:
    """The assertions to check, and the modules that they refer to as golden."""
    if not options.expect or options.write_baseline is not None:
        return (), None
    from hlo_cli.commands.lint.assertion_results import expectations_in, golden_modules

    expectations = expectations_in(options.expect)
    return expectations, golden_modules(options.golden, expectations, reading, default=default_golden)


def _only(path: str | None) -> tuple[str, ...]:
    return () if path is None else (os.path.relpath(path),)
