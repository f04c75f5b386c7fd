"""Pieces: the text of a shape cut into what each part of it says.

The texts joined are exactly what XLA prints for the shape, so a quotation can be underlined piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import Span

PieceRole = Literal[
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
    """One part of a shape's text. `number` counts tiles; `index` is the place of a leaf in its tuple.

    >>> ShapeToken("bf16", "type").text
    'bf16'
    """

    text: str
    role: PieceRole = "between"
    number: int = 0
    index: ShapeIndex = ()


def shape_pieces(shape: Shape, *, layout: bool = True) -> tuple[ShapeToken, ...]:
    """The pieces of a shape's text, with or without its layout; a tuple is cut into its leaves.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> [piece.text for piece in shape_pieces(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"))]
    ['bf16', '[', '300,70', ']', '{', '1,0', ':', 'T(8,128)', '(2,1)', '}']
    """
    match shape:
        case ArrayShape():
            found = _array(shape, layout=layout)
        case BufferShape(array=array):
            found = (ShapeToken("b("), *_array(array, layout=layout), ShapeToken(")"))
        case TupleShape():
            found = _tuple(shape, (), layout=layout)
        case _:
            found = (ShapeToken(shape.to_string(layout=layout), "whole"),)
    return tuple(piece for piece in found if piece.text)


def _array(shape: ArrayShape, *, layout: bool) -> tuple[ShapeToken, ...]:
    sizes = shape.to_string(layout=False).partition("[")[2].removesuffix("]")
    head = (ShapeToken(shape.element_type.name, "type"), ShapeToken("["), ShapeToken(sizes, "sizes"), ShapeToken("]"))
    if not layout or (not shape.dimensions and not shape.layout.properties()):
        return head
    order = ",".join(map(str, shape.layout.minor_to_major))
    properties = tuple(_properties(shape.layout))
    colon = ShapeToken(":" if properties else "")
    return (*head, ShapeToken("{"), ShapeToken(order, "order"), colon, *properties, ShapeToken("}"))


def _properties(layout: Layout) -> Iterator[ShapeToken]:
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
    pieces = [ShapeToken("(")]
    for i, element in enumerate(shape.elements):
        mark = f"/*index={i}*/" if i and i % 5 == 0 else ""
        pieces.append(ShapeToken((", " if i else "") + mark))
        if isinstance(element, TupleShape):
            pieces.extend(_tuple(element, (*index, i), layout=layout))
        else:
            pieces.append(ShapeToken(element.to_string(layout=layout), "leaf", index=(*index, i)))
    return (*pieces, ShapeToken(")"))


def piece_spans(text: str, pieces: Sequence[ShapeToken]) -> tuple[Span, ...] | None:
    """Where each piece stands in a text that a person typed, with blanks anywhere; None if it says more than they do.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> text = " f32[3, 5]{ 1,0 }"
    >>> [text[span.start : span.end] for span in piece_spans(text, shape_pieces(parse_shape(text))) or ()]
    ['f32', '[', '3, 5', ']', '{', '1,0', '}']
    """
    spans = []
    at = 0
    for piece in pieces:
        start = None
        for character in piece.text.replace(" ", ""):
            while text[at : at + 1].isspace():
                at += 1
            if text[at : at + 1] != character:
                return None
            start = at if start is None else start
            at += 1
        spans.append(Span(at if start is None else start, at))
    return tuple(spans)
