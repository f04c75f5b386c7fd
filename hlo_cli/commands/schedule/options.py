"""Options of `hlo schedule`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options.io_options import conflict_error, format_options, requirement_error
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.commands.schedule.critical_path import Model
    from hlo_cli.commands.schedule.syntax_sugar import Direction
    from hlo_cli.report.report import Report
    from hlo_cli.transform.reorder import Goal

MODELS: Final = ("bytes", "flops", "kernels", "time")
ORDERS: Final = ("memory", "dfs", "bfs", "latency", "postorder")


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """The report and the part of the schedule that are selected; names are those of the command's parameters."""

    sequence: bool = False
    model: Model | None = None
    goal: Goal | None = None
    desugar: bool = False
    sugar: bool = False
    verify: bool = False
    limit: str | None = None
    space: str | None = None
    where: str | None = None
    computation: str | None = None
    grouping: str | None = None
    chip: str | None = None
    chip_file: str | None = None
    each: bool = False
    jobs: int | None = None

    def is_refuted(self, report: Report) -> bool:
        """Whether --verify found that the new module computes something else."""
        return self.verify and report.numbers.get("verified") in ("approximation", "different")

    def check(self) -> None:
        """Raises HloError for options that conflict or that require another option.

        >>> ScheduleOptions(space="HBM").check()
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --space requires --sequence
        """
        if self.space is not None and not self.sequence:
            raise requirement_error("--space", "--sequence")
        if len(two := self._reports) > 1:
            raise conflict_error(two[0], two[1])
        if self.verify and self.goal is None and self.direction is None:
            raise requirement_error("--verify", "--reorder, --desugar, or --sugar")
        if self.limit is not None and self.goal != "latency":
            raise requirement_error("--limit", "--reorder latency")
        if self.model == "time" and self.chip is None and self.chip_file is None:
            hint = "run `hlo help chips` to list all chips"
            raise requirement_error("--critical-path time", "--chip NAME", hint=hint)

    @property
    def direction(self) -> Direction | None:
        """The direction of a change between generic and short forms, None if none is given."""
        if self.desugar:
            return "desugar"
        return "sugar" if self.sugar else None

    @property
    def about_one(self) -> list[str]:
        """The given options that require a single module, as typed."""
        narrowed = {"--computation": self.computation is not None, "--where": self.where is not None}
        return [*self._reports, *(option for option, given in narrowed.items() if given)]

    @property
    def reordering(self) -> str:
        """The given options that select another order, as typed."""
        chip = (("--chip", self.chip), ("--chip-file", self.chip_file))
        return format_options((("--reorder", self.goal), *chip, ("--limit", self.limit)))

    @property
    def _reports(self) -> list[str]:
        selected = {"--by": self.grouping is not None, "--sequence": self.sequence}
        selected["--critical-path"] = self.model is not None
        selected |= {"--reorder": self.goal is not None, "--desugar": self.desugar, "--sugar": self.sugar}
        return [option for option, given in selected.items() if given]
