"""The values of constants in protos. Mirrors `LiteralProto` of xla/xla_data.proto.

Most constants are one number, which is read here: importing numpy takes longer than reading most modules.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from math import isnan
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import ArrayLiteral, Literal, TupleLiteral
from hlo_cli.ir.layout import FLOAT_FORMATS, default_layout
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError
from hlo_cli.syntax.literals.byte_values import PackedValues, field_of, literal_from_bytes, literal_to_bytes
from hlo_cli.syntax.literals.printing import nested
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.shapes import shape_draft, shape_of
from hlo_cli.syntax.scanning.shapes import MAX_NESTING

_FEW: Final = 64
_INTEGERS: Final = frozenset(("pred", "s32", "s64", "u32", "u64"))
_FLOATS: Final = {"f16": "e", "f32": "f", "f64": "d"}


@dataclass(frozen=True, slots=True)
class _FewValues(PackedValues):
    """The values of a small array in row-major order; printed without numpy."""

    texts: tuple[str, ...]

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints for the values."""
        return nested(self.texts, shape.dimensions)


def literal_of(message: Message, depth: int = 0) -> Literal:
    """The literal in a `LiteralProto`.

    >>> literal_of(Message("LiteralProto", bytes.fromhex("0a02100b42040000c03f"))).to_string()
    '1.5'
    """
    shape = shape_of(message.message("shape"))
    if isinstance(shape, TupleShape):
        if depth > MAX_NESTING:
            raise HloError(f"literal is nested too deeply (limit {MAX_NESTING})")
        elements = tuple(literal_of(element, depth + 1) for element in message.messages("tuple_literals"))
        return TupleLiteral(TupleShape(tuple(element.shape for element in elements)), elements)
    if not isinstance(shape, ArrayShape):
        raise HloError(f"shape {shape} cannot have a literal")
    if (few := _few_values(message, shape)) is not None:
        return ArrayLiteral(shape, few)
    return literal_from_bytes(shape, message.packed(field_of(shape.element_type)))


def literal_draft(literal: Literal) -> MessageBuilder:
    """The `LiteralProto` of a literal; HloError if the dump omits the values."""
    draft = MessageBuilder("LiteralProto").add("shape", shape_draft(_unpacked(literal.shape)))
    if isinstance(literal, TupleLiteral):
        return draft.add("tuple_literals", map(literal_draft, literal.elements))
    if any(literal.shape.dynamic_dimensions):
        draft.add("dynamic_sizes", literal.shape.dimensions)
    return draft.add(field_of(literal.shape.element_type), literal_to_bytes(literal))


def _unpacked(shape: Shape) -> Shape:
    """The shape of a literal, whose elements take whole bytes in any layout."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_unpacked, shape.elements)))
    if not isinstance(shape, ArrayShape) or not shape.layout.element_size_in_bits:
        return shape
    return replace(shape, layout=replace(shape.layout, element_size_in_bits=0))


def _few_values(message: Message, shape: ArrayShape) -> _FewValues | None:
    """Few values of a common type, or None if numpy must read them."""
    if UNBOUNDED in shape.dimensions or not 0 < shape.elements <= _FEW:
        return None
    if shape.layout.minor_to_major != default_layout(shape.rank).minor_to_major:
        return None
    kind = shape.element_type
    name = field_of(kind)
    if kind.name in _FLOATS or kind.name == "bf16":
        data = message.packed(name)
        if len(data) != shape.elements * kind.byte_width or any(map(isnan, numbers := _numbers(kind.name, data))):
            return None
        return _FewValues(data, tuple(_float_text(kind.name, number) for number in numbers))
    if kind.name not in _INTEGERS:
        return None
    values = message.integers(name)
    data = b"".join((value & (1 << 64) - 1).to_bytes(8, "little")[: kind.byte_width] for value in values)
    texts = map(_word if kind.name == "pred" and not shape.rank else str, values)
    return _FewValues(data, tuple(texts)) if len(values) == shape.elements else None


def _numbers(name: str, data: bytes) -> list[float]:
    if name == "bf16":
        data, name = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2)), "f32"
    return [number for (number,) in struct.iter_unpack(f"<{_FLOATS[name]}", data)]


def _float_text(name: str, number: float) -> str:
    """The digits that round-trip from decimal, if these identify the number; else all that do."""
    digits = {"f32": 6, "f64": 15}.get(name)
    if digits is not None:
        text = f"{number:.{digits}g}"
        if name == "f64" and float(text) == number:
            return text
        if name == "f32" and _single(float(text)) == number:
            return text
    return f"{number:.{FLOAT_FORMATS[name].digits}g}"


def _single(number: float) -> float:
    """The nearest f32; infinite if the number is too large."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return single


def _word(value: int) -> str:
    return "true" if value else "false"
