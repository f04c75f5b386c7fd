"""`hlo schedule`: what overlaps, and what waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.options import finish, input_options, output_of, output_options, reading_of
from hlo_cli.commands.where import where_option
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.async_overlap import Overlap
    from hlo_cli.commands.loading import Loaded
    from hlo_cli.commands.schedule_path import Model
    from hlo_cli.report.report import Report

MODELS = ("bytes", "flops", "kernels")

HELP = """What overlaps, and what waits.

INPUT is a dump: a file, a directory that --xla_dump_to wrote, a glob, or - for standard input. Each asynchronous
operation is shown with what runs while it is under way; one with no kernel in between, or that the compiler marks
is_sync, is exposed. Steps are those of hlo memspace. What breaks XLA's rules for asynchronous operations is an
error, and the exit code 1.

\b
Examples:
  hlo schedule dump/
  hlo schedule dump/ --where 'exposed and bytes > 1MiB' --sort bytes
  hlo schedule dump/ --sequence --where 'in_flight > 0'
  hlo schedule dump/ --critical-path bytes
  hlo schedule dump/ -o schedule.html
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--sequence", is_flag=True, help="Every step: what is alive, what starts and ends, what is in flight.")
@click.option("--critical-path", "model", type=click.Choice(MODELS), help="The longest chain, by what takes time.")
@click.option("--space", metavar="SPACE", help="Which memory the sequence shows: HBM, VMEM …, its number, or all.")
@click.option("--computation", metavar="NAME", help="Only what this computation runs.")
@where_option
@input_options
@output_options
def command(
    inputs: tuple[str, ...],
    sequence: bool,
    model: Model | None,
    space: str | None,
    computation: str | None,
    where: str | None,
    **options: object,
) -> int:
    """Reads, computes, reports."""
    output, reading = output_of(options), reading_of(options)
    if space is not None and not sequence:
        raise HloError("--space is about the sequence", hint="add --sequence")
    if model is not None and sequence:
        raise HloError("--sequence and --critical-path are two questions", hint="ask them one after the other")
    from hlo_cli.analysis.async_overlap import overlap_of
    from hlo_cli.analysis.async_rules import broken_rules
    from hlo_cli.commands.loading import load_one, what_was_read

    loaded = load_one(inputs, reading)
    argument = inputs[0] if len(inputs) == 1 else ""
    overlap = overlap_of(loaded.module)
    report = _report(loaded, overlap, argument, _Wish(sequence, model, space, computation, where))
    broken = tuple(broken_rules(loaded.module, overlap.pairs))
    read = what_was_read(loaded.module)
    code = finish(report, output, (*loaded.module.errors, *broken), read=read)
    return code if loaded.module.errors else min(code, 1)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is asked for."""

    sequence: bool
    model: Model | None
    space: str | None
    computation: str | None
    where: str | None


def _report(loaded: Loaded, overlap: Overlap, argument: str, wish: _Wish) -> Report:
    within = None if wish.computation is None else loaded.module.computation(wish.computation)
    if wish.sequence:
        from hlo_cli.commands.schedule_steps import report_of_steps

        return report_of_steps(loaded, overlap, space=wish.space, within=within, where=wish.where)
    if wish.model is not None:
        from hlo_cli.commands.schedule_path import report_of_path

        return report_of_path(loaded, overlap, model=wish.model, within=within, where=wish.where)
    from hlo_cli.commands.schedule_pairs import report_of_pairs

    return report_of_pairs(loaded, overlap, within=within, where=wish.where, argument=argument)
