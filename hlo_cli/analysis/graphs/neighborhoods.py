"""Parts of graphs: the neighborhood of a node, and all paths from one node to another.

Mirrors `MakeNodeRadiusAroundFilter` and `MakeNodeFromToFilter` of xla/service/hlo_graph_dumper.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.graphs.dataflow_graph import DataflowGraph
from hlo_cli.analysis.graphs.folding import Edge

MOST_USERS: Final = 16
"""Users of a node with more than this are not followed, unless it is the center (`kMaxUsers`)."""


def neighborhood(edges: Iterable[Edge], centers: Sequence[int], depth: int) -> frozenset[int]:
    """The nodes at a distance of at most `depth` edges in either direction from any of the centers.

    >>> edges = [Edge(0, 1, 8, "data"), Edge(0, 2, 8, "data"), Edge(2, 3, 8, "data")]
    >>> sorted(neighborhood(edges, [1], 1)), sorted(neighborhood(edges, [1], 2))
    ([0, 1], [0, 1, 2])
    """
    operands: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    for edge in edges:
        operands.setdefault(edge.target, []).append(edge.source)
        users.setdefault(edge.source, []).append(edge.target)
    found = set(centers)
    border = list(centers)
    for step in range(depth):
        near = [each for node in border for each in _next(node, is_center=not step, operands=operands, users=users)]
        border = [each for each in dict.fromkeys(near) if each not in found]
        if not border:
            break
        found.update(border)
    return frozenset(found)


def _next(
    node: int, *, is_center: bool, operands: Mapping[int, list[int]], users: Mapping[int, list[int]]
) -> list[int]:
    used_by = users.get(node, [])
    return operands.get(node, []) + (used_by if is_center or len(used_by) <= MOST_USERS else [])


def nodes_between(graph: DataflowGraph, source: int, target: int) -> frozenset[int]:
    """The nodes of all paths from one node to another of the same computation; empty if there is no path.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "ENTRY e { a = f32[2] parameter(0)  b = f32[2] negate(a)  ROOT r = f32[2] add(a, b) }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> sorted(nodes_between(graph, 0, 2)), sorted(nodes_between(graph, 2, 0))
    ([0, 1, 2], [])
    """
    members = graph.members[graph.computation[source]]
    after = {source}
    for node in members:
        if not after.isdisjoint(graph.predecessors(node)):
            after.add(node)
    if target not in after:
        return frozenset()
    before = {target}
    for node in reversed(members):
        if node in before:
            before.update(graph.predecessors(node))
    return frozenset(after & before)


def callers_of(graph: DataflowGraph) -> Mapping[int, int]:
    """The first node that calls each computation."""
    found: dict[int, int] = {}
    for node, called in graph.calls.items():
        for computation in called:
            found.setdefault(computation, node)
    return found


def enclosing(graph: DataflowGraph, node: int, callers: Mapping[int, int]) -> Sequence[int]:
    """A node, the node that calls its computation, and so on to the outermost.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "f { ROOT p = s8[] parameter(0) }  ENTRY e { a = s8[] parameter(0)  ROOT r = s8[] call(a), to_apply=f }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> enclosing(graph, 0, callers_of(graph))
    [0, 2]
    """
    found = [node]
    while (caller := callers.get(graph.computation[found[-1]])) is not None and caller not in found:
        found.append(caller)
    return found
