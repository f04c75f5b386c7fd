"""Default tiles of TPU layouts.

The compiler is not public. The rule was measured on v2 to 7x and agrees with every default layout observed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, has_large_tiles
from hlo_cli.ir.layout import Layout, PrimitiveType, Tile
from hlo_cli.ir.shape import ArrayShape

LANES: Final = 128
SUBLANES: Final = 8
WORD_BITS: Final = 32


def default_layout(
    shape: ArrayShape, *, generation: str = USUAL_TPU, minor_to_major: tuple[int, ...] | None = None
) -> Layout:
    """Returns the layout with the default tiles of a TPU generation; `minor_to_major` replaces the shape's own order.

    Memory space and padding of the layout are kept. Raises HloError for an unknown generation.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
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
    """Returns the bits that an element occupies when packed, a power of two; pred and 6-bit types take a byte.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> [width_of(PRIMITIVE_TYPES[name]) for name in ("pred", "s2", "f6e2m3fn", "c64")]
    [8, 2, 8, 64]
    """
    packs = element_type.is_sub_byte and 8 % element_type.bits == 0
    return element_type.bits if packs else 8 * element_type.byte_width


def least_rows(bits: int, *, is_old: bool) -> int:
    """Returns the minimum number of rows of a tile: as many as a 32-bit word packs, twice that on v2 and v3.

    >>> least_rows(16, is_old=False), least_rows(16, is_old=True), least_rows(2, is_old=True)
    (2, 4, 8)
    """
    return 2 * _packed(max(bits, 8)) if is_old else _packed(bits)


def power_of_two(size: int) -> int:
    """Returns the smallest power of two that is at least `size`.

    >>> power_of_two(1), power_of_two(5)
    (1, 8)
    """
    return 1 << max(size - 1, 0).bit_length()


def _tiles(sizes: list[int], bits: int, *, is_old: bool) -> tuple[Tile, ...]:
    """Returns the tiles for dimension sizes in minor-to-major order."""
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
    """Returns the number of rows of a tile; `size` is that of the second most minor dimension."""
    packed, least = _packed(bits), least_rows(bits, is_old=is_old)
    if is_old and bits <= 8:
        return max(SUBLANES, packed)
    if packed >= 4 and size % (SUBLANES * packed) == 0:
        return SUBLANES * packed
    return min(max(power_of_two(size), least), max(SUBLANES, least))


def _packed(bits: int) -> int:
    """Returns the number of elements in a 32-bit word, at least 1."""
    return max(WORD_BITS // bits, 1)
