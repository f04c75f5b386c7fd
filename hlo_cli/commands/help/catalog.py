"""Which topics does `hlo help` have, and how is a page read from Markdown? Each topic is a file in topics/."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import singular
from hlo_cli.report.unknown_choice import unknown_choice_error

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# --- the topics ---
# The topics of `hlo help`: each is a Markdown file in topics/ and one row here.


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its name, its group, and its summary in the list of topics."""

    name: str
    group: Literal["Concepts", "Reference", "Setup"]
    summary: str


_TOPICS: Final = (
    Topic("layout", "Concepts", "Read a shape with its layout: dimension order, tiles, memory"),
    Topic("tiling", "Concepts", "Compute where tiles put an element, and what padding costs"),
    Topic("addresses", "Concepts", "Map between elements, linear indices, bytes, and tiles"),
    Topic("memory", "Concepts", "Find what fills a device's memory, and lower the peak"),
    Topic("async", "Concepts", "Read async operations, and find those that are exposed"),
    Topic("schedule", "Concepts", "Read the order of instructions, and try another one"),
    Topic("fusion", "Concepts", "See what fusion combines and saves, and why pairs are not fused"),
    Topic("gpu-fusion", "Concepts", "See what XLA:GPU fuses for a chip, how it decides, and why not"),
    Topic("cost", "Concepts", "Read flops, bytes accessed, and rooflines; what is not modeled"),
    Topic("custom-calls", "Concepts", "Find the buffers of a custom call, and write the function"),
    Topic("sharding", "Concepts", "Read shardings and replica groups; count bytes of collectives"),
    Topic("origins", "Concepts", "Sum up memory and time by line, scope, argument, or pass"),
    Topic("running", "Concepts", "Evaluate a dump without XLA, and follow its values"),
    Topic("comparing", "Concepts", "Compare what two dumps compute, apart from rounding"),
    Topic("passes", "Concepts", "Follow a module through the compiler, pass by pass"),
    Topic("profiles", "Concepts", "Record a profile, and read measured times next to the program"),
    Topic("step-time", "Concepts", "Read where a step goes, its MFU, and which device is late"),
    Topic("two-profiles", "Concepts", "Compare measured times before and after an edit"),
    Topic("where", "Reference", "Filter expressions for --where"),
    Topic("expect", "Reference", "Assertions about a module for hlo lint --expect"),
    Topic("recipes", "Reference", "Assertions in one line that tests make by regular expressions"),
    Topic("lint", "Reference", "Rules, settings, and baselines of hlo lint; use in CI"),
    Topic("chips", "Reference", "Supported chips and how times are estimated"),
    Topic("formats", "Reference", "Input, output formats, colors, and environment variables"),
    Topic("messages", "Reference", "Error messages and other text that can be pasted"),
    Topic("exit-codes", "Reference", "Exit codes of each command, for shell scripts and CI"),
    Topic("glossary", "Reference", "Terms and columns; hlo help WORD shows one entry"),
    Topic("dump", "Setup", "Create a dump with JAX, PyTorch/XLA, or TensorFlow"),
    Topic("pages", "Setup", "Send a page about a dump; draw its dataflow"),
    Topic("python", "Setup", "Ask from Python: ten recipes, from a dump to an answer"),
    Topic("notebooks", "Setup", "Read jitted functions, show values, and use data frames"),
    Topic("completion", "Setup", "Set up shell completion"),
)

TOPICS: Final = {topic.name: topic for topic in _TOPICS}
"""Every topic by its name, in the order in which they are listed."""

_GENERATED: Final = {
    "chips": "hlo_cli.commands.help.generated.chips_markdown",
    "fusion_rules": "hlo_cli.commands.help.generated.fusion_rules_markdown",
    "gpu_reasons": "hlo_cli.commands.help.generated.gpu_reasons_markdown",
}
"""Parts of pages that are made from the program's tables: the functions that return them."""

_PLACEHOLDER = lazy_regex(r"(?m)^<!-- generated: (\w+) -->$")
_FENCE = lazy_regex(r"(?m)^(\s*```\w+) .*$")
_TOPIC_LINK = lazy_regex(r"\]\(([\w-]+)\.md(#[\w-]+)?\)")


def source_of(topic: str) -> str:
    """The Markdown of a topic, with its generated parts.

    >>> source_of("dump").splitlines()[0]
    '# Create a dump'
    """
    data = get_data(__package__, f"topics/{topic}.md")
    assert data is not None
    text = _PLACEHOLDER.sub(lambda match: _generated(match[1]), data.decode("utf-8"))
    return _FENCE.sub(r"\1", text)  # the rest of a fence's line is for the tests that run the commands


def _generated(name: str) -> str:
    module, _, function = _GENERATED[name].rpartition(".")
    markdown: Callable[[], str] = getattr(import_module(module), function)
    return markdown().rstrip("\n")


def manual_source(sources: dict[str, str]) -> str:
    """Markdown pages by name as one document, with a table of contents and headings one level lower.

    >>> print(manual_source({"a": "# A page\\n\\nSee [b](b.md).\\n", "b": "# B\\n"}))
    # hlo manual
    <BLANKLINE>
    - [A page](#a-page)
    - [B](#b)
    <BLANKLINE>
    ## A page
    <BLANKLINE>
    See [b](#b).
    <BLANKLINE>
    ## B
    <BLANKLINE>
    """

    titles = {name: text.partition("\n")[0].removeprefix("# ") for name, text in sources.items()}

    def link(match: re.Match[str]) -> str:
        return f"]({match[2] or '#' + anchor(titles[match[1]])})" if match[1] in titles else match[0]

    contents = "\n".join(f"- [{title}](#{anchor(title)})" for title in titles.values())
    pages = "\n".join(_TOPIC_LINK.sub(link, _lowered(text)) for text in sources.values())
    return f"# hlo manual\n\n{contents}\n\n{pages}"


def _lowered(source: str) -> str:
    """Markdown with each heading one level lower; lines of code that begin with # stay."""
    lines, is_code = [], False
    for line in source.split("\n"):
        is_code ^= line.lstrip().startswith("```")
        lines.append("#" + line if line.startswith("#") and not is_code else line)
    return "\n".join(lines)


# --- the parts of a page ---
# The parts of a help page: blocks such as paragraphs, lists, and tables, and the spans of text in them.


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
    kept = "".join(character for character in text.lower() if character.isalnum() or character in " -_")
    return kept.replace(" ", "-")


# --- reading Markdown ---
# Reads the Markdown of help pages: headings, paragraphs, lists, tables, and blocks of code.


@lru_cache(maxsize=64)  # a question asks the glossary several times; there are fewer pages
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


# --- entries of the glossary ---
# `hlo help glossary TERM`: the entries of one term or column.


def entry_page(glossary: Page, term: str) -> Page:
    """The page with the entries for a term only; a column is found by its title and by its machine name.

    HloError if there are none.
    """
    if not (items := glossary_items(glossary, term)):
        raise unknown_choice_error("term", term, glossary_names(glossary), listed_by="hlo help glossary")
    return Page("glossary", tuple(block for item in items for block in item))


def glossary_items(glossary: Page, term: str) -> list[tuple[Block, ...]]:
    """The entries for a term, in the singular or the plural; columns are found by title and by machine name.

    A word without an entry has those of another form of it: `recompile` those of `recompilation`.
    """
    key = key_of(term)
    entries = tuple(_entries(glossary))
    if found := [item for names, item in entries if key in names]:
        return found
    stem = _stem_of(key)
    return [item for names, item in entries if stem and any(_stem_of(name) == stem for name in names)]


_LEAST_STEM: Final = 5  # letters; shorter stems are those of unrelated words, such as `copies` and `coping`
_ENDING: Final = re.compile(r"(?:ations?|ings?|ions?|ed|es|e)$")


def _stem_of(key: str) -> str:
    """A word without the ending that makes a noun or another form of a verb; empty if too little is left.

    >>> _stem_of("recompile"), _stem_of("recompilation"), _stem_of("cosine")
    ('recompil', 'recompil', 'cosin')
    """
    stem = _ENDING.sub("", key)
    return stem if len(stem) >= _LEAST_STEM else ""


def glossary_names(glossary: Page) -> Iterator[str]:
    """The names of all terms and columns."""
    return (name for names, _ in _entries(glossary) for name in sorted(names))


def _entries(glossary: Page) -> Iterator[tuple[frozenset[str], tuple[Block, ...]]]:
    """The entries: items of lists that begin with their names in bold."""
    for block in glossary.blocks:
        if isinstance(block, ItemList):
            for item in block.items:
                first = item[0]
                spans = first.spans if isinstance(first, Paragraph) else ()
                names = frozenset(key_of(span.text) for span in spans if span.kind == "strong")
                if names:
                    yield names, item


def key_of(name: str) -> str:
    """What names of one thing have in common: no case, no difference of blanks, _, and -, and the singular.

    >>> key_of("Live_Ranges") == key_of("live-range"), key_of("copies")
    (True, 'copy')
    """
    return " ".join(singular(word) for word in re.split(r"[\s_-]+", name.lower().strip()))
