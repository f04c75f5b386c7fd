"""In which order a TPU's compiler puts the dimensions of an array whose layout nobody chose, and what others take.

Measured as the tiles were, and as equal to the compiler: it takes the two most minor dimensions that pad least, but
counts with tiles of at most eight rows, also where it then uses taller ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, has_large_tiles
from hlo_cli.analysis.hardware.default_tiles import (
    LANES,
    SUBLANES,
    WORD_BITS,
    default_layout,
    least_rows,
    power_of_two,
    width_of,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.shape_text import UNBOUNDED

Order = tuple[int, ...]

_MOST_ELEMENTS: Final = 2**47
"""Beyond, the compiler's count of padded elements may not fit its 64 bits."""

_MOST_PERMUTED: Final = 7


@dataclass(frozen=True, slots=True)
class OrderCost:
    """The default layout of an array for one order of its dimensions, and the bytes that it takes.

    `is_normal` if all but the two most minor dimensions are in row-major order; those orders stand for the others.
    """

    layout: Layout
    padded_bytes: int
    is_normal: bool


@dataclass(frozen=True, slots=True)
class LayoutAlternative:
    """A layout that holds the same array in fewer bytes; `is_known` if the module already uses its order."""

    layout: Layout
    padded_bytes: int
    is_known: bool


@lru_cache(maxsize=4096)
def default_order(shape: ArrayShape, *, generation: str = USUAL_TPU) -> Order | None:
    """The order of dimensions that the compiler chooses, most minor first, or None where that is not known.

    It is known for all types, and bounded sizes count as their bounds; not for `?` or 2^47 elements and more.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> default_order(parse_shape("bf16[300,70]")), default_order(parse_shape("f32[?,70]"))
    ((0, 1), None)
    """
    if UNBOUNDED in shape.dimensions or shape.elements >= _MOST_ELEMENTS:
        return None
    row_major = tuple(range(shape.rank))[::-1]
    if shape.rank < 2 or not shape.elements:
        return row_major
    bits = width_of(shape.element_type)
    least = min(least_rows(bits, is_old=has_large_tiles(generation)), SUBLANES)
    word = WORD_BITS // bits

    def cost(pair: Order) -> tuple[int, bool]:
        """What the array pads to; among equals, if a word holds more rows than were counted, whole words are better."""
        minor, second = (shape.sizes[d] for d in pair)
        rows = min(max(power_of_two(second), least), SUBLANES)
        padded = _round_up(minor, LANES) * _round_up(second, rows) * (shape.elements // (minor * second))
        return padded, word > SUBLANES and bool(minor % LANES or second % word)

    return _normal(min(permutations(row_major, 2), key=cost), row_major)


def priced_orders(shape: ArrayShape, *, generation: str = USUAL_TPU) -> tuple[OrderCost, ...]:
    """Every order of the dimensions with its default tiles and bytes; from rank 8 only the normal ones.

    Normal orders come first, then those that take least, then those nearest to row-major.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> [(str(each.layout), each.padded_bytes) for each in priced_orders(parse_shape("bf16[300,70]"))]
    [('{0,1:T(8,128)(2,1)}', 55296), ('{1,0:T(8,128)(2,1)}', 77824)]
    """
    return tuple(sorted(_priced(shape, generation), key=lambda each: (not each.is_normal, each.padded_bytes)))


@lru_cache(maxsize=4096)
def better_order(
    shape: ArrayShape, *, known: tuple[Order, ...] = (), generation: str = USUAL_TPU
) -> LayoutAlternative | None:
    """The order of dimensions that takes the fewest bytes with a TPU's default tiles, if it beats the one there is.

    Only the two most minor dimensions decide, so only they are permuted, the rest staying as it is; among
    equally good orders one that is known comes first. None for arrays without tiles.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> better = better_order(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    >>> str(better.layout), better.padded_bytes
    ('{0,1:T(8,128)(2,1)}', 55296)
    """
    if not shape.layout.tiles or shape.rank < 2 or shape.problem is not None or not shape.elements:
        return None
    best: tuple[int, bool, Order] | None = None
    for order in dict.fromkeys((*known, *_orders(shape.layout.minor_to_major))):
        layout = default_layout(shape, generation=generation, minor_to_major=order)
        candidate = (replace(shape, layout=layout).padded_bytes, order not in known, order)
        if best is None or candidate[:2] < best[:2]:
            best = candidate
    if best is None or best[0] >= shape.padded_bytes:
        return None
    layout = default_layout(shape, generation=generation, minor_to_major=best[2])
    return LayoutAlternative(layout, best[0], best[2] in known)


def _priced(shape: ArrayShape, generation: str) -> Iterator[OrderCost]:
    row_major = tuple(range(shape.rank))[::-1]
    for pair in permutations(row_major, min(shape.rank, 2)):
        normal = _normal(pair, row_major)
        layout = default_layout(shape, generation=generation, minor_to_major=normal)
        padded_bytes = replace(shape, layout=layout).padded_bytes
        rest = normal[2:]
        for major in permutations(rest) if shape.rank <= _MOST_PERMUTED else (rest,):
            yield OrderCost(replace(layout, minor_to_major=pair + major), padded_bytes, major == rest)


def _orders(order: Order) -> Iterator[Order]:
    for first, second in permutations(sorted(order, reverse=True), 2):
        yield (first, second, *(d for d in order if d not in (first, second)))


def _normal(pair: Order, row_major: Order) -> Order:
    return (*pair, *(d for d in row_major if d not in pair))


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
