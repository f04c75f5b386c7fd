"""Runs a notebook in a kernel of this interpreter, and prints what its cells show as JSON.

    python running_notebooks.py NOTEBOOK FOLDER SECONDS

A process of its own, because kernels are talked to by threads. Prints a list with the source of each cell that shows
something, and the names and data of its outputs.
"""

from __future__ import annotations

import json
import os
import sys

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient


def main(path: str, folder: str, seconds: str) -> None:
    """Executes the cells in order; an error in one of them ends it."""
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
    )
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=int(seconds), km=manager, resources={"metadata": {"path": folder}})
    client.execute(env={**os.environ, "JAX_PLATFORMS": "cpu", "IPYTHONDIR": os.devnull})
    shown = [
        [cell.source, [[output.get("name", ""), output.get("data", {})] for output in cell.outputs]]
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.outputs
    ]
    print(json.dumps(shown))


if __name__ == "__main__":
    main(*sys.argv[1:])
