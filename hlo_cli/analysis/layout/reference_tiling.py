"""Tiling by doing it: the array itself is transposed, padded, reshaped and transposed again, tile by tile.

Slow and greedy for memory, but nothing here knows of indices: it is what `hlo tile-index --verify` and the tests hold
the arithmetic against. Follows the recipe of XLA's docs/tiled_layout.md, and folds dimensions under `*` as it says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_cli.ir.layout import COMBINE, Layout
from hlo_cli.ir.tiling import Bounds

PADDING = -1


def in_memory(sizes: Bounds, layout: Layout) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The row-major number of the element in each slot of memory, -1 for padding, in the tiled array's own sizes.

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
    merged, cuts, run = list(memory.shape[:at]), [], 1
    for size, cut in zip(memory.shape[at:], tile, strict=True):
        run *= size
        if cut != COMBINE:
            merged.append(run)
            cuts.append(cut)
            run = 1
    memory = memory.reshape(merged)
    missing = [-size % cut for size, cut in zip(memory.shape[at:], cuts, strict=True)]
    memory = np.pad(memory, [*((0, 0),) * at, *((0, behind) for behind in missing)], constant_values=PADDING)
    halves = [part for size, cut in zip(memory.shape[at:], cuts, strict=True) for part in (size // cut, cut)]
    memory = memory.reshape((*memory.shape[:at], *halves))
    return memory.transpose((*range(at), *range(at, memory.ndim, 2), *range(at + 1, memory.ndim, 2)))
