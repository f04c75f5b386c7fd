"""The drawings of a report as one picture: SVG without scripts, with a light and a dark color scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.render.draw.prose import fill
from hlo_cli.render.style import Style
from hlo_cli.render.truncate import shorten_name
from hlo_cli.render.web.cells import grid_elements, is_grid
from hlo_cli.render.web.colors import picture_css
from hlo_cli.render.web.gantt import gantt, span_column
from hlo_cli.render.web.graph_picture import graph_picture
from hlo_cli.render.web.subject import subject_of
from hlo_cli.render.web.markup import encoded, safe, short, spans
from hlo_cli.render.web.picture import document
from hlo_cli.render.web.timeline import drawing
from hlo_cli.report.figure import Figure
from hlo_cli.report.graph import Graph
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Run, plain_text
from hlo_cli.report.timeline import Timeline
from hlo_cli.source import HloError

MARGIN: Final = 20
TITLE_LINE: Final = 26
HEADING_CELLS: Final = 60
ANSWER_CELLS: Final = 110
ANSWER_LINE: Final = 21
FIGURE_ROOM: Final = 120
FIGURE_LINE: Final = 17


def render(report: Report, style: Style) -> Iterator[str]:
    """The answer, and below it every timeline, figure, and table with spans.

    >>> from hlo_cli.report.timeline import Track
    >>> report = Report("memspace", "It fits", parts=(Timeline("memory", (Track("HBM", (5, 8)),)),))
    >>> "".join(render(report, Style()))[:47]
    '<svg xmlns="http://www.w3.org/2000/svg" class="'
    >>> list(render(Report("diff", "No difference"), Style()))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: no figure to draw for diff
    """
    if (graph := next((part for part in report.parts if isinstance(part, Graph)), None)) is not None:
        for chunk in graph_picture(graph, report.answer):
            yield encoded(chunk, ascii=style.ascii)
        return
    drawn = [part for part in report.parts if _is_drawn(part)]
    if not drawn:
        raise HloError(f"no figure to draw for {report.command}", hint="use --format html, md, or json")
    elements, top = _heading(report)
    for at, part in enumerate(drawn):
        more, top = _drawn(part, style, top, f"p{at}t")
        elements += more
    title = subject_of(report).title
    named = f"{title}: {report.answer}" if title and report.answer else title or report.answer
    for each in document(elements, top, style=f"<style>{picture_css()}</style>", title=named):
        yield encoded(each, ascii=style.ascii)


def _heading(report: Report) -> tuple[list[str], float]:
    """The module and its chip, the dump, and the answer; and the lower edge."""
    subject = subject_of(report)
    elements = []
    top: float = MARGIN / 2
    if subject.title:
        top += TITLE_LINE
        title, details = (shorten_name(text, HEADING_CELLS) for text in subject)
        words = f'<tspan class="title">{safe(title)}</tspan> <tspan class="quiet" dx="8">{safe(details)}</tspan>'
        elements.append(f'<text x="{MARGIN}" y="{short(top - 6)}">{words}</text>')
    for line in fill((Run(report.answer),), ANSWER_CELLS):
        top += ANSWER_LINE
        elements.append(f'<text class="head" x="{MARGIN}" y="{short(top - 6)}">{safe(plain_text(line))}</text>')
    return elements, top + FIGURE_LINE if report.answer or elements else top


def _is_drawn(part: Part) -> bool:
    return isinstance(part, Timeline | Figure) or (isinstance(part, Table) and span_column(part) is not None)


def _drawn(part: Part, style: Style, top: float, key: str) -> tuple[list[str], float]:
    match part:
        case Timeline():
            return drawing(part, top, key=key)
        case Table():
            return gantt(part, style, top)
        case Figure():
            return _figure(part, top)
        case _:
            return [], top


def _figure(figure: Figure, top: float) -> tuple[list[str], float]:
    elements = []
    if figure.title:
        top += ANSWER_LINE
        elements.append(f'<text class="head" x="{MARGIN}" y="{short(top - 6)}">{safe(figure.title)}</text>')
    drawn = figure.draw(FIGURE_ROOM)
    if is_grid(drawn):
        cells, _, bottom = grid_elements(drawn, MARGIN, top)
        return [*elements, *cells], bottom + MARGIN
    for line in drawn:
        top += FIGURE_LINE
        text = spans(line, "tspan")
        elements.append(f'<text class="code" xml:space="preserve" x="{MARGIN}" y="{short(top)}">{text}</text>')
    return elements, top + MARGIN
