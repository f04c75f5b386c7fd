"""Changes planted in twenty models: all that alter a result are found, and nearly all are named exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hlo_cli import HloError, Module, compare_runs, load, parse_module
from hlo_cli.analysis.comparison.verdict import ROUNDING, distance
from hlo_cli.analysis.evaluate.run import run
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import arrays_of
from planting import Planted, planted

FIXTURES = Path(__file__).parent.parent / "fixtures"
LIMITS = Limits(max_iterations=2_000, max_seconds=60)
DUMPED = (
    "cpu/softmax", "cpu/names", "cpu/dynamic", "tpu/v5e_branches", "gpu/h100_scan", "gpu/h100_mlp",
)  # fmt: skip
COMPILED = (
    "scan_in_scan", "while_in_while", "cond_in_scan", "gru_like", "attention", "sort_gather", "conv_pool", "bf16_rnn",
    "lstm_grad", "newton", "triple_loop", "integers",
)  # fmt: skip
EACH = 6
MISSED = {"triple_loop": 3}
"""How many of six are not named exactly from the stage before: the compiler rewrites the indices of three loops."""


@cache
def compiled() -> dict[str, list[str]]:
    """Both stages of the programs for planted changes."""
    found = subprocess.run(
        [sys.executable, str(FIXTURES / "planted.py")],
        capture_output=True, text=True, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    texts: dict[str, list[str]] = json.loads(found.stdout)
    return texts


def widened(module: Module) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    assert module.entry.root is not None
    result = run(module, floats="widen", limits=LIMITS).result
    return [array for _, array, _ in arrays_of(result, module.entry.root.shape)]


def altering(module: Module, count: int) -> Iterator[tuple[Planted, Module]]:
    """Changes that alter a result: those after which the module still runs, and computes something else."""
    expected = widened(module)
    for at, change in enumerate(planted(module.source.text, Random(1))):
        if at == count * 8:
            return
        try:
            changed = parse_module(change.text)
            results = widened(changed)
        except HloError:
            continue
        if max(map(distance, expected, results), default=0.0) > ROUNDING:
            yield change, changed


def rates(old: Module, new: Module) -> tuple[int, int, int]:
    """How many changes in the new module alter a result, are found, and are named exactly."""
    altered = found = named = 0
    for change, changed in altering(new, EACH):
        compared = compare_runs(old, changed, limits=LIMITS)
        altered += 1
        found += not compared.is_same
        first = compared.first_difference
        named += first is not None and first.instruction.name == change.name
        if altered == EACH:
            break
    return altered, found, named


def stages(name: str) -> tuple[Module, Module]:
    """The module before and after optimization; of a dump without the former, the latter twice."""
    if name in COMPILED:
        before, after = map(parse_module, compiled()[name])
        return before, after
    after = load(FIXTURES / name, stage="after_optimizations")
    try:
        return load(FIXTURES / name, stage="before_optimizations"), after
    except HloError:
        return after, after


@pytest.mark.long
@pytest.mark.parametrize("name", [*DUMPED, *COMPILED])
def test_planted_changes_are_found_and_named(name: str) -> None:
    """All in two texts of one stage; up to one of six less exactly from the stage before."""
    pytest.importorskip("jax")
    before, after = stages(name)
    assert compare_runs(before, after, limits=LIMITS).is_same
    altered, found, named = rates(after, after)
    assert altered >= 3
    assert altered == found == named
    if before is not after:
        altered, found, named = rates(before, after)
        assert found == altered
        assert named >= altered - MISSED.get(name, 1)
