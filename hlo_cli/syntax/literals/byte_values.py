"""Array literals to and from the bytes that a binary proto holds.

Mirrors `LiteralBase::Piece::WriteToProto` and `CopyFromProto` of xla/literal.cc. A `LiteralProto` keeps its values in
one field, selected by the element type, in the order of the layout; its tiles do not matter. An element takes whole
bytes there; narrow integers use the low bits of a byte. These functions take and return the field in wire format,
packed if it is repeated.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape
from hlo_cli.source import HloError, counted
from hlo_cli.syntax.literals.numbers import in_shape, storage_type
from hlo_cli.syntax.literals.read import StoredValues

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_VARINTS: Final = ("s32", "s64", "u32", "u64")


def field_of(element_type: PrimitiveType) -> str:
    """The name of the `LiteralProto` field that holds values of a type.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> field_of(PRIMITIVE_TYPES["pred"]), field_of(PRIMITIVE_TYPES["f8e5m2"])
    ('preds', 'f8e5m2s')
    """
    return f"{element_type.name}s"


def literal_from_bytes(shape: ArrayShape, data: bytes) -> ArrayLiteral:
    """The literal whose field on the wire is `data`; HloError if its length does not match the shape.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> literal_from_bytes(parse_shape("s4[2,2]{0,1}"), bytes([1, 15, 3, 4])).to_string()
    '{ { 1, 3 }, { -1, 4 } }'
    """
    name = shape.element_type.name
    if UNBOUNDED in shape.dimensions or len(shape.layout.minor_to_major) != shape.rank:
        raise HloError(f"shape {shape} cannot have a literal")
    if name in _VARINTS:
        data = _read_varints(data, shape.element_type)
    wanted = prod(shape.dimensions) * shape.element_type.byte_width
    if len(data) != wanted:
        raise HloError(f"a {shape} literal needs {counted(wanted, 'bytes')}, found {len(data)}")
    return ArrayLiteral(shape, PackedValues(data))


def literal_to_bytes(literal: ArrayLiteral) -> bytes:
    """The literal's field on the wire; HloError if its layout is invalid, so that the order of the bytes is unknown.

    >>> from hlo_cli.syntax.literals.read import parse_literal
    >>> literal_to_bytes(parse_literal("s32[2]{0} {1, 300}"))
    b'\\x01\\xac\\x02'
    """
    import numpy as np

    shape, stored = literal.shape, literal.stored()
    if sorted(shape.layout.minor_to_major) != list(range(stored.ndim)):
        problem = shape.layout.problem(shape.dimensions)
        raise HloError(f"a literal of {shape} cannot be written as bytes: {problem}", hint="correct the layout")
    physical = np.ascontiguousarray(stored.transpose(shape.layout.minor_to_major[::-1])).ravel()
    if shape.element_type.name in _VARINTS:
        return _write_varints(physical.astype(np.int64 if physical.dtype.kind == "i" else np.uint64).view(np.uint64))
    if shape.element_type.is_sub_byte and shape.element_type.kind == "signed":
        physical = physical.view(np.uint8) & np.uint8((1 << shape.element_type.bits) - 1)
    return physical.tobytes()


@dataclass(frozen=True, slots=True)
class PackedValues(StoredValues):
    """The values of an array literal as little-endian bytes, in the order of the layout."""

    data: bytes

    def stored(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as stored bits; a view of the bytes if they are in numpy's format."""
        import numpy as np

        element_type, order = shape.element_type, shape.layout.minor_to_major[::-1]
        values = np.frombuffer(self.data, storage_type(element_type))
        if element_type.is_sub_byte:
            unused = values.dtype.type(8 - element_type.bits)
            values = (values << unused) >> unused
        return in_shape(values, [shape.dimensions[d] for d in order]).transpose(np.argsort(order))


def _read_varints(data: bytes, element_type: PrimitiveType) -> bytes:
    """All packed varints, as the bytes of their numbers."""
    import numpy as np

    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    lengths = ends - starts + 1
    if len(octets) and (octets[-1] >= 0x80 or lengths.max() > 10):
        raise HloError(f"invalid varint in {element_type} literal")
    numbers = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max(initial=0))):
        longer = lengths > place
        septets = (octets[starts[longer] + place] & 0x7F).astype(np.uint64)
        numbers[longer] |= septets << np.uint64(7 * place)
    return numbers.astype(storage_type(element_type)).tobytes()


def _write_varints(numbers: npt.NDArray[np.uint64]) -> bytes:
    import numpy as np

    longest = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    places = 7 * np.arange(longest, dtype=np.uint64)
    septets = numbers[:, None] >> places
    further = septets[:, 1:] > 0
    octets = (septets & np.uint64(0x7F)).astype(np.uint8)
    octets[:, :-1] |= further.astype(np.uint8) << np.uint8(7)
    kept = np.ones(octets.shape, bool)
    kept[:, 1:] = further
    return octets[kept].tobytes()
