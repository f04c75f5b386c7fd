"""Options whose help lists the rows of a table, read only when the help is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class LateHelp(click.Option):
    """An option with `late_help`: a function that returns the help.

    >>> option = LateHelp(["--for"], late_help=lambda: "One of v2 v3.")
    >>> option.get_help_record(click.Context(click.Command("layout")))
    ('--for TEXT', 'One of v2 v3.')
    """

    def __init__(self, *arguments: Any, late_help: Callable[[], str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.late_help = late_help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, as click shows them."""
        self.help = self.late_help()
        return super().get_help_record(ctx)
