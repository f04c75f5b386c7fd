"""How does the reader of a report want it: width, glyphs, colors, and nothing that could control a terminal?"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

# --- escaping of control characters ---
# Escapes characters in text from a dump that could control a terminal.


# invisible characters that are printable for Python: joiners, fillers, variation selectors
_INVISIBLE = lazy_regex("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def sanitize(text: str) -> str:
    r"""The text with control, direction, and invisible characters escaped.

    >>> print(sanitize("fusion\x1b[31m.2\n"))
    fusion\x1b[31m.2\x0a
    >>> print(sanitize("a\u202eb"))
    a\u202eb
    """
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(each if each.isprintable() and not _INVISIBLE.match(each) else escape(each) for each in text)


def escape(character: str) -> str:
    r"""A character as a Python escape sequence with its number.

    >>> print(escape("é"), escape("→"))
    \xe9 \u2192
    """
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


# --- glyphs in ASCII ---
# The glyphs of all screens and their ASCII replacements.


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


# --- the style of a report ---
# Properties of its reader for all renderers.


PROSE_WIDTH = 80  # longer lines of prose are hard to read, however wide the terminal is
MIN_WIDTH = 20  # narrower, columns would have no width; the terminal may break the lines


@dataclass(frozen=True, slots=True)
class Style:
    """Width in cells, whether color and glyphs beyond ASCII are supported, and the requested number of rows.

    `wraps` is whether messages are broken into lines of that width; programs need each in one line.
    `top` is None by default: then people get up to the limit of a table, machines all rows; 0 is all. `header` is
    whether csv, tsv, and pipes begin with the names of the columns; `verbose` lists what is otherwise only counted;
    `spreadsheet` quotes texts in csv and tsv that a spreadsheet would run.

    >>> Style(ascii=True).show("32 × 11")
    '32 x 11'
    """

    width: int = 80
    color: bool = False
    ascii: bool = False
    top: int | None = None
    header: bool = True
    wraps: bool = True
    verbose: bool = False
    spreadsheet: bool = False

    @property
    def room(self) -> int:
        """The maximum width of a line in cells."""
        return max(self.width, MIN_WIDTH)

    @property
    def prose_room(self) -> int:
        """The maximum width of a line of prose in cells."""
        return min(self.room, PROSE_WIDTH)

    @property
    def dots(self) -> str:
        """The mark of omitted text."""
        return "..." if self.ascii else "…"

    def show(self, text: str) -> str:
        """A text for the screen: sanitized, and in ASCII if needed."""
        harmless = sanitize(text)
        return to_ascii(harmless) if self.ascii else harmless

    def show_figure(self, text: str) -> str:
        """The same for a line of a figure, which keeps its columns."""
        harmless = sanitize(text)
        return figure_to_ascii(harmless) if self.ascii else harmless

    def rows_shown(self, limit: int, rows: int, *, main: bool = True) -> int:
        """The number of rows shown to people, given the limit of the table; a single row is never omitted.

        The number requested by the user applies to main tables; a request for all rows applies to every table.

        >>> Style().rows_shown(20, 3412), Style().rows_shown(20, 21), Style(top=0).rows_shown(20, 99)
        (20, 21, 99)
        >>> Style(top=3).rows_shown(20, 8), Style(top=3).rows_shown(20, 8, main=False)
        (3, 8)
        """
        if self.top is None or (self.top and not main):
            return rows if rows <= limit + 1 or limit <= 0 else limit
        return min(self.top, rows) if self.top > 0 else rows
