"""The evaluator against XLA: random modules run by XLA:CPU, and JAX programs on eight simulated CPU devices."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_cli import load
from hlo_cli.analysis.evaluate.run import run
from hlo_cli.analysis.semantics.typed_values import arrays_of

HERE = Path(__file__).parent
CHUNK = 150
"""Programs in one process: XLA may abort after very many."""

QUICK = "mlp permute ring branch attention gradient all_gather reduce_scatter all_to_all_of_axis gathered_anew".split()

Found = dict[str, Any]


def _python(script: str, *arguments: object, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    if find_spec("jax") is None:  # not imported here: a process with JAX cannot fork
        pytest.skip("jax is not installed")
    return subprocess.run(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        timeout=timeout,
        check=False,
    )


_OF_XLA = {
    ("log-plus-one", "f64"): 200, ("tanh", "f64"): 9, ("tanh", "f32"): 6, ("exponential-minus-one", "f64"): 6,
    ("exponential-minus-one", "f32"): 7, ("exponential", "f32"): 8, ("erf", "f32"): 7,
}  # fmt: skip
"""Functions of which XLA:CPU itself is farther from the exact value than the limit for all others, at a few points."""


def _limit(found: Found) -> float:
    """How far a result may be from XLA's: in units in the last place, or of roundoff times the sum of magnitudes."""
    match found["family"]:
        case "exact" | "bits":
            return 0
        case "rounded":
            return _OF_XLA.get((found["opcode"], found["types"][0]), 4)
        case "complex" if found["opcode"] in ("power", "atan2"):
            return 256  # both lose digits: terms of a logarithm cancel
        case "complex" if (found["opcode"], found["types"][0]) == ("log-plus-one", "c128"):
            return 200  # of XLA, as for real parts
        case "complex" if found["opcode"] in ("tan", "tanh", "sine", "cosine", "logistic"):
            return 256  # of XLA, which is off by as much near zeros and poles
        case "complex":
            return 16
        case "norms":
            return 32
        case "positive":
            return float(found["terms"])
        case "sums":
            return 4 + sqrt(found["terms"])
        case _:
            return 2  # of the bound of a stable solution: each side may be off by it


def _is_known(found: Found) -> bool:
    """Where XLA:CPU disagrees with XLA's own evaluator, or cannot be right."""
    text = found["text"]
    if found["opcode"] == "convert" and found["types"][0] == "f4e2m1fn":
        return re.search(r"= [su]\d+\[[\d,]*\] convert", text) is not None  # the largest becomes that of the integers
    if found["opcode"] == "convolution":  # it reads beyond its arrays
        return re.search(r"pad=[\d_x]*-.*feature_group_count=[2-9]", text) is not None
    if found["opcode"] == "reduce-precision":
        return "mantissa_bits=0" in text  # NaN, of which nothing is left
    return False


def _chunk(seed: int, first: int, count: int) -> tuple[list[Found], int]:
    """What is found of each program of a chunk, and on how many XLA ended the process."""
    found: list[Found] = []
    aborted, at = 0, first
    while at < first + count:
        done = _python("evaluation_in_xla.py", seed, at, first + count - at)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found += [line for line in lines if "outcome" in line]
        if done.returncode == 0:
            break
        assert done.returncode < 0, done.stderr  # by a signal, as XLA crashed
        assert lines
        assert "running" in lines[-1], done.stderr
        aborted += 1
        at = lines[-1]["at"] + 1
    return found, aborted


def _judge(found: list[Found], aborted: int) -> Counter[str]:
    """Every program agrees, and few are refused; the number of each opcode that ran."""
    wrong = [
        {key: each.get(key) for key in ("at", "opcode", "types", "worst", "why", "shown", "text")}
        for each in found
        if each["outcome"] == "crashed"
        or (each["outcome"] == "ran" and not (isfinite(each["worst"]) and each["worst"] <= _limit(each)))
        if not _is_known(each)
    ]
    assert not wrong, json.dumps(wrong[:5], indent=1)
    refused = [each for each in found if each["outcome"] == "refused"]
    assert len(refused) + aborted <= 0.02 * (len(found) + aborted), [each["why"] for each in refused[:3]]
    return Counter(each["opcode"] for each in found if each["outcome"] == "ran")


@pytest.mark.oracle
def test_random_modules_have_the_values_of_xla() -> None:
    """Exact results are identical; others are within the roundoff of their operation."""
    ran = _judge(*_chunk(20, 0, CHUNK))
    assert ran.total() >= CHUNK - 3
    assert len(ran) >= 45


@pytest.mark.long
@pytest.mark.parametrize("tenth", range(10))
def test_many_random_modules_have_the_values_of_xla(tenth: int) -> None:
    """A thousand of ten thousand."""
    every: list[Found] = []
    aborted = 0
    for first in range(0, 1000, CHUNK):
        found, ended = _chunk(100 + tenth, first, min(CHUNK, 1000 - first))
        every += found
        aborted += ended
    ran = _judge(every, aborted)
    assert ran.total() >= 980
    assert len(ran) >= 80


def _programs(folder: Path, names: Sequence[str]) -> Path:
    """The folder, with the dumps and arrays of programs."""
    done = _python("devices_in_jax.py", folder, *names)
    assert done.returncode == 0, done.stderr
    return folder


def _numbered(arrays: dict[str, np.ndarray], letter: str) -> list[np.ndarray]:
    return [arrays[f"{letter}{at}"] for at in range(sum(key.startswith(letter) for key in arrays))]


def _agrees(folder: Path, name: str, stage: str) -> None:
    """Results on simulated devices are those of JAX to 5e-6 of the largest."""
    with np.load(folder / f"{name}.npz") as stored:
        arrays = dict(stored)
    (path,) = (folder / name).glob(f"*{stage}_optimizations.txt")
    module = load(path)
    assert module.entry.root is not None
    done = run(module, _numbered(arrays, "a"))
    assert not done.unknown
    mine = [array for _, array, _ in arrays_of(done.result, module.entry.root.shape)]
    for found, expected in zip(mine, _numbered(arrays, "r"), strict=True):
        assert found.shape == expected.shape
        scale = np.abs(expected).max()
        assert np.abs(found.astype(np.float64) - expected).max() <= 5e-6 * scale


@pytest.fixture(scope="module")
def quick_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps and arrays of a few programs."""
    return _programs(tmp_path_factory.mktemp("devices"), QUICK)


@pytest.mark.oracle
@pytest.mark.parametrize("name", QUICK)
def test_simulated_devices_compute_what_devices_of_jax_do(name: str, quick_programs: Path) -> None:
    _agrees(quick_programs, name, "cpu_after")


@pytest.mark.long
@pytest.mark.parametrize("stage", ["before", "cpu_after"])
def test_many_programs_on_simulated_devices(stage: str, tmp_path: Path) -> None:
    names = tuple(re.findall(r'^    "(\w+)": \(', (HERE / "devices_in_jax.py").read_text(), re.MULTILINE))
    assert len(names) >= 30
    folder = _programs(tmp_path, names)
    wrong = []
    for name in names:
        try:
            _agrees(folder, name, stage)
        except AssertionError as error:
            wrong.append((name, str(error)[:300]))
    assert not wrong
