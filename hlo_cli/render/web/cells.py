"""Figures of tiles as pictures: the cells of a drawing in boxes become colored squares between crisp lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from hlo_cli.render.truncate import shorten_text
from hlo_cli.render.web.markup import safe, short
from hlo_cli.render.width import cell_width
from hlo_cli.report.text import Line, Role, plain_text

CELL: Final = 8.4  # the width of a character
ROW: Final = 24
MAX_CENTERED: Final = 24
MAX_LENGTH: Final = 400
TOP_RULE: Final = 16
RULE: Final = 8  # the height of a line without text
# for each glyph, whether its line goes left, right, up, and down
_SIDES: Final = {
    "─": "lr", "│": "ud", "┊": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu",
    "├": "rud", "┤": "lud", "┬": "lrd", "┴": "lru", "┼": "lrud",
}  # fmt: skip
_FILLED: Final[frozenset[Role]] = frozenset(("even", "odd", "waste", "strong"))


def is_grid(lines: Sequence[Line]) -> bool:
    """Whether a drawing has boxes.

    >>> from hlo_cli.report.text import Run
    >>> is_grid([(Run("┌──┐"),)]), is_grid([(Run("a + b"),)])
    (True, False)
    """
    return any("┌" in run.text for line in lines for run in line)


def grid_elements(lines: Sequence[Line], left: float, top: float) -> tuple[list[str], float, float]:
    """The elements of a drawing in boxes from `left` and `top` on, its right edge, and its lower edge.

    >>> from hlo_cli.report.text import Run
    >>> lines = [(Run("┌───┐"),), (Run("│ "), Run("7", "even"), Run(" │")), (Run("└───┘"),)]
    >>> elements, right, bottom = grid_elements(lines, 0, 0)
    >>> elements[0], right, bottom
    ('<rect class="even-cell" x="4.2" y="8" width="33.6" height="24"/>', 42.0, 40)
    """
    fills: list[str] = []
    texts: list[str] = []
    strokes: list[str] = []
    y, widest = top, 0
    for line in lines:
        text = plain_text(line)
        widest = max(widest, cell_width(text))
        high = _height(text)
        strokes += _strokes(text, left, y, high)
        fills += _fills(line, text, left, y, high)
        at = 0
        for run in line:
            if run.role != "plain":
                texts.append(_text(run.text, run.role, left + at * CELL, y + high / 2 + 4))
            else:
                texts += _words(run.text, left + at * CELL, y + high / 2 + 4)
            at += cell_width(run.text)
        y += high
    path = [f'<path class="line" d="{"".join(strokes)}"/>'] if strokes else []
    return [*fills, *path, *texts], left + widest * CELL, y


def _fills(line: Line, text: str, left: float, y: float, high: float) -> Iterator[str]:
    """The colored squares of a row: each up to the line next to it, or to the middle between it and its neighbor."""
    ends = list(accumulate((cell_width(run.text) for run in line), initial=0))
    cells = [
        (start, end, run.role) for (start, end), run in zip(pairwise(ends), line, strict=True) if run.role in _FILLED
    ]
    for at, (start, end, role) in enumerate(cells):
        before = text[cells[at - 1][1] if at else 0 : start]
        after = text[end : cells[at + 1][0] if at + 1 < len(cells) else len(text)]
        begin, stop = start - _gap(before[::-1]), end + _gap(after)
        size = f'width="{short((stop - begin) * CELL)}" height="{short(high)}"'
        yield f'<rect class="{role}-cell" x="{short(left + begin * CELL)}" y="{short(y)}" {size}/>'


def _gap(text: str) -> float:
    """How far a cell extends into the text up to its neighbor: to the middle of the next line, or half of the way.

    >>> _gap("  │ "), _gap(" ")
    (2.5, 0.5)
    """
    lines = [at for at, glyph in enumerate(text) if glyph in _SIDES]
    return lines[0] + 0.5 if lines else min(len(text) / 2, 1)


def _height(text: str) -> int:
    """The height of a line; the upper line of a box has the name of a dimension at most."""
    if "┌" in text and not _is_rule(text):
        return TOP_RULE
    return RULE if _is_rule(text) else ROW


def _is_rule(text: str) -> bool:
    return bool(text.strip()) and all(glyph in _SIDES or glyph == " " for glyph in text) and "─" in text


def _strokes(text: str, left: float, y: float, high: float) -> Iterator[str]:
    """The lines of the glyphs of a row; those to the right and left in one stroke."""
    start: float | None = None
    middle = y + high / 2
    for at, glyph in enumerate(f"{text} "):
        sides = _SIDES.get(glyph, "")
        x = left + at * CELL
        if "u" in sides or "d" in sides:
            ends = y if "u" in sides else middle, y + high if "d" in sides else middle
            yield f"M{short(x + CELL / 2)} {short(ends[0])}V{short(ends[1])}"
        if "l" in sides and start is None:
            start = x
        if "r" not in sides and start is not None:
            yield f"M{short(start)} {short(middle)}H{short(x + CELL / 2 if 'l' in sides else x)}"
            start = None
        if "r" in sides and start is None:
            start = x + CELL / 2


def _words(text: str, left: float, y: float) -> Iterator[str]:
    """The texts between the glyphs of boxes; a sentence stays together."""
    at = 0
    word, begin = "", 0
    for glyph in f"{text}  ":
        is_gap = glyph in _SIDES or (glyph == " " and (not word or word.endswith(" ")))
        if is_gap and word.strip():
            yield _text(word.rstrip(), "plain", left + begin * CELL, y)
        if is_gap:
            word = ""
        else:
            begin = at if not word else begin
            word += glyph
        at += cell_width(glyph)


def _text(text: str, role: Role, x: float, y: float) -> str:
    """A text; a short one is centered in its cells, so that fonts of another width do no harm."""
    length = cell_width(text)
    looks = f"code {role}" if role != "plain" else "code"
    if length <= MAX_CENTERED:
        looks, x = f"{looks} middle", x + length * CELL / 2
    return f'<text class="{looks}" x="{short(x)}" y="{short(y)}">{safe(shorten_text(text.strip(), MAX_LENGTH))}</text>'
