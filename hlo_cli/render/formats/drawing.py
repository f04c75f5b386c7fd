"""What of a report is drawn: one picture of all charts, or a graph for Graphviz or as a list with rails?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.render.draw.prose import fill, painter, text_lines
from hlo_cli.render.draw.rails import rail_lines
from hlo_cli.render.style import Style, sanitize
from hlo_cli.render.web.charts import document, drawing, gantt, span_column
from hlo_cli.render.web.colors import CHANGES, Paint, amount, line_width, most_heat, paints_of, picture_css
from hlo_cli.render.web.graph_picture import graph_picture
from hlo_cli.render.web.html_parts import grid_elements, is_grid
from hlo_cli.render.web.markup import encoded, safe, short, spans
from hlo_cli.render.web.page import subject_of
from hlo_cli.render.width import shorten_name, shorten_shape, shorten_text
from hlo_cli.report.figure import Figure
from hlo_cli.report.graph import Drawing, EdgeKind, Graph, GraphEdge, GraphNode
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.report.text import Run, plain_text
from hlo_cli.report.timeline import Timeline
from hlo_cli.source import HloError

# --- SVG ---
# All drawings of a report as one picture, without scripts, with a light and a dark color scheme.


MARGIN: Final = 20  # px
TITLE_LINE: Final = 26  # px: the type of titles and its leading
HEADING_CELLS: Final = 60  # title and details of a dump in one line of the picture
ANSWER_CELLS: Final = 110  # characters of 14 px type that fit the width of the charts
ANSWER_LINE: Final = 21  # px: 14 px type and its leading
FIGURE_ROOM: Final = 120  # characters of code type that fit the width of the charts
FIGURE_LINE: Final = 17  # px: code type and its leading


def render_svg(report: Report, style: Style) -> Iterator[str]:
    """The answer, and below it every timeline, figure, and table with spans.

    >>> from hlo_cli.report.timeline import Track
    >>> report = Report("memspace", "It fits", parts=(Timeline("memory", (Track("HBM", (5, 8)),)),))
    >>> "".join(render_svg(report, Style()))[:47]
    '<svg xmlns="http://www.w3.org/2000/svg" class="'
    >>> list(render_svg(Report("diff", "No difference"), Style()))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: no figure to draw for diff
      help: use --format html, md, or json
    """
    if (graph := next((part for part in report.parts if isinstance(part, Graph)), None)) is not None:
        for chunk in graph_picture(graph, report.answer):
            yield encoded(chunk, ascii=style.ascii)
        return
    drawn = [part for part in report.parts if _is_drawn(part)]
    if not drawn:
        raise HloError(f"no figure to draw for {report.command}", hint="use --format html, md, or json")
    elements, top = _heading(report)
    for at, part in enumerate(drawn):
        more, top = _drawn(part, style, top, f"p{at}t")
        elements += more
    title = subject_of(report).title
    named = f"{title}: {report.answer}" if title and report.answer else title or report.answer
    for each in document(elements, top, style=f"<style>{picture_css()}</style>", title=named):
        yield encoded(each, ascii=style.ascii)


def _heading(report: Report) -> tuple[list[str], float]:
    """The module and its chip, the dump, and the answer; and the lower edge."""
    subject = subject_of(report)
    elements = []
    top: float = MARGIN / 2
    if subject.title:
        top += TITLE_LINE
        title, details = (shorten_name(text, HEADING_CELLS) for text in subject)
        words = f'<tspan class="title">{safe(title)}</tspan> <tspan class="quiet" dx="8">{safe(details)}</tspan>'
        elements.append(f'<text x="{MARGIN}" y="{short(top - 6)}">{words}</text>')
    for line in fill((Run(report.answer),), ANSWER_CELLS):
        top += ANSWER_LINE
        elements.append(f'<text class="head" x="{MARGIN}" y="{short(top - 6)}">{safe(plain_text(line))}</text>')
    return elements, top + FIGURE_LINE if report.answer or elements else top


def _is_drawn(part: Part) -> bool:
    return isinstance(part, Timeline | Figure) or (isinstance(part, Table) and span_column(part) is not None)


def _drawn(part: Part, style: Style, top: float, key: str) -> tuple[list[str], float]:
    match part:
        case Timeline():
            return drawing(part, top, key=key)
        case Table():
            return gantt(part, style, top)
        case Figure():
            return _figure(part, top)
        case _:
            return [], top


def _figure(figure: Figure, top: float) -> tuple[list[str], float]:
    elements = []
    if figure.title:
        top += ANSWER_LINE
        elements.append(f'<text class="head" x="{MARGIN}" y="{short(top - 6)}">{safe(figure.title)}</text>')
    drawn = figure.draw(FIGURE_ROOM)
    if is_grid(drawn):
        cells, _, bottom = grid_elements(drawn, MARGIN, top)
        return [*elements, *cells], bottom + MARGIN
    for line in drawn:
        top += FIGURE_LINE
        text = spans(line, "tspan")
        elements.append(f'<text class="code" xml:space="preserve" x="{MARGIN}" y="{short(top)}">{text}</text>')
    return elements, top + MARGIN


# --- DOT ---
# A graph in the language of Graphviz, with XLA's colors.
#
# Mirrors `HloDotDumper` of xla/service/hlo_graph_dumper.cc.


_NAME_ROOM: Final = 48  # Graphviz makes a node as wide as its text; long names tear a graph apart
_SHAPE_ROOM: Final = 64  # a shape with its layout and tiles; a tuple is cut
_TIP_ROOM: Final = 400  # a tip is a small window of the browser without line breaks
_MOST_LABELED: Final = 300
"""Edges have labels in graphs of at most this number of them: Graphviz gives each label a place of its own."""
_HEAD: Final = """\
rankdir=TB;
compound=true;
labelloc=t;
fontname="Helvetica,Arial,sans-serif";
node [shape=box, style=filled, margin="0.1,0.05", fontsize=11, fontname="Helvetica,Arial,sans-serif"];
edge [arrowsize=0.6, color="#59636e", fontsize=9, fontname="Helvetica,Arial,sans-serif"];
"""
_EDGES: Final[Mapping[EdgeKind, str]] = {
    "data": "",
    "transfer": 'style=dashed, color="#0a6a75"',
    "control": 'style=dashed, color="#9e9e9e", arrowhead=empty',
    "indirect": "style=dotted, arrowhead=vee",
}
"""Control dependencies have an empty arrowhead, which tells them from transfers without color."""
_TAB: Final = "  "


def render_dot(report: Report, style: Style) -> Iterator[str]:
    r"""The graph of a report; HloError for a report without one.

    >>> from hlo_cli.render.web.colors import KINDS
    >>> node = GraphNode(0, "p\"", "parameter", "small parameter", "f32[8]", "f32[8]{0}", 32)
    >>> print(_node_line(node, KINDS[node.kind], ""), end="")
    n0 [label="p\"\nparameter  f32[8]{0}", fillcolor="#ffe0b2", color="#cbae82", tooltip="p\"\nf32[8]{0}\n32 B"];
    """
    graph = next((part for part in report.parts if isinstance(part, Graph)), None)
    if graph is None:
        raise HloError(f"no graph to draw for {report.command}")
    for chunk in _lines(graph, report.answer):
        yield chunk.encode("ascii", "xmlcharrefreplace").decode() if style.ascii else chunk


def _lines(graph: Graph, answer: str) -> Iterator[str]:
    drawing = graph.drawing
    words = [graph.title, answer]
    if drawing.heat:
        words.append(f"color: {drawing.heat}, up to {amount(drawing.heat, most_heat(drawing))}")
    yield f"digraph {_quoted(graph.title)} {{\n"
    yield f"label={_text(words)};\n{_HEAD}"
    children: dict[int, list[int]] = {}
    for at, node in enumerate(drawing.nodes):
        if node.parent is not None:
            children.setdefault(node.parent, []).append(at)
    ends = _ends(drawing, children)
    paints = paints_of(drawing)
    waiting: list[tuple[int | str, str]] = [(at, "") for at in reversed(drawing.roots)]
    while waiting:
        each, indent = waiting.pop()
        if isinstance(each, str):
            yield each
        elif drawing.nodes[each].clusters:
            waiting += reversed(list(_cluster(drawing, each, children.get(each, ()), paints[each], indent)))
        else:
            yield _node_line(drawing.nodes[each], paints[each], indent)
    is_labeled = len(drawing.edges) <= _MOST_LABELED
    for edge in drawing.edges:
        yield _edge(drawing, edge, ends, is_labeled=is_labeled)
    yield "}\n"


def _cluster(
    drawing: Drawing, at: int, inside: Sequence[int], paint: Paint, indent: str
) -> Iterator[tuple[int | str, str]]:
    """The lines around the nodes of a cluster, and these nodes; one box for each computation if there are several."""
    node = drawing.nodes[at]
    yield f"{indent}subgraph cluster_{node.number} {{\n", indent
    yield (
        (
            f'{indent + _TAB}label={_text(_label_lines(node))}; style="rounded,filled"; fillcolor="#f5f7f9";'
            f' color="{paint.line}"; penwidth=1.5;\n'
        ),
        indent,
    )
    if not inside:  # an edge needs an end
        yield f'{indent + _TAB}n{node.number} [label="", shape=point];\n', indent
    for part, name in enumerate(node.clusters):
        nodes = [(each, indent + _TAB * 2) for each in inside if drawing.nodes[each].part == part]
        if len(node.clusters) == 1 or not nodes:
            yield from nodes
            continue
        yield f"{indent + _TAB}subgraph cluster_{node.number}_{part} {{ label={_text([name])}; style=dashed;\n", indent
        yield from nodes
        yield f"{indent + _TAB}}}\n", indent
    yield f"{indent}}}\n", indent


def _node_line(node: GraphNode, paint: Paint, indent: str) -> str:
    tip = node.name, node.shape, format_bytes(node.bytes)
    attributes = [
        f"label={_text(_label_lines(node))}",
        f'fillcolor="{paint.fill}"',
        f'color="{CHANGES[node.change][1] if node.change else paint.line}"',
        f"tooltip={_text([shorten_text(each, _TIP_ROOM) for each in tip])}",
    ]
    if paint.ink != "#000000":
        attributes.append(f'fontcolor="{paint.ink}"')
    if node.is_loop:
        attributes.append("shape=ellipse")
    elif node.is_expandable:
        attributes.append("peripheries=2")
    if node.change == "removed":
        attributes.append('style="filled,dashed"')
    if node.is_focus or node.change:
        attributes.append("penwidth=3")
    return f"{indent}n{node.number} [{', '.join(attributes)}];\n"


def _label_lines(node: GraphNode) -> list[str]:
    """The name with the sign of its change; below it the operation, small constants, and the shape.

    >>> _label_lines(GraphNode(0, "add.1", "add", "scalar", "f32[]", "f32[]", 4, literals=("2",), change="added"))
    ['+ add.1', 'add  2  f32[]']
    """
    sign = f"{CHANGES[node.change][0]} " if node.change else ""
    words = (node.operation, ", ".join(node.literals), shorten_shape(node.shape, _SHAPE_ROOM))
    return [sign + shorten_name(node.name, _NAME_ROOM), "  ".join(word for word in words if word)]


def _ends(drawing: Drawing, children: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """The nodes at which edges into and out of each node end: within a cluster, its first and last."""
    found = [(at, at) for at in range(len(drawing.nodes))]
    for at in reversed(range(len(drawing.nodes))):
        if inside := children.get(at):
            found[at] = found[inside[0]][0], found[inside[-1]][1]
    return found


def _edge(drawing: Drawing, edge: GraphEdge, ends: Sequence[tuple[int, int]], *, is_labeled: bool) -> str:
    source, target = drawing.nodes[edge.source], drawing.nodes[edge.target]
    first = drawing.nodes[ends[edge.source][1]].number
    last = drawing.nodes[ends[edge.target][0]].number
    attributes = [f"penwidth={line_width(edge.bytes)}", _EDGES[edge.kind]]
    if source.clusters:
        attributes.append(f"ltail=cluster_{source.number}")
    if target.clusters:
        attributes.append(f"lhead=cluster_{target.number}")
    if edge.bytes:
        size = _quoted(format_bytes(edge.bytes))
        attributes.append(f"label={size}" if is_labeled else f"tooltip={size}")
    return f"n{first} -> n{last} [{', '.join(each for each in attributes if each)}];\n"


def _text(lines: Sequence[str]) -> str:
    r"""Lines as a quoted text, with the line breaks of DOT.

    >>> print(_text(["a\\b", 'c"']))
    "a\\b\nc\""
    """
    return '"' + r"\n".join(map(_escaped, lines)) + '"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return sanitize(text).replace("\\", "\\\\").replace('"', '\\"')


# --- the list with rails ---
# A part of a graph for terminals and text files: the answer, and the nodes with rails to the left of them.


def render_tree(report: Report, style: Style) -> Iterator[str]:
    r"""The lines of the graph; HloError for a report without one.

    >>> from hlo_cli.report.table import Column
    >>> from hlo_cli.report.graph import Drawing
    >>> from hlo_cli.report.table import Table
    >>> table = Table("nodes", (Column("name", "name"),), ())
    >>> graph = Graph("graph", "jit_f", "", table, table, ("main",), Drawing((), ()), is_limited=True)
    >>> list(render_tree(Report("graph", "0 nodes and 0 edges", parts=(graph,)), Style()))
    ['0 nodes and 0 edges\n', '\n']
    """
    graph = next((part for part in report.parts if isinstance(part, Graph)), None)
    if graph is None:
        raise HloError(f"no graph to draw for {report.command}")
    paint = painter(color=style.color)
    for line in text_lines(report.answer, style, "strong"):
        yield paint(line) + "\n"
    yield "\n"
    for line in rail_lines(graph.drawing, style):
        yield paint(line).rstrip() + "\n"
