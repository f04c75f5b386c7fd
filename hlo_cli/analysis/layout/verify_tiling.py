"""Reference implementation of tiling on whole arrays, and the comparison of addresses with it.

The array itself is transposed, padded, reshaped, and transposed again, tile by tile, without index arithmetic. Follows
XLA's docs/tiled_layout.md, including `*`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_cli.analysis.layout.address_map import address_map
from hlo_cli.analysis.layout.inverse_map import PADDING, inverse_map
from hlo_cli.ir.layout import COMBINE, Bounds, Layout
from hlo_cli.ir.shape import ArrayShape


def verify_index_map(shape: ArrayShape) -> bool:
    """Whether padding, reshaping, and transposing the array gives the same linear indices, and their inverse.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> verify_index_map(parse_shape("f32[3,5]{1,0:T(2,2)}"))
    True
    """
    memory = in_memory(shape.sizes, shape.layout).ravel()
    forward = np.array_equal(memory[address_map(shape).ravel()], np.arange(shape.elements))
    return forward and np.array_equal(inverse_map(shape)[: memory.size], memory)


def in_memory(sizes: Bounds, layout: Layout) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row-major number of the element in each position, -1 for padding, in the physical dimensions.

    >>> from hlo_cli.ir.layout import Tile
    >>> in_memory((3,), Layout((0,), (Tile((2,)),))).tolist()
    [[0, 1], [2, -1]]
    """
    memory = np.arange(np.prod(sizes, dtype=np.int64), dtype=np.int64).reshape(sizes)
    memory = memory.transpose(layout.minor_to_major[::-1])
    for tile in layout.tiles:
        memory = _cut(memory, tile.dimensions)
    return memory


def _cut(memory: np.ndarray[Any, np.dtype[np.int64]], tile: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    memory = memory.reshape((1,) * (len(tile) - memory.ndim) + memory.shape)
    at = memory.ndim - len(tile)
    # Dimensions under `*` merge into the next more minor one. XLA prints and parses `*`, but its index functions lack
    # it.
    merged, cuts, run = list(memory.shape[:at]), [], 1
    for size, cut in zip(memory.shape[at:], tile, strict=True):
        run *= size
        if cut != COMBINE:
            merged.append(run)
            cuts.append(cut)
            run = 1
    memory = memory.reshape(merged)
    missing = [-size % cut for size, cut in zip(memory.shape[at:], cuts, strict=True)]
    memory = np.pad(memory, [*((0, 0),) * at, *((0, extra) for extra in missing)], constant_values=PADDING)
    halves = [part for size, cut in zip(memory.shape[at:], cuts, strict=True) for part in (size // cut, cut)]
    memory = memory.reshape((*memory.shape[:at], *halves))
    return memory.transpose((*range(at), *range(at, memory.ndim, 2), *range(at + 1, memory.ndim, 2)))
