"""Options of `hlo diff`; those without effect are errors."""

from __future__ import annotations

from functools import partial
from typing import Final

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import OUTPUT, by_option, each_option, flag, jobs_option, option, timeout_option
from hlo_cli.commands.options.io_options import (
    InputOptions,
    OutputOptions,
    check_options,
    conflict_error,
    given_options,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, did_you_mean, nearest

# those of analysis/matching/changes, which would load slowly here, and the schedule, which changes no instruction
IGNORABLE_KINDS: Final = (
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

_VIEWS: Final = ("--rows", "--passes", "--normalize", "--text", "--stat", "--name-only")
"""The options that select a view, the first of two first in an error."""

_OF_HOSTS: Final = ("--ignore", "--jobs", "--timeout", "--exit-code")
"""The options that the comparison of hosts has."""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The differences to show, and their form."""

    rows: bool = flag(
        "--rows",
        group="Reports",
        is_common=True,
        help="List every changed instruction, with its statement.",
        excludes=("--each", "--jobs"),
        excludes_hint="--rows lists the changes of one pair of modules",
    )
    as_text: bool = flag(
        "--text",
        group="Reports",
        is_common=True,
        help="Show a line diff, by computation.",
        excludes=("--each", "--sort", "--columns"),
        excludes_hint="--text shows lines in order; use it with one pair of modules",
    )
    stat: bool = flag(
        "--stat",
        group="Reports",
        is_common=True,
        help="Show the number of changes per computation.",
        excludes=("--schedule",),
        excludes_hint="--stat already counts moved instructions",
    )
    name_only: bool = flag(
        "--name-only",
        group="Reports",
        is_common=True,
        help="Show only the names of changed instructions.",
        excludes=("--columns",),
        excludes_hint="--name-only shows only names",
    )
    passes: bool = flag(
        "--passes",
        group="Reports",
        is_common=True,
        help="Show the changes of each compiler pass, from a directory of per-pass dumps.",
        excludes=("--each", "--jobs", "--stage"),
        excludes_hint="--passes compares consecutive dumps; use --stage A..B to compare two of them",
    )
    normalize: bool = flag(
        "--normalize",
        group="Reports",
        is_common=True,
        help="Print the module with stable names and order, for golden files.",
        excludes=("--schedule", "--exit-code", "--each", "--jobs", "--top", "--sort", "--columns", "--table"),
        excludes_hint="--normalize writes one module and compares nothing",
    )
    ignore: str = option(
        "--ignore",
        "LIST",
        group="Comparison",
        is_common=True,
        default="",
        complete=partial(completion.some_of, lambda: IGNORABLE_KINDS),
        help="Ignore these kinds of changes or attributes (comma-separated).",
    )
    schedule: bool = flag(
        "--schedule", group="Comparison", is_common=True, help="Treat a different schedule order as a change."
    )
    exact: bool = flag(
        "--exact",
        group="Comparison",
        is_common=True,
        help="Treat different names, order, and metadata as differences; exit with code 1 for any.",
        excludes=("--passes", "--normalize", "--against-golden", "--by", "--exit-code"),
        excludes_hint="--exact compares two texts and exits with code 1 if they differ",
    )
    against_golden: bool = flag(
        "--against-golden",
        group="Comparison",
        is_common=True,
        help="Exit with code 1 if NEW fails a condition of --fail-on against the golden dump OLD.",
        excludes=("--passes", "--normalize", "--text", "--stat", "--name-only", "--exit-code", "--by"),
        excludes_hint="--against-golden checks the conditions of --fail-on and exits with code 1 if any fails",
    )
    fail_on: str = option(
        "--fail-on",
        "LIST",
        group="Comparison",
        is_common=True,
        default="",
        complete=partial(completion.some_of, lambda: CONDITIONS),
        help="Check only these conditions, such as memory>2%,layouts (default: all).",
        needs="--against-golden",
    )
    grouping: str | None = by_option(
        "Group changes and costs",
        excludes=(
            "--each",
            "--jobs",
            "--rows",
            "--passes",
            "--normalize",
            "--text",
            "--stat",
            "--name-only",
            "--schedule",
        ),
        excludes_hint="--by shows one table, with a row for each key",
    )
    exit_code: bool = flag(
        "--exit-code", group=OUTPUT, is_common=True, help="Exit with code 1 if there are differences."
    )
    each: bool = each_option("Print one row per pair of modules (the default for several).")
    jobs: int | None = jobs_option("Compare modules in N processes; 0 uses all CPU cores.")
    timeout: int | None = timeout_option()

    def check(self, output: OutputOptions, reading: InputOptions) -> None:
        """Raises HloError for two views, for kinds both selected and ignored, and for options without effect.

        >>> from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
        >>> DiffOptions(stat=True, name_only=True).check(OutputOptions(), InputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --stat cannot be used with --name-only
          help: use only one of them
        """
        if len(two := self._views) > 1:
            raise conflict_error(two[0], two[1])
        # --ignore schedule is the default, and contradicts the option
        if self.schedule and "schedule" in self.ignored:
            raise conflict_error("--schedule", "--ignore schedule")
        check_options(self, output, reading)

    def check_hosts(self, count: int) -> None:
        """Raises HloError for options that compare two modules, if the inputs are the hosts of a job.

        >>> DiffOptions(as_text=True).check_hosts(4)
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --text compares two inputs, and these are 4 hosts
          help: pass two of them, or omit --text
        """
        name = next((given.name for given, _ in given_options(self) if given.name not in _OF_HOSTS), None)
        if name is not None:
            hosts = f"these are {count:,} hosts" if count > 1 else "this is a directory of hosts"
            raise HloError(f"{name} compares two inputs, and {hosts}", hint=f"pass two of them, or omit {name}")

    @property
    def view(self) -> str:
        """The option that selects the view, without its dashes, or `statements`."""
        return self._views[0].removeprefix("--") if self._views else "statements"

    @property
    def ignored(self) -> tuple[str, ...]:
        """The words of --ignore; kinds may be written with a hyphen or a blank."""
        kinds = []
        for word in filter(None, (word.strip() for word in self.ignore.split(","))):
            kind, meant = _kind(word), nearest(_kind(word), IGNORABLE_KINDS)
            # any word may be an attribute; one that is a letter away from a kind is more likely a slip
            if kind not in IGNORABLE_KINDS and word.islower() and meant and abs(len(meant) - len(kind)) < 2:
                raise HloError(f"unknown kind of change '{word}'", hint=did_you_mean(meant))
            kinds.append(kind if kind in IGNORABLE_KINDS else word)
        return tuple(kinds)

    @property
    def _views(self) -> list[str]:
        """The given options that select a view."""
        given = {option.name for option, _ in given_options(self)}
        return [name for name in _VIEWS if name in given]


def _kind(word: str) -> str:
    return word.replace("-", "_").replace(" ", "_")
