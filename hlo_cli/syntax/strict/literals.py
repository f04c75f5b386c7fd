"""Literals: nesting, counts, ranges and payloads exactly as XLA reads them.

Mirrors `ParseDenseLiteral`, `ParseTupleLiteral` and `SetValueInLiteral` of xla/hlo/parser/hlo_parser.cc. XLA skips
commas wherever they stand, and checks how deep an element stands by counting elements when a brace closes.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

from hlo_cli.ir.primitive import PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.ir.strings import UnreadText
from hlo_cli.syntax.shapes import MAX_NESTING
from hlo_cli.syntax.strict import tokens as tk
from hlo_cli.syntax.strict.tokens import Tokens
from hlo_cli.syntax.strict.values import layout_problem, read_number, take_shape

_SATURATES: Final = float("inf")
_LIMITS: Final = {
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
"""The smallest magnitude that rounds to more than the type's largest value; infinity where nothing does."""
_TIES_DOWN: Final = ("f8e4m3fn", "f8e8m0fnu")
"""Types whose largest value is even, so that a value halfway to the next rounds down to it."""
_PAYLOAD_BITS: Final = {"f8e5m2": 2, "f8e4m3": 3, "f8e3m4": 4, "f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_LARGEST_FLOAT: Final = float.fromhex("0x1.fffffep127")
_PAYLOAD: Final = re.compile(r"\(0x([0-9a-fA-F]++)\)")


def read_literal(tokens: Tokens, shape: Shape | None = None, depth: int = 0) -> None:
    """A literal of the given shape, or of the one that stands before it."""
    if depth > MAX_NESTING:
        tokens.fail(f"tuples are nested more than {MAX_NESTING} deep", tokens.start, tokens.end)
    if shape is None:
        if tokens.kind == "(":
            _read_shaped_elements(tokens, depth)
            return
        shape = take_shape(tokens)
    if isinstance(shape, TupleShape):
        _read_tuple(tokens, shape, depth)
    elif isinstance(shape, ArrayShape):
        if (problem := layout_problem(shape)) is not None:
            tokens.fail(f"a literal of {shape}: {problem}", tokens.start, tokens.end)
        _DenseReader(tokens, shape).read()
    else:
        tokens.fail(f"there are no literals of shape {shape}", tokens.start, tokens.end)


def read_shaped_literal(tokens: Tokens) -> UnreadText:
    """The text of a literal with its shape before it, as `literal=s32[2]{0} {1, 2}` has it."""
    start = tokens.start
    read_literal(tokens)
    return UnreadText(tokens.source.text[start : tokens.previous_end])


def _read_shaped_elements(tokens: Tokens, depth: int) -> None:
    tokens.expect("(", "before the elements of the tuple")
    while tokens.kind != ")":
        read_literal(tokens, depth=depth + 1)
        tokens.accept(",")
    tokens.advance()


def _read_tuple(tokens: Tokens, shape: TupleShape, depth: int) -> None:
    tokens.expect("(", "before the elements of the tuple")
    if tokens.kind != ")":
        for position, element in enumerate(shape.elements):
            if position:
                tokens.accept(",")
            read_literal(tokens, element, depth + 1)
    tokens.expect(")", f"after the {len(shape.elements)} elements of the tuple")


class _DenseReader:
    """Reads one array literal; its state is XLA's: how deep it is, and how many elements each dimension has seen."""

    def __init__(self, tokens: Tokens, shape: ArrayShape) -> None:
        self.tokens = tokens
        self.dimensions = shape.dimensions
        self.type = shape.element_type
        self.count = prod(shape.dimensions)
        self.level = self.index = 0
        self.seen = [0] * len(shape.dimensions)

    def read(self) -> None:
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
                    tokens.fail("... may only stand within the outermost braces", tokens.start, tokens.end)
                self.seen[0] = self.dimensions[0]
                tokens.advance()
            case ",":
                tokens.advance()
            case "(":
                self._add()
                self._read_complex()
            case "true" | "false" | tk.INT | tk.DECIMAL | "inf":
                self._add()
                self._read_scalar()
            case _:
                tokens.fail("expected an element of the literal")

    def _open(self) -> None:
        tokens, rank = self.tokens, len(self.dimensions)
        self.level += 1
        if self.level > rank:
            tokens.fail(
                f"braces are nested {self.level} deep, the shape has {rank} dimensions", tokens.start, tokens.end
            )
        if self.level > 1:
            self._count(self.level - 2)
        tokens.advance()

    def _close(self) -> None:
        tokens = self.tokens
        if self.level == 0:
            tokens.fail("} closes nothing", tokens.start, tokens.end)
        self.level -= 1
        wanted, seen = self.dimensions[self.level], self.seen[self.level]
        if seen != wanted:
            tokens.fail(f"dimension {self.level} has {wanted} elements, here are {seen}", tokens.start, tokens.end)
        self.seen[self.level] = 0
        tokens.advance()

    def _count(self, dimension: int) -> None:
        self.seen[dimension] += 1
        if self.seen[dimension] > self.dimensions[dimension]:
            message = f"dimension {dimension} has {self.dimensions[dimension]} elements, here are more"
            self.tokens.fail(message, self.tokens.start, self.tokens.end)

    def _add(self) -> None:
        """Count an element. XLA counts only those that stand as deep as the shape has dimensions."""
        tokens = self.tokens
        if self.dimensions and self.level == len(self.dimensions):
            self._count(self.level - 1)
        if self.index >= self.count:
            tokens.fail(f"the shape has {self.count} elements, here are more", tokens.start, tokens.end)
        self.index += 1

    def _read_scalar(self) -> None:
        tokens, kind = self.tokens, self.type.kind
        if tokens.kind in ("true", "false"):
            if kind != "pred":
                tokens.fail(f"{tokens.text} is no value of {self.type}", tokens.start, tokens.end)
            tokens.advance()
        elif kind == "complex":
            tokens.fail("a complex number is written (real, imaginary)", tokens.start, tokens.end)
        elif kind == "float":
            _read_float(tokens, self.type)
        else:
            _read_integer(tokens, self.type)

    def _read_complex(self) -> None:
        tokens = self.tokens
        if self.type.kind != "complex":
            tokens.fail("only complex numbers stand in parentheses", tokens.start, tokens.end)
        part = PRIMITIVE_TYPES["f32" if self.type.bits == 64 else "f64"]
        tokens.expect("(", "before a complex number")
        _read_float(tokens, part, rounds=False)
        tokens.expect(",", "after the real part")
        _read_float(tokens, part, rounds=False)
        tokens.expect(")", "after the imaginary part")


def _read_integer(tokens: Tokens, element_type: PrimitiveType) -> None:
    start, end = tokens.start, tokens.end
    value = tokens.integer(f"as {element_type}")
    if element_type.kind == "pred":
        return
    low = 0 if element_type.kind == "unsigned" else -(2 ** (element_type.bits - 1))
    high = 2 ** (element_type.bits - (element_type.kind == "signed")) - 1
    if element_type.kind == "unsigned":
        value %= 2**64
    if not low <= value <= high:
        tokens.fail(
            f"{tokens.source.text[start:end]} is no value of {element_type}, which has {low} to {high}", start, end
        )


def _read_float(tokens: Tokens, element_type: PrimitiveType, *, rounds: bool = True) -> None:
    start, end, text = tokens.start, tokens.end, tokens.text
    magnitude = abs(value := read_number(tokens))
    name, limit = element_type.name, _LIMITS[element_type.name]
    if value != value:
        if (payload := _PAYLOAD.search(text)) and int(payload[1], 16) >= 2 ** _PAYLOAD_BITS.get(name, 0):
            tokens.fail(f"NaN of {name} cannot hold {payload[0]}", start, end)
        return
    if not rounds and limit != _SATURATES:
        limit = _LARGEST_FLOAT
    over = magnitude > limit or (magnitude == limit and rounds and name not in _TIES_DOWN)
    too_small = name == "f8e8m0fnu" and value < 2.0**-128
    if magnitude != float("inf") and (over or too_small):
        tokens.fail(f"{text} is out of the range of {name}", start, end)
