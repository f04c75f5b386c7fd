"""Transposes that a GPU kernel computes by tiles in shared memory, so that reads and writes are contiguous.

Mirrors `GetDescriptionForTiledTransposeEmitter` of xla/service/gpu/ir_emission_utils.cc.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Final

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

_MIN_TILE: Final = 16
_MIN_NARROW_TILE: Final = 8
_MIN_TILE_ELEMENTS: Final = 8192
_WORD_BITS: Final = 64
_PACKED_BITS: Final = 32
_MIN_PACKED: Final = 10


def is_tiled_transpose(transpose: Instruction) -> bool:
    """Whether XLA's GPU emitter computes a transpose by tiles.

    >>> from hlo_cli import parse_module
    >>> def asked(text): return is_tiled_transpose(parse_module(text).entry.root)
    >>> asked("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}")
    True
    >>> asked("r = f32[64,3] transpose(f32[3,64] a), dimensions={1,0}")
    False
    >>> asked("r = f32[64,32,3] transpose(f32[32,64,3] a), dimensions={1,0,2}")
    False
    """
    given, result = transpose.operand_shape(0) if transpose.operands else None, transpose.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    sizes, order = _physical_transpose(given, result, transpose.integers("dimensions"))
    if len(sizes) < 2:
        return False
    bits = result.element_type.bits
    moved = tuple(sizes[at] for at in order)
    if order[-1] != len(order) - 1:
        a, b = sizes[-1], moved[-1]
        if bits > 4 and (min(a, b) >= _MIN_TILE or (min(a, b) >= _MIN_NARROW_TILE and a * b >= _MIN_TILE_ELEMENTS)):
            return True
        return bits < _PACKED_BITS and min(a, b) >= _MIN_PACKED * _PACKED_BITS // bits
    width = sizes[-1] * bits
    return len(sizes) > 2 and width <= _WORD_BITS and width * min(sizes[-2], moved[-2]) >= _WORD_BITS


def _physical_transpose(
    given: ArrayShape, result: ArrayShape, dimensions: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Physical dimensions of the operand, major to minor, and the permutation that gives those of the result.

    Dimensions of size 1 are omitted; dimensions that stay adjacent are merged.
    """
    if not len(dimensions) == given.rank == result.rank:
        return (), ()
    majors = [d for d in reversed(given.layout.minor_to_major) if given.dimensions[d] != 1]
    moved = [dimensions[d] for d in reversed(result.layout.minor_to_major) if result.dimensions[d] != 1]
    place = {d: at for at, d in enumerate(majors)}
    runs: list[list[int]] = []
    for before, at in pairwise([-2, *(place[d] for d in moved if d in place)]):
        if at == before + 1 and runs:
            runs[-1].append(at)
        else:
            runs.append([at])
    ordered = sorted(runs)
    sizes = tuple(prod(given.dimensions[majors[at]] for at in run) for run in ordered)
    return sizes, tuple(ordered.index(run) for run in runs)
