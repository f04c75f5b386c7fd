"""A help page as a manual page (roff with man macros)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo_cli.commands.help.blocks import Block, CodeBlock, GridTable, Heading, ItemList, Page, Paragraph, Spans, plain


def render(page: Page) -> str:
    r"""The page as roff, in section 7 of the manual.

    >>> from hlo_cli.commands.help.blocks import Span
    >>> print(render(Page("dump", (Heading(1, (Span("Dumps"),)), Paragraph((Span("Use "), Span("-o", "code")))))))
    .TH HLO-DUMP 7 "" "hlo" "hlo manual"
    .SH NAME
    hlo\-dump \- Dumps
    .PP
    Use \fB\-o\fR
    <BLANKLINE>
    """
    head = [f'.TH HLO-{page.name.upper()} 7 "" "hlo" "hlo manual"', ".SH NAME"]
    head.append(f"{_escaped(f'hlo-{page.name} - {page.title}')}")
    body = (line for block in page.blocks if block != page.blocks[0] for line in _lines(block))
    return "\n".join([*head, *body]) + "\n"


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, spans):
            yield f".{'SH' if level <= 2 else 'SS'} {_escaped(plain(spans))}"
        case Paragraph(spans):
            yield ".PP"
            yield _line(_text(spans))
        case CodeBlock(code):
            yield from _verbatim(code)
        case ItemList(items, is_numbered):
            for number, item in enumerate(items, 1):
                yield f".IP {f'{number}.' if is_numbered else chr(92) + '(bu'} 4"
                yield from _item(item)
        case GridTable(_, rows):
            for row in rows:
                yield ".TP"
                yield _line(_text(row[0]))
                yield _line("; ".join(_text(cell) for cell in row[1:] if cell))


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
