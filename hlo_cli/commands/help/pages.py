"""How is help written for a browser and for man? As HTML, and as the manual pages that an installation has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import click

from hlo_cli._version import __version__
from hlo_cli.commands.front.command_table import CommandTable
from hlo_cli.commands.help.catalog import (
    TOPICS,
    Block,
    CodeBlock,
    GridTable,
    Heading,
    ItemList,
    Page,
    Paragraph,
    Span,
    Spans,
    anchor,
    plain,
    read_page,
    source_of,
)
from hlo_cli.commands.options.click_command import Command
from hlo_cli.render.style import Style
from hlo_cli.render.web.markup import encoded, safe
from hlo_cli.render.web.page import page_css, policy, script, style_sheets

# --- HTML ---
# Help pages as one HTML page, in the style of reports, with a table of contents if there are several.


_SCRIPT: Final = "manual"  # the module in `js/` that searches, and switches between light and dark


def html_page(pages: Sequence[tuple[str, Sequence[Page]]], style: Style) -> str:
    """The HTML page for groups of pages, each a heading in the table of contents with its pages."""
    return encoded("\n".join(_page(pages)) + "\n", ascii=style.ascii)


def _page(groups: Sequence[tuple[str, Sequence[Page]]]) -> Iterator[str]:
    pages = [page for _, group in groups for page in group]
    is_manual, code = len(pages) > 1, script(_SCRIPT)
    title = "hlo manual" if is_manual else pages[0].title
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy(code)}"/>'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1"/>'
    yield f"<title>{safe(title)}</title>\n<style>{page_css()}{style_sheets('static', 'manual')}</style></head>"
    yield '<body class="hlo"><header>'
    yield f"<h1>{title}</h1>" if is_manual else ""
    details = f"hlo {__version__}" if is_manual else f"hlo help {pages[0].name}"
    yield f'<p class="details">{safe(details)}</p></header>'
    yield '<div class="manual">' if is_manual else ""
    yield from _contents(groups) if is_manual else ()
    yield "<main>" if is_manual else '<main class="page">'
    known = frozenset(page.name for page in pages)
    for page in pages:
        yield f'<section id="{safe(page.name)}">'
        for block in page.blocks:
            yield from _Writer(page.name, known).lines(block)
        yield "</section>"
    yield "</main></div>" if is_manual else "</main>"
    yield f"<script>{code}</script></body></html>"


def _contents(groups: Sequence[tuple[str, Sequence[Page]]]) -> Iterator[str]:
    yield '<nav aria-label="Contents">'
    for name, pages in groups:
        yield f"<div><h2>{safe(name)}</h2><ul>"
        yield from (f'<li><a href="#{safe(page.name)}">{safe(page.title)}</a></li>' for page in pages)
        yield "</ul></div>"
    yield "</nav>"


class _Writer:
    """Markup of the blocks of one page; links to pages in `known` stay in the document."""

    def __init__(self, name: str, known: frozenset[str]) -> None:
        self.name = name
        self.known = known

    def lines(self, block: Block) -> Iterator[str]:
        match block:
            case Heading(level, spans):
                key = "" if level == 1 else f' id="{safe(self.name)}-{safe(anchor(plain(spans)))}"'
                yield f"<h{level}{key}>{self.text(spans)}</h{level}>"
            case Paragraph(spans):
                yield f"<p>{self.text(spans)}</p>"
            case CodeBlock(code, language):
                yield f"<pre>{chr(10).join(_code_line(line, language) for line in code)}</pre>"
            case ItemList(items, is_numbered):
                tag = "ol" if is_numbered else "ul"
                yield f"<{tag}>"
                for item in items:
                    yield f"<li>{self._item(item)}</li>"
                yield f"</{tag}>"
            case GridTable(header, rows):
                yield f'<div class="grid"><table><thead><tr>{self._cells(header, "th")}</tr></thead><tbody>'
                yield from (f"<tr>{self._cells(row, 'td')}</tr>" for row in rows)
                yield "</tbody></table></div>"

    def text(self, spans: Spans) -> str:
        return "".join(map(self._span, spans))

    def _item(self, blocks: tuple[Block, ...]) -> str:
        match blocks:
            case (Paragraph(spans),):
                return self.text(spans)
            case _:
                return "\n".join(line for block in blocks for line in self.lines(block))

    def _cells(self, cells: Iterable[Spans], tag: str) -> str:
        return "".join(f"<{tag}>{self.text(cell)}</{tag}>" for cell in cells)

    def _span(self, span: Span) -> str:
        tag = {"code": "code", "strong": "strong", "text": ""}[span.kind]
        text = f"<{tag}>{safe(span.text)}</{tag}>" if tag else safe(span.text)
        return f'<a href="{safe(self._address(span.link))}">{text}</a>' if span.link else text

    def _address(self, link: str) -> str:
        if ":" in link or link.startswith("#"):
            return link
        topic, _, part = link.partition("#")
        name = f"{topic}-{part}" if part else topic
        if topic in self.known:
            return f"#{name}"
        return f"{topic}.html#{name}" if part else f"{topic}.html"


def _code_line(line: str, language: str) -> str:
    return f"<b>{safe(line)}</b>" if language == "console" and line.startswith("$ ") else safe(line)


# --- one page in roff ---
# A help page as a manual page (roff with man macros).


def man_page(page: Page, section: int = 7) -> str:
    r"""The page as roff, in a section of the manual: 1 for commands, 7 for topics.

    >>> from hlo_cli.commands.help.catalog import Span
    >>> page = Page("dump", (Heading(1, (Span("Dumps"),)), Paragraph((Span("Use "), Span("-o", "code")))))
    >>> print(*man_page(page).splitlines()[1:], sep="\n")
    .SH NAME
    hlo\-dump \- Dumps
    .PP
    Use \fB\-o\fR
    """
    name = "hlo" if page.name == "hlo" else f"hlo-{page.name}"
    head = [f'.TH {name.upper()} {section} "" "hlo {__version__}" "hlo manual"', ".SH NAME"]
    head.append(_escaped(f"{name} - {page.title}"))
    body = (line for block in page.blocks[1:] for line in _lines(block))
    return "\n".join([*head, *body]) + "\n"


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, spans):
            text = _escaped(plain(spans))
            yield f".SH {text.upper()}" if level <= 2 else f".SS {text}"
        case Paragraph(spans):
            yield ".PP"
            yield _line(_text(spans))
        case CodeBlock(code):
            yield from _verbatim(code)
        case ItemList(items, is_numbered):
            for number, item in enumerate(items, 1):
                yield f".IP {f'{number}.' if is_numbered else chr(92) + '(bu'} 4"
                yield from _item(item)
        case GridTable(header, rows):
            for row in rows:
                yield ".TP"
                yield _line(_text(row[0]))
                yield _line("; ".join(_cells(header, row)))


def _cells(header: tuple[Spans, ...], row: tuple[Spans, ...]) -> Iterator[str]:
    """The cells after the first one; in a table with more than two columns, with the titles of their columns.

    >>> from hlo_cli.commands.help.catalog import Span
    >>> space, tpu, gpu = ((Span(text),) for text in ("S(n)", "TPU", "GPU"))
    >>> list(_cells((space, tpu, gpu), ((Span("S(1)"),), (Span("VMEM"),), ())))
    ['TPU: VMEM']
    """
    for number, cell in enumerate(row[1:], 1):
        if cell:
            yield f"{_text(header[number])}: {_text(cell)}" if len(header) > 2 else _text(cell)


def _item(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph(spans):
                yield _line(_text(spans))
            case _:
                yield from _lines(block)


def _verbatim(code: Iterable[str]) -> Iterator[str]:
    yield from (".PP", ".RS 2", ".nf")
    yield from (_line(_escaped(line)) for line in code)
    yield from (".fi", ".RE")


def _text(spans: Spans) -> str:
    return "".join(_escaped(span.text) if span.kind == "text" else f"\\fB{_escaped(span.text)}\\fR" for span in spans)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def _line(text: str) -> str:
    """A line of text; a dot or an apostrophe at its beginning would be a macro."""
    return f"\\&{text}" if text[:1] in (".", "'") else text


# --- the pages of an installation ---
# The manual pages that an installation has: one for `hlo`, each command, and each topic.


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
    pages = {"hlo.1": man_page(_overview(summaries, questions), section=1)}
    for name, summary in summaries.items():
        command = table.get_command(top, name)
        assert isinstance(command, Command)
        page = Page(name, (_heading(1, summary), *_command_blocks(command, click.Context(command, top, name))))
        pages[f"hlo-{name}.1"] = man_page(page, section=1)
    for topic in TOPICS:
        pages[f"hlo-{topic}.7"] = man_page(read_page(topic, source_of(topic)))
    return pages


def _command_blocks(command: Command, ctx: click.Context) -> Iterator[Block]:
    yield _heading(2, "Synopsis")
    yield _paragraph(command.get_usage(ctx).removeprefix("Usage: "))
    yield _heading(2, "Description")
    yield from _paragraphs(command.help or "")
    yield _heading(2, "Options")
    for group, options in command.option_groups(ctx).items():
        yield _heading(3, group)
        yield _grid(options)
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
        _grid(questions),
        _heading(2, "Commands"),
        _grid((f"hlo-{name}(1)", summary) for name, summary in summaries.items()),
        _heading(2, "Topics"),
        _grid((f"hlo-{topic.name}(7)", topic.summary) for topic in TOPICS.values()),
    )
    return Page("hlo", (*blocks, *_end()))


def _end() -> Iterator[Block]:
    yield _heading(2, "Exit status")
    yield _grid(_EXIT_STATUS)
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


def _grid(rows: Iterable[tuple[str, str]]) -> GridTable:
    """A list of names with their meanings."""
    cells: tuple[tuple[Spans, ...], ...] = tuple(((Span(name, "code"),), (Span(meaning),)) for name, meaning in rows)
    return GridTable((), cells)
