"""Checks indices and linear indices from user input against an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import index as as_int
from typing import TypeAlias

from hlo_cli.analysis.layout.steps import overflows
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape
from hlo_cli.source import HloError

OneIndex: TypeAlias = "Sequence[int]"


def addressable(shape: Shape) -> ArrayShape:
    """Array whose elements have addresses; HloError for tuples, tokens, and arrays beyond 64-bit addresses.

    Split configurations (`SC`) are ignored, as XLA does not define the order of the parts in their memories.

    >>> from hlo_cli import parse_shape
    >>> addressable(parse_shape("(f32[2], f32[3])"))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: (f32[2]{0}, f32[3]{0}) is not an array
    """
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        raise HloError(f"{shape} is not an array")
    if array.layout.split_configs and array.problem is None:
        array = replace(array, layout=replace(array.layout, split_configs=()))
    if (problem := array.problem) is None and overflows(array):
        problem = "padded array size exceeds 2^63 - 1"
    if problem is not None:
        raise HloError(f"{array}: {problem}")
    return array


def checked_index(shape: ArrayShape, index: OneIndex) -> tuple[int, ...]:
    """Index with negative coordinates counted from the end; HloError if one is out of range.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> checked_index(parse_shape("f32[3,5]"), (-1, 3))
    (2, 3)
    """
    try:
        coordinates = [as_int(coordinate) for coordinate in index]
    except TypeError:
        raise HloError(
            f"expected {_index_values(shape.rank)} for {shape}, or an array of shape (n, {shape.rank})"
        ) from None
    if len(coordinates) != shape.rank:
        raise HloError(f"expected {_index_values(shape.rank)} for {shape}, found {len(coordinates)}")
    for dimension, (coordinate, size) in enumerate(zip(coordinates, shape.sizes, strict=True)):
        if not -size <= coordinate < size:
            raise out_of_range(shape, dimension, coordinate)
    return tuple(c + size if c < 0 else c for c, size in zip(coordinates, shape.sizes, strict=True))


def checked_position(shape: ArrayShape, position: int) -> None:
    """Raises HloError if a linear index is out of range."""
    if not 0 <= position < shape.slots:
        raise HloError(f"linear index {position} is out of range: {shape} has {shape.slots:,} positions")


def out_of_range(shape: ArrayShape, dimension: int, coordinate: int) -> HloError:
    """Error for a coordinate that is out of range."""
    size = shape.sizes[dimension]
    valid = f"0 to {size - 1}, or -{size} to -1 from the end" if size else "size 0"
    return HloError(f"index {coordinate} is out of range for dimension {dimension} of {shape} ({valid})")


def _index_values(count: int) -> str:
    return f"{count} index {'value' if count == 1 else 'values'}"
