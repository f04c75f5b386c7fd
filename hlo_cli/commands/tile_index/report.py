"""At which address is an element, and which element is at an address? Tables, and the formula in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.layout.addresses import ElementPosition, TilePosition, element_at, position_of
from hlo_cli.commands.tile_index.options import TileIndexOptions, read_queries
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Combine, Extend, Permute, Split, split_sizes
from hlo_cli.ir.notation import tuple_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.figure import Figure, fixed
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, LazyRows, Table, row_from, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import Selection, read_selection, read_slots

# --- tables ---
# `hlo tile-index SHAPE INDEX…`: tables of elements with their addresses, and of addresses with their elements.


_MAX_EAGER_ROWS = 1000  # below that, rows are made at once, so that they can be sorted and counted


def addresses_table(shape: ArrayShape, requested: Sequence[Selection], *, bits: int, base: int) -> Table:
    """One row for each element: position, byte, and for each tile of the layout the tile index and the index in it."""
    tiles = [split_sizes(tile) for tile in shape.layout.tiles]
    groups = [f"tile {' × '.join(map(str, sizes))}" for sizes in tiles]
    columns = (
        Column("index", "element", "index", align="left", of=lambda place: place.index),
        Column("linear_index", "linear index", "count", of=lambda place: place.linear_index),
        Column("byte_offset", "byte", "count", of=lambda place: place.byte_offset),
        Column("bit_offset", "bit", "count", person=False, of=lambda place: place.bit_offset),
        Column("bit", "bit", "count", person=bits % 8 != 0, machine=False, of=lambda place: place.bit_offset % 8),
        Column("hex", "hex", "text", align="right", machine=False, of=lambda place: hex(place.byte_offset)),
        Column("address", "address", "address", person=bool(base), machine=bool(base),
               of=lambda place: place.byte_offset + base),
        *(column for level, group in enumerate(groups) for column in _tile_columns(level, group)),
        Column("tiles", "tiles", "text", person=False, of=lambda place: tuple(map(_tile_record, place.tiles))),
    )  # fmt: skip

    def places() -> Iterator[ElementPosition]:
        return (position_of(shape, index) for index in _indices(requested))

    count = sum(selection.count for selection in requested)
    is_lazy = count > _MAX_EAGER_ROWS
    rows = (
        LazyRows(count, lambda: (row_from(columns, place) for place in places()))
        if is_lazy
        else rows_from(columns, places())
    )
    return Table("addresses", columns, rows, noun="elements")


def _tile_columns(level: int, group: str) -> Iterator[Column[ElementPosition]]:
    """The indices of a level of tiles, for people."""
    yield Column(
        f"tile_index{level}",
        "tile",
        "index",
        group=group,
        machine=False,
        of=lambda place: place.tiles[level].tile_index,
    )
    yield Column(
        f"index_in_tile{level}",
        "in tile",
        "index",
        group=group,
        machine=False,
        of=lambda place: place.tiles[level].index_in_tile,
    )


def _positions_table(shape: ArrayShape, requested: Sequence[range], *, as_bytes: bool, bits: int, base: int) -> Table:
    """One row for each position: its element, or why it is padding."""
    columns = (
        Column("byte", "byte", "count", person=as_bytes, machine=as_bytes, of=lambda place: place.number),
        Column("hex", "hex", "text", align="right", person=as_bytes, machine=False, of=lambda place: hex(place.number)),
        Column("linear_index", "linear index", "count",
               of=lambda place: place.position if place.position >= 0 else None),
        Column("byte_offset", "byte offset", "count", person=False,
               of=lambda place: place.byte if place.position >= 0 else None),
        Column("element", "element", "index", person=False, of=lambda place: place.element),
        Column("padding", "padding", "text", person=False, of=lambda place: place.reason),
        Column("content", "element", "text", machine=False, of=lambda place: place.content),
    )  # fmt: skip
    prefix = 8 * shape.layout.dynamic_shape_metadata_prefix_bytes

    def places() -> Iterator[_PositionRow]:
        for numbers in requested:
            for number in numbers:
                for position in _positions_in_byte(number - base, bits, prefix) if as_bytes else (number,):
                    yield _PositionRow(
                        shape, number, position, (position * bits + prefix) // 8, _padding_reason(shape, position)
                    )

    count = sum(map(len, requested))
    # a byte of a packed type has several positions, so that the number of rows is not that of bytes
    is_lazy = count > _MAX_EAGER_ROWS and (not as_bytes or bits >= 8)
    rows = (
        LazyRows(count, lambda: (row_from(columns, place) for place in places()))
        if is_lazy
        else rows_from(columns, places())
    )
    return Table("positions", columns, rows, noun="positions")


def _padding_reason(shape: ArrayShape, position: int) -> str | None:
    """The reason why a position is padding; None if it has an element.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _padding_reason(parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}"), 140)
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


@dataclass(frozen=True, slots=True)
class _PositionRow:
    """A position that was asked for by its number, which is negative in what precedes the elements; and its byte."""

    shape: ArrayShape
    number: int
    position: int
    byte: int
    reason: str | None  # why it is padding

    @property
    def element(self) -> tuple[int, ...] | None:
        """The index of the element, if it is none."""
        return element_at(self.shape, self.position) if self.reason is None else None

    @property
    def content(self) -> str:
        """The element or the reason, for people."""
        return tuple_text(self.element) if self.element is not None else f"padding: {self.reason}"


def _indices(requested: Sequence[Selection]) -> Iterator[tuple[int, ...]]:
    for selection in requested:
        yield from selection.indices


def _tile_record(tile: TilePosition) -> dict[str, Cell]:
    return {
        "tile": tile.sizes,
        "tile_index": tile.tile_index,
        "tile_grid": tile.tile_grid,
        "index_in_tile": tile.index_in_tile,
        "tile_number": tile.number,
        "position_in_tile": tile.position,
    }


# --- --explain: the formula ---
# `hlo tile-index --explain`: the formula of XLA's tiled-layout page with the numbers of one element in every step.


@dataclass(frozen=True, slots=True)
class _Step:
    label: str
    quantity: str
    formula: str
    value: tuple[int, ...]


def explanation(shape: ArrayShape, place: ElementPosition, *, named: bool = False) -> Figure:
    """Every step from the index to the position: the divisions and the sum; `named` puts the element in the title.

    >>> from hlo_cli.analysis.layout.addresses import position_of
    >>> from hlo_cli.report.text import plain_text
    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
    >>> for line in explanation(shape, position_of(shape, (2, 3))).draw(80): print(plain_text(line))
    tile T(2,2)  tile index     (⌊2/2⌋, ⌊3/2⌋)      = (1,1)
                 tile grid      (⌈3/2⌉, ⌈5/2⌉)      = (2,3)
                 index in tile  (2 mod 2, 3 mod 2)  = (0,1)
                 tile size                            (2,2)
    <BLANKLINE>
      linear_index_with_tile((2,3), (3,5), (2,2))
    = linear_index((1,1,0,1), (2,3,2,2))
    = linear_index((1,1), (2,3)) · 2 · 2 + linear_index((0,1), (2,2))
    = ((1 · 3 + 1) · 2 + 0) · 2 + 1
    = 17
    """
    lines = list(_formula_lines(shape, place.index))
    widths = [max((len(text) for text in column), default=0) for column in zip(*_texts(lines), strict=True)]
    table = [
        "  ".join((label.ljust(widths[0]), quantity.ljust(widths[1]), formula.ljust(widths[2]), value)).rstrip()
        for label, quantity, formula, value in _texts(lines)
    ]
    data: dict[str, Cell] = {
        "steps": tuple(
            {"step": line.label, "quantity": line.quantity, "formula": line.formula, "value": line.value}
            for line in lines
        ),
        "index": place.index,
        "linear_index": place.linear_index,
    }
    name = f"explanation of {tuple_text(place.index)}" if named else "explanation"
    return Figure(name, fixed(*table, *([""] if table else []), *_sum_lines(shape, place)), data=data)


def _texts(lines: Sequence[_Step]) -> list[tuple[str, str, str, str]]:
    return [
        (line.label, line.quantity, line.formula, f"{'=' if line.formula else ' '} {tuple_text(line.value)}")
        for line in lines
    ]


def _formula_lines(shape: ArrayShape, index: Sequence[int]) -> Iterator[_Step]:
    tiling, tiles = shape.tiling, iter(shape.layout.tiles)
    current, label = tuple(index), ""
    levels = 0
    for step, bounds in zip(tiling.steps, tiling.bounds, strict=False):
        after, sizes = step.forward(current, bounds), step.bounds(bounds)
        match step:
            case Permute(order=order):
                if order != tuple(range(len(order))):
                    yield _Step("physical", "major to minor", f"dimensions {tuple_text(order)}", after)
                    yield _Step("", "sizes", "", sizes)
                label = _label(next(tiles, None), levels)
            case Extend(count=count):
                yield _Step(label, "added", f"{count} of size 1", after)
                label = ""
            case Combine(position=at):
                product = f"{current[at]} · {bounds[at + 1]} + {current[at + 1]}"
                yield _Step(label, "combined", product, after)
                yield _Step("", "sizes", f"{bounds[at]} · {bounds[at + 1]}", sizes)
                label = ""
            # a tile has as many dimensions as it cuts; those in front of them stay as they are
            case Split(sizes=tile):
                outer, count = len(bounds) - len(tile), len(tile)
                inside, room = current[outer:], bounds[outer:]
                pairs = list(zip(inside, room, tile, strict=True))
                yield _Step(
                    label, "tile index", _tuple_of(f"⌊{i}/{t}⌋" for i, _, t in pairs), after[outer : outer + count]
                )
                yield _Step("", "tile grid", _tuple_of(f"⌈{d}/{t}⌉" for _, d, t in pairs), sizes[outer : outer + count])
                yield _Step("", "index in tile", _tuple_of(f"{i} mod {t}" for i, _, t in pairs), after[outer + count :])
                yield _Step("", "tile size", "", tile)
                levels += 1
                label = _label(next(tiles, None), levels)
        current = after


def _label(tile: object, level: int) -> str:
    return "" if tile is None else f"tile {'' if level else 'T'}{tile}"


def _sum_lines(shape: ArrayShape, place: ElementPosition) -> Iterator[str]:
    tiling = shape.tiling
    final, bounds = tuple(place.index), tiling.bounds[0]
    for step, before in zip(tiling.steps, tiling.bounds, strict=False):
        final = step.forward(final, before)
    bounds = tiling.physical
    arguments = f"{tuple_text(place.index)}, {tuple_text(shape.sizes)}"
    tiles = shape.layout.tiles
    name = "linear_index" if not tiles else "linear_index_with_tile" if len(tiles) == 1 else "linear_index_with_tiles"
    if tiles:
        yield f"  {name}({arguments}, {''.join(map(str, tiles))})"
        yield f"= linear_index({tuple_text(final)}, {tuple_text(bounds)})"
    else:
        yield f"  linear_index({tuple_text(final)}, {tuple_text(bounds)})"
    last = place.tiles[-1].sizes if place.tiles else ()
    # XLA's page on tiled layout writes this sum out for one level of tiles
    if len(tiles) == 1 and len(final) > len(last):
        cut = len(final) - len(last)
        sizes = " · ".join(map(str, last))
        yield (
            f"= linear_index({tuple_text(final[:cut])}, {tuple_text(bounds[:cut])}) · {sizes}"
            f" + linear_index({tuple_text(final[cut:])}, {tuple_text(last)})"
        )
    if len(final) > 1:
        yield f"= {_horner(final, bounds)}"
    yield f"= {place.linear_index}"


def _horner(index: Sequence[int], bounds: Sequence[int]) -> str:
    text = str(index[0])
    for at, (position, bound) in enumerate(zip(index[1:], bounds[1:], strict=True)):
        # Horner's form: the outermost product needs no brackets
        text = f"({text})" if at else text
        text = f"{text} · {bound} + {position}"
    return text


def _tuple_of(parts: Iterator[str]) -> str:
    return "(" + ", ".join(parts) + ")"


# --- the report ---
# The reports of `hlo tile-index` on one array: elements, positions, and the check of the arithmetic.


_MAX_EXPLAINED = 20  # each takes a screen
_MAX_DRAWN = 200  # elements that a picture can mark and still be read
_MAX_VERIFIED = 1 << 27  # an int64 for each position: a GiB


def selections_of(array: ArrayShape, requested: Sequence[str], options: TileIndexOptions) -> list[Selection]:
    """The selected elements, in the given order."""
    selections = read_queries(
        requested,
        lambda text, name, line: read_selection(text, array.sizes, name=name, line=line),
        ("index", "element"),
    )
    return [*selections, Selection(tuple(map(range, array.sizes)))] if options.everything else selections


def positions_of(array: ArrayShape, requested: Sequence[str], options: TileIndexOptions) -> list[range]:
    """The selected positions or, with `--bytes`, bytes, in the given order."""
    if options.explain or options.draw or options.verify:
        conflicting = ("--explain" * options.explain, "--draw" * options.draw, "--verify" * options.verify)
        raise HloError(f"{next(filter(None, conflicting))} cannot be used with --inverse")
    if options.as_bytes:
        addresses = buffer_bytes(array, options)
        positions = read_queries(
            requested,
            lambda text, name, line: _above(options.address, read_slots(text, addresses.stop, name=name, line=line)),
            ("byte_offset", "byte"),
        )
        return [*positions, addresses] if options.everything else positions
    fields = ("linear_index", "linear")
    positions = read_queries(
        requested, lambda text, name, line: read_slots(text, array.slots, name=name, line=line), fields
    )
    return [*positions, range(array.slots)] if options.everything else positions


def buffer_bytes(array: ArrayShape, options: TileIndexOptions) -> range:
    """The addresses of the buffer: from its base, with the size prefix of `M(n)`, to the end of the last position."""
    bits = array.element_bits
    data = options.address + array.layout.dynamic_shape_metadata_prefix_bytes
    return range(options.address, data + -(-array.slots * bits // 8))


def report_of_elements(
    array: ArrayShape, requested: Sequence[Selection], options: TileIndexOptions
) -> tuple[Report, int]:
    """The positions of elements; the second value is the exit code, 1 if `--verify` finds a mismatch."""
    count = sum(selection.count for selection in requested)
    bits = array.element_bits
    table = addresses_table(array, requested, bits=bits, base=options.address)
    parts: list[Part] = [table] if requested else []
    answer = f"{format_count(count, 'elements')} of {array}"
    numbers: dict[str, Cell] = {"elements": count, "positions": array.slots, "element_bits": bits}
    first_indices = [index for selection in requested for index in _first(selection)] if count <= _MAX_DRAWN else []
    if count == 1:
        place = position_of(array, first_indices[0])
        answer, words = _describe_element(place, bits, options.address)
        numbers |= {"linear_index": place.linear_index, "byte_offset": place.byte_offset}
        parts = [_for_machines(table), *words]
    if options.explain:
        if not 0 < count <= _MAX_EXPLAINED:
            raise HloError(f"--explain supports 1 to {_MAX_EXPLAINED} elements, got {count:,}")

        parts = [explanation(array, position_of(array, index), named=count > 1) for index in first_indices]
    if options.draw:
        from hlo_cli.commands.shape.explained import figure_of

        if count > _MAX_DRAWN:
            raise HloError(f"--draw supports up to {_MAX_DRAWN} elements, got {count:,}")
        parts = [*(parts if options.explain else ()), figure_of(array, elements=first_indices)]
    code = 0
    if options.verify:
        result, code = _verified(array)
        answer, parts = (result, parts) if not requested else (answer, [*parts, Passage("verified", (f"{result}.",))])
        numbers["verified"] = code == 0
    following = (
        () if options.explain or count != 1 else (f"hlo tile-index --explain '{array}' {_bare(first_indices[0])}",)
    )
    facts: dict[str, Cell] = {"shape": str(array)}
    report = Report("tile-index", answer, numbers=numbers, parts=tuple(parts), next=following, input=facts)
    return report, code


def report_of_positions(array: ArrayShape, requested: Sequence[range], options: TileIndexOptions) -> Report:
    """The elements at positions or bytes."""
    bits = array.element_bits
    table = _positions_table(array, requested, as_bytes=options.as_bytes, bits=bits, base=options.address)
    noun = "bytes" if options.as_bytes else "positions"
    answer = f"{format_count(sum(map(len, requested)), noun)} of {array}"
    if len(table.rows) == 1 and not options.as_bytes:
        position = requested[0][0]
        element = element_at(array, position)
        holds = f"element ({_bare(element)})" if element is not None else f"padding: {_padding_reason(array, position)}"
        answer = f"Linear index {position} is {holds}"
    return Report(
        "tile-index", answer, numbers={"positions": len(table.rows)}, parts=(table,), input={"shape": str(array)}
    )


def _describe_element(place: ElementPosition, bits: int, base: int) -> tuple[str, list[Part]]:
    byte = place.byte_offset
    bit = f", bit {place.bit_offset % 8}" if bits % 8 else ""
    offset = f"byte {byte} ({hex(byte)}){bit}"
    answer = f"Element ({_bare(place.index)}) is at linear index {place.linear_index}, {offset}"
    if base:
        answer += f", address {hex(base + byte)}"
    words = [
        f"{'Tile' if not level else 'inner tile'} ({_bare(tile.tile_index)}) of {_times(tile.tile_grid)}, "
        f"index ({_bare(tile.index_in_tile)}) in {'a tile' if not level else 'an inner tile'} of {_times(tile.sizes)}"
        for level, tile in enumerate(place.tiles)
    ]
    return answer, [Passage("tiles", ("; ".join(words),))] if words else []


def _verified(array: ArrayShape) -> tuple[str, int]:
    from hlo_cli.analysis.layout.relayout import verify_index_map

    if array.slots > _MAX_VERIFIED:
        raise HloError(
            f"--verify requires the whole array in memory; {array.slots:,} positions are too many",
            hint="try the same layout with smaller sizes",
        )
    if verify_index_map(array):
        return (
            f"Verified {format_count(array.elements, 'elements')} in {format_count(array.slots, 'positions')}",
            0,
        )
    return f"Verification failed for {array}; please report this as a bug in hlo", 1


def _above(base: int, numbers: range) -> range:
    if len(numbers) and min(numbers) < base:
        raise HloError(f"address {min(numbers)} is below the base address {hex(base)}")
    return numbers


def _for_machines(table: Part) -> Part:
    from dataclasses import replace

    assert isinstance(table, Table)
    return replace(table, person=False)


def _first(selection: Selection) -> list[tuple[int, ...]]:
    return list(selection.indices)


def _bare(index: Sequence[int]) -> str:
    return ",".join(map(str, index))


def _times(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes))
