"""Where two computations of scalars part, such as those of a reduce or a sort, whose values no run records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.comparison.trace import arrays_in
from hlo_cli.analysis.evaluate.arguments import made_up
from hlo_cli.analysis.evaluate.program import Program
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape

_SAMPLES: Final = 48
_SPECIAL: Final = (float("nan"), float("inf"), 0.0, -0.0)


def scalar_difference(one: Computation, two: Computation) -> tuple[Instruction, Instruction] | None:
    """The first instruction of `two` that computes something else than its counterpart in `one`, and that one.

    Both run on made-up scalars. None if they compute the same, or have no scalars as parameters.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
    >>> one, two = (parse_module(each).entry for each in (text, text.replace("add", "subtract")))
    >>> scalar_difference(one, one), scalar_difference(one, two)
    (None, (<subtract s>, <add s>))
    """
    if len(one.parameters) != len(two.parameters) or not (_takes_scalars(one) and _takes_scalars(two)):
        return None
    assert one.root is not None
    assert two.root is not None
    given = list(_samples(one))
    with np.errstate(all="ignore"):
        olds, news = (_values(each, given) for each in (one, two))
    if olds[one.root] == news[two.root]:
        return None
    for x, y in zip(one.instructions, two.instructions, strict=False):
        if x.operands and olds[x] != news[y]:
            if sorted(olds[each] for each in x.operands) == sorted(news[each] for each in y.operands):
                return y, x
            break
    known = set(olds.values())
    wrong = {each for each, found in news.items() if each.operands and found not in known}
    return next((each for each in news if each in wrong and wrong.isdisjoint(each.operands)), two.root), one.root


def _samples(computation: Computation) -> Iterator[tuple[Value, ...]]:
    """Made-up scalars; some parameters get the value of the one before, or one that is not finite."""
    kinds = [each.shape for each in sorted(computation.parameters, key=lambda each: each.parameter_number or 0)]
    for seed in range(_SAMPLES):
        given = [made_up(each, at, seed=seed, floats="widen") for at, each in enumerate(kinds)]
        for at in range(1, len(given)):
            like = next((place for place in range(at) if str(kinds[place]) == str(kinds[at])), None)
            if like is not None and (seed >> (at - 1)) % 3 == 1:
                given[at] = given[like]
        place = seed % len(given)
        if seed % 4 == 0 and isinstance(shape := kinds[place], ArrayShape) and shape.element_type.kind == "float":
            given[place] = np.array(_SPECIAL[seed // 4 % len(_SPECIAL)])
        yield tuple(given)


def _takes_scalars(computation: Computation) -> bool:
    shapes = [each.shape for each in computation.parameters]
    return bool(shapes) and all(isinstance(each, ArrayShape) and not each.dimensions for each in shapes)


def _values(computation: Computation, samples: Sequence[Sequence[Value]]) -> dict[Instruction, tuple[str, ...]]:
    """The values of each instruction for all samples, as text, in which NaN is equal to itself."""
    found: dict[Instruction, list[str]] = {}

    def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        found.setdefault(instruction, []).append(repr(tuple(np.asarray(each).item() for each in arrays_in(value))))

    function = Program("widen", observe=observe).function(computation)
    for parameter in computation.parameters:
        found[parameter] = [
            repr(tuple(np.asarray(each).item() for each in arrays_in(sample[parameter.parameter_number or 0])))
            for sample in samples
        ]
    for sample in samples:
        function(sample)
    return {instruction: tuple(values) for instruction, values in found.items()}
