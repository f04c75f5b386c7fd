"""Reader of shapes in text; small and hand-written, called once for each distinct text.

Mirrors `ParseShape` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout, default_layout
from hlo_cli.ir.notation import read_index
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
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, counted
from hlo_cli.syntax.scanning.layouts import INT64_MAX, follows_layout, listed, plain_layout, read_layout, read_size
from hlo_cli.syntax.scanning.scanner import Scanner

MAX_NESTING: Final = 100
"""The deepest nesting of tuples; XLA's own have few levels."""

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9]*+")
_LARGE_TYPE = re.compile(r"\b[A-Z][A-Z0-9]*+(?=\[)")
_PLAIN_TEXT: Final = r"[a-z][a-z0-9]*+\[[0-9,]*+\](?:\{[0-9:][^{}\n]*+\}|(?![ \t\n\r]*+[{/]))"
_PLAIN = re.compile(_PLAIN_TEXT)
_TUPLE_TOKEN = lazy_regex(rf"({_PLAIN_TEXT})|([()])")


def _tuple_text(element: str) -> str:
    """A tuple as XLA prints it, with index marks."""
    return rf"\((?:{element}(?:, (?:/\*index=[0-9]++\*/)?{element})*+)?+\)"


_PLAIN_NESTED: Final = _tuple_text(f"(?:{_PLAIN_TEXT}|{_tuple_text(_PLAIN_TEXT)})")
_PLAIN_TUPLE = lazy_regex(_tuple_text(f"(?:{_PLAIN_TEXT}|{_PLAIN_NESTED})"))


def parse_shape(text: str) -> Shape:
    """The shape of `text`; HloError with the span of the error.

    >>> shape = parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
    >>> shape.logical_bytes, shape.padded_bytes, str(shape.layout)
    (42000, 77824, '{1,0:T(8,128)(2,1)}')
    """
    scanner = Scanner(Source("", with_small_types(text)))
    shape = read_shape(scanner)
    if not scanner.at_end():
        raise scanner.error("expected end of shape")
    return shape


def with_small_types(text: str) -> str:
    """The text of a shape with element types as XLA prints them; its documents on shapes and tiles use `F32[3,5]`.

    >>> with_small_types("(F32[3,5]{1,0:T(2,2)}, BF16[2]), E[2]")
    '(f32[3,5]{1,0:T(2,2)}, bf16[2]), E[2]'
    """
    return _LARGE_TYPE.sub(lambda match: small if (small := match[0].lower()) in PRIMITIVE_TYPES else match[0], text)


def plain_shape(text: str) -> Shape | None:
    """A shape in the form that XLA prints; None for any other text, which `read_shape` then checks.

    >>> plain_shape("(f32[2]{0}, s32[])") == parse_shape("(f32[2]{0}, s32[])"), plain_shape("( f32[2] )")
    (True, None)
    """
    if _PLAIN.fullmatch(text):
        return _plain_array(text)
    return _plain_tuple(text) if _PLAIN_TUPLE.fullmatch(text) else None


def read_shape(scanner: Scanner, depth: int = 0) -> Shape:
    """The shape that comes next; the scanner moves after it."""
    if depth > MAX_NESTING:
        raise scanner.error(f"tuples are nested too deeply (limit {MAX_NESTING})")
    if scanner.accept("("):
        return _read_tuple(scanner, depth)
    if (plain := _PLAIN.match(scanner.text, scanner.pos, scanner.end)) is not None:
        shape = _plain_array(plain[0])
        if shape is not None:
            scanner.pos = plain.end()
            return shape
    match = _TYPE.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        raise scanner.error("expected a shape")
    start, word = scanner.pos, match[0]
    scanner.pos = match.end()
    if word == "b" and scanner.at("("):
        return _read_buffer(scanner, depth)
    if not scanner.at("["):
        scanner.pos = start
        raise scanner.error("expected a shape")
    element_type = PRIMITIVE_TYPES.get(word)
    if element_type is None:
        return _read_special(scanner, word, start)
    dimensions, dynamic = _read_dimensions(scanner)
    rank = len(dimensions)
    layout = _read_layout_of(scanner, rank) if follows_layout(scanner) else default_layout(rank)
    return ArrayShape(element_type, dimensions, dynamic, layout)


@lru_cache(maxsize=8192)
def _plain_array(text: str) -> ArrayShape | None:
    """An array shape in the form that XLA prints, or None if the exact reader is needed to find the error."""
    name, _, rest = text.partition("[")
    sizes, _, layout_text = rest.partition("]")
    element_type = PRIMITIVE_TYPES.get(name)
    try:
        dimensions = read_index(sizes)
        layout = plain_layout(layout_text) if layout_text else default_layout(len(dimensions))
    except (ValueError, HloError):
        return None
    if element_type is None or len(layout.minor_to_major) != len(dimensions):
        return None
    if max(dimensions, default=0) > INT64_MAX:
        return None
    return ArrayShape(element_type, dimensions, (False,) * len(dimensions), layout)


def _plain_tuple(text: str) -> TupleShape | None:
    open_tuples: list[list[Shape]] = [[]]
    for leaf, bracket in _TUPLE_TOKEN.findall(text):
        if bracket == "(":
            open_tuples.append([])
        elif bracket:
            elements = tuple(open_tuples.pop())
            open_tuples[-1].append(TupleShape(elements))
        elif (array := _plain_array(leaf)) is not None:
            open_tuples[-1].append(array)
        else:
            return None
    outermost = open_tuples[0][0]
    return outermost if isinstance(outermost, TupleShape) else None


def _read_tuple(scanner: Scanner, depth: int) -> Shape:
    elements = () if scanner.at(")") else listed(scanner, lambda: read_shape(scanner, depth + 1))
    scanner.expect(")", "after the elements of the tuple")
    return TupleShape(elements)


def _read_buffer(scanner: Scanner, depth: int) -> Shape:
    scanner.expect("(", "after b")
    start = scanner.skip()
    array = read_shape(scanner, depth + 1)
    if not isinstance(array, ArrayShape):
        raise scanner.error("a buffer must hold an array", start, scanner.pos)
    scanner.expect(")", "after the buffer's array")
    return BufferShape(array)


def _read_special(scanner: Scanner, word: str, start: int) -> Shape:
    dimensions, _ = _read_dimensions(scanner)
    if word in ("token", "opaque") and not dimensions:
        return TokenShape() if word == "token" else OpaqueShape()
    if follows_layout(scanner):
        read_layout(scanner)
    return UnknownShape(scanner.text[start : scanner.pos])


def _read_dimensions(scanner: Scanner) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    scanner.expect("[", "before the sizes")
    pairs = () if scanner.at("]") else listed(scanner, lambda: _read_dimension(scanner))
    scanner.expect("]", "after the sizes")
    return tuple(size for size, _ in pairs), tuple(dynamic for _, dynamic in pairs)


def _read_dimension(scanner: Scanner) -> tuple[int, bool]:
    if scanner.accept("?"):
        return UNBOUNDED, True
    dynamic = scanner.accept("<=")
    return read_size(scanner), dynamic


def _read_layout_of(scanner: Scanner, rank: int) -> Layout:
    start = scanner.skip()
    layout = read_layout(scanner)
    if (given := len(layout.minor_to_major)) != rank:
        default = ",".join(map(str, range(rank - 1, -1, -1)))
        message = f"layout has {counted(given, 'dimensions')}, but the shape has {rank}"
        error = scanner.error(message, start, scanner.pos)
        raise HloError(
            error.diagnostic.message,
            error.diagnostic.span,
            source=scanner.source,
            hint=f"row-major is {{{default}}}",
        )
    return layout
