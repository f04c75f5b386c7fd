"""`hlo fuse`: what is fused, what that saves, and what everything costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.fuse.option_conflicts import Changes, check_calls, check_changes, check_together
from hlo_cli.commands.shared.chips import chip_options
from hlo_cli.commands.shared.io_options import (
    input_options,
    output_of,
    output_options,
    print_diagnostics,
    reading_of,
    write,
    write_report,
)
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.commands.shared.where import where_option
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.fuse.roofline_columns import TimingColumns
    from hlo_cli.commands.fuse.what_if import RefusionOptions, Result
    from hlo_cli.commands.shared.io_options import OutputOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.ir.computation import Computation
    from hlo_cli.report.report import Report

HELP = """What is fused, what that saves, and what everything costs.

INPUT is a dump: a file, a directory that --xla_dump_to wrote, a glob, or - for standard input; of several modules,
each gets a row and is checked. Each fusion is shown with what it reads and writes and how many bytes stay inside it;
NAME opens one. Costs are those of XLA's cost analysis, as whole numbers. What breaks XLA's rules for fusions is an
error, and the exit code 1.

\b
Examples:
  hlo fuse dump/
  hlo fuse dump/ multiply_add_fusion.2
  hlo fuse dump/ --where 'hero ~ reduce and saved_bytes > 1MiB'
  hlo fuse dump/ --cost --sort flops
  hlo fuse dump/ --dots --chip v5e
  hlo fuse dump/ --custom-calls
  hlo fuse dump/ --why-not
  hlo fuse dump/ --unfuse all --apply
  hlo fuse dump/ --apply --fusion-rules multi-output
  hlo fuse dump/ --fuse tanh.3,multiply.7 --keep -o new.hlo
"""


@click.command(help=HELP)
@click.argument("arguments", nargs=-1, metavar="INPUT [NAME]")
@click.option("--cost", is_flag=True, help="Every instruction: flops, transcendentals, and bytes of each operand.")
@click.option("--as-xla", is_flag=True, help="With --cost: XLA's own figures to the last bit, rounded as float32.")
@click.option("--dots", is_flag=True, help="Every product of matrices and convolution: m, n, k, batch, types.")
@click.option("--custom-calls", is_flag=True, help="Every custom call, or the one of this NAME, taken apart.")
@click.option("--c-signature", is_flag=True, help="C for the functions that custom calls call, or for one call's.")
@click.option("--why-not", is_flag=True, help="Neighbours that are not fused, why not, and what fusing would save.")
@click.option("--apply", is_flag=True, help="What if the CPU compiler's fusion pass came now: the result as a diff.")
@click.option("--fuse", "pair", metavar="A,B", help="What if A were computed inside B, or beside it, in one kernel.")
@click.option("--keep", is_flag=True, help="With --fuse: what else takes A gets it from the fusion, not a second A.")
@click.option("--into", metavar="FUSION", help="The fusion that what --fuse names goes into.")
@click.option("--unfuse", metavar="NAME|all", help="What if these fusions were taken apart.")
@click.option(
    "--fusion-rules",
    metavar="LIST",
    help="Multi-output, no-copies, guard-softmax, wrap-transpose, no-wrap, with commas.",
)
@click.option("--computation", metavar="NAME", help="Only what stands in this computation.")
@chip_options("What bounds each, and how long it takes at least, on this chip")
@where_option
@each_options
@input_options
@output_options
def command(
    arguments: tuple[str, ...],
    cost: bool,
    as_xla: bool,
    dots: bool,
    custom_calls: bool,
    c_signature: bool,
    why_not: bool,
    apply: bool,
    pair: str | None,
    keep: bool,
    into: str | None,
    unfuse: str | None,
    fusion_rules: str | None,
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
    inputs, name = _input_and_name(arguments)
    is_about_calls = custom_calls or c_signature
    changed = Changes(apply, _listed(pair), keep, into, _listed(unfuse), _listed(fusion_rules))
    fusion = name is not None and not is_about_calls
    asked = {"NAME": fusion, "--cost": cost, "--dots": dots, "--custom-calls": is_about_calls, "--why-not": why_not}
    asked |= {changed.option: changed.is_asked}
    check_together(asked, as_xla=as_xla, narrowed=bool(where or computation))
    check_changes(changed, why_not=why_not, is_part=computation is not None or where is not None)
    if is_about_calls:
        check_calls(chip=chip or chips, where=where, is_list=name is None and not c_signature)
    from hlo_cli.analysis.fusion.fusion_verifier import verify_fusions
    from hlo_cli.commands.fuse.roofline_columns import TimingColumns
    from hlo_cli.commands.shared.chips import chosen_throughput
    from hlo_cli.commands.shared.load import check_running, load, what_was_read
    from hlo_cli.commands.shared.selection import Many

    throughput = chosen_throughput(chip, chips)
    timing = TimingColumns(throughput) if throughput is not None else None
    wish = _Wish(name, cost, as_xla, dots, is_about_calls, why_not, changed, timing, computation, where)
    loaded = load(inputs, reading, each=each, jobs=jobs, about_one=_about_one(asked, wish))
    if isinstance(loaded, Many):
        from hlo_cli.commands.fuse.each import fuse_each

        return fuse_each(loaded, reading, jobs, timing, output)
    if not wish.is_of_parts:
        check_running(loaded.module)
    broken = () if is_about_calls else tuple(verify_fusions(loaded.module))
    if why_not or changed.is_asked:
        _check_sound((*loaded.module.errors, *broken))
    if c_signature:
        from hlo_cli.commands.fuse.custom_calls import write_c

        return write_c(loaded, output, name=name, within=_within(loaded, wish))
    if changed.is_asked and output.is_module:
        return _write(loaded, changed, output)
    report = _report(loaded, wish, reading.again(inputs))
    if timing is not None and not fusion:
        from hlo_cli.commands.shared.stage_notes import bounded_report

        report = bounded_report(report, loaded)
    code = write_report(report, output, (*loaded.module.errors, *broken), read=what_was_read(loaded.module))
    return code if loaded.module.errors else min(code, 1)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is asked for."""

    name: str | None
    cost: bool
    as_xla: bool
    dots: bool
    custom_calls: bool
    why_not: bool
    changed: Changes
    timing: TimingColumns | None
    computation: str | None
    where: str | None

    @property
    def is_of_parts(self) -> bool:
        """Whether a part of a module answers it; what a module launches needs its entry."""
        return self.name is not None or self.dots or self.custom_calls or self.computation is not None


def _input_and_name(arguments: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The inputs, and the name of a fusion if one stands behind them."""
    if len(arguments) < 2 or os.path.exists(arguments[-1]) or set(arguments[-1]) & set("*?[/"):
        return tuple(arguments), None
    return tuple(arguments[:-1]), arguments[-1]


def _listed(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip()) if names is not None else ()


def _result(loaded: Loaded, changed: Changes) -> tuple[Result, RefusionOptions]:
    from hlo_cli.commands.fuse.what_if import RefusionOptions, what_if

    wish = RefusionOptions(changed.apply, changed.pair, changed.keep, changed.into, changed.unfuse, changed.rules)
    return what_if(loaded.module, wish), wish


def _write(loaded: Loaded, changed: Changes, output: OutputOptions) -> int:
    """The changed module as canonical text."""
    from hlo_cli.commands.shared.load import notes_of
    from hlo_cli.ir.printer import module_chunks
    from hlo_cli.transform.in_place import copies_note

    result, _ = _result(loaded, changed)
    write(module_chunks(result.module), output.path)
    notes = [Diagnostic("note", words) for words in copies_note(result.copies)]
    return print_diagnostics((*notes, *notes_of(loaded)), loaded.module.errors, output)


def _about_one(asked: Mapping[str, bool], wish: _Wish) -> list[str]:
    """The options given that are about a single module."""
    narrowed = {"--computation": wish.computation is not None, "--where": wish.where is not None}
    rules = {"--fusion-rules": bool(wish.changed.rules)}
    return [option for option, given in {**asked, **narrowed, **rules}.items() if given]


def _check_sound(problems: Sequence[Diagnostic]) -> None:
    """HloError if a module has errors: by which rules it would be fused, nobody can tell."""
    if any(each.severity == "error" for each in problems):
        raise HloError.of((Diagnostic("error", "a module with errors is not fused or taken apart"), *problems))


def _within(loaded: Loaded, wish: _Wish) -> Computation | None:
    return None if wish.computation is None else loaded.module.computation(wish.computation)


def _report(loaded: Loaded, wish: _Wish, argument: str) -> Report:
    within = _within(loaded, wish)
    if wish.custom_calls:
        from hlo_cli.commands.fuse.custom_calls import report_of_custom_calls

        return report_of_custom_calls(loaded, name=wish.name, within=within, where=wish.where, argument=argument)
    if wish.name is not None:
        from hlo_cli.commands.fuse.fusion_tree import report_of_fusion

        return report_of_fusion(loaded, wish.name, timing=wish.timing, argument=argument)
    if wish.changed.is_asked:
        from hlo_cli.commands.fuse.what_if import report_of_what_if

        result, changes = _result(loaded, wish.changed)
        return report_of_what_if(loaded, result, changes, argument=argument)
    if wish.why_not:
        from hlo_cli.commands.fuse.what_if import rules_of
        from hlo_cli.commands.fuse.why_not import report_of_why_not

        rules = rules_of(wish.changed.rules)
        return report_of_why_not(loaded, rules, within=within, where=wish.where, argument=argument)
    if wish.cost:
        from hlo_cli.commands.fuse.cost import report_of_costs

        return report_of_costs(
            loaded, as_xla=wish.as_xla, within=within, where=wish.where, timing=wish.timing, argument=argument
        )
    if wish.dots:
        from hlo_cli.commands.fuse.dots import report_of_dots

        return report_of_dots(loaded, within=within, where=wish.where, timing=wish.timing)
    from hlo_cli.commands.fuse.fusion_table import report_of_fusions

    return report_of_fusions(loaded, within=within, where=wish.where, timing=wish.timing, argument=argument)
