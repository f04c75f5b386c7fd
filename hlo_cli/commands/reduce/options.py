"""Options of `hlo reduce`, and those that `hlo bisect` has too: what fails, with which arguments, and the limits."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import click

from hlo_cli.analysis.evaluate.settings import PROBES, Wanted
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import flag, option
from hlo_cli.commands.options.io_options import check_options
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.settings import Limits

DEFAULT_STEPS: Final = 100_000
"""Candidates of a search at most: more than the edits of any module that takes less than an hour."""
DEFAULT_SECONDS: Final = 600.0
"""Seconds of a search at most, as one evaluation may take."""
_FAILURES: Final = ("--against", "--passes", "--probe", "--check", "--finding", "--oom")


@dataclass(frozen=True, slots=True)
class FailureOptions:
    """What fails, with which arguments, and the limits of a search for its cause."""

    against: str | None = option(
        "--against",
        "DUMP",
        group="Failure",
        is_common=True,
        one_of="failure",
        complete=completion.files,
        help="Compare results with those of the module DUMP.",
    )
    probe: Wanted | None = option(
        "--probe",
        "KIND",
        group="Failure",
        is_common=True,
        one_of="failure",
        choices=tuple(PROBES),
        help=f"Find elements of this kind in a result: {joined_by_or(tuple(PROBES))}.",
    )
    check: str | None = option(
        "--check",
        "COMMAND",
        group="Failure",
        is_common=True,
        one_of="failure",
        complete=completion.files,
        help="Run COMMAND, in which {} is the path of the module, and compare its exit code.",
    )
    matching: str | None = option(
        "--matching",
        "EXPR",
        group="Failure",
        needs="--check",
        help="Find EXPR in the output of --check instead of comparing its exit code.",
    )
    finding: str | None = option(
        "--finding",
        "RULE",
        group="Failure",
        is_common=True,
        one_of="failure",
        complete=completion.rules,
        help="Check for a finding of RULE of hlo lint, such as HLO102.",
    )
    oom: str | None = option(
        "--oom",
        "SIZE",
        group="Failure",
        is_common=True,
        one_of="failure",
        help="Check whether the peak of a memory is above SIZE, such as 16GiB.",
    )
    args: tuple[str, ...] = option(
        "--args",
        "FILE",
        group="Arguments",
        multiple=True,
        complete=completion.files,
        excludes=("--check", "--finding", "--oom", "--passes"),
        help="Read arguments from FILE: .npz, one .npy each, or .json; repeatable.",
    )
    seed: int = option(
        "--seed", "N", default=0, group="Arguments", least=0, default_text="0", help="Make up arguments with seed N."
    )
    max_seconds: float = option(
        "--max-seconds",
        "N",
        group="Limits",
        type=click.FloatRange(min=0),
        default=DEFAULT_SECONDS,
        default_text=f"{DEFAULT_SECONDS:g}",
        help="Stop after N seconds.",
    )
    check_seconds: float = option(
        "--check-seconds",
        "N",
        group="Limits",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        default_text="60",
        help="Stop the command of --check after N seconds.",
    )
    max_memory: str = option(
        "--max-memory",
        "SIZE",
        group="Limits",
        default="8GiB",
        help="Refuse candidates that need more memory; the limit of --check as well.",
    )

    def check_limits(self) -> None:
        """Raises HloError for options that exclude each other, and for a limit that is none."""
        check_options(self)
        for name, limit in (("--max-seconds", self.max_seconds), ("--check-seconds", self.check_seconds)):
            if not isfinite(limit):
                raise HloError(f"{name} requires a finite number")

    @property
    def limits(self) -> Limits:
        """The limits of each evaluation of a candidate."""
        from hlo_cli.analysis.evaluate.settings import Limits
        from hlo_cli.syntax.byte_sizes import parse_size

        return Limits(max_bytes=parse_size(self.max_memory), max_seconds=self.max_seconds or 1.0)


@dataclass(frozen=True, slots=True)
class ReduceOptions(FailureOptions):
    """What must keep failing, and the limits of the search."""

    passes: bool = flag(
        "--passes",
        group="Failure",
        is_common=True,
        one_of="failure",
        help="Keep the first change of results between two compiler passes, from per-pass dumps.",
    )
    tolerance: float | None = option(
        "--tolerance",
        "N",
        group="Failure",
        type=click.FloatRange(min=0),
        needs="--against or --passes",
        default_text="floats of 64 bits, never rounded",
        help="Round floats to their types, and keep a relative difference above N.",
    )
    jobs: int = option(
        "--jobs",
        "N",
        default=1,
        group="Limits",
        is_common=True,
        least=0,
        default_text="1",
        help="Check N candidates at the same time; 0 uses all CPU cores.",
    )
    max_steps: int = option(
        "--max-steps",
        "N",
        group="Limits",
        default=DEFAULT_STEPS,
        least=1,
        default_text=f"{DEFAULT_STEPS:,}",
        help="Stop after N candidates.",
    )

    def run_check(self) -> None:
        """Raises HloError for options that exclude each other, and if no failure is given."""
        self.check_limits()
        given = (self.against, self.passes, self.probe, self.check, self.finding, self.oom)
        if not any(given):
            raise HloError(f"one of {joined_by_or(_FAILURES)} is required", hint="such as --against reference.hlo")
