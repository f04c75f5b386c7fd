"""Suggestions that lower a peak come true: the change is made to the jax program, which is compiled again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.analysis.peak_advice.suggestions import Donate, Suggestion, suggestions
from peak_compiling import Compiled, compile_all

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
needs_libtpu = pytest.mark.skipif(find_spec("libtpu") is None or find_spec("jax") is None, reason="no libtpu")

WITH_ADVICE = (
    "sgd momentum adam scanned cache iterate swap embed turned convolved convolved_first transposed narrow passed mixed "
    "attention reread"
).split()  # fmt: skip
RANDOM_PROGRAMS = 24
TOLERANCE = 0.05
"""The largest difference between promise and compiler, as a share of the peak before."""


def job_of(program: str, found: tuple[Suggestion, ...]) -> dict[str, Any]:
    """The job that makes all of the changes."""
    job: dict[str, Any] = {"program": program, "donate": []}
    for each in found:
        if isinstance(each.change, Donate):
            job["donate"] += [donor.name for donor in each.change.donors]
    return job


def check(topology: str, programs: list[str], place: Path) -> Mapping[str, int]:
    """Compile programs, make the suggested changes one after the other, and compare; the number of each kind."""
    before = compile_all(topology, [{"program": name} for name in programs], place)
    advice = {name: suggestions(compiled.memory) for name, compiled in zip(programs, before, strict=True)}
    peaks = {name: compiled.peak_bytes for name, compiled in zip(programs, before, strict=True)}
    steps = [(name, found[: n + 1]) for name, found in advice.items() for n in range(len(found))]
    after = compile_all(topology, [job_of(name, found) for name, found in steps], place) if steps else []
    wrong = []
    kinds: dict[str, int] = {}
    for (name, found), compiled in zip(steps, after, strict=True):
        kind = type(found[-1].change).__name__
        kinds[kind] = kinds.get(kind, 0) + 1
        wrong += [(name, kind, said) for said in _differences(peaks[name], found, compiled)]
    assert not wrong, wrong
    return kinds


def _differences(before: int, found: tuple[Suggestion, ...], compiled: Compiled) -> list[str]:
    """How the promise of the last suggestion differs from what the compiler made of it."""
    if "refused" in compiled.said:
        return [compiled.said["refused"]]
    last = found[-1]
    if found[0].before_bytes != before:
        return [f"peak of {found[0].before_bytes}, compiler {before}"]
    if abs(compiled.peak_bytes - last.peak_bytes) > TOLERANCE * before:
        return [f"{before} → {last.peak_bytes} promised, compiler {compiled.peak_bytes}"]
    return []


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_jax
def test_changes_have_the_promised_effect_on_cpu(tmp_path: Path) -> None:
    kinds = check("cpu", WITH_ADVICE, tmp_path)
    assert kinds["Donate"] >= 7


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_jax
def test_changes_of_random_programs_have_the_promised_effect_on_cpu(tmp_path: Path) -> None:
    first = int(os.environ.get("PEAK_SEED", "0"))
    count = int(os.environ.get("PEAK_PROGRAMS", str(RANDOM_PROGRAMS)))
    kinds = check("cpu", [str(seed) for seed in range(first, first + count)], tmp_path)
    assert sum(kinds.values()) >= count // 6
