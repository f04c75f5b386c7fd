"""Options of `hlo graph`: their values, and which of them go together."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option
from hlo_cli.commands.options.declaring import OUTPUT, flag, option
from hlo_cli.commands.options.io_options import OutputOptions, check_options, requirement_error
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, joined_by_or

Heat: TypeAlias = Literal["bytes", "flops", "padding", "live", "time"]
HEATS: Final[tuple[Heat, ...]] = ("bytes", "flops", "padding", "live", "time")
ALL: Final = "all"
# what feeds a node and what feeds that; with three, a picture of a real module is too full to read
DEFAULT_DEPTH: Final = 2
_EXPANDED: Final = {"--expand": "the computations on the way are expanded"}
"""What has no effect with the options that select a part by its paths or nodes, and why."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Which part of the module to show, and how."""

    computation: str | None = option(
        "--computation",
        "NAME",
        group="Filters",
        is_common=True,
        complete=completion.computations,
        help="Draw this computation instead of the entry.",
    )
    around: str | None = option(
        "--around",
        "NAME",
        group="Filters",
        is_common=True,
        complete=completion.instructions,
        help="Draw the neighborhood of this instruction.",
        excludes=("--between", "--where"),
    )
    depth: int | None = option(
        "--depth",
        "N",
        group="Filters",
        is_common=True,
        least=0,
        default_text="2",
        help="Include neighbors of --around, or of changes, up to N edges away.",
    )
    between: tuple[str, str] | None = option(
        "--between",
        "A B",
        group="Filters",
        is_common=True,
        nargs=2,
        complete=completion.instructions,
        help="Draw all paths from instruction A to instruction B.",
        excludes={"--where": "", **_EXPANDED},
    )
    where: str | None = option(
        "--where",
        "EXPR",
        group="Filters",
        is_common=True,
        help="Draw only instructions that match EXPR (see `hlo help where`).",
        excludes={**_EXPANDED, "--transfers": "match transfers with the expression"},
    )
    transfers: bool = flag(
        "--transfers",
        group="Appearance",
        is_common=True,
        help="Draw copies and slices between memories as nodes, not as dashed edges.",
    )
    expand: tuple[str, ...] = option(
        "--expand",
        "LIST",
        group="Appearance",
        is_common=True,
        multiple=True,
        complete=completion.instructions,
        help="Expand these fusions, loops, and calls (comma-separated), or `all` of them.",
    )
    heat: Heat | None = option(
        "--heat",
        "MEASURE",
        group="Appearance",
        is_common=True,
        choices=HEATS,
        help=f"Color nodes by this measure instead of by kind: {joined_by_or(HEATS)}.",
        only_for="time",
        needs="--chip NAME",
        or_needs=("--chip-file",),
    )
    chip: str | None = chip_option("Estimate times on this chip")
    chip_file: str | None = chip_file_option()
    open: bool = flag("--open", group=OUTPUT, is_common=True, help="Show the page in a web browser.")

    @property
    def is_limited(self) -> bool:
        """Whether only a part of a computation is shown."""
        return bool(self.around or self.between or self.where)

    @property
    def expanded(self) -> frozenset[str] | None:
        """The names of instructions to expand; None for all.

        >>> sorted(GraphOptions(expand=("fusion.2,%while.3",)).expanded or ())
        ['fusion.2', 'while.3']
        """
        named = [name.strip().removeprefix("%") for each in self.expand for name in each.split(",") if name.strip()]
        return None if ALL in named else frozenset(named)

    def check(self, output: OutputOptions, inputs: int = 1) -> None:
        """Raises HloError for options of which one would have no effect.

        >>> GraphOptions(depth=1).check(OutputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --depth requires --around NAME
          help: add --around NAME
        """
        if inputs > 2:
            raise HloError(f"expected one or two inputs, found {inputs}", hint="pass a dump, or OLD and NEW")
        is_near_changes = inputs == 2 and not self.is_limited
        if self.depth is not None and not (self.around or is_near_changes):
            raise requirement_error("--depth", "--around NAME")
        check_options(self)
        if output.format == "tree" and not (self.is_limited or self.depth is not None):
            raise HloError("--format tree requires a part of the graph", hint="add --around NAME or --between A B")
