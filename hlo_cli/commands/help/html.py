"""Help pages as one HTML page, in the style of reports, with a table of contents if there are several."""

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
    anchor,
    plain,
)  # fmt: skip
from hlo_cli.render.style import Style
from hlo_cli.render.web.markup import encoded, safe
from hlo_cli.render.web.page import page_css

_CSS: Final = """\
body{max-width:46em}
section{margin-top:3em}
h1{font-size:1.6em}h2{font-size:1.2em}h3{font-size:1em}
pre{padding:.7em 1em;border:1px solid var(--rule);border-radius:4px;overflow-x:auto}
pre b{font-weight:600}
a{color:inherit;text-decoration:underline;text-decoration-color:var(--quiet);text-underline-offset:.15em}
td,th{white-space:normal;padding-bottom:.3em}
nav ul{columns:2;list-style:none;padding:0}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"


def render(pages: Sequence[tuple[str, Sequence[Page]]], style: Style) -> str:
    """The HTML page for groups of pages, each a heading in the table of contents with its pages."""
    return encoded("\n".join(_page(pages)) + "\n", ascii=style.ascii)


def _page(groups: Sequence[tuple[str, Sequence[Page]]]) -> Iterator[str]:
    pages = [page for _, group in groups for page in group]
    is_manual = len(pages) > 1
    title = "hlo manual" if is_manual else pages[0].title
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>'
    yield '<meta name="viewport" content="width=device-width"/>'
    yield f"<title>{safe(title)}</title>\n<style>{page_css()}{_CSS}</style></head><body>"
    if is_manual:
        yield f"<h1>{title}</h1>"
        yield from _contents(groups)
    known = frozenset(page.name for page in pages)
    for page in pages:
        yield f'<section id="{safe(page.name)}">'
        for block in page.blocks:
            yield from _Writer(page.name, known).lines(block)
        yield "</section>"
    yield "</body></html>"


def _contents(groups: Sequence[tuple[str, Sequence[Page]]]) -> Iterator[str]:
    for name, pages in groups:
        yield f"<nav><h2>{safe(name)}</h2><ul>"
        yield from (f'<li><a href="#{safe(page.name)}">{safe(page.title)}</a></li>' for page in pages)
        yield "</ul></nav>"


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
                yield f"<div><table><thead><tr>{self._cells(header, 'th')}</tr></thead><tbody>"
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
