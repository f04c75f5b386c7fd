"""`hlo diff`: what differs between two dumps, whatever the names."""

from __future__ import annotations

from typing import Final

import click

from hlo_cli.commands.shared.io_options import input_options, output_of, output_options, reading_of, write_report
from hlo_cli.commands.shared.option_conflicts import Idle, check_conflicts
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.source import HloError, nearest

KINDS: Final = (
    *("opcode", "shape", "layout", "tiling", "memory_space", "operands", "attributes", "sharding", "constants"),
    *("backend_config", "fusion", "computation", "metadata", "header", "schedule"),
)

_NOTHING_TO: Final[Idle] = {
    "--passes": ("--each", "--jobs", "--stage"),
    "--normalize": ("--schedule", "--exit-code", "--each", "--jobs", "--top", "--sort", "--columns"),
    "--text": ("--each", "--sort", "--columns"),
    "--stat": ("--schedule",),
    "--name-only": ("--columns",),
}
"""For every way of looking at it the options that change nothing there."""
_WHY: Final = {
    "--passes": "it compares the dumps of one directory one after the other; --stage A..B compares two of them",
    "--normalize": "it writes one module, and compares nothing",
    "--text": "it shows lines in their order",
    "--stat": "it counts what moved without that",
    "--name-only": "it shows no other column",
}

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
@input_options
@output_options
def command(
    inputs: tuple[str, ...],
    passes: bool,
    normalize: bool,
    as_text: bool,
    stat: bool,
    name_only: bool,
    schedule: bool,
    ignore: str,
    exit_code: bool,
    each: bool,
    jobs: int | None,
    **options: object,
) -> int:
    """Reads, compares, reports."""
    output, reading = output_of(options, writes=("hlo",) if normalize else ()), reading_of(options)
    views = {"--passes": passes, "--normalize": normalize, "--text": as_text, "--stat": stat, "--name-only": name_only}
    if len(two := [name for name, is_given in views.items() if is_given]) > 1:
        raise HloError(f"{two[0]} and {two[1]} are two ways to look at it", hint="ask for one")
    ignored = _ignored(ignore)
    if schedule and "schedule" in ignored:
        raise HloError("--schedule asks for what --ignore schedule leaves out", hint="leave out one of them")
    given = {
        **views,
        "--schedule": schedule,
        "--exit-code": exit_code,
        "--each": each,
        "--jobs": jobs is not None,
        "--stage": bool(reading.stage),
    }
    check_conflicts(given, output, _NOTHING_TO, _WHY)
    if normalize:
        from hlo_cli.commands.diff.normalize import check_ignorable_kinds, write_normalized

        check_ignorable_kinds(ignored, KINDS)
        return write_normalized(inputs, reading, ignored, output)
    from hlo_cli.commands.diff.options import View

    view = View(two[0].removeprefix("--") if two else "changes", ignored, with_schedule=schedule)
    if passes:
        from hlo_cli.commands.diff.passes import report_of_passes

        report, found, errors = report_of_passes(inputs, reading, view)
    else:
        from hlo_cli.commands.diff.inputs import report_of_inputs

        report, found, errors = report_of_inputs(inputs, reading, view, each=each, jobs=jobs)
    code = write_report(report, output, errors)
    return code or int(exit_code and found)


def _ignored(words: str) -> tuple[str, ...]:
    """The words of --ignore; kinds may be written with a hyphen or a blank."""
    found = []
    for word in filter(None, (word.strip() for word in words.split(","))):
        kind = word.replace("-", "_").replace(" ", "_")
        if kind not in KINDS and word.islower() and (meant := nearest(kind, KINDS)) and abs(len(meant) - len(kind)) < 2:
            raise HloError(f"no kind of change {word}", hint=f"did you mean {meant}?")
        found.append(kind if kind in KINDS else word)
    return tuple(found)
