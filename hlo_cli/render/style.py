"""The style of a report: properties of its reader for all renderers."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.render.glyphs import figure_to_ascii, to_ascii
from hlo_cli.render.sanitize import sanitize

PROSE_WIDTH = 80
MIN_WIDTH = 20


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
