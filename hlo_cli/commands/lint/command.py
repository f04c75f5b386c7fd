"""`hlo lint`: what is wrong with a module, and what costs more than it should."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.lint.option_conflicts import check_lint_conflicts
from hlo_cli.commands.shared.io_options import (
    input_options,
    output_of,
    output_options_of,
    reading_of,
    write,
    write_report,
)
from hlo_cli.commands.shared.per_module_options import each_options_of

if TYPE_CHECKING:
    from hlo_cli.commands.shared.io_options import InputOptions, OutputOptions
    from hlo_cli.ir.assertion import Expectation
    from hlo_cli.lint.settings import LintSettings

FORMATS = "full, concise, summary, github, gitlab, junit, sarif, json, jsonl, csv, tsv, md or html."

HELP = """What is wrong, and what costs more than it should.

INPUT is a dump: a file, a directory that --xla_dump_to wrote, a glob, or - for standard input; all modules are looked
through. Rules HLO0.. ask whether a module is well formed, as XLA's verifier does; HLO1 to HLO7 what costs more than
it should: layouts, memory, fusion, waiting, exchanges between devices, calls to libraries and the host, types.
Settings come from [tool.hlo.lint] in pyproject.toml or [lint] in hlo.toml, the nearest above the working directory.

Exit 0: no finding but notes. 1: errors or warnings. 2: usage, or input that cannot be read.

\b
Examples:
  hlo lint dump/
  hlo lint dump/ --select HLO1 --set padding_bytes=1MiB
  hlo lint dump/ --select HLO2 --set chip=v5e
  hlo lint dump/ --write-baseline known.json
  hlo lint dump/ --baseline known.json --format github
  hlo lint dump/ --expect expect.toml
  hlo lint dump/ -o findings.sarif
  hlo lint --explain HLO101
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--select", multiple=True, metavar="LIST", help="Rules to run, as HLO1,HLO201; ALL is every one.")
@click.option("--ignore", multiple=True, metavar="LIST", help="Rules not to run.")
@click.option("--severity", type=click.Choice(("error", "warning", "note")), help="The mildest findings to show.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting, as padding_bytes=1MiB.")
@click.option("--baseline", metavar="FILE", help="Findings that are known: only new ones are shown.")
@click.option("--write-baseline", metavar="FILE", help="Write the findings to a file that --baseline takes.")
@click.option("--expect", multiple=True, metavar="FILE", help="What the modules have to keep to; see hlo help expect.")
@each_options_of("Print one row per module: its findings counted.", "Use N processes; 0 uses all CPU cores.")
@click.option("--statistics", is_flag=True, help="How many findings each rule has.")
@click.option("--exit-zero", is_flag=True, help="Findings do not fail.")
@click.option("--isolated", is_flag=True, help="No settings from files.")
@click.option("--show-settings", is_flag=True, help="The settings, and where each comes from.")
@click.option("--list-rules", is_flag=True, help="All rules.")
@click.option("--explain", metavar="RULE", help="What a rule is about, and how to mend what it finds.")
@input_options
@output_options_of(FORMATS)
def command(
    inputs: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severity: str | None,
    assignments: tuple[str, ...],
    baseline: str | None,
    write_baseline: str | None,
    expect: tuple[str, ...],
    each: bool,
    jobs: int | None,
    statistics: bool,
    exit_zero: bool,
    isolated: bool,
    show_settings: bool,
    list_rules: bool,
    explain: str | None,
    **options: object,
) -> int:
    """Pages and settings need no input; everything else reads and looks."""
    output, reading = output_of(options), reading_of(options)
    check_lint_conflicts(
        {
            "--select": bool(select),
            "--ignore": bool(ignore),
            "--severity": severity is not None,
            "--set": bool(assignments),
            "--baseline": baseline is not None,
            "--write-baseline": write_baseline is not None,
            "--expect": bool(expect),
            "--each": each,
            "--jobs": jobs is not None,
            "--statistics": statistics,
            "--exit-zero": exit_zero,
            "--isolated": isolated,
            "--strict": reading.strict,
            "--show-settings": show_settings,
            "--list-rules": list_rules,
            "--explain": explain is not None,
        },
        output,
    )
    if explain is not None or list_rules:
        from hlo_cli.commands.lint.rule_pages import report_of_rule, report_of_rules

        return write_report(report_of_rules() if explain is None else report_of_rule(explain), output)
    from hlo_cli.commands.lint.settings import codes, load_config, report_of_settings

    given = {"select": codes(select), "ignore": codes(ignore), "least_severity": severity, "strict": reading.strict}
    found = load_config(given, assignments, isolated=isolated)
    if show_settings:
        return write_report(report_of_settings(found), output)
    wanted = LintOptions(
        baseline or found.baseline, write_baseline, expect or _only(found.expect), each, jobs, statistics
    )
    code = _lint(inputs, reading, found.settings, output, wanted)
    return 0 if exit_zero and code == 1 else code


@dataclass(frozen=True, slots=True)
class LintOptions:
    """What is to be done with the findings, and what is expected besides."""

    baseline: str | None
    write_baseline: str | None
    expect: tuple[str, ...]
    each: bool
    jobs: int | None
    statistics: bool


def _lint(
    inputs: Sequence[str], reading: InputOptions, settings: LintSettings, output: OutputOptions, wanted: LintOptions
) -> int:
    from hlo_cli.commands.lint.baseline import baseline_text, new_findings, read_baseline
    from hlo_cli.commands.lint.report import report_of, report_of_writing
    from hlo_cli.commands.lint.run import lint_inputs
    from hlo_cli.commands.shared.selection import every_module
    from hlo_cli.render.formats.summary import statistics_of

    path = wanted.write_baseline
    known = read_baseline(wanted.baseline) if wanted.baseline is not None and path is None else None
    expectations: tuple[Expectation, ...] = ()
    if wanted.expect and path is None:
        from hlo_cli.commands.lint.assertions import expectations_in, with_expectations

        expectations = expectations_in(wanted.expect)
        settings = with_expectations(settings) if expectations else settings
    looked = lint_inputs(every_module(inputs, reading), reading, settings, expectations=expectations, jobs=wanted.jobs)
    if path is not None:
        write((baseline_text(looked.found),), path)
        return write_report(report_of_writing(looked, path), output, looked.errors)
    found = looked.found if known is None else tuple(new_findings(looked.found, known))
    report = report_of(looked, found, settings, reading.again(inputs), expectations=expectations)
    if wanted.each:
        from hlo_cli.commands.lint.modules import by_module

        report = by_module(report, looked, found)
    code = write_report(statistics_of(report) if wanted.statistics else report, output, looked.errors)
    fails = any(each.diagnostic.severity != "note" for each in found)
    return code or int(fails)


def _only(path: str | None) -> tuple[str, ...]:
    return () if path is None else (os.path.relpath(path),)
