"""The manual pages that an installation has: one for `hlo`, each command, and each topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

from hlo_cli.commands.front.command_table import CommandTable
from hlo_cli.commands.help.blocks import Block, CodeBlock, GridTable, Heading, Page, Paragraph, Span, Spans
from hlo_cli.commands.help.catalog import TOPICS, source_of
from hlo_cli.commands.help.man import render
from hlo_cli.commands.help.markdown import read_page
from hlo_cli.commands.options.declaring import Command

_EXIT_STATUS = (
    ("0", "Success."),
    ("1", "Findings or differences."),
    ("2", "Usage error or unreadable input."),
    ("130", "Interrupted."),
)


def man_pages(commands: Mapping[str, tuple[str, str]], questions: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pages by file name; `commands` and `questions` are those of the command line.

    >>> from hlo_cli.cli import COMMANDS, QUESTIONS
    >>> pages = man_pages(COMMANDS, QUESTIONS)
    >>> pages["hlo-parse.1"].splitlines()[2]
    'hlo\\\\-parse \\\\- Summarize a module, or explain one instruction'
    >>> "hlo-where.7" in pages, "hlo.1" in pages
    (True, True)
    """
    table = CommandTable(commands)
    top = click.Context(table, info_name="hlo")
    summaries = {name: summary for name, (_, summary) in commands.items()}
    pages = {"hlo.1": render(_overview(summaries, questions), section=1)}
    for name, summary in summaries.items():
        command = table.get_command(top, name)
        assert isinstance(command, Command)
        page = Page(name, (_heading(1, summary), *_command_blocks(command, click.Context(command, top, name))))
        pages[f"hlo-{name}.1"] = render(page, section=1)
    for topic in TOPICS:
        pages[f"hlo-{topic}.7"] = render(read_page(topic, source_of(topic)))
    return pages


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
    )
    return Page("hlo", (*blocks, *_end()))


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


def _table(rows: Iterable[tuple[str, str]]) -> GridTable:
    """A list of names with their meanings."""
    cells: tuple[tuple[Spans, ...], ...] = tuple(((Span(name, "code"),), (Span(meaning),)) for name, meaning in rows)
    return GridTable((), cells)
