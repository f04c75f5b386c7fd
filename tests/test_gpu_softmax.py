"""Softmaxes and normalizations on GPU: which become kernels of Triton, with which tiles and times, and how they grow.

Expectations are XLA's own: texts between passes, and the times of `diamond_times.json` from its log, of jaxlib 0.10.2.
`make judge` takes all programs below `HLO_CORPUS`, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_gemm_states import CORPUS, GEMM_PASSES, PRIORITY, SOFTMAX, Program, programs, same
from hlo_cli import parse_module
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse

FEW = ("h100_sxm-s004", "b200-layernorm")
"""Programs of `make test`."""
PASSES = (*GEMM_PASSES, SOFTMAX)
HOME_OF_TIMES = Path(__file__).parent.parent / "fixtures" / "gpu_gemm"


def different(found: list[Program]) -> tuple[list[str], Counter[bool]]:
    """Programs whose module differs after the pass, and how many it changed."""
    wrong, count = [], Counter[bool]()
    for program in found:
        if (around := program.around(SOFTMAX, PASSES)) is not None:
            before, after = around
            count[before != after] += 1
            if not same(gpu_fuse(parse_module(before), program.chip, passes=("softmax",)).module, after):
                wrong.append(str(program))
    return wrong, count


def test_kernels_and_tiles_are_those_of_xla() -> None:
    wrong, count = different([each for each in programs() if str(each) in FEW])
    assert (wrong, count[True]) == ([], len(FEW))


@pytest.mark.slow
def test_kernels_and_tiles_of_all_programs_are_those_of_xla() -> None:
    wrong, count = different(programs())
    assert wrong == []
    assert min(count[True], count[False]) > 1


@pytest.mark.oracle
@pytest.mark.long
def test_kernels_and_tiles_of_a_corpus_are_those_of_xla() -> None:
    wrong, count = different(programs(CORPUS))
    assert len(wrong) <= 0.02 * count.total(), (wrong, count)


def times(home: Path) -> Iterator[tuple[object, object]]:
    """Our tilings, valid ones, and times of each normalization, in quarters of a nanosecond, and those of XLA."""
    for path in home.glob("**/diamond_times.json"):
        theirs = json.loads(path.read_text(encoding="utf-8"))
        for program in programs(path.parent):
            around = program.around(SOFTMAX, PASSES)
            name = program.path.name.removesuffix(".gz")
            if around is None or name not in theirs:
                continue
            found = gpu_fuse(parse_module(around[0]), program.chip, passes=("softmax",)).softmaxes
            ours = sorted(
                (
                    each.producer,
                    each.tilings,
                    each.valid,
                    each.tiling and each.tiling.ticks / 4,
                    each.unfused_ticks and each.unfused_ticks / 4,
                )
                for each in found
            )
            yield ours, sorted((t["ops"][0], t["tilings"], t["valid"], t["fused"], t["unfused"]) for t in theirs[name])


def test_times_are_those_of_xla() -> None:
    found = list(times(HOME_OF_TIMES))
    assert found
    assert [ours for ours, _ in found] == [theirs for _, theirs in found]


@pytest.mark.oracle
@pytest.mark.long
def test_times_of_a_corpus_are_those_of_xla() -> None:
    found = list(times(CORPUS))
    assert sum(ours != theirs for ours, theirs in found) <= 0.02 * len(found)


def kernels(module: Module) -> Counter[tuple[object, ...]]:
    """The kernels of Triton with their operations and tiles."""
    found = Counter[tuple[object, ...]]()
    for each in module.instructions:
        config = (each.attribute("backend_config") or "").replace(" ", "")
        if each.opcode == "fusion" and '"kind":"__triton"' in config:
            inside = sorted(i.opcode for i in each.called_computations[0].instructions if i.opcode != "parameter")
            found[str(each.shape), tuple(inside), str(json.loads(config))] += 1
    return found


def grown(found: list[Program]) -> Counter[bool]:
    """Whether the kernels of Triton after priority fusion are XLA's, with their tiles and warps."""
    count = Counter[bool]()
    for program in found:
        around = program.around(PRIORITY) if PRIORITY in program.passes else None
        if around is not None and '"__triton"' in around[0]:
            ours = gpu_fuse(parse_module(around[0]), program.chip, passes=("priority",)).module
            count[kernels(ours) == kernels(parse_module(around[1]))] += 1
    return count


@pytest.mark.slow
def test_priority_fusion_goes_on_into_kernels_of_triton() -> None:
    assert grown([each for each in programs() if str(each) in FEW]) == {True: len(FEW)}


@pytest.mark.oracle
@pytest.mark.long
def test_priority_fusion_of_a_corpus_goes_on_into_kernels_of_triton() -> None:
    """Attention has bitcasts and iotas inside, whose tiles are not modeled."""
    found = grown(programs(CORPUS))
    assert found[False] <= max(1, 0.15 * found.total()), found


def test_a_row_that_no_block_holds_stays_apart() -> None:
    text = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[8,20000] parameter(0)  z = f32[] constant(0)
    r = f32[8] reduce(x, z), dimensions={1}, to_apply=add  b = f32[8,20000] broadcast(r), dimensions={0}
    ROOT d = f32[8,20000] divide(x, b) }"""
    (found,) = gpu_fuse(parse_module(text), "h100", passes=("softmax",)).softmaxes
    assert (found.fusion, found.reason, found.valid) == ("", "No valid tilings found", 0)
    assert gpu_device("h100").capability == 90
