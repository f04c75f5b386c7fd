"""Options of `hlo graph`: their values, and which of them go together."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from hlo_cli.commands.options.io_options import OutputOptions, conflict_error, requirement_error
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

Heat: TypeAlias = Literal["bytes", "flops", "padding", "live", "time"]
HEATS: Final[tuple[Heat, ...]] = ("bytes", "flops", "padding", "live", "time")
ALL: Final = "all"
# what feeds a node and what feeds that; with three, a picture of a real module is too full to read
DEFAULT_DEPTH: Final = 2
_ONE_PART: Final = ("--around", "--between", "--where")


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Which part of the module to show, and how; names are those of the command's parameters."""

    computation: str | None = None
    around: str | None = None
    depth: int | None = None
    between: tuple[str, str] | None = None
    where: str | None = None
    transfers: bool = False
    expand: tuple[str, ...] = ()
    heat: Heat | None = None
    chip: str | None = None
    chip_file: str | None = None
    open: bool = False

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
        """
        given = [name for name, value in zip(_ONE_PART, (self.around, self.between, self.where), strict=True) if value]
        if len(given) > 1:
            raise conflict_error(given[1], given[0])
        if inputs > 2:
            raise HloError(f"expected one or two inputs, found {inputs}", hint="pass a dump, or OLD and NEW")
        is_near_changes = inputs == 2 and not given
        if self.depth is not None and not (self.around or is_near_changes):
            raise requirement_error("--depth", "--around NAME")
        if self.heat == "time" and not (self.chip or self.chip_file):
            raise requirement_error("--heat time", "--chip NAME")
        if self.expand and (self.between or self.where):
            raise conflict_error("--expand", given[0], hint="the computations on the way are expanded")
        if self.transfers and self.where:
            raise conflict_error("--transfers", "--where", hint="match transfers with the expression")
        if output.format == "tree" and not (self.is_limited or self.depth is not None):
            raise HloError("--format tree requires a part of the graph", hint="add --around NAME or --between A B")
