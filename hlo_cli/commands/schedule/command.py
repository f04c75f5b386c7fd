"""`hlo schedule`: asynchronous operations, their overlap with compute, and their exposed bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option, chosen_throughput, throughput_for
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import (
    by_option,
    cause_of,
    each_option,
    flag,
    jobs_option,
    option,
    timeout_option,
    where_option,
)
from hlo_cli.commands.options.io_options import (
    OutputOptions,
    check_options,
    conflict_error,
    format_options,
    given_about,
    io_of,
    io_options,
)
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.dataclass import dataclass
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.commands.schedule.reorder import Direction
    from hlo_cli.commands.schedule.sequence import Model
    from hlo_cli.ir.instruction import Computation
    from hlo_cli.ir.module import Module
    from hlo_cli.transform.reorder import Goal, ReorderedModule


# --- options ---


MODELS: Final = ("bytes", "flops", "kernels", "time")
ORDERS: Final = ("memory", "dfs", "bfs", "latency", "postorder")


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """The report and the part of the schedule that are selected."""

    grouping: str | None = by_option("Show transfers by cause", one_of="report", about="one")
    sequence: bool = flag(
        "--sequence",
        group="Reports",
        is_common=True,
        help="List every step of the schedule with live memory and transfers in flight.",
        one_of="report",
        about="one",
    )
    model: Model | None = option(
        "--critical-path",
        "COST",
        group="Reports",
        is_common=True,
        choices=MODELS,
        help=f"Show the longest dependency chain, measured in {joined_by_or(MODELS)}.",
        one_of="report",
        about="one",
        only_for="time",
        needs="--chip NAME",
        or_needs=("--chip-file",),
        needs_hint="run `hlo help chips` to list all chips",
    )
    mesh_order: bool = flag(
        "--mesh-order",
        group="Reports",
        help="Show in which order of the mesh axes collectives take the least time.",
        one_of="report",
        about="one",
        needs="--chip NAME",
        or_needs=("--chip-file",),
        needs_hint="run `hlo help chips` to list all chips",
    )
    goal: Goal | None = option(
        "--reorder",
        "GOAL",
        group="Changes",
        is_common=True,
        choices=ORDERS,
        help=f"Reschedule the module and compare memory and overlap: {joined_by_or(ORDERS)}.",
        one_of="report",
        about="one",
    )
    limit: str | None = option(
        "--limit",
        "SIZE",
        group="Changes",
        is_common=True,
        default_text="present peak",
        help="Keep the peak of main memory below SIZE, such as 12GiB (with --reorder latency).",
        needs="--reorder latency",
    )
    desugar: bool = flag(
        "--desugar",
        group="Changes",
        is_common=True,
        help="Show a diff that expands short forms such as slice-start and t#0.",
        one_of="report",
        about="one",
    )
    sugar: bool = flag(
        "--sugar",
        group="Changes",
        is_common=True,
        help="Show a diff that uses short forms where possible.",
        one_of="report",
        about="one",
    )
    verify: bool = flag(
        "--verify",
        group="Changes",
        help="Run both modules and compare results (with --reorder, --desugar, --sugar).",
        needs="--reorder, --desugar, or --sugar",
    )
    where: str | None = where_option(about="one")
    computation: str | None = option(
        "--computation",
        "NAME",
        group="Filters",
        complete=completion.computations,
        help="Include only operations that run in this computation.",
        about="one",
    )
    space: str | None = option(
        "--space",
        "SPACE",
        group="Filters",
        default_text="largest peak",
        complete=completion.memory_spaces,
        help="Show this memory space in --sequence, by name or number, or `all` of them.",
        needs="--sequence",
    )
    chip: str | None = chip_option("Estimate times on this chip")
    chip_file: str | None = chip_file_option()
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    def is_refuted(self, report: Report) -> bool:
        """Whether --verify found that the new module computes something else."""
        return self.verify and report.numbers.get("verified") in ("approximation", "different")

    def check(self) -> None:
        """Raises HloError for options that conflict or that require another option.

        >>> ScheduleOptions(space="HBM").check()
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --space requires --sequence
          help: add --sequence
        """
        check_options(self)

    @property
    def direction(self) -> Direction | None:
        """The direction of a change between generic and short forms, None if none is given."""
        if self.desugar:
            return "desugar"
        return "sugar" if self.sugar else None

    @property
    def about_one(self) -> list[str]:
        """The given options that require a single module, as typed."""
        return given_about(self, "one")

    @property
    def reordering(self) -> str:
        """The given options that select another order, as typed."""
        chip = (("--chip", self.chip), ("--chip-file", self.chip_file))
        return format_options((("--reorder", self.goal), *chip, ("--limit", self.limit)))


# --- the command ---


HELP = """\
Show async operations, what they overlap with, and which transfers are exposed.

INPUT is a dump: a file, a directory written by --xla_dump_to, a glob, or - for
stdin. Several modules get one row each, and each is checked.
"""
EXAMPLES = (
    "hlo schedule dump/",
    "hlo schedule dump/ --chip h100 --sort exposed_seconds",
    "hlo schedule dump/ --by source --chip h100",
    "hlo schedule dump/ --where 'unoverlapped and bytes > 1MiB' --sort bytes",
    "hlo schedule dump/ --sequence --where 'in_flight > 0'",
    "hlo schedule dump/ --critical-path bytes",
    "hlo schedule dump/ --chip h100 --critical-path time",
    "hlo schedule dump/ --chip h100 --mesh-order",
    "hlo schedule dump/ --reorder memory",
    "hlo schedule dump/ --reorder latency --chip h100 --limit 12GiB -o new.hlo",
    "hlo schedule dump/ --desugar",
    "hlo schedule dump/ -o schedule.html",
)
DETAILS = """\
Transfers are exposed for the time in which no kernel runs. The time needs a
chip, the one that the dump names or --chip (see `hlo help chips`). Without one,
operations that overlap no kernel are counted: those without a kernel between
start and done, and those that the compiler marked is_sync. Steps are those of
`hlo memspace`. See `hlo help async` and `hlo help schedule` for the terms.

Values of --reorder:
  memory     smallest total of main memory, or the same order
  latency    least exposed transfer time; starts early, dones late
  dfs        depth first, operands with the most dependencies first
  bfs        breadth first, each instruction as soon as possible
  postorder  depth first, operands in their order

`--format hlo` and -o FILE.hlo write the module in its new order. With --verify,
both modules run on random arguments (see `hlo help comparing`).

Exits with code 1 if the module violates XLA's rules for async operations, or if
--verify finds other results. A
warning is a violation that only some versions of XLA reject, a note one that
only older versions reject.
"""


@click.command(cls=Command, help=HELP, examples=EXAMPLES, details=DETAILS)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(ScheduleOptions)
@io_options
def command(inputs: tuple[str, ...], **arguments: Any) -> int:
    """Reads, computes, and reports."""
    output, reading = io_of(arguments, writes=("hlo",))
    options = ScheduleOptions(**arguments)
    options.check()
    from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    from hlo_cli.analysis.schedule.async_verifier import verify_async
    from hlo_cli.commands.modules.loading import Many, check_running, load, what_was_read

    # Before reading: an unknown chip need not wait for a large dump.
    throughput = chosen_throughput(options.chip, options.chip_file)
    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=options.about_one)
    if isinstance(loaded, Many):
        from hlo_cli.commands.schedule.async_table import schedule_each

        return schedule_each(loaded, reading, options.jobs, throughput, output)
    check_running(loaded.module)
    throughput = throughput_for(loaded.input, options.chip, options.chip_file)
    request = _Request(loaded, options, throughput, reading.command_line(inputs))
    if options.direction is not None:
        return _write_sugar(request, options.direction, output)
    if options.goal is not None and output.is_module:
        return _write(request, options.goal, output)
    overlap = analyze_overlap(loaded.module)
    report = _report_of(request, overlap, output.requested_columns)
    from hlo_cli.commands.modules.loading import bounded_report

    report = bounded_report(report, loaded, has_times=throughput is not None)
    broken = tuple(verify_async(loaded.module, overlap.pairs))
    read = what_was_read(loaded.module)
    code = write_report(report, output, (*loaded.module.errors, *broken), read=read)
    if loaded.module.errors:
        return code
    return int(any(finding.severity == "error" for finding in broken) or options.is_refuted(report))


@dataclass(frozen=True, slots=True)
class _Request:
    """A module to report on: the options, the chip if one is given, and the input as typed."""

    loaded: Loaded
    options: ScheduleOptions
    throughput: ChipSpec | None
    argument: str

    @property
    def within(self) -> Computation | None:
        """The computation that is selected."""
        name = self.options.computation
        return None if name is None else self.loaded.module.computation(name)

    def reordered(self, goal: Goal) -> ReorderedModule:
        """The module in a new order."""
        from hlo_cli.commands.schedule.reorder import new_order

        return new_order(self.loaded.module, goal, limit=self.options.limit, throughput=self.throughput)

    def check_whole(self, option: str) -> None:
        """Raises HloError if an option selects a part of the module that `option` writes as a whole."""
        for name, value in (("--where", self.options.where), ("--computation", self.options.computation)):
            if value is not None:
                raise conflict_error(name, option, hint=f"remove {name}: {option} changes the whole module")


def _report_of(request: _Request, overlap: OverlapAnalysis, columns: tuple[str, ...]) -> Report:
    loaded, options, throughput = request.loaded, request.options, request.throughput
    within = request.within
    if (other := _report_of_other_tables(request, overlap, columns)) is not None:
        return other
    if options.goal is not None:
        from hlo_cli.commands.schedule.reorder import report_of_reordering

        return report_of_reordering(
            loaded,
            overlap,
            request.reordered(options.goal),
            goal=options.goal,
            within=within,
            where=options.where,
            argument=request.argument,
            options=options.reordering,
            has_limit=options.limit is not None,
            throughput=throughput,
            verify=options.verify,
        )
    if (cause := cause_of(options.grouping)) is not None:
        from hlo_cli.commands.schedule.async_table import report_of_causes

        return report_of_causes(
            loaded,
            overlap,
            cause,
            within=within,
            where=options.where,
            argument=request.argument,
            throughput=throughput,
        )
    from hlo_cli.commands.schedule.async_table import report_of_pairs

    return report_of_pairs(
        loaded,
        overlap,
        within=within,
        where=options.where,
        argument=request.argument,
        throughput=throughput,
        columns=columns,
    )


def _report_of_other_tables(request: _Request, overlap: OverlapAnalysis, columns: tuple[str, ...]) -> Report | None:
    """The report of steps, of a path, or of orders of the mesh; None if it is about transfers."""
    loaded, options, throughput = request.loaded, request.options, request.throughput
    within = request.within
    if options.sequence:
        from hlo_cli.commands.schedule.sequence import report_of_steps

        return report_of_steps(
            loaded,
            overlap,
            space=options.space,
            within=within,
            where=options.where,
            throughput=throughput,
            columns=columns,
        )
    if options.model is not None:
        from hlo_cli.commands.schedule.sequence import report_of_path

        return report_of_path(
            loaded, overlap, model=options.model, within=within, where=options.where, throughput=throughput
        )
    if options.mesh_order and throughput is not None:
        from hlo_cli.commands.schedule.time import report_of_mesh_orders

        return report_of_mesh_orders(loaded, throughput)
    return None


def _write_sugar(request: _Request, direction: Direction, output: OutputOptions) -> int:
    """Writes the module with expanded or shortened asynchronous operations, as a diff or as text."""
    from hlo_cli.commands.modules.loading import what_was_read
    from hlo_cli.commands.modules.rewriting import verify_if
    from hlo_cli.commands.schedule.reorder import report_of_sugar, with_sugar

    request.check_whole(f"--{direction}")
    module = request.loaded.module
    new = with_sugar(module, direction)
    if output.is_module:
        return _write_text(request, new, output)
    report = report_of_sugar(request.loaded, new, direction=direction, argument=request.argument)
    report = verify_if(request.options.verify, module, new).added_to(report)
    return write_report(report, output, module.errors, read=what_was_read(module)) or int(
        request.options.is_refuted(report)
    )


def _write(request: _Request, goal: Goal, output: OutputOptions) -> int:
    """Writes the module in its new order, as canonical text."""
    request.check_whole(f"--reorder {goal} --format hlo")
    new = request.reordered(goal)
    return _write_text(request, new.module, output, new.copies)


def _write_text(request: _Request, module: Module, output: OutputOptions, copies: tuple[str, ...] = ()) -> int:
    from hlo_cli.commands.modules.loading import notes_of
    from hlo_cli.commands.modules.rewriting import verify_if
    from hlo_cli.transform.in_place_hazards import copies_note

    loaded = request.loaded
    verified = verify_if(request.options.verify, loaded.module, module)
    write(module.chunks(), output.path)
    notes = [Diagnostic("note", words) for words in copies_note(copies)]
    return print_diagnostics((*verified.notes, *notes, *notes_of(loaded)), loaded.module.errors, output) or (
        verified.exit_code
    )
