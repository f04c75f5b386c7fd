"""A part of a graph for terminals and text files: the answer, and the nodes with rails to the left of them."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.draw.graph import rail_lines
from hlo_cli.render.draw.paint import painter
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.style import Style
from hlo_cli.report.graph import Graph
from hlo_cli.report.report import Report
from hlo_cli.source import HloError


def render(report: Report, style: Style) -> Iterator[str]:
    r"""The lines of the graph; HloError for a report without one.

    >>> from hlo_cli.report.column import Column
    >>> from hlo_cli.report.graph import Drawing
    >>> from hlo_cli.report.table import Table
    >>> table = Table("nodes", (Column("name", "name"),), ())
    >>> graph = Graph("graph", "jit_f", "", table, table, ("main",), Drawing((), ()), is_limited=True)
    >>> list(render(Report("graph", "0 nodes and 0 edges", parts=(graph,)), Style()))
    ['0 nodes and 0 edges\n', '\n']
    """
    graph = next((part for part in report.parts if isinstance(part, Graph)), None)
    if graph is None:
        raise HloError(f"no graph to draw for {report.command}")
    paint = painter(color=style.color)
    for line in text_lines(report.answer, style, "strong"):
        yield paint(line) + "\n"
    yield "\n"
    for line in rail_lines(graph.drawing, style):
        yield paint(line).rstrip() + "\n"
