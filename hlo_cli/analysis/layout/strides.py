"""Strides: how many bytes lie between neighbours along a dimension, where that is always the same number."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.shape import ArrayShape

_MOST_FACTORS = 12


def physical_strides(shape: ArrayShape) -> tuple[int | None, ...]:
    """Bytes from one to the next along each dimension as it lies in memory; None where that is no whole byte.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> physical_strides(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    (2048, 2048, 512, 4, 2, 2)
    """
    sizes = shape.tiling.physical
    return tuple(_whole_bytes(prod(sizes[at + 1 :]), shape) for at in range(len(sizes)))


def logical_strides(shape: ArrayShape) -> tuple[int | None, ...]:
    """Bytes from one element to the next along each logical dimension; None where that is not always the same.

    A `*` in a tile makes the step depend on the other dimensions, so nothing is said then.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
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
    """A mixed-radix place is linear exactly if it is so at the indices where one of its digits starts to count."""
    size, tiling = shape.sizes[dimension], shape.tiling
    if size == 1:
        return None if shape.layout.tiles else _untiled_stride(shape, dimension)
    step = tiling.linear_index(_along(shape, dimension, 1))
    for place in _turning_points(shape, size):
        if tiling.linear_index(_along(shape, dimension, place)) != place * step:
            return None
    return _whole_bytes(step, shape)


def _along(shape: ArrayShape, dimension: int, place: int) -> tuple[int, ...]:
    return tuple(place if d == dimension else 0 for d in range(shape.rank))


def _untiled_stride(shape: ArrayShape, dimension: int) -> int | None:
    order = shape.layout.minor_to_major
    return _whole_bytes(prod(shape.sizes[d] for d in order[: order.index(dimension)]), shape)


def _turning_points(shape: ArrayShape, size: int) -> Iterator[int]:
    radices = {1}
    for factor in [size for tile in shape.layout.tiles for size in tile.dimensions][:_MOST_FACTORS]:
        radices |= {factor * radix for radix in radices}
    return (place for place in sorted({*radices, size - 1}) if 1 < place < size)


def _whole_bytes(elements: int, shape: ArrayShape) -> int | None:
    bits = elements * shape.element_bits
    return None if bits % 8 else bits // 8
