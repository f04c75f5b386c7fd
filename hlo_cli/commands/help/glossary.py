"""`hlo help glossary TERM`: the entries of one term or column."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.commands.help.blocks import Block, ItemList, Page, Paragraph
from hlo_cli.report.unknown_choice import unknown_choice_error


def entry_page(glossary: Page, term: str) -> Page:
    """The page with the entries for a term only; a column is found by its title and by its machine name.

    HloError if there are none.
    """
    wanted = _key(term)
    found = tuple(item for names, item in _entries(glossary) if wanted in names)
    if not found:
        known = (name for names, _ in _entries(glossary) for name in sorted(names))
        raise unknown_choice_error("term", term, known, listed_by="hlo help glossary")
    return Page("glossary", tuple(block for item in found for block in item))


def _entries(glossary: Page) -> Iterator[tuple[frozenset[str], tuple[Block, ...]]]:
    """The entries: items of lists that begin with their names in bold."""
    for block in glossary.blocks:
        if isinstance(block, ItemList):
            for item in block.items:
                first = item[0]
                spans = first.spans if isinstance(first, Paragraph) else ()
                names = frozenset(_key(span.text) for span in spans if span.kind == "strong")
                if names:
                    yield names, item


def _key(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())
