"""The notebook of the repository: it runs in a kernel of its own, and every value is displayed."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "fixtures/notebooks/tour.ipynb"
SECONDS = 60
"""What a cell may take on a busy machine; the whole notebook takes about ten seconds."""
MAX_BYTES = 200_000

DISPLAYED = {
    "module": "scheduled CPU module with",
    "memory": "HBM usage peaks at 199.8 MiB",
    "memory.spaces[0].live_at(memory.spaces[0].peak)[0].shape": "Needs 156,905,472 bytes",
    "hlo_cli.lint_module(dump)": "Found 3 warnings",
    "hlo_cli.analyze_overlap(dump)": "All 4 copies are overlapped",
    "hlo_cli.fusions_of(dump)": "fusion avoids 1.7 GiB",
}
"""The last lines of cells, and what their displays say."""


def test_outputs_are_not_stored() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)


@cache
def executed() -> dict[str, Any]:
    """The data of the last output of each cell, by the last line of the cell."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    for name in ("ipykernel", "jax", "pandas"):
        pytest.importorskip(name)
    manager = pytest.importorskip("jupyter_client").KernelManager(kernel_name="")
    manager.kernel_spec_manager.ensure_native_kernel = True
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "IPYTHONDIR": os.devnull}
    manager._kernel_spec = pytest.importorskip("jupyter_client.kernelspec").KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
    )
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, km=manager, resources={"metadata": {"path": str(ROOT)}})
    client.execute(env=environment)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    return {
        cell.source.splitlines()[-1]: {
            "".join(output.get("name", "")): output.get("data", {}) for output in cell.outputs
        }
        for cell in cells
    }


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
