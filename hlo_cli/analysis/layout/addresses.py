"""Where is an element: its linear index, the element at an index, and the part of an array that a drawing shows?

Single elements are computed without numpy; arrays of them ask `address_map.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from hlo_cli.analysis.layout.layout_steps import (
    OneIndex,
    addressable,
    checked_index,
    checked_position,
    physical_dimensions,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, Bounds, Index, Split, Tile, Tiling, ravel, split_sizes, unravel
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError, expect

if TYPE_CHECKING:
    from hlo_cli.analysis.layout.address_map import IntArray


# --- elements and linear indices ---
# Single elements need no numpy. Mirrors `LayoutUtil::LinearIndexForNestedTiling` and
# `LayoutUtil::DelinearizeIndexForNestedTiling` of xla/layout_util.h; the untiled index is that of xla/index_util.h.


@dataclass(frozen=True, slots=True)
class TilePosition:
    """Position of an element at one level of tiling.

    `tile_index` is the tile in a grid of `tile_grid` tiles, `index_in_tile` the index in a tile with dimensions
    `sizes`. `number` counts the tiles of the whole array at this level in memory order, `position` the elements of the
    tile.
    """

    tile_index: Index
    tile_grid: Bounds
    index_in_tile: Index
    sizes: Bounds
    number: Any
    position: Any


@dataclass(frozen=True, slots=True)
class ElementPosition:
    """Linear index of an element, its first bit, and its tile at each level of tiling.

    `bit_offset` counts from the start of the buffer and includes the dynamic-shape metadata of `M(n)`.
    """

    index: Index
    linear_index: Any
    bit_offset: Any
    tiles: tuple[TilePosition, ...]

    @property
    def byte_offset(self) -> Any:
        """Offset of the byte with the first bit of the element."""
        return self.bit_offset // 8


def position_of(shape: ArrayShape, index: Index) -> ElementPosition:
    """Position of the element at `index`; coordinates are ints or arrays and must be in range.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> place = position_of(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"), (37, 5))
    >>> place.linear_index, place.byte_offset, [(tile.tile_index, tile.index_in_tile) for tile in place.tiles]
    (4619, 9238, [((4, 0), (5, 5)), ((2, 5), (1, 0))])
    """
    tiling = addressable(shape).tiling
    tiles = []
    inside = index
    for step, bounds in zip(tiling.steps, tiling.bounds, strict=False):
        inside = step.forward(inside, bounds)
        if isinstance(step, Split):
            after, count = step.bounds(bounds), len(step.sizes)
            first_in_tile = len(after) - count
            tiles.append(
                TilePosition(
                    inside[first_in_tile - count : first_in_tile],
                    after[first_in_tile - count : first_in_tile],
                    inside[first_in_tile:],
                    step.sizes,
                    ravel(inside[:first_in_tile], after[:first_in_tile]),
                    ravel(inside[first_in_tile:], step.sizes),
                )
            )
    linear = ravel(inside, tiling.physical)
    first = 8 * shape.layout.dynamic_shape_metadata_prefix_bytes
    return ElementPosition(index, linear, linear * shape.element_bits + first, tuple(tiles))


@overload
def linear_index(shape: Shape | str, index: OneIndex) -> int: ...
@overload
def linear_index(shape: Shape | str, index: IntArray) -> IntArray: ...
def linear_index(shape: Shape | str, index: OneIndex | IntArray) -> int | IntArray:
    """Linear index, in elements, of the element at a logical index; negative coordinates count from the end.

    In `f32[3,5]{1,0:T(2,2)}`, element (2,3) is in tile (2 // 2, 3 // 2) = (1,1) of (2,3), there at (0,1) of (2,2), so
    at ((1 * 3 + 1) * 2 + 0) * 2 + 1 = 17. An array of indices has the shape (n, rank) and gives n integers. HloError if
    an index is out of range or the layout does not fit the shape.

    >>> linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))
    17
    """
    array = addressable(shape)
    if isinstance(index, Sequence):
        # All tiles count, unlike in LayoutUtil::LinearIndex (xla/layout_util.cc), which ignores all but the first.
        linear: int = array.tiling.linear_index(checked_index(array, index))
        return linear
    from hlo_cli.analysis.layout.address_map import linear_indices

    return linear_indices(array, index)


@overload
def element_at(shape: Shape | str, linear: int) -> tuple[int, ...] | None: ...
@overload
def element_at(shape: Shape | str, linear: IntArray) -> IntArray: ...
def element_at(shape: Shape | str, linear: int | IntArray) -> tuple[int, ...] | IntArray | None:
    """Logical index of the element at a linear index, or None if it is padding; the inverse of `linear_index`.

    An array of n linear indices gives an array of shape (n, rank), with -1 for padding. HloError for an index out of
    range. In `f32[3,5]{1,0:T(2,2)}`, index 17 is element 1 of tile 17 // 4 = 4, which is tile (1,1): row 1 * 2 + 1 // 2
    = 2, column 1 * 2 + 1 % 2 = 3.

    >>> from hlo_cli import parse_shape
    >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
    >>> element_at(shape, 17), element_at(shape, 9)
    ((2, 3), None)
    """
    array = addressable(shape)
    if isinstance(linear, int):
        checked_position(array, linear)
        tiling = array.tiling
        return tuple(tiling.element(linear)) if linear < tiling.slots and tiling.holds(linear) else None
    from hlo_cli.analysis.layout.address_map import elements_at

    return elements_at(array, linear)


def untiled_index(shape: Shape | str, index: OneIndex) -> int:
    """Linear index of the element at a logical index in minor-to-major order, as if the layout had no tiles.

    XLA calls it `MultidimensionalIndexToLinearIndex` (xla/index_util.h). In `f32[3,5]{0,1}`, dimension 0 is minor, so
    element (2,3) has the linear index 3 * 3 + 2 = 11.

    >>> untiled_index("f32[3,5]{0,1}", (2, 3)), untiled_index("f32[3,5]{0,1:T(2,2)}", (2, 3))
    (11, 11)
    """
    array = addressable(shape)
    inside = checked_index(array, index)
    order = array.layout.minor_to_major[::-1]
    number: int = ravel(tuple(inside[d] for d in order), tuple(array.sizes[d] for d in order))
    return number


def untiled_element_at(shape: Shape | str, linear: int) -> tuple[int, ...]:
    """Logical index of the element at a linear index in minor-to-major order; the inverse of `untiled_index`.

    XLA calls it `LinearIndexToMultidimensionalIndex` (xla/index_util.h).

    >>> untiled_element_at("f32[3,5]{0,1}", 11)
    (2, 3)
    """
    array = addressable(shape)
    expect(SupportsIndex, "a linear index", linear)
    if not 0 <= linear < array.elements:
        raise HloError(f"linear index {linear} is out of range: {array} has {array.elements:,} elements")
    order = array.layout.minor_to_major[::-1]
    place = dict(zip(order, unravel(linear, tuple(array.sizes[d] for d in order)), strict=True))
    return tuple(place[d] for d in range(array.rank))


multidimensional_index_to_linear_index = untiled_index  # the names in xla/index_util.h, for those who look for them
linear_index_to_multidimensional_index = untiled_element_at


# --- the part that a drawing shows ---
# Part of an array that a drawing shows: a plane, some of its rows and columns, and the linear index of each cell.
#
# Each cell is computed on its own with `hlo_cli.ir.layout`, without the whole array. The selection follows the figures
# of XLA's docs/tiled_layout.md: corners of the first tile, the next tile, the last elements, and padding.


Joint = Literal["none", "part", "tile", "gap"]
"""Separator between two neighboring positions: none, an edge of an inner tile, a tile edge, or omitted positions."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Rows or columns of a drawn plane.

    `dimensions` are the logical dimensions of the axis: none for one that a tile adds, several under `*`. The first
    `size` of `padded` positions are data; `tile` and `part` are the sizes of tiles and inner tiles, 0 without.
    """

    dimensions: tuple[int, ...]
    size: int
    padded: int
    tile: int = 0
    part: int = 0

    def joint(self, before: int, after: int) -> Joint:
        """Separator between two positions that are drawn next to each other."""
        if after != before + 1:
            return "gap"
        if self.tile and after % self.tile == 0:
            return "tile"
        return "part" if self.part and after % self.tile % self.part == 0 else "none"

    def joints(self, positions: Sequence[int]) -> tuple[Joint, ...]:
        """Separators between all adjacent positions."""
        return tuple(self.joint(*pair) for pair in pairwise(positions))


@dataclass(frozen=True, slots=True)
class Plane:
    """Two most minor physical dimensions of an array at index `lead` of the others.

    A one-dimensional array whose tiles have inner tiles of size `fold` is drawn in rows of that size.
    """

    rows: Axis
    columns: Axis
    lead: tuple[int, ...]
    fold: int
    tail: Tiling

    def linear_index(self, row: int, column: int) -> int:
        """Linear index, in elements, of a cell."""
        index: int = self.tail.linear_index(self._index(row, column))
        return index

    def is_padding(self, row: int, column: int) -> bool:
        """Whether a cell is padding."""
        if self.fold:
            return row * self.fold + column >= self.tail.bounds[0][-1]
        return row >= self.rows.size or column >= self.columns.size

    def _index(self, row: int, column: int) -> Index:
        if self.fold:
            return (*self.lead, row * self.fold + column)
        return (*self.lead, row, column)[-len(self.tail.bounds[0]) :] if self.tail.bounds[0] else ()


def plane_of(shape: ArrayShape, element: Sequence[int] = ()) -> Plane:
    """Plane to draw: the first one, or the one with `element`.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> plane = plane_of(parse_shape("f32[3,5]{1,0:T(2,2)}"))
    >>> plane.linear_index(2, 3), plane.linear_index(3, 5), plane.is_padding(3, 5)
    (17, 23, True)
    """
    tiling, tiles = shape.tiling, shape.layout.tiles
    first = next((number for number, step in enumerate(tiling.steps) if isinstance(step, Split)), len(tiling.steps))
    # Drawn are physical dimensions: the steps before the first tile only order and combine dimensions.
    tail = Tiling(tiling.steps[first:], tiling.bounds[first:])
    axes = _axes(shape)
    lead = _head_index(tiling, first, element)[:-2] if element else (0,) * max(len(axes) - 2, 0)
    # One dimension with tiles such as T(1024)(128): in rows of the inner tile the figure shows what memory does.
    fold = _fold(tiles) if len(axes) == 1 else 0
    if fold:
        return Plane(*_folded(axes[0], tiles, fold), (), fold, tail)
    parts = _inner_tile_sizes(tiles)
    column = _with_inner_tile(axes[-1], parts[-1]) if axes else Axis((), 1, 1)
    row = _with_inner_tile(axes[-2], parts[-2]) if len(axes) > 1 else Axis((), 1, 1)
    return Plane(row, column, lead, 0, tail)


def position_in_plane(shape: ArrayShape, plane: Plane, element: Sequence[int]) -> tuple[int, int] | None:
    """Row and column of an element, or None if it is in another plane.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("f32[2,3,130]{2,1,0:T(8,128)}")
    >>> position_in_plane(shape, plane_of(shape), (0, 2, 129)), position_in_plane(shape, plane_of(shape), (1, 0, 0))
    ((2, 129), None)
    """
    first = len(shape.tiling.steps) - len(plane.tail.steps)
    index = _head_index(shape.tiling, first, element)
    if plane.fold:
        return index[-1] // plane.fold, index[-1] % plane.fold
    if index[:-2] != plane.lead:
        return None
    return (*((0, 0) if len(index) < 2 else ()), *index)[-2:] if len(index) != 1 else (0, index[0])


def visible_positions(axis: Axis, count: int, wanted: Sequence[int] = ()) -> tuple[int, ...]:
    """The `count` most informative positions of an axis: the ends of tiles, data, and padding.

    A single omitted position between two visible ones is added.

    >>> visible_positions(Axis((1,), 70, 128, 128), 6), visible_positions(Axis((0,), 300, 304, 8), 7)
    ((0, 1, 2, 69, 70, 127), (0, 1, 7, 8, 299, 300, 303))
    """
    if axis.padded <= count:
        return tuple(range(axis.padded))
    chosen: dict[int, None] = {}
    # Elements that were asked for come first, then edges, as in the figures of tiled_layout.md; the rest in order.
    for position in chain(wanted, _by_relevance(axis), range(2, axis.padded)):
        if len(chosen) >= count:
            break
        if 0 <= position < axis.padded:
            chosen[position] = None
    # An ellipsis would take as much room as the one position that it stands for.
    bridged = (a + 1 for a, b in pairwise(sorted(chosen)) if b == a + 2)
    return tuple(sorted({*chosen, *bridged}))


def _by_relevance(axis: Axis) -> Iterator[int]:
    last = axis.padded - 1
    # First and last element, last position, first padding: where a layout can surprise.
    yield from (0, axis.size - 1, last, axis.size if axis.size <= last else 0, 1)
    if 0 < axis.tile < axis.padded:
        yield from (axis.tile - 1, axis.tile)
    if axis.part > 1:
        yield from (axis.part - 1, axis.part)
    yield 2


def _axes(shape: ArrayShape) -> list[Axis]:
    """Physical dimensions before the first tile, with the tile sizes along them."""
    dimensions = physical_dimensions(shape)
    tile_sizes = split_sizes(shape.layout.tiles[0]) if shape.layout.tiles else ()
    axes = []
    for number, dimension in enumerate(dimensions):
        minor = len(dimensions) - number
        tile = tile_sizes[-minor] if minor <= len(tile_sizes) else 1
        if not tile_sizes:
            tile = max(dimension.size, 1)
        axes.append(Axis(dimension.dimensions, dimension.size, -(-dimension.size // tile) * tile, tile))
    return axes


def _inner_tile_sizes(tiles: Sequence[Tile]) -> tuple[int, int]:
    """Sizes of the second tile along the rows and columns of the first; 0 if there is none or it is not rectangular."""
    # A `*` in the second tile has no rectangle to draw.
    if len(tiles) < 2 or COMBINE in tiles[1].dimensions:
        return 0, 0
    first, second = split_sizes(tiles[0]), split_sizes(tiles[1])
    rows = 0 if len(first) < 2 else second[-2] if len(second) > 1 else 1
    return rows, second[-1]


def _with_inner_tile(axis: Axis, part: int) -> Axis:
    return Axis(axis.dimensions, axis.size, axis.padded, axis.tile, part if part < axis.tile else 0)


def _fold(tiles: Sequence[Tile]) -> int:
    if len(tiles) < 2 or len(tiles[0].dimensions) != 1 or len(tiles[1].dimensions) != 1:
        return 0
    tile, row = tiles[0].dimensions[0], tiles[1].dimensions[0]
    return row if row < tile and tile % row == 0 else 0


def _folded(axis: Axis, tiles: Sequence[Tile], fold: int) -> tuple[Axis, Axis]:
    rows, columns = _inner_tile_sizes(((Tile((axis.tile // fold, fold))), *tiles[2:3]))
    height = Axis((), -(-axis.size // fold), axis.padded // fold, axis.tile // fold)
    width = Axis(axis.dimensions, min(axis.size, fold), fold, fold)
    return _with_inner_tile(height, rows), _with_inner_tile(width, columns)


def _head_index(tiling: Tiling, first: int, element: Sequence[int]) -> Index:
    index: Index = tuple(element)
    for step, bounds in zip(tiling.steps[:first], tiling.bounds, strict=False):
        index = step.forward(index, bounds)
    return index
