"""Which literal a `dense` of MLIR is: one value, nested lists, or the bytes of all.

Mirrors `DenseElementsAttr` of mlir/lib/AsmParser/AttributeParser.cpp.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.layout import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NUMBERS: Final = re.compile(r"[+-]?+(?:0x[0-9A-Fa-f]++|[0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?+[0-9]++)?+)|true|false")
_HEX: Final = re.compile(r'\s*+"0x([0-9A-Fa-f]*+)"\s*+')
_LITERAL: Final = re.compile(
    r"[\s\[\](),]*+(?:(?:[+-]?+[0-9][\w.]*+(?:(?<=[eE])[+-][0-9]++)?+|true|false)[\s\[\](),]*+)*+"
)


def is_splat(body: str) -> bool:
    """Whether the text between the brackets of a `dense` is one value for all elements.

    >>> is_splat("1.0"), is_splat("[1.0]"), is_splat("(1.0, 2.0)")
    (True, False, True)
    """
    return "[" not in body and '"' not in body and bool(body.strip())


def literal_of(body: str, shape: Shape) -> str:
    """The text of a literal, as XLA prints it, for the text between the brackets of a `dense`.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> literal_of("[[1.5, 0xFF800000]]", parse_shape("f32[1,2]")), literal_of("true", parse_shape("pred[]"))
    ('{ { 1.5, -inf } }', 'true')
    """
    if isinstance(shape, ArrayShape) and not shape.rank and (text := _scalar(body.strip(), shape.element_type)):
        return text
    from hlo_cli.syntax.literal_printing import array_text

    if not isinstance(shape, ArrayShape):
        raise HloError(f"a value of shape {shape} cannot be a constant")
    return array_text(stored_values(body, shape), shape)


@lru_cache(maxsize=4096)
def _scalar(body: str, element: PrimitiveType) -> str | None:
    """The text of one number, without numpy, which takes longer to load than most programs to read; None for others."""
    if element.kind == "pred":
        return body if body in ("true", "false") else None
    if element.kind in ("signed", "unsigned"):
        number = _integer(body)
        return None if number is None or not _fits(number, element) else str(number)
    if element.name not in ("f32", "f64") or not NUMBERS.fullmatch(body):
        return None
    form, digits, enough = ("<f", 6, 9) if element.name == "f32" else ("<d", 15, 17)
    try:
        packed = bytes.fromhex(body[2:])[::-1] if body.startswith("0x") else struct.pack(form, float(body))
        value: float = struct.unpack(form, packed)[0]
    except (ValueError, OverflowError, struct.error):
        return None
    if value != value:
        return "nan" if packed in (b"\0\0\xc0\x7f", b"\0\0\0\0\0\0\xf8\x7f") else None
    short = f"{value:.{digits}g}"
    return short if float(short) == value or struct.pack(form, float(short)) == packed else f"{value:.{enough}g}"


def _fits(number: int, element: PrimitiveType) -> bool:
    least = -(1 << element.bits - 1) if element.kind == "signed" else 0
    return least <= number < least + (1 << element.bits)


def stored_values(body: str, shape: Shape) -> npt.NDArray[np.generic]:
    """The elements of a `dense`, as the bits that XLA stores, in the sizes of the shape.

    HloError if the values are not as many as the shape has elements, or no values of its type.
    """
    import numpy as np

    if not isinstance(shape, ArrayShape) or shape.elements > _MAX_ELEMENTS:
        raise HloError(f"a constant of shape {shape} is too large to read")
    if (match := _HEX.fullmatch(body)) is not None:
        if len(match[1]) % 2:
            raise HloError("the constant has half a byte")
        values = _from_bytes(bytes.fromhex(match[1]), shape)
    else:
        if not _LITERAL.fullmatch(body):
            raise HloError("the values of a constant are malformed")
        values = _from_tokens(NUMBERS.findall(body), shape.element_type)
    if values.size == 1 and ((shape.elements != 1 and is_splat(body)) or '"' in body):
        return np.full(shape.sizes, values.ravel()[0], values.dtype)
    if values.size != shape.elements:
        raise HloError(
            f"the constant has {values.size:,} values, but its shape {shape} has {shape.elements:,} elements"
        )
    return values.reshape(shape.sizes)


_MAX_ELEMENTS: Final = 1 << 30
"""Elements of a constant that are read: of a splat, more than memory has."""


def _from_bytes(data: bytes, shape: ArrayShape) -> npt.NDArray[np.generic]:
    """The elements in little-endian bytes; truth values may be packed, eight in a byte."""
    import numpy as np

    element = shape.element_type
    width = element.byte_width
    if element.kind == "pred":
        octets = np.frombuffer(data, np.uint8)
        if len(data) == 1 != shape.elements:  # a splat: all bits are equal
            return np.array([octets[0] != 0])
        packed = len(data) == -(-shape.elements // 8) != shape.elements
        return (np.unpackbits(octets, bitorder="little")[: shape.elements] if packed else octets).astype(np.bool_)
    if len(data) % width:
        raise HloError(f"the constant has {len(data):,} bytes, not a multiple of {width}")
    values = np.frombuffer(data, _storage(element))
    if element.is_sub_byte:
        unused = values.dtype.type(8 - element.bits)
        values = (values << unused) >> unused
    return np.asarray(values)


def _storage(element: PrimitiveType) -> str:
    """numpy's name of the type that holds the bits of an element, as in `syntax/literal_reading.py`."""
    letter = {"pred": "b", "signed": "i", "unsigned": "u", "float": "f", "complex": "c"}[element.kind]
    if letter == "f" and (element.byte_width == 1 or element.name == "bf16"):
        letter = "u"
    return f"<{letter}{element.byte_width}"


def _from_tokens(tokens: Sequence[str], element: PrimitiveType) -> npt.NDArray[np.generic]:
    import numpy as np

    if element.kind in ("pred", "signed", "unsigned"):
        numbers = [int(token == "true") if token[0] in "tf" else _integer(token) for token in tokens]
        if not all(number is not None and _fits(number, element) for number in numbers):
            raise HloError(f"a value of the constant is not a value of {element.name}")
        return np.array(numbers, np.bool_ if element.kind == "pred" else _storage(element))
    bits: dict[int, int] = {}
    values = list(_floats(tokens, bits))
    if element.kind == "complex":
        part = "f32" if element.name == "c64" else "f64"
        return _rounded(values, PRIMITIVE_TYPES[part], bits).view(_storage(element))
    return _rounded(values, element, bits)


def _floats(tokens: Iterable[str], bits: dict[int, int]) -> Iterator[float]:
    """The numbers, 0 for those written as bits, which are collected."""
    for index, token in enumerate(tokens):
        if token[0] in "tf":
            raise HloError("a value of the constant is not a number")
        if "x" in token:
            bits[index] = _integer(token) or 0
            yield 0.0
        else:
            yield float(token)


def _rounded(values: Sequence[float], element: PrimitiveType, bits: Mapping[int, int]) -> npt.NDArray[np.generic]:
    """Numbers as stored in a type; those given as bits are set at last."""
    import numpy as np

    from hlo_cli.syntax.literal_printing import encode

    storage = np.dtype(_storage(element))
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.array(values, np.float64)
        stored = encode(element.name, numbers) if storage.kind == "u" else numbers.astype(storage)
    stored = np.ascontiguousarray(stored)
    codes = stored.view(f"<u{storage.itemsize}")
    for index, code in bits.items():
        if code.bit_length() > 8 * storage.itemsize or code < 0:
            raise HloError(f"a value of the constant is not a value of {element.name}")
        codes[index] = code
    return stored


_LONGEST_INTEGER: Final = 40  # digits: more than any type holds; Python takes quadratic time for millions


def _integer(text: str) -> int | None:
    """The integer in a text, decimal or hexadecimal; None if there is none."""
    if len(text) > _LONGEST_INTEGER or "." in text:
        return None
    try:
        return int(text, 0) if "x" in text else int(text)
    except ValueError:
        return None
