"""Where are all elements of an array, and which element is in each position, as numpy arrays?

A map is the sum of a few short vectors, one for each dimension, by broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hlo_cli.analysis.layout.layout_steps import addressable, out_of_range
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Combine, Extend, Permute, Split, Tiling, ravel, unravel
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError, expect

# --- linear indices as sums of functions ---
# Along one dimension the linear index is a function with value 0 at 0: linear, or, if the dimension is tiled, a
# function of the tile plus a function of the position in the tile. So a whole map is a sum of a few short vectors by
# broadcasting. Only dimensions that a `*` combines before they are tiled have a common function.


IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.integer[Any]]]"

# Chosen, not measured: numpy has an overhead for each inner loop.
_SHORT_ROW = 32
"""Rows shorter than this are added column by column, so that numpy's inner loop is the long one."""

# 64 KiB of int64: long for the overhead, short enough for the second-level cache.
_LONG_ROW = 1 << 13
"""Row length at which the overhead of numpy's inner loops is negligible."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Function with adjacent elements `stride` positions apart."""

    stride: int


@dataclass(frozen=True, slots=True)
class Tiled:
    """Function of a tiled dimension: `over_tiles(x // size) + within_tile(x % size)`."""

    size: int
    over_tiles: IndexFunction
    within_tile: IndexFunction


IndexFunction: TypeAlias = "Linear | Tiled"
Inner: TypeAlias = "tuple[IndexFunction | None, ...]"


@dataclass(frozen=True, slots=True)
class Combined:
    """Function of combined dimensions: `function` of the sum of one inner function per dimension."""

    function: IndexFunction
    size: int
    inner: Inner


@dataclass(frozen=True, slots=True)
class IndexFunctions:
    """Linear index as a sum: one function for each dimension, and one for each group of combined dimensions."""

    single: tuple[IndexFunction, ...]
    combined: tuple[Combined, ...] = ()


def index_functions_of(tiling: Tiling) -> IndexFunctions | None:
    """Functions whose sum is the linear index; None if a `*` combines dimensions that another `*` combined before.

    Computed backwards: each physical dimension is linear, and undoing a step of the tiling merges or reorders
    functions.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> index_functions_of(parse_shape("f32[3,5]{1,0:T(2,2)}").tiling).single[0]
    Tiled(size=2, over_tiles=Linear(stride=12), within_tile=Linear(stride=2))
    """
    steps: list[int] = [1]
    # An array without elements would have strides of 0, and so no order of dimensions.
    for size in reversed(tiling.physical[1:]):
        steps.append(steps[-1] * max(size, 1))
    functions = IndexFunctions(tuple(Linear(step) for step in reversed(steps[: len(tiling.physical)])))
    for step, bounds in zip(reversed(tiling.steps), tiling.bounds[-2::-1], strict=True):
        before = _undo_step(step, bounds, functions)
        if before is None:
            return None
        functions = before
    return functions


def _undo_step(
    step: Permute | Extend | Combine | Split, bounds: tuple[int, ...], after: IndexFunctions
) -> IndexFunctions | None:
    """Functions of the dimensions before a step, from those after it."""
    match step:
        case Permute(order=order):
            back = tuple(order.index(d) for d in range(len(order)))
            return _rearranged(after, lambda functions: tuple(functions[d] for d in back))
        case Extend(count=count):
            return _rearranged(after, lambda functions: functions[count:])
        case Split(sizes=sizes):
            return _rearranged(after, lambda functions: _unsplit(functions, sizes, len(bounds)))
        case Combine(position=position):
            return _uncombined(after, position, bounds)


def _rearranged(after: IndexFunctions, rearrange: Callable[[Inner], Inner]) -> IndexFunctions:
    combined = ((group, rearrange(group.inner)) for group in after.combined)
    single = tuple(function or Linear(0) for function in rearrange(after.single))
    return IndexFunctions(
        single, tuple(Combined(group.function, group.size, inner) for group, inner in combined if any(inner))
    )


def _unsplit(functions: Inner, sizes: tuple[int, ...], rank: int) -> Inner:
    kept = rank - len(sizes)
    pairs = zip(sizes, functions[kept:rank], functions[rank:], strict=True)
    return (*functions[:kept], *(_tiled(size, over_tiles, within_tile) for size, over_tiles, within_tile in pairs))


def _uncombined(after: IndexFunctions, position: int, bounds: tuple[int, ...]) -> IndexFunctions | None:
    minor = bounds[position + 1]
    combined = []
    for group in after.combined:
        # A `*` over a dimension that was tiled before it was combined: the index is no sum any more.
        if isinstance(group.inner[position], Tiled):
            return None
        combined.append(Combined(group.function, group.size, _split_dimension(group.inner, position, minor)))
    combined_function = after.single[position]
    if isinstance(combined_function, Linear):
        strides = (combined_function.stride * minor, combined_function.stride)
    else:
        strides = (0, 0)
        alone: Inner = (*(None,) * position, Linear(1), *(None,) * (len(bounds) - position - 2))
        combined.append(Combined(combined_function, bounds[position] * minor, _split_dimension(alone, position, minor)))
    single = (*after.single[:position], *map(Linear, strides), *after.single[position + 1 :])
    return IndexFunctions(single, tuple(combined))


def _split_dimension(inner: Inner, position: int, minor: int) -> Inner:
    straight = inner[position]
    pair = (Linear(straight.stride * minor), straight) if isinstance(straight, Linear) else (None, None)
    return (*inner[:position], *pair, *inner[position + 1 :])


def _tiled(size: int, over_tiles: IndexFunction | None, within_tile: IndexFunction | None) -> IndexFunction | None:
    if over_tiles is None and within_tile is None:
        return None
    over_tiles, within_tile = over_tiles or Linear(0), within_tile or Linear(0)
    if size == 1:
        return over_tiles
    if (
        isinstance(over_tiles, Linear)
        and isinstance(within_tile, Linear)
        # A tile that continues where the one before ends is no tile: the function is linear.
        and over_tiles.stride == within_tile.stride * size
    ):
        return within_tile
    return Tiled(size, over_tiles, within_tile)


def values(
    function: IndexFunction, start: int, stop: int, dtype: np.dtype[Any], out: IntArray | None = None
) -> IntArray:
    """Values of a function at positions `start` to `stop`, by additions only; written to `out` if given.

    >>> values(Tiled(2, Linear(12), Linear(2)), 0, 5, np.dtype(np.int64)).tolist()
    [0, 2, 12, 14, 24]
    """
    if out is None:
        out = np.empty(max(stop - start, 0), dtype)
    match function:
        case _ if stop <= start:
            pass
        case Linear(stride=stride):
            out[:] = np.arange(start * stride, stop * stride, stride, dtype=dtype) if stride else 0
        case Tiled(size=size, over_tiles=Linear(stride=stride)) if size < _LONG_ROW and stop - start > 2 * _LONG_ROW:
            times = -(-_LONG_ROW // size)  # straight over tiles: as well over several at a time
            values(Tiled(size * times, Linear(stride * times), function), start, stop, dtype, out)
        case Tiled(size=size, over_tiles=over_tiles, within_tile=within_tile):
            head = min(-(-start // size) * size, stop)  # up to the first whole tile, and below from the last one
            tail = max(stop // size * size, head)
            for begin, end in ((start, head), (tail, stop)):
                if begin < end:
                    tile = begin // size
                    part = out[begin - start : end - start]
                    values(within_tile, begin - tile * size, end - tile * size, dtype, part)
                    part += values(over_tiles, tile, tile + 1, dtype)
            if head < tail:
                tiles = values(over_tiles, head // size, tail // size, dtype)
                _broadcast_add(tiles, values(within_tile, 0, size, dtype), out[head - start : tail - start])
    return out


def _broadcast_add(major: IntArray, minor: IntArray, out: IntArray | None = None) -> IntArray:
    """All sums of one element of `major` and one of `minor`, as one row; written to `out` if given.

    >>> _broadcast_add(np.array([0, 10]), np.array([1, 2, 3])).tolist()
    [1, 2, 3, 11, 12, 13]
    """
    if out is None:
        out = np.empty(len(major) * len(minor), major.dtype)
    table = out.reshape(len(major), len(minor))
    if len(minor) >= _SHORT_ROW or len(major) <= len(minor):
        np.add(major[:, None], minor[None, :], out=table)
    else:
        for column, value in enumerate(minor):
            np.add(major, value, out=table[:, column])
    return out


def all_sums(vectors: Sequence[IntArray], dtype: np.dtype[Any], out: IntArray | None = None) -> IntArray:
    """All sums of one element of each vector, the last varying fastest.

    Written to `out` if given and there are several vectors.

    >>> all_sums([np.array([0, 4]), np.array([0, 2]), np.array([0, 1])], np.dtype(np.int64)).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    if len(vectors) < 2:
        return vectors[0] if vectors else np.zeros(1, dtype)
    first, length = len(vectors) - 1, len(vectors[-1])
    # The minor sums make rows of at least this length, so that the last addition runs at the speed of memory.
    while first > 1 and length < 1024:
        first -= 1
        length *= len(vectors[first])
    return _broadcast_add(all_sums(vectors[:first], dtype), all_sums(vectors[first:], dtype), out)


# --- linear indices of all elements ---
# Linear indices of all elements of an array, as numpy arrays: as a whole, in blocks, or for chosen elements.
#
# Linear indices count elements, as `LayoutUtil::LinearIndexForNestedTiling` of xla/layout_util.h does.


INT64 = np.dtype(np.int64)
BLOCK = 1 << 14
"""Number of elements processed at a time, so that temporaries stay in the processor's cache."""
_MAX_INDEX_TABLE = 1 << 16  # half a MiB of int64, for however few look-ups; chosen, not measured


def address_map(shape: Shape | str, out: IntArray | None = None) -> IntArray:
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
    out = _allocate_output(shape.sizes, tiling.slots, out)
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
    _check_int64(tiling.slots, INT64)
    functions = index_functions_of(tiling)
    # Rare layouts with `*`: by steps, whose divisions take about a hundred times as long as sums.
    if functions is None or functions.combined or not sizes:
        for start in range(0, shape.elements, size):
            ids = np.arange(start, min(start + size, shape.elements))
            yield np.broadcast_to(tiling.linear_index(unravel(ids, sizes)), ids.shape).astype(np.int64, copy=False)
        return
    if not shape.elements:
        return
    dimension = len(sizes) - 1
    while dimension > 0 and prod(sizes[dimension:]) <= size:
        dimension -= 1
    within = all_sums(
        [
            values(c, 0, n, INT64)
            for c, n in zip(functions.single[dimension + 1 :], sizes[dimension + 1 :], strict=True)
        ],
        INT64,
    )
    rows = max(size // len(within), 1)
    for number in range(prod(sizes[:dimension])):
        base = tiling.linear_index((*unravel(number, sizes[:dimension]), *(0,) * (len(sizes) - dimension)))
        for start in range(0, sizes[dimension], rows):
            major = values(functions.single[dimension], start, min(start + rows, sizes[dimension]), INT64)
            yield _broadcast_add(major + base, within)


def linear_indices(shape: ArrayShape, indices: IntArray) -> IntArray:
    """Linear indices of many elements; `indices` has the shape (…, rank), the result (…).

    Negative coordinates count from the end. HloError if one is out of range.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> linear_indices(parse_shape("f32[3,5]{1,0:T(2,2)}"), np.array([(2, 3), (-3, -1), (0, 0)]))
    array([17,  8,  0])
    """
    rows = np.asarray(indices)
    if rows.size and not np.issubdtype(rows.dtype, np.integer):
        raise HloError(f"indices must be integers, not {rows.dtype}")
    if rows.ndim < 1 or rows.shape[-1] != shape.rank:
        raise HloError(f"expected indices of shape (n, {shape.rank}) for {shape}, found {rows.shape}")
    _check_int64(shape.tiling.slots, INT64)
    lookup = AddressLookup(shape, rows.size)
    flat = rows.reshape(prod(rows.shape[:-1]), shape.rank)
    linear = np.empty(len(flat), np.int64)
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        linear[start : start + BLOCK] = lookup.at([block[:, d] for d in range(shape.rank)])
    return linear.reshape(rows.shape[:-1])


class AddressLookup:
    """Computes linear indices of chosen elements from one table per dimension."""

    def __init__(self, shape: ArrayShape, count: int) -> None:
        """Limits the size of the tables to what pays off for `count` lookups."""
        self._shape = shape
        self._tiling = shape.tiling
        self._functions = index_functions_of(self._tiling)
        # A table pays off if it is small next to the look-ups; the eighth is chosen, not measured.
        self._max_table = max(count // 8, _MAX_INDEX_TABLE)
        self._tables: dict[tuple[IndexFunction, int], IntArray] = {}

    def at(self, columns: Sequence[IntArray]) -> Any:
        """Linear indices of the elements whose coordinates are given, one array per dimension."""
        functions, sizes = self._functions, self._shape.sizes
        if functions is None:
            return self._tiling.linear_index(tuple(self._checked(column, d) for d, column in enumerate(columns)))
        linear: Any = 0
        for dimension, (function, column, size) in enumerate(zip(functions.single, columns, sizes, strict=True)):
            if isinstance(function, Tiled) and size <= self._max_table:
                try:
                    # numpy checks the bounds and counts negative indices from the end, so that no pass over the column
                    # is needed.
                    linear = self._table(function, size)[column] + linear
                except IndexError:
                    raise self._out_of_range(column, dimension) from None
            else:
                linear = self._evaluate(function, self._checked(column, dimension), size) + linear
        for group in functions.combined:
            position: Any = 0
            for dimension, (inner, column, size) in enumerate(zip(group.inner, columns, sizes, strict=True)):
                if inner is not None:
                    position = self._evaluate(inner, self._checked(column, dimension), size) + position
            linear = self._evaluate(group.function, position, group.size) + linear
        return linear

    def _evaluate(self, function: IndexFunction, column: IntArray, size: int) -> IntArray:
        match function:
            case Linear(stride=stride):
                return column * stride
            case Tiled(size=tile) if size > self._max_table and tile < size:
                tile_index = column // tile
                within_tile = self._evaluate(function.within_tile, column - tile_index * tile, tile)
                return self._evaluate(function.over_tiles, tile_index, -(-size // tile)) + within_tile
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


def _allocate_output(sizes: tuple[int, ...], positions: int, out: IntArray | None) -> IntArray:
    """Array for integers below `positions`: `out` if it fits, else a new one."""
    if out is None:
        _check_int64(positions, INT64)
        return np.empty(sizes, np.int64)
    expect(np.ndarray, "an array of integers for out", out)
    if out.shape != sizes:
        raise HloError(f"out has shape {out.shape}, expected {sizes}")
    _check_int64(positions, out.dtype)
    return out


def _check_int64(positions: int, dtype: np.dtype[Any]) -> None:
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
        # Adjacent dimensions under one `*` count like one long dimension.
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


# --- coordinates as sums over physical dimensions ---
# A position is padding if a coordinate reaches its limit: the size of the array dimension, that of a tile which the
# inner tile does not divide, or 1 for a dimension that a tile adds.


Digit: TypeAlias = tuple[int, int, int]
"""Physical dimension: its stride in positions, its size, and its stride in the row-major order of elements."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Coordinate as a sum over physical dimensions with factors `steps`; at `limit` and above it is padding.

    `dimensions` are its logical dimensions: none for a position in a tile, several if combined by `*`.
    """

    limit: int
    steps: tuple[int, ...]
    dimensions: tuple[int, ...] = ()

    def can_overflow(self, physical: Sequence[int]) -> bool:
        """Whether any position reaches the limit."""
        return sum(step * (size - 1) for step, size in zip(self.steps, physical, strict=True)) >= self.limit


def digits_of(shape: ArrayShape) -> tuple[Digit, ...] | None:
    """Physical dimensions as digits of the position number, most minor first; None if there is padding.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> digits_of(parse_shape("f32[4,4]{1,0:T(2,4)}"))
    ((1, 4, 1), (4, 2, 4), (8, 2, 8))
    """
    tiling = shape.tiling
    coordinates = _coordinates_of(tiling)
    steps = _element_steps(coordinates, shape.sizes) if coordinates is not None else None
    if coordinates is None or steps is None or shape.slots != shape.elements:
        return None
    digits, place = [], 1
    for dimension, size in reversed(list(enumerate(tiling.physical))):
        if size > 1:
            digits.append(
                (place, size, sum(b.steps[dimension] * step for b, step in zip(coordinates, steps, strict=True)))
            )
        place *= size
    return tuple(digits)


def _coordinates_of(tiling: Tiling) -> tuple[Coordinate, ...] | None:
    """Coordinates of positions; None if a `*` combines dimensions that are tiled already.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _coordinates_of(parse_shape("f32[3,5]{1,0:T(2,2)}").tiling)
    (Coordinate(limit=3, steps=(2, 0, 1, 0), dimensions=(0,)), Coordinate(limit=5, steps=(0, 2, 0, 1), dimensions=(1,)))
    """
    limits = list(tiling.bounds[0])
    origins: list[tuple[int, ...]] = [(d,) for d in range(len(limits))]
    digits: list[dict[int, int]] = [
        {d: 1} for d in range(len(limits))
    ]  # what one more in each adds to which coordinate
    for step, bounds in zip(tiling.steps, tiling.bounds, strict=False):
        match step:
            case Permute(order=order):
                digits = [digits[d] for d in order]
            case Extend(count=count):
                limits += [1] * count
                origins += [()] * count
                digits = [{len(limits) - count + i: 1} for i in range(count)] + digits
            case Combine(position=position):
                pair = digits[position : position + 2]
                (first, first_step), (second, second_step) = (next(iter(digit.items())) for digit in pair)
                if (
                    any(len(digit) != 1 for digit in pair)
                    or (first_step, second_step) != (1, 1)
                    or ((limits[first], limits[second]) != bounds[position : position + 2])
                ):
                    return None
                if not origins[first]:  # a dimension that a tile put in front has nothing to fold
                    digits[position : position + 2] = [digits[position + 1]]
                    continue
                limits[second] *= limits[first]
                origins[second] = origins[first] + origins[second]
                origins[first] = ()
                limits[first] = 1
                digits[position : position + 2] = [digits[position + 1]]
            case Split(sizes=sizes):
                kept = len(digits) - len(sizes)
                over_tiles = [{b: s * t for b, s in digits[kept + i].items()} for i, t in enumerate(sizes)]
                within_tile = []
                for i, size in enumerate(sizes):
                    within_tile.append({**digits[kept + i], len(limits): 1})
                    limits.append(size)
                    origins.append(())
                digits = digits[:kept] + over_tiles + within_tile
    coordinates = (
        Coordinate(limit, tuple(digit.get(coordinate, 0) for digit in digits), dimensions)
        for coordinate, (limit, dimensions) in enumerate(zip(limits, origins, strict=True))
    )
    return tuple(
        coordinate for coordinate in coordinates if coordinate.dimensions or coordinate.can_overflow(tiling.physical)
    )


def _element_steps(coordinates: Sequence[Coordinate], sizes: tuple[int, ...]) -> list[int] | None:
    """Row-major stride of each coordinate; None if it is not constant."""
    strides = [prod(sizes[d + 1 :]) for d in range(len(sizes))]
    steps = []
    for coordinate in coordinates:
        counting = [d for d in coordinate.dimensions if sizes[d] > 1]
        if any(strides[major] != strides[minor] * sizes[minor] for major, minor in pairwise(counting)):
            return None
        steps.append(strides[counting[-1]] if counting else 0)
    return steps


# --- elements in all positions ---
# Element in each position, as numpy arrays: the whole inverse map, the padding mask, and lookups.
#
# Coordinates of elements are sums over physical dimensions, so a few short vectors are added by broadcasting; positions
# where a coordinate reaches its limit are padding.


PADDING = -1  # no element has this number
_MIN_MINOR_POSITIONS = 1024  # a tile of one register, (8,128): the table within it fits the first-level cache
_MAX_ELEMENT_TABLE = 1 << 20  # 8 MiB a table; beyond it, and beyond the look-ups themselves, steps take less memory


def inverse_map(shape: Shape | str, out: IntArray | None = None) -> IntArray:
    """Row-major number of the element in every position, -1 for padding.

    Written to `out`, if given, instead of a new int64 array.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> inverse_map(parse_shape("f32[3,5]{1,0:T(2,2)}")).tolist()[8:16]
    [4, -1, 9, -1, 10, 11, -1, -1]
    """
    shape = addressable(shape)
    tiling, sizes = shape.tiling, shape.sizes
    _check_int64(shape.slots, INT64)
    out = _allocate_output((shape.slots,), max(shape.slots, shape.elements), out)
    out[tiling.slots :] = PADDING
    elements = out[: tiling.slots]
    if not elements.size:
        return out
    coordinates = _coordinates_of(tiling)
    step_of = _element_steps(coordinates, sizes) if coordinates is not None else None
    if coordinates is None or step_of is None or not elements.flags.c_contiguous:
        for start in range(0, len(elements), BLOCK):
            elements[start : start + BLOCK] = _by_steps(tiling, np.arange(start, min(start + BLOCK, len(elements))))
        return out
    physical = tiling.physical
    split = _split_dimension_of(physical)
    steps = tuple(
        sum(coordinate.steps[d] * step for coordinate, step in zip(coordinates, step_of, strict=True))
        for d in range(len(physical))
    )
    major, minor = (_index_sums(physical[part], steps[part], out.dtype) for part in (slice(split), slice(split, None)))
    _broadcast_add(major, minor, elements)
    for coordinate in coordinates:
        if coordinate.can_overflow(physical):
            _mark_padding(elements.reshape(len(major), len(minor)), coordinate, physical, split)
    return out


def padding_mask(shape: Shape | str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Boolean array that is true for every position without an element, including tail padding.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> padding_mask(parse_shape("f32[3]{0:T(4)L(6)}")).tolist()
    [False, False, False, True, True, True]
    """
    mask: np.ndarray[Any, np.dtype[np.bool_]] = inverse_map(shape) == PADDING
    return mask


def inverse_blocks(shape: ArrayShape, size: int = BLOCK) -> Iterator[tuple[IntArray, tuple[IntArray, ...]]]:
    """Yields the positions with elements in memory order and their coordinates, in blocks of at most `size` positions.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> for positions, index in inverse_blocks(parse_shape("f32[3]{0:T(2)}"), 3): print(positions, index)
    [0 1 2] (array([0, 1, 2]),)
    """
    count = shape.tiling.slots
    lookup = InverseLookup(shape, count)
    for start in range(0, count, size):
        positions = np.arange(start, min(start + size, count))
        is_element, index = lookup.at(positions)
        if is_element.any():
            yield (
                (positions, index)
                if is_element.all()
                else (positions[is_element], tuple(column[is_element] for column in index))
            )


def elements_at(shape: ArrayShape, linear: IntArray) -> IntArray:
    """Elements in many positions: an array with one more dimension, of size rank; -1 for padding.

    HloError if a position is out of range.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> elements_at(parse_shape("f32[3,5]{1,0:T(2,2)}"), np.array([17, 9]))
    array([[ 2,  3],
           [-1, -1]])
    """
    positions = np.asarray(linear)
    if not np.issubdtype(positions.dtype, np.integer) and positions.size:
        raise HloError(f"linear indices must be integers, not {positions.dtype}")
    flat = positions.reshape(-1)
    if flat.size and not 0 <= (wrong := int(flat.min())) <= int(flat.max()) < shape.slots:
        wrong = wrong if wrong < 0 else int(flat.max())
        raise HloError(f"linear index {wrong} is out of range: {shape} has {shape.slots:,} positions")
    lookup = InverseLookup(shape, flat.size)
    elements = np.empty((flat.size, shape.rank), np.int64)
    for start in range(0, flat.size, BLOCK):
        is_element, index = lookup.at(flat[start : start + BLOCK].astype(np.int64, copy=False))
        block = elements[start : start + BLOCK]
        for dimension, column in enumerate(index):
            block[:, dimension] = column
        if not is_element.all():
            block[~is_element] = PADDING
    return elements.reshape((*positions.shape, shape.rank))


class InverseLookup:
    """Finds the elements in positions from two tables, one over tiles and one within a tile."""

    def __init__(self, shape: ArrayShape, count: int) -> None:
        """Limits the size of the tables to what pays off for `count` lookups."""
        self._tiling = shape.tiling
        physical = self._tiling.physical
        split = _split_dimension_of(physical)
        self._tile = prod(physical[split:])
        self._coordinates = _coordinates_of(self._tiling)
        if max(self._tile, prod(physical[:split])) > max(count, _MAX_ELEMENT_TABLE):
            self._coordinates = None
        halves = slice(split), slice(split, None)
        self._tables = [
            tuple(_index_sums(physical[half], coordinate.steps[half], INT64) for half in halves)
            for coordinate in self._coordinates or ()
        ]

    def at(self, positions: IntArray) -> tuple[Any, tuple[IntArray, ...]]:
        """Whether each position has an element, and its coordinates, which are undefined for padding."""
        is_element = positions < self._tiling.slots  # L(n) adds positions after the last tile
        if not is_element.all():
            positions = np.where(is_element, positions, 0)
        if self._coordinates is None:
            index = self._tiling.element(positions)
            return self._tiling.holds(positions) & is_element, index
        tile_index = positions // self._tile
        index_in_tile = positions - tile_index * self._tile
        columns: dict[int, IntArray] = {}
        for coordinate, (major, minor) in zip(self._coordinates, self._tables, strict=True):
            values = major[tile_index] + minor[index_in_tile]
            if coordinate.can_overflow(self._tiling.physical):
                is_element &= values < coordinate.limit
            if len(coordinate.dimensions) == 1:
                columns[coordinate.dimensions[0]] = values
            else:
                sizes = tuple(self._tiling.bounds[0][d] for d in coordinate.dimensions)
                columns |= zip(coordinate.dimensions, unravel(values, sizes), strict=True)
        return is_element, tuple(columns[dimension] for dimension in range(len(columns)))


def _split_dimension_of(physical: Sequence[int]) -> int:
    """Physical dimension that separates the two tables: those from it on have at least a thousand positions."""
    dimension, positions = len(physical), 1
    while dimension > 0 and positions < _MIN_MINOR_POSITIONS:
        dimension -= 1
        positions *= physical[dimension]
    return dimension


def _index_sums(sizes: Sequence[int], steps: Sequence[int], dtype: np.dtype[Any]) -> IntArray:
    """Sums over dimensions of position times step, for all positions in memory order."""
    vectors = [np.arange(size, dtype=dtype) * np.asarray(step, dtype) for size, step in zip(sizes, steps, strict=True)]
    return all_sums(vectors, dtype)


def _mark_padding(table: IntArray, coordinate: Coordinate, physical: Sequence[int], split: int) -> None:
    """Writes PADDING to positions where `coordinate` reaches its limit; tiles with the same overlap are processed
    together.
    """
    major = _index_sums(physical[:split], coordinate.steps[:split], INT64)
    minor = _index_sums(physical[split:], coordinate.steps[split:], INT64)
    # Only tiles at the edge of the array have padding, and most of these overlap by the same amount.
    edge = np.flatnonzero(major + minor.max(initial=0) >= coordinate.limit)
    for start in np.unique(major[edge]):
        rows = edge[major[edge] == start]
        columns = np.flatnonzero(minor + start >= coordinate.limit)
        across = _slices(rows)
        for down in _slices(columns):
            table[across[0] if len(across) == 1 else rows, down] = PADDING


def _slices(positions: IntArray) -> list[slice]:
    """Increasing positions as one slice if evenly spaced, else as contiguous runs, as numpy writes to slices fast."""
    steps = np.diff(positions)
    if not len(steps) or (steps == steps[0]).all():
        return [slice(int(positions[0]), int(positions[-1]) + 1, int(steps[0]) if len(steps) else 1)]
    runs = np.split(positions, np.flatnonzero(steps > 1) + 1)
    return [slice(int(run[0]), int(run[-1]) + 1) for run in runs]


def _by_steps(tiling: Tiling, positions: IntArray) -> IntArray:
    """Elements in positions by the steps of the tiling."""
    elements = np.broadcast_to(ravel(tiling.element(positions), tiling.bounds[0]), positions.shape)
    return np.where(tiling.holds(positions), elements, PADDING)
