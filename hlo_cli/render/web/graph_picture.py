"""The drawing of a graph as a picture: SVG without scripts, in a light and a dark color scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.truncate import shorten_text
from hlo_cli.render.web.colors import DARK, LIGHT, Scheme
from hlo_cli.render.web.graph_colors import (
    CHANGES,
    KINDS,
    Paint,
    amount,
    dark_heat_paint,
    dark_paint,
    heat_paint,
    line_width,
    most_heat,
    share,
)
from hlo_cli.render.web.markup import safe, safe_lines, short
from hlo_cli.render.web.node_text import CHARACTER, first_line, second_line
from hlo_cli.render.web.scene import Box, Route, Scene, scene_of
from hlo_cli.report.graph import Drawing, Graph, GraphEdge, GraphNode
from hlo_cli.report.numbers import format_bytes

MARGIN: Final = 20.0
HEAD: Final = 44.0
LEGEND_ROW: Final = 22.0
LEAST_WIDTH: Final = 480.0
STEPS: Final = 16
"""The number of colors on the scale of numbers."""
_STUB: Final = 9.0
_TEXT: Final = 8.0
_TIP_ROOM: Final = 300

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

    >>> from hlo_cli.report.column import Column
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
    height = HEAD + MARGIN + scene.height + MARGIN + LEGEND_ROW * len(rows) + MARGIN
    size = f'viewBox="0 0 {short(width)} {short(height)}" width="{short(width)}" height="{short(height)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" {size} role="img">\n'
    yield f"<title>{safe(graph.title)}: {safe(answer)}</title>\n<style>{_style(drawing)}</style>\n"
    yield f'<rect class="paper" width="{short(width)}" height="{short(height)}"/>\n'
    yield f'<text class="head" x="{short(MARGIN)}" y="26">{safe(answer)}</text>\n'
    yield f'<text class="quiet" x="{short(MARGIN)}" y="44">{safe(graph.title)} · {safe(graph.details)}</text>\n'
    left = MARGIN + max(0.0, (width - 2 * MARGIN - scene.width) / 2)
    yield f'<g transform="translate({short(left)} {short(HEAD + MARGIN)})">\n'
    yield from _drawn(drawing, scene)
    yield "</g>\n"
    top = HEAD + 2 * MARGIN + scene.height
    for at, row in enumerate(rows):
        yield (
            "".join(
                f'<g transform="translate({short(MARGIN + x)} {short(top + at * LEGEND_ROW)})">{each}</g>'
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
    return [f"h{round(share(node.heat, most) * (STEPS - 1))}" for node in drawing.nodes]


def _node(node: GraphNode, box: Box, look: str) -> str:
    classes = " ".join((look, *(["focus"] if node.is_focus else []), *([node.change] if node.change else [])))
    mark = "▸ " if node.is_expandable else ""
    x = short(box.left + _TEXT)
    return (
        f'<g class="{classes}"><title>{_tip(node)}</title>'
        f'<rect x="{short(box.left)}" y="{short(box.top)}" width="{short(box.width)}" height="{short(box.height)}"'
        f' rx="{5 if node.is_expandable else 1.5}"/>'
        f'<text class="code name" x="{x}" y="{short(box.top + 14)}">{mark}{safe(first_line(node))}</text>'
        f'<text class="code" x="{x}" y="{short(box.top + 27)}">{safe(second_line(node))}</text></g>\n'
    )


def _box(node: GraphNode, box: Box, look: str) -> str:
    x = short(box.left + _TEXT)
    return (
        f'<g class="{look}"><title>{_tip(node)}</title>'
        f'<rect class="box" x="{short(box.left)}" y="{short(box.top)}" width="{short(box.width)}"'
        f' height="{short(box.height)}" rx="6"/></g>'
        f'<text class="code name" x="{x}" y="{short(box.top + 15)}">▾ {safe(first_line(node))}</text>'
        f'<text class="code quiet" x="{x}" y="{short(box.top + 28)}">{safe(second_line(node))}</text>\n'
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
        colors = "".join(f'<g class="h{at}"><rect x="{at * 6}" width="6" height="12"/></g>' for at in range(STEPS))
        yield _entry(colors, STEPS * 6, words)
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
        places = [at / (STEPS - 1) for at in range(STEPS)]
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
