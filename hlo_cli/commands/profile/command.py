"""`hlo profile`: measured times of a profiler's trace, joined to the instructions of its programs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option, chosen_throughput
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import argument, flag, option, where_option
from hlo_cli.commands.options.io_options import (
    InputOptions,
    check_options,
    io_of,
    io_options,
    requirement_error,
)
from hlo_cli.commands.options.writing import write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.report.report import Report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hlo_cli.analysis.profile.profile import Profile
    from hlo_cli.commands.profile.measured import Measured

# --- completion of names in a trace ---


_MAX_BYTES: Final = 32 << 20
"""Limit that keeps a shell responsive: larger traces are not read."""


def _trace_and_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The trace, then the instructions that ran, or a dump if the word is not the beginning of one of these."""
    if not _paths(ctx):
        return completion.files(ctx, param, incomplete)
    names = (each.name for profile in _profiles(ctx) for each in profile.operations)
    return completion.one_of(lambda: dict.fromkeys(names), ctx, param, incomplete) or completion.files(
        ctx, param, incomplete
    )


def steps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The steps of the trace on the command line."""
    names = (each.name for profile in _profiles(ctx) for each in profile.steps)
    return completion.one_of(lambda: dict.fromkeys(names), ctx, param, incomplete)


def _paths(ctx: click.Context) -> tuple[str, ...]:
    """The trace, if it is on the command line; click leaves it in `args` if the last word is an option."""
    given = ctx.params.get("arguments") or ()
    return tuple(str(each) for each in (*given, *ctx.args))[:1]


def _profiles(ctx: click.Context) -> Iterator[Profile]:
    """The profile of the trace on the command line, if it can be read."""
    from hlo_cli.commands.profile.measured import load_profile
    from hlo_cli.read_traces import find_traces

    with suppress(HloError, OSError):
        for path in _paths(ctx):
            if sum(os.path.getsize(each) for each in find_traces(path).paths) <= _MAX_BYTES:
                yield load_profile(path, (), InputOptions()).profile


# --- options ---


GROUPINGS: Final = (
    *("instruction", "source", "scope", "argument", "opcode", "kind"),
    *("axis", "computation", "module", "step", "device", "stack", "gap"),
)
"""The groupings of --by, the default first."""


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The view of a profile; `name` is an argument, that of an instruction."""

    name: str | None = argument("NAME", one_of="report", excludes=("--where",))
    grouping: str | None = option(
        "--by",
        "GROUP",
        group="Reports",
        is_common=True,
        choices=GROUPINGS,
        help="Show times by source, scope, opcode, kind, axis, step, device, or another group.",
        one_of="report",
    )
    lost: bool = flag(
        "--lost",
        group="Reports",
        is_common=True,
        help="Show the time above the least time at the peak rates.",
        one_of="report",
    )
    exposed: bool = flag(
        "--exposed",
        group="Reports",
        is_common=True,
        help="Show how much of each transfer other operations overlap.",
        one_of="report",
    )
    predicted: bool = flag(
        "--predicted",
        group="Reports",
        is_common=True,
        help="Compare measured times with those predicted for --chip.",
        one_of="report",
    )
    calibrate: bool = flag(
        "--calibrate",
        group="Reports",
        help="Write measured times of classes of kernels as a file for --chip-file.",
        one_of="report",
    )
    timeline: bool = flag(
        "--timeline", group="Reports", is_common=True, help="List the events of one step by time.", one_of="report"
    )
    step: str | None = option(
        "--step",
        "NAME",
        group="Reports",
        default_text="the step of median duration",
        complete=steps,
        help="Show the step NAME in --timeline.",
        needs="--timeline",
    )
    skip_steps: int | None = option(
        "--skip-steps",
        "N",
        group="Reports",
        least=0,
        default_text="those that are warm-up",
        help="Omit the first N steps from times, shares, and means.",
    )
    against: str | None = option(
        "--against",
        "OLD",
        group="Comparison",
        is_common=True,
        complete=completion.files,
        help="Compare with the trace OLD, matching instructions by structure.",
        one_of="report",
        excludes=("--where", "--chip", "--chip-file"),
    )
    against_dump: str | None = option(
        "--against-dump",
        "DUMP",
        group="Comparison",
        complete=completion.files,
        help="Read the programs that the trace OLD lacks from DUMP.",
        needs="--against OLD",
    )
    where: str | None = where_option()
    chip: str | None = chip_option("Compare rates with the peaks of this chip")
    chip_file: str | None = chip_file_option()

    @property
    def skipped(self) -> int | None:
        """How many of the first steps are omitted, None to omit warm-up; views of single steps have all."""
        has_all = self.grouping == "step" or self.step is not None
        return 0 if has_all and self.skip_steps is None else self.skip_steps


# --- the command ---


HELP = """\
Show how long each instruction took, from a profiler's trace.

TRACE is a file that jax.profiler wrote (.xplane.pb), or the directory that
holds it. A trace contains the programs that ran; DUMP gives those of a trace
that does not.
"""
EXAMPLES = (
    "hlo profile trace.xplane.pb",
    "hlo profile trace.xplane.pb --sort mean_seconds --top 10",
    "hlo profile after.xplane.pb --against before.xplane.pb",
    "hlo profile trace.xplane.pb --calibrate -o machine.toml",
)
DETAILS = """\
Groups of --by:
  instruction, opcode, computation, module
  kind         XLA's category, such as data formatting
  source       line of the program, inferred for instructions without one
  scope        named scope, without the numbers of layers
  argument     argument that an instruction moves
  axis         mesh axes of collectives
  step, device, with busy and idle time
  stack        calls of the program, as a tree
  gap          idle time, by the operations before and after

Self time excludes that of events inside an event, such as the body of a while
loop. Shares are parts of the time of all devices, idle time included. See
`hlo help profiles`.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("arguments", nargs=-1, metavar="TRACE [DUMP] [NAME]", shell_complete=_trace_and_name)
@with_options(ProfileOptions)
@io_options
def command(arguments: tuple[str, ...], **option_values: Any) -> int:
    """Reads, joins, and reports."""
    output, reading = io_of(option_values, writes=("toml",))
    path, dump, name = _inputs_and_name(arguments)
    options = ProfileOptions(name=name, **option_values)
    check_options(options)
    if output.format == "toml" and not options.calibrate:
        raise requirement_error("-o FILE.toml", "--calibrate")
    from hlo_cli.commands.profile.measured import Measured, load_profile

    try:
        loaded = load_profile(path, dump, reading, quiet=output.quiet, skip_steps=options.skipped)
    except HloError:
        from hlo_cli.commands.profile.compiling import report_of_compiling

        if (compiling := report_of_compiling(path)) is None:
            raise
        return write_report(compiling, output)
    if loaded.argument and options.skip_steps is not None:
        loaded = replace(loaded, argument=f"{loaded.argument} --skip-steps {options.skip_steps}")
    if options.against is not None:
        from hlo_cli.commands.profile.against import report_of_against

        old_dump = (options.against_dump,) if options.against_dump else ()
        old = load_profile(options.against, old_dump, reading, quiet=output.quiet, skip_steps=options.skipped)
        return write_report(report_of_against(loaded, old), output)
    chip = chosen_throughput(options.chip, options.chip_file)
    measured = Measured(loaded, chip=chip, where=options.where, module=reading.module)
    if options.calibrate:
        from hlo_cli.commands.profile.instruction import write_calibration

        return write_calibration(measured, output)
    return write_report(_report_of(measured, options), output)


def _inputs_and_name(arguments: Sequence[str]) -> tuple[str, tuple[str, ...], str | None]:
    """The trace, the dumps for its programs, and the name of an instruction if one follows them."""
    if not arguments:
        raise HloError("hlo profile requires a trace", hint="run `hlo help profiles` to learn how to record one")
    first, *others = arguments
    # An instruction has no file of its name, and none of these characters.
    if not others or os.path.exists(others[-1]) or set(others[-1]) & set("*?[/"):
        return first, tuple(others), None
    return first, tuple(others[:-1]), others[-1]


def _report_of(measured: Measured, options: ProfileOptions) -> Report:
    if options.name is not None:
        from hlo_cli.commands.profile.instruction import report_of_instruction

        return report_of_instruction(measured, options.name)
    if options.exposed:
        from hlo_cli.commands.profile.by_operation import report_of_exposed

        return report_of_exposed(measured)
    if options.predicted:
        from hlo_cli.commands.profile.instruction import report_of_predictions

        return report_of_predictions(measured)
    if options.timeline:
        from hlo_cli.commands.profile.by_group import report_of_timeline

        return report_of_timeline(measured, options.step)
    if options.lost:
        from hlo_cli.commands.profile.by_operation import report_of_lost

        return report_of_lost(measured)
    if options.grouping in ("step", "device"):
        from hlo_cli.commands.profile.by_group import report_of_devices, report_of_steps

        return report_of_steps(measured) if options.grouping == "step" else report_of_devices(measured)
    if options.grouping in ("stack", "gap"):
        from hlo_cli.commands.profile.by_stack_and_gap import report_of_gaps, report_of_stacks

        return report_of_stacks(measured) if options.grouping == "stack" else report_of_gaps(measured)
    if options.grouping not in (None, "instruction"):
        from hlo_cli.commands.profile.by_group import report_of_groups

        return report_of_groups(measured, options.grouping)
    from hlo_cli.commands.profile.by_operation import report_of_operations

    return report_of_operations(measured)
