"""The parts of a help page: blocks such as paragraphs, lists, and tables, and the spans of text in them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hlo_cli.dataclass import dataclass

SpanKind: TypeAlias = Literal["text", "strong", "code"]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style; `link` is a topic (`tiling`) or an address (`https://…`), or empty."""

    text: str
    kind: SpanKind = "text"
    link: str = ""


Spans: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title of a page."""

    level: int
    spans: Spans


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph."""

    spans: Spans


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Lines shown as they are; `language` is the first word after the fence."""

    lines: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True, slots=True)
class ItemList:
    """A list whose items are blocks, numbered or not."""

    items: tuple[tuple[Block, ...], ...]
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class GridTable:
    """A table: the header, and rows with a cell for each of its columns."""

    header: tuple[Spans, ...]
    rows: tuple[tuple[Spans, ...], ...]


Block: TypeAlias = Heading | Paragraph | CodeBlock | ItemList | GridTable


@dataclass(frozen=True, slots=True)
class Page:
    """One page of help: its name as given to `hlo help`, and its blocks, beginning with the title."""

    name: str
    blocks: tuple[Block, ...]

    @property
    def title(self) -> str:
        """The text of the first heading.

        >>> Page("layout", (Heading(1, (Span("Layouts"),)),)).title
        'Layouts'
        """
        return next((plain(block.spans) for block in self.blocks if isinstance(block, Heading)), self.name)


def plain(spans: Spans) -> str:
    """The text of spans, without their styles.

    >>> plain((Span("the "), Span("S(1)", "code")))
    'the S(1)'
    """
    return "".join(span.text for span in spans)


def anchor(text: str) -> str:
    """The name of a heading in an address, as GitHub makes it.

    >>> anchor("Minor and major (again)")
    'minor-and-major-again'
    """
    kept = "".join(each for each in text.lower() if each.isalnum() or each in " -_")
    return kept.replace(" ", "-")
