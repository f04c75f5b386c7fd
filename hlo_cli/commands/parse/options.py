"""Options of `hlo parse`."""

from __future__ import annotations

from typing import Final

from hlo_cli.commands.options.io_options import conflict_error, requirement_error
from hlo_cli.dataclass import dataclass

_REQUIRED: Final = {
    "--where": ("--instructions",),
    "--computation": ("--instructions", "--select", "--slice"),
    "--operands": ("--slice",),
    "--users": ("--slice",),
}
"""The effect of each option that narrows a report; given alone, these imply --instructions."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """The report and the part of the module that are selected; names are those of the command's parameters."""

    instructions: bool = False
    tree: bool = False
    explain: str | None = None
    why: str | None = None
    select: str | None = None
    part: str | None = None
    operands: int | None = None
    users: int | None = None
    desugar: bool = False
    sugar: bool = False
    verify: bool = False
    computation: str | None = None
    where: str | None = None
    profile: str | None = None
    each: bool = False
    jobs: int | None = None

    def check(self, format: str) -> None:
        """Raises HloError for conflicting reports, and for a filter on a report that has none.

        >>> ParseOptions(tree=True, where="rank > 1").check("table")
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --where cannot be used with --tree
        """
        reports = list(self._reports())
        if len(reports) > 1:
            raise conflict_error(reports[0], reports[1])
        for name in self._filters():
            if (reports or ["--instructions"])[0] not in _REQUIRED[name]:
                if reports:
                    raise conflict_error(name, reports[0])
                required = _REQUIRED[name][0]
                raise requirement_error(name, required, hint=f"add {required} NAME")
        if self.profile is not None and not self.tree and (format not in ("hlo", "pb") or reports):
            raise requirement_error("--profile", "--tree or --format hlo", hint="add --tree")
        if self.verify and not (self.part is not None or self.desugar or self.sugar):
            raise requirement_error("--verify", "--slice, --desugar, or --sugar")
        if self.desugar and self.sugar:
            raise conflict_error("--desugar", "--sugar")
        if (self.desugar or self.sugar) and format != "hlo":
            raise requirement_error("--desugar" if self.desugar else "--sugar", "--format hlo")

    def about_one(self, format: str) -> list[str]:
        """The given options that require a single module, as typed."""
        writes = (f"--format {format}",) if format in ("hlo", "pb") else ()
        return [*self._reports(), *self._filters(), *writes]

    @property
    def lists_instructions(self) -> bool:
        """Whether the report is the table of instructions."""
        return self.instructions or self.where is not None or self.computation is not None

    def _reports(self) -> dict[str, object]:
        flags = {"--instructions": self.instructions or None, "--tree": self.tree or None}
        return _given(
            {**flags, "--explain": self.explain, "--why": self.why, "--select": self.select, "--slice": self.part}
        )

    def _filters(self) -> dict[str, object]:
        steps = {"--operands": self.operands, "--users": self.users}
        return _given({"--where": self.where, "--computation": self.computation, **steps})


def _given(options: dict[str, object]) -> dict[str, object]:
    return {option: value for option, value in options.items() if value is not None}
