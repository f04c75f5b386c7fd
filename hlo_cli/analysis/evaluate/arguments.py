"""Made-up arguments: by the type of a parameter and how it is used, the same for the same seed."""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, Floats, carrier, rounded, wrapped
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.ir.primitive import PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

MAX_INTEGER: Final = 3
"""Integers are from 0 to this: as indices, most of them are within bounds."""


def made_up(shape: Shape, number: int, *, seed: int = 0, floats: Floats = "exact") -> Value:
    """A value for parameter `number`: floats are standard normal, integers small and not negative.

    The numbers depend only on the seed, the number of the parameter, and its sizes, so that two dumps of one program
    get the same. None for tokens.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> made_up(parse_shape("s32[4]"), 0).tolist()
    [3, 2, 2, 1]
    """
    if isinstance(shape, TupleShape):
        return tuple(
            made_up(each, number * 1000 + at + 1, seed=seed, floats=floats) for at, each in enumerate(shape.elements)
        )
    if not isinstance(shape, ArrayShape):
        return None
    random = np.random.default_rng([seed, number])
    return _array(random, shape.element_type, shape.dimensions, floats)


def _array(random: np.random.Generator, kind: PrimitiveType, sizes: tuple[int, ...], floats: Floats) -> Array:
    match kind.kind:
        case "pred":
            return random.integers(0, 2, sizes).astype(bool)
        case "signed" | "unsigned":
            return wrapped(np.asarray(random.integers(0, MAX_INTEGER, sizes, endpoint=True)), kind)
        case "float":
            drawn = rounded(np.asarray(random.standard_normal(sizes), np.float32), kind.name)
            return drawn.astype(carrier(kind, floats))
        case _:
            parts = random.standard_normal((2, *sizes))
            return np.asarray((parts[0] + 1j * parts[1]).astype(np.complex64)).astype(carrier(kind, floats))
