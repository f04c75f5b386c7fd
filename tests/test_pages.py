"""Pages in a browser: they draw themselves without a word to the console or the network, fit every window, and can be
read and used by everyone; names from a dump are text and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import browser, opened
from hlo_cli import cli
from page_pictures import check_picture

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

FIXTURES = Path(__file__).parent.parent / "fixtures"
WIDTHS = (400, 768, 1280, 1920)
ALLOWED = ("minor", "moderate")
"""How bad a finding of axe-core may be."""

PAGES = {
    "report-tpu": ("report", "tpu/7x_transformer", "--chip", "v7x"),
    "report-gpu": ("report", "gpu/h100_transformer", "--chip", "h100"),
    "report-cpu": ("report", "cpu/softmax"),
    "report-padded": ("report", "tpu/v5e_conv"),
    "report-trace": ("report", "traces/cpu_steps/trace.xplane.pb"),
    "report-events": ("report", "traces/cpu_steps/trace.json.gz"),
    "report-several": ("report", "programs/cpu/training"),
    "timeline": ("profile", "traces/cpu_steps", "--timeline"),
    "graph-tpu": ("graph", "tpu/7x_transformer"),
    "graph-gpu": ("graph", "gpu/h100_transformer"),
    "graph-around": ("graph", "tpu/v5e_conv", "--around", "fusion.16"),
    "memspace": ("memspace", "tpu/v5e_conv", "--chip", "v5e"),
    "schedule": ("schedule", "tpu/7x_transformer", "--chip", "v7x"),
    "fuse": ("fuse", "gpu/h100_transformer", "--chip", "h100"),
    "layout": ("layout", "tpu/v5e_conv"),
    "lint": ("lint", "tpu/v5e_conv"),
    "shard": ("shard", "tpu/v4_collectives", "--comms"),
}
"""The command line that writes each page."""
TIMELINES = ("report-events",)
"""Reports on traces without modules: a timeline is all there is to show."""

HOSTILE = """\
HloModule jit_f, is_scheduled=true

ENTRY main {
  a = f32[64,128]{1,0} parameter(0), metadata={op_name="</script><script>window.run = 1</script>" source_file="/home/me/secret/a<b>.py" source_line=3}
  b = f32[64,128]{1,0} exponential(a), metadata={op_name="x\u202egnp.exe \x1b[31m<img src=x onerror=window.run=1>" source_file="a\\"'`.py" source_line=4}
  ROOT c = f32[64,128]{1,0} add(b, b), metadata={op_name="javascript:window.run=1"}
}
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@cache
def written(name: str, folder: Path) -> Path:
    """A page of PAGES, written once."""
    command, dump, *options = PAGES[name]
    path = folder / f"{name}.html"
    code = cli.main([command, str(FIXTURES / dump), *options, "-q", "-o", str(path)], standalone=False)
    assert code in (0, 1)
    return path


def overflow(page: Page) -> float:
    """By how many pixels the page is wider than its window."""
    found = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    return float(found)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_fits_and_is_silent(name: str, chromium: Browser, folder: Path) -> None:
    """Opened in a narrow window and widened, and opened in a wide one and narrowed, which is all that its drawing sees."""
    path = written(name, folder)
    for widths, dark in ((WIDTHS, False), (WIDTHS[::-1], True)):
        with opened(chromium, path, width=widths[0], dark=dark) as found:
            for width in widths:
                found.page.set_viewport_size({"width": width, "height": 900})
                assert overflow(found.page) <= 0, (width, dark)
            assert found.messages == [], dark
            assert found.requests == [path.resolve().as_uri()], dark


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_accessible(name: str, chromium: Browser, folder: Path) -> None:
    """axe-core finds nothing serious, at the width of a desktop and of a phone; in the dark, only colors differ."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed").Axe()
    with opened(chromium, written(name, folder)) as found:
        for width, dark in ((1280, False), (400, False), (1280, True)):
            found.page.set_viewport_size({"width": width, "height": 900})
            found.page.emulate_media(color_scheme="dark" if dark else "light")
            colors = {"color-contrast": {"enabled": width == 1280}}  # a phone has the same, and they take longest
            options = {"runOnly": ["color-contrast"]} if dark else {"rules": colors}
            bad = [
                (each["id"], each["impact"], [node["html"][:160] for node in each["nodes"]][:3])
                for each in axe.run(found.page, options=options).response["violations"]
                if each["impact"] not in ALLOWED
            ]
            assert bad == [], (width, dark)


@pytest.mark.parametrize("command", ["report", "graph", "memspace", "fuse", "layout", "lint", "schedule"])
def test_names_are_text(command: str, chromium: Browser, tmp_path: Path) -> None:
    """Nothing that a dump brings becomes an element, runs, or turns the direction of the text."""
    dump = tmp_path / "<img src=x onerror=window.run=1>.txt"
    dump.write_text(HOSTILE)
    page = tmp_path / "page.html"
    assert cli.main([command, str(dump), "-q", "-o", str(page)], standalone=False) in (0, 1)
    with opened(chromium, page) as found:
        assert found.messages == []
        assert found.requests == [page.resolve().as_uri()]
        assert found.page.evaluate("window.run") is None
        assert found.page.locator("img").count() == 0
        scripts = "document.querySelectorAll('script:not([type])').length"
        assert found.page.evaluate(scripts) == 1
        shown = found.page.locator("body").inner_text()
        assert not {"\u202e", "\x1b"} & set(shown)


def test_page_stores_nothing(chromium: Browser, folder: Path) -> None:
    with opened(chromium, written("report-tpu", folder)) as found:
        assert found.page.evaluate("document.cookie") == ""
        assert found.page.context.cookies() == []


@pytest.mark.parametrize("name", ["report-tpu", "report-gpu", "report-padded", "graph-tpu", "graph-gpu"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False)])
def test_page_looks_as_before(name: str, width: int, dark: bool, chromium: Browser, folder: Path) -> None:
    """A screenshot equals the kept one within a tolerance; see page_pictures.py for how to renew it."""
    with opened(chromium, written(name, folder), width=width, dark=dark) as found:
        check_picture(f"{name}-{width}{'-dark' if dark else ''}", found.page.screenshot())


def test_script_is_constant(folder: Path) -> None:
    """All pages of a kind have the same script, so that its hash can be allowed once."""
    policies = {
        name: next(line for line in written(name, folder).read_text().splitlines() if "Content-Security-Policy" in line)
        for name in PAGES
    }
    for kind in ("report", "graph"):
        of_kind = (line for name, line in policies.items() if name.startswith(kind) and name not in TIMELINES)
        assert len(set(of_kind)) == 1
    assert all(
        "'unsafe-eval'" not in line and "http" not in line.partition("content=")[2] for line in policies.values()
    )


def test_peak_is_that_of_the_command(chromium: Browser, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["memspace", str(FIXTURES / "tpu/7x_transformer"), "--chip", "v7x", "-q", "--format", "json"]
    assert cli.main(command, standalone=False) in (0, 1)
    peaks = json.loads(capsys.readouterr().out)["answer"]["peak_bytes"]
    with opened(chromium, written("report-tpu", folder)) as found:
        shown = found.page.evaluate("window.getSelection && document.body.innerText")
    from hlo_cli.report.numbers import format_bytes

    assert format_bytes(max(peaks.values())) in shown


@pytest.mark.parametrize("width", WIDTHS)
def test_the_manual_fits(width: int, chromium: Browser, folder: Path) -> None:
    """Also its addresses of sources, which have no spaces."""
    path = folder / "manual.html"
    if not path.exists():
        assert cli.main(["help", "--all", "-o", str(path)], standalone=False) == 0
    with opened(chromium, path, width=width) as found:
        assert overflow(found.page) <= 0
        assert found.messages == []
