"""Cost of gathers and scatters on TPU, which move each slice in whole tiles, including padding slots.

Not part of XLA's public source; derived by comparison with libtpu 0.0.51.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hlo_cli.analysis.cost.cost import BYTES, OUTPUT_BYTES, Properties, operand_key, utilization_key
from hlo_cli.analysis.cost.counting import DEFAULT_TILE, CostCounter
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, Shape


def gather_in_tiles(inner: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Corrects the bytes read by a fusion with a gather: a slice for every index of its result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> from hlo_cli.analysis.cost.tpu import tpu_rules
    >>> text = '''f { a = f32[99]{0:T(128)} parameter(0)  i = s32[8,1]{0,1:T(1,128)} parameter(1)
    ...   ROOT g = f32[8]{0:T(128)} gather(a, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    ...     index_vector_dim=1, slice_sizes={1} }
    ... ENTRY e { a = f32[99]{0:T(128)} parameter(0)  i = s32[8,1]{0,1:T(1,128)} parameter(1)
    ...   ROOT r = f32[8]{0:T(128)} fusion(a, i), kind=kCustom, calls=f }'''
    >>> root = parse_module(text).entry.root
    >>> cost_of(root).operand_bytes(0), cost_of(root, rules=tpu_rules("v5e")).operand_bytes(0) == 128 * 4096
    (32, True)
    """
    sizes, source = inner.integers("slice_sizes"), inner.operand_shape(0) if inner.operands else None
    read = _slice_count(inner.shape, inner.integers("offset_dims")) * _slice_bytes(source, sizes)
    properties[BYTES] = counter.sum((properties[BYTES], read - properties[operand_key(0)]))
    properties |= {operand_key(0): read, utilization_key(0): 1}


def scatter_in_tiles(inner: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Corrects the bytes of a fusion with a scatter: a slice is read and written for every index of the updates.

    The utilizations of the applied computation count once per element.
    """
    if len(inner.operands) != 3 or not isinstance(inner.shape, ArrayShape):
        return
    inserted, windows = inner.integers("inserted_window_dims"), inner.integers("update_window_dims")
    sizes = tuple(1 if d in inserted else size for d, size in enumerate(inner.shape.sizes))
    slice_bytes = _slice_count(inner.operand_shape(2), windows) * _slice_bytes(inner.operand_shape(0), sizes)
    properties[BYTES] = counter.sum((properties[BYTES], 2 * (slice_bytes - properties[OUTPUT_BYTES])))
    properties |= {operand_key(0): slice_bytes, OUTPUT_BYTES: slice_bytes}
    body = counter.totals.get(inner.called_computations[0], {}) if inner.called_computations else {}
    elements = counter.operand(inner, 2).elements
    properties |= {
        name: counter.times(value, elements) for name, value in body.items() if name.startswith("utilization")
    }


def _slice_count(shape: Shape, offsets: tuple[int, ...]) -> int:
    """Number of slices, including padding slots, of an array whose dimensions `offsets` are those of a slice."""
    if not isinstance(shape, ArrayShape):
        return 0
    batch = [size for d, size in enumerate(shape.sizes) if d not in offsets]
    tile = shape.layout.tiles[0].dimensions if shape.layout.tiles else ()
    rows = tile[: len(tile) - len(offsets)]
    parts = (1,) * (len(batch) - len(rows)) + rows[len(rows) - len(batch) :] if batch else ()
    return prod(-(-size // part) * part for size, part in zip(batch, parts, strict=False))


def _slice_bytes(source: Shape | None, sizes: tuple[int, ...]) -> int:
    """Padded bytes of one slice."""
    if not isinstance(source, ArrayShape) or len(sizes) != source.rank:
        return 0
    return replace(source, dimensions=sizes, layout=replace(source.layout, tiles=(DEFAULT_TILE,))).padded_bytes
