"""`hlo help`: pages about concepts, reference, and setup, beyond the help of each command, in the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

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
    entry_page,
    glossary_names,
    manual_source,
    plain,
    read_page,
    source_of,
)
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.declaring import OUTPUT, flag, option, taken
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.commands.options.writing import write
from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.commands.help.terms import OptionText

# --- a page as text ---
# A help page as text: wrapped to a width, headings and names in bold and cyan if the output has colors.


MAX_WIDTH: Final = 88  # prose in longer lines is hard to read
INDENT: Final = "  "

_BOLD, _CYAN, _DIM, _RESET = "\x1b[1m", "\x1b[36m", "\x1b[2m", "\x1b[0m"
_MAX_UNBROKEN = 44  # cells of a command in a sentence; longer ones are broken at blanks
_GAP = "  "
_BLANK = lazy_regex(r"(?<!×) (?!×)")  # a product such as 8 × 128 stays in one line


def render(page: Page, style: Style) -> str:
    """The page as text for a terminal or a pipe.

    >>> print(render(Page("a", (Heading(1, (Span("A"),)), Paragraph((Span("Use "), Span("-o", "code"))))), Style()))
    A
    <BLANKLINE>
    Use `-o`
    """
    painter = _Painter(style)
    return "\n".join(_spaced(page.blocks, painter, min(style.room, MAX_WIDTH)))


class _Painter:
    """Styles of words: escape sequences with colors, otherwise backquotes around code."""

    def __init__(self, style: Style) -> None:
        self.style = style

    def word(self, text: str, kind: str) -> str:
        shown = self.style.show(text)
        if not self.style.color:
            return shown
        code = {"strong": _BOLD, "code": _CYAN, "quiet": _DIM}.get(kind, "")
        return f"{code}{shown}{_RESET}" if code else shown

    def marked(self, span: Span) -> str:
        """The text of a span as it is measured and wrapped: code has backquotes unless it has a color."""
        return span.text if span.kind != "code" or self.style.color else f"`{span.text}`"


def _spaced(blocks: Iterable[Block], painter: _Painter, room: int) -> Iterator[str]:
    """The lines of blocks, with a blank line between them."""
    before: Block | None = None
    for block in blocks:
        if before is not None:
            yield ""
        yield from _lines(block, painter, room)
        before = block


def _lines(block: Block, painter: _Painter, room: int) -> Iterator[str]:
    match block:
        case Heading():
            yield from (line for line, _ in _wrapped(_strong(block.spans), painter, room))
        case Paragraph():
            yield from (line for line, _ in _wrapped(block.spans, painter, room))
        case CodeBlock():
            yield from (_code_line(line, block.language, painter) for line in block.lines)
        case ItemList():
            yield from _item_lines(block, painter, room)
        case GridTable():
            yield from _table_lines(block, painter, room)


def _code_line(line: str, language: str, painter: _Painter) -> str:
    shown = painter.style.show_figure(line)
    if painter.style.color and language == "console" and line.startswith("$ "):
        shown = f"{_BOLD}{shown}{_RESET}"
    return (INDENT + shown).rstrip()


def _item_lines(block: ItemList, painter: _Painter, room: int) -> Iterator[str]:
    is_loose = any(len(item) > 1 for item in block.items)
    for number, item in enumerate(block.items, 1):
        mark = f"{number}. " if block.is_numbered else "- "
        if is_loose and number > 1:
            yield ""
        lines = _spaced(item, painter, room - len(mark))
        for index, line in enumerate(lines):
            yield ((" " * len(mark) if index else mark) + line).rstrip()


def _strong(spans: Spans) -> Spans:
    return (Span(plain(spans), "strong"),)


def _wrapped(spans: Spans, painter: _Painter, room: int) -> Iterator[tuple[str, int]]:
    """The words of spans in lines of at most `room` cells, each with its width."""
    line, used = "", 0
    for word in _words(spans, painter, min(room, _MAX_UNBROKEN)):
        width = sum(cell_width(painter.style.show(text)) for text, _ in word)
        if used and used + 1 + width > room:
            yield line, used
            line, used = "", 0
        blank = " " if used else ""
        line += blank + "".join(painter.word(text, kind) for text, kind in word)
        used += len(blank) + width
    if used:
        yield line, used


def _words(spans: Spans, painter: _Painter, unbroken: int) -> Iterator[tuple[tuple[str, str], ...]]:
    """Words as pieces (text, kind); code of at most `unbroken` cells stays in one piece."""
    word: list[tuple[str, str]] = []
    for span in spans:
        text = painter.marked(span)
        parts = [text] if span.kind == "code" and len(text) <= unbroken else _BLANK.split(text)
        for index, part in enumerate(parts):
            if index and word:
                yield tuple(word)
                word = []
            if part:
                word.append((part, span.kind))
    if word:
        yield tuple(word)


def _table_lines(table: GridTable, painter: _Painter, room: int) -> Iterator[str]:
    """Columns as wide as their cells need; if that is too wide, the widest columns are wrapped."""
    rows = (table.header, *table.rows)
    natural = [max(_width(row[index], painter) for row in rows) for index in range(len(table.header))]
    widths = _fitted(natural, room - len(_GAP) * (len(natural) - 1))
    yield from _row(tuple(map(_strong, table.header)), widths, painter)
    yield painter.word(_GAP.join("─" * width for width in widths), "quiet")
    for row in table.rows:
        yield from _row(row, widths, painter)


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Widths of columns in `room` cells: the widest are narrowed, all to the same width.

    >>> _fitted([5, 90, 40], 60)
    [5, 28, 27]
    """
    widths = list(natural)
    while sum(widths) > room and max(widths) > 8:
        widths[max(range(len(widths)), key=lambda index: (widths[index], index))] -= 1
    return widths


def _row(cells: Sequence[Spans], widths: Sequence[int], painter: _Painter) -> Iterator[str]:
    columns = [
        tuple(_padded(cell, width, painter)) or (" " * width,) for cell, width in zip(cells, widths, strict=True)
    ]
    for index in range(max(map(len, columns))):
        parts = [
            lines[index] if index < len(lines) else " " * width for lines, width in zip(columns, widths, strict=True)
        ]
        yield _GAP.join(parts).rstrip()


def _padded(cell: Spans, width: int, painter: _Painter) -> Iterator[str]:
    for line, used in _wrapped(cell, painter, width):
        yield line + " " * max(0, width - used)


def _width(cell: Spans, painter: _Painter) -> int:
    return sum(cell_width(painter.style.show(painter.marked(span))) for span in cell)


# --- the command ---
# `hlo help`: pages about concepts, reference, and setup, beyond the help of each command.


HELP: Final = """\
Show help for a topic, a command, or any word. Without TOPIC, list all topics.

A word is a term, a column, an opcode, an attribute, a part of a layout, a chip,
or a lint rule. Other words are searched in all pages, options, and rules.
"""
EXAMPLES: Final = (
    "hlo help tiling",
    "hlo help oom",
    "hlo help live range",
    "hlo help all-reduce",
    "hlo help 'S(5)'",
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


@dataclass(frozen=True, slots=True)
class HelpOptions:
    """The pages to write, and the format."""

    is_manual: bool = flag("--all", group=OUTPUT, is_common=True, help="Write all topics and commands as one document.")
    form: str | None = option(
        "--format",
        "FORMAT",
        group=OUTPUT,
        is_common=True,
        choices=FORMATS,
        default_text="text",
        help=f"Set the output format: {joined_by_or(FORMATS)}.",
    )


@click.command(cls=Command, help=HELP, examples=EXAMPLES)
@click.argument("topic", required=False, shell_complete=_complete)
@click.argument("term", nargs=-1, metavar="[WORD]...")
@with_options(HelpOptions)
@with_options(OutputOptions, only=("path", "color", "ascii"))
@click.pass_context
def command(context: click.Context, /, topic: str | None, term: tuple[str, ...], **given: Any) -> None:
    """Writes the page, the list of topics, or the manual."""
    options = HelpOptions(**taken(HelpOptions, given))
    output = OutputOptions(**given)
    if options.is_manual and topic:
        raise HloError("--all cannot be used with a topic")
    form = options.form or _format_of(output.path)
    if options.is_manual:
        text = _manual(context, form, output)
    elif topic is None:
        if form != "text":
            raise HloError(f"--format {form} requires a topic or --all")
        text = _list_of_topics(context, output)
    else:
        text = _shown(context, topic, term, form, output)
    write([text.rstrip("\n") + "\n"], output.path)


def _format_of(path: str | None) -> str:
    """The format that a file's extension selects."""
    from hlo_cli.render.registry import FOREIGN

    extension = os.path.splitext(path)[1].lower() if path else ""
    if extension not in _EXTENSIONS and extension[1:] in FOREIGN:
        raise HloError(f"cannot write {path}: unsupported format {extension}", hint="available: .html, .md, .man")
    return _EXTENSIONS.get(extension, "text")


def _list_of_topics(context: click.Context, output: OutputOptions) -> str:
    """The topics and the commands, a line each."""
    bold, reset = ("\x1b[1m", "\x1b[0m") if output.style(1).color else ("", "")
    groups: dict[str, list[tuple[str, str]]] = {}
    for topic in TOPICS.values():
        groups.setdefault(topic.group, []).append((topic.name, topic.summary))
    groups[_COMMANDS] = list(_commands(context))
    lines = [
        "hlo help TOPIC shows a page. hlo COMMAND --help shows the options of a command.",
        "hlo help WORD explains a term, column, or opcode, such as oom or all-reduce.",
    ]
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


def _shown(context: click.Context, topic: str, term: Sequence[str], form: str, output: OutputOptions) -> str:
    """One page, the help of one command, or what is known about a word."""
    if topic == "glossary" and term:
        return _rendered(entry_page(read_page(topic, source_of(topic)), " ".join(term)), "text", output)
    if not term and topic in TOPICS:
        return _formatted(topic, source_of(topic), form, output)
    if not term and (text := _command_help(context, topic)) is not None:
        return text if form == "text" else _formatted(f"hlo-{topic}", _command_source(topic, text), form, output)
    word = " ".join((topic, *term))
    if form == "md":
        raise HloError("--format md requires a topic or a command")
    from hlo_cli.commands.help.terms import page_of_term

    page = page_of_term(word, lambda: _options(context))
    if page is None:
        error = unknown_choice_error("topic", word, _known_words(context), listed_by="hlo help")
        known = {each.lower() for each in _known_words(context)}
        # Of a question, what it is about comes last.
        about = next((each for each in reversed((topic, *term)) if each.lower() in known), None)
        if about is not None and not (error.diagnostic.hint or "").startswith("did you mean"):
            raise HloError(error.diagnostic.message, hint=f"run `hlo help {about}`")
        raise error
    return _rendered(page, form, output)


def _options(context: click.Context) -> Iterator[OptionText]:
    """The options of every command."""
    from hlo_cli.commands.help.terms import OptionText

    for name, _ in _commands(context):
        command = _command_named(context, name)
        for parameter in command.params if command is not None else ():
            if isinstance(parameter, click.Option) and not parameter.hidden:
                yield OptionText(name, max(parameter.opts, key=len), parameter.help or "")


def _known_words(context: click.Context) -> Iterator[str]:
    """The words to suggest for an unknown one."""
    from hlo_cli.ir.operations import OPERATIONS

    yield from TOPICS
    yield from (name for name, _ in _commands(context))
    yield from OPERATIONS
    yield from glossary_names(read_page("glossary", source_of("glossary")))


def _formatted(name: str, source: str, form: str, output: OutputOptions) -> str:
    """A page with this Markdown in a format."""
    if form == "md":
        return source

    return _rendered(read_page(name, source), form, output)


def _rendered(page: Page, form: str, output: OutputOptions) -> str:
    style = output.style(1)
    if form == "html":
        from hlo_cli.commands.help.pages import html_page as render_html

        return render_html((("", (page,)),), style)
    if form == "man":
        from hlo_cli.commands.help.pages import man_page as render_man

        return render_man(page)

    return render(page, style)


def _manual(context: click.Context, form: str, output: OutputOptions) -> str:
    """All topics and commands as one document."""
    if form == "man":
        raise HloError("--all cannot be used with --format man")
    helps = {name: _command_help(context, name) or "" for name, _ in _commands(context)}
    commands = {f"hlo-{name}": _command_source(name, text) for name, text in helps.items()}
    groups: dict[str, dict[str, str]] = {}
    for topic in TOPICS.values():
        groups.setdefault(topic.group, {})[topic.name] = source_of(topic.name)
    groups[_COMMANDS] = commands
    if form == "md":
        return manual_source({name: text for group in groups.values() for name, text in group.items()})

    pages = tuple(
        (group, tuple(read_page(name, text) for name, text in sources.items())) for group, sources in groups.items()
    )
    return _manual_of(pages, form, output)


def _manual_of(groups: Sequence[tuple[str, Sequence[Page]]], form: str, output: OutputOptions) -> str:
    if form == "html":
        from hlo_cli.commands.help.pages import html_page as render_html

        return render_html(groups, output.style(1))

    return "\n\n\n".join(render(page, output.style(1)) for _, pages in groups for page in pages)


def _command_source(name: str, text: str) -> str:
    """The help of a command as a Markdown page."""
    return f"# hlo {name}\n\n```text\n{text}\n```\n"


def _command_help(context: click.Context, name: str) -> str | None:
    """The help of a command, as its option --help shows it; None if there is no such command."""
    command_ = _command_named(context, name)
    if command_ is None:
        return None
    return command_.get_help(click.Context(command_, parent=context.parent, info_name=name))


def _command_named(context: click.Context, name: str) -> click.Command | None:
    parent = context.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    return parent.command.get_command(parent, name)
