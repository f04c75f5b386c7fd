"""Options of `hlo diff`; those without effect are errors."""

from __future__ import annotations

from typing import Final

from hlo_cli.commands.options.io_options import Idle, OutputOptions, check_conflicts, conflict_error, requirement_error
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, did_you_mean, nearest

KINDS: Final = (
    *("opcode", "shape", "layout", "tiling", "memory_space", "operands", "attributes", "sharding", "constants"),
    *("backend_config", "fusion", "computation", "metadata", "header", "schedule"),
)

LIMITED: Final = ("memory", "flops", "bytes", "padding", "collectives", "kernels", "arguments")
"""Conditions of --fail-on on numbers, which may have a limit."""
CONDITIONS: Final = (
    *LIMITED,
    *("shapes", "layouts", "memory-spaces", "constants", "attributes", "shardings", "backend-configs", "fusions"),
    *("operations", "operands", "header", "layers", "donation", "rematerialization", "loops", "metadata"),
)
"""Conditions of --fail-on."""

_NO_EFFECT_WITH: Final[Idle] = {
    "--passes": ("--each", "--jobs", "--stage"),
    "--normalize": ("--schedule", "--exit-code", "--each", "--jobs", "--top", "--sort", "--columns", "--table"),
    "--text": ("--each", "--sort", "--columns"),
    "--stat": ("--schedule",),
    "--name-only": ("--columns",),
    "--rows": ("--each", "--jobs"),
    "--against-golden": ("--passes", "--normalize", "--text", "--stat", "--name-only", "--exit-code", "--by"),
    "--exact": ("--passes", "--normalize", "--against-golden", "--by", "--exit-code"),
    "--by": ("--each", "--jobs", "--rows", "--passes", "--normalize", "--text", "--stat", "--name-only", "--schedule"),
}
"""For each view, the options that have no effect in it."""
_HINTS: Final = {
    "--passes": "--passes compares consecutive dumps; use --stage A..B to compare two of them",
    "--normalize": "--normalize writes one module and compares nothing",
    "--text": "--text shows lines in order; use it with one pair of modules",
    "--stat": "--stat already counts moved instructions",
    "--name-only": "--name-only shows only names",
    "--rows": "--rows lists the changes of one pair of modules",
    "--against-golden": "--against-golden checks the conditions of --fail-on and exits with code 1 if any fails",
    "--by": "--by shows one table, with a row for each key",
    "--exact": "--exact compares two texts and exits with code 1 if they differ",
}


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The differences to show, and their form; names are those of the command's parameters."""

    rows: bool = False
    passes: bool = False
    normalize: bool = False
    as_text: bool = False
    stat: bool = False
    name_only: bool = False
    schedule: bool = False
    exact: bool = False
    ignore: str = ""
    exit_code: bool = False
    against_golden: bool = False
    fail_on: str = ""
    grouping: str | None = None
    each: bool = False
    jobs: int | None = None

    def check(self, output: OutputOptions, *, has_stage: bool = False) -> None:
        """Raises HloError for two views, for kinds both selected and ignored, and for options without effect.

        >>> DiffOptions(stat=True, name_only=True).check(OutputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --stat cannot be used with --name-only
        """
        if len(two := [name for name, is_given in self._views.items() if is_given]) > 1:
            raise conflict_error(two[0], two[1])
        if self.schedule and "schedule" in self.ignored:
            raise conflict_error("--schedule", "--ignore schedule")
        if self.fail_on and not self.against_golden:
            raise requirement_error("--fail-on", "--against-golden")
        rest = {"--against-golden": self.against_golden, "--by": self.grouping is not None}
        rest |= {"--exact": self.exact, "--schedule": self.schedule, "--exit-code": self.exit_code, "--each": self.each}
        rest |= {"--jobs": self.jobs is not None, "--stage": has_stage}
        check_conflicts({**self._views, **rest}, output, _NO_EFFECT_WITH, _HINTS)

    @property
    def view(self) -> str:
        """The option that selects the view, without its dashes, or `statements`."""
        return next((name.removeprefix("--") for name, is_given in self._views.items() if is_given), "statements")

    @property
    def ignored(self) -> tuple[str, ...]:
        """The words of --ignore; kinds may be written with a hyphen or a blank."""
        found = []
        for word in filter(None, (word.strip() for word in self.ignore.split(","))):
            kind, meant = _kind(word), nearest(_kind(word), KINDS)
            if kind not in KINDS and word.islower() and meant and abs(len(meant) - len(kind)) < 2:
                raise HloError(f"unknown kind of change '{word}'", hint=did_you_mean(meant))
            found.append(kind if kind in KINDS else word)
        return tuple(found)

    @property
    def _views(self) -> dict[str, bool]:
        return {
            "--rows": self.rows,
            "--passes": self.passes,
            "--normalize": self.normalize,
            "--text": self.as_text,
            "--stat": self.stat,
            "--name-only": self.name_only,
        }


def _kind(word: str) -> str:
    return word.replace("-", "_").replace(" ", "_")
