"""The drawing of a view: its nodes with their labels, and its edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from hlo_cli.analysis.graphs.views import DataflowGraph, Edge, View
from hlo_cli.commands.graph.nodes import NodeFacts
from hlo_cli.commands.graph.options import Heat
from hlo_cli.ir import opcodes
from hlo_cli.report.graph import Drawing, GraphEdge, GraphNode
from hlo_cli.report.table import Column, Table

_EDGE_COLUMNS: Final = (
    Column("source", "source", "name", role="name"),
    Column("target", "target", "name", role="name"),
    Column("bytes", "read", "bytes", total="sum"),
    Column("kind", "kind"),
    Column("source_id", "source id", "count", person=False),
    Column("target_id", "target id", "count", person=False),
)
_MOST_CONSTANTS: Final = 2
"""The number of constants that a label names."""


def drawing_of(graph: DataflowGraph, view: View, facts: NodeFacts, heat: Heat | None) -> Drawing:
    """The nodes of a view, clusters before their contents, and all edges."""
    order = list(_in_order(view))
    places = {node: at for at, (node, _, _) in enumerate(order)}
    numbers: Sequence[float | None] = [None] * len(order)
    if heat is not None:
        numbers = facts.heat([node for node, _, _ in order], heat)
    focus = frozenset(view.focus)
    nodes = tuple(
        _node(graph, view, facts, node, number, None if parent is None else places[parent], part, focus)
        for (node, parent, part), number in zip(order, numbers, strict=True)
    )
    edges = tuple(GraphEdge(places[each.source], places[each.target], each.bytes, each.kind) for each in view.edges)
    return Drawing(nodes, edges, heat or "")


def _in_order(view: View) -> list[tuple[int, int | None, int]]:
    """Every node with the node whose cluster it is in, and the number of its computation there."""
    found: list[tuple[int, int | None, int]] = []
    waiting: list[tuple[int, int | None, int]] = (
        [(node, None, 0) for node in reversed(view.folded[view.computation].nodes)]
        if view.computation in view.folded
        else []
    )
    while waiting:
        each = waiting.pop()
        found.append(each)
        inner = [
            (node, each[0], part)
            for part, computation in enumerate(view.opened.get(each[0], ()))
            for node in view.folded[computation].nodes
        ]
        waiting += reversed(inner)
    return found


def _node(
    graph: DataflowGraph,
    view: View,
    facts: NodeFacts,
    node: int,
    heat: float | None,
    parent: int | None,
    part: int,
    focus: Collection[int],
) -> GraphNode:
    instruction = graph.instructions[node]
    shape, label, size, _ = facts.sizes(node)
    return GraphNode(
        node,
        instruction.name,
        _operation(instruction.opcode, facts, node),
        facts.kind(node),
        label,
        shape,
        size,
        literals=_literals(graph, facts, node),
        is_loop=instruction.opcode == opcodes.WHILE,
        heat=heat,
        change=graph.changes.get(node),
        parent=parent,
        part=part,
        clusters=tuple([graph.computations[each].name for each in view.opened.get(node, ())]),
        is_expandable=graph.is_expandable(node),
        is_focus=node in focus,
    )


def _operation(opcode: str, facts: NodeFacts, node: int) -> str:
    """The opcode; of fusions what is in them, of loops how often."""
    kind, trips = facts.kind(node), facts.trips(node)
    name = f"{kind} {opcode}" if opcode == opcodes.FUSION != kind else opcode
    return name if trips is None else f"{name} × {trips:,}"


def _literals(graph: DataflowGraph, facts: NodeFacts, node: int) -> tuple[str, ...]:
    """The value of a short constant, or the first short constants among the operands."""
    if (literal := facts.literal(node)) is not None:
        return (literal,)
    found = (text for operand in graph.operands[node] if (text := facts.literal(operand)) is not None)
    return tuple(islice(found, _MOST_CONSTANTS))


def edge_table(edges: Sequence[Edge], names: Mapping[int, str], *, is_summary: bool) -> Table:
    """The edges as a table, those with most bytes first."""
    ranked = sorted(edges, key=lambda edge: (-edge.bytes, edge.target, edge.source))
    rows = tuple((names[e.source], names[e.target], e.bytes, e.kind, e.source, e.target) for e in ranked)
    return Table(
        "edges",
        _EDGE_COLUMNS,
        rows,
        noun="edges",
        main=False,
        person=is_summary,
        limit=5,
        title="Edges with most bytes",
    )
