"""Sizes of matrix products: they multiply to the flops, and every product of a dump is found once."""

from __future__ import annotations

from math import prod
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import cost_analysis
from hlo_cli.analysis.cost.matmuls import Matmul, matmuls_of
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers
from strategies import dump_text, dumps, name_of

each_dump = pytest.mark.parametrize("text", [dump_text(p) for p in dumps()], ids=[name_of(p) for p in dumps()])


@each_dump
def test_every_product_is_found_and_its_sizes_are_those_of_its_arrays(text: str) -> None:
    module = parse_module(text)
    found, costs = matmuls_of(module), cost_analysis(module)
    opcodes = ("dot", "scaled-dot", "ragged-dot", "convolution")
    expected = [i for i in module.instructions if i.opcode in opcodes]
    assert [matmul.instruction for matmul in found if matmul.instruction.opcode != "custom-call"] == expected
    for matmul in found:
        if matmul.instruction.opcode != "custom-call":
            assert matmul.flops == costs[matmul.instruction].flops
        if not isinstance(matmul.numbers, ConvolutionDimensionNumbers):
            assert_sizes_of_a_dot(matmul)
        elif matmul.flops:
            assert matmul.batch * matmul.m * matmul.n == matmul.result.elements * batch_groups(matmul)


def assert_sizes_of_a_dot(matmul: Matmul) -> None:
    """Every array has the elements that the sizes say."""
    batch, m, n, k = matmul.batch, matmul.m, matmul.n, matmul.k
    assert batch * m * n == matmul.result.elements
    assert batch * m * k == matmul.lhs.elements
    assert batch * k * n == matmul.rhs.elements


def batch_groups(matmul: Matmul) -> int:
    """Into how many parts a convolution divides its batch."""
    return matmul.instruction.integer("batch_group_count") or 1


def test_random_dots_have_the_sizes_that_they_were_made_of() -> None:
    for seed in range(200):
        random = Random(seed)
        parts = {part: [random.choice((2, 3, 5)) for _ in range(random.randrange(3))] for part in "bmnk"}
        (lhs, lhs_order), (rhs, rhs_order) = shuffled(random, parts, "bmk"), shuffled(random, parts, "bkn")
        dims = {
            "lhs_batch_dims": lhs_order["b"],
            "lhs_contracting_dims": lhs_order["k"],
            "rhs_batch_dims": rhs_order["b"],
            "rhs_contracting_dims": rhs_order["k"],
        }
        attributes = ", ".join(f"{name}={{{','.join(map(str, listed))}}}" for name, listed in dims.items() if listed)
        result = ",".join(map(str, (*parts["b"], *parts["m"], *parts["n"])))
        text = f"r = f32[{result}] dot(bf16[{lhs}] a, bf16[{rhs}] b){', ' if attributes else ''}{attributes}"
        (found,) = matmuls_of(parse_module(text))
        assert [found.batch, found.m, found.n, found.k] == [prod(parts[part]) for part in "bmnk"]


def shuffled(random: Random, parts: dict[str, list[int]], names: str) -> tuple[str, dict[str, list[int]]]:
    """The sizes of an operand in random order, and where each part's dimensions stand in it."""
    labelled = [(name, i) for name in names for i in range(len(parts[name]))]
    placed = random.sample(labelled, len(labelled))
    sizes = ",".join(str(parts[name][i]) for name, i in placed)
    return sizes, {name: [placed.index((name, i)) for i in range(len(parts[name]))] for name in names}


@pytest.mark.parametrize("direction", ["Forward", "BackwardInput", "BackwardFilter"])
def test_the_gradients_of_a_convolution_take_as_many_flops_as_itself(direction: str) -> None:
    inputs, kernel, output = "f32[8,16,32,32]", "f32[64,16,3,3]", "f32[8,64,32,32]"
    operands, result = {
        "Forward": ((inputs, kernel), output),
        "BackwardInput": ((output, kernel), inputs),
        "BackwardFilter": ((inputs, output), kernel),
    }[direction]
    call = f'custom-call({operands[0]} a, {operands[1]} b), custom_call_target="__cudnn$conv{direction}"'
    labels = "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"
    (found,) = matmuls_of(parse_module(f"r = ({result}, u8[99]) {call}, {labels}"))
    assert (found.kind, found.m, found.n, found.k) == ("cuDNN", 8 * 32 * 32, 64, 16 * 9)
    assert found.flops == 2 * 8 * 64 * 16 * (3 * 32 - 2) ** 2


def test_a_product_knows_the_outermost_fusion_around_it() -> None:
    module = parse_module("""
        inner { a = f32[2,3] parameter(0)  b = f32[3,5] parameter(1)
          ROOT d = f32[2,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
        outer { a = f32[2,3] parameter(0)  b = f32[3,5] parameter(1)
          ROOT f = f32[2,5] fusion(a, b), kind=kOutput, calls=inner }
        ENTRY e { a = f32[2,3] parameter(0)  b = f32[3,5] parameter(1)
          ROOT g = f32[2,5] fusion(a, b), kind=kOutput, calls=outer }""")
    (found,) = matmuls_of(module)
    assert found.fusion is module.instruction("g")
