"""Coordinates of the element in a position as sums over the physical dimensions.

A position is padding if a coordinate reaches its limit: the size of the array dimension, that of a tile which the inner
tile does not divide, or 1 for a dimension that a tile adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Combine, Extend, Permute, Split, Tiling
from hlo_cli.ir.shape import ArrayShape

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
    coordinates = coordinates_of(tiling)
    steps = element_steps(coordinates, shape.sizes) if coordinates is not None else None
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


def coordinates_of(tiling: Tiling) -> tuple[Coordinate, ...] | None:
    """Coordinates of positions; None if a `*` combines dimensions that are tiled already.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> coordinates_of(parse_shape("f32[3,5]{1,0:T(2,2)}").tiling)
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
            case Combine(position=at):
                (first, first_step), (second, second_step) = (next(iter(digits[i].items())) for i in (at, at + 1))
                if (
                    len(digits[at]) + len(digits[at + 1]) != 2
                    or (first_step, second_step) != (1, 1)
                    or ((limits[first], limits[second]) != bounds[at : at + 2])
                ):
                    return None
                if not origins[first]:  # a dimension that a tile put in front has nothing to fold
                    digits[at : at + 2] = [digits[at + 1]]
                    continue
                limits[second] *= limits[first]
                origins[second] = origins[first] + origins[second]
                origins[first] = ()
                limits[first] = 1
                digits[at : at + 2] = [digits[at + 1]]
            case Split(sizes=sizes):
                kept = len(digits) - len(sizes)
                which = [{b: s * t for b, s in digits[kept + i].items()} for i, t in enumerate(sizes)]
                where = []
                for i, size in enumerate(sizes):
                    where.append({**digits[kept + i], len(limits): 1})
                    limits.append(size)
                    origins.append(())
                digits = digits[:kept] + which + where
    coordinates = (
        Coordinate(limit, tuple(digit.get(coordinate, 0) for digit in digits), dimensions)
        for coordinate, (limit, dimensions) in enumerate(zip(limits, origins, strict=True))
    )
    return tuple(
        coordinate for coordinate in coordinates if coordinate.dimensions or coordinate.can_overflow(tiling.physical)
    )


def element_steps(coordinates: Sequence[Coordinate], sizes: tuple[int, ...]) -> list[int] | None:
    """Row-major stride of each coordinate; None if it is not constant."""
    strides = [prod(sizes[d + 1 :]) for d in range(len(sizes))]
    steps = []
    for coordinate in coordinates:
        counting = [d for d in coordinate.dimensions if sizes[d] > 1]
        if any(strides[major] != strides[minor] * sizes[minor] for major, minor in pairwise(counting)):
            return None
        steps.append(strides[counting[-1]] if counting else 0)
    return steps
