"""Reads the Markdown of help pages: headings, paragraphs, lists, tables, and blocks of code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from hlo_cli.commands.help.blocks import Block, CodeBlock, GridTable, Heading, ItemList, Page, Paragraph, Span, Spans

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def read_page(name: str, source: str) -> Page:
    """The page of that name.

    >>> read_page("a", "# A\\n\\nSee `hlo help` and [b](b.md).\\n").blocks[1].spans[1:4:2]
    (Span(text='hlo help', kind='code', link=''), Span(text='b', kind='text', link='b'))
    """
    return Page(name, tuple(_blocks(_Tokens(_parser().parse(source)))))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


class _Tokens:
    """The tokens of a page, read one after the other."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def until(self, closing: str) -> Iterator[Token]:
        """The tokens up to one of type `closing`, which is consumed; all that remain if it is empty."""
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            self.position += 1
            if closing and token.type == closing:
                return
            yield token

    def spans(self, closing: str) -> Spans:
        """The text up to a closing token."""
        return tuple(span for token in self.until(closing) for span in _spans(token.children or ()))


def _blocks(tokens: _Tokens, closing: str = "") -> Iterator[Block]:
    for token in tokens.until(closing):
        match token.type:
            case "heading_open":
                yield Heading(int(token.tag[1:]), tokens.spans("heading_close"))
            case "paragraph_open":
                yield Paragraph(tokens.spans("paragraph_close"))
            case "fence" | "code_block":
                yield _code(token.content.removesuffix("\n").split("\n"), token.info.partition(" ")[0])
            case "bullet_list_open" | "ordered_list_open":
                closed = token.type.replace("open", "close")
                items = tuple(tuple(_blocks(tokens, "list_item_close")) for _ in tokens.until(closed))
                yield ItemList(items, is_numbered=token.type == "ordered_list_open")
            case "table_open":
                rows = tuple(_rows(tokens))
                yield GridTable(rows[0], rows[1:])
            case "html_block":
                pass  # a comment
            case other:
                raise ValueError(f"help pages have no {other}")


def _code(lines: Sequence[str], language: str) -> CodeBlock:
    """The block, with a blank line between the output of a command and the next command."""
    shown: list[str] = []
    for line in lines:
        if language == "console" and line.startswith("$ ") and shown and shown[-1] and not shown[-1].startswith("$ "):
            shown.append("")
        shown.append(line.expandtabs())
    return CodeBlock(tuple(shown), language)


def _rows(tokens: _Tokens) -> Iterator[tuple[Spans, ...]]:
    for token in tokens.until("table_close"):
        if token.type == "tr_open":
            yield tuple(tokens.spans(cell.type.replace("open", "close")) for cell in tokens.until("tr_close"))


def _spans(tokens: Sequence[Token]) -> Iterator[Span]:
    is_strong, link = False, ""
    for token in tokens:
        match token.type:
            case "strong_open" | "strong_close" | "em_open" | "em_close":
                is_strong = token.type.endswith("open")
            case "link_open":
                link = _link(str(token.attrs["href"]))
            case "link_close":
                link = ""
            case "code_inline":
                yield Span(token.content, "code", link)
            case "softbreak" | "hardbreak":
                yield Span(" ")
            case "text" | "text_special":
                if token.content:
                    yield Span(token.content, "strong" if is_strong else "text", link)
            case other:
                raise ValueError(f"help pages have no {other}")


def _link(address: str) -> str:
    """A relative address without the extension of its file.

    >>> _link("tiling.md#repeated-tiles"), _link("https://a/b.md")
    ('tiling#repeated-tiles', 'https://a/b.md')
    """
    topic, mark, part = address.partition("#")
    return address if ":" in address else topic.removesuffix(".md") + mark + part
