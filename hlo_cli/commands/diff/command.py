"""`hlo diff`: differences between two dumps, independent of names."""

from __future__ import annotations

from typing import Any

import click

from hlo_cli.commands.diff.options import KINDS, DiffOptions
from hlo_cli.commands.shared.io_options import io_of, io_options
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.commands.shared.writing import write_report

HELP = """What differs between two dumps, whatever the names.

OLD and NEW are dumps: files, directories that --xla_dump_to wrote, or - for standard input. Instructions are matched
by what they compute and where they stand, so that new names and another order are no difference. Of two directories,
modules of one name are compared. ~ changed, + added, - removed, > moved.

\b
Kinds of changes, for --ignore: opcode shape layout tiling memory_space operands
attributes sharding constants backend_config fusion computation metadata header
schedule; or the name of an attribute, a key of backend_config or a field.

The exit code is 0 also where there are differences, as git's is, unless --exit-code asks for 1.

\b
Examples:
  hlo diff before.txt after.txt
  hlo diff old/ new/ --ignore metadata,backend_config --exit-code --jobs 0
  hlo diff dump/ --stage before_optimizations..after_optimizations
  hlo diff dump/ --passes
  hlo diff dump/ --normalize > golden.hlo
  hlo diff dump/ --normalize --format json
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="OLD NEW")
@click.option("--passes", is_flag=True, help="What each pass changed, of the dumps of one directory.")
@click.option("--normalize", is_flag=True, help="Write the module with stable names and order, for golden files.")
@click.option("--text", "as_text", is_flag=True, help="The changed lines of the text, by computation.")
@click.option("--stat", is_flag=True, help="How much changed in each computation.")
@click.option("--name-only", is_flag=True, help="Only the names of what changed.")
@click.option("--schedule", is_flag=True, help="What stands elsewhere in the schedule is a difference too.")
@click.option("--ignore", metavar="LIST", default="", help="Kinds of changes, or names, that are none.")
@click.option("--exit-code", is_flag=True, help="Exit 1 if there are differences.")
@each_options
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Reads, compares, and reports."""
    output, reading = io_of(given, writes=("hlo",) if given["normalize"] else ())
    options = DiffOptions(**given)
    options.check(output, has_stage=bool(reading.stage))
    if options.normalize:
        from hlo_cli.commands.diff.normalize import check_ignorable_kinds, write_normalized

        check_ignorable_kinds(options.ignored, KINDS)
        return write_normalized(inputs, reading, options.ignored, output)
    from hlo_cli.commands.diff.view import View

    view = View(options.view, options.ignored, with_schedule=options.schedule)
    if options.passes:
        from hlo_cli.commands.diff.passes import report_of_passes

        report, found, errors = report_of_passes(inputs, reading, view)
    else:
        from hlo_cli.commands.diff.inputs import report_of_inputs

        report, found, errors = report_of_inputs(inputs, reading, view, each=options.each, jobs=options.jobs)
    code = write_report(report, output, errors)
    return code or int(options.exit_code and found)
