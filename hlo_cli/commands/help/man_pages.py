"""The manual pages that an installation has: one for `hlo`, each command, and each topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
<<<<<<< HEAD
from typing import TypeAlias
=======
>>>>>>> words-topics

import click

from hlo_cli.commands.help.blocks import Block, CodeBlock, GridTable, Heading, Page, Paragraph, Span, Spans
from hlo_cli.commands.help.catalog import TOPICS, source_of
from hlo_cli.commands.help.man import render
from hlo_cli.commands.help.markdown import read_page
from hlo_cli.commands.shared.command import Command
from hlo_cli.commands.shared.group import CommandTable

_EXIT_STATUS = (
    ("0", "Success."),
    ("1", "Findings or differences."),
    ("2", "Usage error or unreadable input."),
    ("130", "Interrupted."),
)


<<<<<<< HEAD
Rows: TypeAlias = Iterable[tuple[str, str]]


def man_pages(commands: Mapping[str, tuple[str, str]], questions: Rows) -> dict[str, str]:
    """The pages by file name; `commands` is the table of commands, `questions` those of the front screen.

    >>> from hlo_cli import cli
    >>> pages = man_pages(cli.COMMANDS, cli.QUESTIONS)
=======
def man_pages(commands: Mapping[str, tuple[str, str]], questions: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pages by file name; `commands` and `questions` are those of the command line.

    >>> from hlo_cli.cli import COMMANDS, QUESTIONS
    >>> pages = man_pages(COMMANDS, QUESTIONS)
>>>>>>> words-topics
    >>> pages["hlo-parse.1"].splitlines()[2]
    'hlo\\\\-parse \\\\- Summarize a module, or explain one instruction'
    >>> "hlo-where.7" in pages, "hlo.1" in pages
    (True, True)
    """
    table = CommandTable(commands)
    top = click.Context(table, info_name="hlo")
    summaries = {name: summary for name, (_, summary) in commands.items()}
    pages = {"hlo.1": render(_overview(summaries, questions), section=1)}
<<<<<<< HEAD
    for name in commands:
        command = table.get_command(top, name)
        if isinstance(command, Command):
            pages[f"hlo-{name}.1"] = render(
                _command_page(command, summaries[name], click.Context(command, top, info_name=name)), section=1
            )
=======
    for name, summary in summaries.items():
        command = table.get_command(top, name)
        assert isinstance(command, Command)
        page = Page(name, (_heading(1, summary), *_command_blocks(command, click.Context(command, top, name))))
        pages[f"hlo-{name}.1"] = render(page, section=1)
>>>>>>> words-topics
    for topic in TOPICS:
        pages[f"hlo-{topic}.7"] = render(read_page(topic, source_of(topic)))
    return pages


<<<<<<< HEAD
def _command_page(command: Command, summary: str, ctx: click.Context) -> Page:
    """The manual page of a command, from its help."""
    return Page(ctx.info_name or "", (_heading(1, summary), *_command_blocks(command, ctx)))


=======
>>>>>>> words-topics
def _command_blocks(command: Command, ctx: click.Context) -> Iterator[Block]:
    yield _heading(2, "Synopsis")
    yield _paragraph(command.get_usage(ctx).removeprefix("Usage: "))
    yield _heading(2, "Description")
    yield from _paragraphs(command.help or "")
    yield _heading(2, "Options")
    for group, options in command.option_groups(ctx).items():
        yield _heading(3, group)
        yield _table(options)
    yield from _paragraphs(command.details)
    yield _heading(2, "Examples")
    yield CodeBlock(command.examples)
    yield from _end()


<<<<<<< HEAD
def _overview(summaries: Mapping[str, str], questions: Rows) -> Page:
    return Page(
        "hlo",
        (
            _heading(1, "Explain XLA HLO dumps"),
            _heading(2, "Synopsis"),
            _paragraph("hlo COMMAND [OPTIONS] [INPUT]..."),
            _heading(2, "Questions"),
            _table(questions),
            _heading(2, "Commands"),
            _table((f"hlo-{name}(1)", summary) for name, summary in summaries.items()),
            _heading(2, "Topics"),
            _table((f"hlo-{topic.name}(7)", topic.summary) for topic in TOPICS.values()),
            *_end(),
        ),
=======
def _overview(summaries: Mapping[str, str], questions: Iterable[tuple[str, str]]) -> Page:
    blocks = (
        _heading(1, "Explain XLA HLO dumps"),
        _heading(2, "Synopsis"),
        _paragraph("hlo COMMAND [OPTIONS] [INPUT]..."),
        _heading(2, "Questions"),
        _table(questions),
        _heading(2, "Commands"),
        _table((f"hlo-{name}(1)", summary) for name, summary in summaries.items()),
        _heading(2, "Topics"),
        _table((f"hlo-{topic.name}(7)", topic.summary) for topic in TOPICS.values()),
>>>>>>> words-topics
    )


def _end() -> Iterator[Block]:
    yield _heading(2, "Exit status")
    yield _table(_EXIT_STATUS)
    yield _heading(2, "See also")
    yield _paragraph("hlo help lists all topics; hlo(1) lists all commands.")


def _paragraphs(text: str) -> Iterator[Block]:
    """The paragraphs of a text; one with indented lines stays as it is."""
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        if any(line.startswith(" ") for line in lines):
            yield CodeBlock(tuple(lines))
        elif part:
            yield _paragraph(" ".join(lines))


def _heading(level: int, text: str) -> Heading:
    return Heading(level, (Span(text),))


def _paragraph(text: str) -> Paragraph:
    return Paragraph((Span(text),))


<<<<<<< HEAD
def _table(rows: Rows) -> GridTable:
=======
def _table(rows: Iterable[tuple[str, str]]) -> GridTable:
>>>>>>> words-topics
    """A list of names with their meanings."""
    cells: tuple[tuple[Spans, ...], ...] = tuple(((Span(name, "code"),), (Span(meaning),)) for name, meaning in rows)
    return GridTable((), cells)
