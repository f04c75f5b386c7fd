"""`hlo tile-index … -o x.npy`: linear indices, bytes or elements as one array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.layout.address_map import IntArray
from hlo_cli.analysis.layout.relayout import elements_in, linear_indices_of, npy_bytes
from hlo_cli.commands.options.writing import write_bytes
from hlo_cli.commands.tile_index.report import buffer_bytes
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import Selection

if TYPE_CHECKING:
    from hlo_cli.commands.tile_index.options import TileIndexOptions


def write_addresses(
    array: ArrayShape, requested: Sequence[Selection], options: TileIndexOptions, path: str | None
) -> None:
    """Writes the linear index of each element or, with `--bytes`, its byte; for a whole array, in the array's shape."""
    whole = options.everything and len(requested) == 1
    sizes = array.sizes if whole else (sum(selection.count for selection in requested),)
    blocks: Iterable[IntArray] = linear_indices_of(array, [selection.ranges for selection in requested])
    if options.as_bytes:
        bits = options.bits or array.element_bits
        blocks = _in_bytes(blocks, bits, _first_byte(array, options))
    write_bytes(npy_bytes(blocks, sizes), path)


def write_elements(array: ArrayShape, requested: Sequence[range], options: TileIndexOptions, path: str | None) -> None:
    """Writes the element at each position or byte, one row each, -1 throughout for padding."""
    front, bits = 0, 8
    if options.as_bytes:
        front, bits = _first_byte(array, options), options.bits or array.element_bits
    if bits % 8:
        raise HloError("cannot write byte offsets for sub-byte elements", hint="remove --bytes to write linear indices")
    blocks = elements_in(array, requested, front=front, width=bits // 8)
    write_bytes(npy_bytes(blocks, (sum(map(len, requested)), array.rank)), path)


def _first_byte(array: ArrayShape, options: TileIndexOptions) -> int:
    """The address of position 0; HloError if the last address is too large for a .npy file."""
    if (end := buffer_bytes(array, options).stop) > 2**63:
        raise HloError(f"the buffer ends at byte {end:,}, which does not fit in 64 bits")
    return options.address + array.layout.dynamic_shape_metadata_prefix_bytes


def _in_bytes(blocks: Iterable[IntArray], bits: int, front: int) -> Iterator[IntArray]:
    for block in blocks:
        yield block // 8 * bits + block % 8 * bits // 8 + front  # without the split, the product in bits may overflow
