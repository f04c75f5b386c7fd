"""Static pages and pictures as text: what they are about, charts first, all of a picture inside, tables with their bars."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli import cli
from hlo_cli.render.style import Style
from hlo_cli.render.web.charts import MAX_NAMED, NARROW, WIDE, WIDE_SPANS, Room, drawing, gantt, lanes_of, stack_of
from hlo_cli.render.web.page import Subject, fragment, policy, script, subject_of
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Loop, Table
from hlo_cli.report.timeline import Timeline, Track
from sample_reports import REPORTS
from strategies import seeds
from test_timeline import HOSTILE, a_timeline, one, written

FIXTURES = Path(__file__).parent.parent / "fixtures"
CHARACTER = 6.2  # no narrower than most characters of either font are on average
SIZES = {"head": 1.25, "title": 1.5}


def page_of(tmp_path: Path, *command: str, name: str = "page.html") -> str:
    """What a command writes to a file."""
    path = tmp_path / name
    assert cli.main([*command, "-o", str(path)], standalone=False) == 0
    return path.read_text(encoding="utf-8")


# Head and order


@pytest.mark.parametrize(
    ("command", "dump", "chip", "title"),
    [
        ("memspace", "tpu/v5e_offload", "v5e", " on TPU v5e<"),
        ("schedule", "tpu/v5e_collectives", "v5e", "jit_exchange on TPU v5e"),
        ("fuse", "gpu/h100_transformer", "h100", "on GPU H100"),
        ("layout", "cpu/softmax", "", "on CPU"),
    ],
)
def test_a_page_names_module_chip_and_dump_and_begins_with_its_chart(
    command: str, dump: str, chip: str, title: str, tmp_path: Path
) -> None:
    text = page_of(tmp_path, command, str(FIXTURES / dump), *(["--chip", chip] if chip else []))
    head = text[text.index("<header") : text.index("</header>")]
    assert title in head
    assert f"hlo {command} · {Path(dump).name}, after optimizations" in head
    if command == "memspace":  # its chart is that of hlo report, which a script draws
        assert text.index('<section id="memory"') < text.index("<table")
        return
    assert text.index('<p class="answer">') < text.index("<table")
    if command == "schedule":
        assert text.index('<p class="answer">') < text.index("<svg") < text.index("<table")
        assert "<svg" not in text[text.index("<table") :]


def test_a_page_shows_no_directory_of_the_machine_in_its_head() -> None:
    facts = {"path": "/home/me/secret/dump/module_0001.jit_f.after_optimizations.txt", "module": "jit_f"}
    assert "secret" not in "".join(subject_of(Report("memspace", "", input=facts)))
    both = {"before": {"path": "/a/old/x.txt", "module": "f"}, "after": {"path": "/a/new/y.txt", "module": "g"}}
    assert subject_of(Report("diff", "", input=both)) == Subject("f → g", "hlo diff · x → y")
    assert subject_of(Report("lint", "", input={"paths": ("a/x.txt", "y.txt")})) == Subject("2 dumps", "hlo lint")


def test_charts_come_before_all_tables() -> None:
    columns = (Column("name", "pair", "name"), Column("span", "step", "span", steps=9))
    spans = Table("pairs", columns, (("a", (3, 5, True)),))
    sizes = Table("sizes", (Column("value", "value", "name"), Column("bytes", "", "bytes")), (("a", 1),))
    text = written(one(sizes, spans, Timeline("t", (Track("HBM", (5, 8)),))), "html")
    assert text.rindex("</svg>") < text.index("<table")
    assert text.count("<svg") == 4  # each chart in a wide and a narrow form


def test_the_policy_of_a_page_is_that_of_its_script() -> None:
    text = written(one(), "html")
    code = script("static")
    assert f"<script>{code}</script>" in text
    assert f'content="{policy(code)}"' in text
    assert text.count("<script>") == 1


# Charts


@given(seeds)
def test_the_axis_of_bytes_ends_at_the_data(seed: int) -> None:
    track = a_timeline(Random(seed)).tracks[0]
    peak, limit = max(track.totals), track.limit_bytes or 0
    stack = stack_of(track)
    highest = max(peak, *(top for layer in stack.layers for top in layer.tops), 0)
    is_near = 0 < limit <= 1.35 * peak
    assert stack.top <= 1.02 * max(highest, limit if is_near else 0)
    svg = written(one(Timeline("t", (track,))), "svg")
    assert ('class="limit"' in svg) == is_near
    assert "; limit " in svg or not peak or track.limit_bytes is None


def texts_of(elements: list[str], room: Room) -> list[tuple[float, float, float, str]]:
    """The left edge, the right edge, the baseline, and the text of each text of a picture, by a careful estimate."""
    found = []
    for text in ElementTree.fromstring(f"<g>{''.join(elements)}</g>").iter("text"):
        words = "".join(text.itertext())
        looks = text.get("class", "").split()
        if "off" in looks or "on" in looks or not words.strip():
            continue  # names on bands, which have their own room
        x, wide = float(text.get("x", "")), len(words) * CHARACTER * max(SIZES.get(look, 1) for look in ["", *looks])
        left = x - wide if "end" in looks else x - wide / 2 if "middle" in looks else x
        found.append((left, left + wide, float(text.get("y", "")), words))
        assert left >= -2, words
        assert left + wide <= room.page + 2, words
    return found


def check_apart(texts: list[tuple[float, float, float, str]]) -> None:
    """Texts on one line do not overlap."""
    for y in {y for _, _, y, _ in texts}:
        line = sorted(text for text in texts if text[2] == y)
        for (_, right, _, words), (left, _, _, more) in pairwise(line):
            assert right <= left + 3, (words, more)


def check_inside(elements: list[str], room: Room, height: float) -> None:
    """Shapes are within the picture."""
    tree = ElementTree.fromstring(f"<g>{''.join(elements)}</g>")
    for rect in tree.iter("rect"):
        x, y, wide, high = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + wide <= room.page
        assert 0 <= y <= y + high <= height
    for path in tree.iter("path"):
        for number in re.findall(r"H([-0-9.]+)", path.get("d", "")):
            assert room.left - 1 <= float(number) <= room.right + 1


@given(seeds, st.sampled_from([WIDE, NARROW]), st.sampled_from(["fusion.1", HOSTILE, "a" * 200]))
def test_all_of_a_timeline_is_inside_and_texts_do_not_overlap(seed: int, room: Room, names: str) -> None:
    elements, height = drawing(a_timeline(Random(seed), names=names), 0, room=room)
    check_inside(elements, room, height)
    check_apart(texts_of(elements, room))


@given(seeds, st.sampled_from([WIDE_SPANS, NARROW]), st.integers(1, 60), st.sampled_from(["copy.1", "b" * 90]))
def test_all_of_the_spans_is_inside_and_texts_do_not_overlap(seed: int, room: Room, rows: int, name: str) -> None:
    random = Random(seed)
    steps = random.choice((1, 20, 5000))
    seconds = random.choice((0, 1e-9, 0.0217))
    loops = tuple(
        Loop("while.16", start, random.randrange(start, steps), 32)
        for start in random.choices(range(steps), k=random.randrange(6))
    )
    column = Column("span", "time", "span", steps=steps, seconds=seconds, loops=loops)
    columns = (Column("operation", "operation", "opcode"), Column("name", "pair", "name"), column)
    spans = [
        (start, random.randrange(start, steps), random.random() < 0.5) for start in random.choices(range(steps), k=rows)
    ]
    table = Table("pairs", columns, tuple((random.choice(("copy", "slice")), name, span) for span in spans))
    elements, height = gantt(table, Style(), 0, room)
    check_inside(elements, room, height)
    check_apart(texts_of(elements, room))
    bars = [element for element in elements if element.startswith("<g data-v")]
    assert len(bars) == rows
    assert (height < 800) or rows > MAX_NAMED


@given(st.lists(st.tuples(st.sampled_from(["copy", "slice"]), st.integers(0, 50), st.integers(0, 50)), max_size=40))
def test_lanes_hold_every_bar_once_and_apart_in_as_few_as_possible(given_bars: list[tuple[str, int, int]]) -> None:
    rows = [(name, (min(a, b), max(a, b), True)) for name, a, b in given_bars]
    found = lanes_of(rows, 1, 0)
    assert sorted(at for lanes in found.values() for lane in lanes for at in lane) == list(range(len(rows)))
    for name, lanes in found.items():
        assert {rows[at][0] for lane in lanes for at in lane} == {name}
        for lane in lanes:
            assert all(rows[a][1][1] < rows[b][1][0] for a, b in pairwise(lane))
        spans = [span for each, span in rows if each == name]
        assert len(lanes) == max(sum(start <= step <= end for start, end, _ in spans) for step in range(51))


def test_of_too_many_bars_the_exposed_and_the_longest_are_drawn_and_thin_ones_keep_their_color() -> None:
    columns = (Column("operation", "operation", "opcode"), Column("name", "", "name"))
    spans = [(at, at, True) for at in range(3000)]
    spans += [(2500, 2500, False), (0, 2999, True)]
    rows = tuple(("copy", f"c.{at}", span) for at, span in enumerate(spans))
    table = Table("pairs", (*columns, Column("span", "step", "span", steps=3000)), rows, noun="pairs")
    elements, _ = gantt(table, Style(), 0)
    text = "".join(elements)
    assert "2,000 of 3,002 pairs (the longest) over steps" in text
    assert text.count("<g data-v=") == 2000
    assert text.count('class="exposed"') == 1 + 1  # one bar and the legend
    assert 'data-v="c.3001"' in text
    assert 'data-v="c.3000"' in text


def test_tiles_of_a_figure_are_squares_between_lines(tmp_path: Path) -> None:
    text = page_of(tmp_path, "tile-index", "f32[3,5]{1,0:T(2,2)}", "2,3", "--draw")
    assert "<h1>f32[3,5]{1,0:T(2,2)}</h1>" in text
    svg = text[text.index("<svg") : text.index("</svg>") + 6]
    tree = ElementTree.fromstring(svg)
    namespace = "{http://www.w3.org/2000/svg}"
    rects = list(tree.iter(f"{namespace}rect"))
    looks = [rect.get("class") for rect in rects]
    assert len(rects) == 24
    assert looks.count("waste-cell") == 9
    assert looks.count("strong-cell") == 1
    shown = {"".join(each.itertext()) for each in tree.iter(f"{namespace}text")}
    assert {"[17]", "·23", "0"} <= shown
    places = [tuple(float(rect.get(name, "")) for name in ("x", "y", "width", "height")) for rect in rects]
    for at, (x, y, wide, high) in enumerate(places):
        for other_x, other_y, other_wide, other_high in places[:at]:
            across = min(x + wide, other_x + other_wide) - max(x, other_x)
            down = min(y + high, other_y + other_high) - max(y, other_y)
            assert across <= 0.11 or down <= 0.11


# Tables


def test_names_come_first_and_the_largest_has_the_longest_bar() -> None:
    columns = (Column("bytes", "size", "bytes"), Column("value", "value", "name"), Column("form", "form", rank=1))
    rows = ((4096, "a", "x"), (2048, "b", "y"), (0, "c", "z"))
    text = written(one(Table("sizes", columns, rows)), "html")
    heads = re.findall(r'data-c="(\w+)"', text)
    assert heads == ["value", "bytes", "form"]
    assert re.findall(r'style="--b:([0-9.]+)"', text) == ["1", "0.5", "0"]
    assert "@media print,(max-width:640px){.hlo .part0 tr>:nth-child(3){display:none}}" in text
    unsorted = Table("sizes", columns, (rows[1], rows[0], rows[2]))
    assert "--b:" not in re.sub(r"<style>.*?</style>", "", written(one(unsorted), "html"), flags=re.S)
    chosen = Table("sizes", columns, rows).select(["bytes", "value"])
    assert re.findall(r'data-c="(\w+)"', written(one(chosen), "html")) == ["bytes", "value"]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.answer[:12])
def test_a_fragment_stands_beside_others(report: Report) -> None:
    text = fragment(report)
    assert text == fragment(report)
    assert text.count("<div") == text.count("</div>")
    assert not re.search(r"<script|\sid=|<h1|<html|<body|<main|\son[a-z]+=|src=|href=|url\(|@import", text)
    css = re.sub(r"/\*.*?\*/", "", text[text.index("<style>") + 7 : text.index("</style>")], flags=re.S)
    inner = re.sub(r"@(media|container)[^{]*\{", "", css)
    for rule in re.findall(r"([^{}]+)\{", inner):
        for selector in re.split(r",(?![^(]*\))", rule.strip()):
            assert re.search(r"(^|\s|svg)\.hlo\b", selector), selector
    keys = set(re.findall(r'class="sort (k\w+)', text))
    for other in REPORTS:
        if other is not report:
            assert not keys & set(re.findall(r'class="sort (k\w+)', fragment(other)))


def test_a_fragment_shows_a_part_of_a_long_table() -> None:
    table = Table("values", (Column("n", "n", "count"),), tuple((at,) for at in range(5000)), noun="values")
    assert "Showing 100 of 5,000 values" in fragment(one(table))
    assert fragment(one(table), top=7).count("<tr>") == 8
    assert HOSTILE not in fragment(Report("memspace", HOSTILE))
