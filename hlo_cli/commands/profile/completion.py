"""Shell completion of the names in a trace: its instructions and its steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options import completion
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from hlo_cli.analysis.profile.profile import Profile

_MAX_BYTES: Final = 32 << 20
"""Limit that keeps a shell responsive: larger traces are not read."""


def trace_and_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The trace, then the instructions that ran, or a dump if the word is not the beginning of one of these."""
    if not _paths(ctx):
        return completion.files(ctx, param, incomplete)
    names = (each.name for profile in _profiles(ctx) for each in profile.operations)
    return completion.one_of(lambda: dict.fromkeys(names))(ctx, param, incomplete) or completion.files(
        ctx, param, incomplete
    )


def steps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The steps of the trace on the command line."""
    names = (each.name for profile in _profiles(ctx) for each in profile.steps)
    return completion.one_of(lambda: dict.fromkeys(names))(ctx, param, incomplete)


def _paths(ctx: click.Context) -> tuple[str, ...]:
    """The trace, if it is on the command line; click leaves it in `args` if the last word is an option."""
    given = ctx.params.get("arguments") or ()
    return tuple(str(each) for each in (*given, *ctx.args))[:1]


def _profiles(ctx: click.Context) -> Iterator[Profile]:
    """The profile of the trace on the command line, if it can be read."""
    import os

    from hlo_cli.commands.options.io_options import InputOptions
    from hlo_cli.commands.profile.load import load_profile
    from hlo_cli.read_traces import find_traces

    with suppress(HloError, OSError):
        for path in _paths(ctx):
            if sum(os.path.getsize(each) for each in find_traces(path).paths) <= _MAX_BYTES:
                yield load_profile(path, (), InputOptions()).profile
