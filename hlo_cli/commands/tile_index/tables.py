"""`hlo tile-index SHAPE INDEX…`: tables of elements with their addresses, and of addresses with their elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.layout.addresses import ElementPosition, element_at, position_of
from hlo_cli.ir.layout import split_sizes
from hlo_cli.ir.notation import tuple_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.table import Cell, Column, LazyRows, Row, Table
from hlo_cli.syntax.scanning.shape_reader import Selection

_FEW = 1000


def addresses_table(shape: ArrayShape, requested: Sequence[Selection], *, bits: int, base: int) -> Table:
    """One row for each element: position, byte, and for each tile of the layout the tile index and the index in it."""
    tiles = [split_sizes(tile) for tile in shape.layout.tiles]
    groups = [f"tile {' × '.join(map(str, sizes))}" for sizes in tiles]
    columns = (
        Column("index", "element", "index", align="left"),
        Column("linear_index", "linear index", "count"),
        Column("byte_offset", "byte", "count"),
        Column("bit_offset", "bit", "count", person=False),
        Column("bit", "bit", "count", person=bits % 8 != 0, machine=False),
        Column("hex", "hex", "text", align="right", machine=False),
        Column("address", "address", "address", person=bool(base), machine=bool(base)),
        *(
            Column(f"{name}{level}", title, "index", group=group, machine=False)
            for level, group in enumerate(groups)
            for name, title in (("tile_index", "tile"), ("index_in_tile", "in tile"))
        ),
        Column("tiles", "tiles", "text", person=False),
    )

    def rows() -> Iterator[Row]:
        for index in _indices(requested):
            yield _row(position_of(shape, index, element_bits=bits), base)

    count = sum(selection.count for selection in requested)
    made = LazyRows(count, rows) if count > _FEW else tuple(rows())
    return Table("addresses", columns, made, noun="elements")


def positions_table(shape: ArrayShape, requested: Sequence[range], *, as_bytes: bool, bits: int, base: int) -> Table:
    """One row for each position: its element, or why it is padding."""
    columns = (
        Column("byte", "byte", "count", person=as_bytes, machine=as_bytes),
        Column("hex", "hex", "text", align="right", person=as_bytes, machine=False),
        Column("linear_index", "linear index", "count"),
        Column("byte_offset", "byte offset", "count", person=False),
        Column("element", "element", "index", person=False),
        Column("padding", "padding", "text", person=False),
        Column("content", "element", "text", machine=False),
    )
    prefix = 8 * shape.layout.dynamic_shape_metadata_prefix_bytes

    def rows() -> Iterator[Row]:
        for numbers in requested:
            for number in numbers:
                for position in _positions_in_byte(number - base, bits, prefix) if as_bytes else (number,):
                    yield _position_row(shape, number, position, (position * bits + prefix) // 8)

    count = sum(map(len, requested))
    made = LazyRows(count, rows) if count > _FEW and (not as_bytes or bits >= 8) else tuple(rows())
    return Table("positions", columns, made, noun="positions")


def padding_reason(shape: ArrayShape, position: int) -> str | None:
    """The reason why a position is padding; None if it has an element.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> padding_reason(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"), 140)
    '(0,70), beyond the end of x (69)'
    """
    if position < 0:
        return "dynamic size prefix"
    if position >= shape.slots:
        return "unused bits of the last byte"
    if element_at(shape, position) is not None:
        return None
    if position >= shape.tiling.slots:
        return f"tail padding from L({shape.layout.tail_padding_alignment_in_elements})"
    from hlo_cli.commands.shape.explained import dimension_names

    index = shape.tiling.element(position)
    names = dimension_names(shape.rank)
    ends = [
        f"beyond the end of {name} ({size - 1})"
        for name, at, size in zip(names, index, shape.sizes, strict=True)
        if at >= size
    ]
    return f"{tuple_text(index)}, {ends[0]}" if ends else "next to the only element"


def _positions_in_byte(byte: int, bits: int, prefix: int) -> range:
    """The positions that have bits in a byte; -1 for the prefix in front of the data."""
    if 8 * byte < prefix:
        return range(-1, 0)
    return range((8 * byte - prefix) // bits, (8 * byte - prefix + 7) // bits + 1)


def _position_row(shape: ArrayShape, number: int, position: int, byte: int) -> Row:
    reason = padding_reason(shape, position)
    element = element_at(shape, position) if reason is None else None
    content = tuple_text(element) if element is not None else f"padding: {reason}"
    return (
        number,
        hex(number),
        position if position >= 0 else None,
        byte if position >= 0 else None,
        element,
        reason,
        content,
    )


def _indices(requested: Sequence[Selection]) -> Iterator[tuple[int, ...]]:
    for selection in requested:
        yield from selection.indices


def _row(place: ElementPosition, base: int) -> Row:
    levels: list[Cell] = []
    records: list[Cell] = []
    for tile in place.tiles:
        levels += [tile.tile_index, tile.index_in_tile]
        records.append(
            {
                "tile": tile.sizes,
                "tile_index": tile.tile_index,
                "tile_grid": tile.tile_grid,
                "index_in_tile": tile.index_in_tile,
                "tile_number": tile.number,
                "position_in_tile": tile.position,
            }
        )
    byte = place.byte_offset
    return (
        place.index, place.linear_index, byte, place.bit_offset, place.bit_offset % 8, hex(byte), byte + base,
        *levels, tuple(records),
    )  # fmt: skip
