"""Reducers that are one function of numpy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.ir.instruction import Computation

_KNOWN: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
}

SUMS: Final = (np.add, np.multiply)
"""Those that round, so that the order of elements matters."""
OF_PREDICATES: Final[dict[str, np.ufunc]] = {
    "add": np.logical_or,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
    "multiply": np.logical_and,
}
"""What the functions are of booleans, by their names."""


def plain_reducer(computation: Computation) -> np.ufunc | None:
    """The function of a computation that applies it to its two parameters; None for any other computation.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
    >>> plain_reducer(parse_module(text).entry) is np.add
    True
    """
    root = computation.root
    if root is None or len(computation.instructions) != 3 or root.opcode not in _KNOWN or len(root.operands) != 2:
        return None
    numbers = {operand.parameter_number for operand in root.operands}
    return _KNOWN[root.opcode] if numbers == {0, 1} else None


def identity_of(name: str, kind: np.dtype[Any]) -> Array:
    """What a function of numpy leaves as it is; -0 for sums, which +0 would change.

    >>> identity_of("maximum", np.dtype(np.int8)).tolist(), identity_of("minimum", np.dtype(np.float32)).tolist()
    (-128, inf)
    """
    if _KNOWN[name] in SUMS:
        return np.array(1 if name == "multiply" else -0.0 if kind.kind == "f" else 0, kind)
    if kind.kind == "b":
        return np.array(name == "minimum")
    if kind.kind == "f":
        return np.array(np.inf if name == "minimum" else -np.inf, kind)
    return np.array(np.iinfo(kind).max if name == "minimum" else np.iinfo(kind).min, kind)
