"""The notebook of the repository: it runs in a kernel of its own, and every value is displayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent
NOTEBOOK = ROOT / "fixtures/notebooks/tour.ipynb"
SECONDS = 60
"""What a cell may take on a busy machine; the whole notebook takes 7 to 12 seconds on one."""
MAX_BYTES = 200_000

DISPLAYED = {
    "module": "scheduled CPU module with",
    "memory": "HBM usage peaks at 199.8 MiB",
    "memory.spaces[0].live_at(memory.spaces[0].peak_step)[0].shape": "Needs 156,905,472 bytes",
    "hlo_cli.lint_module(dump)": "Found 2 warnings",
    "hlo_cli.analyze_overlap(dump)": "All 4 copies overlap kernels",
    "hlo_cli.fusions_of(dump)": "fusion avoids 1.7 GiB",
}
"""The last lines of cells, and what their displays say."""


def test_outputs_are_not_stored() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)


@cache
def executed() -> dict[str, dict[str, Any]]:
    """The outputs of each cell by their stream, by the last line of the cell; the stream of a value has no name."""
    for name in ("ipykernel", "jax", "nbclient", "nbformat", "pandas"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, str(HERE / "running_notebooks.py"), str(NOTEBOOK), str(ROOT), str(SECONDS)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=5 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {source.splitlines()[-1]: dict(outputs) for source, outputs in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.oracle
@pytest.mark.parametrize("line", DISPLAYED)
def test_values_are_displayed(line: str) -> None:
    data = executed()[line][""]
    assert DISPLAYED[line] in data["text/plain"]
    assert DISPLAYED[line] in data["text/html"]
    assert data["text/html"].startswith('<div class="hlo fragment">')
    assert sum(map(len, data.values())) < MAX_BYTES


@pytest.mark.oracle
def test_charts_are_pictures_too() -> None:
    assert executed()["memory"][""]["image/svg+xml"].startswith("<svg ")


@pytest.mark.oracle
def test_records_are_data_frames() -> None:
    found = [data[""]["text/plain"] for line, data in executed().items() if "frame" in line or "kernels" in line]
    assert "fusion.16" in found[-2]
    assert "transfer" in found[-1]


@pytest.mark.oracle
def test_cells_write_nothing_else() -> None:
    """No warning of the library reaches a notebook."""
    assert {name for data in executed().values() for name in data} == {""}
