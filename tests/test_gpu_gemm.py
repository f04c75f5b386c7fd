"""Dots on GPU: split-K, kernels of Triton, hoisted bitcasts, and swapped operands are those that XLA made.

Expectations are XLA's own: texts between passes that jaxlib 0.10.2 wrote while it compiled for an H100, an A100, and a
B200. `make judge` takes all programs below `HLO_CORPUS`, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_gemm_states import CORPUS, GEMM, GEMM_PASSES, HOIST, SPLIT_K, SWAP, Program, programs, same
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.dimension_order import is_elementwise_in_triton
from hlo_cli.analysis.fusion.gemm_tiles import candidate_tiles
from hlo_cli.analysis.fusion.mutable_graph import MutableGraph, mutable_graph_of
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, gpu_device
from hlo_cli.ir import opcodes
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion.fused_nodes import rebuild
from hlo_cli.transform.fusion.gemm_fusion import TINY, FusedDot, fuse_dots
from hlo_cli.transform.fusion.gemm_rewrites import NodeMaker, hoist_bitcasts, split_dots, swap_operands
from hlo_cli.transform.fusion.gpu_fusion import gpu_computations
from hlo_cli.transform.rewriting import ModuleNames

AUTOTUNER = "autotuner [autotuner]"
NOTHING = "ENTRY e { ROOT p = f32[] parameter(0) }"
Rewrite = Callable[[MutableGraph, GpuDevice, NodeMaker], object]
REWRITES: dict[str, Rewrite] = {
    SPLIT_K: split_dots,
    GEMM: fuse_dots,
    HOIST: lambda graph, _, maker: hoist_bitcasts(graph, maker),
    SWAP: lambda graph, _, maker: swap_operands(graph, maker),
}


def rewritten(text: str, chip: str, rewrite: Rewrite) -> Module:
    module = parse_module(text)
    maker = NodeMaker(ModuleNames(module))
    graphs = {each: mutable_graph_of(each, text) for each in gpu_computations(module)}
    for graph in graphs.values():
        rewrite(graph, gpu_device(chip), maker)
    return rebuild(replace(module, computations=(*maker.computations, *module.computations)), graphs)


def different(one: str, found: list[Program]) -> tuple[list[str], Counter[bool]]:
    """Programs whose module differs after a pass, and how many the pass changed."""
    wrong, count = [], Counter[bool]()
    for program in found:
        if (around := program.around(one, GEMM_PASSES)) is not None:
            before, after = around
            count[before != after] += 1
            if not same(rewritten(before, program.chip, REWRITES[one]), after):
                wrong.append(str(program))
    return wrong, count


FEW = ("h100_sxm-int4", "h100_sxm-trans_out")
"""Programs of `make test`: together, all passes change them."""


def test_modules_after_each_pass_are_those_of_xla() -> None:
    few = [each for each in programs() if str(each) in FEW]
    for one in GEMM_PASSES:
        wrong, count = different(one, few)
        assert wrong == []
        assert count[True], one


@pytest.mark.slow
@pytest.mark.parametrize("one", GEMM_PASSES)
def test_modules_of_all_programs_are_those_of_xla(one: str) -> None:
    wrong, count = different(one, programs())
    assert wrong == []
    assert min(count[True], count[False]) > 1, "the programs have nothing for the pass to do, or to leave"


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("one", GEMM_PASSES)
def test_modules_of_a_corpus_are_those_of_xla(one: str) -> None:
    wrong, count = different(one, programs(CORPUS))
    assert len(wrong) <= 0.01 * count.total(), (wrong, count)


def fused(text: str, chip: str = "h100") -> list[FusedDot]:
    module = parse_module(text)
    graph = mutable_graph_of(module.entry, text)
    return fuse_dots(graph, gpu_device(chip), NodeMaker(ModuleNames(module)))


def test_each_dot_says_why_it_stops_or_stays() -> None:
    dot = "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    (kernel,) = fused(f"""ENTRY e {{ a = f32[64,64] parameter(0)  p = f32[64,64] parameter(1)
    b = f32[64,64] sign(p)  d = f32[64,64] {dot}  s = f32[64,64] sign(d)  ROOT n = f32[64,64] negate(s) }}""")
    assert [(each.operation, each.side, each.reason) for each in kernel.stops] == [
        ("b", 1, "Unsupported elementwise operation."),
        ("s", 2, "Unsupported elementwise operation."),
    ]
    (tiny,) = fused(f"ENTRY e {{ a = f32[2,2] parameter(0)  b = f32[2,2] parameter(1)  ROOT d = f32[2,2] {dot} }}")
    assert (tiny.fusion, tiny.reason) == ("", TINY)


@pytest.mark.parametrize(("opcode", "arguments"), [("add", 3), ("multiply", 2)])
def test_a_product_of_two_matrices_does_not_join(opcode: str, arguments: int) -> None:
    """As jaxlib 0.10.2 compiles `(a * c) @ b` and `(a + c) @ b` for an H100."""
    text = f"""ENTRY e {{ a = f16[512,2048] parameter(0)  c = f16[512,2048] parameter(1)  b = f16[2048,128] parameter(2)
    x = f16[512,2048] {opcode}(a, c)
    ROOT d = f16[512,128] dot(x, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    module = parse_module(text)
    graph = mutable_graph_of(module.entry, text)
    fuse_dots(graph, gpu_device("h100"), NodeMaker(ModuleNames(module)))
    assert graph.root is not None
    assert len(graph.root.operands) == arguments


def test_types_depend_on_the_chip() -> None:
    text = """ENTRY e { a = f8e4m3fn[64,64] parameter(0)  b = f8e4m3fn[64,64] parameter(1)
    ROOT d = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    assert [bool(fused(text, chip)[0].fusion) for chip in ("a100-80gb", "h100", "b200")] == [False, True, True]
    assert not is_elementwise_in_triton("not", "s32")
    assert is_elementwise_in_triton("not", "pred")


# --- tiles ---


def tiles_of(program: Program) -> Counter[bool]:
    """Whether the first candidate of each kernel of a dot is the tile that XLA took without a GPU."""
    found = Counter[bool]()
    for fusion in parse_module(dict(program.states).get(AUTOTUNER, NOTHING)).instructions:
        config = fusion.attribute("backend_config") or ""
        if '"kind":"__triton_gemm"' in config:
            chosen = json.loads(config)["fusion_backend_config"]["triton_gemm_config"]
            names = ("block_m", "block_n", "block_k", "num_warps", "num_stages")
            body = mutable_graph_of(fusion.called_computations[0])
            dot = next(node for node in body.nodes if node.opcode == opcodes.DOT)
            first = candidate_tiles(dot, gpu_device(program.chip))[0]
            found[tuple(first)[: len(names)] == tuple(int(chosen[name]) for name in names)] += 1
    return found


@pytest.mark.slow
def test_the_first_tile_is_the_one_that_xla_takes_without_a_gpu() -> None:
    found = sum(map(tiles_of, programs()), Counter[bool]())
    assert found[False] == 0
    assert found[True] > 10


@pytest.mark.oracle
@pytest.mark.long
def test_first_tiles_of_a_corpus_are_those_of_xla() -> None:
    found = sum(map(tiles_of, programs(CORPUS)), Counter[bool]())
    assert found[False] <= 0.01 * found.total(), found


@pytest.mark.parametrize(("chip", "count"), [("a100-80gb", 21), ("h100", 19), ("b200", 26)])
def test_a_gpu_would_try_as_many_tiles_as_xla_has(chip: str, count: int) -> None:
    """Numbers of candidates are XLA's, of the example in its documentation, from its log."""
    text = """ENTRY e { a = bf16[1024,512] parameter(0)  b = bf16[512,2048] parameter(1)
    ROOT d = bf16[1024,2048] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    root = mutable_graph_of(parse_module(text).entry).root
    assert root is not None
    assert len(candidate_tiles(root, gpu_device(chip))) == count
