"""Which element lies in each slot, as numpy arrays: the whole inverse map, the mask of padding, and many look-ups.

The coordinates of elements are sums over the dimensions of memory, so here, too, a few short vectors are added by
broadcasting, and slots beyond a limit are padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from hlo_cli.analysis.layout.address_map import BLOCK, INT64, allocate_output, check_int64
from hlo_cli.analysis.layout.index_functions import IntArray, broadcast_add, sums
from hlo_cli.analysis.layout.indices import addressable
from hlo_cli.analysis.layout.inverse_coordinates import Coordinate, coordinates_of, element_steps
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.ir.tiling import Tiling, ravel, unravel
from hlo_cli.source import HloError

PADDING = -1
_LEAST_TILE = 1024
_LONGEST_TABLE = 1 << 20


def inverse_map(shape: Shape, out: IntArray | None = None) -> IntArray:
    """For every slot the row-major number of the element that lies there, -1 where it is padding.

    `out` receives the numbers instead of a new int64 array.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> inverse_map(parse_shape("f32[3,5]{1,0:T(2,2)}")).tolist()[8:16]
    [4, -1, 9, -1, 10, 11, -1, -1]
    """
    shape = addressable(shape)
    tiling, sizes = shape.tiling, shape.sizes
    check_int64(shape.slots, INT64)
    out = allocate_output((shape.slots,), max(shape.slots, shape.elements), out)
    out[tiling.slots :] = PADDING
    held = out[: tiling.slots]
    if not held.size:
        return out
    boxes = coordinates_of(tiling)
    step_of = element_steps(boxes, sizes) if boxes is not None else None
    if boxes is None or step_of is None or not held.flags.c_contiguous:
        for start in range(0, len(held), BLOCK):
            held[start : start + BLOCK] = _by_steps(tiling, np.arange(start, min(start + BLOCK, len(held))))
        return out
    physical = tiling.physical
    at = _tile_of(physical)
    steps = tuple(
        sum(box.steps[d] * step for box, step in zip(boxes, step_of, strict=True)) for d in range(len(physical))
    )
    major, minor = (_counted(physical[part], steps[part], out.dtype) for part in (slice(at), slice(at, None)))
    broadcast_add(major, minor, held)
    for box in boxes:
        if box.may_overflow(physical):
            _blank(held.reshape(len(major), len(minor)), box, physical, at)
    return out


def padding_mask(shape: Shape) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """True for every slot that holds no element, tail padding included.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> padding_mask(parse_shape("f32[3]{0:T(4)L(6)}")).tolist()
    [False, False, False, True, True, True]
    """
    mask: np.ndarray[Any, np.dtype[np.bool_]] = inverse_map(shape) == PADDING
    return mask


def inverse_blocks(shape: ArrayShape, size: int = BLOCK) -> Iterator[tuple[IntArray, tuple[IntArray, ...]]]:
    """The slots that hold elements, in the order of memory, with the coordinates of each: in pieces of at most `size`.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> for slots, index in inverse_blocks(parse_shape("f32[3]{0:T(2)}"), 3): print(slots, index)
    [0 1 2] (array([0, 1, 2]),)
    """
    count = shape.tiling.slots
    finder = InverseLookup(shape, count)
    for start in range(0, count, size):
        slots = np.arange(start, min(start + size, count))
        held, index = finder.at(slots)
        if held.any():
            yield (slots, index) if held.all() else (slots[held], tuple(column[held] for column in index))


def elements_at(shape: ArrayShape, linear: IntArray) -> IntArray:
    """The element in each of many slots: an array with one more dimension, of size rank; -1 throughout for padding.

    HloError if a slot is not one of the array's.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> elements_at(parse_shape("f32[3,5]{1,0:T(2,2)}"), np.array([17, 9]))
    array([[ 2,  3],
           [-1, -1]])
    """
    slots = np.asarray(linear)
    if not np.issubdtype(slots.dtype, np.integer) and slots.size:
        raise HloError(f"linear indices are whole numbers, not {slots.dtype}")
    flat = slots.reshape(-1)
    if flat.size and not 0 <= (wrong := int(flat.min())) <= int(flat.max()) < shape.slots:
        wrong = wrong if wrong < 0 else int(flat.max())
        raise HloError(f"{wrong} is out of range: {shape} has {shape.slots:,} slots")
    finder = InverseLookup(shape, flat.size)
    found = np.empty((flat.size, shape.rank), np.int64)
    for start in range(0, flat.size, BLOCK):
        held, index = finder.at(flat[start : start + BLOCK].astype(np.int64, copy=False))
        block = found[start : start + BLOCK]
        for dimension, column in enumerate(index):
            block[:, dimension] = column
        if not held.all():
            block[~held] = PADDING
    return found.reshape((*slots.shape, shape.rank))


class InverseLookup:
    """Finds the elements in any slots by two tables, one over the tiles and one within a tile, made once."""

    def __init__(self, shape: ArrayShape, count: int) -> None:
        """Tables are no longer than is worth it for `count` look-ups."""
        self._tiling = shape.tiling
        physical = self._tiling.physical
        at = _tile_of(physical)
        self._tile = prod(physical[at:])
        self._boxes = coordinates_of(self._tiling)
        if max(self._tile, prod(physical[:at])) > max(count, _LONGEST_TABLE):
            self._boxes = None
        self._tables = [
            tuple(_counted(physical[part], box.steps[part], INT64) for part in (slice(at), slice(at, None)))
            for box in self._boxes or ()
        ]

    def at(self, slots: IntArray) -> tuple[Any, tuple[IntArray, ...]]:
        """Whether each slot holds an element, and the coordinates, which mean nothing where it does not."""
        held = slots < self._tiling.slots  # behind the last tile lies what L(n) adds
        if not held.all():
            slots = np.where(held, slots, 0)
        if self._boxes is None:
            index = self._tiling.element(slots)
            return self._tiling.holds(slots) & held, index
        which = slots // self._tile
        where = slots - which * self._tile
        columns: dict[int, IntArray] = {}
        for box, (major, minor) in zip(self._boxes, self._tables, strict=True):
            found = major[which] + minor[where]
            if box.may_overflow(self._tiling.physical):
                held &= found < box.limit
            if len(box.dimensions) == 1:
                columns[box.dimensions[0]] = found
            else:
                sizes = tuple(self._tiling.bounds[0][d] for d in box.dimensions)
                columns |= zip(box.dimensions, unravel(found, sizes), strict=True)
        return held, tuple(columns[dimension] for dimension in range(len(columns)))


def _tile_of(physical: Sequence[int]) -> int:
    """Where memory is cut for two tables: the dimensions from there on count at least a thousand slots."""
    at, room = len(physical), 1
    while at > 0 and room < _LEAST_TILE:
        at -= 1
        room *= physical[at]
    return at


def _counted(sizes: Sequence[int], steps: Sequence[int], dtype: np.dtype[Any]) -> IntArray:
    """The sum over dimensions of position times step, for all positions in the order of memory."""
    vectors = [np.arange(size, dtype=dtype) * np.asarray(step, dtype) for size, step in zip(sizes, steps, strict=True)]
    return sums(vectors, dtype)


def _blank(table: IntArray, box: Coordinate, physical: Sequence[int], at: int) -> None:
    """Padding into the slots beyond a box's limit; tiles that are cut at the same place are done at once."""
    major = _counted(physical[:at], box.steps[:at], INT64)
    minor = _counted(physical[at:], box.steps[at:], INT64)
    edge = np.flatnonzero(major + minor.max(initial=0) >= box.limit)
    for start in np.unique(major[edge]):
        rows = edge[major[edge] == start]
        columns = np.flatnonzero(minor + start >= box.limit)
        across = _slices(rows)
        for down in _slices(columns):
            table[across[0] if len(across) == 1 else rows, down] = PADDING


def _slices(positions: IntArray) -> list[slice]:
    """Rising positions as one slice if they are evenly spaced, else as their runs: numpy writes to slices fast."""
    steps = np.diff(positions)
    if not len(steps) or (steps == steps[0]).all():
        return [slice(int(positions[0]), int(positions[-1]) + 1, int(steps[0]) if len(steps) else 1)]
    runs = np.split(positions, np.flatnonzero(steps > 1) + 1)
    return [slice(int(run[0]), int(run[-1]) + 1) for run in runs]


def _by_steps(tiling: Tiling, slots: IntArray) -> IntArray:
    """The elements in some slots by the steps themselves."""
    found = np.broadcast_to(ravel(tiling.element(slots), tiling.bounds[0]), slots.shape)
    return np.where(tiling.holds(slots), found, PADDING)
