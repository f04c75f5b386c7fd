"""Prose: words filled into lines, and items side by side while there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, take
from hlo_cli.report.text import Line, Role, Run, Text, line_of, plain_text

BETWEEN = " · "
_HARDLY: Final = 5
"""A line filled to less than one part in this many counts as barely begun."""


def text_lines(text: Text, style: Style, role: Role | None = None) -> Iterator[Line]:
    """A text filled into lines of prose; `role` applies to all of it.

    >>> [plain_text(line) for line in text_lines("half of this is padding", Style(width=20))]
    ['half of this is', 'padding']
    """
    shown = tuple(Run(style.show(run.text), role or run.role) for run in line_of(text))
    return fill(shown, style.prose_room)


def fill(line: Line, room: int, *, whole: bool = False) -> Iterator[Line]:
    """The line broken between words so that no part is wider than `room`; only wider words are cut.

    With `whole`, words are never cut, and a long word stays on a barely begun line, so that a path can be searched for
    and opened.

    >>> [plain_text(part) for part in fill((Run("a bc def ghijkl"),), 4)]
    ['a bc', 'def', 'ghij', 'kl']
    >>> [plain_text(part) for part in fill((Run("a ghijkl bc"),), 4, whole=True)]
    ['a ghijkl', 'bc']
    """
    current: list[Run] = []
    used = 0
    for word in _words(line):
        wide = cell_width(plain_text(word))
        if current and used + 1 + wide > room and not (whole and (wide > room or used < room // _HARDLY)):
            yield tuple(current)
            current, used = [], 0
        if current:
            current.append(Run(" ", word[0].role if word[0].role == current[-1].role else "plain"))
            used += 1
        *parts, rest = _pieces(word, room) if wide > room and not whole else (word,)
        yield from parts
        current.extend(rest)
        used += cell_width(plain_text(rest))
    if current:
        yield tuple(current)


def beside(items: Sequence[str], style: Style) -> Iterator[Line]:
    """Items in one quiet line separated by dots, or in as few lines as possible without cutting items.

    >>> [plain_text(line) for line in beside(["next: hlo layout DUMP", "--draw x"], Style(width=20))]
    ['next: hlo layout', 'DUMP', '--draw x']
    >>> [plain_text(line) for line in beside(["3 of 98 changes", "--top 0 shows all"], Style())]
    ['3 of 98 changes · --top 0 shows all']
    """
    between = style.show(BETWEEN)
    current = ""
    for item in map(style.show, items):
        if current and cell_width(current + between + item) > style.prose_room:
            yield from _item(current, style)
            current = item
        else:
            current = current + between + item if current else item
    if current:
        yield from _item(current, style)


def _item(text: str, style: Style) -> Iterator[Line]:
    line = (Run(text, "quiet"),)
    return iter((line,)) if cell_width(text) <= style.room else fill(line, style.room)


def _words(line: Iterable[Run]) -> Iterator[tuple[Run, ...]]:
    word: list[Run] = []
    for run in line:
        for at, piece in enumerate(run.text.split(" ")):
            if at and word:
                yield tuple(word)
                word = []
            if piece:
                word.append(Run(piece, run.role))
    if word:
        yield tuple(word)


def _pieces(word: Line, room: int) -> list[Line]:
    pieces: list[list[Run]] = [[]]
    left = room
    for run in word:
        text = run.text
        while text:
            part = take(text, left)
            if not part:
                pieces.append([])
                left = room
                part = take(text, left) or text[0]
            pieces[-1].append(Run(part, run.role))
            left -= cell_width(part)
            text = text[len(part) :]
    return [tuple(piece) for piece in pieces if piece]
