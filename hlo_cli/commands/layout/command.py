"""`hlo layout`: explained layouts, and the cost of padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from hlo_cli.commands.options import completion
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
from hlo_cli.commands.options.io_options import OutputOptions, given_about, io_of, io_options
from hlo_cli.commands.options.writing import write_report
from hlo_cli.commands.shape.argument import shape_text
from hlo_cli.dataclass import dataclass
from hlo_cli.report.report import Report
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.commands.modules.loading import Loaded

# --- options ---


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """The rows of a dump, or the view of a shape."""

    grouping: str = by_option(
        "Group by", before=("shape",), after=("op_name", "instruction", "computation", "opcode"), about="one"
    )
    draw: bool = flag(
        "--draw",
        group="Reports",
        is_common=True,
        help="Draw the array with its memory positions, tiles, and padding.",
        about="shape",
    )
    generation: str | None = option(
        "--for",
        "TPU",
        group="Reports",
        is_common=True,
        complete=completion.tpus,
        help=lambda: f"Show the layout that this TPU would use: {_generations()}.",
        about="shape",
    )
    where: str | None = where_option(about="one")
    computation: str | None = option(
        "--computation",
        "NAME",
        group="Filters",
        is_common=True,
        complete=completion.computations,
        help="Include only values defined in this computation.",
        about="one",
    )
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    def check_for_shapes(self) -> None:
        """Raises HloError for an option that requires a dump."""
        if names := self.about_one:
            raise HloError(f"{names[-1]} requires a dump, not a shape", hint=f"pass a dump, or remove {names[-1]}")

    def check_for_dump(self) -> None:
        """Raises HloError for an option that requires a shape."""
        if names := given_about(self, "shape"):
            raise HloError(
                f"{names[0]} requires a shape, not a dump", hint="name an instruction, such as DUMP:fusion.2"
            )

    @property
    def about_one(self) -> list[str]:
        """The given options that require a single module, as typed.

        >>> LayoutOptions(grouping="source", where="rank > 1").about_one
        ['--by', '--where']
        """
        return given_about(self, "one")


# --- the command ---


HELP = """\
Explain a layout, or find memory lost to padding.

INPUT is a shape such as 'f32[8,128]{1,0:T(8,128)}', an instruction in a dump
(DUMP:NAME), or a dump: a file, a directory written by --xla_dump_to, a glob, or
- for stdin. Several modules get one row each.
"""
EXAMPLES = (
    "hlo layout 'bf16[300,70]{1,0:T(8,128)(2,1)}'",
    "hlo layout dump/ --by source --top 10",
    "hlo layout --draw 'f32[3,5]{1,0:T(2,2)}'",
    "hlo layout --for v5e 'f32[8,28,28,3]'",
    "hlo layout dump/ --where 'opcode == fusion and padding > 50%'",
    "hlo layout runs/ --each --jobs 0",
)


@click.command(cls=Command, help=HELP, examples=EXAMPLES)
@click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=completion.files)
@with_options(LayoutOptions)
@io_options
def command(inputs: tuple[str, ...], **given: Any) -> int:
    """Explains shapes given as text; summarizes dumps."""
    output, reading = io_of(given)
    options = LayoutOptions(**given)
    texts = [shape_text(argument, reading) for argument in inputs]
    if inputs and all(text is not None for text in texts):
        options.check_for_shapes()
        return _explain([text for text in texts if text is not None], options, output)
    # shapes have a table of their own, without names and users
    if any(text is not None for text in texts):
        raise HloError("cannot mix shapes and dumps", hint="run a separate command for each")
    options.check_for_dump()
    from hlo_cli.commands.modules.loading import Many, load, what_was_read

    loaded = load(inputs, reading, each=options.each, jobs=options.jobs, about_one=options.about_one)
    if isinstance(loaded, Many):
        from hlo_cli.commands.layout.sums import layout_each

        return layout_each(loaded, reading, options.jobs, output)
    report = _summarize(loaded, options, reading.command_line(inputs), output)
    return write_report(report, output, loaded.module.errors, read=what_was_read(loaded.module))


def _generations() -> str:
    from hlo_cli.analysis.hardware.chips import tpu_generations

    return joined_by_or([generation.name for generation in tpu_generations()])


def _explain(texts: Sequence[str], options: LayoutOptions, output: OutputOptions) -> int:
    from hlo_cli.commands.layout.shape import report_of_shapes

    return write_report(report_of_shapes(texts, draw=options.draw, generation=options.generation), output)


def _summarize(loaded: Loaded, options: LayoutOptions, argument: str, output: OutputOptions) -> Report:
    from hlo_cli.analysis.layout.buffer_sizes import Grouping
    from hlo_cli.commands.layout.dump import report_of_dump

    by: Grouping = next((known for known in get_args(Grouping) if known == options.grouping), "shape")
    return report_of_dump(
        loaded,
        grouping=by,
        cause=cause_of(options.grouping),
        computation=options.computation,
        where=options.where,
        argument=argument,
        columns=output.requested_columns,
    )
