"""What a command loads: a shape loads no reader of modules, a small dump little of what it does not need.

Loading is most of what a command on a small input takes; `make bench ARGS=loading` tells the times. The limits are
somewhat above what is loaded today: who needs more should look first at what is imported that need not be.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hlo_cli

FIXTURES = Path(__file__).parent.parent / "fixtures"
DUMP = str(FIXTURES / "tpu/v5p_scan/after_optimizations.txt")
HEAVY = ("numpy", "rich", "pyparsing")
READERS = ("hlo_cli.syntax.text.parser", "hlo_cli.ir.module", "hlo_cli.inputs.input", "json", "shutil")

_TOLD = """
import sys
from hlo_cli.cli import main
main(sys.argv[1:], standalone=False)
sys.stdout.flush()
print("loaded:", *sys.modules)
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a Python has loaded when it has answered a command line."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # a width is asked of shutil
    done = subprocess.run(
        [sys.executable, "-c", _TOLD, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        env={**environment, "PYTHONPATH": str(Path(hlo_cli.__file__).parent.parent)},
    )
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("layout", "f32[8,128]"), 70),
        (("tile-index", "f32[8,128]", "3,5"), 60),
        (("parse", DUMP), 160),
        (("layout", DUMP), 160),
        (("memspace", DUMP), 250),
        (("schedule", DUMP), 215),
        (("fuse", DUMP), 205),
        (("lint", DUMP), 300),
    ],
    ids=lambda each: " ".join(each).replace(DUMP, "DUMP") if isinstance(each, tuple) else "",
)
def test_files_entered(arguments: tuple[str, ...], most: int) -> None:
    found = loaded(*arguments)
    entered = sorted(module for module in found if module.split(".")[0] == "hlo_cli")
    assert not found & set(HEAVY)
    assert len(entered) <= most, entered


@pytest.mark.parametrize("arguments", [("layout", "f32[8,128]"), ("tile-index", "f32[8,128]", "3,5")])
def test_a_shape_loads_no_reader_of_modules(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & set(READERS)


def test_a_clean_dump_loads_no_compression() -> None:
    assert not loaded("parse", DUMP) & {"bz2", "gzip", "lzma", "glob", "ctypes", "json", "hlo_cli.analysis.cost"}


def test_what_is_clean_has_no_fingerprints() -> None:
    assert "hashlib" not in loaded("lint", DUMP)
