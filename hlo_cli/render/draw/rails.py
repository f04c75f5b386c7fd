"""How is a graph shown as text: a part of it as a list with rails, a whole one as the table of its nodes?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.render.draw.cells import Entry, fit, header_lines, lane_of, row_line, writing_of
from hlo_cli.render.draw.prose import text_lines
from hlo_cli.render.draw.table import column_header
from hlo_cli.render.draw.table import footer_of_table as table_footer
from hlo_cli.render.draw.table import lines_of_table as table_lines
from hlo_cli.render.style import Style
from hlo_cli.report.graph import Drawing, Graph, GraphEdge, GraphNode
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.table import Column
from hlo_cli.report.text import Line

# --- rails ---
# The lines beside a list of nodes, one for each value on its way from its node to its last user.


NODE: Final = "●"
LOOSE: Final = "○"
"""A node whose value has no rail, as too many others are on the way."""


class Rail(NamedTuple):
    """The drawing beside a node, and those of its operands that have no rail."""

    text: str
    missing: tuple[int, ...]


def rails(nodes: Sequence[int], operands: Mapping[int, Sequence[int]], most: int) -> list[Rail]:
    """The rail of each node; operands precede their users, and at most `most` values have one at a time.

    >>> for rail in rails([0, 1, 2, 3], {1: [0], 2: [0], 3: [1, 2]}, 8): print(rail.text)
    ●
    ├─●
    ● │
    ●─┘
    """
    left = dict.fromkeys(nodes, 0)
    for node in nodes:
        for operand in operands.get(node, ()):
            left[operand] += 1
    lanes: list[int | None] = []
    found: list[Rail] = []
    for node in nodes:
        places = {operand: at for at, operand in enumerate(lanes) if operand is not None}
        used = [(operand, places[operand]) for operand in operands.get(node, ()) if operand in places]
        missing = tuple([operand for operand in operands.get(node, ()) if operand not in places])
        for operand in operands.get(node, ()):
            left[operand] -= 1
        ending = [at for operand, at in used if not left[operand]]
        own = min(ending) if ending else next((at for at, each in enumerate(lanes) if each is None), len(lanes))
        has_rail = own < most
        found.append(Rail(_drawn(lanes, {at: not left[each] for each, at in used}, own, has_rail=has_rail), missing))
        for at in ending:
            lanes[at] = None
        if own == len(lanes):
            lanes.append(None)
        lanes[own] = node if left[node] and has_rail else None
        while lanes and lanes[-1] is None:
            lanes.pop()
    return found


def _drawn(lanes: Sequence[int | None], used: Mapping[int, bool], own: int, *, has_rail: bool) -> str:
    """One row: `used` are the lanes of the operands, and whether they end here."""
    first, last = min((*used, own)), max((*used, own))
    cells: list[str] = []
    for at in range(max(len(lanes), own + 1)):
        is_within = first <= at <= last
        if at == own:
            glyph = NODE if has_rail else LOOSE
        elif at in used:
            glyph = _joint(at == first, at == last, ends=used[at])
        elif at < len(lanes) and lanes[at] is not None:
            glyph = "│"
        else:
            glyph = "─" if is_within else " "
        cells.append(glyph + ("─" if is_within and at < last else " "))
    return "".join(cells).rstrip()


def _joint(is_first: bool, is_last: bool, *, ends: bool) -> str:
    if is_first:
        return "└" if ends else "├"
    if is_last:
        return "┘" if ends else "┤"
    return "┴" if ends else "┼"


# --- graphs ---
# A part of a graph as a list with rails, operands above users; a whole one as a table of its nodes.


_NAMES_FROM: Final = 160
"""The width from which on the operands of each node are named: lanes and nodes take 80 cells and more."""
_CELLS_A_LANE: Final = 10  # a lane takes two cells, and most of the width belongs to names and shapes
_SIGNS: Final = {"added": "+ ", "removed": "- ", "changed": "~ ", "moved": "> "}
_COLUMNS: Final = (
    Column("rails", "", "range"),
    Column("name", "instruction", "name"),
    Column("operation", "operation", "opcode", rank=5),
    Column("shape", "shape"),
    Column("reads", "reads"),
)


def lines_of_graph(graph: Graph, style: Style) -> Iterator[Line]:
    """The lines of a graph."""
    if not graph.is_limited:
        yield from table_lines(graph.as_table().sort("bytes_accessed"), style)
        return
    yield from rail_lines(graph.drawing, style)


def footer_of_graph(graph: Graph, style: Style) -> tuple[str, ...]:
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
