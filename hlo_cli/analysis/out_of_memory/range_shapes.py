"""The value that determines the size of a range in an out-of-memory message, and its padding.

A range is as large as the largest of the values at its offset. Messages have shapes without layouts: a shape explains
the size of a range if it has that size in a dimension order with the default tiles of a TPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.layout.default_layout import Order, default_layout, default_order
from hlo_cli.ir.out_of_memory import OomAllocation, OutOfMemory
from hlo_cli.ir.shape import ArrayShape, Shape

_MAX_PERMUTED_RANK: Final = 8
_GRANULES: Final = (1, 512, 1024)
"""Multiples to which TPU compilers round the sizes of values, in bytes."""
_MAX_EXPLAINED: Final = 200
"""Number of the largest ranges whose shapes are tried in all dimension orders."""
_ROUNDING: Final = 0.006
"""Maximum relative difference of a size with three digits."""
_KIB: Final = 1024
_EXACT: Final = 1e-5


def with_range_shapes(message: OutOfMemory, *, generation: str = USUAL_TPU) -> OutOfMemory:
    """The message, with the shape and the padding of each range where one shape explains its size.

    A range whose size no shape explains has the shape that comes closest and no known padding.

    >>> from hlo_cli.ir.out_of_memory import MemoryRange
    >>> from hlo_cli.source import Span
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> row = OomAllocation(1 << 20, range=MemoryRange("default", 1, 0, 1, ((1, parse_shape("f32[2048,70]")),)))
    >>> message = OutOfMemory("compile", Span(0, 0), "hbm", "tpu", allocations=(row,))
    >>> [found] = with_range_shapes(message).allocations
    >>> str(found.shape), found.has_padding, found.padding_bytes
    ('f32[2048,70]{1,0:T(8,128)}', True, 475136)
    """
    if not message.has_ranges:
        return message
    largest = sorted(message.allocations, key=lambda each: -(each.size_bytes or 0))[:_MAX_EXPLAINED]
    tried = {id(each) for each in largest}
    return replace(
        message,
        allocations=tuple(
            _explained(each, generation) if id(each) in tried else _with_closest(each) for each in message.allocations
        ),
    )


def _with_closest(allocation: OomAllocation) -> OomAllocation:
    place, size = allocation.range, allocation.size_bytes
    if place is None or size is None:
        return allocation
    return replace(allocation, shape=_closest([shape for _, shape in place.shapes], size))


def _explained(allocation: OomAllocation, generation: str) -> OomAllocation:
    place, size = allocation.range, allocation.size_bytes
    if place is None or size is None:
        return allocation
    arrays = [shape for _, shape in place.shapes if isinstance(shape, ArrayShape) and shape.problem is None]
    fits = [(shape, found) for shape in arrays if (found := explaining_shape(shape, size, generation=generation))]
    if fits and len({shape.logical_bytes for shape, _ in fits}) == 1:
        shape = fits[0][1]
        return replace(
            allocation,
            shape=shape,
            unpadded_bytes=shape.logical_bytes,
            extra_bytes=max(_rounded_up(shape.padded_bytes, size) - shape.logical_bytes, 0),
        )
    return replace(
        allocation,
        shape=_closest([shape for shape, _ in fits], size) if fits else _closest([s for _, s in place.shapes], size),
    )


@lru_cache(maxsize=4096)
def explaining_shape(shape: ArrayShape, size_bytes: int, *, generation: str = USUAL_TPU) -> ArrayShape | None:
    """The shape with a layout in which it has a size as it is rounded in messages; None if there is no such layout.

    The dimension order that the compiler chooses by default comes first.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> str(explaining_shape(parse_shape("f32[70,2048]"), 589824)), explaining_shape(parse_shape("f32[70,2048]"), 4096)
    ('f32[70,2048]{1,0:T(8,128)}', None)
    """
    if not shape.elements or shape.logical_bytes > size_bytes * (1 + _ROUNDING):
        return None
    for order in dict.fromkeys(_orders(shape, generation)):
        found = replace(shape, layout=default_layout(shape, generation=generation, minor_to_major=order))
        if is_shown_as(found.padded_bytes, size_bytes):
            return found
    return None


def _orders(shape: ArrayShape, generation: str) -> Iterator[Order]:
    if (usual := default_order(shape, generation=generation)) is not None:
        yield usual
    row_major = tuple(range(shape.rank))[::-1]
    yield row_major
    if 2 <= shape.rank <= _MAX_PERMUTED_RANK:
        for pair in permutations(row_major, 2):
            yield (*pair, *(d for d in row_major if d not in pair))


def _rounded_up(size_bytes: int, shown: int) -> int:
    rounded = (-(-size_bytes // granule) * granule for granule in _GRANULES)
    return next((each for each in rounded if is_shown(each, shown)), size_bytes)


def is_shown(size_bytes: int, shown: int) -> bool:
    """Whether a size is the given one as messages round it: to 0.1 KiB, and from 1 MiB to 0.01 of its unit.

    Mirrors `HumanReadableNumBytes` of tsl/platform/numbers.cc, which drops what is below a 1024th of the unit.

    >>> is_shown(1000, 1000), is_shown(1000, 1024), is_shown((5 << 30) + 1, 5 << 30)
    (True, False, True)
    """
    if size_bytes < _KIB:
        return size_bytes == shown
    unit, kibibytes = _KIB, size_bytes
    while kibibytes >= _KIB * _KIB:
        kibibytes >>= 10
        unit <<= 10
    digits = 10 if unit == _KIB else 100
    return abs(kibibytes / _KIB - shown / unit) <= 0.5 / digits + _EXACT


def is_shown_as(size_bytes: int, shown: int) -> bool:
    """Whether a size, or its next multiple of the unit in which memory is allocated, is shown as the given one.

    >>> is_shown_as(4, 512), is_shown_as(4, 2048)
    (True, False)
    """
    return any(is_shown(-(-size_bytes // granule) * granule, shown) for granule in _GRANULES)


def _closest(shapes: list[Shape], size_bytes: int) -> Shape | None:
    """The largest shape that fits a size; the smallest if none does."""
    sizes = [(shape.logical_bytes, at) for at, shape in enumerate(shapes) if isinstance(shape, ArrayShape)]
    fitting = [(size, -at) for size, at in sizes if size <= size_bytes * (1 + _ROUNDING)]
    if fitting:
        return shapes[-max(fitting)[1]]
    return shapes[min(sizes)[1]] if sizes else next(iter(shapes), None)
