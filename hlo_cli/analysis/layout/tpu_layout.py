"""Which layout does the TPU compiler choose by default: its tiles, and the order of the dimensions?

The compiler is not public; both rules were measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, has_large_tiles
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Layout, PrimitiveType, Tile
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape

# --- default tiles ---
# Measured on v2 to 7x; the rule agrees with every default layout observed.


LANES: Final = 128  # a vector register of a TPU has 8 rows of 128 words of 32 bits
SUBLANES: Final = 8  # the same
WORD_BITS: Final = 32  # the same; narrower types are packed into a word


def default_tpu_layout(
    shape: ArrayShape, *, generation: str = USUAL_TPU, minor_to_major: tuple[int, ...] | None = None
) -> Layout:
    """Returns the layout with the default tiles of a TPU generation; `minor_to_major` replaces the shape's own order.

    Memory space and padding of the layout are kept. Raises HloError for an unknown generation.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> str(default_tpu_layout(parse_shape("bf16[300,70]")))
    '{1,0:T(8,128)(2,1)}'
    >>> str(default_tpu_layout(parse_shape("s8[3]"), generation="v3"))
    '{0:T(1024)(128)(4,1)}'
    """
    is_old = has_large_tiles(generation)
    order = shape.layout.minor_to_major if minor_to_major is None else minor_to_major
    bits = _width_of(shape.element_type)
    tiles = _tiles([shape.sizes[d] for d in order], bits, is_old=is_old)
    element_size = bits if bits < 8 and not is_old else 0
    return replace(shape.layout, minor_to_major=order, tiles=tiles, element_size_in_bits=element_size)


def _width_of(element_type: PrimitiveType) -> int:
    """Returns the bits that an element occupies when packed, a power of two; pred and 6-bit types take a byte.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> [_width_of(PRIMITIVE_TYPES[name]) for name in ("pred", "s2", "f6e2m3fn", "c64")]
    [8, 2, 8, 64]
    """
    # Types of 6 bits do not fill a byte evenly, and pred is a byte in memory; neither is packed.
    packs = element_type.is_sub_byte and 8 % element_type.bits == 0
    return element_type.bits if packs else 8 * element_type.byte_width


def _least_rows(bits: int, *, is_old: bool) -> int:
    """Returns the minimum number of rows of a tile: as many as a 32-bit word packs, twice that on v2 and v3.

    >>> _least_rows(16, is_old=False), _least_rows(16, is_old=True), _least_rows(2, is_old=True)
    (2, 4, 8)
    """
    return 2 * _packed(max(bits, 8)) if is_old else _packed(bits)


def _power_of_two(size: int) -> int:
    """Returns the smallest power of two that is at least `size`.

    >>> _power_of_two(1), _power_of_two(5)
    (1, 8)
    """
    return 1 << max(size - 1, 0).bit_length()


def _tiles(sizes: list[int], bits: int, *, is_old: bool) -> tuple[Tile, ...]:
    """Returns the tiles for dimension sizes in minor-to-major order."""
    # Seen in dumps: arrays without elements have no tile.
    if 0 in sizes:
        return ()
    packed = _packed(max(bits, 8) if is_old else bits)
    smallest = LANES * _least_rows(bits, is_old=is_old)
    inner = (Tile((packed, 1)),) if packed > 1 else ()
    if not sizes:
        return (Tile((smallest,)),)
    if len(sizes) == 1:
        # Seen on every generation: one dimension has tiles of at most 1,024 elements, or 2,048 of 2 bits.
        largest = max(LANES * max(SUBLANES, _packed(bits)), smallest)
        first = min(max(_power_of_two(sizes[0]), smallest), largest)
        return (Tile((first,)), *((Tile((LANES,)), *inner) if packed > 1 else ()))
    return (Tile((tile_rows_by_default(sizes[1], bits, is_old=is_old), LANES)), *inner)


def tile_rows_by_default(size: int, bits: int, *, is_old: bool) -> int:
    """Returns the number of rows of a tile; `size` is that of the second most minor dimension.

    >>> [tile_rows_by_default(size, 8, is_old=False) for size in (2, 5, 24, 32)]
    [4, 8, 8, 32]
    """
    packed, least = _packed(bits), _least_rows(bits, is_old=is_old)
    # v2 and v3 always have eight rows of bytes, whatever the size.
    if is_old and bits <= 8:
        return max(SUBLANES, packed)
    # Whole registers of packed rows, if the rows fill them; bf16 never gets these 16 rows by default.
    if packed >= 4 and size % (SUBLANES * packed) == 0:
        return SUBLANES * packed
    return min(max(_power_of_two(size), least), max(SUBLANES, least))


def _packed(bits: int) -> int:
    """Returns the number of elements in a 32-bit word, at least 1."""
    return max(WORD_BITS // bits, 1)


# --- default order of dimensions ---
# Measured with the compiler: it chooses the two most minor dimensions with the least padding, but assumes tiles of at
# most eight rows even where it then uses taller ones.


Order = tuple[int, ...]

_MAX_ELEMENTS: Final = 2**47
"""Number of elements, exclusive, up to which the compiler's count of padded elements is sure to fit 64 bits."""

# 5,040 orders; one dimension more would be 40,320 rows for a table that is read by people.
_MAX_PERMUTED_RANK: Final = 7


@dataclass(frozen=True, slots=True)
class OrderCost:
    """Default layout of an array for one dimension order, and its padded size in bytes.

    `is_normal` if all but the two most minor dimensions are in row-major order; these orders represent the others.
    """

    layout: Layout
    padded_bytes: int
    is_normal: bool


@dataclass(frozen=True, slots=True)
class LayoutAlternative:
    """Layout of the same array with fewer bytes; `is_known` if the module already uses its order for these
    dimensions.
    """

    layout: Layout
    padded_bytes: int
    is_known: bool


@lru_cache(maxsize=4096)
def default_order(shape: ArrayShape, *, generation: str = USUAL_TPU) -> Order | None:
    """Dimension order that the compiler chooses, most minor first; None if unknown.

    It is known for all types, with bounded sizes at their bounds; unknown for `?` and for 2^47 elements or more.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> default_order(parse_shape("bf16[300,70]")), default_order(parse_shape("f32[?,70]"))
    ((0, 1), None)
    """
    if UNBOUNDED in shape.dimensions or shape.elements >= _MAX_ELEMENTS:
        return None
    row_major = tuple(range(shape.rank))[::-1]
    if shape.rank < 2 or not shape.elements:
        return row_major
    bits = _width_of(shape.element_type)
    least = min(_least_rows(bits, is_old=has_large_tiles(generation)), SUBLANES)
    word = WORD_BITS // bits

    def cost(pair: Order) -> tuple[int, bool]:
        """Padded elements; on ties, if a word holds more rows than assumed, an order with whole words is better."""
        minor, second = (shape.sizes[d] for d in pair)
        # The oddity of the compiler that the section names: it plans with at most eight rows, even for tiles of 32.
        rows = min(max(_power_of_two(second), least), SUBLANES)
        padded = _round_up(minor, LANES) * _round_up(second, rows) * (shape.elements // (minor * second))
        return padded, word > SUBLANES and bool(minor % LANES or second % word)

    return _normal_order(min(permutations(row_major, 2), key=cost), row_major)


def order_costs(shape: ArrayShape, *, generation: str = USUAL_TPU) -> tuple[OrderCost, ...]:
    """All dimension orders with their default tiles and padded bytes; from rank 8 only the normal ones.

    Normal orders come first, then those with the fewest bytes, then those closest to row-major.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [(str(each.layout), each.padded_bytes) for each in order_costs(parse_shape("bf16[300,70]"))]
    [('{0,1:T(8,128)(2,1)}', 55296), ('{1,0:T(8,128)(2,1)}', 77824)]
    """
    return tuple(sorted(_order_costs(shape, generation), key=lambda each: (not each.is_normal, each.padded_bytes)))


@lru_cache(maxsize=4096)
def best_order(
    shape: ArrayShape, *, known_orders: tuple[Order, ...] = (), generation: str = USUAL_TPU
) -> LayoutAlternative | None:
    """Dimension order with the fewest bytes under default TPU tiles, if it saves bytes; None for arrays without tiles.

    Only the two most minor dimensions matter, so only these are permuted. On ties, a known order comes first.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> better = best_order(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    >>> str(better.layout), better.padded_bytes
    ('{0,1:T(8,128)(2,1)}', 55296)
    """
    if not shape.layout.tiles or shape.rank < 2 or shape.problem is not None or not shape.elements:
        return None
    best: tuple[int, bool, Order] | None = None
    for order in dict.fromkeys((*known_orders, *_orders(shape.layout.minor_to_major))):
        layout = default_tpu_layout(shape, generation=generation, minor_to_major=order)
        # Of equal orders one that the module uses already: changing to it may save a copy, too.
        candidate = (replace(shape, layout=layout).padded_bytes, order not in known_orders, order)
        if best is None or candidate[:2] < best[:2]:
            best = candidate
    if best is None or best[0] >= shape.padded_bytes:
        return None
    layout = default_tpu_layout(shape, generation=generation, minor_to_major=best[2])
    return LayoutAlternative(layout, best[0], best[2] in known_orders)


def _order_costs(shape: ArrayShape, generation: str) -> Iterator[OrderCost]:
    row_major = tuple(range(shape.rank))[::-1]
    for pair in permutations(row_major, min(shape.rank, 2)):
        normal = _normal_order(pair, row_major)
        layout = default_tpu_layout(shape, generation=generation, minor_to_major=normal)
        padded_bytes = replace(shape, layout=layout).padded_bytes
        major_dimensions = normal[2:]
        for major in permutations(major_dimensions) if shape.rank <= _MAX_PERMUTED_RANK else (major_dimensions,):
            yield OrderCost(replace(layout, minor_to_major=pair + major), padded_bytes, major == major_dimensions)


def _orders(order: Order) -> Iterator[Order]:
    for first, second in permutations(sorted(order, reverse=True), 2):
        yield (first, second, *(d for d in order if d not in (first, second)))


def _normal_order(pair: Order, row_major: Order) -> Order:
    return (*pair, *(d for d in row_major if d not in pair))


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
