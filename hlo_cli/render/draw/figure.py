"""Figures as text: their lines, cut to the width of the screen."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.draw.paint import cut_line
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.figure import Figure
from hlo_cli.report.text import Line, Run


def lines(figure: Figure, style: Style) -> Iterator[Line]:
    """The title and the lines of a figure, drawn for the width of the screen.

    >>> from hlo_cli.report.figure import fixed
    >>> from hlo_cli.report.text import plain_text
    >>> [plain_text(line) for line in lines(Figure("tile", fixed("│ 0 ·1 │")), Style(ascii=True))]
    ['| 0 .1 |']
    """
    if figure.title:
        yield from text_lines(figure.title, style)
    for line in figure.draw(style.room):
        shown = tuple(Run(style.show_figure(run.text), run.role) for run in line)
        yield cut_line(shown, style.room, style.dots)
