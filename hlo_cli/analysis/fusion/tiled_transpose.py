"""Transposes that a GPU kernel does tile by tile in shared memory, because elements far apart come to lie together.

Mirrors `GetDescriptionForTiledTransposeEmitter` of xla/service/gpu/ir_emission_utils.cc.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Final

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

_WIDE: Final = 16
_NARROW: Final = 8
_LARGE: Final = 8192
_WORD_BITS: Final = 64
_PACKED_BITS: Final = 32
_PACKED: Final = 10


def is_tiled_transpose(transpose: Instruction) -> bool:
    """Whether a transpose is worth the tiles.

    >>> from hlo_cli import parse_module
    >>> def asked(text): return is_tiled_transpose(parse_module(text).entry.root)
    >>> asked("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}")
    True
    >>> asked("r = f32[64,3] transpose(f32[3,64] a), dimensions={1,0}")
    False
    >>> asked("r = f32[64,32,3] transpose(f32[32,64,3] a), dimensions={1,0,2}")
    False
    """
    given, result = transpose.operand_shape(0), transpose.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    sizes, order = _as_it_lies(given, result, transpose.integers("dimensions"))
    if len(sizes) < 2:
        return False
    bits = result.element_type.bits
    moved = tuple(sizes[at] for at in order)
    if order[-1] != len(order) - 1:
        a, b = sizes[-1], moved[-1]
        if bits > 4 and (min(a, b) >= _WIDE or (min(a, b) >= _NARROW and a * b >= _LARGE)):
            return True
        return bits < _PACKED_BITS and min(a, b) >= _PACKED * _PACKED_BITS // bits
    width = sizes[-1] * bits
    return len(sizes) > 2 and width <= _WORD_BITS and width * min(sizes[-2], moved[-2]) >= _WORD_BITS


def _as_it_lies(
    given: ArrayShape, result: ArrayShape, dimensions: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operand's sizes from major to minor, and of which of them each of the result's is.

    Dimensions of size 1 are left out, and what stays together is one dimension.
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
