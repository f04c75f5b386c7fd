"""Random programs through the pipelines of real compilers: sizes, live ranges, offsets, and totals are theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from compiler_memory import Assignment, compiler_assignment, compiler_ranges
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, memory_analysis
from hlo_cli.ir.module import Module
from hlo_cli.syntax.text.parser import parse_module
from protos import read
from versions import DEAD_CODE, IS_NEWER_XLA

SCRIPT = Path(__file__).parent / "memory_programs.py"
TPUS = ("v2:2x2", "v3:2x2", "v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
NEEDED = {"cpu": "jaxlib", "cpu8": "jaxlib", "h100": "jax_cuda12_plugin", "a100": "jax_cuda12_plugin"}
SAMPLES = {"cpu": (0,), "cpu8": (1,), "h100": (0,), "v5e:2x2": (3,), "v6e:2x2": (6,)}
"""Programs for `make oracle`: those with odd numbers are for all devices."""
PROGRAMS, CHUNK = 60, 12
"""Programs of each target for `make judge`, and how many of them one process compiles."""
CASES = [
    *((target, seeds) for target, seeds in SAMPLES.items()),
    *(
        pytest.param(target, tuple(range(first, first + CHUNK)), marks=pytest.mark.long)
        for target in (*NEEDED, *TPUS)
        for first in range(0, PROGRAMS, CHUNK)
    ),
]


@dataclass(frozen=True)
class Dump:
    """A final dump, and the files beside it."""

    path: Path

    def sibling(self, kind: str) -> str:
        """The text of a file beside the dump."""
        return self.path.with_name(f"{self.path.name.removesuffix('.txt')}-{kind}.txt").read_text()

    def modules(self) -> tuple[Module, Module]:
        """The module as text, and as proto."""
        return parse_module(self.path.read_text()), read(self.path.with_suffix(".hlo.pb").read_bytes())


def compiled(target: str, seeds: tuple[int, ...], place: Path) -> list[Dump]:
    """The final dumps of some programs; a compiler may end its process at one, whose dump is then incomplete."""
    settings = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, str(SCRIPT), target, str(place), *map(str, seeds)]
    subprocess.run(command, cwd=place, env={**os.environ, **settings}, check=True, capture_output=True, timeout=1000)
    paths = (path for path in place.glob("*/*after_optimizations.txt") if "jit_run" in path.name)
    return [Dump(path) for path in sorted(paths)]


def differences(module: Module, dump: Dump, generation: str | None) -> list[str]:
    """What differs from the compiler, of all that is called exact, and lower bounds that are none."""
    memory = memory_analysis(module, generation=generation)
    given = compiler_assignment(dump)
    found: list[str] = []
    ours = {(v.instruction.name, v.index): v for a in memory.allocations for v in a.values}
    lives = {key: (value.start, value.end) for key, value in ours.items() if value.start >= 0}
    expected = compiler_ranges(dump).ranges
    found += [
        f"range of {key}: {lives.get(key)}, not {expected[key]}" for key in expected if lives.get(key) != expected[key]
    ]
    offsets = {space.number: space.offsets for space in memory.spaces}
    sizes: dict[int, int] = {}
    for value in ours.values():
        size = buffer_bytes(value.shape, memory.target, memory.generation)
        sizes[value.buffer] = max(size, sizes.get(value.buffer, 0))
    for allocation in given:
        for place in allocation.places:
            here = ours.get(place.key)
            booked = sizes[here.buffer] if here is not None else None
            if here is None or here.space != place.colour or booked != place.size:
                found.append(f"{place.key} in {place.colour}: {here and here.space}, {booked} for {place.size} bytes")
            elif offsets[place.colour] == "exact" and here.offset != place.offset:
                found.append(f"offset of {place.key} in {place.colour}: {here.offset}, not {place.offset}")
    return found + wrong_totals(memory, given)


def wrong_totals(memory: MemoryAnalysis, given: list[Assignment]) -> list[str]:
    """Totals of temporary buffers that are not the compiler's, or not a lower bound where they should be one."""
    found: list[str] = []
    for space in memory.spaces:
        total = sum(allocation.size for allocation in given if allocation.is_heap and allocation.colour == space.number)
        mine = space.totals.temporary_bytes
        if space.offsets == "unknown" and max(mine, space.peak_bytes) > total:
            found.append(f"at least {mine}, live {space.peak_bytes} in {space.name}, which has {total} bytes")
        if space.offsets == "exact" and mine != total:
            found.append(f"{mine} in {space.name}, not {total} bytes")
    return found


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("target", "seeds"), CASES)
def test_memory_is_what_compilers_assign(target: str, seeds: tuple[int, ...], tmp_path: Path) -> None:
    """Witness: the buffer assignments and live ranges of jaxlib, libtpu, and the plugin for CUDA.

    A proto has all that the compiler went by, so that nothing of CPUs and GPUs is estimated.
    """
    for package in ("jax", NEEDED.get(target, "libtpu")):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if target.startswith("cpu") and IS_NEWER_XLA:
        pytest.skip(DEAD_CODE)
    generation = target.partition(":")[0].removeprefix("tpu") if ":" in target else None
    dumps = compiled(target, seeds, tmp_path)
    assert len(dumps) >= len(seeds) * 0.9
    for dump in dumps:
        text, proto = dump.modules()
        for module in (text, proto):
            assert not differences(module, dump, generation), dump.path
        assert "estimated" not in {space.offsets for space in memory_analysis(proto, generation=generation).spaces}
