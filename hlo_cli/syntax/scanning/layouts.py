"""Reader of layouts in text.

Mirrors `ParseLayout` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from hlo_cli.ir.layout import COMBINE, PRIMITIVE_TYPES, Layout, PrimitiveType, SplitConfig, Tile
from hlo_cli.ir.notation import read_index
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Source
from hlo_cli.syntax.scanning.scanner import SPACE, Scanner

INT64_MAX: Final = 2**63 - 1

_T = TypeVar("_T")
_LAYOUT_FOLLOWS = lazy_regex(rf"\{{{SPACE}[0-9:\-]")
_SPARSE_LEVELS = lazy_regex(r"D[ ]*+\((?:[ ]*+[DCSH]\+?~?[ ]*+(?:,[ ]*+[DCSH]\+?~?[ ]*+)*+)?+\)")
_PLAIN_LAYOUT = lazy_regex(
    r"\{([0-9]{1,18}(?:,[0-9]{1,18})*+)?+(?::(?:T((?:\([0-9]{1,18}(?:,[0-9]{1,18})*+\))++))?(?:E\(([0-9]{1,9})\))?(?:S\(([0-9]{1,2})\))?)?\}"
)


def follows_layout(scanner: Scanner) -> bool:
    """Whether the brace that comes next opens a layout, not a body or a literal."""
    return _LAYOUT_FOLLOWS.match(scanner.text, scanner.skip(), scanner.end) is not None


def read_layout(scanner: Scanner) -> Layout:
    """The layout between braces that comes next, such as `{1,0:T(8,128)S(1)}`."""
    scanner.expect("{", "before the layout")
    closed = scanner.at(":") or scanner.at("}")
    order = () if closed else listed(scanner, lambda: scanner.integer("a dimension number"))
    layout = _read_properties(scanner, order) if scanner.accept(":") else Layout(order)
    scanner.expect("}", "after the layout")
    return layout


@lru_cache(maxsize=8192)
def plain_layout(text: str) -> Layout:
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
    layout = read_layout(scanner)
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
    space = (space + 128) % 256 - 128
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
        return COMBINE if scanner.accept("*") else read_size(scanner)

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


def read_size(scanner: Scanner) -> int:
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
