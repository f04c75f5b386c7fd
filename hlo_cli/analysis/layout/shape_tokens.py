"""Splits the text of a shape into tokens by meaning; joined, the tokens are the text that XLA prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape
from hlo_cli.source import Span

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
            found = _array(shape, layout=layout)
        case BufferShape(array=array):
            found = (ShapeToken("b("), *_array(array, layout=layout), ShapeToken(")"))
        case TupleShape():
            found = _tuple(shape, (), layout=layout)
        case _:
            found = (ShapeToken(shape.to_string(layout=layout), "whole"),)
    return tuple(token for token in found if token.text)


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
    at = 0
    for token in tokens:
        start = None
        for character in token.text.replace(" ", ""):
            while text[at : at + 1].isspace():
                at += 1
            if text[at : at + 1] != character:
                return None
            start = at if start is None else start
            at += 1
        spans.append(Span(at if start is None else start, at))
    return tuple(spans)
