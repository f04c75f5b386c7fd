"""How is `hlo` a click command? The table's commands, each imported on use, and errors in one style."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import click

from hlo_cli.report.unknown_choice import choice_hint, unknown_choice_error
from hlo_cli.source import HloError, did_you_mean, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hlo_cli.commands.options.io_options import OutputOptions


def _unknown_command(name: str, commands: Sequence[str]) -> HloError:
    return unknown_choice_error("command", name, commands, listed_by="hlo --help")


class CommandTable(click.Group):
    """A command group from a table: name → (module, summary); the module's `command` is imported when it is called.

    `unknown` returns the error for a first word that is not in the table.

    >>> table = CommandTable({"parse": ("hlo_cli.commands.parse.command", "what is in a dump")})
    >>> [item.value for item in table.shell_complete(click.Context(table), "pa")]
    ['parse']
    """

    def __init__(
        self, table: Mapping[str, tuple[str, str]], unknown: Callable[[str, Sequence[str]], HloError] = _unknown_command
    ) -> None:
        super().__init__("hlo", add_help_option=False, context_settings={"help_option_names": ["-h", "--help"]})
        self.table = table
        self.unknown = unknown

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
            raise self.unknown(name, tuple(self.table))
        return name, command, args[1:]

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, and says which file it wrote."""
        code = super().invoke(ctx)
        from hlo_cli.commands.options.click_command import GIVEN  # the command has imported it

        given = ctx.meta.get(GIVEN, {})
        if given.get("path"):
            from hlo_cli.commands.options.io_options import OutputOptions
            from hlo_cli.commands.options.writing import note_file

            note_file(OutputOptions(**{name: given[name] for name in _WRITING if name in given}))
        return code

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that can come first, found without importing a command; otherwise files."""
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=summary) for name, (_, summary) in self.table.items()]
        if incomplete.startswith("-"):
            items = [
                CompletionItem("--help", help="Show this help and exit."),
                CompletionItem("--version", help="Show the version and exit."),
            ]
        matching = [item for item in items if item.value.startswith(incomplete)]
        if matching or incomplete.startswith("-"):
            return matching
        from hlo_cli.commands.options.completion import files

        return files(ctx, click.Argument(["inputs"]), incomplete)


_WRITING: Final = ("path", "quiet", "color", "ascii", "verbose")
"""The options for output that the note on a written file follows."""


def error_of(error: click.ClickException, arguments: Sequence[str] = ()) -> HloError:
    """An error of click in the style of all other errors; `arguments` are the whole command line.

    >>> error_of(click.NoSuchOption("--tpo", possibilities=["--top"])).diagnostic.hint
    "did you mean '--top'?"
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context else "hlo"
    hint = f"run `{path} --help` to list all options"
    if path == "hlo":
        hint = "put options after the command, or run `hlo --help`"
    match error:
        case click.NoSuchOption():
            params = context.command.params if context else ()
            known = (*(error.possibilities or ()), *(name for param in params for name in param.opts))
            options = {name.lstrip("-"): name for name in known}
            # click reads `-chip` as options of a letter each, and names the first one.
            given = next(
                (each for each in arguments if each.startswith(error.option_name) and each[1:2] != "-"),
                error.option_name,
            )
            word = given.lstrip("-")
            near = nearest(word, options) or next((name for name in options if len(word) > 2 and word in name), None)
            return HloError(f"unknown option '{given}'", hint=did_you_mean(options.get(near or "")) or hint)
        case click.BadOptionUsage():
            params = context.command.params if context else ()
            used = next((param for param in params if error.option_name in param.opts), None)
            if isinstance(used, click.Option) and used.is_flag:
                return HloError(f"{error.option_name} does not take a value", hint="remove the value")
            forms = used.type.choices if used is not None and isinstance(used.type, click.Choice) else ()
            form = f"use {error.option_name} {(used.metavar if used else None) or 'VALUE'}"
            return HloError(f"{error.option_name} requires a value", hint=choice_hint("value", "", forms) or form)
        case click.MissingParameter() if error.param is not None:
            return HloError(f"missing argument {error.param.human_readable_name}", hint=f"run `{path} -h` for examples")
    message = error.format_message().removeprefix("Got ").removesuffix(".")
    return HloError(message[:1].lower() + message[1:], hint=hint)


def show(error: HloError, arguments: Sequence[str]) -> None:
    """Writes an error to standard error, with the quoted lines of its text.

    If JSON is selected, writes it as JSON too, on standard output, and for a server in the server's format.
    """
    from hlo_cli.commands.options.writing import print_diagnostics

    selected = _format_of_errors(arguments)
    if selected == "json":
        from hlo_cli.render.formats.data import errors_object

        click.echo(errors_object(error.diagnostics), nl=False)
    elif selected is not None and arguments[0] == "lint":
        from hlo_cli.render.registry import renderer
        from hlo_cli.render.style import Style
        from hlo_cli.report.findings import Findings
        from hlo_cli.report.report import Report

        report = Report("lint", "", parts=(Findings("findings", (), ()),), errors=tuple(error.diagnostics))
        for chunk in renderer(selected, person=False, findings=True)(report, Style()):
            click.echo(chunk, nl=False)
    print_diagnostics((), error.diagnostics, _output_of(arguments))


def _output_of(arguments: Sequence[str]) -> OutputOptions:
    """The options for messages, from a command line that may be invalid."""
    from hlo_cli.commands.options.io_options import COLOR_CHOICES, OutputOptions

    color = _value_of("--color", arguments)
    return OutputOptions(
        color=color if color in COLOR_CHOICES else "auto",
        ascii="--ascii" in arguments or os.environ.get("HLO_ASCII", "").lower() in ("1", "true", "t", "yes", "y", "on"),
        quiet=not {"-q", "--quiet"}.isdisjoint(arguments),
    )


def _format_of_errors(arguments: Sequence[str]) -> str | None:
    """The selected format, if errors are written in it as well."""
    name = "json" if "--json" in arguments else _value_of("--format", arguments)
    if name is None:
        return None
    from hlo_cli.render.registry import FORMATS

    return next((row.name for row in FORMATS if row.includes_errors and row.name == name), None)


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """The last value of an option."""
    value = None
    for word, following in pairwise((*arguments, "")):
        value = word.removeprefix(f"{option}=") if word.startswith(f"{option}=") else value
        value = following if word == option else value
    return value


def reader_of_lines() -> str:
    """How the lines of dumps are read: by the compiled reader, or in Python.

    >>> reader_of_lines() in ("by the compiled reader", "in Python")
    True
    """
    from hlo_cli.syntax.text.build import read_lines

    return "in Python" if read_lines is None else "by the compiled reader"
