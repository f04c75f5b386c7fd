"""The page of `hlo graph`: it folds and places as Python does, and its acts do what they say."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import browser, opened
from hlo_cli.analysis.graphs.views import DataflowGraph, dataflow_graph, fold, neighborhood, nodes_between
from hlo_cli.commands.graph.options import GraphOptions
from hlo_cli.commands.graph.report import report_of_graph
from hlo_cli.commands.modules.loading import Loaded, load_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.render.formats.document import render_html
from hlo_cli.render.style import Style
from hlo_cli.render.web.colors import CHANGES, KINDS
from hlo_cli.render.web.graph_layout import LONG_EDGE, arrange, place
from hlo_cli.render.web.graph_picture import scene_of
from hlo_cli.render.web.page import script
from hlo_cli.report.graph import Graph
from hlo_cli.report.report import Report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(120)]

FIXTURES = Path(__file__).parent.parent / "fixtures"
DUMPS = ("tpu/v5p_scan", "tpu/v5e_offload", "gpu/h100_transformer", "cpu/softmax")
SCAN = "tpu/v5p_scan"
START = "\nstartGraph();\n"
TWO_CHANGES = """\
HloModule jit_f

fused {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}

ENTRY main {
  a = f32[8]{0} parameter(0)
  unused = f32[8]{0} parameter(1)
  c = f32[] constant(2)
  b = f32[8]{0} broadcast(c), dimensions={}
  f = f32[8]{0} fusion(a), kind=kLoop, calls=fused, control-predecessors={b}
  g = f32[8]{0} fusion(f), kind=kLoop, calls=fused
  ROOT r = f32[8]{0} add(g, b)
}
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def functions(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """An empty page that has the functions of the page as globals."""
    path = tmp_path_factory.mktemp("functions") / "functions.html"
    path.write_text("<!DOCTYPE html><title>functions</title>")
    with opened(chromium, path) as found:
        found.page.add_script_tag(content=bare(script("graph")).replace(START, "\n"))
        yield found.page
        assert found.messages == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def bare(code: str) -> str:
    """A script whose names are global."""
    return code.replace('"use strict";\n(() => {\n', "").removesuffix("})();\n")


@cache
def loaded(dump: str) -> Loaded:
    path = FIXTURES / dump
    if not dump.startswith(("tpu", "gpu", "cpu")):
        path = Path(dump)
    return load_one([str(path)], InputOptions())


@cache
def graph_of(dump: str) -> DataflowGraph:
    return dataflow_graph(loaded(dump).module)


@cache
def report_of(dump: str, options: GraphOptions) -> Report:
    return report_of_graph(loaded(dump), options, dump)


@cache
def written(dump: str, folder: Path, options: GraphOptions) -> Path:
    """The page, with the state and the functions of its script as globals, and without the policy that forbids that."""
    report = report_of(dump, options)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", "".join(render_html(report, Style())))
    code = bare(script("graph"))
    assert text.count(script("graph")) == code.count(START) == 1
    text = text.replace(
        script("graph"), code.replace(START, "\nvar app;\nstartGraph().then(made => { app = made; });\n")
    )
    path = folder / f"{dump.replace('/', '-')}-{abs(hash(options))}.html"
    path.write_text(text)
    return path


@pytest.fixture
def page(request: pytest.FixtureRequest, chromium: Browser, folder: Path) -> Iterator[Page]:
    """The page of SCAN, or of a dump given by the parameter; silent to the end."""
    dump = getattr(request, "param", SCAN)
    with opened(chromium, written(dump, folder, GraphOptions())) as found:
        yield found.page
        assert found.messages == []


def names(page: Page) -> list[str]:
    found: list[str] = page.evaluate("app.scene.nodes.map(node => app.model.name[node.row])")
    return found


def selected(page: Page) -> str | None:
    found: str | None = page.evaluate("app.state.selected === null ? null : app.model.name[app.state.selected]")
    return found


def settle(page: Page) -> None:
    """Waits for what is drawn once a frame."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def first(page: Page, opcode: str) -> str:
    found: str = page.evaluate(
        "opcode => app.model.name[app.scene.nodes.find(node => app.model.opcode[node.row] === opcode).row]", opcode
    )
    return found


def go_to(page: Page, name: str) -> None:
    page.evaluate("name => goTo(app, rowsNamed(app.model, name)[0])", name)
    page.focus("#canvas")
    settle(page)


def corner(page: Page, name: str) -> list[float]:
    """The upper left corner of a node on the screen."""
    found: list[float] = page.evaluate(
        """name => {
          const {view, scene} = app;
          const node = scene.at.get(rowsNamed(app.model, name)[0]);
          return [(node.x - node.width / 2) * view.scale + view.x, (node.y - node.height / 2) * view.scale + view.y];
        }""",
        name,
    )
    return found


def test_colors_are_those_of_pictures(functions: Page) -> None:
    assert functions.evaluate("KIND_COLORS") == {kind: list(paint) for kind, paint in KINDS.items()}
    assert functions.evaluate("Object.entries(CHANGES).map(([name, [sign]]) => [name, sign])") == [
        [name, sign] for name, (sign, _) in CHANGES.items()
    ]


@pytest.mark.parametrize("seed", range(6))
def test_layout_is_that_of_pictures(functions: Page, seed: int) -> None:
    """Random graphs of all kinds: the same coordinates to the last bit."""
    chance = random.Random(seed)
    count = chance.choice((0, 1, 30, 120, 400))
    edges = sorted(
        {
            (max(0, to - 1 - int(chance.random() ** 3 * chance.choice((3, 30, count)))), to)
            for to in range(1, count)
            for _ in range(chance.randrange(4))
        },
        key=lambda edge: (edge[1], edge[0]),
    )
    widths = [chance.choice((120.0, 133.65, 900.5)) for _ in range(count)]
    heights = [chance.choice((34.0, 34.0, 411.25)) for _ in range(count)]
    longest = chance.choice((LONG_EDGE, count))
    arrangement = arrange(count, edges, longest=longest)
    placed = place(arrangement, widths, heights)
    found = functions.evaluate(
        """([count, edges, widths, heights, longest]) => {
          const arrangement = arrange(count, edges, longest);
          const {x, y, bends, width, height} = place(arrangement, widths, heights);
          return {x, y, bends, width, height, long: Array.from(arrangement.isLong)};
        }""",
        [count, edges, widths, heights, longest],
    )
    assert found["x"] == list(placed.x)
    assert found["y"] == list(placed.y)
    assert found["bends"] == [[list(bend) for bend in bends] for bends in placed.bends]
    assert (found["width"], found["height"]) == (placed.width, placed.height)
    assert found["long"] == [int(each) for each in arrangement.is_long]


@pytest.mark.parametrize("dump", DUMPS)
def test_folds_as_pictures(chromium: Browser, folder: Path, dump: str) -> None:
    """Nodes and edges of every computation, with and without transfers; neighborhoods and paths."""
    graph = graph_of(dump)
    chance = random.Random(dump)
    with opened(chromium, written(dump, folder, GraphOptions())) as found:
        for transfers in (False, True):
            theirs: list[Any] = found.page.evaluate(
                """transfers => app.model.inside.map((_, computation) => {
                  const {nodes, edges} = fold(app.model, computation, {transfers, kept: new Set()});
                  return [nodes, edges.map(({from, to, bytes, kind}) => [from, to, bytes, kind])];
                })""",
                transfers,
            )
            ours = [fold(graph, at, transfers=transfers) for at in range(len(graph.computations))]
            for mine, (nodes, edges) in zip(ours, theirs, strict=True):
                assert nodes == list(mine.nodes)
                assert edges == [[each.source, each.target, each.bytes, each.kind] for each in mine.edges]
        folded = fold(graph, graph.computations.index(graph.module.entry))
        for center in chance.sample(folded.nodes, min(6, len(folded.nodes))):
            near = found.page.evaluate(
                "center => [...neighborhood(foldedOf(app.folder, app.state.computation, app.state), center, 2)]", center
            )
            assert set(near) == neighborhood(folded.edges, (center,), 2)
        for source, target in [chance.sample(folded.nodes, 2) for _ in range(6)]:
            between = found.page.evaluate(
                """([source, target]) => {
                  const nodes = nodesBetween(foldedOf(app.folder, app.state.computation, app.state), source, target);
                  return nodes && [...nodes];
                }""",
                [source, target],
            )
            expected = nodes_between(graph, source, target) or nodes_between(graph, target, source)
            assert set(between or ()) == set(expected) & set(folded.nodes)


@pytest.mark.parametrize("expand", [(), ("all",)], ids=["folded", "open"])
@pytest.mark.parametrize("dump", [SCAN, "gpu/h100_transformer"])
def test_scene_is_that_of_pictures(chromium: Browser, folder: Path, dump: str, expand: tuple[str, ...]) -> None:
    """Boxes of all nodes, clusters included, and whether their edges are stubs."""
    options = GraphOptions(expand=expand)
    part = next(part for part in report_of(dump, options).parts if isinstance(part, Graph))
    scene = scene_of(part.drawing)
    with opened(chromium, written(dump, folder, options)) as found:
        theirs = found.page.evaluate(
            "app.scene.nodes.map(({row, x, y, width, height, depth}) => [row, x, y, width, height, depth])"
        )
        routes = found.page.evaluate(
            "app.scene.edges.map(({from, to, points, isLong}) => [from.row, to.row, points, isLong])"
        )
    boxes = [[node.number, *box] for node, box in zip(part.drawing.nodes, scene.boxes, strict=True)]
    assert sorted(theirs) == sorted(boxes)
    numbers = [node.number for node in part.drawing.nodes]
    expected = [
        [numbers[edge.source], numbers[edge.target], [list(point) for point in route.points], route.is_long]
        for edge, route in zip(part.drawing.edges, scene.routes, strict=True)
    ]
    assert sorted(routes) == sorted(expected)


def test_control_and_unused_parameters(chromium: Browser, folder: Path) -> None:
    dump = folder / "control.hlo"
    dump.write_text(TWO_CHANGES)
    with opened(chromium, written(str(dump), folder, GraphOptions())) as found:
        assert names(found.page) == ["a", "b", "f", "g", "r"]
        edges = found.page.evaluate(
            "app.scene.edges.map(({from, to, kind}) => [app.model.name[from.row], app.model.name[to.row], kind])"
        )
        assert ["b", "f", "control"] in edges
        assert "dotted: control" in found.page.inner_text("#legend")


def test_enter_opens_in_place(page: Page) -> None:
    name = first(page, "while")
    go_to(page, name)
    before, count = corner(page, name), len(names(page))
    page.keyboard.press("Enter")
    settle(page)
    assert corner(page, name) == pytest.approx(before, abs=0.01)
    assert len(names(page)) > count
    assert "open=" in page.evaluate("location.hash")
    page.keyboard.press("Enter")
    assert len(names(page)) == count
    assert corner(page, name) == pytest.approx(before, abs=0.01)


def test_pointer_opens_at_the_mark_and_by_double_click(page: Page) -> None:
    name = first(page, "while")
    go_to(page, name)
    count = len(names(page))
    left, top = corner(page, name)
    box = page.locator("#canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + left + 9, box["y"] + top + 9)
    assert len(names(page)) > count
    assert corner(page, name) == pytest.approx([left, top], abs=0.01)
    page.mouse.dblclick(box["x"] + left + 60, box["y"] + top + 20)
    assert len(names(page)) == count


def test_neighborhood_and_back(page: Page) -> None:
    name = first(page, "while")
    go_to(page, name)
    whole, before = names(page), corner(page, name)
    page.keyboard.press("n")
    settle(page)
    near = names(page)
    assert name in near
    assert set(near) <= set(whole)
    page.keyboard.press("1")
    assert set(names(page)) < set(near)
    page.keyboard.press("n")
    settle(page)
    assert names(page) == whole
    assert corner(page, name) == pytest.approx(before, abs=0.01)


def test_paths_between_two_nodes(page: Page) -> None:
    """Shift-click on a second node."""
    edge = page.evaluate("app.scene.edges.map(({from, to}) => [from, to].map(node => app.model.name[node.row]))[0]")
    go_to(page, edge[0])
    page.evaluate("name => connectTo(app, rowsNamed(app.model, name)[0])", edge[1])
    assert set(edge) <= set(names(page))
    assert f"paths from {edge[0]} to {edge[1]}" in page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(byId('path').innerText))))"
    )
    page.focus("#canvas")
    page.keyboard.press("Escape")
    assert page.evaluate("isLimited(app)") is False


def test_arrows_end_at_neighbors(page: Page) -> None:
    go_to(page, first(page, "while"))
    for key, side in (("ArrowUp", "up"), ("ArrowDown", "down")):
        near = page.evaluate(
            """side => {
              const node = app.scene.at.get(app.state.selected);
              return node[side].map(edge => app.model.name[(side === "up" ? edge.from : edge.to).row]);
            }""",
            side,
        )
        assert near
        page.keyboard.press(key)
        assert selected(page) in near
    settle(page)
    assert selected(page) in (page.text_content("#details h2") or "")
    assert (page.text_content("#spoken") or "").startswith(f"{selected(page)}; ")


def test_search_opens_what_holds_the_hit(page: Page) -> None:
    """A folded instruction, and one that is seen through."""
    for condition in ("!isInEntry(app.model, row) && !app.model.is_hidden[row]", "app.model.is_hidden[row]"):
        name = page.evaluate(
            f"""() => {{
              const used = new Map();
              for (const name of app.model.name) used.set(name, (used.get(name) || 0) + 1);
              const isFit = row => used.get(app.model.name[row]) === 1 && app.model.name[row].length > 6 && {condition};
              for (let row = app.model.count - 1; row >= 0; row--) if (isFit(row)) return app.model.name[row];
            }}"""
        )
        assert name not in names(page)
        page.keyboard.press("/")
        page.keyboard.type(name)
        assert page.locator("#hits li[role=option]").first.inner_text().startswith(name[:20])
        page.keyboard.press("Enter")
        settle(page)
        assert selected(page) == name
        assert name in names(page)
        x, y = corner(page, name)
        box = page.locator("#canvas").bounding_box()
        assert box is not None
        assert 0 <= x <= box["width"]
        assert 0 <= y <= box["height"]


def test_link_restores(chromium: Browser, folder: Path, page: Page) -> None:
    name = first(page, "while")
    go_to(page, name)
    page.keyboard.press("Enter")
    page.click("[data-heat=bytes]")
    page.click("#neighborhood")
    settle(page)
    fragment = page.evaluate("location.hash")
    assert fragment == f"#select={name}&open={name}&heat=bytes&around={name}&depth=2"
    with opened(chromium, written(SCAN, folder, GraphOptions()), fragment=fragment) as again:
        assert names(again.page) == names(page)
        assert again.page.evaluate("app.state.heat") == "bytes"
        assert selected(again.page) == name
        assert again.page.get_attribute("[data-heat=bytes]", "aria-pressed") == "true"
    with opened(
        chromium, written(SCAN, folder, GraphOptions()), fragment="#select=no%ZZ&open=,&heat=x&depth=9"
    ) as other:
        assert other.messages == []
        assert selected(other.page) is None


def test_heat_has_numbers(page: Page) -> None:
    page.click("[data-heat=bytes]")
    settle(page)
    largest = page.evaluate("formatBytes(largestOf(app.model, app.scene, 'bytes'))")
    assert largest in page.inner_text("#legend")
    assert "square-root" in page.inner_text("#legend")
    heavy = page.evaluate("[...document.querySelectorAll('#details .heavy button')].map(each => each.textContent)")
    assert heavy
    assert set(heavy) <= {instruction.name for instruction in loaded(SCAN).module.entry.instructions}


def test_part_chosen_by_the_command(chromium: Browser, folder: Path) -> None:
    """--around, --where, and their nodes and edges are those of the picture."""
    name = next(each.name for each in loaded(SCAN).module.entry.instructions if each.opcode == "while")
    for options in (
        GraphOptions(around=name, depth=1),
        GraphOptions(where="opcode == 'fusion'"),
        GraphOptions(transfers=True),
    ):
        drawing = next(part for part in report_of(SCAN, options).parts if isinstance(part, Graph)).drawing
        with opened(chromium, written(SCAN, folder, options)) as found:
            assert sorted(names(found.page)) == sorted(node.name for node in drawing.nodes), options
            assert found.page.evaluate("app.scene.edges.length") == len(drawing.edges), options


def test_window_without_room(chromium: Browser, folder: Path) -> None:
    """A canvas of no size draws nothing, and the page comes back when there is room."""
    with opened(chromium, written(SCAN, folder, GraphOptions()), width=120, height=60) as found:
        found.page.set_viewport_size({"width": 1280, "height": 800})
        settle(found.page)
        assert found.page.evaluate("app.canvas.width > 0 && app.canvas.height > 0")
        assert found.messages == []


def test_changes_of_two_dumps(functions: Page) -> None:
    """Names get signs, and colors those of changes."""
    model = {"name": ["a", "b"], "change": ["added", ""]}
    assert functions.evaluate("model => [0, 1].map(row => firstLine(model, row))", model) == ["+ a", "b"]
    assert functions.evaluate("Object.keys(CHANGES)") == ["added", "removed", "changed", "moved"]


def test_command_is_one_that_can_be_pasted(functions: Page) -> None:
    """Names from a dump are words of the shell, whatever is in them."""
    for name in ("fusion.2", "a b", "$(reboot)", "it's; ls", "`x`"):
        model = {"dump": "a dump/x.txt", "name": [name]}
        found = functions.evaluate("model => commandFor({model}, 0)", model)
        assert shlex.split(found) == ["hlo", "graph", "a dump/x.txt", "--around", name]


@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_nothing_covers_nodes(width: int, chromium: Browser, folder: Path) -> None:
    """Title, buttons, legend, and map are beside the picture, wherever it is moved; each is whole in the window."""
    with opened(chromium, written(SCAN, folder, GraphOptions()), width=width, height=900) as found:
        boxes = found.page.evaluate(
            "['#canvas', '#path', '.zoom', '#legend', '#minimap'].map(each => "
            "(({left, top, right, bottom}) => [left, top, right, bottom])(document.querySelector(each).getBoundingClientRect()))"
        )
        (left, top, right, bottom), *others = boxes
        assert right - left > width / 2
        assert bottom - top > 400
        for x, y, x_end, y_end in others:
            assert x_end <= left or x >= right or y_end <= top or y >= bottom
            assert 0 <= x < x_end <= width
            assert 0 <= y < y_end <= 900


def test_the_panel_takes_the_room_of_a_map_that_is_away(chromium: Browser, folder: Path) -> None:
    """While all of the graph is seen there is no map, and the panel reaches down to the end of the picture."""
    bottoms = (
        "['.side', '#details', '#minimap'].map(each => document.querySelector(each).getBoundingClientRect().bottom)"
    )
    visible = "getComputedStyle(document.querySelector('#minimap')).visibility"
    with opened(chromium, written("cpu/softmax", folder, GraphOptions()), width=1280, height=700) as found:
        page = found.page
        page.locator(".zoom button").last.click()
        page.wait_for_function(f"{visible} === 'hidden'")
        side, details, _ = page.evaluate(bottoms)
        assert details == side
        for _ in range(12):
            page.locator(".zoom button").first.click()
        page.wait_for_function(f"{visible} === 'visible'")
        side, details, minimap = page.evaluate(bottoms)
        assert details < minimap == side
