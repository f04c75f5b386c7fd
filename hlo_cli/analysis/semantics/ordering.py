"""Sorting by any comparison, and the largest elements.

Mirrors `HandleSort` and `HandleTopK` of the evaluator. Sorting is stable, whatever the text says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from hlo_cli.analysis.semantics.elementwise import ordered
from hlo_cli.analysis.semantics.number_types import Array
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Value, array_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction

Less = Callable[[Sequence[Array]], tuple[Array, ...]]


def sort(instruction: Instruction, computed: Computed) -> Kernel:
    """Sorts the operands along a dimension by a comparison of their elements."""
    dimension = instruction.integers("dimensions")[0]
    computation = instruction.called_computations[0]
    less = computed.vectorized(computation)
    plain = plain_comparison(computation)

    def kernel(*operands: Value) -> Value:
        moved = [np.moveaxis(array_of(each), dimension, -1) for each in operands]
        order = None if plain is None else _plain_order(moved[plain.operand], plain)
        if order is None:
            order = sorted_order(moved, less)
        taken = tuple(np.moveaxis(np.take_along_axis(x, order, -1), -1, dimension) for x in moved)
        return taken[0] if len(taken) == 1 else taken

    return kernel


@dataclass(frozen=True, slots=True)
class PlainComparison:
    """A comparison of one operand's elements: by their total order, or by value."""

    operand: int
    is_ascending: bool
    is_total: bool


def plain_comparison(computation: Computation) -> PlainComparison | None:
    """What a computation compares, if it is one comparison of two elements of one operand; else None.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }"
    >>> plain_comparison(parse_module(text).entry)
    PlainComparison(operand=0, is_ascending=True, is_total=False)
    """
    root = computation.root
    if root is None or root.opcode != "compare" or len(root.operands) != 2:
        return None
    numbers = [operand.parameter_number for operand in root.operands]
    direction = root.attribute("direction")
    if numbers[0] is None or numbers[1] is None or direction not in ("LT", "GT"):
        return None
    low, high = sorted((numbers[0], numbers[1]))
    if low % 2 or high != low + 1:
        return None
    is_ascending = (direction == "LT") == (numbers[0] == low)
    return PlainComparison(low // 2, is_ascending, root.attribute("type") == "TOTALORDER")


def _plain_order(keys: Array, plain: PlainComparison) -> npt.NDArray[np.int64] | None:
    """The stable order by a plain comparison; None for values that it does not order, such as NaN."""
    if keys.dtype.kind in "fc" and not plain.is_total and bool(np.isnan(keys).any()):
        return None
    if keys.dtype.kind == "c":
        return None
    numbers = ordered(keys) if plain.is_total else keys
    if plain.is_ascending:
        return np.argsort(numbers, axis=-1, kind="stable")
    flipped = np.argsort(np.flip(numbers, -1), axis=-1, kind="stable")
    return np.asarray(np.flip(keys.shape[-1] - 1 - flipped, -1))


def sorted_order(keys: Sequence[Array], less: Less) -> npt.NDArray[np.int64]:
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


def _merged(rows: Sequence[Array], order: npt.NDArray[np.int64], width: int, less: Less) -> npt.NDArray[np.int64]:
    """Merges each pair of neighboring runs: every element finds its rank in the other run by binary search."""
    count, length = order.shape
    place = np.arange(length)
    run = place // width
    is_left = run % 2 == 0
    begin = np.where(is_left, (run + 1) * width, (run - 1) * width)
    low = np.minimum(begin, length) + np.zeros((count, 1), np.int64)
    high = np.minimum(begin + width, length) + np.zeros((count, 1), np.int64)
    first = low.copy()
    row = np.arange(count)[:, np.newaxis]
    while (open_ := low < high).any():
        middle = np.minimum((low + high) // 2, length - 1)
        mine, other = order, order[row, middle]
        pairs: list[Array] = []
        flipped: list[Array] = []
        for x in rows:
            a, b = x[row, mine], x[row, other]
            pairs += [b, a]
            flipped += [a, b]
        # an element of the left run goes before equal ones of the right run
        before = np.where(is_left, less(pairs)[0], ~np.asarray(less(flipped)[0], bool))
        low, high = np.where(open_ & before, middle + 1, low), np.where(open_ & ~before, middle, high)
    base = np.where(is_left, run * width, (run - 1) * width)
    target = base + (place - run * width) + (low - first)
    result = np.empty_like(order)
    result[row, target] = order
    return result


def top_k(instruction: Instruction, computed: Computed) -> Kernel:
    """The largest, or the smallest, elements of the last dimension with their indices; ties by lower index."""
    count = instruction.integer("k") or 0
    if instruction.attribute("largest") == "false":
        return lambda x: _first_of(x, np.argsort(ordered(x), axis=-1, kind="stable"), count)
    return lambda x: largest_first(x, count)


def largest_first(x: Array, count: int) -> Value:
    """The largest elements of the last dimension and their indices; NaN is larger than all numbers.

    >>> [each.tolist() for each in largest_first(np.array([1, 3, 3, 2]), 2)]
    [[3, 3], [1, 2]]
    """
    keys = ordered(x)
    order = x.shape[-1] - 1 - np.argsort(np.flip(keys, -1), axis=-1, kind="stable")
    return _first_of(x, np.flip(order, -1), count)


def _first_of(x: Array, order: npt.NDArray[np.int64], count: int) -> Value:
    taken = order[..., :count]
    return np.take_along_axis(x, taken, -1), taken.astype(np.int32)


HANDLERS: Final[dict[str, Rule]] = {"sort": sort, "topk": top_k}
"""The rule of each opcode that orders."""
