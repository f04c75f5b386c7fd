"""Passages as text: prose at a readable width."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.text import Line, Passage


def lines(passage: Passage, style: Style) -> Iterator[Line]:
    """The lines of a passage, its title first.

    >>> from hlo_cli.report.text import plain_text
    >>> [plain_text(line) for line in lines(Passage("advice", ("b is half of this",), "a"), Style())]
    ['a', 'b is half of this']
    """
    if passage.title:
        yield from text_lines(passage.title, style)
    for paragraph in passage.paragraphs:
        yield from text_lines(paragraph, style)
