"""Where every element of an array lies, as numpy arrays: the whole map, in blocks, and for any elements asked for.

The numbers are slots counted in elements, as `LayoutUtil::LinearIndexForNestedTiling` of xla/layout_util.h gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from hlo_cli.analysis.layout.index_functions import (
    Combined,
    Curve,
    Curves,
    IntArray,
    Linear,
    Tiled,
    broadcast_add,
    curves_of,
    sums,
    values,
)
from hlo_cli.analysis.layout.indices import addressable, out_of_range
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.ir.tiling import Tiling, unravel
from hlo_cli.source import HloError

INT64 = np.dtype(np.int64)
BLOCK = 1 << 14
"""Elements handled at a time, so that what is made of them stays in the processor's cache."""
_LONGEST_TABLE = 1 << 16


def address_map(shape: Shape, out: IntArray | None = None) -> IntArray:
    """The linear index of every element, in an array of the shape's own sizes.

    The sum shown for `f32[3,5]{1,0:T(2,2)}`: element (2,3) gets ((2 // 2) * 3 + 3 // 2) * 4 + (2 % 2) * 2 + 3 % 2 = 17.
    `out` receives the numbers instead of a new int64 array; HloError if it has other sizes or too few bits.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> address_map(parse_shape("f32[3,5]{1,0:T(2,2)}"))
    array([[ 0,  1,  4,  5,  8],
           [ 2,  3,  6,  7, 10],
           [12, 13, 16, 17, 20]])
    """
    shape = addressable(shape)
    tiling = shape.tiling
    out = allocate_output(shape.sizes, tiling.slots, out)
    if not out.size:
        return out
    if not out.flags.c_contiguous:
        out[...] = address_map(shape)
        return out
    curves = curves_of(tiling)
    if curves is None:
        _fill(out.reshape(-1), tiling, shape.sizes)
    elif (axes := _axes(curves, shape.sizes)) is None:
        _add_up(curves, shape.sizes, out)
    elif len(axes) == 1:
        values(*axes[0], out.dtype, out.reshape(-1))
    else:
        sums([values(*axis, out.dtype) for axis in axes], out.dtype, out.reshape(-1))
    return out


def address_blocks(shape: ArrayShape, size: int = 1 << 20) -> Iterator[IntArray]:
    """The address map in row-major order, in pieces of at most about `size` elements: memory does not grow with it.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> [block.tolist() for block in address_blocks(parse_shape("f32[3,5]{1,0:T(2,2)}"), 7)]
    [[0, 1, 4, 5, 8], [2, 3, 6, 7, 10], [12, 13, 16, 17, 20]]
    """
    tiling, sizes = shape.tiling, shape.sizes
    check_int64(tiling.slots, INT64)
    curves = curves_of(tiling)
    if curves is None or curves.joints or not sizes:
        for start in range(0, shape.elements, size):
            ids = np.arange(start, min(start + size, shape.elements))
            yield np.broadcast_to(tiling.linear_index(unravel(ids, sizes)), ids.shape).astype(np.int64, copy=False)
        return
    if not shape.elements:
        return
    at = len(sizes) - 1
    while at > 0 and prod(sizes[at:]) <= size:
        at -= 1
    within = sums(
        [values(c, 0, n, INT64) for c, n in zip(curves.single[at + 1 :], sizes[at + 1 :], strict=True)], INT64
    )
    rows = max(size // len(within), 1)
    for number in range(prod(sizes[:at])):
        base = tiling.linear_index((*unravel(number, sizes[:at]), *(0,) * (len(sizes) - at)))
        for start in range(0, sizes[at], rows):
            major = values(curves.single[at], start, min(start + rows, sizes[at]), INT64)
            yield broadcast_add(major + base, within)


def linear_indices(shape: ArrayShape, indices: IntArray) -> IntArray:
    """The linear index of each of many elements; `indices` has the shape (…, rank), the result (…).

    Negative indices count from the end. HloError if one is out of range.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> linear_indices(parse_shape("f32[3,5]{1,0:T(2,2)}"), np.array([(2, 3), (-3, -1)]))
    array([17,  8])
    """
    rows = np.asarray(indices)
    if rows.size and not np.issubdtype(rows.dtype, np.integer):
        raise HloError(f"indices are whole numbers, not {rows.dtype}")
    if rows.ndim < 1 or rows.shape[-1] != shape.rank:
        last = rows.shape[-1] if rows.ndim else "no"
        raise HloError(f"an index into {shape} has {shape.rank} numbers, the array of indices has {last} in a row")
    check_int64(shape.tiling.slots, INT64)
    lookup = AddressLookup(shape, rows.size)
    flat = rows.reshape(prod(rows.shape[:-1]), shape.rank)
    found = np.empty(len(flat), np.int64)
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        found[start : start + BLOCK] = lookup.at([block[:, d] for d in range(shape.rank)])
    return found.reshape(rows.shape[:-1])


class AddressLookup:
    """Finds the linear indices of any elements by tables along the dimensions, made once."""

    def __init__(self, shape: ArrayShape, count: int) -> None:
        """Tables are no longer than is worth it for `count` look-ups."""
        self._shape = shape
        self._tiling = shape.tiling
        self._curves = curves_of(self._tiling)
        self._longest = max(count // 8, _LONGEST_TABLE)
        self._tables: dict[tuple[Curve, int], IntArray] = {}

    def at(self, columns: Sequence[IntArray]) -> Any:
        """The linear indices of the elements with these coordinates, a column for each dimension."""
        curves, sizes = self._curves, self._shape.sizes
        if curves is None:
            return self._tiling.linear_index(tuple(self._inside(column, d) for d, column in enumerate(columns)))
        found: Any = 0
        for dimension, (curve, column, size) in enumerate(zip(curves.single, columns, sizes, strict=True)):
            if isinstance(curve, Tiled) and size <= self._longest:
                try:
                    found = self._table(curve, size)[column] + found
                except IndexError:
                    raise self._out_of_range(column, dimension) from None
            else:
                found = self._along(curve, self._inside(column, dimension), size) + found
        for joint in curves.joints:
            position: Any = 0
            for dimension, (inner, column, size) in enumerate(zip(joint.inner, columns, sizes, strict=True)):
                if inner is not None:
                    position = self._along(inner, self._inside(column, dimension), size) + position
            found = self._along(joint.curve, position, joint.size) + found
        return found

    def _along(self, curve: Curve, column: IntArray, size: int) -> IntArray:
        match curve:
            case Linear(step=step):
                return column * step
            case Tiled(size=tile) if size > self._longest and tile < size:
                which = column // tile
                there = self._along(curve.where, column - which * tile, tile)
                return self._along(curve.which, which, -(-size // tile)) + there
        return self._table(curve, size)[column]

    def _table(self, curve: Curve, size: int) -> IntArray:
        if (curve, size) not in self._tables:
            self._tables[curve, size] = values(curve, 0, size, INT64)
        return self._tables[curve, size]

    def _inside(self, column: IntArray, dimension: int) -> IntArray:
        """The coordinates, negative ones counted from the end."""
        size = self._shape.sizes[dimension]
        if not column.size:
            return column
        least = int(column.min())
        if int(column.max()) >= size or least < -size:
            raise self._out_of_range(column, dimension)
        return column.astype(np.int64, copy=False) if least >= 0 else np.where(column < 0, column + size, column)

    def _out_of_range(self, column: IntArray, dimension: int) -> HloError:
        size = self._shape.sizes[dimension]
        return out_of_range(self._shape, dimension, int(column[np.argmax((column >= size) | (column < -size))]))


def allocate_output(sizes: tuple[int, ...], slots: int, out: IntArray | None) -> IntArray:
    """An array for numbers below `slots`: `out` if it fits, else a new one."""
    if out is None:
        check_int64(slots, INT64)
        return np.empty(sizes, np.int64)
    if out.shape != sizes:
        raise HloError(f"out has the sizes {list(out.shape)}, not {list(sizes)}")
    check_int64(slots, out.dtype)
    return out


def check_int64(slots: int, dtype: np.dtype[Any]) -> None:
    """HloError if the last of so many slots has a number that the type cannot hold."""
    if not np.issubdtype(dtype, np.integer):
        raise HloError(f"linear indices are whole numbers, which {dtype} is not for")
    if slots - 1 > np.iinfo(dtype).max:
        raise HloError(f"{slots:,} slots are too many for {dtype}")


def _axes(curves: Curves, sizes: tuple[int, ...]) -> list[tuple[Curve, int, int]] | None:
    """The curves to be added, each with its range: neighbouring dimensions that `*` folds count as one.

    None where a joint is of dimensions that do not follow each other, or of a part of them.
    """
    axes = [(curve, 0, size) for curve, size in zip(curves.single, sizes, strict=True)]
    done = len(sizes)
    for joint in sorted(curves.joints, key=_dimensions, reverse=True):
        dimensions = _dimensions(joint)
        first, end = dimensions[0], dimensions[-1] + 1
        steps = [Linear(prod(sizes[d + 1 : end])) for d in dimensions]
        alone = end <= done and all(curves.single[d] == Linear(0) for d in dimensions)
        if [joint.inner[d] for d in dimensions] != steps or len(dimensions) != end - first or not alone:
            return None
        axes[first:end] = [(joint.curve, 0, prod(sizes[first:end]))]
        done = first
    return axes or [(Linear(0), 0, 1)]


def _dimensions(joint: Combined) -> list[int]:
    return [d for d, curve in enumerate(joint.inner) if curve is not None]


def _add_up(curves: Curves, sizes: tuple[int, ...], out: IntArray) -> None:
    """Singles and joints by broadcasting over the whole array."""
    rank = len(sizes)

    def along(dimension: int, curve: Curve) -> IntArray:
        return values(curve, 0, sizes[dimension], out.dtype).reshape(
            tuple(sizes[d] if d == dimension else 1 for d in range(rank))
        )

    out[...] = 0
    for joint in curves.joints:
        position: Any = 0
        for dimension, curve in enumerate(joint.inner):
            if curve is not None:
                position = position + along(dimension, curve)
        out += np.take(values(joint.curve, 0, joint.size, out.dtype), position)
    for dimension, curve in enumerate(curves.single):
        if curve != Linear(0):
            out += along(dimension, curve)


def _fill(out: IntArray, tiling: Tiling, sizes: tuple[int, ...]) -> None:
    """Every element by the steps themselves, for layouts that no sum of curves describes."""
    for start in range(0, len(out), BLOCK):
        ids = np.arange(start, min(start + BLOCK, len(out)))
        out[start : start + BLOCK] = tiling.linear_index(unravel(ids, sizes))
