"""`--each`, `--jobs`, and `--timeout`: a row for each of many modules, the number of processes, and their time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

import click

from hlo_cli.commands.shared.command import INPUT, flag, option, options

DEFAULT_TIMEOUT_TEXT: Final = "600 with --jobs"
"""`DEFAULT_TIMEOUT` of `inputs.parallel`, which only commands on several inputs import; a test compares both."""
_TIMEOUT: Final = "hlo_cli.timeout"
_F = TypeVar("_F", bound=Callable[..., object])


def each_options_of(each: str, jobs: str) -> Callable[[_F], _F]:
    """`--each` and `--jobs`, passed to the command as a flag and a number or None; the arguments are their help.

    `--timeout` is not passed on: `timeout_given` returns its value.
    """
    return options(
        flag("--each", group=INPUT, help=each),
        option("--jobs", group=INPUT, type=click.IntRange(min=0), metavar="N", default_text="1", help=jobs),
        option(
            "--timeout",
            group=INPUT,
            type=click.IntRange(min=1),
            metavar="SECONDS",
            default_text=DEFAULT_TIMEOUT_TEXT,
            expose_value=False,
            callback=_keep_timeout,
            help="Stop reading an input after SECONDS and report an error for that input.",
        ),
    )


def timeout_given() -> float | None:
    """The value of `--timeout` of the running command in seconds; None if it is not given."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_TIMEOUT)
    return found if isinstance(found, float) else None


def _keep_timeout(context: click.Context, parameter: click.Parameter, value: int | None) -> None:
    context.meta[_TIMEOUT] = None if value is None else float(value)


each_options = each_options_of(
    "Print one row per module (the default for several).", "Use N processes with --each; 0 uses all CPU cores."
)
"""The same options, with the help for commands that report on one module or write a row for each."""


def processes(jobs: int | None, work: int) -> int:
    """The number of processes for some pieces of work: one by default, one for each core for 0.

    >>> processes(None, 100), processes(4, 100), processes(4, 2)
    (1, 4, 2)
    """
    return min(1 if jobs is None else jobs or os.cpu_count() or 1, max(work, 1))
