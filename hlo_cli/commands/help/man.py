"""A help page as a manual page (roff with man macros)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo_cli._version import __version__
from hlo_cli.commands.help.blocks import Block, CodeBlock, GridTable, Heading, ItemList, Page, Paragraph, Spans, plain


def render(page: Page, section: int = 7) -> str:
    r"""The page as roff, in a section of the manual: 1 for commands, 7 for topics.

    >>> from hlo_cli.commands.help.blocks import Span
    >>> page = Page("dump", (Heading(1, (Span("Dumps"),)), Paragraph((Span("Use "), Span("-o", "code")))))
    >>> print(*render(page).splitlines()[1:], sep="\n")
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

    >>> from hlo_cli.commands.help.blocks import Span
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
