"""Graphs: the instructions of a module as nodes with operands, and which part of them to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import ClassVar, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import Cell, Table

EdgeKind: TypeAlias = Literal["data", "transfer", "control", "indirect"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of a drawing: `number` is its row in the table of all nodes.

    `operation` is the opcode; of fusions also what is in them, of loops how often. `label` is its shape in short,
    `literals` are the short constants among its operands, or its own value. `heat` is its number on the scale of the
    drawing. A node with `clusters`, the names of the computations it shows, is drawn as a box around the nodes whose
    `parent` it is (an index of the drawing's nodes); `part` is the number of their computation among these.
    """

    number: int
    name: str
    operation: str
    kind: str
    label: str
    shape: str
    bytes: int
    _: KW_ONLY
    literals: tuple[str, ...] = ()
    is_loop: bool = False
    heat: float | None = None
    change: str | None = None
    parent: int | None = None
    part: int = 0
    clusters: tuple[str, ...] = ()
    is_expandable: bool = False
    is_focus: bool = False


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge between two nodes of a drawing, given by their indices, with the bytes that the target reads."""

    source: int
    target: int
    bytes: int
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Drawing:
    """The nodes and edges that formats without interaction draw; operands precede users, boxes their contents.

    `heat` names the numbers in `GraphNode.heat`, and is empty if nodes are colored by kind.

    >>> node = GraphNode(0, "p", "parameter", "parameter", "f32[8]", "f32[8]{0}", 32)
    >>> Drawing((node,), ()).roots
    (0,)
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    heat: str = ""

    @property
    def roots(self) -> tuple[int, ...]:
        """The nodes that are in no box."""
        return tuple([at for at, node in enumerate(self.nodes) if node.parent is None])


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, one row for each instruction, operands before users; and the part of them to show.

    `nodes` has all instructions of the module, for pages on which clusters open; `view` only those of the `drawing`.
    `computations` are named by index, and `entry` is the index of the first one to show. `focus` are the rows that the
    view is centered on, `shown` those that it is limited to with `is_limited`; `links` are their edges if these cannot
    be found by folding: source, target, bytes, and kind. `opened` rows begin as clusters.

    >>> from hlo_cli.report.table import Column
    >>> nodes = Table("nodes", (Column("name", "name", "name"),), (("p",), ("n",)))
    >>> Graph("graph", "jit_f", "2 instructions", nodes, nodes, ("main",), Drawing((), ())).data["entry"]
    0
    """

    kind: ClassVar[Literal["graph"]] = "graph"
    name: str
    title: str
    details: str
    nodes: Table
    view: Table
    computations: Sequence[str]
    drawing: Drawing
    _: KW_ONLY
    entry: int = 0
    focus: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()
    depth: int | None = None
    opened: tuple[int, ...] = ()
    links: tuple[tuple[int, int, int, EdgeKind], ...] | None = None
    has_transfers: bool = False
    is_limited: bool = False
    legend: Mapping[str, Cell] = field(default_factory=dict)

    def as_table(self) -> Table:
        """The nodes of the drawing."""
        return self.view

    @property
    def data(self) -> Mapping[str, Cell]:
        """What is not in the rows."""
        return {
            "title": self.title,
            "details": self.details,
            "computations": tuple(self.computations),
            "entry": self.entry,
            "focus": self.focus,
            "shown": self.shown,
            "depth": self.depth,
            "opened": self.opened,
            "links": self.links,
            "heat": self.drawing.heat or None,
            "transfers": self.has_transfers,
            "is_limited": self.is_limited,
            **self.legend,
        }
