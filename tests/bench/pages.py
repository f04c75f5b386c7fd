"""Pages: how long they take to write beyond parsing, how large they are, and how soon a browser has drawn them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from synthetic import synthetic

sys.path.insert(0, str(Path(__file__).parent.parent))

SIZES = ((4, 4.0, 3.0, 1000), (15, 15.0, 8.0, 2000))
"""Megabytes of text; budgets: seconds to write beyond parsing, megabytes of the page, milliseconds to draw it."""

Row = tuple[str, str, str, float, float]
"""What was measured, the figure, what it is compared with, the number, and its budget."""


def page_rows(hlo: tuple[str, ...]) -> Iterator[Row]:
    """The rows for both commands and all sizes; without a browser, those of drawing are left out."""
    with tempfile.TemporaryDirectory() as folder:
        for megabytes, seconds, size, milliseconds in SIZES:
            dump = Path(folder, f"dump{megabytes}.txt")
            dump.write_text(synthetic(megabytes), encoding="utf-8")
            parsing = _wall([*hlo, "parse", str(dump)])
            for command in ("report", "graph"):
                page = Path(folder, f"{command}{megabytes}.html")
                options = ("--chip", "h100") if command == "report" else ()
                took = _wall([*hlo, command, str(dump), *options, "-q", "-o", str(page)])
                what = f"hlo {command}, {megabytes} MB"
                yield f"{what}, written", f"{took:.2f} s", f"{parsing:.2f} s", took - parsing, seconds
                written = page.stat().st_size / 1e6
                yield f"{what}, size", f"{written:.2f} MB", "", written, size
                drawn = _drawn(page)
                if drawn is not None:
                    yield f"{what}, drawn", f"{drawn} ms", "", drawn, milliseconds


def _wall(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    return time.perf_counter() - started


def _drawn(page: Path) -> int | None:
    """Milliseconds from the start of loading until the page is drawn, the best of three."""
    import pytest

    from browser import browser, opened

    try:
        with browser() as chromium:
            times = []
            for _ in range(3):
                with opened(chromium, page) as found:
                    times.append(int(found.page.evaluate("document.documentElement.dataset.ready")))
            return min(times)
    except pytest.skip.Exception:
        return None
