"""`--each` and `--jobs`, and which command lines ask for a row for each of many modules."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from hlo_cli.source import HloError

_F = TypeVar("_F", bound=Callable[..., object])


def each_options(function: _F) -> _F:
    """`--each` and `--jobs`: one row for each of many modules, read by several processes."""
    function = jobs_option("--each in N processes; 0: one a core.")(function)
    return click.option("--each", is_flag=True, help="A row for each module, however many; so do several inputs.")(
        function
    )


def jobs_option(words: str) -> Callable[[_F], _F]:
    """`--jobs` alone, given to the command as a number or None; `processes` says what it means."""
    return click.option("--jobs", type=click.IntRange(min=0), metavar="N", help=words)


def processes(jobs: int | None, work: int) -> int:
    """How many processes that is for some pieces of work: one where nothing is said, one a core for 0.

    >>> processes(None, 100), processes(4, 100), processes(4, 2)
    (1, 4, 2)
    """
    return min(1 if jobs is None else jobs or os.cpu_count() or 1, max(work, 1))


def is_for_each(inputs: Sequence[str], each: bool, jobs: int | None, others: Sequence[str]) -> bool:
    """Whether a command line asks for a row for each module: it says so, or names several inputs and no other answer.

    `others` are the options given that are about a single module: HloError if both are asked for.

    >>> is_for_each(["dump/"], False, None, []), is_for_each(["a.txt", "b.txt"], False, None, [])
    (False, True)
    """
    if each or jobs is not None:
        if others:
            raise HloError(f"{'--each' if each else '--jobs'} and {others[0]} do not go together")
        return True
    is_glob = len(inputs) == 1 and not os.path.lexists(inputs[0]) and glob.has_magic(inputs[0])
    return not others and (len(inputs) > 1 or is_glob)
