"""A report that rich prints on any of its consoles, as wide as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hlo_cli.dataclass import dataclass
from hlo_cli.render.formats.screen import screen_lines
from hlo_cli.render.style import Style
from hlo_cli.report.report import Report

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Screen:
    """A report as a renderable of rich.

    >>> from rich.console import Console
    >>> Console(width=40).print(Screen(Report("diff", "No [red]difference")))
    No [red]difference
    """

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The lines of the screen, with the styles of terminals if the console has colors."""
        from rich.text import Text

        from hlo_cli.render.draw.paint import painter

        paint = painter(color=not (console.no_color or console.color_system is None))
        for line in screen_lines(self.report, Style(width=options.max_width, ascii=options.ascii_only)):
            yield Text.from_ansi(paint(line))
