"""What gave two entries of JAX's compilation cache different keys; the entries are of `data/cache_entries.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from in_process import run

DATA = Path(__file__).parent / "data"
CACHES = DATA / "caches"
EXPECTED = {
    "name": {"program": "function helper_a → helper_b"},
    "flag": {"flags": "--xla_cpu_enable_fast_math false → true"},
    "option": {"compile options": "compiler_options --xla_cpu_enable_fast_math default → true"},
    "constant": {"program": "Constant 1 → 2 in constant.6"},
    "devices": {"devices": "1 → 2 CPU devices"},
    "folder": {"flags": "--xla_gpu_per_fusion_autotune_cache_dir (the path of the cache)"},
}


def report(folder: Path, *arguments: str) -> dict[str, Any]:
    out, err, code = run(["diff", *arguments, "--format", "json"], folder=folder, settings={})
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def differing(folder: Path, kind: str) -> dict[str, str]:
    rows = report(folder, "base", kind)["tables"]["cache_key"]["rows"]
    return {row["key_part"]: row["details"] for row in rows if row["state"] == "differs"}


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_part_of_the_key_that_differs(kind: str) -> None:
    assert differing(CACHES, kind) == EXPECTED[kind]


def test_the_same_key() -> None:
    out, _, code = run(["diff", "base", "again", "--format", "screen"], folder=CACHES, settings={})
    assert (out.partition(".")[0], code) == ("Same cache key", 0)


@pytest.mark.oracle
@pytest.mark.long
def test_the_part_of_the_key_that_differs_in_jax(tmp_path: Path) -> None:
    for kind in ("base", "again", *EXPECTED):
        script, settings = DATA / "cache_entries.py", {**os.environ, "JAX_PLATFORMS": "cpu"}
        subprocess.run([sys.executable, script, kind, tmp_path / kind], env=settings, timeout=300, check=True)
    assert {kind: differing(tmp_path, kind) for kind in EXPECTED} == EXPECTED
    assert "cache_key" not in report(tmp_path, "base", "again")["tables"]


def test_two_folders(tmp_path: Path) -> None:
    for side, kinds in (("old", ("base", "option")), ("new", ("base", "flag"))):
        (tmp_path / side).mkdir()
        for kind in kinds:
            [entry] = (CACHES / kind).iterdir()
            shutil.copy(entry, tmp_path / side)
    found = report(tmp_path, "old", "new")
    assert found["answer"] == {"modules": 2, "same_key": 1, "other_key": 1}
    [row] = found["tables"]["cache_keys"]["rows"]
    assert (row["module"], row["key_part"]) == ("jit_step", "flags, compile options")


def test_damaged_entries(tmp_path: Path) -> None:
    [entry] = (CACHES / "base").iterdir()
    [other] = (CACHES / "flag").iterdir()
    data = other.read_bytes()
    shutil.copy(entry, tmp_path)
    for damaged in (b"", data[:40], data[:-100], data[:200] + bytes(50) + data[250:], b"HloModule"):
        (tmp_path / other.name).write_bytes(damaged)
        _, err, code = run(["diff", entry.name, other.name], folder=tmp_path, settings={})
        assert code == 2
        assert err.startswith("error: ")
