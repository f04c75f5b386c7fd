"""How many bytes a buffer takes: the elements alone, or what the target makes of them.

Mirrors `ShapeUtil::ByteSizeOf` of xla/shape_util.h and the backends' size functions; those of TPUs are not public and
were measured.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Literal

from hlo_cli.analysis.hardware.target import Target, is_old_tpu
from hlo_cli.ir.layout import Tile
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, BufferShape, OpaqueShape, Shape, TupleShape

Generation = Literal["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x"]

_POINTER: Final = 8
_TPU_POINTER: Final = 4
_TABLE_GRANULE: Final[dict[Generation, int]] = {
    "v2": 1024, "v3": 1024, "v4": 512, "v5e": 512, "v5p": 32, "v6e": 32, "v7x": 32
}  # fmt: skip
_PREFETCHED: Final[dict[Generation, int]] = {"v4": 3, "v5e": 1, "v5p": 1, "v6e": 1, "v7x": 1}
_SPARSE_CORE: Final = '"sparse_core_config"'
_CMEM: Final = re.compile(r":T\([^{}\n]{0,80}S\(3\)")
_SYNC_FLAGS: Final = 2
_TILED_ANYWAY: Final = (0, 4, 6)
_TILES: Final = (Tile((1024,)), Tile((8, 128)))
"""Those of arrays below rank 2, and of others."""


def logical_bytes(shape: Shape) -> int:
    """The bytes of the elements without padding; of a tuple, those of its table of pointers.

    >>> from hlo_cli import parse_shape
    >>> logical_bytes(parse_shape("f32[3]{0:T(128)}")), logical_bytes(parse_shape("(f32[3], token[])"))
    (12, 16)
    """
    return _POINTER * len(shape.elements) if isinstance(shape, TupleShape) else shape.logical_bytes


def generation_of(module: Module) -> Generation:
    """The TPU generation as far as the text tells, which is seldom: a guess that has the usual sizes.

    >>> from hlo_cli import parse_module
    >>> generation_of(parse_module("HloModule m  ENTRY e { ROOT p = f32[9,9]{1,0:T(8,128)S(3)} parameter(0) }"))
    'v4'
    """
    if is_old_tpu(module):
        return "v2"
    if _SPARSE_CORE in module.source.text:
        return "v6e"
    return "v4" if "S(3)" in module.source.text and _CMEM.search(module.source.text) else "v5e"


def prefetched_space(target: Target | None, generation: Generation) -> int | None:
    """The memory space that is filled ahead of time, CMEM or VMEM, whose offsets no text tells; older TPUs have none.

    >>> prefetched_space("tpu", "v4"), prefetched_space("tpu", "v2"), prefetched_space("gpu", "v5e")
    (3, None, None)
    """
    return _PREFETCHED.get(generation) if target == "tpu" else None


def buffer_bytes(shape: Shape, target: Target | None, generation: Generation = "v5e") -> int:
    """The bytes of the buffer that holds this shape alone; of a tuple, those of its table of pointers.

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
    """The array as its buffer is measured: synchronisation flags are not tiled, others at least by default."""
    if shape.memory_space == _SYNC_FLAGS:
        return replace(shape, layout=replace(shape.layout, tiles=()))
    if shape.memory_space in _TILED_ANYWAY and not shape.layout.tiles:
        return replace(shape, layout=replace(shape.layout, tiles=(_TILES[len(shape.dimensions) > 1],)))
    return shape


def table_bytes(elements: int, target: Target | None, generation: Generation = "v5e") -> int:
    """The bytes of a tuple's table of pointers: TPUs have short ones, and round up by generation.

    >>> table_bytes(3, "cpu"), table_bytes(9, "tpu", "v6e")
    (24, 64)
    """
    if target != "tpu":
        return _POINTER * elements
    granule = _TABLE_GRANULE[generation]
    return -(-_TPU_POINTER * elements // granule) * granule
