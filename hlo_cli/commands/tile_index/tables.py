"""`hlo tile-index SHAPE INDEX…`: tables of elements with their addresses, and of addresses with their elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.layout.addresses import ElementPosition, element_at, position_of
from hlo_cli.ir.index_text import tuple_text
from hlo_cli.ir.layout import split_sizes
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.cell import Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.report.lazy_rows import LazyRows
from hlo_cli.report.table import Table
from hlo_cli.syntax.scanning.indices import Selection

_FEW = 1000


def addresses_table(shape: ArrayShape, asked: Sequence[Selection], *, bits: int, base: int) -> Table:
    """One row for each element: position, byte, and for each tile of the layout the tile index and the index in it."""
    tiles = [split_sizes(tile) for tile in shape.layout.tiles]
    groups = [f"tile {' × '.join(map(str, sizes))}" for sizes in tiles]
    columns = (
        Column("index", "element", "index", align="left"),
        Column("linear_index", "linear", "count"),
        Column("byte_offset", "byte", "count"),
        Column("bit_offset", "bit", "count", person=False),
        Column("bit", "bit", "count", person=bits % 8 != 0, machine=False),
        Column("hex", "hex", "text", align="right", machine=False),
        Column("address", "address", "address", person=bool(base), machine=bool(base)),
        *(
            Column(f"{what}{level}", what, "index", group=group, machine=False)
            for level, group in enumerate(groups)
            for what in ("which", "where")
        ),
        Column("tiles", "tiles", "text", person=False),
    )

    def rows() -> Iterator[Row]:
        for index in _indices(asked):
            yield _row(position_of(shape, index, element_bits=bits), tiles, base)

    count = sum(selection.count for selection in asked)
    made = LazyRows(count, rows) if count > _FEW else tuple(rows())
    return Table("addresses", columns, made, noun="elements")


def slots_table(shape: ArrayShape, asked: Sequence[range], *, as_bytes: bool, bits: int, base: int) -> Table:
    """One row for each position: its element, or why it is padding."""
    columns = (
        Column("byte", "byte", "count", person=as_bytes, machine=as_bytes),
        Column("hex", "hex", "text", align="right", person=as_bytes, machine=False),
        Column("linear_index", "linear", "count"),
        Column("byte_offset", "byte offset", "count", person=False),
        Column("element", "element", "index", person=False),
        Column("padding", "padding", "text", person=False),
        Column("what", "element", "text", machine=False),
    )
    prefix = 8 * shape.layout.dynamic_shape_metadata_prefix_bytes

    def rows() -> Iterator[Row]:
        for numbers in asked:
            for number in numbers:
                for slot in _slots_of_byte(number - base, bits, prefix) if as_bytes else (number,):
                    yield _slot_row(shape, number, slot, (slot * bits + prefix) // 8)

    count = sum(map(len, asked))
    made = LazyRows(count, rows) if count > _FEW and (not as_bytes or bits >= 8) else tuple(rows())
    return Table("positions", columns, made, noun="slots")


def padding_reason(shape: ArrayShape, slot: int) -> str | None:
    """The reason why a position holds no element; None if it holds one.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> padding_reason(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"), 140)
    '(0,70), x ends at 69'
    """
    if slot < 0:
        return "the sizes of a dynamic array stand here"
    if slot >= shape.slots:
        return "beyond the last slot, in the last byte"
    if element_at(shape, slot) is not None:
        return None
    if slot >= shape.tiling.slots:
        return f"behind the last tile, L({shape.layout.tail_padding_alignment_in_elements}) rounds up"
    from hlo_cli.commands.shared.shape_descriptions import dimension_names

    index = shape.tiling.element(slot)
    names = dimension_names(shape.rank)
    ends = [
        f"{name} ends at {size - 1}" for name, at, size in zip(names, index, shape.sizes, strict=True) if at >= size
    ]
    return f"{tuple_text(index)}, {ends[0]}" if ends else "beside the only element"


def _slots_of_byte(byte: int, bits: int, prefix: int) -> range:
    """The positions that have bits in a byte; -1 for the prefix in front of the data."""
    if 8 * byte < prefix:
        return range(-1, 0)
    return range((8 * byte - prefix) // bits, (8 * byte - prefix + 7) // bits + 1)


def _slot_row(shape: ArrayShape, number: int, slot: int, byte: int) -> Row:
    reason = padding_reason(shape, slot)
    element = element_at(shape, slot) if reason is None else None
    said = tuple_text(element) if element is not None else f"padding: {reason}"
    return (number, hex(number), slot if slot >= 0 else None, byte if slot >= 0 else None, element, reason, said)


def _indices(asked: Sequence[Selection]) -> Iterator[tuple[int, ...]]:
    for selection in asked:
        yield from selection.indices


def _row(place: ElementPosition, tiles: Sequence[tuple[int, ...]], base: int) -> Row:
    levels: list[Cell] = []
    records: list[Cell] = []
    for tile in place.tiles:
        levels += [tile.tile_index, tile.index_in_tile]
        records.append(
            {
                "tile": tile.sizes,
                "which": tile.tile_index,
                "of": tile.tile_grid,
                "where": tile.index_in_tile,
                "number": tile.number,
                "position": tile.position,
            }
        )
    byte = place.byte_offset
    return (
        place.index, place.linear_index, byte, place.bit_offset, place.bit_offset % 8, hex(byte), byte + base,
        *levels, tuple(records),
    )  # fmt: skip
