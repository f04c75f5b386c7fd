"""Views: which nodes of a module a graph shows, and which of them as clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY

from hlo_cli.analysis.graphs.dataflow_graph import DataflowGraph
from hlo_cli.analysis.graphs.folding import Edge, Folded, fold, fold_among
from hlo_cli.analysis.graphs.neighborhoods import callers_of, enclosing, neighborhood, nodes_between
from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """What a graph shows.

    `computation` is the outermost one, `folded` the nodes and edges of each computation that is shown, and `opened` the
    computations in each node that is shown as a cluster. `focus` are the nodes of interest. With `is_limited`, parts
    of computations are shown; with `is_induced`, their edges are those of the whole computation between them.
    """

    computation: int
    folded: Mapping[int, Folded]
    opened: Mapping[int, tuple[int, ...]]
    _: KW_ONLY
    focus: tuple[int, ...] = ()
    is_limited: bool = False
    is_induced: bool = True

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes that are shown, in the order of the module."""
        return tuple(sorted(node for folded in self.folded.values() for node in folded.nodes))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges that are shown."""
        return tuple(edge for folded in self.folded.values() for edge in folded.edges)


def whole(
    graph: DataflowGraph, computation: int, *, transfers: bool = False, opened: Collection[int] | None = frozenset()
) -> View:
    """A whole computation, folded; `opened` are the nodes to show as clusters, None for all.

    A computation with several callers is shown in the first one that is opened.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    >>> text += " ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> len(whole(graph, 1).nodes), len(whole(graph, 1, opened=None).nodes)
    (2, 4)
    """
    kept = frozenset(opened or ())
    folded = {computation: fold(graph, computation, transfers=transfers, kept=kept)}
    return View(computation, *_expanded(graph, folded, opened, transfers=transfers))


def _expanded(
    graph: DataflowGraph, folded: Mapping[int, Folded], opened: Collection[int] | None, *, transfers: bool
) -> tuple[Mapping[int, Folded], Mapping[int, tuple[int, ...]]]:
    found = dict(folded)
    clusters: dict[int, tuple[int, ...]] = {}
    kept = frozenset(opened or ())
    waiting = [node for each in folded.values() for node in reversed(each.nodes)]
    while waiting:
        node = waiting.pop()
        if not graph.is_expandable(node) or not (opened is None or node in kept):
            continue
        called = tuple([each for each in graph.calls[node] if each not in found])
        if called:
            clusters[node] = called
        for each in called:
            found[each] = fold(graph, each, transfers=transfers, kept=kept)
            waiting += reversed(found[each].nodes)
    return found, clusters


def around(
    graph: DataflowGraph,
    centers: Sequence[int],
    depth: int,
    *,
    transfers: bool = False,
    opened: Collection[int] | None = frozenset(),
) -> View:
    """The neighborhoods of nodes of one computation.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "ENTRY e { a = s8[2] parameter(0)  b = s8[2] abs(a)  c = s8[2] not(b)  ROOT r = s8[2] abs(c) }"
    >>> around(dataflow_graph(parse_module(text)), [1], 1).nodes
    (0, 1, 2)
    """
    computation = graph.computation[centers[0]]
    folded = fold(graph, computation, transfers=transfers, kept=frozenset(centers))
    part = {computation: _part_of(folded, neighborhood(folded.edges, centers, depth))}
    found = _expanded(graph, part, opened, transfers=transfers)
    return View(computation, *found, focus=tuple(centers), is_limited=True)


def _part_of(folded: Folded, nodes: Collection[int]) -> Folded:
    return Folded(
        tuple([node for node in folded.nodes if node in nodes]),
        tuple([edge for edge in folded.edges if edge.source in nodes and edge.target in nodes]),
    )


def between(graph: DataflowGraph, source: int, target: int, *, transfers: bool = False) -> View | None:
    """All paths from one node to another, or None if there is none.

    If they are in different computations, the paths are those of the innermost computation around both, in whose
    callers they go on: from the source to the root, and from the parameters to the target.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "ENTRY e { a = s8[2] parameter(0)  b = s8[2] not(a)  c = s8[2] abs(a)  ROOT r = s8[2] add(a, b) }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> view = between(graph, 0, 3)
    >>> view.nodes if view else None, between(graph, 3, 0)
    ((0, 1, 3), None)
    """
    callers = callers_of(graph)
    sources, targets = list(enclosing(graph, source, callers)), list(enclosing(graph, target, callers))
    outer = {graph.computation[node]: node for node in targets}
    at = next((at for at, node in enumerate(sources) if graph.computation[node] in outer), None)
    if at is None:
        return None
    common = graph.computation[sources[at]]
    first, last = sources[at], outer[common]
    if first == last and source != target:
        return None
    parts: dict[int, frozenset[int]] = {common: nodes_between(graph, first, last)}
    for node in sources[:at]:
        parts[graph.computation[node]] = _to_root(graph, node)
    for node in targets[: targets.index(last)]:
        parts[graph.computation[node]] = _from_parameters(graph, node)
    if not all(parts.values()):
        return None
    ends = frozenset((source, target, *sources[: at + 1], *targets[: targets.index(last) + 1]))
    folded = {
        computation: _part_of(fold(graph, computation, transfers=transfers, kept=ends), nodes)
        for computation, nodes in parts.items()
    }
    opened = {
        caller: tuple([each for each in graph.calls[caller] if each in parts])
        for caller in (*sources[1 : at + 1], *targets[1 : targets.index(last) + 1])
    }
    return View(common, folded, opened, focus=(source, target), is_limited=True)


def _to_root(graph: DataflowGraph, node: int) -> frozenset[int]:
    """The nodes of all paths from a node to the root of its computation."""
    members = graph.members[graph.computation[node]]
    root = next(
        (each for each in members if graph.instructions[each].is_root and graph.changes.get(each) != "removed"), None
    )
    return frozenset() if root is None else nodes_between(graph, node, root)


def _from_parameters(graph: DataflowGraph, node: int) -> frozenset[int]:
    """A node and the nodes of all paths to it from parameters of its computation."""
    members = graph.members[graph.computation[node]]
    found: set[int] = {node}
    for each in reversed(members):
        if each in found:
            found.update(graph.predecessors(each))
    useful: set[int] = set()
    for each in members:
        if each in found and (_is_parameter(graph, each) or not useful.isdisjoint(graph.predecessors(each))):
            useful.add(each)
    return frozenset(useful | {node}) if node in useful else frozenset()


def _is_parameter(graph: DataflowGraph, node: int) -> bool:
    return graph.instructions[node].parameter_number is not None


def matching(graph: DataflowGraph, computation: int, matches: Iterable[int]) -> View:
    """The given nodes within a computation, clusters around those in the computations it calls, and their edges.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    >>> text += " ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }"
    >>> view = matching(dataflow_graph(parse_module(text)), 1, [1])
    >>> view.nodes, dict(view.opened)
    ((1, 3), {3: (0,)})
    """
    callers = callers_of(graph)
    shown: dict[int, set[int]] = {}
    opened: dict[int, set[int]] = {}
    wanted = tuple(matches)
    for match in wanted:
        chain = enclosing(graph, match, callers)
        within = next((at for at, node in enumerate(chain) if graph.computation[node] == computation), None)
        if within is None:
            continue
        for at, node in enumerate(chain[: within + 1]):
            shown.setdefault(graph.computation[node], set()).add(node)
            if at:
                opened.setdefault(node, set()).add(graph.computation[chain[at - 1]])
    return View(
        computation,
        {each: fold_among(graph, each, nodes) for each, nodes in shown.items()},
        {node: tuple(sorted(called)) for node, called in opened.items()},
        focus=tuple([match for match in wanted if match in shown.get(graph.computation[match], ())]),
        is_limited=True,
        is_induced=False,
    )
