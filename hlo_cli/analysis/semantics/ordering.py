"""Sorting by any comparison, and the largest elements.

Mirrors `HandleSort` and `HandleTopK` of the evaluator. Sorting is stable, whatever the text says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.elementwise import ordered
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.sort_keys import Order, key_function, order_by, sort_keys, stable_order
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, array_of
from hlo_cli.ir.instruction import Instruction

Less = Callable[[Sequence[Array]], tuple[Array, ...]]


def sort(instruction: Instruction, computed: Computed) -> Kernel:
    """Sorts the operands along a dimension by a comparison of their elements."""
    dimension = instruction.integers("dimensions")[0]
    computation = instruction.called_computations[0]
    keys = [(key, key_function(key, computation, computed)) for key in sort_keys(computation) or ()]
    less = computed.vectorized(computation)

    def kernel(*operands: Value) -> Value:
        moved = [np.moveaxis(array_of(each), dimension, -1) for each in operands]
        sizes = moved[0].shape
        order = order_by([(key, np.broadcast_to(value(moved), sizes)) for key, value in keys]) if keys else None
        if order is None:
            order = sorted_order(moved, less)
        taken = tuple(np.moveaxis(np.take_along_axis(x, order, -1), -1, dimension) for x in moved)
        return taken[0] if len(taken) == 1 else taken

    return kernel


def sorted_order(keys: Sequence[Array], less: Less) -> Order:
    """The stable order of the last dimension: runs of doubling length are merged, all rows at once."""
    length = keys[0].shape[-1]
    rows = [x.reshape(-1, length) for x in keys]
    count = rows[0].shape[0]
    order = np.broadcast_to(np.arange(length), (count, length)).copy()
    width = 1
    while width < length:
        order = _merged(rows, order, width, less)
        width *= 2
    return order.reshape(keys[0].shape)


def _merged(rows: Sequence[Array], order: Order, width: int, less: Less) -> Order:
    """Merges each pair of neighboring runs: every element of the left one finds by binary search what goes before it.

    The elements of the right runs take the places that are left.
    """
    count, length = order.shape
    place = np.arange(length)
    is_left = (place // width % 2 == 0) & (place // width * width + width < length)
    left = place[is_left]
    begin = left // width * width + width
    low = np.zeros((count, len(left)), np.int64)
    high = low + np.minimum(width, length - begin)
    row, mine = np.arange(count)[:, np.newaxis], order[:, is_left]
    values = [x[row, mine] for x in rows]
    while (open_ := low < high).any():
        middle = (low + high) // 2
        other = order[row, np.minimum(begin + middle, length - 1)]
        pairs = [each for x, value in zip(rows, values, strict=True) for each in (x[row, other], value)]
        before = less(pairs)[0]
        low, high = np.where(open_ & before, middle + 1, low), np.where(open_ & ~before, middle, high)
    # a comparison that contradicts itself must not send two elements to one place
    low = np.maximum.accumulate(low.reshape(count, -1, width), axis=-1).reshape(low.shape)
    is_taken = np.zeros(order.shape, bool)
    is_taken[row, left + low] = True
    result = np.empty_like(order)
    result[row, left + low] = mine
    result[~is_taken] = order[:, ~is_left].reshape(-1)
    return result


def top_k(instruction: Instruction, computed: Computed) -> Kernel:
    """The largest, or the smallest, elements of the last dimension with their indices; ties by lower index."""
    count = instruction.integer("k") or 0
    if instruction.attribute("largest") == "false":
        return lambda x: _first_of(x, stable_order(ordered(x)), count)
    return lambda x: largest_first(x, count)


def largest_first(x: Array, count: int) -> Value:
    """The largest elements of the last dimension and their indices; NaN is larger than all numbers.

    >>> [each.tolist() for each in largest_first(np.array([1, 3, 3, 2]), 2)]
    [[3, 3], [1, 2]]
    """
    return _first_of(x, stable_order(np.invert(ordered(x))), count)


def _first_of(x: Array, order: Order, count: int) -> Value:
    taken = order[..., :count]
    return np.take_along_axis(x, taken, -1), taken.astype(np.int32)


HANDLERS: Final[dict[str, Rule]] = {"sort": sort, "topk": top_k}
"""The rule of each opcode that orders."""
