"""What values a constant has: its extent in a text, its grammar, its numbers, and its bytes in a proto.

numpy is imported when values are asked for. Mirrors the literals of xla/hlo/parser/hlo_parser.cc and xla/literal.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import ArrayLiteral, Literal, LiteralValues, TupleLiteral
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, counted
from hlo_cli.syntax.literal_printing import array_text, decode, encode
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.shape_reader import MAX_NESTING
from hlo_cli.syntax.scanning.tokens import END, LARGEST_FLOAT, PAYLOAD, Tokens, layout_problem, read_number, take_shape

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# --- the grammar of literals ---
# Literals: nesting, counts, ranges, and payloads exactly as XLA reads them.
#
# Mirrors `ParseDenseLiteral`, `ParseTupleLiteral` and `SetValueInLiteral` of xla/hlo/parser/hlo_parser.cc. XLA skips
# commas anywhere, and checks the depth of an element by counting elements when a brace closes.


_SATURATES: Final = float("inf")
LIMITS: Final = {
    "f4e2m1fn": _SATURATES,
    "f6e2m3fn": _SATURATES,
    "f6e3m2fn": _SATURATES,
    "f8e3m4": 15.75,  # half a step above the largest: what rounds to infinity is out of range, as in XLA's parser
    "f8e4m3": 248.0,
    "f8e4m3b11fnuz": 31.0,
    "f8e4m3fn": 464.0,
    "f8e4m3fnuz": 248.0,
    "f8e5m2": 61440.0,
    "f8e5m2fnuz": 61440.0,
    "f8e8m0fnu": 2.0**127 * 1.5,
    "f16": 65520.0,
    "bf16": float.fromhex("0x1.ffp127"),
    "f32": float.fromhex("0x1.ffffffp127"),
    "f64": _SATURATES,
}
"""The smallest magnitude that rounds to more than the type's largest value; infinity if there is none."""
_TIES_DOWN: Final = "f8e4m3fn"
"""The type whose largest value is even, so that a value halfway to the next rounds down to it."""


@dataclass(frozen=True, slots=True)
class LiteralText:
    """The span of a literal in the text, and its shape; the elements of a tuple are literals too."""

    shape: Shape
    span: Span
    elements: tuple[LiteralText, ...] = ()


def read_literal(tokens: Tokens, shape: Shape | None = None, depth: int = 0) -> LiteralText:
    """A literal of the given shape, or of the shape written before it.

    >>> from hlo_cli.source import Source
    >>> read_literal(Tokens(Source("", "(s4[] 7, pred[2]{0} {1, 0})"))).elements[1].span
    Span(start=20, end=26)
    """
    if depth > MAX_NESTING:
        tokens.fail(f"tuples are nested too deeply (limit {MAX_NESTING})", tokens.start, tokens.end)
    if shape is None:
        if tokens.kind == "(":
            return _read_shaped_elements(tokens, depth)
        shape = take_shape(tokens)
    if isinstance(shape, TupleShape):
        return _read_tuple(tokens, shape, depth)
    if not isinstance(shape, ArrayShape):
        tokens.fail(f"shape {shape} cannot have a literal", tokens.start, tokens.end)
    if (problem := layout_problem(shape)) is not None:
        tokens.fail(f"invalid layout of {shape}: {problem}", tokens.start, tokens.end)
    start = tokens.start
    DenseReader(tokens, shape).read()
    return LiteralText(shape, Span(start, tokens.previous_end))


def _read_shaped_elements(tokens: Tokens, depth: int) -> LiteralText:
    start, elements = tokens.start, []
    tokens.expect("(", "before the elements of the tuple")
    while tokens.kind != ")":
        elements.append(read_literal(tokens, depth=depth + 1))
        tokens.accept(",")
    tokens.advance()
    shape = TupleShape(tuple(element.shape for element in elements))
    return LiteralText(shape, Span(start, tokens.previous_end), tuple(elements))


def _read_tuple(tokens: Tokens, shape: TupleShape, depth: int) -> LiteralText:
    start, elements = tokens.start, []
    tokens.expect("(", "before the elements of the tuple")
    if tokens.kind != ")":
        for position, element in enumerate(shape.elements):
            if position:
                tokens.accept(",")
            elements.append(read_literal(tokens, element, depth + 1))
    tokens.expect(")", f"after the {len(shape.elements)} elements of the tuple")
    return LiteralText(shape, Span(start, tokens.previous_end), tuple(elements))


class DenseReader:
    """Reads one array literal; its state is XLA's: the depth, and the number of elements seen in each dimension.

    `values` are the elements in logical order; `payloads` are those of the NaNs that carry one, by position.
    """

    def __init__(self, tokens: Tokens, shape: ArrayShape) -> None:
        self.values: list[complex] = []
        self.payloads: dict[int, int] = {}
        self.tokens = tokens
        self.dimensions = shape.dimensions
        self.type = shape.element_type
        self.count = prod(shape.dimensions)
        self.level = self.index = 0
        self.seen = [0] * len(shape.dimensions)

    def read(self) -> None:
        """Moves over the literal, and records its elements."""
        while True:
            self._take()
            if self.level == 0:
                return

    def _take(self) -> None:
        tokens = self.tokens
        match tokens.kind:
            case "{":
                self._open()
            case "}":
                self._close()
            case "...":
                if self.level != 1:
                    tokens.fail("... is allowed only in the outermost braces", tokens.start, tokens.end)
                self.seen[0] = self.dimensions[0]
                tokens.advance()
            case ",":
                tokens.advance()
            case "(":
                self._add()
                self.values.append(self._read_complex())
            case "true" | "false" | tk.INT | tk.DECIMAL | "inf":
                self._add()
                self.values.append(self._read_scalar())
            case _:
                tokens.fail("expected a literal element")

    def _open(self) -> None:
        tokens, rank = self.tokens, len(self.dimensions)
        self.level += 1
        if self.level > rank:
            tokens.fail(
                f"too many nested braces: the shape has {counted(rank, 'dimensions')}",
                tokens.start,
                tokens.end,
            )
        if self.level > 1:
            self._count(self.level - 2)
        tokens.advance()

    def _close(self) -> None:
        tokens = self.tokens
        if self.level == 0:
            tokens.fail("unmatched '}'", tokens.start, tokens.end)
        self.level -= 1
        size, seen = self.dimensions[self.level], self.seen[self.level]
        if seen != size:
            if seen == 0 and self.index and self.level + 1 < len(self.dimensions):
                rank = len(self.dimensions)
                tokens.fail(
                    f"expected {rank} nested braces around each element, one per dimension", tokens.start, tokens.end
                )
            tokens.fail(
                f"expected {counted(size, 'elements')} in dimension {self.level}, found {seen}",
                tokens.start,
                tokens.end,
            )
        self.seen[self.level] = 0
        tokens.advance()

    def _count(self, dimension: int) -> None:
        self.seen[dimension] += 1
        if self.seen[dimension] > self.dimensions[dimension]:
            message = f"too many elements in dimension {dimension} (expected {self.dimensions[dimension]})"
            self.tokens.fail(message, self.tokens.start, self.tokens.end)

    def _add(self) -> None:
        """Counts an element; as in XLA, only at the depth of the shape's rank."""
        tokens = self.tokens
        if self.dimensions and self.level == len(self.dimensions):
            self._count(self.level - 1)
        if self.index >= self.count:
            tokens.fail(f"too many elements (the shape has {self.count})", tokens.start, tokens.end)
        self.index += 1

    def _read_scalar(self) -> float:
        tokens, kind = self.tokens, self.type.kind
        if tokens.kind in ("true", "false"):
            if kind != "pred":
                tokens.fail(f"'{tokens.text}' is not a value of type {self.type}", tokens.start, tokens.end)
            value = tokens.kind == "true"
            tokens.advance()
            return value
        if kind == "complex":
            tokens.fail("expected a complex number, such as (1, 2)", tokens.start, tokens.end)
        if kind != "float":
            return _read_integer(tokens, self.type)
        if (payload := PAYLOAD.search(tokens.text)) is not None:
            self.payloads[self.index - 1] = int(payload[1], 16)
        return _read_float(tokens, self.type)

    def _read_complex(self) -> complex:
        tokens = self.tokens
        if self.type.kind != "complex":
            tokens.fail("parentheses are allowed only around complex numbers", tokens.start, tokens.end)
        part = PRIMITIVE_TYPES["f32" if self.type.bits == 64 else "f64"]
        tokens.expect("(", "before a complex number")
        real = _read_float(tokens, part, rounds=False)
        tokens.expect(",", "after the real part")
        imaginary = _read_float(tokens, part, rounds=False)
        tokens.expect(")", "after the imaginary part")
        return complex(real, imaginary)


def _read_integer(tokens: Tokens, element_type: PrimitiveType) -> int:
    start, end = tokens.start, tokens.end
    value = tokens.integer(f"as {element_type}")
    if element_type.kind == "pred":
        return bool(value)
    low, high = _integer_range(element_type)
    if element_type.kind == "unsigned":
        value %= 2**64  # the lexer has wrapped it to int64
    if not low <= value <= high:
        tokens.fail(f"{tokens.source.text[start:end]} is out of range for {element_type} ({low} to {high})", start, end)
    return value


def _integer_range(element_type: PrimitiveType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type.

    >>> _integer_range(PRIMITIVE_TYPES["s4"])
    (-8, 7)
    """
    if element_type.kind == "unsigned":
        return 0, 2**element_type.bits - 1
    return -(2 ** (element_type.bits - 1)), 2 ** (element_type.bits - 1) - 1


def _read_float(tokens: Tokens, element_type: PrimitiveType, *, rounds: bool = True) -> float:
    start, end, text = tokens.start, tokens.end, tokens.text
    magnitude = abs(value := read_number(tokens))
    name, limit = element_type.name, LIMITS[element_type.name]
    if value != value:
        if (payload := PAYLOAD.search(text)) and int(payload[1], 16) >= 2 ** FLOAT_FORMATS[name].payload_bits:
            tokens.fail(f"NaN payload {payload[0]} does not fit {name}", start, end)
        return value
    if not rounds and limit != _SATURATES:
        limit = LARGEST_FLOAT
    over = magnitude > limit or (magnitude == limit and rounds and name != _TIES_DOWN)
    too_small = name == "f8e8m0fnu" and value <= 0
    if magnitude != float("inf") and (over or too_small):
        tokens.fail(f"{text} is out of range for {name}", start, end)
    return -0.0 if text == "-0" else value  # XLA prints negative zero so, but reads it as zero


# --- text to numbers ---
# Array literals to numbers: at once for text in the form that XLA prints, else token by token.
#
# Mirrors `ParseDenseLiteral` and `SetValueInLiteral` of xla/hlo/parser/hlo_parser.cc. The fast path compares the text's
# brackets and commas with those of the shape, and lets C read the numbers between them. Any other text is left to the
# exact reader, which accepts all that XLA allows and reports the span of errors.


_COMMENT: Final = re.compile(rb"/\*(?:[^*]++|\*(?!/))*+\*/")
_BLANK: Final = b" \t\n\r"
_NUMBER_BYTES: Final = {
    "pred": b"0123456789-",
    "signed": b"0123456789-",
    "unsigned": b"0123456789-",
    "float": b"0123456789-+.eEinfa",
    "complex": b"0123456789-+.eEinfa",
}
# numbers are between commas then, and Python's int and float ignore the space around them
_SPACES: Final = bytes.maketrans(b"{}()", b"    ")
_ONE_BYTE: Final = {kind: bytes.maketrans(used, b"0" * len(used)) for kind, used in _NUMBER_BYTES.items()}
_ONE_DIGIT: Final = bytes.maketrans(b"0123456789-", b"00000000000")
_STRAY: Final = (b"0{", b"0(", b"}0", b")0")  # a number next to a brace without a comma, after all digits became 0
"""A number on the wrong side of a bracket."""
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9.])[0-9]{19,}+(?![0-9.eE])")
"""Maybe an integer of more than 63 bits, which XLA reads as a negative number, even for floats."""


def _storage_type(element_type: PrimitiveType) -> np.dtype[np.generic]:
    """The numpy type for the bits of an element: codes for floats that numpy lacks.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> _storage_type(PRIMITIVE_TYPES["bf16"]), _storage_type(PRIMITIVE_TYPES["s4"])
    (dtype('uint16'), dtype('int8'))
    """
    import numpy as np

    letter = {"pred": "b", "signed": "i", "unsigned": "u", "float": "f", "complex": "c"}[element_type.kind]
    # numpy has no floats of 8 bits and no bf16
    if letter == "f" and (element_type.byte_width == 1 or element_type.name == "bf16"):
        letter = "u"
    return np.dtype("?" if letter == "b" else f"<{letter}{element_type.byte_width}")


def _read_array(source: Source, start: int, end: int, shape: ArrayShape) -> npt.NDArray[np.generic]:
    """The elements between two offsets, as stored bits in logical order.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _read_array(Source("", "{1.5, -inf}"), 0, 11, parse_shape("bf16[2]")).tolist()
    [16320, 65408]
    """
    import numpy as np

    values = _read_printed(source.text[start:end], shape)
    if values is not None:
        return _in_shape(_stored(values, shape.element_type), shape.dimensions, source, Span(start, end))
    tokens = Tokens(source, start, end)
    reader = DenseReader(tokens, shape)
    reader.read()
    tokens.expect(END, "after the literal")
    stored = _stored(np.array(reader.values, _reading_type(shape.element_type)), shape.element_type)
    if reader.payloads:
        _set_payloads(stored, shape.element_type.name, reader.payloads)
    if len(reader.values) == 1 and 1 < shape.elements <= _MAX_FILLED:  # XLA sets the first, and the others are 0
        stored = np.concatenate((stored, np.zeros(shape.elements - 1, stored.dtype)))
    return _in_shape(stored, shape.dimensions, source, Span(start, end))


_MAX_FILLED: Final = 1 << 28
"""The most elements that may be written as one; more are taken for a mistake."""


def _in_shape(
    elements: npt.NDArray[np.generic], sizes: Sequence[int], source: Source | None = None, span: Span | None = None
) -> npt.NDArray[np.generic]:
    """Elements as an array of these sizes; HloError if numpy has no such array, such as one of a hundred dimensions.

    >>> import numpy as np
    >>> _in_shape(np.arange(4), (2, 2)).tolist()
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

    name, storage = element_type.name, _storage_type(element_type)
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
    if b"/" in data:  # index marks `/*i0=0*/`, which XLA prints before the rows of large arrays
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
    if count == 0:  # `{{},{}}` has no numbers, but a split has one empty part
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
    signs = b"(,)" if shape.element_type.kind == "complex" else b""
    length = len(signs)
    for size in reversed(shape.dimensions):
        length = 2 + size * length + max(size - 1, 0)
        if not 0 < length <= len(brackets):
            return False
    for size in reversed(shape.dimensions):
        signs = b"{" + b",".join([signs] * size) + b"}"
    return brackets == signs


def _integers(parts: list[bytes], element_type: PrimitiveType) -> npt.NDArray[np.generic] | None:
    import numpy as np

    try:
        numbers = list(map(int, parts))
    except ValueError:
        return None
    low, high = _integer_range(PRIMITIVE_TYPES["s64"] if element_type.kind == "pred" else element_type)
    if min(numbers) < low or max(numbers) > high:
        return None
    return np.array(numbers, _reading_type(element_type))


def _holds_floats(text: bytes) -> bool:
    """Whether all numbers that Python accepts in a text are the same for XLA: not `.5`, `+5`, or 2^63."""
    digits = text.translate(_ONE_DIGIT)
    return (
        digits.count(b".") == digits.count(b"0.")
        and digits.count(b"+") == digits.count(b"e+") + digits.count(b"E+")
        # 2^63 has 19 digits: only longer integers may not fit, and need a look
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
    # compared with the infinities that are written: more of them came from numbers out of range
    over = np.count_nonzero(np.abs(values) >= limit)
    if over != infinities or (element_type.name == "f8e8m0fnu" and not (values > 0).all()):
        return None
    return values.view(np.complex128) if is_complex else values


# --- literals on demand ---
# Literals in a text: their spans, and their values on demand.
#
# Mirrors `ParseLiteral` of xla/hlo/parser/hlo_parser.cc. Versions of XLA before 2019 repeated the shape before an
# array, such as `constant(f32[2,1] { {1}, {2} })`; it is skipped.


_SHAPE_AGAIN: Final = lazy_regex(r"[ \t\n\r]*+[a-z][a-z0-9]*+\[[0-9,]*+\][ \t\n\r]++(?=\{)")


class StoredValues(LiteralValues):
    """Values derived from stored bits, from any source."""

    def array(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as numbers."""

        stored, element_type = self.stored(shape), shape.element_type
        is_code = element_type.kind == "float" and stored.dtype.kind == "u"
        return decode(element_type.name, stored) if is_code else stored

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints for the values."""

        return array_text(self.stored(shape), shape)


@dataclass(frozen=True, slots=True)
class WrittenValues(StoredValues):
    """The values of an array literal, as the text from `start` on in a source."""

    text: str
    source: Source = field(compare=False, repr=False)
    start: int = field(compare=False)

    def stored(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as stored bits, read again each time."""

        return _read_array(self.source, self.start, self.start + len(self.text), shape)


def read_shaped_literal(tokens: Tokens) -> Literal:
    """A literal with its shape before it; text may follow."""

    return _literal_of(tokens.source, read_literal(tokens))


def literal_at(source: Source, span: Span, shape: Shape) -> Literal:
    """The literal of a shape at a span; the values of an array are not read yet.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> literal_at(Source("", "{...}"), Span(0, 5), parse_shape("f32[1000]")).is_elided
    True
    """
    if isinstance(shape, ArrayShape) and UNBOUNDED not in shape.dimensions:
        return _array_literal(source, span, shape)
    if isinstance(shape, TupleShape):
        is_elided = source.slice(span).strip() == "{...}"
        return _elided(shape, source, span) if is_elided else _read_literal(source, span, shape)
    raise _no_literal(shape, source, span)


def _read_literal(source: Source, span: Span, shape: Shape) -> Literal:
    """A literal whose parts must be located first, which requires reading all of it."""

    tokens = Tokens(source, span.start, span.end)
    read = read_literal(tokens, shape)
    tokens.expect(END, "after the literal")
    return _literal_of(source, read)


def _array_literal(source: Source, span: Span, shape: ArrayShape) -> ArrayLiteral:
    text = source.slice(span)
    if "..." in text:
        return ArrayLiteral(shape, None)
    again = _SHAPE_AGAIN.match(text)
    skipped = again.end() if again else 0
    return ArrayLiteral(shape, WrittenValues(text[skipped:], source, span.start + skipped))


def _literal_of(source: Source, read: LiteralText) -> Literal:
    """The literal for spans that have been read."""
    if isinstance(read.shape, TupleShape):
        return TupleLiteral(read.shape, tuple(_literal_of(source, element) for element in read.elements))
    assert isinstance(read.shape, ArrayShape)
    return _array_literal(source, read.span, read.shape)


def _elided(shape: Shape, source: Source, span: Span) -> Literal:
    if isinstance(shape, TupleShape):
        return TupleLiteral(shape, tuple(_elided(element, source, span) for element in shape.elements))
    if isinstance(shape, ArrayShape):
        return ArrayLiteral(shape, None)
    raise _no_literal(shape, source, span)


def _no_literal(shape: Shape, source: Source, span: Span) -> HloError:
    if isinstance(shape, UnknownShape):
        message = f"unknown element type in {shape}" if shape.text else "the shape is missing"
        return HloError(f"cannot read constant: {message}", span, source=source)
    return HloError(f"shape {shape} cannot have a literal", span, source=source)


# --- the bytes of protos ---
# Array literals to and from the bytes that a binary proto holds.
#
# Mirrors `LiteralBase::Piece::WriteToProto` and `CopyFromProto` of xla/literal.cc. A `LiteralProto` keeps its values in
# one field, selected by the element type, in the order of the layout; its tiles do not matter. An element takes whole
# bytes there; narrow integers use the low bits of a byte. These functions take and return the field in wire format,
# packed if it is repeated.


# in xla_data.proto, narrower integers are bytes, floats have fixed width, and a pred is a varint of one byte
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

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> literal_from_bytes(parse_shape("s4[2,2]{0,1}"), bytes([1, 15, 3, 4])).to_string()
    '{ { 1, 3 }, { -1, 4 } }'
    """
    name = shape.element_type.name
    if UNBOUNDED in shape.dimensions or len(shape.layout.minor_to_major) != shape.rank:
        raise HloError(f"shape {shape} cannot have a literal")
    if name in _VARINTS:
        data = _read_varints(data, shape.element_type)
    size = prod(shape.dimensions) * shape.element_type.byte_width
    if len(data) != size:
        raise HloError(f"a {shape} literal needs {counted(size, 'bytes')}, found {len(data)}")
    return ArrayLiteral(shape, PackedValues(data))


def literal_to_bytes(literal: ArrayLiteral) -> bytes:
    """The literal's field on the wire; HloError if its layout is invalid, so that the order of the bytes is unknown.

    >>> from hlo_cli import parse_module
    >>> literal_to_bytes(parse_module("c = s32[2] constant({1, 300})").entry.root.literal)
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
        values = np.frombuffer(self.data, _storage_type(element_type))
        if element_type.is_sub_byte:
            unused = values.dtype.type(8 - element_type.bits)
            values = (values << unused) >> unused
        return _in_shape(values, [shape.dimensions[d] for d in order]).transpose(np.argsort(order))


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
    return numbers.astype(_storage_type(element_type)).tobytes()


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
