"""A help page as text: wrapped to a width, headings and names in bold and cyan if the output has colors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hlo_cli.commands.help.blocks import (
    Block,
    CodeBlock,
    GridTable,
    Heading,
    ItemList,
    Page,
    Paragraph,
    Span,
    Spans,
    plain,
)
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width

MAX_WIDTH: Final = 88
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
            yield from _list(block, painter, room)
        case GridTable():
            yield from _table(block, painter, room)


def _code_line(line: str, language: str, painter: _Painter) -> str:
    shown = painter.style.show_figure(line)
    if painter.style.color and language == "console" and line.startswith("$ "):
        shown = f"{_BOLD}{shown}{_RESET}"
    return (INDENT + shown).rstrip()


def _list(block: ItemList, painter: _Painter, room: int) -> Iterator[str]:
    is_loose = any(len(item) > 1 for item in block.items)
    for number, item in enumerate(block.items, 1):
        mark = f"{number}. " if block.is_numbered else "- "
        if is_loose and number > 1:
            yield ""
        lines = _spaced(item, painter, room - len(mark))
        for at, line in enumerate(lines):
            yield ((" " * len(mark) if at else mark) + line).rstrip()


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
        for at, part in enumerate(parts):
            if at and word:
                yield tuple(word)
                word = []
            if part:
                word.append((part, span.kind))
    if word:
        yield tuple(word)


def _table(table: GridTable, painter: _Painter, room: int) -> Iterator[str]:
    """Columns as wide as their cells need; if that is too wide, the widest columns are wrapped."""
    rows = (table.header, *table.rows)
    natural = [max(_width(row[at], painter) for row in rows) for at in range(len(table.header))]
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
        widths[max(range(len(widths)), key=lambda at: (widths[at], at))] -= 1
    return widths


def _row(cells: Sequence[Spans], widths: Sequence[int], painter: _Painter) -> Iterator[str]:
    columns = [
        tuple(_padded(cell, width, painter)) or (" " * width,) for cell, width in zip(cells, widths, strict=True)
    ]
    for at in range(max(map(len, columns))):
        parts = [lines[at] if at < len(lines) else " " * width for lines, width in zip(columns, widths, strict=True)]
        yield _GAP.join(parts).rstrip()


def _padded(cell: Spans, width: int, painter: _Painter) -> Iterator[str]:
    for line, used in _wrapped(cell, painter, width):
        yield line + " " * max(0, width - used)


def _width(cell: Spans, painter: _Painter) -> int:
    return sum(cell_width(painter.style.show(painter.marked(span))) for span in cell)
