"""How do words become lines on a screen: in colors, filled to a width, and items side by side?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width, take
from hlo_cli.report.text import Line, Passage, Role, Run, Text, line_of, plain_text

# --- colors ---
# The style of each role on a terminal, in its own eight colors and without backgrounds.


LOOKS: Mapping[Role, str] = MappingProxyType({
    "strong": "bold", "quiet": "dim", "name": "cyan", "waste": "yellow",
    "alarm": "red", "saving": "green", "even": "cyan", "odd": "magenta",
})  # fmt: skip


def painter(*, color: bool) -> Callable[[Line], str]:
    r"""A function from a line to text, with escape sequences if `color`.

    >>> painter(color=True)((Run("fusion.2", "name"), Run(" is big")))
    '\x1b[36mfusion.2\x1b[0m is big'
    >>> painter(color=False)((Run("fusion.2", "name"), Run(" is big")))
    'fusion.2 is big'
    """
    return _painted if color else plain_text


def cut_line(line: Line, room: int, dots: str) -> Line:
    """The line cut to `room` cells; a cut line ends in dots.

    >>> plain_text(cut_line((Run("abc", "name"), Run("def")), 4, "…"))
    'abc…'
    """
    if sum(cell_width(run.text) for run in line) <= room:
        return line
    kept: list[Run] = []
    left = room - len(dots)
    for run in line:
        part = take(run.text, left)
        kept.append(Run(part, run.role))
        left -= cell_width(part)
        if part != run.text:
            break
    return tuple(kept) if kept[-1].text.endswith(dots) else (*kept, Run(dots, "quiet"))


def _painted(line: Line) -> str:
    out: list[str] = []
    at = 0
    while at < len(line):
        end, role = at + 1, line[at].role
        while end < len(line) and line[end].role == role:
            end += 1
        text = "".join(run.text for run in line[at:end])
        begin, stop = _codes(role) if text.strip() else ("", "")
        out.append(f"{begin}{text}{stop}")
        at = end
    return "".join(out)


@cache
def _codes(role: Role) -> tuple[str, str]:
    from rich.color import ColorSystem
    from rich.style import Style

    if role not in LOOKS:
        return "", ""
    begin, _, end = Style.parse(LOOKS[role]).render("|", color_system=ColorSystem.STANDARD).partition("|")
    return begin, end


# --- filled lines ---
# Words filled into lines, and items side by side while there is room.


BETWEEN = " · "
_BLANK: Final = lazy_regex(" (?=[^`]*(?:`[^`]*`[^`]*)*$)")
"""A blank that is not between two backquotes."""
_BARELY_BEGUN: Final = 5
"""A line filled to less than one part in this many counts as barely begun: breaking it leaves a lone word there."""


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
    and opened. A command between backquotes is then one word, so that it can be pasted.

    >>> [plain_text(part) for part in fill((Run("a bc def ghijkl"),), 4)]
    ['a bc', 'def', 'ghij', 'kl']
    >>> [plain_text(part) for part in fill((Run("a ghijkl bc"),), 4, whole=True)]
    ['a ghijkl', 'bc']
    >>> [plain_text(part) for part in fill((Run("run `hlo help` to list all topics"),), 12, whole=True)]
    ['run', '`hlo help`', 'to list all', 'topics']
    """
    current: list[Run] = []
    used = 0
    for word in _words(line, whole=whole):
        wide = cell_width(plain_text(word))
        if current and used + 1 + wide > room and not (whole and (wide > room or used < room // _BARELY_BEGUN)):
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


def items_in_lines(items: Sequence[str], style: Style) -> Iterator[Line]:
    """Items in one quiet line separated by dots, or in as few lines as possible without cutting items.

    >>> [plain_text(line) for line in items_in_lines(["20 of 30 changed lines", "~ 30 changed"], Style(width=20))]
    ['20 of 30 changed', 'lines', '~ 30 changed']
    >>> [plain_text(line) for line in items_in_lines(["3 of 98 changes", "~ 98 changed"], Style())]
    ['3 of 98 changes · ~ 98 changed']
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


def _words(line: Iterable[Run], *, whole: bool) -> Iterator[tuple[Run, ...]]:
    """The words of a line; with `whole`, text between backquotes is one word."""
    word: list[Run] = []
    for run in line:
        has_commands = whole and "`" in run.text and run.text.count("`") % 2 == 0
        for at, piece in enumerate(_BLANK.split(run.text) if has_commands else run.text.split(" ")):
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


# --- passages ---
# Paragraphs at a readable width.


def lines_of_passage(passage: Passage, style: Style) -> Iterator[Line]:
    """The lines of a passage, its title first.

    >>> from hlo_cli.report.text import plain_text
    >>> [plain_text(line) for line in lines_of_passage(Passage("advice", ("b is half of this",), "a"), Style())]
    ['a', 'b is half of this']
    """
    if passage.title:
        yield from text_lines(passage.title, style)
    for paragraph in passage.paragraphs:
        yield from text_lines(paragraph, style)
