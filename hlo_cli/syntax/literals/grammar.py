"""Literals: nesting, counts, ranges, and payloads exactly as XLA reads them.

Mirrors `ParseDenseLiteral`, `ParseTupleLiteral` and `SetValueInLiteral` of xla/hlo/parser/hlo_parser.cc. XLA skips
commas anywhere, and checks the depth of an element by counting elements when a brace closes.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import Span, counted
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.shapes import MAX_NESTING
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.scanning.values import layout_problem, read_number, take_shape

_SATURATES: Final = float("inf")
LIMITS: Final = {
    "f4e2m1fn": _SATURATES,
    "f6e2m3fn": _SATURATES,
    "f6e3m2fn": _SATURATES,
    "f8e3m4": 15.75,
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
LARGEST_FLOAT: Final = float.fromhex("0x1.fffffep127")
_PAYLOAD: Final = re.compile(r"\(0x([0-9a-fA-F]++)\)")


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
        wanted, seen = self.dimensions[self.level], self.seen[self.level]
        if seen != wanted:
            if seen == 0 and self.index and self.level + 1 < len(self.dimensions):
                rank = len(self.dimensions)
                tokens.fail(
                    f"expected {rank} nested braces around each element, one per dimension", tokens.start, tokens.end
                )
            tokens.fail(
                f"expected {counted(wanted, 'elements')} in dimension {self.level}, found {seen}",
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
        if (payload := _PAYLOAD.search(tokens.text)) is not None:
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
    low, high = integer_range(element_type)
    if element_type.kind == "unsigned":
        value %= 2**64
    if not low <= value <= high:
        tokens.fail(f"{tokens.source.text[start:end]} is out of range for {element_type} ({low} to {high})", start, end)
    return value


def integer_range(element_type: PrimitiveType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type.

    >>> integer_range(PRIMITIVE_TYPES["s4"])
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
        if (payload := _PAYLOAD.search(text)) and int(payload[1], 16) >= 2 ** FLOAT_FORMATS[name].payload_bits:
            tokens.fail(f"NaN payload {payload[0]} does not fit {name}", start, end)
        return value
    if not rounds and limit != _SATURATES:
        limit = LARGEST_FLOAT
    over = magnitude > limit or (magnitude == limit and rounds and name != _TIES_DOWN)
    too_small = name == "f8e8m0fnu" and value <= 0
    if magnitude != float("inf") and (over or too_small):
        tokens.fail(f"{text} is out of range for {name}", start, end)
    return -0.0 if text == "-0" else value  # XLA prints negative zero so, but reads it as zero
