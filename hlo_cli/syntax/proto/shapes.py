"""Shapes and layouts of protos to those of the IR, and back. Mirrors `ShapeProto` and `LayoutProto`.

Mirrors xla/shape.cc and xla/layout.cc, `FromProto` and `ToProto` there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout, PrimitiveType, SplitConfig, Tile, default_layout
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    OpaqueShape,
    Shape,
    TokenShape,
    TupleShape,
    UnknownShape,
)
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.fields import fields_of, word_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.wire import (
    Field,
    all_bytes,
    bytes_in,
    number_in,
    packed_field,
    read_fields,
    read_numbers,
    signed,
)
from hlo_cli.syntax.scanning.shapes import MAX_NESTING

_ELEMENT_TYPE, _DIMENSIONS, _ELEMENTS, _LAYOUT, _DYNAMIC = (
    fields_of("ShapeProto")[name].number
    for name in ("element_type", "dimensions", "tuple_shapes", "layout", "is_dynamic_dimension")
)
_LEAVES: Final[dict[str, Shape]] = {"token": TokenShape(), "opaque": OpaqueShape(), "invalid": UnknownShape()}


class ShapeReader(dict[bytes, Shape]):
    """Shapes by the bytes of their `ShapeProto`: each distinct shape and element is read once.

    >>> str(ShapeReader()[bytes.fromhex("100b1a0204032a040a020100")])
    'f32[4,3]{1,0}'
    """

    def __init__(self) -> None:
        self._arrays: dict[bytes, Shape] = {}

    def __missing__(self, data: bytes) -> Shape:
        shape = self[data] = self._read(data, 0)
        return shape

    def _read(self, data: bytes, depth: int) -> Shape:
        if (known := self._arrays.get(data)) is not None:
            return known
        fields = read_fields(data)
        found = dict(fields)
        kind = word_of("PrimitiveType", number_in(found, _ELEMENT_TYPE))
        if kind in PRIMITIVE_TYPES:
            array = self._arrays[data] = self._array(PRIMITIVE_TYPES[kind], fields, found)
            return array
        if kind in _LEAVES:
            return _LEAVES[kind]
        if depth > MAX_NESTING:
            raise HloError(f"shape is nested too deeply (limit {MAX_NESTING})")
        elements = tuple([self._read(element, depth + 1) for element in all_bytes(fields, _ELEMENTS)])
        if kind == "tuple":
            if any(isinstance(element, UnknownShape) for element in elements):
                raise HloError("tuple element has no type")
            return TupleShape(elements)
        if len(elements) != 1 or not isinstance(elements[0], ArrayShape):
            raise HloError("buffer shape without an array")
        return BufferShape(elements[0])

    def _array(self, element_type: PrimitiveType, fields: list[Field], found: dict[int, int | bytes]) -> ArrayShape:
        dimensions = tuple(map(signed, read_numbers(packed_field(fields, _DIMENSIONS))))
        if any(size < 0 and size != UNBOUNDED for size in dimensions):
            raise HloError(f"invalid dimension size {min(dimensions)}")
        dynamic = tuple(map(bool, read_numbers(packed_field(fields, _DYNAMIC))[: len(dimensions)]))
        dynamic += (False,) * (len(dimensions) - len(dynamic))
        if _LAYOUT not in found:
            return ArrayShape(element_type, dimensions, dynamic, default_layout(len(dimensions)))
        layout = _layout(bytes_in(found, _LAYOUT))
        if problem := layout.problem(dimensions):
            raise HloError(f"{element_type}{index_text(dimensions, '[]')}: {problem}")
        return ArrayShape(element_type, dimensions, dynamic, layout)


def shape_of(message: Message) -> Shape:
    """The shape in a message of its own."""
    return ShapeReader()[message.encoded]


@lru_cache(maxsize=8192)
def _layout(data: bytes) -> Layout:
    return layout_of(Message("LayoutProto", data))


def layout_of(message: Message) -> Layout:
    """The layout in a `LayoutProto`."""
    return Layout(
        message.integers("minor_to_major"),
        tuple(Tile(tile.integers("dimensions")) for tile in message.messages("tiles")),
        message.integer("tail_padding_alignment_in_elements") or 1,
        PRIMITIVE_TYPES.get(message.word("index_primitive_type")),
        PRIMITIVE_TYPES.get(message.word("pointer_primitive_type")),
        message.integer("element_size_in_bits"),
        message.integer("memory_space"),
        tuple(
            SplitConfig(split.integer("dimension"), split.integers("split_indices"))
            for split in message.messages("split_configs")
        ),
        message.integer("dynamic_shape_metadata_prefix_bytes"),
    )


def shape_draft(shape: Shape) -> MessageBuilder:
    """The `ShapeProto` of a shape.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> shape = parse_shape("(f32[<=4,3]{0,1:T(2,128)S(1)}, token[])")
    >>> ShapeReader()[shape_draft(shape).to_bytes()] == shape
    True
    """
    draft = MessageBuilder("ShapeProto")
    match shape:
        case ArrayShape():
            draft.add("element_type", shape.element_type.name).add("dimensions", shape.dimensions)
            draft.add("is_dynamic_dimension", shape.dynamic_dimensions)
            draft.add("layout", layout_draft(shape.layout))
        case TupleShape():
            draft.add("element_type", "tuple").add("tuple_shapes", map(shape_draft, shape.elements))
        case BufferShape():
            draft.add("element_type", "buffer").add("tuple_shapes", [shape_draft(shape.array)])
        case TokenShape():
            draft.add("element_type", "token")
        case OpaqueShape():
            draft.add("element_type", "opaque")
        case UnknownShape():
            raise HloError(f"unknown shape {shape}" if shape.text else "missing shape")
    return draft


def layout_draft(layout: Layout) -> MessageBuilder:
    """The `LayoutProto` of a layout."""
    return (
        MessageBuilder("LayoutProto")
        .add("minor_to_major", layout.minor_to_major)
        .add("tiles", [MessageBuilder("TileProto").add("dimensions", tile.dimensions) for tile in layout.tiles])
        .add("tail_padding_alignment_in_elements", layout.tail_padding_alignment_in_elements)
        .add("index_primitive_type", _type_name(layout.index_primitive_type))
        .add("pointer_primitive_type", _type_name(layout.pointer_primitive_type))
        .add("element_size_in_bits", layout.element_size_in_bits)
        .add("memory_space", layout.memory_space)
        .add(
            "split_configs",
            [
                MessageBuilder("SplitConfigProto").add("dimension", s.dimension).add("split_indices", s.split_indices)
                for s in layout.split_configs
            ],
        )
        .add("dynamic_shape_metadata_prefix_bytes", layout.dynamic_shape_metadata_prefix_bytes)
    )


def _type_name(kind: PrimitiveType | None) -> str | None:
    return kind.name if kind is not None else None
