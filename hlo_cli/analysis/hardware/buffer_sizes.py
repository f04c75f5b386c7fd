"""Sizes of buffers in bytes: of the elements alone, and with the padding of the target.

Mirrors `ShapeUtil::ByteSizeOf` of xla/shape_util.h and the size functions of the backends; those of TPU are not
public and were measured.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generation, tpu_generations
from hlo_cli.analysis.hardware.target import Target, is_old_tpu
from hlo_cli.ir.layout import Tile
from hlo_cli.ir.memory_space import TpuMemorySpace, memory_space
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, BufferShape, OpaqueShape, Shape, TupleShape

_POINTER: Final = 8
_TPU_POINTER: Final = 4
_SPARSE_CORE: Final = '"sparse_core_config"'
_CMEM: Final = f"S({TpuMemorySpace.CMEM})"
_TILED_CMEM: Final = re.compile(rf":T\([^{{}}\n]{{0,80}}{re.escape(_CMEM)}")
_TILES: Final = (Tile((1024,)), Tile((8, 128)))
"""Default tiles of untiled arrays on TPU: below rank 2, and from rank 2."""


def logical_bytes(shape: Shape) -> int:
    """Returns the bytes of the elements without padding; for a tuple, of its table of pointers.

    >>> from hlo_cli import parse_shape
    >>> logical_bytes(parse_shape("f32[3]{0:T(128)}")), logical_bytes(parse_shape("(f32[3], token[])"))
    (12, 16)
    """
    return _POINTER * len(shape.elements) if isinstance(shape, TupleShape) else shape.logical_bytes


def generation_of(module: Module) -> str:
    """Returns the TPU generation, which the text rarely determines; otherwise a guess with the most common sizes.

    >>> from hlo_cli import parse_module
    >>> generation_of(parse_module("HloModule m  ENTRY e { ROOT p = f32[9,9]{1,0:T(8,128)S(3)} parameter(0) }"))
    'v4'
    """
    text = module.source.text
    if is_old_tpu(module):
        return next(generation.name for generation in tpu_generations() if generation.has_large_tiles)
    if _SPARSE_CORE in text:
        return next(generation.name for generation in tpu_generations() if generation.has_sparse_core)
    if _CMEM in text and _TILED_CMEM.search(text):
        return next(generation.name for generation in tpu_generations() if generation.prefetched is TpuMemorySpace.CMEM)
    return USUAL_TPU


def prefetched_space(target: Target | None, generation: str) -> int | None:
    """Returns the memory space that memory-space assignment fills (CMEM or VMEM), None if there is none.

    Its offsets are not in the text. TPU v2 and v3 have no such memory space.

    >>> prefetched_space("tpu", "v4"), prefetched_space("tpu", "v2"), prefetched_space("gpu", "v5e")
    (<TpuMemorySpace.CMEM: 3>, None, None)
    """
    return tpu_generation(generation).prefetched if target == "tpu" else None


def buffer_bytes(shape: Shape, target: Target | None, generation: str = USUAL_TPU) -> int:
    """Returns the bytes of the buffer of a shape, with padding; for a tuple, of its table of pointers.

    >>> from hlo_cli import parse_shape
    >>> shape = parse_shape("(f32[3]{0:T(128)})")
    >>> buffer_bytes(shape.elements[0], "tpu"), buffer_bytes(shape, "tpu"), buffer_bytes(shape, "gpu")
    (512, 512, 8)
    """
    match shape:
        case TupleShape():
            return table_bytes(len(shape.elements), target, generation)
        case BufferShape():
            return buffer_bytes(shape.array, target, generation)
        case ArrayShape():
            return (_tpu_array(shape) if target == "tpu" else shape).padded_bytes
        case OpaqueShape():
            return _POINTER
    return 0


def _tpu_array(shape: ArrayShape) -> ArrayShape:
    """Returns the array with the layout that determines its buffer size on TPU."""
    space = memory_space(shape.memory_space, "tpu")
    # Measured on libtpu: S(2) arrays are printed with a tile, but a scalar takes 4 bytes; untiled arrays in S(0),
    # S(4), and S(6) take whole default tiles.
    if space is not None and space.tiles == "never":
        return replace(shape, layout=replace(shape.layout, tiles=()))
    if space is not None and space.tiles == "by default" and not shape.layout.tiles:
        return replace(shape, layout=replace(shape.layout, tiles=(_TILES[len(shape.dimensions) > 1],)))
    return shape


def table_bytes(elements: int, target: Target | None, generation: str = USUAL_TPU) -> int:
    """Returns the bytes of a tuple's table of pointers; on TPU, rounded up to the granule of the generation.

    >>> table_bytes(3, "cpu"), table_bytes(9, "tpu", "v6e")
    (24, 64)
    """
    if target != "tpu":
        return _POINTER * elements
    granule = tpu_generation(generation).table_granule
    return -(-_TPU_POINTER * elements // granule) * granule
