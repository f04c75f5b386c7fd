"""What does a layout do to a shape: its text in parts, each step of tiling with the sizes after it, and strides?

Nothing here needs a module or numpy; indices that a user writes are held against the same sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from operator import index as as_int
from typing import Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, Bounds, Combine, Extend, Layout, Permute, Split, tiling_of
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape, as_shape
from hlo_cli.source import HloError, Span

# --- tokens of the text of a shape ---
# Joined, the tokens are the text that XLA prints.


TokenRole = Literal[
    "between",  # punctuation that means nothing by itself
    "type",
    "sizes",
    "order",  # minor to major
    "tile",
    "alignment",  # L
    "index_type",  # #
    "pointer_type",  # *
    "element_size",  # E
    "space",  # S
    "splits",  # SC
    "prefix",  # M
    "leaf",  # a whole element of a tuple
    "whole",  # a shape without parts: token[], opaque[], an unknown type
]


@dataclass(frozen=True, slots=True)
class ShapeToken:
    """Part of a shape's text; `number` counts tiles, `index` is the tuple index of a leaf.

    >>> ShapeToken("bf16", "type").text
    'bf16'
    """

    text: str
    role: TokenRole = "between"
    number: int = 0
    index: ShapeIndex = ()


def shape_tokens(shape: Shape, *, layout: bool = True) -> tuple[ShapeToken, ...]:
    """Tokens of a shape's text, with or without its layout; a tuple is split into its leaves.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [token.text for token in shape_tokens(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))]
    ['bf16', '[', '300,70', ']', '{', '1,0', ':', 'T(8,128)', '(2,1)', '}']
    """
    match shape:
        case ArrayShape():
            tokens = _array(shape, layout=layout)
        case BufferShape(array=array):
            tokens = (ShapeToken("b("), *_array(array, layout=layout), ShapeToken(")"))
        case TupleShape():
            tokens = _tuple(shape, (), layout=layout)
        case _:
            tokens = (ShapeToken(shape.to_string(layout=layout), "whole"),)
    return tuple(token for token in tokens if token.text)


def _array(shape: ArrayShape, *, layout: bool) -> tuple[ShapeToken, ...]:
    sizes = shape.to_string(layout=False).partition("[")[2].removesuffix("]")
    head = (ShapeToken(shape.element_type.name, "type"), ShapeToken("["), ShapeToken(sizes, "sizes"), ShapeToken("]"))
    # An empty layout is not printed: `f32[]`, but `f32[]{:T(128)}`.
    if not layout or (not shape.dimensions and not shape.layout.properties()):
        return head
    order = ",".join(map(str, shape.layout.minor_to_major))
    properties = tuple(_properties(shape.layout))
    colon = ShapeToken(":" if properties else "")
    return (*head, ShapeToken("{"), ShapeToken(order, "order"), colon, *properties, ShapeToken("}"))


def _properties(layout: Layout) -> Iterator[ShapeToken]:
    # Layout::Print (xla/layout.cc) writes the properties in this order, and the parser accepts no other.
    for number, tile in enumerate(layout.tiles):
        yield ShapeToken(str(tile) if number else f"T{tile}", "tile", number)
    if layout.tail_padding_alignment_in_elements != 1:
        yield ShapeToken(f"L({layout.tail_padding_alignment_in_elements})", "alignment")
    if layout.index_primitive_type is not None:
        yield ShapeToken(f"#({layout.index_primitive_type})", "index_type")
    if layout.pointer_primitive_type is not None:
        yield ShapeToken(f"*({layout.pointer_primitive_type})", "pointer_type")
    if layout.element_size_in_bits:
        yield ShapeToken(f"E({layout.element_size_in_bits})", "element_size")
    if layout.memory_space:
        yield ShapeToken(f"S({layout.memory_space})", "space")
    if layout.split_configs:
        yield ShapeToken("SC" + "".join(map(str, layout.split_configs)), "splits")
    if layout.dynamic_shape_metadata_prefix_bytes:
        yield ShapeToken(f"M({layout.dynamic_shape_metadata_prefix_bytes})", "prefix")


def _tuple(shape: TupleShape, index: ShapeIndex, *, layout: bool) -> tuple[ShapeToken, ...]:
    tokens = [ShapeToken("(")]
    for i, element in enumerate(shape.elements):
        # xla/shape_util.cc prints a comment before every fifth element of a tuple.
        mark = f"/*index={i}*/" if i and i % 5 == 0 else ""
        tokens.append(ShapeToken((", " if i else "") + mark))
        if isinstance(element, TupleShape):
            tokens.extend(_tuple(element, (*index, i), layout=layout))
        else:
            tokens.append(ShapeToken(element.to_string(layout=layout), "leaf", index=(*index, i)))
    return (*tokens, ShapeToken(")"))


def token_spans(text: str, tokens: Sequence[ShapeToken]) -> tuple[Span, ...] | None:
    """Span of each token in user input with arbitrary spaces; None if the input differs from the tokens.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> text = " f32[3, 5]{ 1,0 }"
    >>> [text[span.start : span.end] for span in token_spans(text, shape_tokens(parse_shape(text))) or ()]
    ['f32', '[', '3, 5', ']', '{', '1,0', '}']
    """
    spans = []
    position = 0
    for token in tokens:
        start = None
        for character in token.text.replace(" ", ""):
            while text[position : position + 1].isspace():
                position += 1
            if text[position : position + 1] != character:
                return None
            start = position if start is None else start
            position += 1
        spans.append(Span(position if start is None else start, position))
    return tuple(spans)


# --- a layout step by step ---
# Explains a layout step by step: each padding, reshape, and transpose with the sizes after it.
#
# The steps are those of `hlo_cli.ir.layout`.


Kind = Literal["array", "split", "order", "extend", "combine", "pad", "tile", "align", "metadata"]

_INT64_MAX = 2**63 - 1  # XLA counts positions and bytes in int64


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
    # Sizes in memory differ only by split configurations, which XLA prints but whose order of parts it does not define.
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
            case Combine(position=position):
                groups[position : position + 2] = [groups[position] + groups[position + 1]]
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
    # Parts are added one by one until the layout stops fitting; the first that does it is the source.
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
    untiled = len(before) - len(tile)
    counts = tuple(-(-d // t) for d, t in zip(before[untiled:], tile, strict=True))
    padded = tuple(n * t for n, t in zip(counts, tile, strict=True))
    sizes = (*before[:untiled], *padded)
    elements = prod(sizes)
    room = _bytes(elements, shape)
    if sizes != before:
        added = tuple(new - old for new, old in zip(sizes, before, strict=True))
        yield LayoutStep("pad", sizes, elements, room, level, before, padding=added)
    reshape = before[:untiled] + tuple(size for pair in zip(counts, tile, strict=True) for size in pair)
    moved = range(untiled, len(reshape))
    transpose = (*range(untiled), *moved[::2], *moved[1::2])
    yield LayoutStep(
        "tile", (*before[:untiled], *counts, *tile), elements, room, level, before, tile, counts,
        reshape=reshape, transpose=transpose,
    )  # fmt: skip


def _bytes(elements: int, shape: ArrayShape) -> int:
    return -(-elements * shape.element_bits // 8)


# --- strides ---
# In bytes between adjacent elements of a dimension, where they are constant.


# Bounds the products of tile sizes below to 4,096; far more than layouts of dumps need.
_MAX_FACTORS = 12


def physical_strides(shape: ArrayShape) -> tuple[int | None, ...]:
    """Stride in bytes of each physical dimension; None where it is not a whole number of bytes.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> physical_strides(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    (2048, 2048, 512, 4, 2, 2)
    """
    sizes = shape.tiling.physical
    return tuple(_whole_bytes(prod(sizes[at + 1 :]), shape) for at in range(len(sizes)))


def logical_strides(shape: ArrayShape) -> tuple[int | None, ...]:
    """Stride in bytes of each logical dimension; None where it is not constant.

    With a `*` in a tile, the stride depends on the other dimensions, so all are None.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> logical_strides(parse_shape("f32[300,70]{1,0}")), logical_strides(parse_shape("f32[300,70]{1,0:T(8,128)}"))
    ((280, 4), (512, 4))
    >>> logical_strides(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))
    (None, 4)
    """
    starred = any(size == COMBINE for tile in shape.layout.tiles for size in tile.dimensions)
    if starred or not shape.elements:
        return (None,) * shape.rank
    return tuple(_stride(shape, dimension) for dimension in range(shape.rank))


def _stride(shape: ArrayShape, dimension: int) -> int | None:
    """Stride of one dimension; a mixed-radix number is linear exactly if it is at the indices where a digit carries."""
    size, tiling = shape.sizes[dimension], shape.tiling
    if size == 1:
        return None if shape.layout.tiles else _untiled_stride(shape, dimension)
    # Between carries of the mixed-radix digits the function is linear, so that a few places decide for all.
    step = tiling.linear_index(_along(shape, dimension, 1))
    for position in _carry_positions(shape, size):
        if tiling.linear_index(_along(shape, dimension, position)) != position * step:
            return None
    return _whole_bytes(step, shape)


def _along(shape: ArrayShape, dimension: int, position: int) -> tuple[int, ...]:
    return tuple(position if d == dimension else 0 for d in range(shape.rank))


def _untiled_stride(shape: ArrayShape, dimension: int) -> int | None:
    order = shape.layout.minor_to_major
    return _whole_bytes(prod(shape.sizes[d] for d in order[: order.index(dimension)]), shape)


def _carry_positions(shape: ArrayShape, size: int) -> Iterator[int]:
    # A digit of an inner tile carries at products of tile sizes; the last index is where a short last tile would show.
    radices = {1}
    for factor in [size for tile in shape.layout.tiles for size in tile.dimensions][:_MAX_FACTORS]:
        radices |= {factor * radix for radix in radices}
    return (position for position in sorted({*radices, size - 1}) if 1 < position < size)


def _whole_bytes(elements: int, shape: ArrayShape) -> int | None:
    bits = elements * shape.element_bits
    return None if bits % 8 else bits // 8


# --- indices that a user writes ---


OneIndex: TypeAlias = "Sequence[int]"


def addressable(shape: Shape | str) -> ArrayShape:
    """Array whose elements have addresses; HloError for tuples, tokens, and arrays beyond 64-bit addresses.

    Split configurations (`SC`) are ignored, as XLA does not define the order of the parts in their memories.

    >>> from hlo_cli import parse_shape
    >>> addressable(parse_shape("(f32[2], f32[3])"))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: (f32[2]{0}, f32[3]{0}) is not an array
    """
    shape = as_shape(shape)
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        raise HloError(f"{shape} is not an array")
    # A linear index is still defined: it counts positions as if the parts followed each other.
    if array.layout.split_configs and array.problem is None:
        array = replace(array, layout=replace(array.layout, split_configs=()))
    if (problem := array.problem) is None and overflows(array):
        problem = "padded array size exceeds 2^63 - 1"
    if problem is not None:
        raise HloError(f"{array}: {problem}")
    return array


def checked_index(shape: ArrayShape, index: OneIndex) -> tuple[int, ...]:
    """Index with negative coordinates counted from the end; HloError if one is out of range.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> checked_index(parse_shape("f32[3,5]"), (-1, 3))
    (2, 3)
    """
    try:
        coordinates = [as_int(coordinate) for coordinate in index]
    except TypeError:
        raise HloError(
            f"expected {_index_values(shape.rank)} for {shape}, or an array of shape (n, {shape.rank})"
        ) from None
    if len(coordinates) != shape.rank:
        raise HloError(f"expected {_index_values(shape.rank)} for {shape}, found {len(coordinates)}")
    for dimension, (coordinate, size) in enumerate(zip(coordinates, shape.sizes, strict=True)):
        if not -size <= coordinate < size:
            raise out_of_range(shape, dimension, coordinate)
    # As Python and numpy do, which users of JAX expect; XLA has no negative indices.
    return tuple(c + size if c < 0 else c for c, size in zip(coordinates, shape.sizes, strict=True))


def checked_position(shape: ArrayShape, position: int) -> None:
    """Raises HloError if a linear index is out of range."""
    if not 0 <= position < shape.slots:
        raise HloError(f"linear index {position} is out of range: {shape} has {shape.slots:,} positions")


def out_of_range(shape: ArrayShape, dimension: int, coordinate: int) -> HloError:
    """Error for a coordinate that is out of range."""
    size = shape.sizes[dimension]
    valid = f"0 to {size - 1}, or -{size} to -1 from the end" if size else "size 0"
    return HloError(f"index {coordinate} is out of range for dimension {dimension} of {shape} ({valid})")


def _index_values(count: int) -> str:
    return f"{count} index {'value' if count == 1 else 'values'}"
