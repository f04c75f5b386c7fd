"""Explains a layout step by step: each padding, reshape, and transpose with the sizes after it.

The steps are those of `hlo_cli.ir.layout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Bounds, Combine, Extend, Layout, Permute, Split, tiling_of
from hlo_cli.ir.shape import ArrayShape

Kind = Literal["array", "split", "order", "extend", "combine", "pad", "tile", "align", "metadata"]

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """Step from the logical array to memory, and the sizes after it.

    `level` counts tiles from 0. `tile` are the sizes of a tile, `counts` the numbers of tiles; `padding` is added to
    each dimension. A "combine" merges the dimension at `position` into the next one. A "tile" is a reshape to
    `reshape`, then a `transpose` that moves the tile's own dimensions to the end.
    """

    kind: Kind
    sizes: Bounds
    elements: int
    bytes: int
    level: int = 0
    before: Bounds = ()
    tile: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    reshape: Bounds = ()
    transpose: tuple[int, ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class PhysicalDimension:
    """Dimension before the first tile, with its logical dimensions: several under `*`, none for one that a tile
    adds.
    """

    dimensions: tuple[int, ...]
    size: int


def layout_steps(shape: ArrayShape) -> tuple[LayoutStep, ...]:
    """Steps from the logical array to memory; HloError if the layout does not fit the shape.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> steps = layout_steps(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    >>> for step in steps: print(step.kind, step.sizes, step.bytes)
    array (300, 70) 42000
    pad (304, 128) 77824
    tile (38, 1, 8, 128) 77824
    tile (38, 1, 4, 128, 2, 1) 77824
    """
    steps = [_step(shape, "array", shape.sizes)]
    layout, sizes = shape.layout, shape.sizes_in_memory
    tiling = shape.tiling if sizes == shape.sizes else tiling_of(sizes, layout)
    if sizes != shape.sizes:
        steps.append(_step(shape, "split", sizes))
    level = 0
    for step, before, after in zip(tiling.steps, tiling.bounds, tiling.bounds[1:], strict=False):
        match step:
            case Permute(order=order) if order != tuple(range(shape.rank)):
                steps.append(_step(shape, "order", after, transpose=order))
            case Extend():
                steps.append(_step(shape, "extend", after, before=before, level=level))
            case Combine(position=position):
                steps.append(replace(_step(shape, "combine", after, before=before, level=level), position=position))
            case Split(sizes=tile):
                steps.extend(_tile_steps(shape, before, tile, level))
                level += 1
            case _:
                pass
    if shape.slots != steps[-1].elements:
        steps.append(_step(shape, "align", (shape.slots,)))
    if shape.metadata_bytes:
        steps.append(LayoutStep("metadata", steps[-1].sizes, steps[-1].elements, shape.padded_bytes))
    return tuple(steps)


def physical_dimensions(shape: ArrayShape) -> tuple[PhysicalDimension, ...]:
    """Dimensions to which the first tile applies, most major first; without tiles those of the array in memory order.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [d.dimensions for d in physical_dimensions(parse_shape("bf16[2,3,4]{2,1,0:T(2,*,2)}"))]
    [(0,), (1, 2)]
    """
    tiling = shape.tiling
    groups: list[tuple[int, ...]] = [(d,) for d in shape.layout.minor_to_major[::-1]]
    bounds = tiling.bounds[1]
    for step, after in zip(tiling.steps[1:], tiling.bounds[2:], strict=True):
        match step:
            case Extend(count=count):
                groups = [()] * count + groups
            case Combine(position=at):
                groups[at : at + 2] = [groups[at] + groups[at + 1]]
            case _:
                break
        bounds = after
    return tuple(map(PhysicalDimension, groups, bounds))


def true_rank(shape: ArrayShape) -> int:
    """Number of dimensions larger than 1 (`ShapeUtil::TrueNumDimensions`).

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> true_rank(parse_shape("f32[8,1,128]"))
    2
    """
    return sum(size > 1 for size in shape.sizes)


def overflow_source(shape: ArrayShape) -> tuple[str, int]:
    """Role and number of the token because of which the layout does not fit the shape.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> overflow_source(parse_shape("f32[3,5]{1,0:T(8,128)(0,1)}"))
    ('tile', 1)
    """
    layout, sizes = shape.layout, shape.sizes
    if layout.problem(sizes) is None:
        return "sizes", 0
    if Layout(layout.minor_to_major).problem(sizes) is not None:
        return "order", 0
    for number, tile in enumerate(layout.tiles):
        if Layout(layout.minor_to_major, (tile,)).problem(sizes) is not None:
            return "tile", number
    if layout.tail_padding_alignment_in_elements <= 0:
        return "alignment", 0
    if layout.index_primitive_type is not None:
        return "index_type", 0
    return ("pointer_type", 0) if layout.pointer_primitive_type is not None else ("splits", 0)


def overflows(shape: ArrayShape) -> bool:
    """Whether the padded array has more positions or bytes than 64 bits can count."""
    return max(shape.slots, shape.padded_bytes) > _INT64_MAX


def _step(
    shape: ArrayShape, kind: Kind, sizes: Bounds, *, level: int = 0, before: Bounds = (), transpose: Bounds = ()
) -> LayoutStep:
    elements = prod(sizes)
    return LayoutStep(kind, sizes, elements, _bytes(elements, shape), level, before, transpose=transpose)


def _tile_steps(shape: ArrayShape, before: Bounds, tile: tuple[int, ...], level: int) -> Iterator[LayoutStep]:
    kept = len(before) - len(tile)
    counts = tuple(-(-d // t) for d, t in zip(before[kept:], tile, strict=True))
    padded = tuple(n * t for n, t in zip(counts, tile, strict=True))
    sizes = (*before[:kept], *padded)
    elements = prod(sizes)
    room = _bytes(elements, shape)
    if sizes != before:
        added = tuple(new - old for new, old in zip(sizes, before, strict=True))
        yield LayoutStep("pad", sizes, elements, room, level, before, padding=added)
    reshape = before[:kept] + tuple(size for pair in zip(counts, tile, strict=True) for size in pair)
    moved = range(kept, len(reshape))
    transpose = (*range(kept), *moved[::2], *moved[1::2])
    yield LayoutStep(
        "tile", (*before[:kept], *counts, *tile), elements, room, level, before, tile, counts,
        reshape=reshape, transpose=transpose,
    )  # fmt: skip


def _bytes(elements: int, shape: ArrayShape) -> int:
    return -(-elements * shape.element_bits // 8)
