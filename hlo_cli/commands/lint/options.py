"""Options of `hlo lint`; those without effect are errors."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option
from hlo_cli.commands.options.declaring import OUTPUT, each_option, flag, jobs_option, option, timeout_option
from hlo_cli.commands.options.io_options import (
    InputOptions,
    OutputOptions,
    check_options,
    conflict_error,
    given_options,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.source import SEVERITIES, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By

_CHECK_OPTIONS: Final = (
    *("--baseline", "--write-baseline", "--expect", "--golden", "--statistics", "--exit-zero", "--each", "--jobs",
      "--top", "--by", "--chip", "--chip-file", "--profile", "--sort"),
)  # fmt: skip
ORDERS: Final = ("cost", "place")
"""Values of `--sort` that order findings in every format; others are columns of tables."""
_NO_TABLE_OPTIONS: Final = tuple(each for each in _CHECK_OPTIONS if each not in ("--top", "--sort"))
"""Those that do not apply to every table."""
_RULE_OPTIONS: Final = ("--select", "--ignore", "--min-severity", "--set", "--isolated", "--strict")


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The selected rules and inputs of the check, and the form of the report; `order` is that of the findings."""

    order: str = "cost"
    select: tuple[str, ...] = option(
        "--select",
        "LIST",
        group="Rules",
        is_common=True,
        multiple=True,
        complete=completion.rules,
        help="Run only these rules or groups, such as HLO1,HLO201; ALL enables every rule.",
    )
    ignore: tuple[str, ...] = option(
        "--ignore",
        "LIST",
        group="Rules",
        is_common=True,
        multiple=True,
        complete=completion.rules,
        help="Skip these rules or groups.",
    )
    min_severity: str | None = option(
        "--min-severity",
        "LEVEL",
        group="Rules",
        is_common=True,
        choices=SEVERITIES,
        help=f"Hide findings below this severity: {joined_by_or(SEVERITIES)}.",
    )
    assignments: tuple[str, ...] = option(
        "--set",
        "KEY=VALUE",
        group="Rules",
        is_common=True,
        multiple=True,
        complete=completion.settings,
        help="Override a setting, such as min_padding_bytes=1MiB (repeatable).",
    )
    explain: str | None = option(
        "--explain",
        "RULE",
        group="Rules",
        is_common=True,
        complete=completion.rules,
        help="Explain a rule and how to fix its findings.",
        excludes=(*_CHECK_OPTIONS, *_RULE_OPTIONS, "--list-rules", "--show-settings"),
        excludes_hint="--explain takes no other options of hlo lint",
    )
    list_rules: bool = flag(
        "--list-rules",
        group="Rules",
        is_common=True,
        help="List all rules.",
        excludes=(*_NO_TABLE_OPTIONS, *_RULE_OPTIONS, "--show-settings"),
        excludes_hint="--list-rules lists all rules; use --show-settings to see which are selected",
    )
    baseline: str | None = option(
        "--baseline",
        "FILE",
        group="Baselines and assertions",
        is_common=True,
        complete=completion.files,
        help="Ignore findings that are recorded in FILE.",
    )
    write_baseline: str | None = option(
        "--write-baseline",
        "FILE",
        group="Baselines and assertions",
        is_common=True,
        complete=completion.files,
        help="Record all current findings in FILE for --baseline.",
        excludes=(
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
        excludes_hint="--write-baseline records every finding of the selected rules, but no assertions",
    )
    expect: tuple[str, ...] = option(
        "--expect",
        "FILE",
        group="Baselines and assertions",
        is_common=True,
        multiple=True,
        complete=completion.files,
        help="Check the assertions in FILE (see `hlo help expect`).",
    )
    golden: str | None = option(
        "--golden",
        "DUMP",
        group="Baselines and assertions",
        complete=completion.files,
        help="Compare with DUMP where an assertion refers to golden.",
    )
    show_settings: bool = flag(
        "--show-settings",
        group="Settings",
        help="Show all settings and where each value comes from.",
        excludes=tuple(each for each in _NO_TABLE_OPTIONS if each != "--chip"),
        excludes_hint="--show-settings checks no modules",
    )
    isolated: bool = flag("--isolated", group="Settings", help="Ignore all configuration files.")
    statistics: bool = flag("--statistics", group=OUTPUT, is_common=True, help="Show the number of findings per rule.")
    by: str | None = option(
        "--by",
        "GROUP",
        group=OUTPUT,
        is_common=True,
        choices=("source", "scope", "argument", "rule"),
        help="Group findings by source, scope, argument, or rule.",
        excludes=("--statistics",),
        excludes_hint="--by rule and --statistics have the same rows",
    )
    profile: str | None = option(
        "--profile",
        "TRACE",
        group="Time estimates",
        complete=completion.files,
        help="Sort findings by the measured time of their kernels in TRACE.",
    )
    prove: bool = flag(
        "--prove",
        group="Proofs",
        help="Apply hints to the module where possible, and show the bytes that this saves.",
        excludes=("--statistics", "--by", "--each", "--write-baseline"),
    )
    python: str | None = option(
        "--python",
        "VENV",
        group="Proofs",
        needs="--prove",
        complete=completion.files,
        help="Use the jaxlib of this environment to compile the program with each hint.",
    )
    exit_zero: bool = flag(
        "--exit-zero", group=OUTPUT, is_common=True, help="Exit with code 0 even if there are findings."
    )
    chip: str | None = chip_option("Estimate the time that findings cost on chip NAME")
    chip_file: str | None = chip_file_option()
    each: bool = each_option(
        "Print one row per module with the number of findings.",
        excludes=("--statistics", "--by"),
        excludes_hint="--each has one row per module, --statistics one per rule",
    )
    jobs: int | None = jobs_option("Check modules in N processes; 0 uses all CPU cores.")
    timeout: int | None = timeout_option()

    def check(self, output: OutputOptions, reading: InputOptions) -> None:
        """Raises HloError for two options of which one would be ignored.

        >>> from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
        >>> LintOptions(explain="HLO101", select=("HLO1",)).check(OutputOptions(), InputOptions())
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --select cannot be used with --explain
          help: --explain takes no other options of hlo lint
        """
        check_options(self, output, reading)
        _check_tables({option.name for option, _ in given_options(self, output)}, output.format)


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

    for each in ("--statistics", "--by", "--each", "--sort", "--columns"):
        if each in there and name in format_names("findings"):
            raise conflict_error(each, f"--format {name}", hint=f"table formats: {', '.join(format_names())}")
