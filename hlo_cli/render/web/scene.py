"""Scenes: the drawing of a graph with coordinates, clusters as boxes around their nodes; as `js/scene.js`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.render.web.layered import LONG_EDGE, Bend, arrange, place
from hlo_cli.render.web.node_text import NODE_HEIGHT, node_width
from hlo_cli.report.graph import Drawing, GraphEdge

TITLE_HEIGHT: Final = 36.0
PART_TITLE: Final = 18.0
PART_CHARACTER: Final = 6.2
PADDING: Final = 14.0
LOOSE_GAP: Final = 16.0
LOOSE_WIDTH: Final = 1200.0
"""Nodes without edges are in rows of this width at least."""
PORT_GAP: Final = 14.0
_FEW: Final = 60
"""Computations of at most this many nodes have no stubs."""


class Box(NamedTuple):
    """A node with its center, its size, and the number of boxes around it."""

    x: float
    y: float
    width: float
    height: float
    depth: int

    @property
    def left(self) -> float:
        """The left edge."""
        return self.x - self.width / 2

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height / 2


class Route(NamedTuple):
    """The points of an edge: x, and the top and bottom of the rank it passes; or stubs at both ends if it is long."""

    points: tuple[Bend, ...]
    is_long: bool


class PartTitle(NamedTuple):
    """The name of a computation above its nodes, in a box that has several."""

    name: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Scene:
    """The boxes of the nodes and the routes of the edges of a drawing, in its order."""

    boxes: Sequence[Box]
    routes: Sequence[Route]
    titles: Sequence[PartTitle]
    width: float
    height: float


@dataclass(slots=True)
class _Group:
    """The nodes of one computation, with places relative to its upper left corner."""

    nodes: Sequence[int]
    edges: Sequence[int]
    places: Mapping[int, tuple[float, float]]
    bends: Mapping[int, Sequence[Bend]]
    long: frozenset[int]
    width: float
    height: float


class _Part(NamedTuple):
    """A computation in a box: its group, its name if there are several, and its place in the box."""

    group: _Group
    name: str
    x: float
    y: float


def scene_of(drawing: Drawing) -> Scene:
    """Places all nodes; those in boxes first, as their size decides about that of the box.

    >>> from hlo_cli.report.graph import GraphNode
    >>> nodes = tuple(GraphNode(n, "a", "add", "scalar", "f32[]", "f32[]", 4) for n in range(2))
    >>> scene = scene_of(Drawing(nodes, (GraphEdge(0, 1, 4, "data"),)))
    >>> [box.y for box in scene.boxes], scene.height
    ([17.0, 81.0], 98.0)
    """
    inside: dict[tuple[int | None, int], list[int]] = {}
    for at, node in enumerate(drawing.nodes):
        inside.setdefault((node.parent, node.part if node.parent is not None else 0), []).append(at)
    edges: dict[tuple[int | None, int], list[int]] = {}
    for at, edge in enumerate(drawing.edges):
        node = drawing.nodes[edge.target]
        edges.setdefault((node.parent, node.part if node.parent is not None else 0), []).append(at)
    sizes = [(node_width(node), NODE_HEIGHT) for node in drawing.nodes]
    parts: dict[int, list[_Part]] = {}
    for at in reversed(range(len(drawing.nodes))):  # boxes precede their contents
        node = drawing.nodes[at]
        if node.clusters:
            groups = [
                _group(inside.get((at, part), ()), edges.get((at, part), ()), drawing.edges, sizes)
                for part in range(len(node.clusters))
            ]
            parts[at] = _parts(groups, node.clusters)
            sizes[at] = _size(sizes[at][0], parts[at])
    whole = _group(inside.get((None, 0), ()), edges.get((None, 0), ()), drawing.edges, sizes)
    return _flattened(drawing, whole, parts, sizes)


def _parts(groups: Sequence[_Group], names: Sequence[str]) -> list[_Part]:
    is_titled = len(groups) > 1
    x = PADDING
    found: list[_Part] = []
    for group, name in zip(groups, names, strict=True):
        found.append(_Part(group, name if is_titled else "", x, TITLE_HEIGHT + (PART_TITLE if is_titled else 0)))
        x += max(group.width, len(name) * PART_CHARACTER if is_titled else 0) + PADDING
    return found


def _size(width: float, parts: Sequence[_Part]) -> tuple[float, float]:
    last = parts[-1]
    right = last.x + max(last.group.width, len(last.name) * PART_CHARACTER) + PADDING
    return max(width, right), last.y + max(part.group.height for part in parts) + PADDING


def _group(
    nodes: Sequence[int], edges: Sequence[int], all_edges: Sequence[GraphEdge], sizes: Sequence[tuple[float, float]]
) -> _Group:
    """Nodes with edges in layers, and below them those without any in rows."""
    tied = {end for at in edges for end in (all_edges[at].source, all_edges[at].target)}
    linked = [node for node in nodes if node in tied]
    numbers = {node: at for at, node in enumerate(linked)}
    pairs = [(numbers[all_edges[at].source], numbers[all_edges[at].target]) for at in edges]
    arrangement = arrange(
        len(linked),
        [(min(pair), max(pair)) for pair in pairs],
        longest=len(linked) if len(linked) <= _FEW else LONG_EDGE,
    )
    placed = place(arrangement, [sizes[node][0] for node in linked], [sizes[node][1] for node in linked])
    places = {node: (placed.x[at], placed.y[at]) for at, node in enumerate(linked)}
    group = _Group(
        nodes,
        edges,
        places,
        dict(zip(edges, placed.bends, strict=True)),
        frozenset(at for at, is_long in zip(edges, arrangement.is_long, strict=True) if is_long),
        placed.width,
        placed.height,
    )
    _place_loose([node for node in nodes if node not in tied], group, places, sizes)
    return group


def _place_loose(
    loose: Sequence[int], group: _Group, places: dict[int, tuple[float, float]], sizes: Sequence[tuple[float, float]]
) -> None:
    x = highest = 0.0
    top = group.height + 2 * LOOSE_GAP if places else 0.0
    room = max(LOOSE_WIDTH, group.width)
    for node in loose:
        width, height = sizes[node]
        if x and x + width > room:
            x, top, highest = 0.0, top + highest + LOOSE_GAP, 0.0
        places[node] = x + width / 2, top + height / 2
        x += width + LOOSE_GAP
        highest = max(highest, height)
        group.width = max(group.width, x - LOOSE_GAP)
        group.height = max(group.height, top + highest)


def _flattened(
    drawing: Drawing, whole: _Group, parts: Mapping[int, Sequence[_Part]], sizes: Sequence[tuple[float, float]]
) -> Scene:
    boxes = [Box(0.0, 0.0, 0.0, 0.0, 0)] * len(drawing.nodes)
    bends: list[Sequence[Bend]] = [()] * len(drawing.edges)
    long: set[int] = set()
    titles: list[PartTitle] = []
    waiting: list[tuple[_Group, float, float, int]] = [(whole, 0.0, 0.0, 0)]
    while waiting:
        group, left, top, depth = waiting.pop()
        for node in group.nodes:
            x, y = group.places[node]
            box = boxes[node] = Box(left + x, top + y, *sizes[node], depth)
            for part in parts.get(node, ()):
                inner = box.left + part.x, box.top + part.y
                if part.name:
                    titles.append(PartTitle(part.name, inner[0], inner[1] - 6))
                waiting.append((part.group, *inner, depth + 1))
        for at in group.edges:
            bends[at] = [(left + x, top + start, top + end) for x, start, end in group.bends[at]]
        long |= group.long
    ports = _ports(drawing, boxes, bends, long)
    routes = [_route(edge, at, boxes, bends[at], ports, is_long=at in long) for at, edge in enumerate(drawing.edges)]
    return Scene(boxes, routes, titles, whole.width, whole.height)


def _ports(
    drawing: Drawing, boxes: Sequence[Box], bends: Sequence[Sequence[Bend]], long: set[int]
) -> Mapping[tuple[int, bool], float]:
    """Where edges leave and enter their nodes, side by side in the order of where they go; by edge and side."""
    sides: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for at, edge in enumerate(drawing.edges):
        if at not in long:
            first = bends[at][0][0] if bends[at] else boxes[edge.target].x
            last = bends[at][-1][0] if bends[at] else boxes[edge.source].x
            sides.setdefault((edge.source, True), []).append((first, at))
            sides.setdefault((edge.target, False), []).append((last, at))
    found: dict[tuple[int, bool], float] = {}
    for (node, is_out), goals in sides.items():
        if len(goals) > 1:
            gap = min(PORT_GAP, min(boxes[node].width, 360.0) * 0.6 / (len(goals) - 1))
            for place_, (_, at) in enumerate(sorted(goals, key=lambda goal: goal[0])):
                found[at, is_out] = (place_ - (len(goals) - 1) / 2) * gap
    return found


def _route(
    edge: GraphEdge,
    at: int,
    boxes: Sequence[Box],
    bends: Sequence[Bend],
    ports: Mapping[tuple[int, bool], float],
    *,
    is_long: bool,
) -> Route:
    source, target = boxes[edge.source], boxes[edge.target]
    start = source.x + ports.get((at, True), 0.0), source.bottom, source.bottom
    end = target.x + ports.get((at, False), 0.0), target.top, target.top
    return Route((start, *bends, end), is_long)
