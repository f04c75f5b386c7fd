"""Which tile a TPU's compiler gives to an array whose layout nobody chose.

The compiler is not in the open; the rule was measured over v2 to 7x and agrees with it on every default layout seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, has_large_tiles
from hlo_cli.ir.layout import Layout, Tile
from hlo_cli.ir.primitive import PrimitiveType
from hlo_cli.ir.shape import ArrayShape

LANES: Final = 128
SUBLANES: Final = 8
WORD_BITS: Final = 32


def default_layout(
    shape: ArrayShape, *, generation: str = USUAL_TPU, minor_to_major: tuple[int, ...] | None = None
) -> Layout:
    """The layout with a TPU's default tiles, in the given order of dimensions or the shape's own.

    Everything else that the layout says (memory space, padding) stays. HloError for an unknown generation.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> str(default_layout(parse_shape("bf16[300,70]"))), str(default_layout(parse_shape("s8[3]"), generation="v3"))
    ('{1,0:T(8,128)(2,1)}', '{0:T(1024)(128)(4,1)}')
    """
    is_old = has_large_tiles(generation)
    order = shape.layout.minor_to_major if minor_to_major is None else minor_to_major
    bits = width_of(shape.element_type)
    tiles = _tiles([shape.sizes[d] for d in order], bits, is_old=is_old)
    element_size = bits if bits < 8 and not is_old else 0
    return replace(shape.layout, minor_to_major=order, tiles=tiles, element_size_in_bits=element_size)


def width_of(element_type: PrimitiveType) -> int:
    """How many bits an element can be packed into: a power of two; truths and types of six bits need a byte.

    >>> from hlo_cli.ir.primitive import PRIMITIVE_TYPES
    >>> [width_of(PRIMITIVE_TYPES[name]) for name in ("pred", "s2", "f6e2m3fn", "c64")]
    [8, 2, 8, 64]
    """
    packs = element_type.is_sub_byte and 8 % element_type.bits == 0
    return element_type.bits if packs else 8 * element_type.byte_width


def least_rows(bits: int, *, is_old: bool) -> int:
    """How many rows a tile has at the least: those that make up a word, on old TPUs two words.

    >>> least_rows(16, is_old=False), least_rows(16, is_old=True), least_rows(2, is_old=True)
    (2, 4, 8)
    """
    return 2 * _packed(max(bits, 8)) if is_old else _packed(bits)


def power_of_two(size: int) -> int:
    """The smallest power of two that is not below a size.

    >>> power_of_two(1), power_of_two(5)
    (1, 8)
    """
    return 1 << max(size - 1, 0).bit_length()


def _tiles(sizes: list[int], bits: int, *, is_old: bool) -> tuple[Tile, ...]:
    """Tiles for sizes that stand most minor first."""
    if 0 in sizes:
        return ()
    packed = _packed(max(bits, 8) if is_old else bits)
    smallest = LANES * least_rows(bits, is_old=is_old)
    inner = (Tile((packed, 1)),) if packed > 1 else ()
    if not sizes:
        return (Tile((smallest,)),)
    if len(sizes) == 1:
        largest = max(LANES * max(SUBLANES, _packed(bits)), smallest)
        first = min(max(power_of_two(sizes[0]), smallest), largest)
        return (Tile((first,)), *((Tile((LANES,)), *inner) if packed > 1 else ()))
    return (Tile((_rows(sizes[1], bits, is_old=is_old), LANES)), *inner)


def _rows(size: int, bits: int, *, is_old: bool) -> int:
    """How many rows a tile has, for the second most minor size."""
    packed, least = _packed(bits), least_rows(bits, is_old=is_old)
    if is_old and bits <= 8:
        return max(SUBLANES, packed)
    if packed >= 4 and size % (SUBLANES * packed) == 0:
        return SUBLANES * packed
    return min(max(power_of_two(size), least), max(SUBLANES, least))


def _packed(bits: int) -> int:
    return max(WORD_BITS // bits, 1)
