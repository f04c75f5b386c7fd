"""Literals in a text: their spans, and their values on demand.

Mirrors `ParseLiteral` of xla/hlo/parser/hlo_parser.cc. Versions of XLA before 2019 repeated the shape before an array,
such as `constant(f32[2,1] { {1}, {2} })`; it is skipped.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import ArrayLiteral, Literal, LiteralValues, TupleLiteral
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hlo_cli.syntax.literals.grammar import LiteralText
    from hlo_cli.syntax.scanning.tokens import Tokens

_SHAPE_AGAIN: Final = lazy_regex(r"[ \t\n\r]*+[a-z][a-z0-9]*+\[[0-9,]*+\][ \t\n\r]++(?=\{)")


class StoredValues(LiteralValues):
    """Values derived from stored bits, from any source."""

    def array(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as numbers."""
        from hlo_cli.syntax.literals.floats import decode

        stored, element_type = self.stored(shape), shape.element_type
        is_code = element_type.kind == "float" and stored.dtype.kind == "u"
        return decode(element_type.name, stored) if is_code else stored

    def to_string(self, shape: ArrayShape) -> str:
        """The text that XLA prints for the values."""
        from hlo_cli.syntax.literals.printing import array_text

        return array_text(self.stored(shape), shape)


@dataclass(frozen=True, slots=True)
class WrittenValues(StoredValues):
    """The values of an array literal, as the text from `start` on in a source."""

    text: str
    source: Source = field(compare=False, repr=False)
    start: int = field(compare=False)

    def stored(self, shape: ArrayShape) -> npt.NDArray[np.generic]:
        """The values as stored bits, read again each time."""
        from hlo_cli.syntax.literals.numbers import read_array

        return read_array(self.source, self.start, self.start + len(self.text), shape)


def parse_literal(text: str) -> Literal:
    """A literal with its shape before it, such as `s32[2]{0} {1, 2}` in `literal=`; all text must be read.

    >>> parse_literal("f8e4m3fn[2]{0} {448, nan}").array().tolist()
    [448.0, nan]
    >>> parse_literal("u8[] 256")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:6: error: 256 is out of range for u8 (0 to 255)
    """
    from hlo_cli.syntax.scanning.tokens import END, Tokens

    tokens = Tokens(Source("", text))
    literal = read_shaped_literal(tokens)
    tokens.expect(END, "after the literal")
    return literal


def read_shaped_literal(tokens: Tokens) -> Literal:
    """A literal with its shape before it; text may follow."""
    from hlo_cli.syntax.literals.grammar import read_literal

    return _literal_of(tokens.source, read_literal(tokens))


def literal_at(source: Source, span: Span, shape: Shape) -> Literal:
    """The literal of a shape at a span; the values of an array are not read yet.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> literal_at(Source("", "{...}"), Span(0, 5), parse_shape("f32[1000]")).is_elided
    True
    """
    if isinstance(shape, ArrayShape) and UNBOUNDED not in shape.dimensions:
        return _array_literal(source, span, shape)
    if isinstance(shape, TupleShape):
        return _elided(shape, source, span) if source.slice(span).strip() == "{...}" else _read(source, span, shape)
    raise _no_literal(shape, source, span)


def _read(source: Source, span: Span, shape: Shape) -> Literal:
    """A literal whose parts must be located first, which requires reading all of it."""
    from hlo_cli.syntax.literals.grammar import read_literal
    from hlo_cli.syntax.scanning.tokens import END, Tokens

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
