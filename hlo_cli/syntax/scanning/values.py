"""The grammars of attribute values, each a small function that moves over a value or fails at the wrong token.

Mirrors `ParseAttributeHelper` of xla/hlo/parser/hlo_parser.cc and the functions it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

from hlo_cli.ir.layout import COMBINE, Tile
from hlo_cli.ir.notation import unquote
from hlo_cli.ir.shape import ArrayShape, Shape, UnknownShape
from hlo_cli.source import did_you_mean, joined_by_or
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.shapes import read_shape
from hlo_cli.syntax.scanning.suggestions import like
from hlo_cli.syntax.scanning.tokens import Tokens

Reader = Callable[[Tokens], object]
_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=StrEnum)
_LARGEST_FLOAT: Final = float.fromhex("0x1.fffffep127")


def read_bool(tokens: Tokens) -> bool:
    """`true` or `false`."""
    if tokens.kind not in ("true", "false"):
        tokens.fail("expected true or false")
    value = tokens.kind == "true"
    tokens.advance()
    return value


def read_int(tokens: Tokens) -> int:
    """An integer of 64 bits."""
    return tokens.integer()


def read_int32(tokens: Tokens) -> int:
    """An integer of 32 bits."""
    start, end = tokens.start, tokens.end
    value = read_int(tokens)
    if not -(2**31) <= value < 2**31:
        tokens.fail(f"{value} does not fit in 32 bits", start, end)
    return value


def read_number(tokens: Tokens) -> float:
    """A number, an infinity, or NaN; an error for numbers that overflow to infinity."""
    text, kind = tokens.text, tokens.kind
    if kind == tk.INT:
        return float(read_int(tokens))
    if kind not in (tk.DECIMAL, "inf"):
        tokens.fail("expected a number")
    value = float(text.partition("(")[0])  # the parentheses hold the payload of a NaN
    if kind == tk.DECIMAL and value in (float("inf"), float("-inf")) and "inf" not in text:
        tokens.fail(f"{text} does not fit in 64 bits", tokens.start, tokens.end)
    tokens.advance()
    return value


def read_string(tokens: Tokens) -> str:
    """The contents of a string."""
    hint = f'strings need quotes: "{tokens.text}"' if tokens.kind == tk.IDENT else None
    return unquote(tokens.expect(tk.STRING, hint=hint))


def read_string_or_json(tokens: Tokens) -> str:
    """The contents of a string, or a dictionary with its braces."""
    return tokens.json() if tokens.kind == "{" else unquote(tokens.expect(tk.STRING, "or a dictionary"))


def read_name(tokens: Tokens, what: str) -> str:
    """A name with or without %, but not a bare keyword or type."""
    if tokens.kind == tk.ATTRIBUTE:
        tokens.fail(f"expected a space between '{tokens.text}' and '='", tokens.start, tokens.end)
    if tokens.kind not in (tk.NAME, tk.IDENT):
        reserved = tokens.kind == tk.TYPE or tokens.kind in tk.KEYWORDS
        tokens.fail(f"expected {what}" + (" (reserved words need %)" if reserved else ""))
    name = tokens.text
    tokens.advance()
    return name


def at_shape(tokens: Tokens) -> bool:
    """Whether a shape comes next."""
    return tokens.kind in (tk.TYPE, "(") or (tokens.kind == tk.IDENT and tokens.text == "b" and tokens.peek() == "(")


def take_shape(tokens: Tokens) -> Shape:
    """A shape with known types only."""
    if not at_shape(tokens):
        tokens.fail("expected a shape")
    start, scanner = tokens.start, tokens.scanner()
    shape = read_shape(scanner)
    unknown = next((leaf for _, leaf in shape.leaves if isinstance(leaf, UnknownShape)), None)
    if unknown is not None:
        tokens.fail(f"'{unknown.text}' is not a shape", start, scanner.pos)
    if (problem := _problem(shape)) is not None:
        tokens.fail(problem, start, scanner.pos)
    tokens.move(scanner.pos)
    return shape


@lru_cache(maxsize=8192)
def _problem(shape: Shape) -> str | None:
    """The reason why XLA fails to parse a shape: it checks elements of tuples closely, and little else."""
    for index, leaf in shape.leaves:
        if not isinstance(leaf, ArrayShape):
            continue
        if leaf.layout.tail_padding_alignment_in_elements < 1:
            return "L(n) must be at least 1"
        if index and (problem := layout_problem(leaf)):
            return f"{leaf}: {problem}"
    return None


def layout_problem(array: ArrayShape) -> str | None:
    """The reason why the layout does not fit; unlike this tool, XLA accepts `*` anywhere in a tile."""
    layout = array.layout
    tiles = tuple(Tile(tuple(1 if d == COMBINE else d for d in tile.dimensions)) for tile in layout.tiles)
    return replace(array, layout=replace(layout, tiles=tiles)).problem


def read_list(tokens: Tokens, item: Callable[[Tokens], _T], brackets: str = "{}", comma: str = ",") -> tuple[_T, ...]:
    """Items between brackets, separated by commas or by `comma`; the list may be empty."""
    tokens.expect(brackets[0], "before a list")
    items: list[_T] = []
    if tokens.kind != brackets[1]:
        items.append(item(tokens))
        while tokens.accept(comma):
            items.append(item(tokens))
    tokens.expect(brackets[1], f"or '{comma}' in a list")
    return tuple(items)


def read_ints(tokens: Tokens) -> tuple[int, ...]:
    """`{0, 1}`."""
    return read_list(tokens, read_int)


def read_int_lists(tokens: Tokens) -> tuple[tuple[int, ...], ...]:
    """`{{0, 1}, {2, 3}}`."""
    return read_list(tokens, read_ints)


def read_bools(tokens: Tokens) -> tuple[bool, ...]:
    """`{true, false}`."""
    return read_list(tokens, read_bool)


def read_shape_index(tokens: Tokens) -> tuple[int, ...]:
    """`{0, 1}`, with an optional trailing comma."""
    tokens.expect("{", "before an index")
    index = []
    while tokens.kind != "}":
        index.append(read_int(tokens))
        if not tokens.accept(","):
            break
    tokens.expect("}", "after an index")
    return tuple(index)


def fields(
    kinds: Mapping[str, Reader], required: tuple[str, ...] = (), *, loose: bool = False
) -> Callable[[Tokens], dict[str, object]]:
    """The grammar of `{name=value name=value}`.

    Each name occurs once, with an optional comma before it; loosely, names repeat and there are no commas.
    """

    def read(tokens: Tokens) -> dict[str, object]:
        start = tokens.start
        tokens.expect("{", "before its fields")
        seen: dict[str, object] = {}
        while tokens.kind != "}":
            if not loose:
                tokens.accept(",")
            at, name, end = (
                tokens.start,
                tokens.expect(tk.ATTRIBUTE, "between the braces"),
                tokens.previous_end,
            )
            if name in seen and not loose:
                tokens.fail(f"duplicate field {name}", at, end)
            if name not in kinds:
                tokens.fail(f"unknown field '{name}'; expected one of {joined_by_or(sorted(kinds))}", at, end)
            seen[name] = kinds[name](tokens)
        for name in required:
            if name not in seen:
                tokens.fail(f"missing field {name}", start, tokens.end)
        tokens.advance()
        return seen

    return read


def one_of(kind: type[_Word], *, any_case: bool = False) -> Callable[[Tokens], _Word]:
    """The grammar of an enumeration: one of its words."""
    known = {member.value.lower() if any_case else member.value: member for member in kind}

    def read(tokens: Tokens) -> _Word:
        member = known.get(tokens.text.lower() if any_case else tokens.text)
        if tokens.kind != tk.IDENT or member is None:
            alike = {word.lower(): word for word in known}
            hint = did_you_mean(alike.get(tokens.text.lower())) or like(tokens.text, known)
            tokens.fail(f"expected {joined_by_or(known)}", hint=hint)
        tokens.advance()
        return member

    return read


def read_float(tokens: Tokens) -> float:
    """A number in the range of 32-bit floats."""
    start, end = tokens.start, tokens.end
    value = read_number(tokens)
    if abs(value) > _LARGEST_FLOAT:
        tokens.fail(f"{value} does not fit in 32 bits", start, end)
    return value


def read_bools_or_bool(tokens: Tokens) -> bool | tuple[bool, ...]:
    """`{true, false}` or `true`."""
    return read_bools(tokens) if tokens.kind == "{" else read_bool(tokens)


def read_shapes(tokens: Tokens) -> tuple[Shape, ...]:
    """`{f32[2]{0}, s32[]}`."""
    return read_list(tokens, take_shape)
