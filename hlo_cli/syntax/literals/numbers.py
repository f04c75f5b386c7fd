"""Array literals to numbers: at once for text in the form that XLA prints, else token by token.

Mirrors `ParseDenseLiteral` and `SetValueInLiteral` of xla/hlo/parser/hlo_parser.cc. The fast path compares the text's
brackets and commas with those of the shape, and lets C read the numbers between them. Any other text is left to the
exact reader, which accepts all that XLA allows and reports the span of errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.literals.floats import encode
from hlo_cli.syntax.literals.grammar import LARGEST_FLOAT, LIMITS, DenseReader, integer_range
from hlo_cli.syntax.scanning.tokens import END, Tokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_COMMENT: Final = re.compile(rb"/\*(?:[^*]++|\*(?!/))*+\*/")
_BLANK: Final = b" \t\n\r"
_NUMBER_BYTES: Final = {
    "pred": b"0123456789-",
    "signed": b"0123456789-",
    "unsigned": b"0123456789-",
    "float": b"0123456789-+.eEinfa",
    "complex": b"0123456789-+.eEinfa",
}
_SPACES: Final = bytes.maketrans(b"{}()", b"    ")
_ONE_BYTE: Final = {kind: bytes.maketrans(used, b"0" * len(used)) for kind, used in _NUMBER_BYTES.items()}
_ONE_DIGIT: Final = bytes.maketrans(b"0123456789-", b"00000000000")
_STRAY: Final = (b"0{", b"0(", b"}0", b")0")
"""A number on the wrong side of a bracket."""
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9.])[0-9]{19,}+(?![0-9.eE])")
"""Maybe an integer of more than 63 bits, which XLA reads as a negative number, even for floats."""


def storage_type(element_type: PrimitiveType) -> np.dtype[np.generic]:
    """The numpy type for the bits of an element: codes for floats that numpy lacks.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> storage_type(PRIMITIVE_TYPES["bf16"]), storage_type(PRIMITIVE_TYPES["s4"])
    (dtype('uint16'), dtype('int8'))
    """
    import numpy as np

    letter = {"pred": "b", "signed": "i", "unsigned": "u", "float": "f", "complex": "c"}[element_type.kind]
    if letter == "f" and (element_type.byte_width == 1 or element_type.name == "bf16"):
        letter = "u"
    return np.dtype("?" if letter == "b" else f"<{letter}{element_type.byte_width}")


def read_array(source: Source, start: int, end: int, shape: ArrayShape) -> npt.NDArray[np.generic]:
    """The elements between two offsets, as stored bits in logical order.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> read_array(Source("", "{1.5, -inf}"), 0, 11, parse_shape("bf16[2]")).tolist()
    [16320, 65408]
    """
    import numpy as np

    values = _read_printed(source.text[start:end], shape)
    if values is not None:
        return in_shape(_stored(values, shape.element_type), shape.dimensions, source, Span(start, end))
    tokens = Tokens(source, start, end)
    reader = DenseReader(tokens, shape)
    reader.read()
    tokens.expect(END, "after the literal")
    stored = _stored(np.array(reader.values, _reading_type(shape.element_type)), shape.element_type)
    if reader.payloads:
        _set_payloads(stored, shape.element_type.name, reader.payloads)
    if len(reader.values) == 1 and 1 < shape.elements <= _MAX_FILLED:  # XLA sets the first, and the others are 0
        stored = np.concatenate((stored, np.zeros(shape.elements - 1, stored.dtype)))
    return in_shape(stored, shape.dimensions, source, Span(start, end))


_MAX_FILLED: Final = 1 << 28
"""The most elements that may be written as one; more are taken for a mistake."""


def in_shape(
    elements: npt.NDArray[np.generic], sizes: Sequence[int], source: Source | None = None, span: Span | None = None
) -> npt.NDArray[np.generic]:
    """Elements as an array of these sizes; HloError if numpy has no such array, such as one of a hundred dimensions.

    >>> import numpy as np
    >>> in_shape(np.arange(4), (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    try:
        return elements.reshape(sizes)
    except (ValueError, OverflowError) as error:
        raise HloError(f"the values do not fit in an array: {error}", span, source=source) from error


def _reading_type(element_type: PrimitiveType) -> type[np.generic]:
    """The type that can hold any element of a kind during parsing."""
    import numpy as np

    if element_type.name == "u64":
        return np.uint64
    return {"float": np.float64, "complex": np.complex128}.get(element_type.kind, np.int64)


def _stored(values: npt.NDArray[np.generic], element_type: PrimitiveType) -> npt.NDArray[np.generic]:
    """Numbers within the range of a type, as stored. As in XLA, 16 bits are rounded by way of 32."""
    import numpy as np

    name, storage = element_type.name, storage_type(element_type)
    if element_type.kind == "float" and storage.kind == "u":
        return encode(name, values.astype(np.float64, copy=False))
    with np.errstate(under="ignore", over="ignore"):
        return (values.astype(np.float32) if name == "f16" else values).astype(storage)


def _set_payloads(stored: npt.NDArray[np.generic], name: str, payloads: dict[int, int]) -> None:
    import numpy as np

    form = FLOAT_FORMATS[name]
    codes = stored.view(np.dtype(f"<u{form.bits // 8}"))
    for index, payload in payloads.items():
        codes[index] = int(codes[index]) & form.sign | form.nan(payload)


def _read_printed(text: str, shape: ArrayShape) -> npt.NDArray[np.generic] | None:
    """The numbers of a literal in the form that XLA prints; None for other forms, and for numbers out of range."""
    kind = shape.element_type.kind
    data = text.encode("ascii", "replace")
    if b"/" in data:
        data = _COMMENT.sub(b" ", data)
    if kind == "pred":
        data = data.replace(b"true", b" 1 ").replace(b"false", b" 0 ")
    compact = data.translate(None, _BLANK)
    if not _has_brackets_of(compact.translate(None, _NUMBER_BYTES[kind]), shape):
        return None
    like_zeros = compact.translate(_ONE_BYTE[kind])
    if any(stray in like_zeros for stray in _STRAY):
        return None
    count = prod(shape.dimensions) * (2 if kind == "complex" else 1)
    if count == 0:
        return None
    parts = data.translate(_SPACES).split(b",")
    assert len(parts) == count, "the shape's brackets have as many commas"
    if kind in ("float", "complex"):
        if not _holds_floats(compact):
            return None
        return _floats(parts, shape.element_type, data.count(b"inf"))
    return _integers(parts, shape.element_type)


def _has_brackets_of(brackets: bytes, shape: ArrayShape) -> bool:
    """Whether brackets and commas match the shape; lengths are compared first, as a shape may have any size."""
    wanted = b"(,)" if shape.element_type.kind == "complex" else b""
    length = len(wanted)
    for size in reversed(shape.dimensions):
        length = 2 + size * length + max(size - 1, 0)
        if not 0 < length <= len(brackets):
            return False
    for size in reversed(shape.dimensions):
        wanted = b"{" + b",".join([wanted] * size) + b"}"
    return brackets == wanted


def _integers(parts: list[bytes], element_type: PrimitiveType) -> npt.NDArray[np.generic] | None:
    import numpy as np

    try:
        numbers = list(map(int, parts))
    except ValueError:
        return None
    low, high = integer_range(PRIMITIVE_TYPES["s64"] if element_type.kind == "pred" else element_type)
    if min(numbers) < low or max(numbers) > high:
        return None
    return np.array(numbers, _reading_type(element_type))


def _holds_floats(text: bytes) -> bool:
    """Whether all numbers that Python accepts in a text are the same for XLA: not `.5`, `+5`, or 2^63."""
    digits = text.translate(_ONE_DIGIT)
    return (
        digits.count(b".") == digits.count(b"0.")
        and digits.count(b"+") == digits.count(b"e+") + digits.count(b"E+")
        and (b"0" * 19 not in digits or _LONG_INTEGER.search(text) is None)
    )


def _floats(parts: list[bytes], element_type: PrimitiveType, infinities: int) -> npt.NDArray[np.generic] | None:
    import numpy as np

    try:
        values = np.fromiter(map(float, parts), np.float64, len(parts))
    except ValueError:
        return None
    is_complex = element_type.kind == "complex"
    limit = {"c64": LARGEST_FLOAT, "c128": np.inf}.get(element_type.name) if is_complex else LIMITS[element_type.name]
    over = np.count_nonzero(np.abs(values) >= limit)
    if over != infinities or (element_type.name == "f8e8m0fnu" and not (values > 0).all()):
        return None
    return values.view(np.complex128) if is_complex else values
