"""Graphs as text: the nodes in a table."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.render.draw.table import lines as table_lines
from hlo_cli.render.style import Style
from hlo_cli.report.graph import Graph
from hlo_cli.report.text import Line


def lines(graph: Graph, style: Style) -> Iterator[Line]:
    """The lines of a graph."""
    yield from table_lines(graph.as_table(), style)
