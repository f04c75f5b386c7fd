"""Reductions as XLA:GPU's reduction emitter sees them: rows or columns of three merged dimensions.

Mirrors xla/service/gpu/reduction_utils.cc.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

MAX_BLOCK_THREADS: Final = 1024
"""`MinThreadsXRowReduction`: threads that reduce one row."""
_MAX_ROW: Final = MAX_BLOCK_THREADS * 16
_MAX_BATCH: Final = 8
"""`BatchedReductionRaceFreeBound`."""
_COLUMN_TILE: Final = 128


class Reduction(NamedTuple):
    """Kind of a reduction, and its sizes: reduced, kept, and reduced for rows; kept, reduced, and kept for columns."""

    is_row: bool
    sizes: tuple[int, int, int]


def reduction_of(node: Node) -> Reduction | None:
    """Kind and sizes of a reduce whose kept or reduced dimensions are contiguous, else None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = '''s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[8,9,5] parameter(0)  z = f32[] constant(0)
    ...   ROOT r = f32[8,5] reduce(p, z), dimensions={1}, to_apply=s }'''
    >>> reduction_of(graph_of(parse_module(text).entry).root)
    Reduction(is_row=False, sizes=(8, 9, 5))
    """
    return _reduction(node.instruction) if node.opcode == opcodes.REDUCE else None


@lru_cache(maxsize=4096)
def _reduction(reduce: Instruction) -> Reduction | None:
    shape = reduce.operand_shape(0)
    if not isinstance(shape, ArrayShape):
        return None
    reduced = reduce.integers("dimensions")
    kept = tuple(d for d in range(shape.rank) if d not in reduced)
    if not kept:
        return Reduction(is_row=True, sizes=(1, 1, shape.elements))
    if _are_contiguous(shape, kept):
        major, middle, minor = _partition(shape, kept)
        if middle == 1:
            return Reduction(is_row=True, sizes=(1, 1, major * minor))
        if minor == 1:
            return Reduction(is_row=False, sizes=(1, major, middle))
        return Reduction(is_row=True, sizes=(major, middle, minor))
    if not _are_contiguous(shape, reduced):
        return None
    major, middle, minor = _partition(shape, reduced)
    if minor == 1:
        return Reduction(is_row=True, sizes=(1, major, middle))
    return Reduction(is_row=False, sizes=(major, middle, minor))


def fast_reduction(node: Node, warp: int) -> Reduction | None:
    """Reduction that is faster by the reduction emitter than by a loop, else None.

    Mirrors `IsReductionFromOrToContiguousDimensions` and `IsUnnestedReductionFasterThanElemental`.
    """
    found = reduction_of(node) if node.opcode == opcodes.REDUCE else None
    if found is None:
        return None
    _, middle, minor = found.sizes
    if found.is_row:
        return found if minor >= warp or (minor and warp % minor == 0) else None
    is_small = (
        middle < warp
        or (middle < 2 * warp and minor < warp)
        or (middle < 4 * warp and minor < 8)
        or (middle < 8 * warp and minor < 3)
    )
    return None if is_small else found


def is_race_free(found: Reduction, warp: int) -> bool:
    """Whether one block computes each result (`ReductionIsRaceFree`)."""
    if found.is_row:
        return found.sizes[2] <= _MAX_ROW and found.sizes[0] <= _MAX_BATCH
    return found.sizes[1] <= warp * _COLUMN_TILE


def _are_contiguous(shape: ArrayShape, dimensions: tuple[int, ...]) -> bool:
    """Whether dimensions are adjacent in memory (`AreDimensionsConsecutive`)."""
    places = sorted(shape.layout.minor_to_major.index(d) for d in dimensions)
    return not places or places[-1] - places[0] == len(places) - 1


def _partition(shape: ArrayShape, middle: tuple[int, ...]) -> tuple[int, int, int]:
    """Products of the dimensions before, in, and after contiguous ones, in memory order."""
    sizes = [1, 1, 1]
    segment = 2
    for d in shape.layout.minor_to_major:
        if segment == 2 and d in middle:
            segment = 1
        elif segment == 1 and d not in middle:
            segment = 0
        sizes[segment] *= shape.sizes[d]
    return sizes[0], sizes[1], sizes[2]
