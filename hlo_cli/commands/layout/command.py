"""`hlo layout`: explained layouts, and the cost of padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from hlo_cli.commands.layout.options import GROUPINGS, LayoutOptions
from hlo_cli.commands.shared.io_options import io_of, io_options
from hlo_cli.commands.shared.late_help import LateHelp
from hlo_cli.commands.shared.per_module_options import each_options
from hlo_cli.commands.shared.shape_argument import shape_text
from hlo_cli.commands.shared.where import where_option
from hlo_cli.commands.shared.writing import write_report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shared.io_options import OutputOptions
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.report.report import Report

HELP = """What a layout means; what padding costs.

INPUT is a dump (a file, a directory that --xla_dump_to wrote, a glob, or - for standard input), one instruction's
shape in it as DUMP:NAME, or a shape or instruction typed as text. Several modules get a row each.

\b
Examples:
  hlo layout 'bf16[300,70]{1,0:T(8,128)(2,1)}'
  hlo layout --for v5e 'f32[8,28,28,3]'
  hlo layout --draw 'f32[3,5]{1,0:T(2,2)}'
  hlo layout dump/ --by source --top 10
  hlo layout dump/ --where 'opcode == fusion and padding > 50%'
  hlo layout runs/ --each --jobs 0
"""


@click.command(help=HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--by", "grouping", type=click.Choice(GROUPINGS), default="shape", help="What makes a row of a dump.")
@click.option("--computation", metavar="NAME", help="Only what this computation makes.")
@where_option
@click.option("--draw", is_flag=True, help="Draw the array: slots in memory, tiles, padding.")
@click.option("--for", "generation", cls=LateHelp, metavar="TPU", late_help=lambda: _for_help())
@each_options
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Explains shapes given as text; summarizes dumps."""
    output, reading = io_of(given)
    options = LayoutOptions(**given)
    texts = [shape_text(argument, reading) for argument in inputs]
    if inputs and all(text is not None for text in texts):
        options.check_for_shapes()
        return _explain([text for text in texts if text is not None], options, output)
    if any(text is not None for text in texts):
        raise HloError("cannot mix shapes and dumps", hint="run a separate command for each")
    options.check_for_dump()
    from hlo_cli.commands.shared.load import load, what_was_read
    from hlo_cli.commands.shared.selection import Many

    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=options.about_one)
    if isinstance(loaded, Many):
        from hlo_cli.commands.layout.each import layout_each

        return layout_each(loaded, reading, options.jobs, output)
    report = _summarize(loaded, options, reading.again(inputs), output)
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _for_help() -> str:
    from hlo_cli.analysis.hardware.chips import tpu_generations

    return f"What this TPU would choose: {' '.join(generation.name for generation in tpu_generations())}."


def _explain(texts: Sequence[str], options: LayoutOptions, output: OutputOptions) -> int:
    from hlo_cli.commands.layout.shape import report_of_shapes

    return write_report(report_of_shapes(texts, draw=options.draw, generation=options.generation), output)


def _summarize(loaded: Loaded, options: LayoutOptions, argument: str, output: OutputOptions) -> Report:
    from hlo_cli.analysis.layout.padding import Grouping
    from hlo_cli.commands.layout.dump import report_of_dump

    by: Grouping = next(known for known in get_args(Grouping) if known == options.grouping)
    return report_of_dump(
        loaded,
        grouping=by,
        computation=options.computation,
        where=options.where,
        argument=argument,
        columns=output.asked_columns,
    )
