"""How is a graph drawn as a picture: the boxes of its nodes and computations, its edges, and a legend?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.render.style import sanitize
from hlo_cli.render.web.colors import (
    CHANGES,
    DARK,
    KINDS,
    LIGHT,
    Paint,
    Scheme,
    amount,
    dark_heat_paint,
    dark_paint,
    heat_paint,
    line_width,
    most_heat,
    share,
)
from hlo_cli.render.web.graph_layout import LONG_EDGE, Bend, arrange, place
from hlo_cli.render.web.markup import safe, safe_lines, short
from hlo_cli.render.width import shorten_text
from hlo_cli.report.graph import Drawing, Graph, GraphEdge, GraphNode
from hlo_cli.report.numbers import format_bytes

# --- text of a node ---
# The two lines of a node, and the size of its box, which does not depend on fonts; `js/node_text.js` has the same.


CHARACTER: Final = 6.65
"""The width of a character of monospaced type of 11 px, of the widest of the common fonts."""
NODE_HEIGHT: Final = 34.0  # px: two lines of 11 px type
TEXT_MARGIN: Final = 16  # px: 8 on each side of the text
MARK: Final = 2
"""The characters before the name of what can be opened."""
_MAX_NAME: Final = 32  # characters: long names make boxes wide and graphs sparse; the tip has all of the name
_MAX_LABEL: Final = 30  # characters of a shape, about as many as of a name above it
_MAX_LITERAL: Final = 16  # constants that are a number or two say what an operation does; longer ones do not


def _without_middle(text: str, most: int) -> str:
    """A text without its middle, so that it has at most `most` characters.

    >>> _without_middle("multiply_add_fusion.12", 12)
    'multi…ion.12'
    """
    if len(text) <= most:
        return text
    return text[: -(-most // 2) - 1] + "…" + text[len(text) - most // 2 :]


def first_line(node: GraphNode) -> str:
    """The name, with the sign of its change."""
    sign = f"{CHANGES[node.change][0]} " if node.change else ""
    return sign + _without_middle(sanitize(node.name), _MAX_NAME)


def _second_line(node: GraphNode) -> str:
    """The operation, the short shape, and small constants.

    >>> _second_line(GraphNode(0, "a", "add", "elementwise", "f32[8]", "f32[8]{0}", 32, literals=("1",)))
    'add  f32[8]  1'
    """
    literals = sanitize(", ".join(node.literals))
    parts = (
        node.operation,
        _without_middle(_short(sanitize(node.label)), _MAX_LABEL),
        literals if len(literals) <= _MAX_LITERAL else "",
    )
    return "  ".join(part for part in parts if part)


def _short(label: str) -> str:
    """The first of a tuple and how many more: `f32[8] +2` for `(f32[8], … 2 more)`."""
    first, found, more = label.rpartition(", … ")
    return f"{first[1:]} +{more.removesuffix(' more)')}" if found and label.endswith(" more)") else label


def _node_width(node: GraphNode) -> float:
    """The width of the box of a node."""
    first = len(first_line(node)) + (MARK if node.is_expandable else 0)
    return max(first, len(_second_line(node))) * CHARACTER + TEXT_MARGIN


# --- the scene with coordinates ---
# Clusters are boxes around their nodes; `js/scene.js` has the same.


TITLE_HEIGHT: Final = 36.0  # px: the two lines of text at the top of an open box
PART_TITLE: Final = 18.0  # px: the name of a computation above its part of a box
PART_CHARACTER: Final = 6.2  # px: the width of a character of the quiet type of parts
PADDING: Final = 14.0  # px inside of a box around its nodes
LOOSE_GAP: Final = 16.0  # px between nodes without edges, as between those with
LOOSE_WIDTH: Final = 1200.0
"""Nodes without edges are in rows of this width at least: that of a page, so that rows do not become columns."""
PORT_GAP: Final = 14.0  # px between the ends of edges at one node, where there is room
_FEW: Final = 60
"""Computations of at most this many nodes have no stubs: their long edges can be followed by the eye."""


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
    sizes = [(_node_width(node), NODE_HEIGHT) for node in drawing.nodes]
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


# --- the picture ---
# SVG without scripts, in a light and a dark color scheme.


MARGIN: Final = 20.0  # px
HEAD_HEIGHT: Final = 44.0  # px: the answer and the line of details above the graph
LEGEND_LINE_HEIGHT: Final = 22.0  # px: a line of the legend
LEAST_WIDTH: Final = 480.0  # px: a graph of one node still has room for its legend
HEAT_COLORS: Final = 16
"""The number of colors on the scale of numbers: more cannot be told apart side by side."""
_STUB: Final = 9.0  # px: the visible part of a long edge at each of its ends
_TEXT_INSET: Final = 8.0  # px: half of TEXT_MARGIN
_TIP_ROOM: Final = 300  # characters: a tip is a small window of the browser

_CSS: Final = """\
.graph{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif}
.graph .code{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.graph .head{font-size:14px;font-weight:600}
.graph .name{font-weight:600}
.graph .edge{fill:none;stroke-linecap:butt}
.graph .transfer{stroke-dasharray:7 4}
.graph .control{stroke-dasharray:2 3}
.graph .indirect{stroke-dasharray:1 4;stroke-linecap:round}
.graph .removed rect{stroke-dasharray:4 3}
"""
_SCHEME: Final = """\
.graph .paper{{fill:{paper}}}
.graph text{{fill:{ink}}}
.graph .quiet{{fill:{quiet}}}
.graph .edge{{stroke:{other}}}
.graph .transfer{{stroke:{name}}}
.graph .control{{stroke:{waste}}}
.graph .box{{fill:{quiet};fill-opacity:.08}}
"""
_EDGE_WORDS: Final = (
    ("data", "data, wider for more bytes"),
    ("transfer", "copied between memories"),
    ("control", "control dependency"),
    ("indirect", "through instructions that are not shown"),
)


def graph_picture(graph: Graph, answer: str) -> Iterator[str]:
    """The picture of a graph, line by line: the answer, the drawing, and a legend of what occurs in it.

    >>> from hlo_cli.report.table import Column
    >>> from hlo_cli.report.table import Table
    >>> table = Table("nodes", (Column("name", "name"),), ())
    >>> lines = list(graph_picture(Graph("graph", "jit_f", "", table, table, ("main",), Drawing((), ())), "0 nodes"))
    >>> lines[0].startswith('<svg xmlns="http://www.w3.org/2000/svg"'), lines[-1]
    (True, '</svg>\\n')
    """
    drawing = graph.drawing
    scene = scene_of(drawing)
    legend = list(_legend(drawing))
    words = max(len(answer) * 7.6, len(graph.details) * 6.5, LEAST_WIDTH)
    width = max(scene.width, words) + 2 * MARGIN
    rows = _legend_rows(legend, width - 2 * MARGIN)
    height = HEAD_HEIGHT + MARGIN + scene.height + MARGIN + LEGEND_LINE_HEIGHT * len(rows) + MARGIN
    size = f'viewBox="0 0 {short(width)} {short(height)}" width="{short(width)}" height="{short(height)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" {size} role="img">\n'
    yield f"<title>{safe(graph.title)}: {safe(answer)}</title>\n<style>{_style(drawing)}</style>\n"
    yield f'<rect class="paper" width="{short(width)}" height="{short(height)}"/>\n'
    yield f'<text class="head" x="{short(MARGIN)}" y="26">{safe(answer)}</text>\n'
    yield f'<text class="quiet" x="{short(MARGIN)}" y="44">{safe(graph.title)} · {safe(graph.details)}</text>\n'
    left = MARGIN + max(0.0, (width - 2 * MARGIN - scene.width) / 2)
    yield f'<g transform="translate({short(left)} {short(HEAD_HEIGHT + MARGIN)})">\n'
    yield from _drawn(drawing, scene)
    yield "</g>\n"
    top = HEAD_HEIGHT + 2 * MARGIN + scene.height
    for at, row in enumerate(rows):
        yield (
            "".join(
                f'<g transform="translate({short(MARGIN + x)} {short(top + at * LEGEND_LINE_HEIGHT)})">{each}</g>'
                for x, each in row
            )
            + "\n"
        )
    yield "</svg>\n"


def _drawn(drawing: Drawing, scene: Scene) -> Iterator[str]:
    """Boxes from the outside to the inside, then edges, then nodes."""
    looks = _looks(drawing)
    order = sorted(range(len(drawing.nodes)), key=lambda at: scene.boxes[at].depth)
    for at in order:
        if drawing.nodes[at].clusters:
            yield _box(drawing.nodes[at], scene.boxes[at], looks[at])
    for title in scene.titles:
        yield f'<text class="code quiet" x="{short(title.x)}" y="{short(title.y)}">{safe(title.name)}</text>\n'
    for edge, route in zip(drawing.edges, scene.routes, strict=True):
        yield _edge(drawing, edge, route, scene)
    for node, box, look in zip(drawing.nodes, scene.boxes, looks, strict=True):
        if not node.clusters:
            yield _node(node, box, look)


def _looks(drawing: Drawing) -> list[str]:
    """The class of each node: its kind, or its place on the scale."""
    if not drawing.heat:
        kinds = list(KINDS)
        return [f"k{kinds.index(node.kind if node.kind in KINDS else 'other')}" for node in drawing.nodes]
    most = most_heat(drawing)
    return [f"h{round(share(node.heat, most) * (HEAT_COLORS - 1))}" for node in drawing.nodes]


def _node(node: GraphNode, box: Box, look: str) -> str:
    classes = " ".join((look, *(["focus"] if node.is_focus else []), *([node.change] if node.change else [])))
    mark = "▸ " if node.is_expandable else ""
    x = short(box.left + _TEXT_INSET)
    return (
        f'<g class="{classes}"><title>{_tip(node)}</title>'
        f'<rect x="{short(box.left)}" y="{short(box.top)}" width="{short(box.width)}" height="{short(box.height)}"'
        f' rx="{5 if node.is_expandable else 1.5}"/>'
        f'<text class="code name" x="{x}" y="{short(box.top + 14)}">{mark}{safe(first_line(node))}</text>'
        f'<text class="code" x="{x}" y="{short(box.top + 27)}">{safe(_second_line(node))}</text></g>\n'
    )


def _box(node: GraphNode, box: Box, look: str) -> str:
    x = short(box.left + _TEXT_INSET)
    return (
        f'<g class="{look}"><title>{_tip(node)}</title>'
        f'<rect class="box" x="{short(box.left)}" y="{short(box.top)}" width="{short(box.width)}"'
        f' height="{short(box.height)}" rx="6"/></g>'
        f'<text class="code name" x="{x}" y="{short(box.top + 15)}">▾ {safe(first_line(node))}</text>'
        f'<text class="code quiet" x="{x}" y="{short(box.top + 28)}">{safe(_second_line(node))}</text>\n'
    )


def _tip(node: GraphNode) -> str:
    change = [node.change] if node.change else []
    texts = (node.name, f"{node.operation}  {node.shape}", format_bytes(node.bytes), *change)
    return safe_lines([shorten_text(sanitize(text), _TIP_ROOM) for text in texts])


def _edge(drawing: Drawing, edge: GraphEdge, route: Route, scene: Scene) -> str:
    source, target = drawing.nodes[edge.source], drawing.nodes[edge.target]
    size = f", {format_bytes(edge.bytes)}" if edge.bytes else ""
    tip = safe(f"{source.name} → {target.name}{size}")
    width = short(line_width(edge.bytes))
    if route.is_long:
        first, last = scene.boxes[edge.source], scene.boxes[edge.target]
        path = (
            f"M{short(first.left + _STUB)} {short(first.bottom)}v{short(_STUB)}"
            f"M{short(last.left + _STUB)} {short(last.top - _STUB)}v{short(_STUB)}"
        )
        width = short(min(2.0, line_width(edge.bytes)))
    else:
        path = _path(route)
    return f'<path class="edge {edge.kind}" stroke-width="{width}" d="{path}"><title>{tip}</title></path>\n'


def _path(route: Route) -> str:
    """Vertical where an edge passes a rank, curved between ranks."""
    x, _, y = route.points[0]
    parts = [f"M{short(x)} {short(y)}"]
    for next_x, top, bottom in route.points[1:]:
        middle = short((y + top) / 2)
        parts.append(f"C{short(x)} {middle} {short(next_x)} {middle} {short(next_x)} {short(top)}")
        if bottom != top:
            parts.append(f"V{short(bottom)}")
        x, y = next_x, bottom
    return "".join(parts)


def _legend(drawing: Drawing) -> Iterator[tuple[float, str]]:
    """What occurs in the drawing: kinds or the scale, changes, and kinds of edges; each with its width."""
    if drawing.heat:
        words = f"0 to {amount(drawing.heat, most_heat(drawing))} ({drawing.heat})"
        colors = "".join(
            f'<g class="h{at}"><rect x="{at * 6}" width="6" height="12"/></g>' for at in range(HEAT_COLORS)
        )
        yield _entry(colors, HEAT_COLORS * 6, words)
    else:
        present = {node.kind for node in drawing.nodes}
        for at, kind in enumerate(KINDS):
            if kind in present:
                yield _entry(f'<g class="k{at}"><rect width="12" height="12"/></g>', 12, kind)
    for change in dict.fromkeys(node.change for node in drawing.nodes if node.change):
        sign = CHANGES[change][0]
        yield _entry(f'<g class="{change}"><rect width="12" height="12" fill="none"/></g>', 12, f"{sign} {change}")
    kinds = {edge.kind for edge in drawing.edges}
    for name, words in _EDGE_WORDS:
        if name in kinds:
            yield _entry(f'<path class="edge {name}" stroke-width="2" d="M0 6H28"/>', 28, words)


def _entry(figure: str, width: float, words: str) -> tuple[float, str]:
    text = f'<text class="quiet" x="{short(width + 6)}" y="11">{safe(words)}</text>'
    return width + 6 + len(words) * CHARACTER + 14, figure + text


def _legend_rows(entries: Sequence[tuple[float, str]], room: float) -> list[list[tuple[float, str]]]:
    rows: list[list[tuple[float, str]]] = []
    x = room
    for width, text in entries:
        if x + width > room or not rows:
            rows.append([])
            x = 0.0
        rows[-1].append((x, text))
        x += width
    return rows


def _style(drawing: Drawing) -> str:
    if drawing.heat:
        places = [at / (HEAT_COLORS - 1) for at in range(HEAT_COLORS)]
        light = {f"h{at}": heat_paint(place) for at, place in enumerate(places)}
        dark = {f"h{at}": dark_heat_paint(place) for at, place in enumerate(places)}
    else:
        light = {f"k{at}": paint for at, paint in enumerate(KINDS.values())}
        dark = {name: dark_paint(paint) for name, paint in light.items()}
    return f"{_CSS}{_scheme(LIGHT, light)}@media(prefers-color-scheme:dark){{{_scheme(DARK, dark)}}}"


def _scheme(scheme: Scheme, paints: dict[str, Paint]) -> str:
    rules = [
        f".graph .{name} rect{{fill:{paint.fill};stroke:{paint.line}}}.graph .{name} text{{fill:{paint.ink}}}\n"
        for name, paint in paints.items()
    ]
    colors = {"added": scheme.saving, "removed": scheme.alarm, "changed": scheme.waste, "moved": scheme.odd}
    rules += [f".graph .{name} rect{{stroke:{color};stroke-width:3}}\n" for name, color in colors.items()]
    rules.append(f".graph .focus rect{{stroke:{scheme.alarm};stroke-width:3}}\n")
    return "".join(rules) + _SCHEME.format_map(scheme._asdict()).replace(".graph .box", ".graph rect.box")
