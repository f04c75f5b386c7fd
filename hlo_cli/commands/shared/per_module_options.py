"""`--each` and `--jobs`: a row for each of many modules, and the number of processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., object])


def each_options_of(each: str, jobs: str) -> Callable[[_F], _F]:
    """`--each` and `--jobs`, passed to the command as a flag and a number or None; the arguments are their help."""

    def add(function: _F) -> _F:
        for option in (
            click.option("--jobs", type=click.IntRange(min=0), metavar="N", help=jobs),
            click.option("--each", is_flag=True, help=each),
        ):
            function = option(function)
        return function

    return add


each_options = each_options_of(
    "Print one row per module. Implied by more than one module.",
    "Use N processes with --each; 0 uses all CPU cores.",
)
"""The same options, with the help for commands that report on one module or write a row for each."""


def processes(jobs: int | None, work: int) -> int:
    """The number of processes for some pieces of work: one by default, one for each core for 0.

    >>> processes(None, 100), processes(4, 100), processes(4, 2)
    (1, 4, 2)
    """
    return min(1 if jobs is None else jobs or os.cpu_count() or 1, max(work, 1))
