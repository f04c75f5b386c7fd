"""How a report is to look: the facts about its reader that every renderer is told."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.render.glyphs import figure_to_ascii, to_ascii
from hlo_cli.render.sanitize import sanitize

PROSE_WIDTH = 80
NARROWEST = 20


@dataclass(frozen=True, slots=True)
class Style:
    """Width in cells, whether colour and glyphs beyond ASCII are understood, and how many rows were asked for.

    `wraps` says whether messages are broken into lines of that width: a program that reads them wants each in one line.
    `top` is None when the user did not say: a person then gets as many as a table allows, a machine all; 0 is all.

    >>> Style(ascii=True).show("32 × 11")
    '32 x 11'
    """

    width: int = 80
    color: bool = False
    ascii: bool = False
    top: int | None = None
    wraps: bool = True

    @property
    def room(self) -> int:
        """The cells that a line may take."""
        return max(self.width, NARROWEST)

    @property
    def prose_room(self) -> int:
        """The cells that a line of prose may take."""
        return min(self.room, PROSE_WIDTH)

    @property
    def dots(self) -> str:
        """What stands for text left out."""
        return "..." if self.ascii else "…"

    def show(self, text: str) -> str:
        """A text as it may reach the screen: harmless, and in ASCII if nothing else is understood."""
        harmless = sanitize(text)
        return to_ascii(harmless) if self.ascii else harmless

    def show_figure(self, text: str) -> str:
        """The same for a line of a figure, which keeps its columns."""
        harmless = sanitize(text)
        return figure_to_ascii(harmless) if self.ascii else harmless

    def rows_shown(self, limit: int, rows: int, *, main: bool = True) -> int:
        """How many of a table's rows a person gets, given the limit of the table; one row is never left out alone.

        How many the user asked for is meant for main tables; all is meant for every table.

        >>> Style().rows_shown(20, 3412), Style().rows_shown(20, 21), Style(top=0).rows_shown(20, 99)
        (20, 21, 99)
        >>> Style(top=3).rows_shown(20, 8), Style(top=3).rows_shown(20, 8, main=False)
        (3, 8)
        """
        if self.top is None or (self.top and not main):
            return rows if rows <= limit + 1 or limit <= 0 else limit
        return min(self.top, rows) if self.top > 0 else rows
