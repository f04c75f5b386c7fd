"""`--each` and `--jobs`: a row for each of many modules, and the number of processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

from hlo_cli.commands.shared.command import INPUT, flag, option, options

_F = TypeVar("_F", bound=Callable[..., object])


def each_options_of(each: str, jobs: str) -> Callable[[_F], _F]:
    """`--each` and `--jobs`, passed to the command as a flag and a number or None; the arguments are their help."""
    return options(
        flag("--each", group=INPUT, help=each),
        option("--jobs", group=INPUT, type=click.IntRange(min=0), metavar="N", default_text="1", help=jobs),
    )


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
