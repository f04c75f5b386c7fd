"""The meaning of each token of a shape in words: the lines below an underlined shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.layout.shape_tokens import ShapeToken
from hlo_cli.analysis.layout.steps import layout_steps, physical_dimensions, true_rank
from hlo_cli.analysis.layout.strides import logical_strides
from hlo_cli.ir.layout import COMBINE, split_sizes
from hlo_cli.ir.memory_space import MemorySpace, describe_memory_space, space_name
from hlo_cli.ir.primitive import PrimitiveType
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.shape_text import UNBOUNDED
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

_KINDS = {"pred": "true or false", "complex": "a real and an imaginary part"}
_NUMBERS = {2: "two", 4: "four", 8: "eight"}


def meaning_of(piece: ShapeToken, shape: ArrayShape, *, numbered: bool = False, target: str | None = None) -> str:
    """The meaning of one token of an array's text; dimensions have letters, or numbers if `numbered`.

    >>> from hlo_cli.analysis.layout.shape_tokens import shape_tokens
    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> shape = parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
    >>> for piece in shape_tokens(shape)[5:9]: print(meaning_of(piece, shape))
    x varies fastest: row-major, the default
    <BLANKLINE>
    y is cut by 8, x by 128: 38 × 1 tiles
    inside each, 2 rows interleave: two bf16 in a word
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
            return f"slots are rounded up to a multiple of {layout.tail_padding_alignment_in_elements:,}"
        case "index_type" | "pointer_type":
            return "of a sparse array, which XLA no longer has"
        case "element_size":
            return _element_size(shape)
        case "space":
            return describe_memory_space(layout.memory_space, target)
        case "splits":
            return _splits(shape, names)
        case "prefix":
            prefix = format_count(layout.dynamic_shape_metadata_prefix_bytes, "bytes")
            return f"{prefix} before the data hold dynamic sizes"
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

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> stride_meaning(parse_shape("f32[300,70]{1,0}"))
    'one step along y is 280 bytes, along x 4'
    """
    strides = zip(dimension_names(shape.rank), logical_strides(shape), strict=True)
    known = [(name, stride) for name, stride in strides if stride is not None]
    if not known:
        return ""
    first, *others = [f"along {name} {'is ' if not at else ''}{stride:,}" for at, (name, stride) in enumerate(known)]
    return ", ".join((f"one step {first} {'byte' if known[0][1] == 1 else 'bytes'}", *others))


def dimension_names(rank: int) -> tuple[str, ...]:
    """The letters for dimensions in XLA's documents for rank 4 and below, else numbers.

    >>> dimension_names(2), dimension_names(4), dimension_names(5)[3:]
    (('y', 'x'), ('p', 'z', 'y', 'x'), ('d3', 'd4'))
    """
    return tuple("pzyx"[4 - rank :]) if rank <= 4 else tuple(f"d{d}" for d in range(rank))


def _type(kind: PrimitiveType, element_size_in_bits: int) -> str:
    what = f"{_KINDS[kind.kind]}, " if kind.kind in _KINDS else ""
    if kind.is_sub_byte:
        own = f" in a byte of its own, as no E({kind.bits}) follows"
        return f"{format_count(kind.bits, 'bits')}{own if not element_size_in_bits else ' an element'}"
    return f"{what}{format_count(kind.byte_width, 'bytes')} an element"


def _order(shape: ArrayShape, names: Sequence[str]) -> str:
    order = shape.layout.minor_to_major
    if shape.rank < 2 or shape.layout.problem(shape.sizes):
        return "minor to major" if shape.rank > 1 else f"{names[0]} is the only dimension" if shape.rank else ""
    fastest, slowest = names[order[0]], names[order[-1]]
    if order == tuple(range(shape.rank))[::-1]:
        return f"{fastest} varies fastest: row-major, the default"
    sizes = "[" + ", ".join(_size(shape.dimensions[d]) for d in reversed(order)) + "]"
    return f"minor to major: {fastest} varies fastest, {slowest} slowest; in memory {sizes}"


def _tile(shape: ArrayShape, number: int, names: Sequence[str]) -> str:
    if shape.layout.problem(shape.sizes):
        return "does not fit"
    cut = next((step for step in layout_steps(shape) if step.kind == "cut" and step.level == number), None)
    if cut is None:
        return ""
    tile = shape.layout.tiles[number]
    counts = " × ".join(f"{count:,}" for count in cut.counts)
    if not shape.rank and number == 0:
        return f"a tile of {' × '.join(map(str, cut.cut))} for the one element"
    if number == 0:
        return f"{_first_cut(shape, names)}: {counts} {'tile' if cut.counts == (1,) else 'tiles'}"
    rows = split_sizes(tile)[0]
    if COMBINE not in tile.dimensions and len(cut.cut) == 2 and cut.cut[1] == 1 and rows > 1:
        return f"inside each, {rows} rows interleave" + _in_a_word(shape, rows)
    if len(cut.cut) == 1:
        return f"inside each, {format_count(cut.counts[0], 'rows')} of {cut.cut[0]:,}"
    return f"inside each, {counts} parts of {' × '.join(map(str, cut.cut))}"


def _sizes(shape: ArrayShape, names: Sequence[str], *, numbered: bool) -> str:
    said = [_numbered(shape) if numbered else _elements(shape, names)]
    if true_rank(shape) < shape.rank and shape.elements and shape.rank > 1:
        said.append(f"true rank {true_rank(shape)}, without 1s")
    if UNBOUNDED in shape.dimensions:
        said.append("? is known when the program runs and counted as 1 here")
    return "; ".join(said)


def _elements(shape: ArrayShape, names: Sequence[str]) -> str:
    if shape.rank > 4:
        each = [f"d0 to d{shape.rank - 1}"]
    else:
        dynamic = (shape.dynamic_dimensions[d] and shape.dimensions[d] != UNBOUNDED for d in range(shape.rank))
        most = ("at most " if is_bounded else "" for is_bounded in dynamic)
        each = [f"{n} is {m}{_size(d)}" for n, m, d in zip(names, most, shape.dimensions, strict=True)]
    return f"{', '.join(each)}: {format_count(shape.elements, 'elements')}"


def _numbered(shape: ArrayShape) -> str:
    said = "of dimension 0" if shape.rank == 1 else "of dimensions " + ", ".join(map(str, range(shape.rank)))
    bounded = [d for d in range(shape.rank) if shape.dynamic_dimensions[d] and shape.dimensions[d] != UNBOUNDED]
    return said + "".join(f"; {d} is dynamic, at most {shape.dimensions[d]}" for d in bounded)


def _first_cut(shape: ArrayShape, names: Sequence[str]) -> str:
    cut = split_sizes(shape.layout.tiles[0])
    dimensions = physical_dimensions(shape)[-len(cut) :]
    called = [" and ".join(names[d] for d in each.dimensions) or "an added 1" for each in dimensions]
    joined = ["together " if len(each.dimensions) > 1 else "" for each in dimensions]
    first = f"{called[0]} {joined[0]}{'are' if joined[0] else 'is'} cut by {cut[0]:,}"
    others = (f"{name} {how}by {size:,}" for name, how, size in zip(called[1:], joined[1:], cut[1:], strict=True))
    return ", ".join((first, *others))


def _in_a_word(shape: ArrayShape, rows: int) -> str:
    if rows * shape.element_bits != 32:
        return ""
    return f": {_NUMBERS.get(rows, rows)} {shape.element_type.name} in a word"


def _element_size(shape: ArrayShape) -> str:
    bits = shape.layout.element_size_in_bits
    if bits < 8 and 8 % bits == 0:
        return f"{format_count(bits, 'bits')} an element: {8 // bits} in a byte, the first in the low bits"
    return f"{format_count(bits, 'bits')} an element in memory, where the type has {shape.element_type.bits}"


def _splits(shape: ArrayShape, names: Sequence[str]) -> str:
    return "; ".join(_split(shape, names))


def _split(shape: ArrayShape, names: Sequence[str]) -> Iterator[str]:
    if shape.layout.problem(shape.sizes):
        return
    for split in shape.layout.split_configs:
        name = names[shape.layout.minor_to_major[::-1][split.dimension]]
        yield f"{name} is divided between memories at {', '.join(map(str, split.split_indices))}"


def _size(size: int) -> str:
    return "?" if size == UNBOUNDED else str(size)
