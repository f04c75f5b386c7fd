"""Work grows with the module in proportion: executed lines are counted, as clocks differ between machines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from hlo_cli import memory_analysis, parse_module
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion import cpu_fusion
from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse

A = "f32[8,128]{1,0}"


def _lines(work: Callable[[Module], object], module: Module) -> int:
    """Lines executed by some work; each turn of a comprehension counts."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work(module)
    finally:
        sys.settrace(before)
    return count


def branches(count: int) -> str:
    """One conditional of many branches."""
    bodies = "\n".join(f"b{k} {{ p = {A} parameter(0)  ROOT n = {A} negate(p) }}" for k in range(count))
    called, operands = ", ".join(f"b{k}" for k in range(count)), ", ".join(["p"] * count)
    conditional = f"ROOT c = {A} conditional(i, {operands}), branch_computations={{{called}}}"
    return f"HloModule m\n{bodies}\nENTRY e {{ i = s32[] parameter(0)  p = {A} parameter(1)\n{conditional} }}"


def shared(count: int) -> str:
    """Sums of sums, all of which become one kernel."""
    lines = [f"v{k + 1} = {A} add(v{k}, p)" for k in range(count)]
    return "\n".join(
        [
            "HloModule m\nENTRY e {",
            f"p = {A} parameter(0)",
            f"v0 = {A} negate(p)",
            *lines,
            f"ROOT r = {A} tanh(v{count}) }}",
        ]
    )


def wide(count: int) -> str:
    """Many operations that a tuple has as operands, each of which becomes a kernel."""
    lines = [f"v{k} = {A} multiply(p, p)" for k in range(count)]
    names, shapes = ", ".join(f"v{k}" for k in range(count)), ", ".join([A] * count)
    return "\n".join(
        ["HloModule m\nENTRY e {", f"p = {A} parameter(0)", *lines, f"ROOT r = ({shapes}) tuple({names}) }}"]
    )


def constants(count: int) -> str:
    """Sums with constant arrays, which all become one kernel and stay outside."""
    literal = "f32[4]{0} constant({1, 2, 3, 4})"
    lines = [f"c{k} = {literal}\nv{k + 1} = f32[4]{{0}} add(v{k}, c{k})" for k in range(count)]
    root = f"ROOT r = f32[4]{{0}} negate(v{count}) }}"
    return "\n".join(["HloModule m\nENTRY e {", "v0 = f32[4]{0} parameter(0)", *lines, root])


@pytest.mark.parametrize(
    ("text", "work"),
    [
        (branches, memory_analysis),
        (shared, cpu_fusion.fuse),
        (wide, cpu_fusion.fuse),
        (constants, cpu_fusion.fuse),
        (wide, partial(gpu_fuse, chip="h100")),
    ],
    ids=["memory of branches", "one kernel", "many kernels", "constants of a kernel", "many kernels of a GPU"],
)
def test_four_times_the_module_takes_four_times_the_work(
    text: Callable[[int], str], work: Callable[[Module], object]
) -> None:
    small, large = parse_module(text(50)), parse_module(text(200))
    work(parse_module(text(10)))  # what is made once
    first, last = _lines(work, small), _lines(work, large)
    assert first > 1000
    assert last < 4 * 1.15 * first, last / first
