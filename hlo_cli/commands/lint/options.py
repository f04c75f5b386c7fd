"""Options of `hlo lint`; those without effect are errors."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict
from typing import Final

from hlo_cli.commands.shared.io_options import OutputOptions
from hlo_cli.commands.shared.option_conflicts import Idle, check_conflicts
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

_OPTIONS: Final = {"assignments": "set"}
"""Parameters whose option has another name."""
_OF_LOOKING: Final = (
    *("--baseline", "--write-baseline", "--expect", "--statistics", "--exit-zero", "--each", "--jobs", "--top"),
)
_OF_SETTINGS: Final = ("--select", "--ignore", "--severity", "--set", "--isolated", "--strict")
_NOTHING_TO: Final[Idle] = {
    "--explain": (*_OF_LOOKING, *_OF_SETTINGS, "--list-rules", "--show-settings"),
    "--list-rules": (*(each for each in _OF_LOOKING if each != "--top"), *_OF_SETTINGS, "--show-settings"),
    "--show-settings": tuple(each for each in _OF_LOOKING if each != "--top"),
    "--write-baseline": ("--baseline", "--expect", "--statistics", "--each", "--top"),
    "--each": ("--statistics",),
}
"""For each option that replaces the findings, the options that have no effect with it."""
_WHY: Final = {
    "--explain": "the page of a rule is the same whatever is looked through",
    "--list-rules": "all rules are listed; --show-settings says which are chosen",
    "--show-settings": "nothing is looked through",
    "--write-baseline": "it writes every finding; what --expect states is never part of it",
    "--each": "--statistics has a row for each rule",
}


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The selected rules and inputs of the check, and the form of the report; names are the command's parameters."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: str | None = None
    assignments: tuple[str, ...] = ()
    baseline: str | None = None
    write_baseline: str | None = None
    expect: tuple[str, ...] = ()
    each: bool = False
    jobs: int | None = None
    statistics: bool = False
    exit_zero: bool = False
    isolated: bool = False
    show_settings: bool = False
    list_rules: bool = False
    explain: str | None = None

    def check(self, output: OutputOptions, *, strict: bool = False) -> None:
        """Raises HloError for two options of which one would be ignored.

        >>> LintOptions(explain="HLO101", select=("HLO1",)).check(OutputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --explain and --select do not go together
        """
        given = {_OPTIONS.get(name, name): value for name, value in asdict(self).items()} | {"strict": strict}
        asked = {f"--{name.replace('_', '-')}": value not in (None, False, ()) for name, value in given.items()}
        _refuse_tables(check_conflicts(asked, output, _NOTHING_TO, _WHY), output.format)


def _refuse_tables(there: Container[str], name: str) -> None:
    """Raises HloError for options of tables in a format that lists findings."""
    from hlo_cli.render.registry import format_names

    for option in ("--statistics", "--each", "--sort", "--columns"):
        if option in there and name in format_names("findings"):
            hint = f"{option} is of tables; their formats: {', '.join(format_names())}"
            raise HloError(f"{option} and --format {name} do not go together", hint=hint)
