"""The tiles that dynamic slices and updates touch: memory is read and written in whole tiles.

A slice of one row of an array in tiles of 8 rows touches as many bytes as a slice of 8 rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import COMBINE
from hlo_cli.ir.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class TouchedTiles:
    """The tiles of `array` that a slice of `sizes` touches, at the best offset; `is_written` for updates.

    `counts` are the tiles along the physical dimensions, the most major first.
    """

    instruction: Instruction
    array: ArrayShape
    slice: ArrayShape
    is_written: bool
    counts: tuple[int, ...]
    tile: tuple[int, ...]

    @property
    def tile_bytes(self) -> int:
        """The size of one tile."""
        return -(-prod(self.tile) * self.array.element_bits // 8)

    @property
    def bytes(self) -> int:
        """The bytes of all touched tiles, counted once."""
        return prod(self.counts) * self.tile_bytes

    @property
    def data_bytes(self) -> int:
        """The bytes of the slice itself."""
        return self.slice.logical_bytes

    @property
    def used(self) -> tuple[tuple[int, int], ...]:
        """For each dimension of the tile that the slice fills in part: the used elements, and those of the tile."""
        order = self.array.layout.minor_to_major[::-1]
        sizes = [self.slice.sizes[d] for d in order][len(order) - len(self.tile) :]
        return tuple((size, part) for size, part in zip(sizes, self.tile, strict=True) if size < part)


def touched_tiles(instruction: Instruction) -> Sequence[TouchedTiles]:
    """The tiles that the dynamic slices and updates of an instruction, or inside a fusion, touch.

    Empty for arrays without tiles, and for slices that use all bytes of the tiles.

    >>> from hlo_cli import parse_module
    >>> text = "a = f32[16,7168,512]{2,0,1:T(8,128)} parameter(0)  u = f32[1,7168,512]{2,1,0} parameter(1)"
    >>> text += "  i = s32[] parameter(2)  "
    >>> text += "ROOT r = f32[16,7168,512]{2,0,1:T(8,128)} dynamic-update-slice(a, u, i, i, i)"
    >>> [found] = touched_tiles(parse_module(f"HloModule m  ENTRY e {{ {text} }}").entry.root)
    >>> found.counts, found.tile_bytes, found.bytes >> 20, found.data_bytes >> 20, found.used
    ((7168, 1, 4), 4096, 112, 14, ((1, 8),))
    """
    listed: Iterator[Instruction] = iter((instruction,))
    if instruction.opcode == opcodes.FUSION:
        listed = (inner for body in instruction.called_computations for inner in body.instructions)
    found = (tiles for each in listed if (tiles := _touched(each)) is not None)
    return tuple(each for each in found if each.bytes > each.data_bytes)


def _touched(each: Instruction) -> TouchedTiles | None:
    if each.opcode not in (opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE) or len(each.operands) < 2:
        return None
    is_written = each.opcode == opcodes.DYNAMIC_UPDATE_SLICE
    array, part = each.operand_shape(0), each.operand_shape(1) if is_written else each.shape
    if not isinstance(array, ArrayShape) or not isinstance(part, ArrayShape) or part.rank != array.rank:
        return None
    tile = array.layout.tiles[0].dimensions if array.layout.tiles else ()
    if not tile or COMBINE in tile or len(tile) > array.rank:
        return None
    sizes = [part.sizes[d] for d in array.layout.minor_to_major[::-1]]
    tiled = len(sizes) - len(tile)
    counts = (*sizes[:tiled], *(-(-size // length) for size, length in zip(sizes[tiled:], tile, strict=True)))
    return TouchedTiles(each, array, part, is_written, counts, tile)
