"""Options of `hlo lint`; those without effect are errors."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options.io_options import Idle, OutputOptions, check_conflicts, conflict_error
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By

_OPTIONS: Final = {"assignments": "set"}
"""Parameters whose option has another name."""
_CHECK_OPTIONS: Final = (
    *("--baseline", "--write-baseline", "--expect", "--golden", "--statistics", "--exit-zero", "--each", "--jobs",
      "--top", "--by", "--chip", "--chip-file", "--profile", "--sort"),
)  # fmt: skip
ORDERS: Final = ("cost", "place")
"""Values of `--sort` that order findings in every format; others are columns of tables."""
_TABLE_OPTIONS: Final = ("--top", "--sort")
"""Options that apply to every table."""
_RULE_OPTIONS: Final = ("--select", "--ignore", "--min-severity", "--set", "--isolated", "--strict")
_NO_EFFECT_WITH: Final[Idle] = {
    "--explain": (*_CHECK_OPTIONS, *_RULE_OPTIONS, "--list-rules", "--show-settings"),
    "--list-rules": (
        *(each for each in _CHECK_OPTIONS if each not in _TABLE_OPTIONS),
        *_RULE_OPTIONS,
        "--show-settings",
    ),
    "--show-settings": tuple(each for each in _CHECK_OPTIONS if each not in (*_TABLE_OPTIONS, "--chip")),
    "--write-baseline": (
        "--baseline",
        "--expect",
        "--golden",
        "--statistics",
        "--by",
        "--each",
        "--top",
        "--chip-file",
        "--profile",
        "--sort",
    ),
    "--each": ("--statistics", "--by"),
    "--by": ("--statistics",),
}
"""For each option that replaces the findings, the options that have no effect with it."""
_HINTS: Final = {
    "--explain": "--explain takes no other options of hlo lint",
    "--list-rules": "--list-rules lists all rules; use --show-settings to see which are selected",
    "--show-settings": "--show-settings checks no modules",
    "--write-baseline": "--write-baseline records every finding of the selected rules, but no assertions",
    "--by": "--by rule and --statistics have the same rows",
    "--each": "--each has one row per module, --statistics one per rule",
}


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The selected rules and inputs of the check, and the form of the report; names are the command's parameters."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_severity: str | None = None
    assignments: tuple[str, ...] = ()
    baseline: str | None = None
    write_baseline: str | None = None
    expect: tuple[str, ...] = ()
    golden: str | None = None
    each: bool = False
    jobs: int | None = None
    statistics: bool = False
    exit_zero: bool = False
    by: str | None = None
    chip: str | None = None
    chip_file: str | None = None
    profile: str | None = None
    order: str = "cost"
    isolated: bool = False
    show_settings: bool = False
    list_rules: bool = False
    explain: str | None = None

    def check(self, output: OutputOptions, *, strict: bool = False) -> None:
        """Raises HloError for two options of which one would be ignored.

        >>> LintOptions(explain="HLO101", select=("HLO1",)).check(OutputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --select cannot be used with --explain
        """
        given = {_OPTIONS.get(name, name): value for name, value in asdict(self).items() if name != "order"} | {
            "strict": strict
        }
        is_given = {f"--{name.replace('_', '-')}": value not in (None, False, ()) for name, value in given.items()}
        _check_tables(check_conflicts(is_given, output, _NO_EFFECT_WITH, _HINTS), output.format)


def cause_grouping(grouping: str | None) -> By | None:
    """The grouping if its keys are those of instructions.

    >>> cause_grouping("scope"), cause_grouping("rule"), cause_grouping(None)
    ('scope', None, None)
    """
    known: Mapping[str, By] = {"source": "source", "scope": "scope", "argument": "argument"}
    return known.get(grouping or "")


def _check_tables(there: Container[str], name: str) -> None:
    """Raises HloError for options of tables in a format that lists findings."""
    from hlo_cli.render.registry import format_names

    for option in ("--statistics", "--by", "--each", "--sort", "--columns"):
        if option in there and name in format_names("findings"):
            raise conflict_error(option, f"--format {name}", hint=f"table formats: {', '.join(format_names())}")
