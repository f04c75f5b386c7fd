"""Reducers that are one function of numpy, and windows of them that move over arrays.

The reducer of a `reduce-window` is associative by the definition of the opcode, so elements may be grouped in any way
as long as their order stays: one dimension after another, and a window of n elements by log n calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.shaping import padded
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.instruction import Computation

Arrays = tuple[Array, ...]
Merge = Callable[[Arrays, Arrays], Arrays]
"""Combines the arrays of earlier elements with those of later ones."""

_BLOCK: Final = 1 << 19
"""The elements that are combined at once where the first dimension has no window, so that they stay in the cache."""
_SHORT: Final = 4
"""The largest window whose elements are combined one after another."""

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


def paddings(window: Sequence[WindowDimension]) -> list[tuple[int, int, int]]:
    """The padding of each dimension, and between its elements, as `padded` takes it.

    >>> paddings([WindowDimension(3, padding_low=1, base_dilation=2)])
    [(1, 0, 1)]
    """
    return [(each.padding_low, each.padding_high, each.base_dilation - 1) for each in window]


def combined_windows(x: Array, window: Sequence[WindowDimension], function: np.ufunc, identity: object) -> Array:
    """The elements of each window combined by a function; padding and holes are its identity.

    >>> x, window = np.arange(5.0), [WindowDimension(5, padding_low=4)]
    >>> combined_windows(x, window, np.add, 0.0).tolist()
    [0.0, 1.0, 3.0, 6.0, 10.0]
    """

    def merge(left: Arrays, right: Arrays) -> Arrays:
        return (np.asarray(function(left[0], right[0])),)

    def block(part: Array) -> Array:
        config = paddings(window)
        spread = padded(part, np.array(identity, part.dtype), config) if any(map(any, config)) else part
        return merged_windows((spread,), window, merge)[0]

    lines = max(1, _BLOCK // max(1, prod(x.shape[1:])))
    if not window or window[0] != WindowDimension(1) or lines >= x.shape[0]:
        return block(x)
    return np.concatenate([block(x[at : at + lines]) for at in range(0, x.shape[0], lines)])


def merged_windows(arrays: Arrays, window: Sequence[WindowDimension], merge: Merge) -> Arrays:
    """The elements of each window of arrays that are padded already, in their order, one dimension after another.

    >>> merged_windows((np.arange(6),), [WindowDimension(5)], lambda x, y: (x[0] + y[0],))
    (array([10, 15]),)
    """
    for axis, each in enumerate(window):
        free = arrays[0].shape[axis] - each.dilated_size
        count = free // each.stride + 1 if free >= 0 else 0
        if count == 0:
            sizes = [count if at == axis else size for at, size in enumerate(arrays[0].shape)]
            arrays = tuple(np.empty(sizes, x.dtype) for x in arrays)
        elif each.size <= _SHORT or each.size <= 2 * each.stride:
            arrays = _one_by_one(arrays, axis, each, count, merge)
        else:
            arrays = _doubled(arrays, axis, each, count, merge)
    return arrays


def _one_by_one(arrays: Arrays, axis: int, each: WindowDimension, count: int, merge: Merge) -> Arrays:
    found = _part(arrays, axis, 0, count, each.stride)
    for at in range(1, each.size):
        found = merge(found, _part(arrays, axis, at * each.window_dilation, count, each.stride))
    return found


def _doubled(arrays: Arrays, axis: int, each: WindowDimension, count: int, merge: Merge) -> Arrays:
    """Windows of 1, 2, 4 … elements, of which the binary digits of the size select some that follow each other."""
    found: Arrays = ()
    width, first = 1, 0
    while True:
        if each.size & width:
            part = _part(arrays, axis, first * each.window_dilation, count, each.stride)
            found = merge(found, part) if found else part
            first += width
        if 2 * width > each.size:
            return found
        reach = width * each.window_dilation
        left = arrays[0].shape[axis] - reach
        arrays = merge(_part(arrays, axis, 0, left, 1), _part(arrays, axis, reach, left, 1))
        width *= 2


def _part(arrays: Arrays, axis: int, start: int, count: int, stride: int) -> Arrays:
    taken = (slice(None),) * axis + (slice(start, start + (count - 1) * stride + 1, stride),)
    return tuple(x[taken] for x in arrays)
