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
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from hlo_cli import load
from hlo_cli.analysis.evaluate.run import run
from hlo_cli.analysis.semantics.typed_values import arrays_of
from judging_values import Found, is_known, kept, limit_of

HERE = Path(__file__).parent
CHUNK = 150
SAMPLE = 75
"""Programs in one process: XLA may abort after very many."""

QUICK = "mlp permute ring branch attention gradient all_gather reduce_scatter all_to_all_of_axis gathered_anew".split()


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
        or (each["outcome"] == "ran" and not (isfinite(each["worst"]) and each["worst"] <= limit_of(each)))
        if not is_known(each)
    ]
    assert not wrong, json.dumps(wrong[:5], indent=1)
    refused = [each for each in found if each["outcome"] == "refused"]
    assert len(refused) + aborted <= 0.02 * (len(found) + aborted), [each["why"] for each in refused[:3]]
    return Counter(each["opcode"] for each in found if each["outcome"] == "ran")


@pytest.mark.parametrize("part", range(12))
def test_some_random_modules_have_the_values_that_xla_computed(part: int) -> None:
    """The same without XLA, of answers that are kept."""
    assert len(kept()) >= 500
    assert [each.program.text for each in kept()[part::12] if not each.is_near] == []


@pytest.mark.oracle
def test_random_modules_have_the_values_of_xla() -> None:
    """Exact results are identical; others are within the roundoff of their operation."""
    ran = _judge(*_chunk(20, 0, SAMPLE))
    assert ran.total() >= SAMPLE - 3
    assert len(ran) >= 35


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
