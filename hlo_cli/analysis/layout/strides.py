"""Strides in bytes between adjacent elements of a dimension, where they are constant."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.shape import ArrayShape

_MAX_FACTORS = 12


def physical_strides(shape: ArrayShape) -> tuple[int | None, ...]:
    """Stride in bytes of each physical dimension; None where it is not a whole number of bytes.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> physical_strides(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    (2048, 2048, 512, 4, 2, 2)
    """
    sizes = shape.tiling.physical
    return tuple(_whole_bytes(prod(sizes[at + 1 :]), shape) for at in range(len(sizes)))


def logical_strides(shape: ArrayShape) -> tuple[int | None, ...]:
    """Stride in bytes of each logical dimension; None where it is not constant.

    With a `*` in a tile, the stride depends on the other dimensions, so all are None.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> logical_strides(parse_shape("f32[300,70]{1,0}")), logical_strides(parse_shape("f32[300,70]{1,0:T(8,128)}"))
    ((280, 4), (512, 4))
    >>> logical_strides(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    (None, 4)
    """
    starred = any(size == COMBINE for tile in shape.layout.tiles for size in tile.dimensions)
    if starred or not shape.elements:
        return (None,) * shape.rank
    return tuple(_stride(shape, dimension) for dimension in range(shape.rank))


def _stride(shape: ArrayShape, dimension: int) -> int | None:
    """Stride of one dimension; a mixed-radix number is linear exactly if it is at the indices where a digit carries."""
    size, tiling = shape.sizes[dimension], shape.tiling
    if size == 1:
        return None if shape.layout.tiles else _untiled_stride(shape, dimension)
    step = tiling.linear_index(_along(shape, dimension, 1))
    for position in _carry_positions(shape, size):
        if tiling.linear_index(_along(shape, dimension, position)) != position * step:
            return None
    return _whole_bytes(step, shape)


def _along(shape: ArrayShape, dimension: int, position: int) -> tuple[int, ...]:
    return tuple(position if d == dimension else 0 for d in range(shape.rank))


def _untiled_stride(shape: ArrayShape, dimension: int) -> int | None:
    order = shape.layout.minor_to_major
    return _whole_bytes(prod(shape.sizes[d] for d in order[: order.index(dimension)]), shape)


def _carry_positions(shape: ArrayShape, size: int) -> Iterator[int]:
    radices = {1}
    for factor in [size for tile in shape.layout.tiles for size in tile.dimensions][:_MAX_FACTORS]:
        radices |= {factor * radix for radix in radices}
    return (position for position in sorted({*radices, size - 1}) if 1 < position < size)


def _whole_bytes(elements: int, shape: ArrayShape) -> int | None:
    bits = elements * shape.element_bits
    return None if bits % 8 else bits // 8
