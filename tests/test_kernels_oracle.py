"""Random Pallas kernels, and those of JAX, compiled by libtpu: what `hlo` says of them is what libtpu and JAX say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hlo_cli import Module, PallasKernel, pallas_kernels_of, parse_module
from hlo_cli.analysis.evaluate.run import refusals, run
from hlo_cli.analysis.kernels.kernel_memory import limits_of
from hlo_cli.analysis.semantics.typed_values import arrays_of, carrier
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
SAMPLE = (*("copied_by_hand-0", "gather-0", "grouped-0", "matmul_int8-0", "paged_attention-0", "random-3", "random-8"),)
"""Programs of `make oracle`: windows, loops, copies by hand, prefetched scalars, and narrow types are among them."""
CHUNK = 16  # programs of one process, which starts in four seconds
CHUNKS = 32
LEAST_EXACT = 0.85  # of the 16 programs of a chunk, registers of one or two are spilled
"""The share of kernels whose VMEM is as the compiler says, with the scratch that it adds on some chips."""
WITH_TEMPORARIES = ("v3", "v4")
"""Generations whose compiler adds memory of its own to nearly every kernel."""
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


# --- memory ---


def generation_of(topology: str) -> str:
    """The name of a generation, by that of its topology."""
    return topology.partition(":")[0].removeprefix("tpu")


_WINDOW = re.compile(r"(input|output) window allocation for operator \w+ (\d+)\.")
"""The tag of a window; operands are counted with prefetched scalars."""
_LEVELS = re.compile(r"has (\d+) buffering levels")


def declared(allocations: Sequence[dict[str, Any]], space: str) -> tuple[Counter[Any], Counter[Any]]:
    """What libtpu declares in a memory space: windows with their buffers and bytes, and the bytes of scratch."""
    windows, scratch = Counter[Any](), Counter[Any]()
    for each in allocations:
        if each["space"] != space:
            continue
        if (match := _WINDOW.match(each["tag"])) is not None:
            levels = _LEVELS.search(each["tag"])
            windows[match[1], int(match[2]), int(levels[1]) if levels else 1, each["size"]] += 1
        elif each["tag"] == "scratch operand" or each["tag"].startswith("prefetched"):
            scratch[each["size"]] += 1
    return windows, scratch


def described(kernel: PallasKernel, space: str) -> tuple[Counter[Any], Counter[Any]]:
    """The same by `hlo`, whose operands are those of the call: sizes of the grid are counted too."""
    bounds = kernel.first_window - len(kernel.prefetched)
    windows = Counter(
        (*(("output", each.number) if each.is_output else ("input", each.number - bounds)), each.buffers, each.bytes)
        for each in kernel.windows
        if each.space == space and each.buffers
    )
    others = (*kernel.prefetched, *[each for each in kernel.scratch if not each.is_scoped])
    return windows, Counter(each.bytes for each in others if each.space == space)


def memory_differences(
    modules: dict[str, tuple[Module, dict[str, Any]]], generation: str
) -> Iterator[tuple[str, str, Any, Any]]:
    """Programs, memory spaces, and what differs: what `hlo` has, and what libtpu has."""
    for name, (module, said) in modules.items():
        for kernel in pallas_kernels_of(module, chip=generation):
            allocations = said[kernel.instruction.name][0]
            for space in ("vmem", "smem") if allocations is not None else ():
                ours, theirs = described(kernel, space), declared(allocations, space)
                for mine, other in zip(ours, theirs, strict=True):
                    if mine != other:
                        yield name, space, mine - other, other - mine


MEMORY_CASES = [
    pytest.param("v5e:2x2", SAMPLE, id="sample"),
    *(
        pytest.param(topology, chunk(CHUNKS * (1 + number) + at), id=f"{topology}-{at}", marks=pytest.mark.long)
        for number, topology in enumerate((*TOPOLOGIES, "v4:2x2x1", "v3:2x2"))
        for at in range(8)
    ),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("topology", "names"), MEMORY_CASES)
def test_memory_of_kernels_is_that_of_the_compiler(topology: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """Witness: the allocations in libtpu's LLO dump, and what the compiled text says is used in all."""
    for package in ("jax", "libtpu"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    generation = generation_of(topology)
    modules = compiled(tmp_path, topology, names)
    # Types of two bits, which no other program has, are not stored alike everywhere.
    odd = {name for name, (module, _) in modules.items() if re.search(r"\b[su]2\[", str(module))}
    wrong = [each for each in memory_differences(modules, generation) if each[0] not in odd]
    assert not wrong
    kernels = [each for module, _ in modules.values() for each in pallas_kernels_of(module, chip=generation)]
    rests = [each.rest_bytes for each in kernels if each.rest_bytes is not None]
    assert len(rests) == len(kernels) > 0
    internal = limits_of(generation).internal_scratch_bytes
    if generation not in WITH_TEMPORARIES:
        assert sum(rest in (0, internal) for rest in rests) >= LEAST_EXACT * len(rests)
    assert sum(rest < 0 for rest in rests) <= len(rests) // CHUNK  # a window that is passed on in registers


PASSED_ON_CASES = [
    pytest.param("v5e:2x2", tuple(f"stored_and_loaded-{seed}" for seed in range(8, 16)), id="sample"),
    *(
        pytest.param(
            topology,
            tuple(f"stored_and_loaded-{1000 * at + seed}" for seed in range(50)),
            id=topology,
            marks=pytest.mark.long,
        )
        for at, topology in enumerate(TOPOLOGIES)
    ),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("topology", "names"), PASSED_ON_CASES)
def test_scratch_is_passed_on_in_registers_as_by_the_compiler(
    topology: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    """Witness: what libtpu uses in all, which is less than windows and scratch if it keeps no scratch."""
    for package in ("jax", "libtpu"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    expected, found = {}, {}
    for name, (module, _) in compiled(tmp_path, topology, names).items():
        [kernel] = pallas_kernels_of(module, chip=generation_of(topology))
        [scratch] = kernel.scratch
        windows = sum(window.bytes for window in kernel.windows)
        assert kernel.used_vmem_bytes is not None
        expected[name] = kernel.used_vmem_bytes < windows + scratch.bytes
        found[name] = scratch.is_dropped
    assert found == expected
    assert len(found) == len(names)
    assert len(set(found.values())) == 2


# --- limits ---

FIT_CASES = [
    pytest.param("v6e:2x2", tuple(f"near_limit-{seed}" for seed in range(6)), id="sample"),
    *(
        pytest.param(
            topology, tuple(f"near_limit-{100 * at + seed}" for seed in range(25)), id=topology, marks=pytest.mark.long
        )
        for at, topology in enumerate(TOPOLOGIES)
    ),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("topology", "names"), FIT_CASES)
def test_kernels_fit_if_the_compiler_says_so(topology: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """Witness: libtpu, which compiles a kernel, or is out of memory; what is asked is the module before compilation."""
    for package in ("jax", "libtpu"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    chip = generation_of(topology)
    compiled(tmp_path, topology, names)
    expected, found = {}, {}
    for name in names:
        [kernel] = pallas_kernels_of(parse_module((tmp_path / f"{name}.before.txt").read_text()), chip=chip)
        found[name] = kernel.vmem_bytes <= (kernel.limit_bytes or limits_of(chip).default_bytes)
        error = json.loads((tmp_path / f"{name}.json").read_text()).get("error", "")
        assert not error or "vmem" in error
        expected[name] = not error
    assert found == expected
    assert len(set(found.values())) == 2
