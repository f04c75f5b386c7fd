"""Random Pallas kernels, and those of JAX, compiled by libtpu: what `hlo` says of them is what libtpu and JAX say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.run import refusals, run
from hlo_cli.analysis.semantics.typed_values import arrays_of, carrier
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

Array = npt.NDArray[Any]

SCRIPT = Path(__file__).parent / "kernel_programs.py"
TOPOLOGIES = ("v5e:2x2", "v6e:2x2", "tpu7x:2x2x1", "v5p:2x2x1")
RECIPES = (
    *("attention", "axpy", "batched", "bits", "branched", "chosen", "column_sum", "converted", "copied_by_hand"),
    *("element_windows", "flash_attention", "flash_gradient", "functions", "gather", "grouped", "masked", "matmul"),
    *("matmul_fp8", "matmul_int8", "matmul_shipped", "normalized", "packed", "paged_attention", "pipelined"),
    *("quantized", "ragged_attention", "repeated", "rotated", "scalars", "scoped", "shaped", "sliced"),
    *("splash_attention", "transpose"),
)
SAMPLE = (
    *("attention-1", "copied_by_hand-0", "gather-0", "grouped-0", "matmul_int8-0", "normalized-0", "paged_attention-0"),
    *("random-3", "random-5", "random-8", "random-15", "rotated-0"),
)
"""Programs of `make oracle`: windows, loops, copies by hand, prefetched scalars, and narrow types are among them."""
CHUNK = 16  # programs of one process, which starts in four seconds
CHUNKS = 32
LEAST_EVALUATED = 0.8
"""The share of kernels whose operations have to be known."""
TOLERANCE = {"bf16": 2**-7, "f16": 2**-9, "f8e5m2": 0.26, "f8e4m3fn": 0.13}
"""Two roundings of a type; f32 differs by the order of sums."""
TOLERANCE_OF_SUMS = 2e-5


def chunk(number: int) -> tuple[str, ...]:
    """The programs of a chunk: one of a recipe in three."""
    seeds = range(CHUNK * number, CHUNK * (number + 1))
    return tuple(
        f"random-{10_000 + seed}" if seed % 3 else f"{RECIPES[seed // 3 % len(RECIPES)]}-{seed}" for seed in seeds
    )


CASES = [
    pytest.param(TOPOLOGIES[1], SAMPLE, id="sample"),
    *(
        pytest.param(TOPOLOGIES[at % len(TOPOLOGIES)], chunk(at), id=f"chunk-{at}", marks=pytest.mark.long)
        for at in range(CHUNKS)
    ),
]


def ask(place: Path, *words: str) -> None:
    """Lets `kernel_programs` write into a folder. A compiler may end its process at a program: the rest is asked again."""
    settings = {"JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(SCRIPT), *words]
    subprocess.run(command, cwd=place, env={**os.environ, **settings}, capture_output=True, timeout=1000, check=False)


def compiled(place: Path, topology: str, names: Sequence[str]) -> dict[str, tuple[Module, dict[str, Any]]]:
    """Modules with what libtpu allocates for each of their kernels; without the programs that it refuses."""
    left = list(names)
    while left:
        ask(place, "compile", topology, str(place), *left)
        missing = [each for each in left if not (place / f"{each}.json").exists()]
        left = missing[1:]  # at the first one the process ended
    found = {}
    for name in names:
        text, said = place / f"{name}.txt", place / f"{name}.json"
        if text.exists() and said.exists():
            found[name] = parse_module(text.read_text()), json.loads(said.read_text())["kernels"]
    return found


def interpreted(place: Path, names: Sequence[str]) -> dict[str, tuple[list[Array], list[Array]]]:
    """Arguments and results of programs in JAX's interpret mode; without those that it cannot run."""
    ask(place, "values", str(place), *names)
    found = {}
    for name in names:
        if (path := place / f"{name}.npz").exists():
            arrays = np.load(path)
            found[name] = tuple([arrays[key] for key in arrays if key.startswith(kind)] for kind in ("arg", "res"))
    return found  # type: ignore[return-value]


def differences(module: Module, arguments: Sequence[Array], expected: Sequence[Array]) -> list[str]:
    """Where results of a module differ from those that are expected."""
    parameters = sorted(module.entry.parameters, key=lambda each: each.parameter_number or 0)
    shapes = [each.shape for each in parameters]
    given = [
        array.astype(carrier(shape.element_type)).reshape(shape.dimensions)
        for array, shape in zip(arguments, shapes, strict=True)
        if isinstance(shape, ArrayShape)
    ]
    root = module.entry.root
    assert root is not None
    results = arrays_of(run(module, given).result, root.shape)
    found = []
    for (index, array, shape), other in zip(results, expected, strict=True):
        tolerance = TOLERANCE.get(shape.element_type.name, TOLERANCE_OF_SUMS)
        wide, known = array.astype(np.float64), other.astype(np.float64)
        least = tolerance * max(float(np.nanmax(np.abs(known), initial=0)), 1e-3)
        if wide.shape != known.shape or not np.allclose(wide, known, rtol=tolerance, atol=least, equal_nan=True):
            found.append(f"{shape} at {index}")
    return found


@pytest.mark.oracle
@pytest.mark.parametrize(("topology", "names"), CASES)
def test_kernels_are_evaluated_as_by_jax(topology: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """Witness: JAX's interpret mode of the programs whose compiled text is evaluated."""
    for package in ("jax", "libtpu"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    modules = compiled(tmp_path, topology, names)
    values = interpreted(tmp_path, list(modules))
    assert len(values) >= LEAST_EVALUATED * len(modules) > 0
    evaluated = {name: modules[name][0] for name in values if not refusals(modules[name][0])}
    assert len(evaluated) >= LEAST_EVALUATED * len(values)
    wrong = {name: found for name, module in evaluated.items() if (found := differences(module, *values[name]))}
    assert not wrong
