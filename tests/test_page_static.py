"""Static pages in a browser: nothing is cut off, and sorting, search, links, and theme work with the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
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
