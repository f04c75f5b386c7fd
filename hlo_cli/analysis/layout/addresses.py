"""Maps elements to linear indices and back, for one element or for arrays of them.

Single elements need no numpy. Mirrors `LayoutUtil::LinearIndexForNestedTiling` and
`LayoutUtil::DelinearizeIndexForNestedTiling` of xla/layout_util.h; the untiled index is that of xla/index_util.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from hlo_cli.analysis.layout.indices import OneIndex, addressable, checked_index, checked_position
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Bounds, Index, Split, ravel, unravel
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.layout.index_functions import IntArray


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


def position_of(shape: ArrayShape, index: Index, *, element_bits: int | None = None) -> ElementPosition:
    """Position of the element at `index`; coordinates are ints or arrays and must be in range.

    `element_bits` replaces the bits per element of the shape.

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
            at = len(after) - count
            tiles.append(
                TilePosition(
                    inside[at - count : at],
                    after[at - count : at],
                    inside[at:],
                    step.sizes,
                    ravel(inside[:at], after[:at]),
                    ravel(inside[at:], step.sizes),
                )
            )
    linear = ravel(inside, tiling.physical)
    bits = shape.element_bits if element_bits is None else element_bits
    return ElementPosition(
        index, linear, linear * bits + 8 * shape.layout.dynamic_shape_metadata_prefix_bytes, tuple(tiles)
    )


@overload
def linear_index(shape: Shape, index: OneIndex) -> int: ...
@overload
def linear_index(shape: Shape, index: IntArray) -> IntArray: ...
def linear_index(shape: Shape, index: OneIndex | IntArray) -> int | IntArray:
    """Linear index, in elements, of the element at a logical index; negative coordinates count from the end.

    In `f32[3,5]{1,0:T(2,2)}`, element (2,3) is in tile (2 // 2, 3 // 2) = (1,1) of (2,3), there at (0,1) of (2,2), so
    at ((1 * 3 + 1) * 2 + 0) * 2 + 1 = 17. An array of indices has the shape (n, rank) and gives n integers. HloError if
    an index is out of range or the layout does not fit the shape.

    >>> from hlo_cli import parse_shape
    >>> linear_index(parse_shape("f32[3,5]{1,0:T(2,2)}"), (2, 3))
    17
    """
    array = addressable(shape)
    if isinstance(index, Sequence):
        # All tiles count, unlike in LayoutUtil::LinearIndex (xla/layout_util.cc), which ignores all but the first.
        found: int = array.tiling.linear_index(checked_index(array, index))
        return found
    from hlo_cli.analysis.layout.address_map import linear_indices

    return linear_indices(array, index)


@overload
def element_at(shape: Shape, linear: int) -> tuple[int, ...] | None: ...
@overload
def element_at(shape: Shape, linear: IntArray) -> IntArray: ...
def element_at(shape: Shape, linear: int | IntArray) -> tuple[int, ...] | IntArray | None:
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
    from hlo_cli.analysis.layout.inverse_map import elements_at

    return elements_at(array, linear)


def multidimensional_index_to_linear_index(shape: Shape, index: OneIndex) -> int:
    """Linear index of an element in minor-to-major order, without tiles (`IndexUtil` of xla/index_util.h).

    In `f32[3,5]{0,1}`, dimension 0 is minor, so element (2,3) has the linear index 3 * 3 + 2 = 11.

    >>> from hlo_cli import parse_shape
    >>> multidimensional_index_to_linear_index(parse_shape("f32[3,5]{0,1}"), (2, 3))
    11
    """
    array = addressable(shape)
    inside = checked_index(array, index)
    order = array.layout.minor_to_major[::-1]
    number: int = ravel(tuple(inside[d] for d in order), tuple(array.sizes[d] for d in order))
    return number


def linear_index_to_multidimensional_index(shape: Shape, linear: int) -> tuple[int, ...]:
    """Element at a linear index in minor-to-major order, without tiles (`IndexUtil` of xla/index_util.h).

    >>> from hlo_cli import parse_shape
    >>> linear_index_to_multidimensional_index(parse_shape("f32[3,5]{0,1}"), 11)
    (2, 3)
    """
    array = addressable(shape)
    if not 0 <= linear < array.elements:
        raise HloError(f"linear index {linear} is out of range: {array} has {array.elements:,} elements")
    order = array.layout.minor_to_major[::-1]
    place = dict(zip(order, unravel(linear, tuple(array.sizes[d] for d in order)), strict=True))
    return tuple(place[d] for d in range(array.rank))
