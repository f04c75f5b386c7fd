"""Where an element lies, and what lies at an address: for one element, or for arrays of them.

Single elements need no numpy. Mirrors `LayoutUtil::LinearIndexForNestedTiling` and
`LayoutUtil::DelinearizeIndexForNestedTiling` of xla/layout_util.h; the untiled index is that of xla/index_util.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from hlo_cli.analysis.layout.indices import OneIndex, addressable, checked_index, checked_slot
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.ir.tiling import Bounds, Index, Split, ravel, unravel
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.layout.index_functions import IntArray


@dataclass(frozen=True, slots=True)
class TilePosition:
    """Where an element lies at one level of tiling: in which tile of how many, and where in a tile of which sizes.

    `number` counts the tiles of the whole array at this level in the order of memory, `position` the slots in one.
    """

    which: Index
    of: Bounds
    where: Index
    sizes: Bounds
    number: Any
    position: Any


@dataclass(frozen=True, slots=True)
class ElementPosition:
    """Where an element lies: its slot counted in elements, its first bit, and its tile at each level of tiling.

    `bit_offset` counts from the start of the buffer, the sizes that `M(n)` puts in front included.
    """

    index: Index
    linear_index: Any
    bit_offset: Any
    tiles: tuple[TilePosition, ...]

    @property
    def byte_offset(self) -> Any:
        """The byte that holds the element's first bit."""
        return self.bit_offset // 8


def position_of(shape: ArrayShape, index: Index, *, element_bits: int | None = None) -> ElementPosition:
    """Where the element at `index` lies; coordinates are ints or arrays, and must be in range.

    `element_bits` replaces the bits of an element that the shape has.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> place = position_of(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"), (37, 5))
    >>> place.linear_index, place.byte_offset, [(tile.which, tile.where) for tile in place.tiles]
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
    """The slot, counted in elements, of the element at a logical index; negative coordinates count from the end.

    For `f32[3,5]{1,0:T(2,2)}` element (2,3) lies in tile (2 // 2, 3 // 2) = (1,1) of (2,3), there at (0,1) of (2,2),
    so at ((1 * 3 + 1) * 2 + 0) * 2 + 1 = 17. An array of indices has the shape (n, rank) and gives n numbers.
    HloError if an index is out of range or the layout does not fit the shape.

    >>> from hlo_cli import parse_shape
    >>> linear_index(parse_shape("f32[3,5]{1,0:T(2,2)}"), (2, 3))
    17
    """
    array = addressable(shape)
    if isinstance(index, Sequence):
        found: int = array.tiling.linear_index(checked_index(array, index))
        return found
    from hlo_cli.analysis.layout.address_map import linear_indices

    return linear_indices(array, index)


@overload
def element_at(shape: Shape, linear: int) -> tuple[int, ...] | None: ...
@overload
def element_at(shape: Shape, linear: IntArray) -> IntArray: ...
def element_at(shape: Shape, linear: int | IntArray) -> tuple[int, ...] | IntArray | None:
    """The logical index of the element in a slot, or None if the slot is padding; the inverse of `linear_index`.

    An array of n slots gives an array of shape (n, rank), with -1 throughout for padding. HloError for a slot that
    the array does not have. In `f32[3,5]{1,0:T(2,2)}` slot 17 is slot 1 of tile 17 // 4 = 4, which is tile (1,1):
    row 1 * 2 + 1 // 2 = 2, column 1 * 2 + 1 % 2 = 3.

    >>> from hlo_cli import parse_shape
    >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
    >>> element_at(shape, 17), element_at(shape, 9)
    ((2, 3), None)
    """
    array = addressable(shape)
    if isinstance(linear, int):
        checked_slot(array, linear)
        tiling = array.tiling
        return tuple(tiling.element(linear)) if linear < tiling.slots and tiling.holds(linear) else None
    from hlo_cli.analysis.layout.inverse_map import elements_at

    return elements_at(array, linear)


def multidimensional_index_to_linear_index(shape: Shape, index: OneIndex) -> int:
    """The number of an element in minor-to-major order, tiles left aside: `IndexUtil` of xla/index_util.h.

    In `f32[3,5]{0,1}` the rows vary fastest, so element (2,3) has the number 3 * 3 + 2 = 11.

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
    """The element that has a number in minor-to-major order, tiles left aside: `IndexUtil` of xla/index_util.h.

    >>> from hlo_cli import parse_shape
    >>> linear_index_to_multidimensional_index(parse_shape("f32[3,5]{0,1}"), 11)
    (2, 3)
    """
    array = addressable(shape)
    if not 0 <= linear < array.elements:
        raise HloError(f"{linear} is out of range: {array} has {array.elements:,} elements")
    order = array.layout.minor_to_major[::-1]
    place = dict(zip(order, unravel(linear, tuple(array.sizes[d] for d in order)), strict=True))
    return tuple(place[d] for d in range(array.rank))
