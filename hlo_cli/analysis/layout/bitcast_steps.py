"""Bitcasts as transposes and reshapes: the logical index change when the same bytes get another shape or layout.

`ShapeUtil::TransposeIsBitcast` and `ReshapeIsBitcast` of xla/shape_util.h ignore tiles; here tiles count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from operator import itemgetter
from typing import Literal, TypeAlias

import numpy as np

from hlo_cli.analysis.layout.address_map import INT64, address_blocks
from hlo_cli.analysis.layout.index_functions import IndexFunctions, IntArray, all_sums, index_functions_of, values
from hlo_cli.analysis.layout.inverse_coordinates import Digit, digits_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape

Kind: TypeAlias = Literal["identity", "reshape", "transpose", "reshape and transpose", "transpose and reshape"]

_MAX_ELEMENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class BitcastSteps:
    """Logical operations that are equivalent to a bitcast.

    A "reshape and transpose" is a reshape to `factors`, a transpose by `order`, and a reshape to the result. A
    "transpose and reshape" transposes both arrays to their physical order, in which they are reshapes of each other.
    """

    kind: Kind
    factors: tuple[int, ...]
    order: tuple[int, ...] = ()


def bitcast_steps(before: ArrayShape, after: ArrayShape) -> BitcastSteps | None:
    """Operations equivalent to a bitcast from `before` to `after`; None if elements would have to move.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> bitcast_steps(parse_shape("f32[8,16]{1,0}"), parse_shape("f32[16,8]{0,1}"))
    BitcastSteps(kind='transpose', factors=(8, 16), order=(1, 0))
    >>> bitcast_steps(parse_shape("f32[64,256]{1,0:T(8,128)}"), parse_shape("f32[8,2,8,128]{3,2,1,0}"))
    BitcastSteps(kind='reshape and transpose', factors=(8, 8, 2, 128), order=(0, 2, 1, 3))
    """
    if before.elements != after.elements or before.element_bits != after.element_bits:
        return None
    if _have_same_addresses(before, after):
        return BitcastSteps("identity" if before.sizes == after.sizes else "reshape", before.sizes)
    order = _order_between(before, after)
    if order is not None and _have_same_addresses(permuted(before, order), after):
        return BitcastSteps("transpose", before.sizes, order)
    first, second = (shape.layout.minor_to_major[::-1] for shape in (before, after))
    if _have_same_addresses(permuted(before, first), permuted(after, second)):
        return _in_memory_order(before, after)
    return _common_factors(before, after)


def permuted(shape: ArrayShape, order: Sequence[int]) -> ArrayShape:
    """Transposed array over the same bytes: its dimension k is dimension order[k] of the shape.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(permuted(parse_shape("f32[3,5]{1,0:T(8,128)}"), (1, 0)))
    f32[5,3]{0,1:T(8,128)}
    """
    minor_to_major = tuple(order.index(d) for d in shape.layout.minor_to_major)
    return replace(
        shape,
        dimensions=tuple(shape.dimensions[d] for d in order),
        dynamic_dimensions=tuple(shape.dynamic_dimensions[d] for d in order),
        layout=replace(shape.layout, minor_to_major=minor_to_major),
    )


def _in_memory_order(before: ArrayShape, after: ArrayShape) -> BitcastSteps:
    """Steps between two arrays that are equal in physical order: a reshape between two transposes."""
    refined = _common_factors(before, after)
    return refined if refined is not None else BitcastSteps("transpose and reshape", before.sizes)


def _common_factors(before: ArrayShape, after: ArrayShape) -> BitcastSteps | None:
    """Steps from the common factorization of two unpadded arrays, whose memory has the same digits; None if there is
    none.
    """
    ours, theirs = digits_of(before), digits_of(after)
    if ours is None or theirs is None:
        return None
    places = sorted({place for digits in (ours, theirs) for place, _, _ in digits} | {before.elements})
    factors = []
    for place, beyond in pairwise(places):
        if beyond % place:
            return None
        factors.append((beyond // place, _weight(ours, place), _weight(theirs, place)))
    by_ours = sorted(factors, key=itemgetter(1), reverse=True)
    by_theirs = sorted(factors, key=itemgetter(2), reverse=True)
    order = tuple(by_ours.index(factor) for factor in by_theirs)
    return BitcastSteps("reshape and transpose", *_merged([size for size, _, _ in by_ours], order))


def _weight(digits: Sequence[Digit], place: int) -> int:
    """Distance in row-major order between elements that are `place` positions apart."""
    least, _, weight = max(digit for digit in digits if digit[0] <= place)
    return weight * (place // least)


def _merged(sizes: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Factors and order of the same transpose with adjacent factors merged."""
    starts = [k for k, d in enumerate(order) if k == 0 or d != order[k - 1] + 1]
    runs = [tuple(order[start:end]) for start, end in pairwise([*starts, len(order)])]
    placed = sorted(runs)
    return tuple(prod(sizes[d] for d in run) for run in placed), tuple(placed.index(run) for run in runs)


def _order_between(before: ArrayShape, after: ArrayShape) -> tuple[int, ...] | None:
    """Only transpose that can keep bytes in place: it pairs dimensions in physical order. None if sizes differ."""
    if sorted(before.sizes) != sorted(after.sizes):
        return None
    order = [-1] * after.rank
    for large in (True, False):  # dimensions of size 1 have no position of their own
        here, there = (
            [d for d in shape.layout.minor_to_major if (shape.sizes[d] > 1) == large] for shape in (before, after)
        )
        for d, k in zip(here, there, strict=True):
            if before.sizes[d] != after.sizes[k]:
                return None
            order[k] = d
    return tuple(order)


def _have_same_addresses(before: ArrayShape, after: ArrayShape) -> bool:
    """Whether all elements, in row-major order, have the same linear indices in both arrays.

    If addresses are sums over dimensions, each group of dimensions with the same product is compared on its own.
    """
    if not before.elements:
        return True
    functions = [index_functions_of(shape.tiling) for shape in (before, after)]
    groups = list(_groups(before.sizes, after.sizes))
    if any(each is None or each.combined for each in functions) or any(
        prod(before.sizes[ours]) > _MAX_ELEMENTS for ours, _ in groups
    ):
        return _have_same_addresses_by_block(before, after)
    first, second = (each for each in functions if each is not None)
    return all(
        np.array_equal(_along(first, before.sizes, ours), _along(second, after.sizes, theirs))
        for ours, theirs in groups
    )


def _along(functions: IndexFunctions, sizes: tuple[int, ...], part: slice) -> IntArray:
    return all_sums([values(c, 0, n, INT64) for c, n in zip(functions.single[part], sizes[part], strict=True)], INT64)


def _have_same_addresses_by_block(before: ArrayShape, after: ArrayShape) -> bool:
    ours, theirs = address_blocks(before), address_blocks(after)
    first: IntArray = np.zeros(0, np.int64)
    second = first
    while True:
        if not len(first):
            first = next(ours, first)
        if not len(second):
            second = next(theirs, second)
        count = min(len(first), len(second))
        if not count:
            return True
        if not np.array_equal(first[:count], second[:count]):
            return False
        first, second = first[count:], second[count:]


def _groups(first: tuple[int, ...], second: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Adjacent dimensions of two arrays, split wherever the products of the sizes so far are equal."""
    cuts = [{prod(sizes[:k]): k for k in range(len(sizes) + 1)} for sizes in (first, second)]
    shared = sorted(cuts[0].keys() & cuts[1].keys())
    at = (0, 0)
    for here in shared:
        after = (cuts[0][here], cuts[1][here])
        if after != at:
            yield slice(at[0], after[0]), slice(at[1], after[1])
        at = after
