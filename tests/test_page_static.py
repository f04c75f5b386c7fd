"""Static pages in a browser: nothing is cut off, and sorting, search, links, and theme work with the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import browser, opened
from hlo_cli import cli
from hlo_cli.render.web.page import fragment
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.report.timeline import Band, Timeline, Track, totals_of
from test_timeline import HOSTILE, written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.oracle
FIXTURES = Path(__file__).parent.parent / "fixtures"
COMMANDS = {
    "memspace": ("memspace", "tpu/v5e_offload", "--chip", "v5e"),
    "schedule": ("schedule", "tpu/v5e_collectives", "--chip", "v5e"),
    "fuse": ("fuse", "gpu/h100_transformer", "--chip", "h100"),
    "layout": ("layout", "tpu/v5e_conv"),
    "lint": ("lint", "tpu/v5e_collectives"),
    "diff": ("diff", "--text", "cpu/softmax", "cpu/names"),
    "tile": ("tile-index", "bf16[40,300]{1,0:T(8,128)(2,1)}", "12,200", "--draw"),
    "shape": ("layout", "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}"),
    "parse": ("parse", "cpu/names"),
    "shard": ("shard", "tpu/7x_transformer"),
}
MIB = 1024 * 1024
BANDS = tuple(
    Band(name, start, start + 4, size * MIB) for name, start, size in (("a.1", 0, 64), ("b.2", 2, 900), ("c.3", 5, 7))
)
VALUES = Table(
    "values",
    (Column("value", "value", "name"), Column("bytes", "size", "bytes"), Column("source", "source", "source")),
    (("a.1", 64 * MIB, "/m/x.py:9"), ("b.2", 900 * MIB, "/m/x.py:10"), ("c.3", 7 * MIB, None), (HOSTILE, 1, HOSTILE)),
    noun="values",
)
REPORT = Report("memspace", "It fits", parts=(VALUES, Timeline("memory", (Track("HBM", totals_of(BANDS, 12), BANDS),))))
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
CLIPPED = """[...document.querySelectorAll("main *")].filter(each => {
  const style = getComputedStyle(each);
  return each.scrollWidth > each.clientWidth + 1 && each.clientWidth && style.overflowX === "hidden";
}).map(each => each.outerHTML.slice(0, 80))"""
NAMES = """[...document.querySelectorAll("table.sort tbody tr:not([hidden])")].map(row => row.cells[0].textContent)"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of the file."""
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small report with a chart and a table."""
    path = tmp_path_factory.mktemp("static") / "page.html"
    path.write_text(written(REPORT, "html"), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_cut_off_and_nothing_is_said(name: str, chromium: Browser, tmp_path: Path) -> None:
    command = [str(FIXTURES / word) if (FIXTURES / word).exists() else word for word in COMMANDS[name]]
    path = tmp_path / "page.html"
    cli.main([*command, "-o", str(path)], standalone=False)
    with opened(chromium, path) as found:
        for width in (1280, 400):
            found.page.set_viewport_size({"width": width, "height": 900})
            found.page.emulate_media(color_scheme="dark" if width == 400 else "light")
            assert found.page.evaluate(OVERFLOW) <= 0
            assert found.page.evaluate(CLIPPED) == []
            wide = found.page.locator("svg.wide")
            assert not wide.count() or wide.first.is_visible() == (width == 1280)
        assert found.messages == []
        assert len(found.requests) == 1


def names_in(page: Page) -> list[str]:
    found: list[str] = page.evaluate(NAMES)
    return found


def test_heads_sort_by_keyboard_and_a_link_keeps_the_order(chromium: Browser, page_file: Path) -> None:
    with opened(chromium, page_file) as found:
        page = found.page
        page.locator("th button").nth(1).focus()
        page.keyboard.press("Enter")
        assert names_in(page)[:3] == ["b.2", "a.1", "c.3"]
        assert page.locator("th").nth(1).get_attribute("aria-sort") == "descending"
        page.keyboard.press("Enter")
        assert names_in(page)[1:] == ["c.3", "a.1", "b.2"]
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert names_in(page)[:2] == ["a.1", "b.2"]  # line 9 before line 10
        assert names_in(page)[3] == "c.3"  # what is missing comes last
        assert page.evaluate("document.querySelectorAll('th[aria-sort]').length") == 1
        fragment_of_page = page.evaluate("location.hash")
        assert not found.messages
    with opened(chromium, page_file, fragment=fragment_of_page) as again:
        assert names_in(again.page)[:2] == ["a.1", "b.2"]
        assert names_in(again.page)[3] == "c.3"


def test_the_search_filters_all_tables_and_counts(chromium: Browser, page_file: Path) -> None:
    with opened(chromium, page_file) as found:
        page = found.page
        page.keyboard.press("/")
        page.keyboard.type("X.PY b")
        assert names_in(page) == ["b.2"]
        assert page.locator("output").inner_text() == "1 of 4 rows"
        assert page.evaluate("location.hash") == "#q=X.PY+b"
        page.keyboard.press("Escape")
        assert len(names_in(page)) == 4
        assert page.locator("output").inner_text() == ""
    with opened(chromium, page_file, fragment="#q=a.1") as again:
        assert names_in(again.page) == ["a.1"]
        assert again.page.input_value("input") == "a.1"


def test_chart_and_table_mark_the_same_value(chromium: Browser, page_file: Path) -> None:
    with opened(chromium, page_file) as found:
        page = found.page
        page.locator("tr", has_text="b.2").hover()
        assert page.locator("svg.wide .band.lit").get_attribute("data-v") == "b.2"
        page.locator("svg.wide g[data-v='a.1']").last.hover()
        assert page.locator("tr.lit").inner_text().startswith("a.1")
        assert page.locator("svg.wide .band.dim").count() == 2
        page.locator("svg.wide .band").nth(1).hover()
        assert "live" in page.locator("#read").inner_text()
        assert "900 MiB" in page.locator("#read").inner_text()
        page.mouse.move(5, 5)
        assert page.locator(".lit").count() == 0
        assert page.locator("#read").count() == 0


def test_the_theme_can_be_changed(chromium: Browser, page_file: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with opened(chromium, page_file, dark=True) as found:
        page = found.page
        assert page.evaluate(background) == "rgb(17, 21, 26)"
        page.get_by_role("button", name="Switch to light theme").press("Enter")
        assert page.evaluate(background) == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.querySelector('svg .paper')).fill") == "rgb(255, 255, 255)"
        assert page.get_by_role("button", name="Switch to dark theme").is_visible()


def test_a_page_is_complete_without_its_script(chromium: Browser, page_file: Path) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(page_file.as_uri())
        assert page.locator("tbody tr").count() == 4
        assert page.locator("svg.wide").is_visible()
        assert page.locator("input").count() == page.locator("button").count() == 0
    finally:
        context.close()


def test_fragments_share_a_page_and_take_the_scheme_of_a_notebook(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    other = Report(
        "fuse", "Other", parts=(Table("t", (Column("n", "n", "count"), Column("s", "s")), ((1, "x"), (2, "y"))),)
    )
    outputs = "".join(map(fragment, (REPORT, other, REPORT)))
    path.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body data-jp-theme-light="true"><p id="p">outside</p>{outputs}',
        encoding="utf-8",
    )
    with opened(chromium, path, dark=True, width=600) as found:
        page = found.page
        assert found.messages == []
        assert page.evaluate(OVERFLOW) <= 0
        assert page.evaluate("document.querySelectorAll('.hlo [id], .hlo script, .hlo img').length") == 0
        looks = "getComputedStyle(document.querySelector('.fragment')).backgroundColor"
        assert page.evaluate(looks) == "rgb(255, 255, 255)"
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        assert page.evaluate(looks) == "rgb(17, 21, 26)"
        assert page.evaluate("getComputedStyle(document.getElementById('p')).fontSize") == "16px"
        assert page.locator("svg.narrow").first.is_visible()


# The timeline: bars over time


@pytest.fixture(scope="module")
def timeline(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of one step of a profile."""
    path = tmp_path_factory.mktemp("timeline") / "timeline.html"
    trace = FIXTURES / "traces" / "cpu_steps" / "trace.xplane.pb"
    cli.main(["profile", str(trace), "--timeline", "-q", "-o", str(path)], standalone=False)
    with opened(chromium, path) as found:
        yield found.page
        assert found.messages == []


def view_of(page: Page) -> tuple[float, float]:
    """The stretch of the timeline that is in sight, in parts of the whole."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    start, end = str(page.locator("svg.wide[data-spans]").get_attribute("data-view")).split()
    return float(start), float(end)


def bars_of(page: Page) -> list[tuple[str, float, int, int]]:
    """The name, the upper edge, the first part, and the last part of each bar."""
    found: list[tuple[str, float, int, int]] = page.evaluate(
        "[...document.querySelectorAll('svg.wide [data-t]')].map(each => "
        "[each.dataset.v, Number(each.querySelector('rect').getAttribute('y')), "
        "...each.dataset.t.split(' ').slice(0, 2).map(Number)])"
    )
    return found


def test_a_thread_has_one_lane_and_only_what_overlaps_is_below(timeline: Page) -> None:
    """Every bar that is not in the first row of its thread runs within one of the row above it."""
    titles = [text for text in timeline.locator("svg.wide text.quiet").all_text_contents() if "% busy" in text]
    assert [title.split(" ")[0] for title in titles] == ["CPU:0", "CPU:1"]
    text = timeline.locator("body").inner_text()
    assert not set(text) & set("▁▂▃▄▅▆▇█")
    bars = bars_of(timeline)
    rows = sorted({y for _, y, _, _ in bars})
    assert len(rows) == 4  # two threads with what loops and conditionals run
    for above, below in ((rows[0], rows[1]), (rows[2], rows[3])):
        outer = [(start, end) for _, y, start, end in bars if y == above]
        inner = [(start, end) for _, y, start, end in bars if y == below]
        assert all(any(start < last and first < end for start, end in outer) for first, last in inner)
    for row in rows:
        spans = sorted((start, end) for _, y, start, end in bars if y == row)
        assert all(before[1] < after[0] for before, after in pairwise(spans))


def test_keys_zoom_and_pan(timeline: Page) -> None:
    picture = timeline.locator("svg.wide[data-spans]")
    picture.focus()
    timeline.keyboard.press("0")
    whole = view_of(timeline)
    timeline.keyboard.press("+")
    timeline.keyboard.press("+")
    start, end = view_of(timeline)
    assert (end - start) * 2 < whole[1] - whole[0]
    assert (start + end) / 2 == pytest.approx(sum(whole) / 2)
    ticks = timeline.locator("svg.wide .ticks").text_content()
    timeline.keyboard.press("ArrowRight")
    later = view_of(timeline)
    assert later[0] > start
    assert later[1] - later[0] == pytest.approx(end - start)
    assert timeline.locator("svg.wide .ticks").text_content() != ticks
    for _ in range(80):
        timeline.keyboard.press("+")
    narrow = view_of(timeline)
    assert 0 < narrow[1] - narrow[0] < (whole[1] - whole[0]) / 10_000
    timeline.keyboard.press("Home")
    assert view_of(timeline) == whole


def test_pointer_zooms_drags_and_the_buttons_do_the_same(timeline: Page) -> None:
    picture = timeline.locator("svg.wide[data-spans]")
    box = picture.bounding_box()
    assert box is not None
    timeline.get_by_role("button", name="Show all").click()
    whole = view_of(timeline)
    timeline.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    timeline.mouse.wheel(0, -300)
    assert view_of(timeline) == whole  # the wheel alone scrolls the page
    timeline.evaluate("scrollTo(0, 0)")
    timeline.keyboard.down("Control")
    timeline.mouse.wheel(0, -300)
    timeline.keyboard.up("Control")
    start, end = view_of(timeline)
    assert end - start < whole[1] * 0.7
    assert (start + end) / 2 < whole[1] * 0.45  # around the pointer
    timeline.mouse.down()
    timeline.mouse.move(box["x"] + box["width"] / 4 - 90, box["y"] + 60, steps=4)
    timeline.mouse.up()
    assert view_of(timeline)[0] > start
    timeline.get_by_role("button", name="Zoom out").click()
    timeline.get_by_role("button", name="Earlier").click()
    assert view_of(timeline)[1] - view_of(timeline)[0] > end - start
    timeline.get_by_role("button", name="Show all").click()
    assert view_of(timeline) == whole


def test_search_dims_other_bars_and_goes_from_one_to_the_next(timeline: Page) -> None:
    bars = bars_of(timeline)
    expected = sorted(start for name, _, start, _ in bars if "sine" in name)
    timeline.keyboard.press("/")
    timeline.keyboard.type("sine")
    assert timeline.locator("svg.wide [data-t]:not(.dim)").count() == len(expected)
    assert timeline.locator(".zoom output").first.inner_text() == f"{len(expected)} of {len(bars)} bars"
    for at in range(4):
        timeline.keyboard.press("Enter")
        start, end = view_of(timeline)
        assert start <= expected[at] < end
        assert end - start <= 8 * bars_length(bars, "sine")
        assert f", {at + 1} of {len(expected)}" in timeline.locator(".zoom output").first.inner_text()
        assert timeline.locator("svg.wide .lit").count() == 1
    timeline.keyboard.press("Escape")
    assert timeline.locator("svg.wide .dim").count() == 0
    timeline.get_by_role("button", name="Show all").click()


def bars_length(bars: list[tuple[str, float, int, int]], word: str) -> int:
    """The longest of the bars with a word in their names."""
    return max(end + 1 - start for name, _, start, end in bars if word in name)


def test_sums_are_those_of_the_rows_that_are_found(chromium: Browser, tmp_path: Path) -> None:
    """A search replaces the total by that of its matches, in the unit of the column; without it the total is back."""
    columns = (
        Column("value", "value", "name"),
        Column("bytes", "", "bytes", total="sum"),
        Column("seconds", "time", "seconds", total="sum"),
        Column("count", "count", "count", total="sum"),
    )
    cells = [
        ("copy.1", 3 << 20, 2e-3, 5),
        ("copy.2", 1 << 19, 4e-4, 0),
        ("add.3", 9 << 20, 1.0, 70),
        ("copy.4", 0, None, 2),
    ]
    path = tmp_path / "page.html"
    path.write_text(written(Report("memspace", "It fits", parts=(Table("t", columns, tuple(cells)),)), "html"))
    with opened(chromium, path) as found:
        page = found.page
        foot = page.locator("tfoot tr:visible")
        whole = foot.locator("td").all_inner_texts()
        page.keyboard.press("/")
        page.keyboard.type("copy")
        assert foot.count() == 1
        assert foot.locator("td").all_inner_texts() == ["total of matches", "3.5", "2.4", "7"]
        page.keyboard.press("Escape")
        assert foot.locator("td").all_inner_texts() == whole
        assert whole == ["total", "12.5", "1,002.4", "77"]
