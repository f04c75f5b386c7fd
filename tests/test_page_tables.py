"""Tables and lanes of pages: sorting, sums, search, selection, and rectangles that are where the schedule has them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from browser import Opened, browser, opened
from hlo_cli import cli
from hlo_cli.render.draw.cells import writing_of
from hlo_cli.render.web.page import script, style_sheets
from hlo_cli.report.table import Column

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.oracle

FIXTURES = Path(__file__).parent.parent / "fixtures"
DUMP = FIXTURES / "tpu" / "7x_transformer"
SCAN = FIXTURES / "gpu" / "h100_scan"
DRIVER = """
globalThis.rows = [
  {name: "fusion.2", source: "a.py:9", bytes: 2048, seconds: 3e-5, note: null, op: "add"},
  {name: "fusion.10", source: "a.py:97", bytes: 8 * 2 ** 20, seconds: "?", note: null, op: "<img src=x onerror=stop()>"},
  {name: "copy.1", source: "b.py:9", bytes: 512, seconds: 1e-5, note: null, op: "multiply"},
  {name: "copy.3", source: null, bytes: null, seconds: 2e-5, note: null, op: "multiply"},
];
globalThis.columns = [
  {name: "name", label: "name", unit: "name", isLink: true},
  {name: "bytes", label: "size", unit: "bytes", total: true, bar: true},
  {name: "seconds", label: "time", unit: "seconds", total: true, low: true},
  {name: "source", label: "line", unit: "source"},
  {name: "note", label: "note", unit: "text"},
  {name: "op", label: "op", unit: "opcode"},
];
globalThis.startStore = () => { globalThis.store = createStore({tables: {}, timelines: {}}); };
globalThis.show = (id, more = {}) => {
  const own = row => ({instruction: row.name, source: row.source});
  const table = createTable(store, {name: id, section: "s", noun: "kernels", rows, columns, own, ...more});
  const box = element("div", {id}, table);
  document.body.append(box);
};
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def opened_page(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A page with the scripts of tables as globals."""
    path = tmp_path_factory.mktemp("tables") / "tables.html"
    path.write_text(f"<!DOCTYPE html><title>tables</title><style>{style_sheets('base', 'tables')}</style>")
    code = script("table").replace('"use strict";\n(() => {\n', "").removesuffix("})();\n")
    with opened(chromium, path) as found:
        found.page.add_script_tag(content=code + DRIVER)
        yield found


@pytest.fixture
def page(opened_page: Opened) -> Iterator[Page]:
    """The page with nothing but the table `t` of four rows."""
    found = opened_page.page
    found.set_viewport_size({"width": 1280, "height": 900})
    found.evaluate("document.body.replaceChildren(); startStore(); show('t')")
    yield found
    assert opened_page.messages == []


def texts(page: Page, column: int = 0, table: str = "t") -> list[str]:
    """A column of the rows in sight."""
    found = page.evaluate(
        "([table, column]) => [...document.querySelectorAll(`#${table} tbody tr`)].map(row => row.cells[column]?.innerText)",
        [table, column],
    )
    return list(found)


def change(page: Page, changes: dict[str, Any]) -> None:
    """Sets the state as other parts of the page do."""
    page.evaluate("changes => { store.set(changes); store.flush(); }", changes)


def test_heads_sort(page: Page) -> None:
    """Numbers fall first, texts rise with their numbers in order; cells without a value are last in both directions."""
    head = page.locator("#t th", has_text="size")
    assert head.get_attribute("aria-sort") is None
    assert texts(page) == ["fusion.2", "fusion.10", "copy.1", "copy.3"]
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert texts(page) == ["fusion.10", "fusion.2", "copy.1", "copy.3"]
    page.keyboard.press("Enter")  # the head keeps the focus
    assert head.get_attribute("aria-sort") == "ascending"
    assert texts(page) == ["copy.1", "fusion.2", "fusion.10", "copy.3"]
    page.locator("#t th", has_text="name").get_by_role("button").click()
    assert texts(page) == ["copy.1", "copy.3", "fusion.2", "fusion.10"]
    assert page.locator("#t th[aria-sort]").count() == 1


def test_cells_have_the_unit_of_their_column(page: Page) -> None:
    """Sums count all rows; one with an unknown part says that it is a lower bound; empty columns leave."""
    assert page.locator("#t th").all_inner_texts() == ["name", "size KiB", "time \u00b5s", "line", "op"]
    assert texts(page, 1) == ["2.0", "8,192.0", "0.5", "-"]
    assert texts(page, 3) == ["30.0", "?", "10.0", "20.0"]
    foot = page.locator("#t tfoot td").all_inner_texts()
    assert (foot[0], foot[1], foot[3]) == ("total", "8,194.5", "\u2265 60.0")


def test_bars_are_shares_of_the_largest(page: Page) -> None:
    widths = page.evaluate(
        "[...document.querySelectorAll('#t tbody tr td.bar')].map(cell => cell.firstChild?.style.width)"
    )
    assert widths == ["0%", "100%", "0%", None]


def test_names_are_text(page: Page) -> None:
    assert page.locator("#t img").count() == 0
    assert "<img src=x onerror=stop()>" in texts(page, 5)


def test_search_filters_and_counts(page: Page) -> None:
    """All words have to occur; a source line is not the start of another; what was searched for is marked."""
    change(page, {"query": "MULT copy"})
    assert texts(page) == ["copy.1", "copy.3"]
    assert page.locator("#t .count").inner_text() == "2 of 4 kernels"
    assert page.locator("#t tfoot td").first.inner_text() == "total of matches"
    assert set(page.locator("#t mark").all_inner_texts()) == {"copy", "mult"}
    change(page, {"query": "a.py:9"})
    assert texts(page) == ["fusion.2"]
    change(page, {"query": "absent"})
    assert texts(page) == ['No rows match "absent".']
    assert page.locator("#t [data-table]").get_attribute("data-found") == "0"
    change(page, {"query": ""})
    assert len(texts(page)) == 4
    assert page.locator("#t .count").inner_text() == ""


def test_rows_select_by_click_and_keyboard(page: Page) -> None:
    """A row is selected in all tables; arrows move, Enter and Space select and take it back."""
    page.evaluate("show('u', {sort: 'bytes'})")
    page.locator("#t tbody tr").nth(1).click(position={"x": 2, "y": 4})
    page.evaluate("store.flush()")
    assert page.locator("tr.on td:first-child").all_inner_texts() == ["fusion.10", "fusion.10"]
    assert page.evaluate("store.state.selected.instruction") == "fusion.10"
    assert page.locator("tr.on").first.get_attribute("aria-current") == "true"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.evaluate("store.flush()")
    assert page.evaluate("store.state.selected.instruction") == "copy.1"
    page.keyboard.press(" ")
    page.evaluate("store.flush()")
    assert page.evaluate("store.state.selected") is None
    assert page.locator("tr.on").count() == 0
    page.locator("#u a.name", has_text="copy.3").click()
    assert page.evaluate("store.state.selected.instruction") == "copy.3"
    assert page.locator("#u a.name").first.get_attribute("href") == "#s?select=fusion.10"
    change(page, {"selected": {"instruction": None, "value": None, "source": "a.py:9"}})
    assert page.locator("#t tr.on td:first-child").all_inner_texts() == ["fusion.2"]


def test_tab_stops_once_in_the_rows(page: Page) -> None:
    assert page.locator('#t tbody [tabindex="0"]').count() == 1
    page.locator("#t tbody tr").first.focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.cells[0].innerText") == "copy.3"
    assert page.locator('#t tbody [tabindex="0"]').count() == 1


def test_many_rows_show_the_first(page: Page) -> None:
    """Only rows in sight are drawn; the rest is asked for; the selection can be brought into sight."""
    made = "globalThis.many = Array.from({length: 4000}, (_, at) => ({name: `k.${at}`, bytes: at, seconds: at, op: 'add'}))"
    page.evaluate(made)
    page.evaluate("show('m', {rows: many, sort: 'bytes'})")
    assert page.locator("#m tbody tr").count() < 20
    assert texts(page, 0, "m") == [f"k.{3999 - at}" for at in range(10)]
    more = page.locator("#m .more button")
    assert more.inner_text() == "show 200 of 3,990 more"
    more.click()
    assert len(texts(page, 0, "m")) == 210
    assert page.evaluate("document.activeElement.cells[0].innerText") == "k.3989"
    change(page, {"selected": {"instruction": "k.3000", "value": None, "source": None}, "reveal": {"section": "s"}})
    assert page.locator("#m tr.on").is_visible()
    assert texts(page, 0, "m")[-1] == "k.3000"


def test_low_columns_leave_on_narrow_screens(page: Page) -> None:
    """The page never scrolls sideways; a table that is too wide scrolls in its own box."""
    page.evaluate(
        "show('w', {columns: columns.map(each => ({...each, low: false})), rows: rows.map(row => ({...row, op: 'x'.repeat(69)}))})"
    )
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.locator("#t th", has_text="time").is_hidden()
    assert page.locator("#t th", has_text="size").is_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate("(box => box.scrollWidth > box.clientWidth)(document.querySelector('#w .scroll'))")


def test_long_names_lose_their_middle(page: Page) -> None:
    page.evaluate("show('l', {rows: [{...rows[0], name: `${'a'.repeat(60)}.17`, source: '/home/x/a.py:9'}]})")
    name = texts(page, 0, "l")[0]
    assert (name[:2], name[-5:], len(name)) == ("aa", "aa.17", 32)
    assert "\u2026" in name
    assert page.locator("#l tbody td").first.get_attribute("title") == f"{'a' * 60}.17"
    assert texts(page, 4, "l") == ["a.py:9"]


@pytest.fixture(scope="module")
def report(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The report of a module with async operations, some of them exposed."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert cli.main(["report", str(DUMP), "--chip", "v7x", "-q", "-o", str(path)], standalone=False) in (0, 1)
    with opened(chromium, path) as found:
        found.page.wait_for_selector("#schedule svg")
        yield found.page
        assert not found.messages


def test_lanes_are_where_the_schedule_has_them(report: Page) -> None:
    """Each rectangle begins at the start and ends after the done of its operation; rows do not overlap."""
    found = report.evaluate(
        """() => [...document.querySelectorAll('.lanes .interval')].map(each => [each.dataset.name,
          ...['x', 'width', 'y'].map(name => Number(each.getAttribute(name)))])"""
    )
    pairs, steps = _pairs()
    width = report.evaluate("document.querySelector('.lanes').clientWidth")
    room = (width - 66 - 10) / steps  # LEFT and RIGHT of axis.js
    assert sorted(name for name, *_ in found) == sorted(pairs)
    rows: dict[tuple[str, float], list[tuple[int, int]]] = {}
    for name, x, wide, y in found:
        start, done, operation, _ = pairs[name]
        assert x == pytest.approx(66 + start * room, abs=0.06)
        assert wide == pytest.approx(max(1.2, (done + 1 - start) * room), abs=0.06)
        rows.setdefault((operation, y), []).append((start, done))
    exposed = report.locator(".lanes .exposed").count()
    assert exposed == sum(is_exposed for *_, is_exposed in pairs.values())
    assert report.locator("#schedule h3").inner_text() == f"{exposed} exposed of {len(pairs)} async operations"
    for spans in rows.values():
        ordered = sorted(spans)
        assert all(before[1] < after[0] for before, after in pairwise(ordered))


def test_a_lane_selects_its_row_and_pins_its_step(report: Page) -> None:
    """A click on an async operation marks it in the picture and in the table of exposed ones, which can be found again."""
    row = report.locator('[data-table="exposed"] tbody tr').first
    name = row.locator("td").first.inner_text()
    report.locator(f'.lanes .interval[data-name="{name}"]').scroll_into_view_if_needed()
    report.locator(f'.lanes .interval[data-name="{name}"]').click(force=True)
    report.wait_for_selector('[data-table="exposed"] tr.on')
    assert report.locator(".lanes .interval.on").get_attribute("data-name") == name
    assert row.get_attribute("class") == "on"
    assert "step " in report.locator(".readout").last.inner_text()
    row.focus()
    report.keyboard.press("Enter")
    report.wait_for_selector("tr.on", state="detached")


def test_kernels_have_the_numbers_of_the_command(report: Page) -> None:
    """Bytes and flops of all kernels are those of `hlo fuse`, in the unit of the head; transfers are none."""
    report.locator('[data-table="kernels"] .more button').click()
    rows = [row for row in _answer("fuse")["tables"]["kernels"]["rows"] if row["kernel_kind"] != "transfer"]
    shown = report.evaluate(
        """() => { const table = document.querySelector('[data-table="kernels"] table');
          const heads = [...table.tHead.rows[0].cells].map(head => head.innerText.split(/\\s/)[0]);
          return [...table.tBodies[0].rows].map(row => Object.fromEntries(
            [...row.cells].map((cell, at) => [heads[at], cell.innerText]))); }"""
    )
    assert len(shown) == len(rows)
    writing = writing_of(Column("bytes", "accessed", "bytes"), [row["bytes"] for row in rows])
    expected = {row["instruction"]: writing.text_of(row["bytes"]) for row in rows}
    assert {row["kernel"]: row["accessed"] for row in shown} == expected
    writing = writing_of(Column("flops", "flops", "flops"), [row["flops"] for row in rows])
    assert writing.unit.endswith("flop")
    flops = {row["instruction"]: writing.text_of(row["flops"]) for row in rows}
    assert {row["kernel"]: row["flops"] for row in shown} == flops


def test_kernels_of_loops_rank_by_all_launches(chromium: Browser, tmp_path: Path) -> None:
    """As in every other table, costs are those of an execution; the cost of one launch stands beside."""
    path = tmp_path / "report.html"
    assert cli.main(["report", str(SCAN), "-q", "-o", str(path)], standalone=False) in (0, 1)
    rows = [row for row in _answer("fuse", SCAN, ())["tables"]["kernels"]["rows"] if row["kernel_kind"] != "transfer"]
    assert any(row["execution_count"] > 1 for row in rows)
    for name in ("bytes", "flops"):
        assert all(row[f"total_{name}"] == row[name] * row["execution_count"] for row in rows)
    with opened(chromium, path) as found:
        found.page.wait_for_selector('[data-table="kernels"] tbody tr')
        shown = found.page.evaluate(
            """() => { const table = document.querySelector('[data-table="kernels"] table');
              const heads = [...table.tHead.rows[0].cells].map(head => (head.querySelector(".label") || head).textContent);
              return [heads, ...[...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.innerText))]; }"""
        )
    heads, shown = shown[0], shown[1:]
    assert {"accessed", "per launch", "launches"} <= set(heads)
    of_all = sorted(rows, key=lambda row: -row["total_bytes"])
    sizes = [row["total_bytes"] for row in of_all]
    writing = writing_of(Column("bytes", "accessed", "bytes"), sizes)
    assert [row[heads.index("accessed")] for row in shown] == [writing.text_of(size) for size in sizes[: len(shown)]]


def test_an_address_brings_its_row_into_sight(chromium: Browser, report: Page) -> None:
    """The link of a kernel opens the page at its row, also if it is below the first ones."""
    link = report.locator('[data-table="kernels"] tbody tr').nth(40).locator("a.name")
    name, address = link.inner_text(), str(link.get_attribute("href"))
    path = Path(unquote(report.url.partition("#")[0].removeprefix("file://")))
    with opened(chromium, path, fragment=address) as found:
        found.page.wait_for_selector('[data-table="kernels"] tr.on')
        row = found.page.locator('[data-table="kernels"] tr.on')
        assert row.locator("a.name").inner_text() == name
        box = row.bounding_box()
        assert box is not None
        assert 0 < box["y"] < 900


@cache
def _answer(command: str, dump: Path = DUMP, options: tuple[str, ...] = ("--chip", "v7x")) -> Any:
    """The JSON of a command on a dump."""
    answer = io.StringIO()
    with redirect_stdout(answer):
        cli.main([command, str(dump), *options, "-q", "--json"], standalone=False)
    return json.loads(answer.getvalue())


def _pairs() -> tuple[dict[str, tuple[int, int, str, bool]], int]:
    """Start, done, operation, and exposure of each async operation, and the number of steps, as the command tells them."""
    found = _answer("schedule")
    rows = found["tables"]["pairs"]["rows"]
    pairs = {
        row["instruction"]: (
            row["start"],
            row["done"],
            row["operation"],
            bool(row["exposed_seconds"]),
        )
        for row in rows
    }
    return pairs, found["answer"]["steps"]
