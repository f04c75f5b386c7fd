"""Element in each position, as numpy arrays: the whole inverse map, the padding mask, and lookups.

Coordinates of elements are sums over physical dimensions, so a few short vectors are added by broadcasting; positions
where a coordinate reaches its limit are padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from hlo_cli.analysis.layout.address_map import BLOCK, INT64, allocate_output, check_int64
from hlo_cli.analysis.layout.index_functions import IntArray, all_sums, broadcast_add
from hlo_cli.analysis.layout.indices import addressable
from hlo_cli.analysis.layout.inverse_coordinates import Coordinate, coordinates_of, element_steps
from hlo_cli.ir.layout import Tiling, ravel, unravel
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError

PADDING = -1
_MIN_MINOR_POSITIONS = 1024
_MAX_TABLE = 1 << 20


def inverse_map(shape: Shape, out: IntArray | None = None) -> IntArray:
    """Row-major number of the element in every position, -1 for padding.

    Written to `out`, if given, instead of a new int64 array.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> inverse_map(parse_shape("f32[3,5]{1,0:T(2,2)}")).tolist()[8:16]
    [4, -1, 9, -1, 10, 11, -1, -1]
    """
    shape = addressable(shape)
    tiling, sizes = shape.tiling, shape.sizes
    check_int64(shape.slots, INT64)
    out = allocate_output((shape.slots,), max(shape.slots, shape.elements), out)
    out[tiling.slots :] = PADDING
    is_element = out[: tiling.slots]
    if not is_element.size:
        return out
    coordinates = coordinates_of(tiling)
    step_of = element_steps(coordinates, sizes) if coordinates is not None else None
    if coordinates is None or step_of is None or not is_element.flags.c_contiguous:
        for start in range(0, len(is_element), BLOCK):
            is_element[start : start + BLOCK] = _by_steps(tiling, np.arange(start, min(start + BLOCK, len(is_element))))
        return out
    physical = tiling.physical
    at = _split_position(physical)
    steps = tuple(
        sum(coordinate.steps[d] * step for coordinate, step in zip(coordinates, step_of, strict=True))
        for d in range(len(physical))
    )
    major, minor = (_index_sums(physical[part], steps[part], out.dtype) for part in (slice(at), slice(at, None)))
    broadcast_add(major, minor, is_element)
    for coordinate in coordinates:
        if coordinate.can_overflow(physical):
            _mark_padding(is_element.reshape(len(major), len(minor)), coordinate, physical, at)
    return out


def padding_mask(shape: Shape) -> np.ndarray[Any, np.dtype[np.bool_]]:
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
    found = np.empty((flat.size, shape.rank), np.int64)
    for start in range(0, flat.size, BLOCK):
        is_element, index = lookup.at(flat[start : start + BLOCK].astype(np.int64, copy=False))
        block = found[start : start + BLOCK]
        for dimension, column in enumerate(index):
            block[:, dimension] = column
        if not is_element.all():
            block[~is_element] = PADDING
    return found.reshape((*positions.shape, shape.rank))


class InverseLookup:
    """Finds the elements in positions from two tables, one over tiles and one within a tile."""

    def __init__(self, shape: ArrayShape, count: int) -> None:
        """Limits the size of the tables to what pays off for `count` lookups."""
        self._tiling = shape.tiling
        physical = self._tiling.physical
        at = _split_position(physical)
        self._tile = prod(physical[at:])
        self._coordinates = coordinates_of(self._tiling)
        if max(self._tile, prod(physical[:at])) > max(count, _MAX_TABLE):
            self._coordinates = None
        self._tables = [
            tuple(_index_sums(physical[part], coordinate.steps[part], INT64) for part in (slice(at), slice(at, None)))
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
            found = major[tile_index] + minor[index_in_tile]
            if coordinate.can_overflow(self._tiling.physical):
                is_element &= found < coordinate.limit
            if len(coordinate.dimensions) == 1:
                columns[coordinate.dimensions[0]] = found
            else:
                sizes = tuple(self._tiling.bounds[0][d] for d in coordinate.dimensions)
                columns |= zip(coordinate.dimensions, unravel(found, sizes), strict=True)
        return is_element, tuple(columns[dimension] for dimension in range(len(columns)))


def _split_position(physical: Sequence[int]) -> int:
    """Physical dimension that separates the two tables: those from it on have at least a thousand positions."""
    at, room = len(physical), 1
    while at > 0 and room < _MIN_MINOR_POSITIONS:
        at -= 1
        room *= physical[at]
    return at


def _index_sums(sizes: Sequence[int], steps: Sequence[int], dtype: np.dtype[Any]) -> IntArray:
    """Sums over dimensions of position times step, for all positions in memory order."""
    vectors = [np.arange(size, dtype=dtype) * np.asarray(step, dtype) for size, step in zip(sizes, steps, strict=True)]
    return all_sums(vectors, dtype)


def _mark_padding(table: IntArray, coordinate: Coordinate, physical: Sequence[int], at: int) -> None:
    """Writes PADDING to positions where `coordinate` reaches its limit; tiles with the same overlap are processed
    together.
    """
    major = _index_sums(physical[:at], coordinate.steps[:at], INT64)
    minor = _index_sums(physical[at:], coordinate.steps[at:], INT64)
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
    found = np.broadcast_to(ravel(tiling.element(positions), tiling.bounds[0]), positions.shape)
    return np.where(tiling.holds(positions), found, PADDING)
