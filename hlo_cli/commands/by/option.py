"""`--by`: the option, which several commands have with groupings of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from hlo_cli.commands.shared.command import option
from hlo_cli.source import joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By

_F = TypeVar("_F", bound=Callable[..., object])

CAUSES: Final[tuple[By, ...]] = ("source", "scope", "argument", "pass")
"""The groupings by cause, which all commands with `--by` have."""


def by_option(purpose: str, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Callable[[_F], _F]:
    """`--by`, passed to the command as `grouping`; `purpose` begins the help.

    `before` and `after` are the command's own groupings, listed around those by cause; the first of `before` is the
    default.
    """
    groupings = (*before, *CAUSES, *after)
    return option(
        "--by",
        "grouping",
        group="Reports",
        is_common=True,
        type=click.Choice(groupings),
        metavar="GROUP",
        default=before[0] if before else None,
        help=f"{purpose}: {joined_by_or(groupings)}.",
    )


def cause_of(grouping: str | None) -> By | None:
    """The grouping if it is one by cause.

    >>> cause_of("scope"), cause_of("opcode"), cause_of(None)
    ('scope', None, None)
    """
    return next((cause for cause in CAUSES if cause == grouping), None)
