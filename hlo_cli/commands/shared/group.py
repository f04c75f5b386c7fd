"""`hlo` as a click command: the table's commands, each imported when it is used, and errors in one style."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

import click

from hlo_cli.source import HloError, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandTable(click.Group):
    """A command group from a table: name → (module, summary); the module's `command` is imported when it is called.

    >>> table = CommandTable({"parse": ("hlo_cli.commands.parse.command", "what is in a dump")})
    >>> [item.value for item in table.shell_complete(click.Context(table), "pa")]
    ['parse']
    """

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        super().__init__("hlo", add_help_option=False, context_settings={"help_option_names": ["-h", "--help"]})
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The command names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in self.table:
            return None
        module, _ = self.table[cmd_name]
        command: click.Command = import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that a command line begins with, and the rest of that line."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            hint = f"hlo parse {name}" if os.path.exists(name) else "hlo --help lists the commands"
            meant = nearest(name, self.table)
            question = f"; did you mean {meant}?" if meant else ""
            raise HloError(f"no command {name}{question}", hint=None if meant else hint)
        return name, command, args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that can come first, found without importing a command."""
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=summary) for name, (_, summary) in self.table.items()]
        if incomplete.startswith("-"):
            items = [CompletionItem("--help"), CompletionItem("--version")]
        return [item for item in items if item.value.startswith(incomplete)]


def error_of(error: click.ClickException) -> HloError:
    """An error of click in the style of all other errors."""
    if isinstance(error, click.NoSuchOption):
        message = f"no option {error.option_name}"
        if error.possibilities:
            message += f"; did you mean {' or '.join(error.possibilities)}?"
    else:
        message = error.format_message().removesuffix(".")
        message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    return HloError(message, hint=f"{context.command_path} --help" if context else None)


def show(error: HloError, arguments: Sequence[str]) -> None:
    """Writes an error to standard error, with the quoted lines of its text.

    If JSON is selected, writes it as JSON too, on standard output, and for a server in the server's format.
    """
    from hlo_cli.commands.shared.io_options import OutputOptions
    from hlo_cli.commands.shared.writing import print_diagnostics

    asked = _asked(arguments)
    if asked == "json":
        from hlo_cli.render.formats.json import errors_object

        click.echo(errors_object(error.diagnostics), nl=False)
    elif asked is not None and arguments[0] == "lint":
        from hlo_cli.render.registry import renderer
        from hlo_cli.render.style import Style
        from hlo_cli.report.findings import Findings
        from hlo_cli.report.report import Report

        report = Report("lint", "", parts=(Findings("findings", (), ()),), errors=tuple(error.diagnostics))
        for chunk in renderer(asked, person=False, findings=True)(report, Style()):
            click.echo(chunk, nl=False)
    print_diagnostics((), error.diagnostics, OutputOptions())


def _asked(arguments: Sequence[str]) -> str | None:
    """The selected format, if errors are written in it as well."""
    given = None
    for option, value in pairwise((*arguments, "")):
        given = option.removeprefix("--format=") if option.startswith("--format=") else given
        given = value if option == "--format" else given
    if given is None:
        return None
    from hlo_cli.render.registry import FORMATS

    return next((each.name for each in FORMATS if each.includes_errors and each.name == given), None)
