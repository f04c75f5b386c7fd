"""Pallas kernels of real dumps compute what their source says; what cannot be evaluated is named before anything runs."""

from __future__ import annotations

import base64
import json
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest

from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.run import refusals, run
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.kernel_values import grid
from hlo_cli.analysis.kernel_values.grid import kernel_of_call
from hlo_cli.analysis.semantics.typed_values import array_of, rounded
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

Array = npt.NDArray[Any]
CHIPS = ("v5e", "v6e")
BF16 = 2**-7  # two roundings of bf16


@cache
def dump(chip: str) -> Module:
    """The dump with one kernel of each kind."""
    return parse_module((FIXTURES / f"tpu/{chip}_kernels/after_optimizations.txt").read_text())


def call_of(chip: str, kernel: str) -> Instruction:
    """The call of a kernel."""
    return next(each for each in dump(chip).instructions if each.name == f"{kernel}.1")


def result_of(chip: str, kernel: str, *operands: Array, floats: Any = "exact") -> Array:
    """What a kernel returns."""
    return array_of(kernel_of_call(call_of(chip, kernel), floats, 1000, lambda: None)(*operands))


def values(*sizes: int, seed: int = 0) -> Array:
    """Numbers that bf16 has."""
    return rounded(np.random.default_rng(seed).uniform(-1, 1, sizes).astype(np.float32), "bf16")


def test_a_matmul_sums_in_scratch_over_the_last_dimension_of_its_grid() -> None:
    """Witness: numpy's product."""
    x, y = values(1024, 512), values(512, 1536, seed=1)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(result_of("v6e", "matmul", x, y), expected, rtol=BF16, atol=BF16)


def test_without_rounding_a_kernel_computes_in_f64() -> None:
    """Widened runs do not round, in a kernel either."""
    x = np.random.default_rng(0).normal(size=(512, 256))
    expected = x.reshape(8, 64, 256).sum(0)
    np.testing.assert_allclose(result_of("v6e", "copied", x, floats="widen"), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("chip", CHIPS)
def test_prefetched_indices_select_the_blocks_of_a_gather(chip: str) -> None:
    """Witness: numpy's indexing."""
    rows = np.random.default_rng(0).integers(0, 512, 96).astype(np.int32)
    table = np.random.default_rng(1).normal(size=(4096, 512)).astype(np.float32)
    expected = table.reshape(512, 8, 512)[rows].reshape(768, 512)
    np.testing.assert_array_equal(result_of(chip, "gather", rows, table), expected)


def test_a_block_outside_of_its_array_is_an_error() -> None:
    """A chip would read what it must not."""
    rows = np.full(96, 512, np.int32)
    with pytest.raises(HloError, match=r"cannot evaluate gather\.1: block \[512, 0\] .* \[4096, 512\]"):
        result_of("v5e", "gather", rows, np.zeros((4096, 512), np.float32))


def test_attention_skips_blocks_above_the_diagonal() -> None:
    """Witness: the softmax of masked scores in f64."""
    q, k, v = (values(4, 1024, 128, seed=seed) for seed in range(3))
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)
    scores = np.where(np.tril(np.ones((1024, 1024), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(result_of("v5e", "attention", q, k, v), expected, rtol=BF16, atol=BF16)


@pytest.mark.parametrize("chip", CHIPS)
def test_copies_by_hand_are_done_when_they_start(chip: str) -> None:
    """Witness: the sum of the blocks, in their order."""
    x = np.random.default_rng(0).normal(size=(512, 256)).astype(np.float32)
    expected = np.zeros((64, 256), np.float32)
    for block in x.reshape(8, 64, 256):
        expected += block
    np.testing.assert_array_equal(result_of(chip, "copied", x), expected)


def test_a_kernel_does_not_write_into_its_operands() -> None:
    """Operands are those of other instructions too."""
    x = np.random.default_rng(0).normal(size=(512, 256)).astype(np.float32)
    kept = x.copy()
    result_of("v5e", "copied", x)
    np.testing.assert_array_equal(x, kept)


def test_an_operation_that_is_not_known_is_named_before_anything_runs() -> None:
    """The error says which operation it is; a stub may stand for the kernel."""
    module = dump("v5e")
    assert not refusals(module)
    known = grid._KNOWN - {"tpu.matmul"}
    with patch.object(grid, "_KNOWN", known):
        found = {instruction.name: reason for instruction, reason in refusals(module)}
    assert found == dict.fromkeys(
        ("matmul.1", "attention.1"),
        "the kernel cannot be evaluated: tpu.matmul in the body of the kernel is not evaluated",
    )


def module_of(call: Instruction, config: object) -> Module:
    """A module of one call with another configuration."""
    operands = [call.operand_shape(at) for at in range(len(call.operands))]
    parameters = "\n".join(f"  p{at} = {shape} parameter({at})" for at, shape in enumerate(operands))
    names = ", ".join(f"p{at}" for at in range(len(operands)))
    target = 'custom_call_target="tpu_custom_call"'
    return parse_module(
        f"HloModule one\nENTRY main {{\n{parameters}\n"
        f"  ROOT call = {call.shape} custom-call({names}), {target}, backend_config={json.dumps(config)}\n}}\n"
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "call has no kernel body in its backend_config"),
        ({"custom_call_config": {"body": "not base64"}}, "'body' is not base64"),
        ({"custom_call_config": {"body": "AAAA"}}, r"expected b'ML\xefR'"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_reason(config: object, reason: str) -> None:
    """It is told before anything runs."""
    [(_, found)] = refusals(module_of(call_of("v5e", "copied"), config))
    assert found.startswith("the kernel cannot be evaluated: ")
    assert reason in found


@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernel", ["copied", "gather"])
def test_damaged_bodies_are_errors(kernel: str, count: int) -> None:
    """A byte that is another one makes another program, or an error, and nothing else."""
    call, choose = call_of("v5e", kernel), Random(0)
    config = json.loads(call.attribute("backend_config") or "")
    data = base64.b64decode(config["custom_call_config"]["body"])
    outcomes = {"runs": 0, "fails": 0, "refused": 0}
    for _ in range(count):
        damaged = bytearray(data)
        damaged[choose.randrange(len(data))] = choose.randrange(256)
        module = module_of(call, {"custom_call_config": {"body": base64.b64encode(damaged).decode()}})
        if refusals(module):
            outcomes["refused"] += 1
            continue
        try:
            run(module, limits=Limits(max_seconds=1))
            outcomes["runs"] += 1
        except HloError:
            outcomes["fails"] += 1
    assert min(outcomes.values()) > 0
