"""The meaning of each token of a shape in words: the lines below an underlined shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.layout.layout_steps import (
    ShapeToken,
    layout_steps,
    logical_strides,
    physical_dimensions,
    true_rank,
)
from hlo_cli.ir.layout import COMBINE, PrimitiveType, split_sizes
from hlo_cli.ir.memory_space import MemorySpace, describe_memory_space, space_name
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape
from hlo_cli.report.numbers import format_count

LABELS = {
    "type": "type",
    "sizes": "sizes",
    "order": "order",
    "tile": "tile",
    "alignment": "align",
    "index_type": "index",
    "pointer_type": "pointer",
    "element_size": "bits",
    "space": "space",
    "splits": "splits",
    "prefix": "prefix",
    "leaf": "element",
    "whole": "type",
}
"""The label of each role of a token."""

_KINDS = {"pred": "true or false", "complex": "real and imaginary part"}
_NUMBERS = {2: "two", 4: "four", 8: "eight"}


def meaning_of(piece: ShapeToken, shape: ArrayShape, *, numbered: bool = False, target: str | None = None) -> str:
    """The meaning of one token of an array's text; dimensions have letters, or numbers if `numbered`.

    >>> from hlo_cli.analysis.layout.layout_steps import shape_tokens
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
    >>> for piece in shape_tokens(shape)[5:9]: print(meaning_of(piece, shape))
    x is minor: row-major, the default
    <BLANKLINE>
    tiles of 8 (y) × 128 (x): 38 × 1 tiles
    within each tile, pairs of rows are interleaved: two bf16 per 32-bit word
    """
    layout = shape.layout
    names = tuple(f"dimension {d}" for d in range(shape.rank)) if numbered else dimension_names(shape.rank)
    match piece.role:
        case "type":
            return _type(shape.element_type, layout.element_size_in_bits)
        case "sizes":
            return _sizes(shape, names, numbered=numbered)
        case "order":
            return _order(shape, names)
        case "tile":
            return _tile(shape, piece.number, names)
        case "alignment":
            return f"padded to a multiple of {format_count(layout.tail_padding_alignment_in_elements, 'elements')}"
        case "index_type" | "pointer_type":
            return "sparse array attribute (removed from XLA)"
        case "element_size":
            return _element_size(shape)
        case "space":
            return describe_memory_space(layout.memory_space, target)
        case "splits":
            return _splits(shape, names)
        case "prefix":
            return f"a {layout.dynamic_shape_metadata_prefix_bytes:,}-byte prefix holds dynamic sizes"
        case _:
            return ""


def default_space(target: str | None) -> str:
    """The meaning of an omitted memory space; with an unknown target, that on a TPU is named too.

    >>> default_space(None), default_space("cpu")
    ('S(0), main memory; HBM on a TPU', 'S(0), main memory; RAM')
    """
    name = space_name(MemorySpace.MAIN, target or "tpu")
    where = name if target == "cpu" else f"{name} on a {(target or 'tpu').upper()}"
    return f"S({MemorySpace.MAIN}), main memory; {where}"


def stride_meaning(shape: ArrayShape) -> str:
    """The stride in bytes along each dimension where it is constant.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> stride_meaning(parse_shape("f32[300,70]{1,0}"))
    'stride of y: 280 bytes; of x: 4 bytes'
    """
    strides = zip(dimension_names(shape.rank), logical_strides(shape), strict=True)
    known = [f"of {name}: {format_count(stride, 'bytes')}" for name, stride in strides if stride is not None]
    return f"stride {'; '.join(known)}" if known else ""


def dimension_names(rank: int) -> tuple[str, ...]:
    """The letters for dimensions in XLA's documents for rank 4 and below, else numbers.

    >>> dimension_names(2), dimension_names(4), dimension_names(5)[3:]
    (('y', 'x'), ('p', 'z', 'y', 'x'), ('d3', 'd4'))
    """
    return tuple("pzyx"[4 - rank :]) if rank <= 4 else tuple(f"d{d}" for d in range(rank))


def _type(kind: PrimitiveType, element_size_in_bits: int) -> str:
    if kind.is_sub_byte:
        size = f"{format_count(kind.bits, 'bits')} per element"
        return size if element_size_in_bits else f"{size}, each in a whole byte (no E({kind.bits}))"
    values = f"{_KINDS[kind.kind]}, " if kind.kind in _KINDS else ""
    return f"{values}{format_count(kind.byte_width, 'bytes')} per element"


def _order(shape: ArrayShape, names: Sequence[str]) -> str:
    order = shape.layout.minor_to_major
    if shape.rank < 2 or shape.layout.problem(shape.sizes):
        return "minor to major" if shape.rank > 1 else f"{names[0]} is the only dimension" if shape.rank else ""
    minor, major = names[order[0]], names[order[-1]]
    if order == tuple(range(shape.rank))[::-1]:
        return f"{minor} is minor: row-major, the default"
    sizes = "[" + ", ".join(_size(shape.dimensions[d]) for d in reversed(order)) + "]"
    return f"minor to major: {minor} is minor, {major} is major; in physical order {sizes}"


def _tile(shape: ArrayShape, number: int, names: Sequence[str]) -> str:
    if shape.layout.problem(shape.sizes):
        return "does not fit"
    step = next((step for step in layout_steps(shape) if step.kind == "tile" and step.level == number), None)
    if step is None:
        return ""
    tile = shape.layout.tiles[number]
    counts = " × ".join(f"{count:,}" for count in step.counts)
    if not shape.rank and number == 0:
        return f"one tile of {' × '.join(map(str, step.tile))} for the single element"
    if number == 0:
        return f"{_first_tile(shape, names)}: {counts} {'tile' if step.counts == (1,) else 'tiles'}"
    rows, outer = split_sizes(tile)[0], "tile" if number == 1 else "inner tile"
    if COMBINE not in tile.dimensions and len(step.tile) == 2 and step.tile[1] == 1 and rows > 1:
        group = "pairs of rows" if rows == 2 else f"groups of {rows} rows"
        return f"within each {outer}, {group} are interleaved" + _in_a_word(shape, rows)
    if len(step.tile) == 1:
        return f"within each {outer}, {format_count(step.counts[0], 'rows')} of {step.tile[0]:,}"
    return f"within each {outer}, {counts} inner tiles of {' × '.join(map(str, step.tile))}"


def _sizes(shape: ArrayShape, names: Sequence[str], *, numbered: bool) -> str:
    parts = [_numbered(shape) if numbered else _elements(shape, names)]
    if true_rank(shape) < shape.rank and shape.elements and shape.rank > 1:
        parts.append(f"true rank {true_rank(shape)} (without dimensions of size 1)")
    if UNBOUNDED in shape.dimensions:
        parts.append("? is known only at run time; assumed to be 1")
    return "; ".join(parts)


def _elements(shape: ArrayShape, names: Sequence[str]) -> str:
    if shape.rank > 4:
        each = [f"d0 to d{shape.rank - 1}"]
    else:
        dynamic = (shape.dynamic_dimensions[d] and shape.dimensions[d] != UNBOUNDED for d in range(shape.rank))
        most = ("at most " if is_bounded else "" for is_bounded in dynamic)
        each = [f"{n} is {m}{_size(d)}" for n, m, d in zip(names, most, shape.dimensions, strict=True)]
    return f"{', '.join(each)}: {format_count(shape.elements, 'elements')}"


def _numbered(shape: ArrayShape) -> str:
    words = "of dimension 0" if shape.rank == 1 else "of dimensions " + ", ".join(map(str, range(shape.rank)))
    bounded = [d for d in range(shape.rank) if shape.dynamic_dimensions[d] and shape.dimensions[d] != UNBOUNDED]
    return words + "".join(f"; {d} is dynamic, at most {shape.dimensions[d]}" for d in bounded)


def _first_tile(shape: ArrayShape, names: Sequence[str]) -> str:
    tile = split_sizes(shape.layout.tiles[0])
    dimensions = physical_dimensions(shape)[-len(tile) :]
    labels = [" * ".join(names[d] for d in each.dimensions) or "added dimension" for each in dimensions]
    if shape.rank == len(tile) == 1:
        return f"tiles of {format_count(tile[0], 'elements')}"
    return "tiles of " + " × ".join(f"{size:,} ({label})" for size, label in zip(tile, labels, strict=True))


def _in_a_word(shape: ArrayShape, rows: int) -> str:
    if rows * shape.element_bits != 32:
        return ""
    return f": {_NUMBERS.get(rows, rows)} {shape.element_type.name} per 32-bit word"


def _element_size(shape: ArrayShape) -> str:
    bits = shape.layout.element_size_in_bits
    if bits < 8 and 8 % bits == 0:
        return f"{format_count(bits, 'bits')} per element: {8 // bits} per byte, lowest bits first"
    return f"{format_count(bits, 'bits')} per element (the type has {shape.element_type.bits})"


def _splits(shape: ArrayShape, names: Sequence[str]) -> str:
    return "; ".join(_split(shape, names))


def _split(shape: ArrayShape, names: Sequence[str]) -> Iterator[str]:
    if shape.layout.problem(shape.sizes):
        return
    for split in shape.layout.split_configs:
        name = names[shape.layout.minor_to_major[::-1][split.dimension]]
        yield f"{name} is split across memories at {', '.join(map(str, split.split_indices))}"


def _size(size: int) -> str:
    return "?" if size == UNBOUNDED else str(size)
