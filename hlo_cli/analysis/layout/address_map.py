"""Linear indices of all elements of an array, as numpy arrays: as a whole, in blocks, or for chosen elements.

Linear indices count elements, as `LayoutUtil::LinearIndexForNestedTiling` of xla/layout_util.h does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from hlo_cli.analysis.layout.index_functions import (
    Combined,
    IndexFunction,
    IndexFunctions,
    IntArray,
    Linear,
    Tiled,
    all_sums,
    broadcast_add,
    index_functions_of,
    values,
)
from hlo_cli.analysis.layout.indices import addressable, out_of_range
from hlo_cli.ir.layout import Tiling, unravel
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError

INT64 = np.dtype(np.int64)
BLOCK = 1 << 14
"""Number of elements processed at a time, so that temporaries stay in the processor's cache."""
_MAX_TABLE = 1 << 16


def address_map(shape: Shape, out: IntArray | None = None) -> IntArray:
    """Linear index of every element, in an array with the dimensions of the shape.

    For `f32[3,5]{1,0:T(2,2)}`, element (2,3) is at ((2 // 2) * 3 + 3 // 2) * 4 + (2 % 2) * 2 + 3 % 2 = 17. The result
    is written to `out`, if given, instead of a new int64 array; HloError if `out` has other dimensions or too few bits.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
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
    functions = index_functions_of(tiling)
    if functions is None:
        _fill_by_steps(out.reshape(-1), tiling, shape.sizes)
    elif (axes := _axes(functions, shape.sizes)) is None:
        _add_all(functions, shape.sizes, out)
    elif len(axes) == 1:
        values(*axes[0], out.dtype, out.reshape(-1))
    else:
        all_sums([values(*axis, out.dtype) for axis in axes], out.dtype, out.reshape(-1))
    return out


def address_blocks(shape: ArrayShape, size: int = 1 << 20) -> Iterator[IntArray]:
    """Yields the address map in row-major order, in blocks of about `size` elements, so that memory use is bounded.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [block.tolist() for block in address_blocks(parse_shape("f32[3,5]{1,0:T(2,2)}"), 7)]
    [[0, 1, 4, 5, 8], [2, 3, 6, 7, 10], [12, 13, 16, 17, 20]]
    """
    tiling, sizes = shape.tiling, shape.sizes
    check_int64(tiling.slots, INT64)
    functions = index_functions_of(tiling)
    if functions is None or functions.combined or not sizes:
        for start in range(0, shape.elements, size):
            ids = np.arange(start, min(start + size, shape.elements))
            yield np.broadcast_to(tiling.linear_index(unravel(ids, sizes)), ids.shape).astype(np.int64, copy=False)
        return
    if not shape.elements:
        return
    at = len(sizes) - 1
    while at > 0 and prod(sizes[at:]) <= size:
        at -= 1
    within = all_sums(
        [values(c, 0, n, INT64) for c, n in zip(functions.single[at + 1 :], sizes[at + 1 :], strict=True)], INT64
    )
    rows = max(size // len(within), 1)
    for number in range(prod(sizes[:at])):
        base = tiling.linear_index((*unravel(number, sizes[:at]), *(0,) * (len(sizes) - at)))
        for start in range(0, sizes[at], rows):
            major = values(functions.single[at], start, min(start + rows, sizes[at]), INT64)
            yield broadcast_add(major + base, within)


def linear_indices(shape: ArrayShape, indices: IntArray) -> IntArray:
    """Linear indices of many elements; `indices` has the shape (…, rank), the result (…).

    Negative coordinates count from the end. HloError if one is out of range.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> linear_indices(parse_shape("f32[3,5]{1,0:T(2,2)}"), np.array([(2, 3), (-3, -1)]))
    array([17,  8])
    """
    rows = np.asarray(indices)
    if rows.size and not np.issubdtype(rows.dtype, np.integer):
        raise HloError(f"indices must be integers, not {rows.dtype}")
    if rows.ndim < 1 or rows.shape[-1] != shape.rank:
        raise HloError(f"expected indices of shape (n, {shape.rank}) for {shape}, found {rows.shape}")
    check_int64(shape.tiling.slots, INT64)
    lookup = AddressLookup(shape, rows.size)
    flat = rows.reshape(prod(rows.shape[:-1]), shape.rank)
    found = np.empty(len(flat), np.int64)
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        found[start : start + BLOCK] = lookup.at([block[:, d] for d in range(shape.rank)])
    return found.reshape(rows.shape[:-1])


class AddressLookup:
    """Computes linear indices of chosen elements from one table per dimension."""

    def __init__(self, shape: ArrayShape, count: int) -> None:
        """Limits the size of the tables to what pays off for `count` lookups."""
        self._shape = shape
        self._tiling = shape.tiling
        self._functions = index_functions_of(self._tiling)
        self._max_table = max(count // 8, _MAX_TABLE)
        self._tables: dict[tuple[IndexFunction, int], IntArray] = {}

    def at(self, columns: Sequence[IntArray]) -> Any:
        """Linear indices of the elements whose coordinates are given, one array per dimension."""
        functions, sizes = self._functions, self._shape.sizes
        if functions is None:
            return self._tiling.linear_index(tuple(self._checked(column, d) for d, column in enumerate(columns)))
        found: Any = 0
        for dimension, (function, column, size) in enumerate(zip(functions.single, columns, sizes, strict=True)):
            if isinstance(function, Tiled) and size <= self._max_table:
                try:
                    found = self._table(function, size)[column] + found
                except IndexError:
                    raise self._out_of_range(column, dimension) from None
            else:
                found = self._evaluate(function, self._checked(column, dimension), size) + found
        for group in functions.combined:
            position: Any = 0
            for dimension, (inner, column, size) in enumerate(zip(group.inner, columns, sizes, strict=True)):
                if inner is not None:
                    position = self._evaluate(inner, self._checked(column, dimension), size) + position
            found = self._evaluate(group.function, position, group.size) + found
        return found

    def _evaluate(self, function: IndexFunction, column: IntArray, size: int) -> IntArray:
        match function:
            case Linear(stride=stride):
                return column * stride
            case Tiled(size=tile) if size > self._max_table and tile < size:
                tile_index = column // tile
                there = self._evaluate(function.within_tile, column - tile_index * tile, tile)
                return self._evaluate(function.over_tiles, tile_index, -(-size // tile)) + there
        return self._table(function, size)[column]

    def _table(self, function: IndexFunction, size: int) -> IntArray:
        if (function, size) not in self._tables:
            self._tables[function, size] = values(function, 0, size, INT64)
        return self._tables[function, size]

    def _checked(self, column: IntArray, dimension: int) -> IntArray:
        """Coordinates with negative ones counted from the end; HloError if one is out of range."""
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


def allocate_output(sizes: tuple[int, ...], positions: int, out: IntArray | None) -> IntArray:
    """Array for integers below `positions`: `out` if it fits, else a new one."""
    if out is None:
        check_int64(positions, INT64)
        return np.empty(sizes, np.int64)
    if out.shape != sizes:
        raise HloError(f"out has shape {out.shape}, expected {sizes}")
    check_int64(positions, out.dtype)
    return out


def check_int64(positions: int, dtype: np.dtype[Any]) -> None:
    """Raises HloError if `dtype` cannot hold the largest linear index below `positions`."""
    if not np.issubdtype(dtype, np.integer):
        raise HloError(f"dtype {dtype} cannot hold linear indices")
    if positions - 1 > np.iinfo(dtype).max:
        raise HloError(f"{dtype} is too small for {positions:,} positions")


def _axes(functions: IndexFunctions, sizes: tuple[int, ...]) -> list[tuple[IndexFunction, int, int]] | None:
    """Functions to add, each with its range; adjacent dimensions combined by `*` are one axis.

    None if combined dimensions are not adjacent, or only partly combined.
    """
    axes = [(function, 0, size) for function, size in zip(functions.single, sizes, strict=True)]
    done = len(sizes)
    for group in sorted(functions.combined, key=_dimensions, reverse=True):
        dimensions = _dimensions(group)
        first, end = dimensions[0], dimensions[-1] + 1
        steps = [Linear(prod(sizes[d + 1 : end])) for d in dimensions]
        alone = end <= done and all(functions.single[d] == Linear(0) for d in dimensions)
        if [group.inner[d] for d in dimensions] != steps or len(dimensions) != end - first or not alone:
            return None
        axes[first:end] = [(group.function, 0, prod(sizes[first:end]))]
        done = first
    return axes or [(Linear(0), 0, 1)]


def _dimensions(group: Combined) -> list[int]:
    return [d for d, function in enumerate(group.inner) if function is not None]


def _add_all(functions: IndexFunctions, sizes: tuple[int, ...], out: IntArray) -> None:
    """Adds all functions to `out` by broadcasting."""
    rank = len(sizes)

    def along(dimension: int, function: IndexFunction) -> IntArray:
        return values(function, 0, sizes[dimension], out.dtype).reshape(
            tuple(sizes[d] if d == dimension else 1 for d in range(rank))
        )

    out[...] = 0
    for group in functions.combined:
        position: Any = 0
        for dimension, function in enumerate(group.inner):
            if function is not None:
                position = position + along(dimension, function)
        out += np.take(values(group.function, 0, group.size, out.dtype), position)
    for dimension, function in enumerate(functions.single):
        if function != Linear(0):
            out += along(dimension, function)


def _fill_by_steps(out: IntArray, tiling: Tiling, sizes: tuple[int, ...]) -> None:
    """Computes every element by the steps of the tiling, for layouts that no sum of functions describes."""
    for start in range(0, len(out), BLOCK):
        ids = np.arange(start, min(start + BLOCK, len(out)))
        out[start : start + BLOCK] = tiling.linear_index(unravel(ids, sizes))
