"""Where two computations of scalars part, such as those of a reduce or a sort, whose values no run records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.evaluate.arguments import made_up
from hlo_cli.analysis.evaluate.program import Program
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape

_SAMPLES: Final = 24


def scalar_parting(one: Computation, two: Computation) -> tuple[Instruction, Instruction] | None:
    """The first instruction of `two` that computes something else than its counterpart in `one`, and that one.

    Both run on made-up scalars. None if they compute the same, or have no scalars as parameters.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
    >>> one, two = (parse_module(each).entry for each in (text, text.replace("add", "subtract")))
    >>> scalar_parting(one, one), scalar_parting(one, two)
    (None, (<subtract s>, <add s>))
    """
    if len(one.parameters) != len(two.parameters) or not (_takes_scalars(one) and _takes_scalars(two)):
        return None
    is_parallel = len(one.instructions) == len(two.instructions)
    with np.errstate(all="ignore"):
        for seed in range(_SAMPLES):
            given = [made_up(each.shape, at, seed=seed, floats="widen") for at, each in enumerate(one.parameters)]
            given = [given[0], *given[:-1]] if seed % 4 == 1 else given
            (result, values), (other, others) = (_run(each, given) for each in (one, two))
            if _same(result, other):
                continue
            if is_parallel:
                for x, y in zip(one.instructions, two.instructions, strict=True):
                    if x in values and y in others and not _same(values[x], others[y]):
                        return y, x
            assert one.root is not None
            assert two.root is not None
            return two.root, one.root
    return None


def _takes_scalars(computation: Computation) -> bool:
    shapes = [each.shape for each in computation.parameters]
    return bool(shapes) and all(isinstance(each, ArrayShape) and not each.dimensions for each in shapes)


def _run(computation: Computation, given: Sequence[Value]) -> tuple[Value, dict[Instruction, Value]]:
    values: dict[Instruction, Value] = {}

    def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        values[instruction] = value

    return Program("widen", observe=observe).function(computation)(given), values


def _same(one: Value, two: Value) -> bool:
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return np.array_equal(np.asarray(one, np.complex128), np.asarray(two, np.complex128), equal_nan=True)
