"""Shapes and layouts read from text; a small hand-written reader, called once for each distinct text.

Mirrors `ParseShape` and `ParseLayout` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from hlo_cli.ir.layout import COMBINE, Layout, SplitConfig, Tile, default_layout
from hlo_cli.ir.primitive import PRIMITIVE_TYPES, PrimitiveType
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
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.scanner import Scanner

MAX_NESTING: Final = 100
"""Tuples nested deeper than this are an error; XLA's own never go beyond a handful."""

_T = TypeVar("_T")
_INT64_MAX: Final = 2**63 - 1
_LAYOUT_FOLLOWS = re.compile(r"\{[ \t\n\r]*+[0-9:\-]")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9]*+")
_PLAIN = re.compile(r"[a-z][a-z0-9]*+\[[0-9,]*+\](?:\{[0-9:][^{}\n]*+\}|(?![ \t\n\r]*+[{/]))")


def parse_shape(text: str, *, name: str = "shape") -> Shape:
    """The shape that `text` writes; HloError with the place if it does not.

    >>> shape = parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
    >>> shape.logical_bytes, shape.padded_bytes, str(shape.layout)
    (42000, 77824, '{1,0:T(8,128)(2,1)}')
    """
    scanner = Scanner(Source(name, text))
    shape = read_shape(scanner)
    if not scanner.at_end():
        raise scanner.error("expected the end of the shape")
    return shape


def read_shape(scanner: Scanner, depth: int = 0) -> Shape:
    """The shape that comes next; the scanner moves behind it."""
    if depth > MAX_NESTING:
        raise scanner.error(f"tuples are nested more than {MAX_NESTING} deep")
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


def follows_layout(scanner: Scanner) -> bool:
    """Whether a brace that belongs to a layout comes next, not one that opens a body or a literal."""
    return _LAYOUT_FOLLOWS.match(scanner.text, scanner.skip(), scanner.end) is not None


def read_layout(scanner: Scanner) -> Layout:
    """The layout between braces that comes next, as `{1,0:T(8,128)S(1)}`."""
    scanner.expect("{", "before the layout")
    closed = scanner.at(":") or scanner.at("}")
    order = () if closed else _listed(scanner, lambda: scanner.integer("a dimension number"))
    layout = _read_properties(scanner, order) if scanner.accept(":") else Layout(order)
    scanner.expect("}", "after the layout")
    return layout


@lru_cache(maxsize=8192)
def _plain_array(text: str) -> ArrayShape | None:
    """The shape of an array as XLA prints it, or None if only a closer look can say what is wrong with it."""
    name, _, rest = text.partition("[")
    sizes, _, layout_text = rest.partition("]")
    element_type = PRIMITIVE_TYPES.get(name)
    try:
        dimensions = tuple(map(int, sizes.split(","))) if sizes else ()
        layout = _plain_layout(layout_text) if layout_text else default_layout(len(dimensions))
    except (ValueError, HloError):
        return None
    if element_type is None or len(layout.minor_to_major) != len(dimensions):
        return None
    if max(dimensions, default=0) > _INT64_MAX:
        return None
    return ArrayShape(element_type, dimensions, (False,) * len(dimensions), layout)


@lru_cache(maxsize=8192)
def _plain_layout(text: str) -> Layout:
    scanner = Scanner(Source("layout", text))
    layout = read_layout(scanner)
    if scanner.pos != len(text):
        raise scanner.error("expected the end of the layout")
    return layout


def _read_tuple(scanner: Scanner, depth: int) -> Shape:
    elements = () if scanner.at(")") else _listed(scanner, lambda: read_shape(scanner, depth + 1))
    scanner.expect(")", "after the elements of the tuple")
    return TupleShape(elements)


def _read_buffer(scanner: Scanner, depth: int) -> Shape:
    scanner.expect("(", "after b")
    start = scanner.skip()
    array = read_shape(scanner, depth + 1)
    if not isinstance(array, ArrayShape):
        raise scanner.error("a buffer holds an array", start, scanner.pos)
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
    listed = () if scanner.at("]") else _listed(scanner, lambda: _read_dimension(scanner))
    scanner.expect("]", "after the sizes")
    return tuple(size for size, _ in listed), tuple(dynamic for _, dynamic in listed)


def _read_dimension(scanner: Scanner) -> tuple[int, bool]:
    if scanner.accept("?"):
        return UNBOUNDED, True
    dynamic = scanner.accept("<=")
    return _read_size(scanner), dynamic


def _read_size(scanner: Scanner) -> int:
    size = scanner.integer("a size")
    if not 0 <= size <= _INT64_MAX:
        length = len(str(size))
        raise scanner.error(f"{size} is no size of a dimension", scanner.pos - length, scanner.pos)
    return size


def _read_layout_of(scanner: Scanner, rank: int) -> Layout:
    start = scanner.skip()
    layout = read_layout(scanner)
    if (given := len(layout.minor_to_major)) != rank:
        default = ",".join(map(str, range(rank - 1, -1, -1)))
        error = scanner.error(f"the order lists {given} dimensions, the shape has {rank}", start, scanner.pos)
        raise HloError(
            error.diagnostic.message,
            error.diagnostic.span,
            source=scanner.source,
            hint=f"row-major is {{{default}}}",
        )
    return layout


def _read_properties(scanner: Scanner, order: tuple[int, ...]) -> Layout:
    """Tiles, padding, types, element size, space, splits and prefix: each at most once, in XLA's order."""
    _skip_sparse_levels(scanner)
    tiles = _read_tiles(scanner)
    tail = _read_number(scanner, "L", "an alignment in elements", 1)
    index_type = _read_type(scanner, "#")
    pointer_type = _read_type(scanner, "*")
    element_bits = _read_number(scanner, "E", "a number of bits", 0)
    space = _read_number(scanner, "S", "a memory space", 0)
    splits = _read_splits(scanner)
    prefix = _read_number(scanner, "M", "a number of bytes", 0)
    if not scanner.at("}"):
        raise scanner.error("expected T, L, #, *, E, S, SC or M, in this order,")
    space = (space + 128) % 256 - 128
    return Layout(order, tiles, tail, index_type, pointer_type, element_bits, space, splits, prefix)


def _skip_sparse_levels(scanner: Scanner) -> None:
    if scanner.at("D("):
        scanner.pos += 1
        scanner.balanced()


def _read_tiles(scanner: Scanner) -> tuple[Tile, ...]:
    tiles: list[Tile] = []
    if scanner.accept("T"):
        if not scanner.at("("):
            raise scanner.error("expected ( before the sizes of the tile")
        while scanner.accept("("):
            tiles.append(Tile(_read_tile_sizes(scanner)))
    return tuple(tiles)


def _read_tile_sizes(scanner: Scanner) -> tuple[int, ...]:
    def size() -> int:
        return COMBINE if scanner.accept("*") else _read_size(scanner)

    sizes = () if scanner.at(")") else _listed(scanner, size)
    scanner.expect(")", "after the sizes of the tile")
    return sizes


def _read_number(scanner: Scanner, letter: str, what: str, default: int) -> int:
    if not scanner.at(letter) or scanner.at("SC"):
        return default
    scanner.pos += len(letter)
    scanner.expect("(", f"after {letter}")
    number = scanner.integer(what)
    scanner.expect(")", f"after {what}")
    return number


def _read_type(scanner: Scanner, sign: str) -> PrimitiveType | None:
    if not scanner.accept(sign):
        return None
    scanner.expect("(", f"after {sign}")
    word = scanner.word() or ""
    if word not in PRIMITIVE_TYPES:
        raise scanner.error(f"{word or 'this'} is not a type", scanner.pos - len(word), scanner.pos)
    scanner.expect(")", "after the type")
    return PRIMITIVE_TYPES[word]


def _read_splits(scanner: Scanner) -> tuple[SplitConfig, ...]:
    splits: list[SplitConfig] = []
    if scanner.accept("SC"):
        while scanner.accept("("):
            dimension = scanner.integer("a physical dimension")
            scanner.expect(":", "after the dimension")
            points = _listed(scanner, lambda: scanner.integer("a split point"))
            scanner.expect(")", "after the split points")
            splits.append(SplitConfig(dimension, points))
    return tuple(splits)


def _listed(scanner: Scanner, item: Callable[[], _T]) -> tuple[_T, ...]:
    """One or more items with commas between them."""
    items = [item()]
    while scanner.accept(","):
        items.append(item())
    return tuple(items)
