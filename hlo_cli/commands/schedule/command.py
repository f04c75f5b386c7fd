"""`hlo schedule`: what overlaps, and what waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.shared.chips import chip_options
from hlo_cli.commands.shared.io_options import (
    input_options,
    output_of,
    output_options,
    print_diagnostics,
    reading_of,
    worded,
    write,
    write_report,
)
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.commands.shared.where import where_option
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
    from hlo_cli.commands.schedule.critical_path import Model
    from hlo_cli.commands.schedule.syntax_sugar import Way
    from hlo_cli.commands.shared.io_options import OutputOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.ir.module import Module
    from hlo_cli.report.report import Report
    from hlo_cli.transform.reorder import How, Reordered

MODELS = ("bytes", "flops", "kernels", "time")
ORDERS = ("memory", "dfs", "bfs", "latency", "postorder")

HELP = """What overlaps, and what waits.

INPUT is a dump: a file, a directory that --xla_dump_to wrote, a glob, or - for standard input; of several modules,
each gets a row and is checked. Each asynchronous operation is shown with what runs while it is under way; one with no
kernel in between, or that the compiler marks is_sync, is exposed. With --chip, each has the time that it takes there,
and that it is waited for. Steps are those of hlo memspace. What breaks XLA's rules for asynchronous operations is an
error, and the exit code 1; a warning is about what not every XLA minds, a note about what only older versions do.

\b
Examples:
  hlo schedule dump/
  hlo schedule dump/ --where 'exposed and bytes > 1MiB' --sort bytes
  hlo schedule dump/ --sequence --where 'in_flight > 0'
  hlo schedule dump/ --critical-path bytes
  hlo schedule dump/ --chip h100 --sort exposed_seconds
  hlo schedule dump/ --chip h100 --critical-path time
  hlo schedule dump/ -o schedule.html
  hlo schedule dump/ --reorder memory
  hlo schedule dump/ --reorder latency --chip h100 --limit 12GiB -o new.hlo
  hlo schedule dump/ --desugar
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--sequence", is_flag=True, help="Every step: what is alive, what starts and ends, what is in flight.")
@click.option("--critical-path", "model", type=click.Choice(MODELS), help="The longest chain, by what takes time.")
@click.option("--reorder", "how", type=click.Choice(ORDERS), help="Another order; --format hlo writes the module.")
@click.option("--desugar", "way", flag_value="desugar", help="What slice-start and t#0 stand for, as a diff.")
@click.option("--sugar", "way", flag_value="sugar", help="The other way: async-start of a slice as slice-start.")
@click.option("--limit", metavar="SIZE", help="What --reorder latency may take of the main memory, as 12GiB.")
@click.option("--space", metavar="SPACE", help="Which memory the sequence shows: HBM, VMEM …, its number, or all.")
@click.option("--computation", metavar="NAME", help="Only what this computation runs.")
@chip_options("Estimate times for this chip")
@where_option
@each_options
@input_options
@output_options
def command(
    inputs: tuple[str, ...],
    sequence: bool,
    model: Model | None,
    how: How | None,
    way: Way | None,
    limit: str | None,
    space: str | None,
    computation: str | None,
    chip: str | None,
    chips: str | None,
    where: str | None,
    each: bool,
    jobs: int | None,
    **options: object,
) -> int:
    """Reads, computes, reports."""
    output, reading = output_of(options, writes=("hlo",)), reading_of(options)
    if space is not None and not sequence:
        raise HloError("--space is about the sequence", hint="add --sequence")
    asked = {"--sequence": sequence, "--critical-path": model is not None, "--reorder": how is not None}
    asked |= {f"--{way}": True} if way is not None else {}
    if len(two := [option for option, given in asked.items() if given]) > 1:
        raise HloError(
            f"{' and '.join(two)} are {('two', 'three', 'four')[len(two) - 2]} questions",
            hint="ask them one after the other",
        )
    if limit is not None and how != "latency":
        raise HloError("--limit is about the memory that hiding latency takes", hint="add --reorder latency")
    from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    from hlo_cli.analysis.schedule.async_verifier import verify_async
    from hlo_cli.commands.shared.chips import chosen_throughput
    from hlo_cli.commands.shared.load import check_running, load, what_was_read
    from hlo_cli.commands.shared.selection import Many

    throughput = chosen_throughput(chip, chips)
    if model == "time" and throughput is None:
        raise HloError("time on which chip?", hint="add --chip NAME; hlo help chips lists them")
    asked |= {"--computation": computation is not None, "--where": where is not None}
    single = [option for option, given in asked.items() if given]
    loaded = load(inputs, reading, each=each, jobs=jobs, about_one=single)
    if isinstance(loaded, Many):
        from hlo_cli.commands.schedule.each import schedule_each

        return schedule_each(loaded, reading, jobs, throughput, output)
    check_running(loaded.module)
    argument = reading.again(inputs)
    if way is not None:
        return _respell(loaded, way, output, argument, is_part=where is not None or computation is not None)
    given = worded((("--reorder", how), ("--chip", chip), ("--chips", chips), ("--limit", limit)))
    wish = _Wish(sequence, model, how, limit, space, computation, where, throughput, output.asked_columns, given)
    if how is not None and output.is_module:
        return _write(loaded, wish, output)
    overlap = analyze_overlap(loaded.module)
    report = _report(loaded, overlap, argument, wish)
    if throughput is not None:
        from hlo_cli.commands.shared.stage_notes import bounded_report

        report = bounded_report(report, loaded)
    broken = tuple(verify_async(loaded.module, overlap.pairs))
    read = what_was_read(loaded.module)
    code = write_report(report, output, (*loaded.module.errors, *broken), read=read)
    return code if loaded.module.errors else int(any(finding.severity == "error" for finding in broken))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is asked for."""

    sequence: bool
    model: Model | None
    how: How | None
    limit: str | None
    space: str | None
    computation: str | None
    where: str | None
    throughput: ChipSpec | None
    columns: tuple[str, ...]
    options: str  # what --reorder is asked for with, as it is typed


def _report(loaded: Loaded, overlap: OverlapAnalysis, argument: str, wish: _Wish) -> Report:
    within = None if wish.computation is None else loaded.module.computation(wish.computation)
    if wish.sequence:
        from hlo_cli.commands.schedule.sequence import report_of_steps

        return report_of_steps(
            loaded,
            overlap,
            space=wish.space,
            within=within,
            where=wish.where,
            throughput=wish.throughput,
            columns=wish.columns,
        )
    if wish.model is not None:
        from hlo_cli.commands.schedule.critical_path import report_of_path

        return report_of_path(
            loaded, overlap, model=wish.model, within=within, where=wish.where, throughput=wish.throughput
        )
    if wish.how is not None:
        from hlo_cli.commands.schedule.reorder import report_of_reordering

        new = _reordered(loaded.module, wish.how, wish)
        return report_of_reordering(
            loaded,
            overlap,
            new,
            how=wish.how,
            within=within,
            where=wish.where,
            argument=argument,
            options=wish.options,
            has_limit=wish.limit is not None,
            throughput=wish.throughput,
        )
    from hlo_cli.commands.schedule.async_table import report_of_pairs

    return report_of_pairs(
        loaded, overlap, within=within, where=wish.where, argument=argument, throughput=wish.throughput
    )


def _reordered(module: Module, how: How, wish: _Wish) -> Reordered:
    from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    from hlo_cli.syntax.sizes import parse_size
    from hlo_cli.transform.reorder import reordered
    from hlo_cli.transform.scheduling.chip_latencies import times_on_chip

    limits = {} if wish.limit is None else {0: parse_size(wish.limit)}
    times = None
    if wish.throughput is not None and how == "latency":
        times = times_on_chip(analyze_overlap(module), wish.throughput)
    return reordered(module, how, limits=limits, latency_model=times)


def _respell(loaded: Loaded, way: Way, output: OutputOptions, argument: str, *, is_part: bool) -> int:
    """The module in its other spelling: a diff, or the text."""
    from hlo_cli.commands.schedule.syntax_sugar import report_of_sugar, with_sugar
    from hlo_cli.commands.shared.load import what_was_read

    if is_part:
        raise HloError("the text is respelled whole", hint="leave out --where and --computation")
    new = with_sugar(loaded.module, way)
    if output.is_module:
        return _write_text(loaded, new, output)
    report = report_of_sugar(loaded, new, way=way, argument=argument)
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _write(loaded: Loaded, wish: _Wish, output: OutputOptions) -> int:
    """The module in its new order, as canonical text."""
    if wish.how is None or wish.where is not None or wish.computation is not None:
        raise HloError("the module is written whole", hint="leave out --where and --computation")
    new = _reordered(loaded.module, wish.how, wish)
    return _write_text(loaded, new.module, output, new.copies)


def _write_text(loaded: Loaded, module: Module, output: OutputOptions, copies: tuple[str, ...] = ()) -> int:
    from hlo_cli.commands.shared.load import notes_of
    from hlo_cli.ir.printer import module_chunks
    from hlo_cli.transform.in_place import copies_note

    write(module_chunks(module), output.path)
    notes = [Diagnostic("note", words) for words in copies_note(copies)]
    return print_diagnostics((*notes, *notes_of(loaded)), loaded.module.errors, output)
