"""Pictures and pages: they hold what the numbers say, stand alone, and run nothing that a dump brings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli import cli
from hlo_cli.render.draw.charts import highest_steps
from hlo_cli.render.style import Style
from hlo_cli.render.web.charts import CHART_HEIGHT, CHART_LEFT, CHART_WIDTH, WIDE_SPANS, stack_of
from hlo_cli.render.web.page import script
from hlo_cli.report.numbers import format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.report.timeline import Band, Timeline, Track, totals_of
from hlo_cli.source import HloError
from sample_reports import REPORTS
from strategies import seeds
from test_timeline import HOSTILE, a_timeline, one, written

SVG = "{http://www.w3.org/2000/svg}"

# As a picture


def paths_of(svg: str, kind: str) -> Iterator[tuple[ElementTree.Element, list[tuple[float, float]]]]:
    """The paths of a class, and the corners that they go through."""
    for path in ElementTree.fromstring(svg).iter(SVG + "path"):
        if kind in path.get("class", "").split():
            x = y = 0.0
            corners = []
            for step, numbers in re.findall(r"([MHV])([-0-9. ]+)", path.get("d", "")):
                values = [float(number) for number in numbers.split()]
                x = values[0] if step in "MH" else x
                y = values[-1] if step in "MV" else y
                corners.append((x, y))
            yield path, corners


def top_of_axis(track: Track) -> int:
    """The bytes at the end of the axis: 2% above the peak, or above the limit if it is near the peak."""
    peak, limit = max(track.totals), track.limit_bytes or 0
    highest = max(peak, limit if 0 < limit <= 1.35 * peak else 0, 0)
    return highest + highest // 50


def area_of(corners: list[tuple[float, float]]) -> float:
    around = zip(corners, [*corners[1:], corners[0]], strict=True)
    return abs(sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in around)) / 2


@given(seeds)
def test_areas_add_up_to_the_totals(seed: int) -> None:
    track = a_timeline(Random(seed), most_steps=2000).tracks[0]
    svg = written(one(Timeline("t", (track,))), "svg")
    steps = highest_steps(track.totals, min(len(track.totals), 720))
    top = top_of_axis(track)
    drawn = list(paths_of(svg, "band"))
    area = sum(area_of(corners) for _, corners in drawn)
    expected = sum(track.totals[step] for step in steps) / len(steps) * CHART_WIDTH * CHART_HEIGHT / top if top else 0
    assert area == pytest.approx(expected, abs=0.1 * CHART_WIDTH * (len(drawn) + 1))


@given(seeds)
def test_a_buffer_is_drawn_for_its_life_and_only_ever_falls(seed: int) -> None:
    track = a_timeline(Random(seed), most_steps=2000).tracks[0]
    stack = stack_of(track)
    for layer in stack.layers:
        if layer.band is None:
            assert all(below <= above for below, above in zip(layer.bottoms, layer.tops, strict=True))
            continue
        alive = [column for column, step in enumerate(stack.steps) if layer.band.start <= step <= layer.band.end]
        assert list(range(layer.start, layer.start + len(layer.bottoms))) == alive
        assert all(before >= after for before, after in zip(layer.bottoms, layer.bottoms[1:], strict=False))
        assert {above - below for below, above in zip(layer.bottoms, layer.tops, strict=True)} == {layer.band.bytes}
    for column in range(len(stack.steps)):
        heights = [
            (layer.bottoms[column - layer.start], layer.tops[column - layer.start])
            for layer in stack.layers
            if 0 <= column - layer.start < len(layer.bottoms)
        ]
        assert all(below == above for (_, below), (above, _) in pairwise(heights))
        assert (heights[-1][1] if heights else 0) == track.totals[stack.steps[column]]


def test_the_peak_and_the_largest_at_it_are_always_seen() -> None:
    random = Random(1)
    steps = 50_000
    bands = [Band(f"small.{at}", random.randrange(steps), steps, 1000) for at in range(1000)]
    bands.append(Band("large", 31_415, 31_415, 10**9))
    track = Track("HBM", totals_of(bands, steps), tuple(bands))
    svg = written(one(Timeline("t", (track,))), "svg")
    (path, corners), *others = paths_of(svg, "b0")
    title = path.find(SVG + "title")
    assert title is not None
    assert str(title.text).startswith("large\n953.7 MiB, >99% of the peak\nstep 31,415")
    assert not others
    left = CHART_LEFT + CHART_WIDTH * (31_415 * 720 // steps) / 720
    assert min(x for x, _ in corners) == pytest.approx(left, abs=0.1)
    assert "1,000 smaller" in svg


def test_a_picture_needs_nothing_and_runs_nothing() -> None:
    svg = written(one(a_timeline(Random(5), names=HOSTILE)), "svg")
    tree = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= {
        "svg", "title", "style", "rect", "g", "path", "text", "tspan",
    }  # fmt: skip
    assert not re.search(r"href|url\(|@import|\son[a-z]+=|src=", svg)
    assert "prefers-color-scheme:dark" in svg


@given(seeds, st.sampled_from(["fusion.1", HOSTILE]), st.booleans())
def test_pictures_are_well_formed_and_the_same_each_time(seed: int, names: str, ascii_only: bool) -> None:
    report = one(a_timeline(Random(seed), names=names))
    svg = written(report, "svg", Style(ascii=ascii_only))
    assert svg == written(report, "svg", Style(200, ascii=ascii_only))
    assert svg.isascii() or not ascii_only
    texts = "".join(ElementTree.fromstring(svg).itertext())
    assert texts == "".join(ElementTree.fromstring(written(report, "svg")).itertext())
    assert names == "fusion.1" or "<script>" in texts


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.booleans()), max_size=20))
def test_bars_of_a_table_are_over_their_steps(spans: list[tuple[int, int, bool]]) -> None:
    spans = [(min(start, end), max(start, end), is_busy) for start, end, is_busy in spans]
    columns = (Column("name", "pair", "name"), Column("span", "step", "span", steps=100))
    report = one(Table("pairs", columns, tuple((HOSTILE, span) for span in spans)))
    tree = ElementTree.fromstring(written(report, "svg"))
    left, width = WIDE_SPANS.left, WIDE_SPANS.width
    bars = [bar for group in tree.iter(SVG + "g") for bar in group.iter(SVG + "rect")]
    for bar, (start, end, is_busy) in zip(bars, spans, strict=True):
        x, wide = float(bar.get("x", "")), float(bar.get("width", ""))
        assert x == pytest.approx(left + start * width / 100, abs=0.1)
        assert wide == pytest.approx((end + 1 - start) * width / 100, abs=0.1)
        assert bar.get("class") == ("b0" if is_busy else "exposed")
    assert list(Page(written(report, "html")).cells[1::2]) == [f"{s}–{e}" for s, e, _ in spans]


@given(st.integers(0, 99), st.integers(1, 100), st.integers(0, 100))
def test_a_bar_has_a_part_that_is_waited_for(start: int, length: int, flying: int) -> None:
    end, waits_from = min(start + length, 100) - 1, min(start + flying, start + length, 100)
    columns = (Column("name", "pair", "name"), Column("span", "time", "span", steps=100, seconds=2e-6))
    report = one(Table("pairs", columns, ((HOSTILE, (start, end, True, waits_from)),)))
    tree = ElementTree.fromstring(written(report, "svg"))
    width = WIDE_SPANS.width
    bars = {bar.get("class"): float(bar.get("width", "")) for bar in tree.findall(f".//{SVG}g/{SVG}rect")}
    assert set(bars) == ({"b0"} if waits_from > start else set()) | ({"exposed"} if waits_from <= end else set())
    assert sum(bars.values()) == pytest.approx((end + 1 - start) * width / 100, abs=0.2)
    assert bars.get("exposed", 0) == pytest.approx((end + 1 - waits_from) * width / 100, abs=0.1)
    times = [f"{format_seconds(step * 2e-8)}" for step in (start, end + 1)]
    assert list(Page(written(report, "html")).cells[1::2]) == ["–".join(times)]


def test_only_what_is_drawn_can_be_a_picture() -> None:
    with pytest.raises(HloError, match="no figure to draw for memspace") as caught:
        written(Report("memspace", "It fits"), "svg")
    assert "html" in (caught.value.diagnostic.hint or "")


# As a page


class Page(HTMLParser):
    """What a browser would see of a page: its elements, the texts of cells, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "td" in self.open:
            self.cells[-1] += data


@pytest.mark.parametrize("names", ["fusion.1", HOSTILE], ids=["plain", "hostile"])
def test_a_page_runs_its_own_script_and_nothing_else(names: str) -> None:
    table = Table("t", (Column("value", names, "name"), Column("text", "text")), ((names, names),), title=names)
    report = Report(
        "memspace", names, parts=(a_timeline(Random(5), names=names), table), next=(names,), input={"path": names}
    )
    page = Page(written(report, "html"))
    assert not page.open
    assert page.scripts == [script("static")]
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src")]
    steps = [json.loads(value or "") for name, value in page.attributes if name == "data-steps"]
    assert steps
    assert all(name.isprintable() for rows in steps for _, _, name in rows)
    assert written(report, "html", Style(ascii=True)).isascii()


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.answer[:12])
def test_every_kind_of_report_is_a_page(report: Report) -> None:
    text = written(report, "html")
    assert not Page(text).open
    assert "://" not in text.replace('"http://www.w3.org/2000/svg"', "")


def test_a_page_has_every_row_whole() -> None:
    shape = "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)S(1)}" * 3
    rows = tuple((f"fusion.{at}", 2048 * at, shape, "/home/me/a.py:3") for at in range(3000))
    columns = (
        Column("v", "v", "name"),
        Column("b", "b", "bytes", total="sum"),
        Column("s", "s", "shape"),
        Column("at", "at", "source"),
    )
    text = written(one(Table("values", columns, rows, limit=3)), "html")
    cells = Page(text).cells
    assert cells[:8] == ["fusion.0", "0", shape, "/home/me/a.py:3", "fusion.1", "<0.1", shape, "/home/me/a.py:3"]
    assert len(cells) == 4 * 3001
    assert cells[-4:] == ["total", "8,786.1", "", ""]
    assert len(text) < 1_000_000


def test_more_rows_than_a_page_takes_are_counted() -> None:
    table = Table("values", (Column("n", "n", "count"),), tuple((at,) for at in range(12_000)), noun="values")
    assert "Showing 10,000 of 12,000 values; use --top 0 to show all" in written(one(table), "html")
    assert len(Page(written(one(table), "html", Style(top=0))).cells) == 12_000
    assert len(Page(written(one(table), "html", Style(top=7))).cells) == 7


def test_a_page_reads_the_steps_of_its_columns() -> None:
    totals = tuple(range(2000))
    timeline = Timeline("t", (Track("HBM", totals),), instructions=[f"add.{step}" for step in range(1999)])
    page = Page(written(one(timeline), "html"))
    steps = json.loads(next(value or "" for name, value in page.attributes if name == "data-steps"))
    assert len(steps) == 720
    assert steps[0] == [2, 2, "add.2"]
    assert steps[-1] == [1999, 1999, ""]


@pytest.mark.parametrize(
    ("name", "begins"), [("a.svg", "<svg "), ("a.HTML", "<!DOCTYPE"), ("a.md", "**"), ("a.x", "#")]
)
def test_the_name_of_a_file_chooses_its_format(name: str, begins: str, tmp_path: Path) -> None:
    there = tmp_path / name
    draw = ["--draw"] if name == "a.svg" else []
    assert cli.main(["layout", "f32[3,5]{1,0:T(2,2)}", *draw, "-o", str(there)], standalone=False) == 0
    assert there.read_text(encoding="utf-8").startswith(begins)
    asked = ["--format", "json", "-o", str(there)]
    assert cli.main(["layout", "f32[3,5]{1,0:T(2,2)}", *asked], standalone=False) == 0
    assert json.loads(there.read_text(encoding="utf-8"))
