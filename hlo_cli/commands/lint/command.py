"""`hlo lint`: errors and inefficiencies in modules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hlo_cli.commands.lint.options import LintOptions
from hlo_cli.commands.shared.io_options import io_of, io_options_of
from hlo_cli.commands.shared.per_module_options import each_options_of
from hlo_cli.commands.shared.writing import write, write_report

if TYPE_CHECKING:
    from hlo_cli.commands.shared.io_options import InputOptions, OutputOptions
    from hlo_cli.ir.assertion import Expectation
    from hlo_cli.lint.settings import LintSettings

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
@io_options_of("findings", "data", "document")
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Writes pages or settings, which need no input; otherwise reads and checks all inputs."""
    output, reading = io_of(given)
    options = LintOptions(**given)
    options.check(output, strict=reading.strict)
    if options.explain is not None or options.list_rules:
        from hlo_cli.commands.lint.rule_pages import report_of_rule, report_of_rules

        return write_report(report_of_rules() if options.explain is None else report_of_rule(options.explain), output)
    from hlo_cli.commands.lint.settings import codes, load_config, report_of_settings

    chosen = {
        "select": codes(options.select),
        "ignore": codes(options.ignore),
        "min_severity": options.severity,
        "strict": reading.strict,
    }
    config = load_config(chosen, options.assignments, isolated=options.isolated)
    if options.show_settings:
        return write_report(report_of_settings(config), output)
    options = replace(
        options, baseline=options.baseline or config.baseline, expect=options.expect or _only(config.expect)
    )
    code = _lint(inputs, reading, config.settings, output, options)
    return 0 if options.exit_zero and code == 1 else code


def _lint(
    inputs: Sequence[str], reading: InputOptions, settings: LintSettings, output: OutputOptions, options: LintOptions
) -> int:
    from hlo_cli.commands.lint.baseline import baseline_text, new_findings, read_baseline
    from hlo_cli.commands.lint.report import report_of, report_of_writing
    from hlo_cli.commands.lint.run import lint_inputs
    from hlo_cli.commands.shared.selection import every_module
    from hlo_cli.render.formats.summary import statistics_of

    path = options.write_baseline
    known = read_baseline(options.baseline) if options.baseline is not None and path is None else None
    expectations: tuple[Expectation, ...] = ()
    if options.expect and path is None:
        from hlo_cli.commands.lint.assertions import expectations_in, with_expectations

        expectations = expectations_in(options.expect)
        settings = with_expectations(settings) if expectations else settings
    result = lint_inputs(every_module(inputs, reading), reading, settings, expectations=expectations, jobs=options.jobs)
    if path is not None:
        write((baseline_text(result.found),), path)
        return write_report(report_of_writing(result, path), output, result.errors)
    found = result.found if known is None else tuple(new_findings(result.found, known))
    report = report_of(result, found, settings, reading.again(inputs), expectations=expectations)
    if options.each:
        from hlo_cli.commands.lint.modules import by_module

        report = by_module(report, result, found)
    code = write_report(statistics_of(report) if options.statistics else report, output, result.errors)
    fails = any(each.severity != "note" for each in found)
    return code or int(fails)


def _only(path: str | None) -> tuple[str, ...]:
    return () if path is None else (os.path.relpath(path),)
