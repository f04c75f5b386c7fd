"""The glyphs of all screens and their ASCII replacements."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.render.sanitize import escape

ASCII: Final[dict[str, str]] = {
    **dict.fromkeys("┌┬┐├┼┤└┴┘", "+"),
    **dict.fromkeys("▄▅▆▇█", "#"),
    **dict.fromkeys("▁▂▃", " "),
    "●": "*",
    "○": "o",
    "…": "...",
    "·": ".",
    "→": "->",
    "×": "x",
    "µ": "u",
    "▼": "v",
    "✓": "+",
    "▲": "!",
    "✕": "x",
    "━": "=",
    "│": "|",
    "─": "-",
    "┊": ":",
    "–": "-",
    "⌊": "floor(",
    "⌋": ")",
    "⌈": "ceil(",
    "⌉": ")",
}
"""Replacements of single glyphs. Between words, a middle dot becomes a comma; in figures, it stays a dot."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_PARTS = re.compile("(?<![;:,.( ]) · ")
_DRAWN_ELLIPSIS = re.compile(" {0,2}…")


def to_ascii(text: str) -> str:
    r"""Prose and cells in ASCII; characters without a replacement are escaped.

    >>> print(to_ascii("23 more · × 9.2 → naïve…"))
    23 more, x 9.2 -> na\xefve...
    >>> print(to_ascii("24 positions; · is padding"))
    24 positions; . is padding
    """
    if text.isascii():
        return text
    return _replaced(_PARTS.sub(", ", text))


def figure_to_ascii(text: str) -> str:
    """A line of a figure in ASCII, in the same columns: the dots of an ellipsis replace blanks before it.

    >>> figure_to_ascii("│   4   5 │  …   ·9 │")
    '|   4   5 |...   .9 |'
    >>> figure_to_ascii("= (1 · 3 + 1)")
    '= (1 * 3 + 1)'
    """
    if text.isascii():
        return text
    return _replaced(_DRAWN_ELLIPSIS.sub(_dots, text.replace(" · ", " * ")))


def _dots(match: re.Match[str]) -> str:
    return "..." if len(match[0]) == 3 else match[0][:-1] + "…"


def _replaced(text: str) -> str:
    return _BEYOND_ASCII.sub(lambda match: ASCII.get(match[0]) or escape(match[0]), text)
