"""Graphs as text: a part of a graph as a list with rails, operands above users; a whole one as a table of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.render.draw.cells import Entry, writing_of
from hlo_cli.render.draw.column_widths import fit, lane_of
from hlo_cli.render.draw.grid import header_lines, row_line
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.draw.rails import Rail, rails
from hlo_cli.render.draw.table import column_header
from hlo_cli.render.draw.table import footer as table_footer
from hlo_cli.render.draw.table import lines as table_lines
from hlo_cli.render.style import Style
from hlo_cli.report.column import Column
from hlo_cli.report.graph import Drawing, Graph, GraphEdge, GraphNode
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.text import Line

_NAMES_FROM: Final = 160
"""The width from which on the operands of each node are named."""
_CELLS_A_LANE: Final = 10
_SIGNS: Final = {"added": "+ ", "removed": "- ", "changed": "~ ", "moved": "> "}
_COLUMNS: Final = (
    Column("rails", "", "range"),
    Column("name", "instruction", "name"),
    Column("operation", "operation", "opcode", rank=5),
    Column("shape", "shape"),
    Column("reads", "reads"),
)


def lines(graph: Graph, style: Style) -> Iterator[Line]:
    """The lines of a graph."""
    if not graph.is_limited:
        yield from table_lines(graph.as_table().sort("bytes_accessed"), style)
        return
    yield from rail_lines(graph.drawing, style)


def footer(graph: Graph, style: Style) -> tuple[str, ...]:
    """The footer of the table of a whole graph."""
    return () if graph.is_limited else table_footer(graph.as_table(), style)


def rail_lines(drawing: Drawing, style: Style) -> Iterator[Line]:
    """The nodes as a list, and their edges as rails to the left of it; the contents of boxes follow one by one.

    >>> from hlo_cli.report.text import plain_text
    >>> nodes = (GraphNode(0, "p", "parameter", "parameter", "f32[8]", "f32[8]{0}", 32),
    ...     GraphNode(1, "n", "negate", "elementwise", "f32[8]", "f32[8]{0}", 32))
    >>> for line in rail_lines(Drawing(nodes, (GraphEdge(0, 1, 32, "data"),)), Style()): print(plain_text(line))
       instruction  operation  shape   reads
    ─  ───────────  ─────────  ──────  ─────
    ●  p            parameter  f32[8]
    ●  n            negate     f32[8]  32 B
    """
    groups: dict[tuple[int | None, int], list[int]] = {}
    for at, node in enumerate(drawing.nodes):
        groups.setdefault((node.parent, node.part if node.parent is not None else 0), []).append(at)
    incoming: dict[int, list[GraphEdge]] = {}
    for edge in drawing.edges:
        incoming.setdefault(edge.target, []).append(edge)
    for number, ((parent, part), nodes) in enumerate(groups.items()):
        if number:
            yield ()
        if parent is not None:
            box = drawing.nodes[parent]
            yield from text_lines(f"In {box.name}, which calls {box.clusters[part]}", style)
        yield from _group(drawing, nodes, incoming, style)


def _group(
    drawing: Drawing, nodes: Sequence[int], incoming: Mapping[int, Sequence[GraphEdge]], style: Style
) -> Iterator[Line]:
    operands = {node: [edge.source for edge in incoming.get(node, ())] for node in nodes}
    order = _close_to_users(nodes, operands)
    drawn = rails(order, operands, max(3, style.room // _CELLS_A_LANE))
    shown = [drawing.nodes[at] for at in order]
    texts = (
        [Entry(style.show(rail.text), "quiet") for rail in drawn],
        [Entry(style.show(_SIGNS.get(node.change or "", "") + node.name), "name") for node in shown],
        [Entry(style.show(node.operation)) for node in shown],
        [Entry(style.show(_shape(node))) for node in shown],
        [Entry(style.show(_reads(drawing, at, rail, incoming, style))) for at, rail in zip(order, drawn, strict=True)],
    )
    lanes = [
        lane_of(column, tuple(map(style.show, column_header(column, writing_of(column, ())))), entries)
        for column, entries in zip(_COLUMNS, texts, strict=True)
    ]
    fitted = fit(lanes, style.room, label="name")
    yield from header_lines(fitted, style)
    for row, node in enumerate(shown):
        yield row_line(fitted, row, style, "strong" if node.is_focus else None)


def _close_to_users(nodes: Sequence[int], operands: Mapping[int, Sequence[int]]) -> list[int]:
    """The nodes with operands before users, each as late as the first user allows, which keeps rails short."""
    used = {operand for node in nodes for operand in operands[node]}
    order: list[int] = []
    placed: set[int] = set()
    for end in nodes:
        if end in used:
            continue
        waiting = [(end, iter(operands[end]))]
        while waiting:
            node, rest = waiting[-1]
            following = next((operand for operand in rest if operand not in placed), None)
            if following is not None:
                waiting.append((following, iter(operands[following])))
                continue
            waiting.pop()
            if node not in placed:
                placed.add(node)
                order.append(node)
    return order


def _shape(node: GraphNode) -> str:
    """The shape in short, of a tuple the number of its arrays first, as the end may be cut; and small constants."""
    literals = ", ".join(node.literals)
    first, found, more = node.label.rpartition(", … ")
    label = node.label
    if found and more.endswith(" more)"):
        label = f"{int(more.removesuffix(' more)').replace(',', '')) + 1:,} arrays: {first[1:]}, …"
    return f"{label}  {literals}" if literals else label


def _reads(drawing: Drawing, at: int, rail: Rail, incoming: Mapping[int, Sequence[GraphEdge]], style: Style) -> str:
    """The bytes of each edge, those of transfers marked; with the names of operands if there is room or no rail."""
    edges = incoming.get(at, ())
    is_named = style.room >= _NAMES_FROM
    if not is_named and len(edges) > 1 and not rail.missing:
        total = sum(edge.bytes for edge in edges)
        return f"{format_bytes(total)} in {len(edges)}" if total else f"{len(edges)} {edges[0].kind}"
    words = [_read(drawing, edge, is_named=is_named or edge.source in rail.missing) for edge in edges]
    return " + ".join(words)


def _read(drawing: Drawing, edge: GraphEdge, *, is_named: bool) -> str:
    name = f" {drawing.nodes[edge.source].name}" if is_named else ""
    match edge.kind:
        case "control":
            return f"after{name or ' it'}"
        case "indirect":
            return f"indirect{name}"
        case "transfer":
            return f"{format_bytes(edge.bytes)}{name} (copied)"
        case _:
            return f"{format_bytes(edge.bytes)}{name}"
