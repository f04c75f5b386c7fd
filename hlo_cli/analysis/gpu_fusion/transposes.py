"""Transposes that XLA:GPU's transpose emitter computes by tiles in shared memory.

Mirrors `GetDescriptionForTiledTransposeEmitter` and `GetPackedTransposeTileSizes` of
xla/service/gpu/ir_emission_utils.cc, and `GetNormalizedLogicalTransposeShape` of xla/shape_util.cc.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.shapes import bits_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import default_layout
from hlo_cli.ir.shape import ArrayShape

BANKS: Final = 32
"""`kNumShmemBanks`."""
_BANK_BITS: Final = 32
_MIN_TILE: Final = 16
_MIN_NARROW_TILE: Final = 8
_MIN_TILE_ELEMENTS: Final = 8192
_MAX_MINOR_BITS: Final = 64
_MIN_PACKED_LINES: Final = 10


class TiledTranspose(NamedTuple):
    """Result dimensions of a transpose without ones and with runs merged, and their permutation.

    `tiles` are the tile sizes of the packed emitter, by dimension of `packed_sizes`; both are empty for the other.
    """

    sizes: tuple[int, ...]
    permutation: tuple[int, ...]
    shared_bytes: int
    packed_sizes: tuple[int, ...] = ()
    tiles: tuple[int, ...] = ()

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """Dimensions of the operand."""
        return permute(self.sizes, inverse(self.permutation))

    @property
    def keeps_minor(self) -> bool:
        """Whether the minor dimension stays minor."""
        return self.permutation[-1] == len(self.permutation) - 1

    def is_equivalent(self, other: TiledTranspose) -> bool:
        """Whether both have the same dimensions and permutation."""
        return self.sizes == other.sizes and self.permutation == other.permutation


def permute(values: tuple[int, ...], permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The values in the order of a permutation.

    >>> permute((5, 6, 7), (2, 0, 1))
    (7, 5, 6)
    """
    return tuple(values[p] for p in permutation)


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation."""
    places = [0] * len(permutation)
    for place, p in enumerate(permutation):
        places[p] = place
    return tuple(places)


def tiled_transpose_of(node: Node) -> TiledTranspose | None:
    """Description of a transpose that is computed by tiles, else None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> def asked(text): return tiled_transpose_of(graph_of(parse_module(text).entry).root)
    >>> asked("r = f32[64,32] transpose(f32[32,64] a), dimensions={1,0}")
    TiledTranspose(sizes=(64, 32), permutation=(1, 0), shared_bytes=4224, packed_sizes=(), tiles=())
    >>> asked("r = f32[64,3] transpose(f32[3,64] a), dimensions={1,0}")
    """
    if node.opcode != opcodes.TRANSPOSE:
        return None
    sizes, permutation = normalized_transpose(node)
    if len(permutation) < 2:
        return None
    bits = bits_of(node.shape)
    packed = _packed(sizes, permutation, bits)
    if packed is not None:
        vector = _BANK_BITS // bits
        return TiledTranspose(sizes, permutation, BANKS * (_BANK_BITS // 8) * BANKS * vector, *packed)
    given = permute(sizes, inverse(permutation))
    shared = BANKS * (BANKS + 1) * bits
    if permutation[-1] == len(sizes) - 1:
        width = bits * sizes[-1]
        if width <= _MAX_MINOR_BITS and width * min(given[-2], sizes[-2]) >= 8 * _MIN_TILE:
            return TiledTranspose(sizes, permutation, -(-shared * sizes[-1] // 8))
        return None
    a, b = given[-1], sizes[-1]
    is_tiled = min(a, b) >= _MIN_TILE or (min(a, b) >= _MIN_NARROW_TILE and a * b >= _MIN_TILE_ELEMENTS)
    return TiledTranspose(sizes, permutation, -(-shared // 8)) if is_tiled and bits != 4 else None


def normalized_transpose(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Result sizes of a transpose without ones and with runs merged, and the permutation; empty for other layouts."""
    given, result = node.operands[0].shape, node.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return (), ()
    order = default_layout(result.rank).minor_to_major
    if given.layout.minor_to_major != order or result.layout.minor_to_major != order:
        return (), ()
    moved = [d for d in node.instruction.integers("dimensions") if given.sizes[d] != 1]
    runs: list[list[int]] = []
    dense = {d: place for place, d in enumerate(sorted(moved))}
    for d in moved:
        if runs and dense[runs[-1][-1]] + 1 == dense[d]:
            runs[-1].append(d)
        else:
            runs.append([d])
    ordered = sorted(runs)
    return tuple(prod(given.sizes[d] for d in run) for run in runs), tuple(ordered.index(run) for run in runs)


def _packed(
    sizes: tuple[int, ...], permutation: tuple[int, ...], bits: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Dimensions and tile sizes of the packed emitter, for types narrower than a bank; None if it does not apply."""
    if bits >= _BANK_BITS:
        return None
    shape, order = list(sizes), list(permutation)
    if order[-1] != len(shape) - 1:
        order.append(len(shape))
        shape.append(1)
    rank = len(shape)
    if rank < 3 or order[rank - 3] != rank - 3:
        shape.insert(rank - 2, 1)
        order = [p + (p > rank - 3) for p in order]
        order.insert(rank - 2, rank - 2)
        rank += 1
    back = inverse(tuple(order))
    given = permute(tuple(shape), back)
    vector = _BANK_BITS // bits
    side = BANKS * vector
    t1, a, t2 = given[rank - 2], given[rank - 3], given[order[rank - 2]]
    tile_t1, tile_t2 = min(t1, side), min(t2, side)
    tile_a = min(a, side // tile_t1)
    columns, least = tile_a * tile_t1, _MIN_PACKED_LINES * vector
    if columns < least or tile_t2 < least:
        return None
    if given[-1] != 1 or tile_t2 % vector or columns % vector or t2 % tile_t2 % vector:
        return None
    tiles = [1] * rank
    tiles[back[rank - 2]], tiles[rank - 2], tiles[rank - 3] = tile_t1, tile_t2, tile_a
    return tuple(shape), tuple(tiles)
