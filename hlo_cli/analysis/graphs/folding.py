"""Folded graphs: the visible instructions of a computation, with edges through what is seen through.

`render/web/js/folding.js` folds by the same rules on the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.graphs.dataflow_graph import DataflowGraph
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes

EdgeKind: TypeAlias = Literal["data", "transfer", "control", "indirect"]
"""An edge of data; of data that is copied between memories on the way; a control dependency; a dependency through
instructions that are not shown."""

Reach: TypeAlias = dict[int, tuple[int, int]]
"""The visible nodes on which a node depends, with the bytes of each, and the index of its kind in `_KINDS`."""

_KINDS: Final[tuple[EdgeKind, ...]] = ("control", "transfer", "data")
"""Of several ways between two nodes, the last kind counts."""
_CONTROL, _TRANSFER, _DATA = range(3)


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between visible nodes, with the bytes that the target reads of the source; 0 if unknown."""

    source: int
    target: int
    bytes: int
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Folded:
    """The visible nodes of a computation, in order, and their edges, by target."""

    nodes: tuple[int, ...]
    edges: tuple[Edge, ...]


def fold(
    graph: DataflowGraph, computation: int, *, transfers: bool = False, kept: Collection[int] = frozenset()
) -> Folded:
    """Folds a computation, whose transfers are nodes with `transfers`; nodes that are `kept` are visible in any case.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)
    ...   s = (f32[8]{0:S(1)}, f32[8], u32[]) copy-start(p)
    ...   d = f32[8]{0:S(1)} copy-done(s)
    ...   ROOT r = f32[8] negate(d) }'''
    >>> graph = dataflow_graph(parse_module(text))
    >>> [(edge.source, edge.target, edge.bytes, edge.kind) for edge in fold(graph, 0).edges]
    [(0, 3, 32, 'transfer')]
    """
    members = graph.members[computation]
    gone = {
        node
        for node in members
        if (node in graph.hidden or (node in graph.transfers and not transfers)) and node not in kept
    }
    used = {before for node in members for before in graph.predecessors(node)}
    nodes = [
        node
        for node in members
        if node not in gone and (node in kept or node in used or not _is_idle_parameter(graph, node))
    ]
    reach: dict[int, Reach] = {}
    edges: list[Edge] = []
    for node in members:
        found = _behind(graph, node, reach)
        if node in gone:
            most, best = graph.bytes[node], _TRANSFER if node in graph.transfers else _DATA
            reach[node] = {source: (min(size, most), min(kind, best)) for source, (size, kind) in found.items()}
        else:
            edges += [Edge(source, node, size, _KINDS[kind]) for source, (size, kind) in found.items()]
    return Folded(tuple(nodes), tuple(edges))


def _is_idle_parameter(graph: DataflowGraph, node: int) -> bool:
    instruction = graph.instructions[node]
    return instruction.opcode == opcodes.PARAMETER and not instruction.is_root


def _behind(graph: DataflowGraph, node: int, reach: Mapping[int, Reach]) -> Reach:
    """The visible nodes behind a node: those of its operands, whose bytes add up, and its control predecessors."""
    found: Reach = {}
    for operand in graph.operands[node]:
        behind = reach.get(operand)
        if behind is None:
            behind = {operand: (graph.bytes[operand], _DATA)}
        for source, (size, kind) in behind.items():
            known = found.get(source)
            found[source] = (size, kind) if known is None else (size + known[0], max(kind, known[1]))
    for before in graph.control.get(node, ()):
        for source in reach.get(before, (before,)):
            found.setdefault(source, (0, _CONTROL))
    return found


def fold_among(graph: DataflowGraph, computation: int, shown: Collection[int]) -> Folded:
    """Folds a computation to the nodes `shown`: dependencies through all others are indirect.

    An edge is indirect if it passes any instruction that an ordinary folded graph shows.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.graphs.dataflow_graph import dataflow_graph
    >>> text = "ENTRY e { a = f32[2] parameter(0)  b = f32[2] negate(a)  ROOT r = f32[2] sine(b) }"
    >>> graph = dataflow_graph(parse_module(text))
    >>> [(edge.source, edge.target, edge.kind) for edge in fold_among(graph, 0, {0, 2}).edges]
    [(0, 2, 'indirect')]
    """
    members = graph.members[computation]
    nodes = [node for node in members if node in shown]
    places = {node: at for at, node in enumerate(nodes)}
    direct = [edge for edge in fold(graph, computation, kept=shown).edges if edge.source in places]
    edges: dict[int, list[Edge]] = {}
    for edge in direct:
        if edge.target in places:
            edges.setdefault(edge.target, []).append(edge)
    behind: dict[int, int] = {}  # by node, the shown nodes nearest to it as the bits of a number
    found: list[Edge] = []
    for node in members:
        mask = 0
        for before in graph.predecessors(node):
            place = places.get(before)
            mask |= behind[before] if place is None else 1 << place
        behind[node] = mask
        if node in places:
            own = edges.get(node, [])
            for edge in own:
                mask &= ~(1 << places[edge.source])
            found += own
            found += [Edge(nodes[at], node, 0, "indirect") for at in _bits(mask)]
    return Folded(tuple(nodes), tuple(found))


def _bits(mask: int) -> Iterable[int]:
    """The numbers of the bits that are set, in order, in time linear in the digits of the number."""
    digits = bin(mask)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)
