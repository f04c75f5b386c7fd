"""`hlo diff`: differences between two dumps, independent of names."""

from __future__ import annotations

from typing import Any

import click

from hlo_cli.commands.diff.options import CONDITIONS, IGNORABLE_KINDS, LIMITED, DiffOptions
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import io_of, io_options
from hlo_cli.commands.options.writing import write_report


def _kinds_of_changes() -> str:
    """The paragraph of the help that lists what --ignore supports."""
    from textwrap import fill

    names = "also the name of an attribute, a backend_config key, or a header field"
    return fill(f"Kinds of changes for --ignore: {', '.join(IGNORABLE_KINDS)}; {names}.", 80)


def _kinds_of_conditions() -> str:
    """The paragraph of the help that lists what --fail-on supports."""
    from textwrap import fill

    limited = ", ".join(LIMITED)
    others = ", ".join(kind for kind in CONDITIONS if kind not in LIMITED)
    text = f"""Conditions for --fail-on: {limited}, each optionally with a limit on its growth, such as flops>1% or
memory.hbm>64MiB (of one memory space); {others}. All but metadata are checked by default."""
    return fill(" ".join(text.split()), 80)


HELP = """\
Compare two modules by structure, or the programs of all hosts of a job.

OLD and NEW are dumps: files, directories written by --xla_dump_to, or - for
stdin. For two directories, modules with the same name are compared. Three or
more inputs, or a directory with host0/, host1/, and so on, are the hosts of a
job: which one runs another program, and which collective hangs?
"""
EXAMPLES = (
    "hlo diff before.txt after.txt",
    "hlo diff dump/ --stage before_optimizations..after_optimizations",
    "hlo diff old/ new/ --ignore metadata,backend_config --exit-code --jobs 0",
    "hlo diff dump/ --passes",
    "hlo diff dump/ --normalize > golden.hlo",
    "hlo diff golden.hlo dump/ --against-golden --fail-on 'memory>2%,collectives'",
    "hlo diff before.txt after.txt --by scope",
    "hlo diff host0/ host1/ host2/ host3/",
    "hlo diff dump/ --normalize --format json",
)
DETAILS = f"""\
Instructions are matched by what they compute and where they are used, so
renaming and reordering are not differences. Statements say what happened, each
with the changed instructions that follow from it; --rows lists the changes, and
so does the table `changes` of the JSON output. `--stage A..B` compares two
stages of one dump directory.

Markers: ~ changed, + added, - removed, > moved.

{_kinds_of_changes()}

{_kinds_of_conditions()}

Exits with code 0 even if there are differences, like git diff, unless
--exit-code is given. Source lines and op_names are the same program; with
--exact, they and other names are differences too. Hosts that run different
programs exit with code 1.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="OLD NEW [HOST...]", shell_complete=completion.files)
@with_options(DiffOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, compares, and reports."""
    output, reading = io_of(given, writes=("hlo",) if given["normalize"] else ())
    options = DiffOptions(**given)
    options.check(output, reading)
    if options.normalize:
        from hlo_cli.commands.diff.inputs import check_ignorable_kinds, write_normalized

        check_ignorable_kinds(options.ignored, IGNORABLE_KINDS)
        return write_normalized(inputs, reading, options.ignored, output)
    from hlo_cli.commands.diff.conditions import View, parse_conditions
    from hlo_cli.commands.diff.hosts import is_of_hosts, report_of_hosts

    conditions = parse_conditions(options.fail_on) if options.against_golden else ()
    by = cause_of(options.grouping)
    view = View(
        options.view, options.ignored, with_schedule=options.schedule, conditions=conditions, by=by, exact=options.exact
    )
    if not options.passes and is_of_hosts(inputs, reading):
        options.check_hosts(len(inputs))
        report, is_finding, errors = report_of_hosts(inputs, reading, options.ignored, jobs=options.jobs)
        return write_report(report, output, errors) or int(is_finding)
    if options.passes:
        from hlo_cli.commands.diff.inputs import report_of_passes

        report, is_finding, errors = report_of_passes(inputs, reading, view)
    else:
        from hlo_cli.commands.diff.inputs import report_of_inputs

        report, is_finding, errors = report_of_inputs(inputs, reading, view, each=options.each, jobs=options.jobs)
    code = write_report(report, output, errors)
    # differences alone are no failure, as with git diff
    return code or int((options.exit_code or options.against_golden or options.exact) and is_finding)
