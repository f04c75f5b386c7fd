"""The report page in a browser: its picture of memory is the totals, and what is chosen in one part shows in all."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import Opened, browser, opened
from hlo_cli import cli
from hlo_cli.commands.report.page import MUCH_EXPOSED
from hlo_cli.report.numbers import format_bytes, format_scaled, format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(120)]

DUMP = Path(__file__).parent.parent / "fixtures" / "tpu" / "7x_transformer"
TOO_LARGE = """\
HloModule jit_f, is_scheduled=true

ENTRY main {
  a = f32[2,1024,1024,1024]{3,2,1,0:T(8,128)} parameter(0)
  b = f32[2,1024,1024,1024]{3,2,1,0:T(8,128)} negate(a), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  ROOT c = f32[2,1024,1024,1024]{3,2,1,0:T(8,128)} exponential(b), metadata={op_name="jit(f)/exp" source_file="f.py" source_line=4}
}
"""
STACK = """() => {
  const svg = document.querySelector('.memory svg');
  const point = svg.createSVGPoint();
  const holds = (path, x, y) => { point.x = x; point.y = y; return path.isPointInFill(point); };
  const layers = [...svg.querySelectorAll('.small, .band')];
  const [bottom, right, bad] = [24 + 340, svg.clientWidth - 10, []];
  const total = svg.querySelector('.total').getAttribute('d').slice(1).split(/(?=[HV])/).flatMap(part => part[0] === 'H' || part[0] === 'V' ? [part] : ['M' + part]);
  const heightAt = x => {
    let y = Number(total[0].slice(1).split(' ')[1]), found = y;
    for (const part of total.slice(1)) {
      if (part[0] === 'V') y = Number(part.slice(1));
      else if (Number(part.slice(1)) >= x) return y;
    }
    return y;
  };
  for (let x = 90.31; x < right; x += 14.7) {
    const top = heightAt(x);
    for (let y = top + 0.37; y < bottom - 0.1; y += 4.9) {
      const count = layers.filter(layer => holds(layer, x, y)).length;
      if (count !== 1) bad.push([x, y, count]);
    }
    if (top > 30 && layers.some(layer => holds(layer, x, top - 1))) bad.push([x, top - 1, 'above the total']);
  }
  return bad;
}"""


@cache
def answers(*arguments: str) -> Any:
    """The JSON of a command."""
    text = io.StringIO()
    with redirect_stdout(text):
        cli.main([*arguments, "--json", "-q"], standalone=False)
    return json.loads(text.getvalue())


def rows(name: str, *arguments: str) -> list[dict[str, Any]]:
    """The rows of a table of a command."""
    found: list[dict[str, Any]] = answers(*arguments)["tables"][name]["rows"]
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("report") / "report.html"
    cli.main(["report", str(DUMP), "--chip", "v7x", "-q", "-o", str(written)], standalone=False)
    return written


@pytest.fixture(scope="module")
def opened_page(chromium: Browser, path: Path) -> Iterator[Opened]:
    with opened(chromium, path) as found:
        yield found


@pytest.fixture
def page(opened_page: Opened) -> Iterator[Page]:
    """The page as it is when it is opened."""
    found = opened_page.page
    found.keyboard.press("Escape")
    found.keyboard.press("Escape")
    choose(found, "source line")
    found.evaluate("scrollTo(0, 0)")
    settle(found)
    yield found
    assert opened_page.messages == []


def settle(page: Page) -> None:
    """Waits for the frame in which changes are drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def choose(page: Page, grouping: str) -> None:
    """Groups the live values."""
    page.locator(".live .segmented").get_by_text(grouping, exact=True).click()


def test_page_opens_on_main_memory(page: Page) -> None:
    """Although VMEM holds more: programs run out of main memory."""
    spaces = rows("spaces", "memspace", str(DUMP), "--space", "all")
    [main] = [row for row in spaces if row["memory_space"] == 0]
    assert main["peak_bytes"] < max(row["peak_bytes"] for row in spaces)
    assert page.locator("#memory .tools [aria-pressed=true]").first.inner_text() == main["space"]
    label = page.locator(".memory .peak-label").first.inner_html()
    assert f"peak {format_bytes(main['peak_bytes'])}, step {main['peak_step']:,}" in label


def test_a_small_report_is_drawn_before_its_load_event(chromium: Browser, path: Path) -> None:
    """Who prints it, or takes its picture without waiting, gets all sections."""
    page = chromium.new_page()
    try:
        page.add_init_script(
            "addEventListener('load', () => { window.empty = [...document.querySelectorAll('main section .body')]"
            ".filter(each => !each.childElementCount).length; window.drawn = document.querySelectorAll('.body').length; })"
        )
        page.goto(path.as_uri(), wait_until="load")
        assert page.evaluate("window.drawn") > 5
        assert page.evaluate("window.empty") <= 1  # what to do first is in the page's HTML
    finally:
        page.close()


def test_bands_fill_the_total(page: Page) -> None:
    """Each place below the line of the total is in one band, and no place above it is in any."""
    for grouping in ("source line", "kind"):
        choose(page, grouping)
        settle(page)
        assert page.evaluate(STACK) == []


def test_live_values_are_those_of_the_command(page: Page) -> None:
    found = page.evaluate(
        "[...document.querySelectorAll('.live tbody tr')].map(row => [row.cells[0].children[1].title, row.cells[2].innerText])"
    )
    expected = {
        row["source"].rpartition("/")[2]: row["bytes"]
        for row in rows("by_source", "memspace", str(DUMP), "--by", "source")
        if row["bytes"]
    }
    assert len(found) == min(12, len(expected))
    assert [label for label, _ in found if label not in expected] == []
    unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[page.locator(".live thead .unit").first.inner_text()]
    assert [(label, text) for label, text in found if text != format_scaled(expected[label], unit, 1)] == []


def test_arrows_move_by_a_step(page: Page) -> None:
    picture = page.locator(".memory[role=slider]")
    picture.focus()
    start = int(picture.get_attribute("aria-valuenow") or "")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert picture.get_attribute("aria-valuenow") == str(start + 1)
    assert f"at step {start + 1:,}" in page.locator(".live h3").inner_text()
    assert page.locator("svg .pin:not([visibility=hidden])").count() == 2
    page.keyboard.press("Home")
    settle(page)
    assert picture.get_attribute("aria-valuenow") == "0"
    page.keyboard.press("p")
    settle(page)
    assert picture.get_attribute("aria-valuenow") == str(start)
    assert page.locator("svg .pin:not([visibility=hidden])").count() == 0


def test_grouping_colors_picture_and_table_alike(page: Page) -> None:
    """A band has the color of the swatch in whose group it is."""
    for grouping in ("source line", "shape", "kind", "scope", "value"):
        choose(page, grouping)
        settle(page)
        swatches = page.evaluate(
            "[...document.querySelectorAll('.live .swatch')].map(each => each.className.split(' ')[1])"
        )
        used = page.evaluate(
            "[...new Set([...document.querySelectorAll('.memory .band')].map(each => each.classList[1]))]"
        )
        assert swatches[0] == "b0"
        assert swatches[0] in used
        assert len({each for each in swatches if each != "other"}) == sum(each != "other" for each in swatches)


def test_band_selects_row_line_and_details(page: Page) -> None:
    """A click on a band shows its value in the details, marks its row and its source line, and is in the address."""
    before = page.evaluate("history.length")
    bands = page.locator(".memory .band:not(.thin)")
    for at in range(bands.count()):
        bands.nth(at).dispatch_event("click", {"bubbles": True, "clientX": 600, "clientY": 400})
        settle(page)
        if page.locator("#details h3.name").count():
            break
    value = page.locator("#details h3").inner_text()
    buffer = next(row for row in rows("buffers", "memspace", str(DUMP), "--space", "all") if row["value"] == value)
    details = page.locator("#details").inner_text()
    assert format_bytes(buffer["bytes"]) in details
    assert f"({buffer['start']:,}\u2013{buffer['end']:,})" in details
    assert buffer["shape"] in details
    assert page.locator(".memory .band.on").count() == 1
    page.wait_for_url("**select=*")
    assert page.evaluate("history.length") == before
    page.keyboard.press("Escape")
    settle(page)
    assert page.locator("#details").is_hidden()
    assert page.locator("tr.on, .band.on").count() == 0


def test_rows_open_to_their_values(page: Page) -> None:
    row = page.locator(".live tbody tr.group").first
    count = int(row.locator("td").nth(1).inner_text())
    row.focus()
    page.keyboard.press("Enter")
    assert page.locator(".live [aria-expanded=true]").count() == 1
    assert page.locator(".live tr.value").count() == min(count, 41)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator(".live tr.value.on").count() == 1
    assert page.locator("#details h3").inner_text() == page.locator(".live tr.value.on td").first.get_attribute("title")
    page.keyboard.press("Escape")


def test_search_filters_all_tables(page: Page) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("copy")
    page.wait_for_selector(".links .found")
    shown = page.evaluate(
        "[...document.querySelectorAll('[data-found]')].map(table => [table.closest('section').id, Number(table.dataset.found)])"
    )
    counts = page.evaluate(
        "[...document.querySelectorAll('.links a')].map(link => [link.hash.slice(1), Number(link.querySelector('.found').innerText.replaceAll(',', ''))])"
    )
    assert {key: count for key, count in counts if count} == {
        key: sum(found for section, found in shown if section == key) for key, count in counts if count
    }
    assert sum(count for _, count in counts) > 0
    page.keyboard.press("Escape")
    page.wait_for_selector(".links .found", state="detached")
    assert page.locator("#search").input_value() == ""


def test_address_restores_the_view(chromium: Browser, path: Path) -> None:
    buffers = rows("buffers", "memspace", str(DUMP), "--space", "all")
    value = next(row for row in buffers if row["space"] == "VMEM" and row["end"] > row["start"])["value"]
    fragment = f"#memory?space=VMEM&step=7&select={value.replace('{', '%7B').replace('}', '%7D')}&group=kind&scale=time&q=fusion"
    with opened(chromium, path, fragment=fragment) as found:
        page = found.page
        settle(page)
        assert "In VMEM at step 7" in page.locator(".live h3").inner_text()
        assert page.locator("#details h3").inner_text() == value
        assert page.locator("#search").input_value() == "fusion"
        pressed = page.locator("#memory [aria-pressed=true]").all_inner_texts()
        assert pressed == ["VMEM", "time, est.", "kind"]
        assert found.messages == []


def test_a_link_is_not_lost_while_the_address_is_written(chromium: Browser, path: Path) -> None:
    """The address changes in the moment before a timer writes that of the view: the new one stays."""
    with opened(chromium, path) as found:
        page = found.page
        settle(page)
        page.keyboard.press("/")
        page.keyboard.type("copy")  # starts the timer
        # What a link does before its event is read; without an event, the page does not know of it.
        page.evaluate("history.replaceState(null, '', '#findings')")
        page.wait_for_timeout(700)  # the timer takes 300 ms
        assert page.evaluate("location.hash") == "#findings"
        page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
        page.wait_for_url("**#findings?q=copy")
        assert found.messages == []


def test_address_of_another_dump_is_ignored(chromium: Browser, path: Path) -> None:
    with opened(
        chromium, path, fragment="#nothing?space=none&step=99999999&group=__proto__&scale=x&select=%F0"
    ) as found:
        settle(found.page)
        assert ", the peak" in found.page.locator(".live h3").inner_text()
        assert found.messages == []


def test_theme_changes_and_print_is_light(chromium: Browser, path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(chromium, path, dark=True) as found:
        page = found.page
        assert page.evaluate(ground) == "rgb(17, 21, 26)"
        page.click("button.theme")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.click("button.theme")
        assert page.evaluate(ground) == "rgb(17, 21, 26)"
        page.emulate_media(media="print")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        assert not page.locator("nav").is_visible()
        assert page.locator("button:visible").count() == page.locator("th button:visible").count()


def test_head_needs_no_script(chromium: Browser, path: Path) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    (overview,) = answers("report", str(DUMP), "--chip", "v7x")["overviews"].values()
    text = page.locator("body").inner_text()
    assert overview["title"] in text
    assert overview["details"] in text
    words = [each["headline"] for each in overview["verdicts"]]
    words[0] = words[0].partition(" (")[0]  # the gauges have the numbers
    assert [each for each in words if each not in text] == []
    assert [each["message"] for each in overview["actions"] if each["message"] not in text] == []
    assert [each["sentence"] for each in overview["sections"] if each["sentence"] not in text] == []
    assert "hlo memspace" in text
    context.close()


@pytest.mark.parametrize(("chip", "near"), [("v5e", True), ("v7x", False)])
def test_limit_is_drawn_only_if_it_is_near(chip: str, near: bool, chromium: Browser, tmp_path: Path) -> None:
    """24 GiB are over the 16 GiB of a v5e, and far below the 192 GiB of a v7x."""
    dump, written = tmp_path / "f.txt", tmp_path / "f.html"
    dump.write_text(TOO_LARGE)
    cli.main(["report", str(dump), "--chip", chip, "-q", "-o", str(written)], standalone=False)
    with opened(chromium, written) as found:
        assert found.page.locator("svg .limit").count() == near
        assert found.page.locator(".verdicts .bad [aria-label=bad]").first.is_visible() == near
        assert found.page.locator(".verdicts .over").count() == near
        assert found.messages == []


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (400, 860)])
def test_what_to_do_first_is_above_the_fold(width: int, height: int, chromium: Browser, path: Path) -> None:
    """The verdicts and the first thing to do are seen before any scrolling, on a wide screen the picture's top too."""
    with opened(chromium, path, width=width, height=height) as found:
        box = found.page.locator(".actions li").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < height
        picture = found.page.locator(".memory svg").bounding_box()
        assert picture is not None
        assert (picture["y"] + 100 < height) == (width == 1280)


def test_actions_are_the_most_expensive_findings(page: Page) -> None:
    """Each has its bytes and its time, and leads to its finding."""
    groups = [row for row in rows("groups", "report", str(DUMP), "--chip", "v7x") if row["cost_bytes"]]
    times = answers("schedule", str(DUMP), "--chip", "v7x")["answer"]
    seconds = next(times[name] for name in ("exposed_seconds", "known_exposed_seconds") if times.get(name))
    is_much = seconds >= MUCH_EXPOSED * times["execution_seconds"]
    first = page.locator(".actions .costs").first.inner_text()
    # All exposed transfers cost more than any finding, but are an action only if they are much of the time.
    assert (f"{seconds * 1e6:.1f}" in first) == is_much
    costs = page.locator(".actions li:has(.what a) .costs").all_inner_texts()
    # What stays in VMEM has no known time.
    expected = [
        [
            format_bytes(row["cost_bytes"]),
            *([f"{format_seconds(row['seconds'])} est."] if row["seconds"] else []),
            "at least" if row["at_least"] else "at most",
        ]
        for row in groups[:4]
    ]
    assert [text.split("\n") for text in costs[: len(expected)]] == expected
    name = page.locator(".actions a").first
    assert name.inner_text() == groups[0]["instruction"]
    name.click()
    settle(page)
    assert page.locator("#details h3").inner_text() == groups[0]["instruction"]
    assert page.locator("#findings tr.on").count() == 1


@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_cards_repeat_nothing_and_are_whole(width: int, chromium: Browser, path: Path) -> None:
    """No text of a card is cut, and none stands in a section, too."""
    with opened(chromium, path, width=width) as found:
        assert (
            found.page.evaluate(
                "[...document.querySelectorAll('.verdicts *')].filter(each => each.scrollHeight > each.clientHeight + 2"
                " && getComputedStyle(each).overflow !== 'visible').map(each => each.textContent)"
            )
            == []
        )
        sections = found.page.locator("section .lead p").all_inner_texts()
        cards = found.page.locator(".verdicts li").all_inner_texts()
        sentences = [line for card in cards for line in card.split("\n") if line.endswith(".")]
        assert [line for line in sentences if any(line in text for text in sections)] == []
        gauges = found.page.locator(".verdicts .gauge").all_inner_texts()
        assert gauges
        assert len({line for card in cards for line in card.split("\n")}) == sum(
            len(card.split("\n")) for card in cards
        )


def test_right_half_is_used(chromium: Browser, path: Path) -> None:
    """At 1,280 pixels each picture has its table on the right, and every table with bars reaches the edge."""
    with opened(chromium, path) as found:
        split = "[...document.querySelectorAll('.split')].map(each => [...each.children].map(part => part.getBoundingClientRect().right))"
        for left, right in found.page.evaluate(split):
            assert left < 760 < 1200 < right
        rights = found.page.evaluate(
            "[...document.querySelectorAll('section > .body > .table table:has(td.bar)')].map(each => each.getBoundingClientRect().right)"
        )
        assert len(rights) >= 3
        assert min(rights) > 1200


def test_searched_values_have_their_own_total(page: Page) -> None:
    """The sums below a filtered table are those of the rows that are left."""
    buffers = rows("buffers", "report", str(DUMP), "--chip", "v7x")
    space = page.locator("#memory .tools [aria-pressed=true]").first.inner_text()
    step = int(page.locator(".live h3").inner_text().split("step ")[1].split(",")[0])
    live = [row for row in buffers if row["space"] == space and row["start"] <= step <= row["end"] and row["bytes"]]
    opcode = "constant"
    groups = {row["source"] or row["origin"] for row in live if opcode in str(row.values())}
    page.keyboard.press("/")
    page.keyboard.type(opcode)
    page.wait_for_selector(".links .found")
    foot = page.locator(".live tfoot tr").last
    label, count, total = foot.locator("td").all_inner_texts()[:3]
    shown = page.locator(".live tbody tr.group, .live tbody tr:not(.value)")
    texts = [shown.nth(at).locator("td").nth(2).inner_text() for at in range(shown.count())]
    assert label == "total of matches"
    assert groups
    assert float(total.replace(",", "")) == pytest.approx(
        sum(float(text.replace(",", "").lstrip("<")) for text in texts), abs=0.1 * len(texts)
    )
    assert int(count.replace(",", "")) < len(live)
    page.keyboard.press("Escape")
    page.wait_for_selector(".links .found", state="detached")


def test_the_page_of_memspace_has_the_chart_of_the_report(chromium: Browser, path: Path, tmp_path: Path) -> None:
    """The same picture of the same memory, and below it the tables of the command, which the search filters too."""
    written = tmp_path / "memory.html"
    cli.main(["memspace", str(DUMP), "--space", "all", "--chip", "v7x", "-q", "-o", str(written)], standalone=False)
    outline = "document.querySelector('.memory svg .total').getAttribute('d')"
    labels = "document.querySelector('.memory svg .peak-label').textContent"
    live = "[...document.querySelectorAll('.live tbody tr')].map(row => row.innerText)"
    with opened(chromium, path) as report, opened(chromium, written) as memory:
        for script in (outline, labels, live):
            assert memory.page.evaluate(script) == report.page.evaluate(script)
        page = memory.page
        tables = page.locator("#main .hlo table.sort tbody tr:visible")
        count = tables.count()
        assert count
        page.keyboard.press("/")
        page.keyboard.type("copy")
        page.wait_for_selector(".links .found")
        settle(page)
        assert 0 < tables.count() < count
        page.keyboard.press("Escape")
        page.locator("#memory .tools").get_by_text("HBM", exact=True).click()
        settle(page)
        assert page.locator(".live h3").inner_text().startswith("In HBM")
        assert memory.messages == []


def test_a_step_that_memspace_asks_for_is_pinned(chromium: Browser, tmp_path: Path) -> None:
    written = tmp_path / "memory.html"
    name = rows("buffers", "memspace", str(DUMP), "--space", "all")[-1]["value"].partition("{")[0]
    cli.main(["memspace", str(DUMP), "--at", name, "-q", "-o", str(written)], standalone=False)
    with opened(chromium, written) as found:
        assert ", the peak" not in found.page.locator(".live h3").inner_text()
        assert found.page.locator("svg .pin:not([visibility=hidden])").count() == 1
        assert found.messages == []


def test_the_timeline_of_a_trace_follows_search_and_selection(chromium: Browser, tmp_path: Path) -> None:
    """The search dims other bars, Enter zooms to the next one, and a click selects the instruction in all sections."""
    written = tmp_path / "trace.html"
    trace = DUMP.parent.parent / "traces" / "cpu_steps" / "trace.xplane.pb"
    cli.main(["report", str(trace), "-q", "-o", str(written)], standalone=False)
    with opened(chromium, written) as found:
        page = found.page
        picture = page.locator("#timeline svg.wide")
        whole = picture.get_attribute("data-view")
        page.keyboard.press("/")
        page.keyboard.type("psum")
        page.wait_for_selector(".links .found")
        settle(page)
        bars = page.locator("#timeline svg.wide [data-t]:not(.dim)")
        assert {bars.nth(at).get_attribute("data-v") for at in range(bars.count())} == {"psum.7"}
        page.keyboard.press("Enter")
        settle(page)
        assert picture.get_attribute("data-view") != whole
        page.keyboard.press("Escape")
        page.locator('#timeline svg.wide [data-v="ynn_fusion.1"] rect >> visible=true').first.click()
        settle(page)
        assert page.locator("#details h3").inner_text() == "ynn_fusion.1"
        assert page.locator("#measured tr.on").count() == 1
        lit = page.locator("#timeline svg.wide .lit")
        assert {lit.nth(at).get_attribute("data-v") for at in range(lit.count())} == {"ynn_fusion.1"}
        assert found.messages == []
