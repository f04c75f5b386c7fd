"""What shape, layout, or index a text writes; small and hand-written, as every command reads shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import prod
from typing import Final, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import COMBINE, PRIMITIVE_TYPES, Layout, PrimitiveType, SplitConfig, Tile, default_layout
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
from hlo_cli.source import HloError, Source, Span, counted, expect
from hlo_cli.syntax.scanning.scanner import SPACE, Scanner, beyond_64_bits, int64

# --- layouts ---
# Reader of layouts in text.
#
# Mirrors `ParseLayout` of xla/hlo/parser/hlo_parser.cc.


INT64_MAX: Final = 2**63 - 1  # dimensions are int64 in XLA's Shape

_T = TypeVar("_T")
# as in XLA's parser: after a shape, only an integer or a colon makes a brace that of a layout
_LAYOUT_FOLLOWS = lazy_regex(rf"\{{{SPACE}[0-9:\-]")
# sparse layouts of older XLA; nothing computes with them
_SPARSE_LEVELS = lazy_regex(r"D[ ]*+\((?:[ ]*+[DCSH]\+?~?[ ]*+(?:,[ ]*+[DCSH]\+?~?[ ]*+)*+)?+\)")
_PLAIN_LAYOUT = lazy_regex(
    r"\{([0-9]{1,18}(?:,[0-9]{1,18})*+)?+(?::(?:T((?:\([0-9]{1,18}(?:,[0-9]{1,18})*+\))++))?(?:E\(([0-9]{1,9})\))?(?:S\(([0-9]{1,2})\))?)?\}"
)


def _follows_layout(scanner: Scanner) -> bool:
    """Whether the brace that comes next opens a layout, not a body or a literal."""
    return _LAYOUT_FOLLOWS.match(scanner.text, scanner.skip(), scanner.end) is not None


def _read_layout(scanner: Scanner) -> Layout:
    """The layout between braces that comes next, such as `{1,0:T(8,128)S(1)}`."""
    scanner.expect("{", "before the layout")
    closed = scanner.at(":") or scanner.at("}")
    order = () if closed else listed(scanner, lambda: scanner.integer("a dimension number"))
    layout = _read_properties(scanner, order) if scanner.accept(":") else Layout(order)
    scanner.expect("}", "after the layout")
    return layout


@lru_cache(maxsize=8192)
def _plain_layout(text: str) -> Layout:
    """The layout of a text, usually in the form that XLA prints; each distinct text is read once."""
    if (match := _PLAIN_LAYOUT.fullmatch(text)) is not None:
        order, tiles, bits, space = match.groups("")
        return Layout(
            read_index(order),
            tuple(Tile(read_index(tile)) for tile in tiles[1:-1].split(")(")) if tiles else (),
            element_size_in_bits=int(bits or 0),
            memory_space=int(space or 0),
        )
    scanner = Scanner(Source("layout", text))
    layout = _read_layout(scanner)
    if scanner.pos != len(text):
        raise scanner.error("expected end of layout")
    return layout


def _read_properties(scanner: Scanner, order: tuple[int, ...]) -> Layout:
    """Tiles, padding, types, element size, memory space, splits, and prefix: each at most once, in XLA's order."""
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
        raise scanner.error("expected T, L, #, *, E, S, SC, or M, in this order,")
    space = (space + 128) % 256 - 128  # `Layout` of xla/layout.h keeps it in an int8: S(200) is S(-56)
    return Layout(order, tiles, tail, index_type, pointer_type, element_bits, space, splits, prefix)


def _skip_sparse_levels(scanner: Scanner) -> None:
    match = _SPARSE_LEVELS.match(scanner.text, scanner.skip(), scanner.end)
    if match is not None:
        scanner.pos = match.end()


def _read_tiles(scanner: Scanner) -> tuple[Tile, ...]:
    tiles: list[Tile] = []
    if scanner.accept("T"):
        if not scanner.at("("):
            raise scanner.error("expected '(' before the sizes of the tile")
        while scanner.accept("("):
            tiles.append(Tile(_read_tile_sizes(scanner)))
    return tuple(tiles)


def _read_tile_sizes(scanner: Scanner) -> tuple[int, ...]:
    def size() -> int:
        return COMBINE if scanner.accept("*") else _read_size(scanner)

    sizes = () if scanner.at(")") else listed(scanner, size)
    scanner.expect(")", "after the sizes of the tile")
    return sizes


def _read_number(scanner: Scanner, letter: str, what: str, default: int) -> int:
    if not scanner.at(letter) or scanner.at("SC"):
        return default
    scanner.pos += len(letter)
    scanner.expect("(", f"after '{letter}'")
    number = scanner.integer(what)
    scanner.expect(")", f"after {what}")
    return number


def _read_type(scanner: Scanner, sign: str) -> PrimitiveType | None:
    if not scanner.accept(sign):
        return None
    scanner.expect("(", f"after '{sign}'")
    word = scanner.word() or ""
    if word not in PRIMITIVE_TYPES:
        raise scanner.error(
            f"unknown element type '{word}'" if word else "expected an element type",
            scanner.pos - len(word),
            scanner.pos,
        )
    scanner.expect(")", "after the type")
    return PRIMITIVE_TYPES[word]


def _read_splits(scanner: Scanner) -> tuple[SplitConfig, ...]:
    splits: list[SplitConfig] = []
    if scanner.accept("SC"):
        while scanner.accept("("):
            dimension = scanner.integer("a physical dimension")
            scanner.expect(":", "after the dimension")
            points = () if scanner.at(")") else listed(scanner, lambda: scanner.integer("a split point"))
            scanner.expect(")", "after the split points")
            splits.append(SplitConfig(dimension, points))
    return tuple(splits)


def _read_size(scanner: Scanner) -> int:
    """The size of a dimension or of a tile: a nonnegative integer of at most 64 bits."""
    size = scanner.integer("a size")
    if not 0 <= size <= INT64_MAX:
        length = len(str(size))
        raise scanner.error(f"invalid dimension size {size}", scanner.pos - length, scanner.pos)
    return size


def listed(scanner: Scanner, item: Callable[[], _T]) -> tuple[_T, ...]:
    """One or more items with commas between them."""
    items = [item()]
    while scanner.accept(","):
        items.append(item())
    return tuple(items)


# --- shapes ---
# Reader of shapes in text; small and hand-written, called once for each distinct text.
#
# Mirrors `ParseShape` of xla/hlo/parser/hlo_parser.cc.


MAX_NESTING: Final = 100
"""The deepest nesting of tuples; XLA's own have few levels."""

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9]*+")
_LARGE_TYPE = re.compile(r"\b[A-Z][A-Z0-9]*+(?=\[)")  # XLA's documents write F32[3,5]; its parser does not
_PLAIN_TEXT: Final = r"[a-z][a-z0-9]*+\[[0-9,]*+\](?:\{[0-9:][^{}\n]*+\}|(?![ \t\n\r]*+[{/]))"
_PLAIN_ARRAY = re.compile(_PLAIN_TEXT)
_TUPLE_TOKEN = lazy_regex(rf"({_PLAIN_TEXT})|([()])")


def _tuple_text(element: str) -> str:
    """A tuple as XLA prints it, with index marks."""
    return rf"\((?:{element}(?:, (?:/\*index=[0-9]++\*/)?{element})*+)?+\)"


# two levels: state in a loop's state; deeper tuples are read one by one
_PLAIN_NESTED: Final = _tuple_text(f"(?:{_PLAIN_TEXT}|{_tuple_text(_PLAIN_TEXT)})")
_PLAIN_TUPLE = lazy_regex(_tuple_text(f"(?:{_PLAIN_TEXT}|{_PLAIN_NESTED})"))


def parse_shape(text: str) -> Shape:
    """The shape of `text`; HloError with the span of the error.

    >>> shape = parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
    >>> shape.logical_bytes, shape.padded_bytes, str(shape.layout)
    (42000, 77824, '{1,0:T(8,128)(2,1)}')
    """
    expect(str, "the text of a shape", text, 'such as "f32[8,128]{1,0}"')
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
    if _PLAIN_ARRAY.fullmatch(text):
        return _plain_array(text)
    return _plain_tuple(text) if _PLAIN_TUPLE.fullmatch(text) else None


def read_shape(scanner: Scanner, depth: int = 0) -> Shape:
    """The shape that comes next; the scanner moves after it."""
    if depth > MAX_NESTING:
        raise scanner.error(f"tuples are nested too deeply (limit {MAX_NESTING})")
    if scanner.accept("("):
        return _read_tuple(scanner, depth)
    if (plain := _PLAIN_ARRAY.match(scanner.text, scanner.pos, scanner.end)) is not None:
        shape = _plain_array(plain[0])
        if shape is not None:
            scanner.pos = plain.end()
            return shape
    match = _TYPE.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        raise scanner.error("expected a shape")
    start, word = scanner.pos, match[0]
    scanner.pos = match.end()
    if word == "b" and scanner.at("("):  # a buffer `b(f32[2])`, not an element type of a newer XLA
        return _read_buffer(scanner, depth)
    if not scanner.at("["):
        scanner.pos = start
        raise scanner.error("expected a shape")
    element_type = PRIMITIVE_TYPES.get(word)
    if element_type is None:
        return _read_special(scanner, word, start)
    dimensions, dynamic = _read_dimensions(scanner)
    rank = len(dimensions)
    layout = _read_layout_of(scanner, rank) if _follows_layout(scanner) else default_layout(rank)
    return ArrayShape(element_type, dimensions, dynamic, layout)


@lru_cache(maxsize=8192)
def _plain_array(text: str) -> ArrayShape | None:
    """An array shape in the form that XLA prints, or None if the exact reader is needed to find the error."""
    name, _, rest = text.partition("[")
    sizes, _, layout_text = rest.partition("]")
    element_type = PRIMITIVE_TYPES.get(name)
    try:
        dimensions = read_index(sizes)
        layout = _plain_layout(layout_text) if layout_text else default_layout(len(dimensions))
    except (ValueError, HloError):  # the scanner reads it again and says what is wrong
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
    if _follows_layout(scanner):
        _read_layout(scanner)
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
    return _read_size(scanner), dynamic


def _read_layout_of(scanner: Scanner, rank: int) -> Layout:
    start = scanner.skip()
    layout = _read_layout(scanner)
    if (count := len(layout.minor_to_major)) != rank:
        default = ",".join(map(str, range(rank - 1, -1, -1)))
        message = f"layout has {counted(count, 'dimensions')}, but the shape has {rank}"
        error = scanner.error(message, start, scanner.pos)
        raise HloError(
            error.diagnostic.message,
            error.diagnostic.span,
            source=scanner.source,
            hint=f"row-major is {{{default}}}",
        )
    return layout


# --- indices and positions ---
# Indices as text: `3,5`, `(3, 5)`, `0:4,128`, `:,5`; positions and bytes as `17`, `0x1a40`, `0:64`.


_PART = re.compile(r"\s*+([^,]*?)\s*+(?:,|\Z)")
_NUMBER = lazy_regex(r"[+-]?(?:0[xX]_*+[0-9a-fA-F][0-9a-fA-F_]*+|[0-9][0-9_]*+)\Z")
_PLAIN_INDEX = re.compile(r"[0-9]{1,18}(?:,[0-9]{1,18})*+\Z")
_OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Selection:
    """The elements whose coordinates are in a range for each dimension; in row-major order.

    >>> selection = read_selection("1:3,-1", (3, 5))
    >>> selection.count, list(selection.indices)
    (2, [(1, 4), (2, 4)])
    """

    ranges: tuple[range, ...]

    @property
    def count(self) -> int:
        """The number of selected elements."""
        return prod(map(len, self.ranges))

    @property
    def indices(self) -> Iterator[tuple[int, ...]]:
        """The indices of the elements, generated one by one."""
        if not self.ranges:
            yield ()
            return
        for lead in Selection(self.ranges[:-1]).indices:
            for last in self.ranges[-1]:
                yield (*lead, last)


def read_selection(text: str, sizes: tuple[int, ...], *, name: str = "", line: int = 1) -> Selection:
    """The elements that a text selects in an array of these sizes; HloError, with its span, for indices out of range.

    >>> read_selection("(2, 3)", (3, 5)).ranges
    (range(2, 3), range(3, 4))
    """
    if _PLAIN_INDEX.match(text):  # most lines of a long file
        numbers = read_index(text)
        if len(numbers) == len(sizes) and all(0 <= n < size for n, size in zip(numbers, sizes, strict=True)):
            return Selection(tuple(range(n, n + 1) for n in numbers))
    source = Source(name, text, line)
    parts = _parts(text)
    dots = [index for index, (part, _) in enumerate(parts) if part in ("...", "…")]
    if len(dots) > 1:
        raise HloError("only one ... is allowed in an index", parts[dots[1]][1], source=source)
    if dots:
        at, span = dots[0], parts[dots[0]][1]
        parts[at : at + 1] = [(":", span)] * (len(sizes) - len(parts) + 1)
    if len(parts) != len(sizes):
        raise HloError(
            f"expected {counted(len(sizes), 'numbers')} for {list(sizes)}, found {len(parts)}",
            Span(0, len(text)),
            source=source,
        )
    return Selection(tuple(_range(part, size, span, source) for (part, span), size in zip(parts, sizes, strict=True)))


def read_slots(text: str, count: int, *, name: str = "", line: int = 1) -> range:
    """The positions or bytes that a text selects: one number, or a slice; `count` is the number available.

    >>> read_slots("0x10", 64), read_slots("60:", 64)
    (range(16, 17), range(60, 64))
    """
    return _range(text.strip(), count, Span(0, len(text)), Source(name, text, line), negative=False)


def _parts(text: str) -> list[tuple[str, Span]]:
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if text[start : start + 1] in _OPENING and text[end - 1 : end] == _OPENING[text[start]]:
        start, end = start + 1, end - 1
    parts = []
    while start < end:
        match = _PART.match(text, start, end)
        assert match is not None
        parts.append((match[1], Span(match.start(1), max(match.end(1), match.start(1) + 1))))
        start = match.end()
    return parts


def _range(part: str, size: int, span: Span, source: Source, *, negative: bool = True) -> range:
    pieces = [piece.strip() for piece in part.split(":")]
    if len(pieces) > 3 or any(piece and not _NUMBER.match(piece) for piece in pieces) or pieces == [""]:
        raise HloError(f"expected a number or a slice, such as 3 or 0:4, found '{part[:40]}'", span, source=source)
    numbers = [_number(piece, span, source) if piece else None for piece in pieces]
    if len(numbers) > 1:
        if numbers[2:] == [0]:
            raise HloError("slice step cannot be 0", span, source=source)
        return range(*slice(*numbers).indices(size))
    number = numbers[0]
    assert number is not None
    if not (-size if negative else 0) <= number < size:
        ends = f"valid: 0 to {size - 1}" if size > 1 else "valid: 0" if size else "the dimension is empty"
        raise HloError(f"index {number} is out of range ({ends})", span, source=source)
    return range(number % size, number % size + 1)


def _number(text: str, span: Span, source: Source) -> int:
    digits = text.replace("_", "")
    if (number := int64(digits, 16 if "x" in digits.lower() else 10)) is None:
        raise HloError(beyond_64_bits(digits), span, source=source)
    return number
