"""`hlo help`: pages about concepts, reference, and setup, beyond the help of each command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from hlo_cli.commands.help.catalog import TOPICS, manual_source, source_of
from hlo_cli.commands.options.declaring import OUTPUT, Command, flag, option
from hlo_cli.commands.options.io_options import OutputOptions, ascii_option, color_option, path_option
from hlo_cli.commands.options.writing import write
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.commands.help.blocks import Page

HELP: Final = """\
Show help for a topic or a command. Without TOPIC, list all topics.

With the topic glossary, TERM selects one term or column.
"""
EXAMPLES: Final = (
    "hlo help tiling",
    "hlo help glossary live range",
    "hlo help where --format html -o where.html",
    "hlo help --all -o manual.html",
)
FORMATS: Final = ("text", "md", "html", "man")
_EXTENSIONS: Final = {".md": "md", ".html": "html", ".htm": "html", ".man": "man", ".7": "man", ".txt": "text"}
_COMMANDS: Final = "Commands"
_ENDING: Final = (
    "DUMP is a file, a directory written by --xla_dump_to, or - for stdin.",
    "hlo help --all -o manual.html writes all pages as one document.",
)


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics and commands that can complete the argument, for the shell."""
    parent = context.parent
    commands = parent.command.list_commands(parent) if parent and isinstance(parent.command, click.Group) else ()
    return [name for name in dict.fromkeys((*TOPICS, *commands)) if name.startswith(incomplete)]


@click.command(cls=Command, help=HELP, examples=EXAMPLES)
@click.argument("topic", required=False, shell_complete=_complete)
@click.argument("term", nargs=-1, metavar="[TERM]...")
@flag("--all", "is_manual", group=OUTPUT, is_common=True, help="Write all topics and commands as one document.")
@option(
    "--format",
    "form",
    group=OUTPUT,
    is_common=True,
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    default_text="text",
    help=f"Set the output format: {joined_by_or(FORMATS)}.",
)
@path_option
@color_option
@ascii_option
@click.pass_context
def command(
    context: click.Context,
    /,
    topic: str | None,
    term: tuple[str, ...],
    is_manual: bool,
    form: str | None,
    **given: str,
) -> None:
    """Writes the page, the list of topics, or the manual."""
    if is_manual and topic:
        raise HloError("--all cannot be used with a topic")
    if term and topic != "glossary":
        raise HloError("TERM requires the topic glossary", hint=f"run `hlo help glossary {' '.join(term)}`")
    output = OutputOptions(path=given["path"], color=given["color"], ascii=bool(given["ascii"]))
    form = form or _format_of(output.path)
    if is_manual:
        text = _manual(context, form, output)
    elif topic is None:
        if form != "text":
            raise HloError(f"--format {form} requires a topic or --all")
        text = _list(context, output)
    else:
        text = _shown(context, topic, " ".join(term), form, output)
    write([text.rstrip("\n") + "\n"], output.path)


def _format_of(path: str | None) -> str:
    """The format that a file's extension selects."""
    from hlo_cli.render.registry import FOREIGN

    extension = os.path.splitext(path)[1].lower() if path else ""
    if extension not in _EXTENSIONS and extension[1:] in FOREIGN:
        raise HloError(f"cannot write {path}: unsupported format {extension}", hint="available: .html, .md, .man")
    return _EXTENSIONS.get(extension, "text")


def _list(context: click.Context, output: OutputOptions) -> str:
    """The topics and the commands, a line each."""
    bold, reset = ("\x1b[1m", "\x1b[0m") if output.style(1).color else ("", "")
    groups: dict[str, list[tuple[str, str]]] = {}
    for topic in TOPICS.values():
        groups.setdefault(topic.group, []).append((topic.name, topic.summary))
    groups[_COMMANDS] = list(_commands(context))
    lines = ["hlo help TOPIC shows a page. hlo COMMAND --help shows the options of a command."]
    for group, rows in groups.items():
        lines += ["", f"{bold}{group}{reset}", *(f"  {name:<14}{summary}" for name, summary in rows)]
    return "\n".join([*lines, "", *_ENDING])


def _commands(context: click.Context) -> Iterator[tuple[str, str]]:
    """The commands with their summaries."""
    from hlo_cli.commands.front.command_table import CommandTable

    assert context.parent is not None
    group = context.parent.command
    assert isinstance(group, CommandTable)
    return ((name, summary) for name, (_, summary) in group.table.items())


def _shown(context: click.Context, topic: str, term: str, form: str, output: OutputOptions) -> str:
    """One page, or one entry of the glossary."""
    if topic not in TOPICS:
        text = _command_help(context, topic)
        return text if form == "text" else _formatted(f"hlo-{topic}", _command_source(topic, text), form, output)
    if not term:
        return _formatted(topic, source_of(topic), form, output)
    from hlo_cli.commands.help.glossary import entry_page
    from hlo_cli.commands.help.markdown import read_page

    return _rendered(entry_page(read_page(topic, source_of(topic)), term), "text", output)


def _formatted(name: str, source: str, form: str, output: OutputOptions) -> str:
    """A page with this Markdown in a format."""
    if form == "md":
        return source
    from hlo_cli.commands.help.markdown import read_page

    return _rendered(read_page(name, source), form, output)


def _rendered(page: Page, form: str, output: OutputOptions) -> str:
    style = output.style(1)
    if form == "html":
        from hlo_cli.commands.help.html import render as render_html

        return render_html((("", (page,)),), style)
    if form == "man":
        from hlo_cli.commands.help.man import render as render_man

        return render_man(page)
    from hlo_cli.commands.help.terminal import render

    return render(page, style)


def _manual(context: click.Context, form: str, output: OutputOptions) -> str:
    """All topics and commands as one document."""
    if form == "man":
        raise HloError("--all cannot be used with --format man")
    helps = {name: _command_help(context, name) for name, _ in _commands(context)}
    commands = {f"hlo-{name}": _command_source(name, text) for name, text in helps.items()}
    groups: dict[str, dict[str, str]] = {}
    for topic in TOPICS.values():
        groups.setdefault(topic.group, {})[topic.name] = source_of(topic.name)
    groups[_COMMANDS] = commands
    if form == "md":
        return manual_source({name: text for group in groups.values() for name, text in group.items()})
    from hlo_cli.commands.help.markdown import read_page

    pages = tuple(
        (group, tuple(read_page(name, text) for name, text in sources.items())) for group, sources in groups.items()
    )
    return _manual_of(pages, form, output)


def _manual_of(groups: Sequence[tuple[str, Sequence[Page]]], form: str, output: OutputOptions) -> str:
    if form == "html":
        from hlo_cli.commands.help.html import render as render_html

        return render_html(groups, output.style(1))
    from hlo_cli.commands.help.terminal import render

    return "\n\n\n".join(render(page, output.style(1)) for _, pages in groups for page in pages)


def _command_source(name: str, text: str) -> str:
    """The help of a command as a Markdown page."""
    return f"# hlo {name}\n\n```text\n{text}\n```\n"


def _command_help(context: click.Context, name: str) -> str:
    """The help of a command, as its option --help shows it; HloError if there is no such topic or command."""
    parent = context.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    if found := parent.command.get_command(parent, name):
        return found.get_help(click.Context(found, parent=parent, info_name=name))
    raise _unknown_topic(name, parent.command.list_commands(parent))


def _unknown_topic(name: str, commands: Sequence[str]) -> HloError:
    if name.upper().startswith("HLO") and name[3:].isdigit():
        return HloError(f"unknown topic '{name}'", hint=f"run `hlo lint --explain {name.upper()}`")
    return unknown_choice_error("topic", name, (*TOPICS, *commands), listed_by="hlo help")
