"""Graphs: folded ones keep every dependency and make up none, and their drawings are what the tables say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from dumps import FIXTURES, Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.graphs.marked_changes import compared_graph
from hlo_cli.analysis.graphs.views import (
    MOST_USERS,
    DataflowGraph,
    Edge,
    View,
    between,
    dataflow_graph,
    fold,
    fold_among,
    kind_of_opcode,
    kinds_of,
    matching,
    neighborhood,
    whole,
)
from hlo_cli.analysis.matching.module_diff import diff
from hlo_cli.cli import main
from hlo_cli.ir.operations import OPERATIONS
from hlo_cli.render.draw.rails import rail_lines, rails
from hlo_cli.render.formats import drawing as dot
from hlo_cli.render.style import Style
from hlo_cli.render.web.colors import KINDS
from hlo_cli.render.web.graph_layout import LONG_EDGE, arrange, place
from hlo_cli.render.web.graph_picture import Box, graph_picture, scene_of
from hlo_cli.report.graph import Drawing, EdgeKind, Graph, GraphEdge, GraphNode
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.report.text import plain_text
from random_programs import Program

DUMPS = compiled_dumps()
CONV = str(FIXTURES / "tpu/v5e_conv")
SCAN = str(FIXTURES / "tpu/v5p_scan")
EDGE_KINDS: tuple[EdgeKind, ...] = ("data", "transfer", "control", "indirect")
HOSTILE = ('a"b', "back\\", "line\nbreak", "</script><b>&amp;", "{x|y}", "\x1b[31m", "\u202eright", "層" * 40, "%d", "")
Capture = pytest.CaptureFixture[str]


@cache
def graph_of(dump: Dump) -> DataflowGraph:
    """The graph of a dump."""
    return dataflow_graph(parse_module(dump.text))


def random_graph(seed: int) -> DataflowGraph:
    """The graph of a random program."""
    return dataflow_graph(parse_module(Program(Random(seed)).text()))


def ancestors(nodes: Iterable[int], before: Callable[[int], Iterable[int]]) -> dict[int, set[int]]:
    """All nodes that each one depends on."""
    found: dict[int, set[int]] = {}
    for node in nodes:
        found[node] = {each for near in before(node) for each in (near, *found[near])}
    return found


def assert_same_reach(graph: DataflowGraph, computation: int, nodes: Collection[int], edges: Iterable[Edge]) -> None:
    """The nodes depend on each other exactly as in the module."""
    near: dict[int, list[int]] = {}
    for edge in edges:
        near.setdefault(edge.target, []).append(edge.source)
    drawn = ancestors(sorted(nodes), lambda node: near.get(node, ()))
    real = ancestors(graph.members[computation], graph.predecessors)
    shown = set(nodes)
    assert {node: real[node] & shown for node in nodes} == drawn


# What is seen through


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_folding_keeps_dependencies(dump: Dump) -> None:
    graph = graph_of(dump)
    for computation in range(len(graph.computations)):
        for transfers in (False, True):
            folded = fold(graph, computation, transfers=transfers)
            assert_same_reach(graph, computation, folded.nodes, folded.edges)


@pytest.mark.parametrize("seed", range(40))
def test_folding_keeps_dependencies_of_random_programs(seed: int) -> None:
    graph, random = random_graph(seed), Random(seed)
    for computation, members in enumerate(graph.members):
        kept = frozenset(random.sample(list(members), min(2, len(members))))
        folded = fold(graph, computation, kept=kept)
        assert kept <= set(folded.nodes)
        assert_same_reach(graph, computation, folded.nodes, folded.edges)
        shown = frozenset(random.sample(list(members), min(5, len(members))))
        among = fold_among(graph, computation, shown)
        assert set(among.nodes) == shown
        assert_same_reach(graph, computation, shown, among.edges)


def test_what_is_hidden() -> None:
    graph = graph_of(next(dump for dump in DUMPS if str(dump) == "tpu/7x_transformer"))
    shown = set(whole(graph, graph.computations.index(graph.module.entry)).nodes)
    for node in shown:
        instruction = graph.instructions[node]
        if not instruction.is_root:
            assert instruction.opcode not in ("constant", "get-tuple-element", "bitcast", "tuple", "copy-start")
    hidden = {graph.instructions[node].opcode for node in graph.hidden}
    assert {"constant", "get-tuple-element", "bitcast"} <= hidden


def test_async_updates_are_as_their_start() -> None:
    state = "((f32[8]), f32[8]{0:S(1)}, u32[])"
    text = f"""HloModule m  w {{ a = f32[8] parameter(0)  ROOT c = f32[8]{{0:S(1)}} copy(a) }}
    ENTRY e {{ p = f32[8] parameter(0)  s = {state} async-start(p), calls=w
      u = {state} async-update(s)  v = {state} async-update(u)
      d = f32[8]{{0:S(1)}} async-done(v)  ROOT r = f32[8] negate(d) }}"""
    graph = dataflow_graph(parse_module(text))
    named = {instruction.name: node for node, instruction in enumerate(graph.instructions)}
    assert graph.transfers == {named[name] for name in "suvd"}
    kinds = kinds_of(graph.computations)
    assert {kinds[graph.instructions[named[name]]] for name in "suvd"} == {"data movement"}


def test_bytes_are_those_that_pass() -> None:
    """An element of a tuple passes its own bytes, not those of the tuple; two elements add up."""
    text = """HloModule m  ENTRY e {
        p = f32[100] parameter(0)
        w = (f32[100], f32[10], f32[7]) custom-call(p), custom_call_target="f"
        a = f32[10] get-tuple-element(w), index=1
        b = f32[7] get-tuple-element(w), index=2
        ROOT r = f32[17] concatenate(a, b), dimensions={0} }"""
    graph = dataflow_graph(parse_module(text))
    assert [(edge.source, edge.target, edge.bytes) for edge in fold(graph, 0).edges] == [(0, 1, 400), (1, 4, 40 + 28)]


def test_edges_stay_linear() -> None:
    """A tuple of many values with many users stays a node, so that edges are no more than operands."""
    many = 200
    lines = [f"p{n} = f32[8] parameter({n})" for n in range(many)]
    shape = ", ".join(["f32[8]"] * many)
    lines.append(f"t = ({shape}) tuple({', '.join(f'p{n}' for n in range(many))})")
    lines += [f"g{n} = f32[8] get-tuple-element(t), index={n}" for n in range(many)]
    lines += [f"n{n} = f32[8] negate(g{n})" for n in range(many)]
    lines.append(f"ROOT r = ({shape}) tuple({', '.join(f'n{n}' for n in range(many))})")
    graph = dataflow_graph(parse_module("HloModule m  ENTRY e {\n" + "\n".join(lines) + "\n}"))
    folded = fold(graph, 0)
    assert len(folded.edges) == 3 * many
    assert_same_reach(graph, 0, folded.nodes, folded.edges)


def test_control_dependencies_pass_what_is_hidden() -> None:
    text = """HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8] negate(p)
        b = f32[8] bitcast(p), control-predecessors={a}
        ROOT r = f32[8] sine(b) }"""
    graph = dataflow_graph(parse_module(text))
    assert [(edge.source, edge.target, edge.bytes, edge.kind) for edge in fold(graph, 0).edges] == [
        (0, 1, 32, "data"),
        (0, 3, 32, "data"),
        (1, 3, 0, "control"),
    ]


# Kinds


@pytest.mark.parametrize(
    ("kind", "opcodes"),
    [  # `HloDotDumper::GetInstructionColor` of xla/service/hlo_graph_dumper.cc, by color
        ("elementwise", "abs add and atan2 clamp compare convert divide iota is-finite power rng-bit-generator select"),
        ("slicing or sorting", "slice sort"),
        ("free", "bitcast get-tuple-element after-all add-dependency tuple opt-barrier"),
        ("data movement", "broadcast concatenate dynamic-slice gather pad reshape reverse transpose"),
        ("data movement", "dynamic-update-slice copy copy-start copy-done dynamic-reshape"),
        ("matmul", "convolution dot fft triangular-solve cholesky"),
        ("precision", "reduce-precision"),
        ("reduction", "batch-norm-grad reduce reduce-window scatter select-and-scatter"),
        ("other", "domain map get-dimension-size set-dimension-size"),
        ("collective", "all-gather all-reduce-start all-to-all collective-permute-done infeed recv-done send"),
        ("collective", "partition-id replica-id reduce-scatter outfeed"),
        ("control flow", "call conditional while"),
        ("custom call", "custom-call"),
        ("fusion", "fusion"),
    ],
)
def test_kinds_are_the_colors_of_xla(kind: str, opcodes: str) -> None:
    assert {kind_of_opcode(opcode) for opcode in opcodes.split()} == {kind}


def test_every_kind_has_a_color() -> None:
    assert {kind_of_opcode(opcode) for opcode in OPERATIONS} <= KINDS.keys()
    for dump in DUMPS:
        assert set(kinds_of(graph_of(dump).computations).values()) <= KINDS.keys()


# Parts of graphs


def paths_between(graph: DataflowGraph, source: int, target: int) -> set[int]:
    """The nodes of all paths, by brute force."""
    real = ancestors(graph.members[graph.computation[source]], graph.predecessors)
    if target != source and source not in real[target]:
        return set()
    inner = {node for node, before in real.items() if source in before and node in real[target]}
    return inner | {source, target}


@pytest.mark.parametrize("seed", range(25))
def test_between_is_every_path(seed: int) -> None:
    graph, random = random_graph(seed), Random(seed)
    for members in graph.members:
        pairs = list(combinations(members, 2))
        for pair in random.sample(pairs, min(20, len(pairs))):
            for source, target in (pair, pair[::-1]):
                view, wanted = between(graph, source, target), paths_between(graph, source, target)
                shown = {
                    node for node in wanted if node in (source, target) or node not in graph.hidden | graph.transfers
                }
                assert (set() if view is None else set(view.nodes)) == shown


def test_between_enters_loops(capsys: Capture) -> None:
    graph = dataflow_graph(parse_module(Path(next(d.path for d in DUMPS if str(d) == "tpu/v5p_scan")).read_text()))
    callers = {called: node for node, each in graph.calls.items() for called in each}
    loop = next(node for node, i in enumerate(graph.instructions) if i.opcode == "while")
    body = graph.calls[loop][0]
    assert callers[body] == loop
    parameter = next(iter(graph.predecessors(loop)))
    last = next(node for node in reversed(graph.members[body]) if graph.instructions[node].opcode == "fusion")
    view = between(graph, parameter, last)
    assert view is not None
    assert view.opened == {loop: (body,)}
    assert {parameter, loop, last} <= set(view.nodes)


@pytest.mark.parametrize("seed", range(20))
def test_neighborhoods_by_brute_force(seed: int) -> None:
    random = Random(seed)
    pairs = (sorted(random.sample(range(30), 2)) for _ in range(35))
    edges = [Edge(source, target, 8, "data") for source, target in pairs]
    near: dict[int, set[int]] = {}
    for edge in edges:
        near.setdefault(edge.source, set()).add(edge.target)
        near.setdefault(edge.target, set()).add(edge.source)
    found = {5}
    for depth in range(4):
        assert neighborhood(edges, [5], depth) == found
        found = found | {each for node in found for each in near.get(node, ())}


def test_users_of_hubs_are_not_followed() -> None:
    edges = [Edge(0, n, 8, "data") for n in range(1, MOST_USERS + 3)]
    assert neighborhood(edges, [1], 2) == {0, 1}
    assert len(neighborhood(edges, [0], 1)) == MOST_USERS + 3


def test_matches_stand_in_their_callers() -> None:
    graph = graph_of(next(dump for dump in DUMPS if str(dump) == "tpu/v5p_scan"))
    entry = graph.computations.index(graph.module.entry)
    dots = [n for n, i in enumerate(graph.instructions) if i.opcode in ("dot", "convolution")]
    view = matching(graph, entry, dots)
    assert set(view.focus) == set(dots) & set(view.nodes)
    assert view.focus
    for opened, inner in view.opened.items():
        assert set(inner) <= set(graph.calls[opened])
    assert set(view.nodes) == set(view.focus) | set(view.opened)


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_expanding_shows_each_computation_once(dump: Dump) -> None:
    graph = graph_of(dump)
    view: View = whole(graph, graph.computations.index(graph.module.entry), opened=None)
    shown = [called for each in view.opened.values() for called in each]
    assert len(shown) == len(set(shown)) == len(view.folded) - 1
    assert len(view.nodes) == len(set(view.nodes))


# Two modules


def test_changes_of_two_modules() -> None:
    text = """HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[8] negate(p)  b = f32[8] sine(a)
        ROOT r = f32[8] cosine(b) }"""
    new = text.replace("b = f32[8] sine(a)", "").replace("cosine(b)", "cosine(a)")
    graph = compared_graph(diff(parse_module(text), parse_module(new)))
    names = [graph.instructions[node].name for node in graph.members[0]]
    assert names == ["p", "a", "b", "r"]
    assert {names[node]: change for node, change in graph.changes.items()} == {"b": "removed"}
    assert graph.operands == ((), (0,), (1,), (1, 2))
    back = compared_graph(diff(parse_module(new), parse_module(text)))
    assert {back.instructions[node].name: change for node, change in back.changes.items()} == {"b": "added"}


@pytest.mark.parametrize("seed", range(15))
def test_removed_instructions_follow_their_operands(seed: int) -> None:
    old, new = (parse_module(Program(Random(each)).text()) for each in (seed, seed + 1000))
    graph = compared_graph(diff(old, new))
    assert sum(len(members) for members in graph.members) == len(graph.instructions)
    for node, operands in enumerate(graph.operands):
        assert all(operand < node for operand in operands)
        assert {graph.computation[operand] for operand in operands} <= {graph.computation[node]}
    kept = [i for n, i in enumerate(graph.instructions) if graph.changes.get(n) != "removed"]
    assert sorted(kept, key=id) == sorted(new.instructions, key=id)


# Drawings


def overlap(one: Box, two: Box) -> bool:
    """Whether two boxes have a point in common."""
    wide = abs(one.x - two.x) * 2 < one.width + two.width - 0.01
    return wide and abs(one.y - two.y) * 2 < one.height + two.height - 0.01


def random_drawing(random: Random, count: int) -> Drawing:
    """Nodes of any width, some of them in boxes, with edges between neighbors."""
    nodes: list[GraphNode] = []
    for at in range(count):
        outer = [n for n, node in enumerate(nodes) if node.clusters]
        parent = random.choice([None, None, *outer])
        part = random.randrange(len(nodes[parent].clusters)) if parent is not None else 0
        clusters = ("body", "condition")[: random.choice((0, 0, 0, 1, 2))]
        name = random.choice(HOSTILE) * random.randrange(1, 4)
        kind, change = random.choice(list(KINDS)), random.choice((None, None, "added", "removed", "changed", "moved"))
        nodes.append(
            GraphNode(
                at, name, "add", kind, "f32[8]", "f32[8]{0}", 32, heat=random.choice((None, 1.0, 9.5)), change=change,
                parent=parent, part=part, clusters=clusters, is_expandable=bool(clusters), literals=(name,),
            )
        )  # fmt: skip
    beside = [
        pair for pair in combinations(range(count), 2)
        if (nodes[pair[0]].parent, nodes[pair[0]].part) == (nodes[pair[1]].parent, nodes[pair[1]].part)
    ]  # fmt: skip
    chosen = sorted(random.sample(beside, min(len(beside), count)), key=lambda pair: pair[::-1])
    edges = [GraphEdge(a, b, random.choice((0, 9, 1 << 30)), random.choice(EDGE_KINDS)) for a, b in chosen]
    return Drawing(tuple(nodes), tuple(edges), random.choice(("", "bytes", "flops", "time")))


def graph_with(drawing: Drawing, title: str = "jit_f") -> Graph:
    """A graph with this drawing."""
    table = Table("nodes", (Column("name", "name"),), ())
    return Graph("graph", title, title, table, table, ("main",), drawing, is_limited=True)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_do_not_overlap(seed: int) -> None:
    drawing = random_drawing(Random(seed), 40)
    scene = scene_of(drawing)
    for one, two in combinations(range(len(drawing.nodes)), 2):
        if drawing.nodes[one].parent == drawing.nodes[two].parent:
            assert not overlap(scene.boxes[one], scene.boxes[two])
    for node, box in zip(drawing.nodes, scene.boxes, strict=True):
        around = (
            scene.boxes[node.parent] if node.parent is not None else Box(scene.width / 2, scene.height / 2, 0, 0, 0)
        )
        width, height = (around.width, around.height) if node.parent is not None else (scene.width, scene.height)
        assert abs(box.x - around.x) * 2 + box.width <= width + 0.01
        assert abs(box.y - around.y) * 2 + box.height <= height + 0.01


@pytest.mark.parametrize("seed", range(10))
def test_edges_lead_downward(seed: int) -> None:
    random = Random(seed)
    edges = sorted({tuple(sorted(random.sample(range(80), 2))) for _ in range(120)}, key=lambda edge: edge[::-1])
    arrangement = arrange(80, [(a, b) for a, b in edges])
    placed = place(arrangement, [50.0] * 80, [20.0] * 80)
    for (source, target), bends, is_long in zip(edges, placed.bends, arrangement.is_long, strict=True):
        assert placed.y[source] < placed.y[target]
        assert len(bends) == (0 if is_long else arrangement.ranks[target] - arrangement.ranks[source] - 1)
        assert is_long == (arrangement.ranks[target] - arrangement.ranks[source] > LONG_EDGE)


@pytest.mark.parametrize("seed", range(10))
def test_pictures_are_xml_without_scripts(seed: int) -> None:
    drawing = random_drawing(Random(seed), 30)
    text = "".join(graph_picture(graph_with(drawing, random_text(seed)), random_text(seed)))
    root = ElementTree.fromstring(text)
    names = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert names <= {"svg", "title", "style", "rect", "text", "g", "path"}
    assert not re.search("[\x00-\x08\x1b\u202e]", text)
    boxes = sum(1 for node in drawing.nodes if node.clusters)
    titled = [each for each in root.iter() if each.tag.endswith("}g") and each.find("{*}title") is not None]
    assert len(titled) == len(drawing.nodes)
    assert sum("box" in (rect.get("class") or "") for rect in root.iter("{http://www.w3.org/2000/svg}rect")) == boxes


def random_text(seed: int) -> str:
    """A hostile text."""
    return HOSTILE[seed % len(HOSTILE)]


def canonical(text: str) -> str:
    """What Graphviz reads: `nop` parses and prints a graph without the layout, which is slow for nested clusters."""
    program = shutil.which("nop")
    if program is None:
        pytest.skip("Graphviz is not installed")
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("seed", range(10))
def test_graphviz_reads_hostile_names(seed: int) -> None:
    drawing = random_drawing(Random(seed), 30)
    graph = graph_with(drawing, random_text(seed))
    found = canonical("".join(dot.render_dot(Report("graph", random_text(seed), parts=(graph,)), Style())))
    assert found.count(" -> ") == len(drawing.edges)


@pytest.mark.slow
@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_graphviz_reads_every_dump(dump: Dump, capsys: Capture) -> None:
    assert main(["graph", str(dump.path), "--format", "dot", "--expand", "all"], standalone=False) == 0
    text = capsys.readouterr().out
    assert canonical(text).count(" -> ") == text.count(" -> ")


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("seed", range(8))
def test_drawings_fit_terminals(seed: int, width: int) -> None:
    drawing = random_drawing(Random(seed), 40)
    lines = [plain_text(line) for line in rail_lines(drawing, Style(width, ascii=True))]
    assert all(line.isascii() and len(line) <= width for line in lines)
    rows = [line for line in lines if re.match(r"[-+| ]*[*o]", line)]
    assert len(rows) == len(drawing.nodes)


def test_rails_end_at_last_users() -> None:
    drawn = rails([0, 1, 2, 3, 4], {2: [0, 1], 3: [0], 4: [2, 3]}, 8)
    assert [rail.text for rail in drawn] == ["●", "│ ●", "├─●", "● │", "●─┘"]
    assert [rail.missing for rail in rails([0, 1, 2], {2: [0, 1]}, 1)] == [(), (), (1,)]


# The command


def answer(capsys: Capture, *arguments: str) -> str:
    """The output of a command that succeeds."""
    capsys.readouterr()
    assert main(["graph", *arguments], standalone=False) == 0
    return capsys.readouterr().out


def failure(capsys: Capture, *arguments: str) -> str:
    """The messages of a command that fails."""
    capsys.readouterr()
    assert main(["graph", *arguments], standalone=False) == 2
    return capsys.readouterr().err


def test_removed_instructions_have_names_too(tmp_path: Path, capsys: Capture) -> None:
    """Those of the old module that are gone are found by name; those that changed are not, by their old names."""
    old = "ENTRY e { p = f32[8] parameter(0)  a = f32[8] negate(p)  b = f32[8] sine(a)  ROOT r = f32[8] cosine(b) }"
    new = 'ENTRY e { p = f32[8] parameter(0)  c = f32[8] negate(p), frontend_attributes={x="1"}  ROOT r = f32[8] cosine(c) }'
    files = [tmp_path / "old.hlo", tmp_path / "new.hlo"]
    for path, text in zip(files, (old, new), strict=True):
        path.write_text("HloModule m  " + text)
    for name in ("b", "%b"):
        drawn = json.loads(answer(capsys, *map(str, files), "--around", name, "--depth", "0", "--json"))
        assert [(row["name"], row["change"]) for row in drawn["tables"]["nodes"]["rows"]] == [("b", "removed")]
    assert "'a' not found" in failure(capsys, *map(str, files), "--around", "a")
    assert "'b' not found" in failure(capsys, str(files[1]), "--around", "b")


def test_tables_are_the_drawing(capsys: Capture) -> None:
    data = json.loads(answer(capsys, CONV, "--json"))
    nodes, edges = (data["tables"][name]["rows"] for name in ("nodes", "edges"))
    assert data["schema"] == "hlo.graph/1"
    assert (data["answer"]["nodes"], data["answer"]["edges"]) == (len(nodes), len(edges))
    names = {node["id"]: node["name"] for node in nodes}
    assert all(names[edge["source_id"]] == edge["source"] for edge in edges)
    assert all(names[edge["target_id"]] == edge["target"] for edge in edges)
    assert sum(kind["nodes"] for kind in data["tables"]["kinds"]["rows"]) == len(nodes)
    text = answer(capsys, CONV, "--format", "dot")
    assert len(re.findall(r"^n\d+ \[", text, re.M)) == len(nodes)
    assert text.count(" -> ") == len(edges)
    csv = answer(capsys, CONV, "--table", "edges", "--format", "csv").splitlines()
    assert csv[0] == "source,target,bytes,kind,source_id,target_id"
    assert len(csv) == len(edges) + 1


def test_numbers_are_those_of_other_commands(capsys: Capture) -> None:
    rows = {row["name"]: row for row in json.loads(answer(capsys, CONV, "--json"))["tables"]["nodes"]["rows"]}
    assert main(["fuse", CONV, "--json"], standalone=False) == 0
    fusions = json.loads(capsys.readouterr().out)["tables"]["fusions"]["rows"]
    named = [row for row in fusions if row["fusion"] in rows]
    assert named
    for row in named:
        assert rows[row["fusion"]]["flops"] == row["flops"]


def test_steps_and_live_bytes_are_those_of_schedule(capsys: Capture) -> None:
    rows = json.loads(answer(capsys, SCAN, "--json"))["tables"]["nodes"]["rows"]
    assert main(["schedule", SCAN, "--sequence", "--json"], standalone=False) == 0
    steps = json.loads(capsys.readouterr().out)["tables"]["steps"]["rows"]
    by_name = {step["instruction"]: step for step in steps}
    shown = [row for row in rows if row["step"] is not None and row["name"] in by_name]
    assert shown
    for row in shown:
        step = by_name[row["name"]]
        assert (row["step"], row["live_bytes"]) == (step["step"], step["hbm_bytes"])


def test_names_with_and_without_percent(capsys: Capture) -> None:
    rows = json.loads(answer(capsys, CONV, "--json"))["tables"]["nodes"]["rows"]
    name = rows[-2]["name"]
    assert answer(capsys, CONV, "--around", name, "--json") == answer(capsys, CONV, "--around", f"%{name}", "--json")


def test_errors_name_the_way_out(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("HloModule m  ENTRY e { a = f32[8] parameter(0)  b = f32[8] negate(a)  ROOT c = f32[8] sine(b) }")
    assert "'x' not found" in failure(capsys, str(path), "--around", "x")
    assert "no path from c to a" in failure(capsys, str(path), "--between", "c", "a")
    assert "use --between a c" in failure(capsys, str(path), "--between", "c", "a")
    assert "--depth requires --around NAME" in failure(capsys, str(path), "--depth", "1")
    assert "--where cannot be used with --around" in failure(capsys, str(path), "--around", "a", "--where", "flops > 1")
    assert "--heat time requires --chip NAME" in failure(capsys, str(path), "--heat", "time")
    assert "'b' cannot be expanded" in failure(capsys, str(path), "--expand", "b", "--format", "dot")
    assert "--format tree requires a part" in failure(capsys, str(path), "--format", "tree")
    assert "did you mean 'e'" in failure(capsys, str(path), "--computation", "ee")
    assert main(["layout", str(path), "--format", "dot"], standalone=False) == 2


@pytest.mark.parametrize("heat", ["bytes", "flops", "padding", "live"])
def test_heat_colors_pictures(heat: str, capsys: Capture) -> None:
    text = answer(capsys, CONV, "--heat", heat, "--format", "svg")
    assert 'class="h' in text
    assert f"({heat})" in text
    assert 'class="k' not in text


def test_files_by_extension(tmp_path: Path) -> None:
    for ending, start in ((".dot", "digraph"), (".gv", "digraph"), (".svg", "<svg"), (".html", "<!DOCTYPE")):
        path = tmp_path / f"graph{ending}"
        assert main(["graph", CONV, "-o", str(path)], standalone=False) == 0
        assert path.read_text(encoding="utf-8").startswith(start)


def test_two_dumps(tmp_path: Path, capsys: Capture) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    text = "HloModule m  ENTRY e { a = f32[8] parameter(0)  b = f32[8] negate(a)  ROOT c = f32[8] sine(b) }"
    old.write_text(text)
    new.write_text(text.replace("sine(b)", "sine(d)").replace("negate(a)", "negate(a)  d = f32[8] cosine(b)"))
    data = json.loads(answer(capsys, str(old), str(new), "--json"))
    changes = {row["name"]: row["change"] for row in data["tables"]["nodes"]["rows"]}
    assert changes == {"a": None, "b": None, "d": "added", "c": None}
    assert data["answer"]["added"] == 1
    assert "+ d" in answer(capsys, str(old), str(new), "--depth", "1", "--format", "tree")
    assert "- d" in answer(capsys, str(new), str(old), "--format", "dot")
    assert "No differences" in answer(capsys, str(old), str(old), "--format", "screen")


def test_two_dumps_have_the_notes_and_the_command_line_of_one(capsys: Capture, tmp_path: Path) -> None:
    old, new = tmp_path / "old one.txt", tmp_path / "new.txt"
    for path, opcode in ((old, "sine"), (new, "cosine")):
        path.write_text(f"HloModule m  ENTRY e {{ a = f32[8] parameter(0)  ROOT b = f32[8] {opcode}(a) }}")
    assert main(["graph", str(old), str(new), "--heat", "time", "--chip", "v5e", "--json"], standalone=False) == 0
    printed = capsys.readouterr()
    assert "times are estimates for v5e" in printed.err
    assert json.loads(printed.out)["answer"]["model"]
    assert f"hlo graph '{old}' {new} --depth 1" in answer(capsys, str(old), str(new), "--format", "screen")
