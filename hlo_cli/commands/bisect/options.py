"""Options of `hlo bisect`: what is searched, what fails, and the limits of the search."""

from __future__ import annotations

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import flag, option
from hlo_cli.commands.reduce.options import FailureOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class BisectOptions(FailureOptions):
    """What is searched for the cause of a failure; without `flags` and `python`, the inputs decide."""

    passes: bool = flag(
        "--passes",
        group="Search",
        is_common=True,
        one_of="search",
        help="Find the first pass dump that fails, in a directory of per-pass dumps.",
    )
    flags: str | None = option(
        "--flags",
        "FLAGS",
        group="Search",
        is_common=True,
        one_of="search",
        needs="--check",
        complete=completion.files,
        help="Find the flags that make --check fail: a list, a file, or the dump that has them.",
    )
    python: tuple[str, ...] = option(
        "--python",
        "VENV",
        group="Search",
        is_common=True,
        one_of="search",
        multiple=True,
        needs="--check",
        complete=completion.files,
        help="Run --check with this virtual environment, the oldest jaxlib first; repeatable.",
    )
    every: bool = flag(
        "--every",
        group="Search",
        excludes=("--flags", "--python"),
        help="Check every pass dump, also those that the search does not need.",
    )
    resume: str | None = option(
        "--resume",
        "DIR",
        group="Limits",
        excludes=("--python",),
        complete=completion.files,
        help="Keep verdicts in DIR until the search ends, and start with those of a stopped search.",
    )

    def run_check(self) -> None:
        """Raises HloError for options that exclude each other."""
        self.check_limits()
        if self.args and not (self.against or self.probe) and (self.check or self.finding or self.oom):
            raise HloError("--args requires --against or --probe", hint="remove --args")
