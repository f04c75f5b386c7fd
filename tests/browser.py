"""A headless browser for tests of pages: Chromium as the system installs it, driven by Playwright; skips without them.

python tests/browser.py PAGE.html SHOT.png [--width 1280] [--height 900] [--dark] [--click SELECTOR] [--key KEY]
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")
READY = "html[data-ready]"  # a selector: the policy of pages forbids expressions
TIMEOUT = 30_000  # milliseconds, on a busy machine


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window; skips the test, with the reason, where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, CANDIDATES)), None)
    if path is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"], timeout=TIMEOUT
        )
        try:
            yield found
        finally:
            found.close()


@dataclass
class Opened:
    """An open page, and what it wrote to the console or requested besides itself."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def opened(
    chromium: Browser, path: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, fragment: str = ""
) -> Iterator[Opened]:
    """A page in its own context, loaded and drawn; pages with a script set `data-ready` when they are."""
    context = chromium.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", device_scale_factor=1
    )
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    found = Opened(page)
    page.on("console", lambda message: found.messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.messages.append(f"error: {error}"))
    page.on("request", lambda request: found.requests.append(request.url))
    try:
        page.goto(Path(path).resolve().as_uri() + fragment)
        if "data:" not in page.url and page.locator("#data").count():
            page.wait_for_selector(READY, state="attached")
        yield found
    finally:
        context.close()


def main() -> None:
    """Takes a screenshot, and prints the messages of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page")
    parser.add_argument("shot")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--full", action="store_true", help="the whole page, not only its first screen")
    parser.add_argument("--fragment", default="")
    parser.add_argument("--click", action="append", default=[])
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--eval", default="")
    given = parser.parse_args()
    with (
        browser() as chromium,
        opened(
            chromium, given.page, width=given.width, height=given.height, dark=given.dark, fragment=given.fragment
        ) as found,
    ):
        for selector in given.click:
            found.page.click(selector)
        for key in given.key:
            found.page.keyboard.press(key)
        if given.eval:
            print(found.page.evaluate(given.eval))
        found.page.screenshot(path=given.shot, full_page=given.full)
        ready = found.page.evaluate("document.documentElement.dataset.ready")
        print(f"ready {ready} ms", *found.messages, *found.requests[1:], sep="\n")


if __name__ == "__main__":
    main()
