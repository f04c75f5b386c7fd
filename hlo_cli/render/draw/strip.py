"""A strip: one line of a screen with texts at given cells."""

from __future__ import annotations

from hlo_cli.render.width import cell_width
from hlo_cli.report.text import Line, Role, Run


class Strip:
    """An empty line of `room` cells.

    >>> strip = Strip(12)
    >>> strip.put(3, "▼ peak", "alarm"), strip.put(5, "at"), strip.line()
    (True, False, (Run(text='   ', role='plain'), Run(text='▼ peak', role='alarm')))
    """

    def __init__(self, room: int) -> None:
        """`room` is the width of the screen."""
        self._cells: list[tuple[str, Role] | None] = [None] * room

    def is_free(self, start: int, end: int) -> bool:
        """Whether the cells from `start` to before `end` are on the screen and empty."""
        return start >= 0 and end <= len(self._cells) and not any(self._cells[start:end])

    def put(self, at: int, text: str, role: Role = "plain") -> bool:
        """Puts a text at cell `at` if there is room; returns whether there was."""
        wide = cell_width(text)
        if not self.is_free(at, at + wide):
            return False
        if text:
            self._cells[at : at + wide] = [(text, role), *[("", role)] * (wide - 1)]
        return True

    def line(self) -> Line:
        """The line up to its last text."""
        runs: list[Run] = []
        blanks = 0
        for cell in self._cells:
            if cell is None:
                blanks += 1
            elif cell[0]:
                runs += [Run(" " * blanks)] if blanks else []
                runs.append(Run(*cell))
                blanks = 0
        return tuple(runs)
