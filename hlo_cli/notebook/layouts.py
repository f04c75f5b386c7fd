"""An example of a layout: an array that shows its order and its tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.shape import ArrayShape

if TYPE_CHECKING:
    from hlo_cli.ir.layout import Layout

_TYPES: Final = {4: "s4", 8: "s8", 16: "bf16", 32: "f32", 64: "s64"}
"""A type for each number of bits of an element."""
_WORD_BITS: Final = 32
_WIDEST: Final = 128
"""Two tiles in a dimension, if they have no more elements in it than this; else one."""
_UNTILED: Final = (2, 3)
"""The sizes of the two minor dimensions of an array without tiles."""


def example_of(layout: Layout) -> ArrayShape:
    """An array with this layout: a tile or two in each of the minor dimensions, and 2 elements in the others.

    >>> from hlo_cli import parse_shape
    >>> print(example_of(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}").layout))
    bf16[16,128]{1,0:T(8,128)(2,1)}
    >>> print(example_of(parse_shape("f32[9,9,9]{0,2,1}").layout))
    f32[3,2,2]{0,2,1}
    """
    minor_to_major = layout.minor_to_major
    sizes = [2] * len(minor_to_major)
    tile = [size for size in layout.tiles[0].dimensions if size > 0] if layout.tiles else []
    wanted = [2 * size for size in reversed(tile)] or list(reversed(_UNTILED))
    for dimension, size in zip(minor_to_major, wanted, strict=False):
        sizes[dimension] = size if size <= _WIDEST else size // 2
    element = PRIMITIVE_TYPES[_TYPES.get(_bits_of(layout), "f32")]
    return ArrayShape(element, tuple(sizes), (False,) * len(sizes), layout)


def _bits_of(layout: Layout) -> int:
    """The bits of an element: given, or such that the inner tile of (n,1) fills a word, as on TPUs."""
    if layout.element_size_in_bits:
        return layout.element_size_in_bits
    inner = layout.tiles[-1].dimensions if len(layout.tiles) > 1 else ()
    return _WORD_BITS // inner[0] if len(inner) == 2 and inner[0] > 0 and inner[1] == 1 else _WORD_BITS
