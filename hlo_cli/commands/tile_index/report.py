"""The reports of `hlo tile-index` on one array: elements, positions, and the check of the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.layout.addresses import ElementPosition, element_at, position_of
from hlo_cli.commands.tile_index.inputs import read_queries
from hlo_cli.commands.tile_index.tables import addresses_table, padding_reason, positions_table
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import Selection, read_selection, read_slots

if TYPE_CHECKING:
    from hlo_cli.commands.tile_index.options import TileIndexOptions

_MAX_EXPLAINED = 20
_MAX_DRAWN = 200
_MAX_VERIFIED = 1 << 27


def selections_of(array: ArrayShape, requested: Sequence[str], options: TileIndexOptions) -> list[Selection]:
    """The selected elements, in the given order."""
    found = read_queries(
        requested,
        lambda text, name, line: read_selection(text, array.sizes, name=name, line=line),
        ("index", "element"),
    )
    return [*found, Selection(tuple(map(range, array.sizes)))] if options.everything else found


def positions_of(array: ArrayShape, requested: Sequence[str], options: TileIndexOptions) -> list[range]:
    """The selected positions or, with `--bytes`, bytes, in the given order."""
    if options.explain or options.draw or options.verify:
        given = ("--explain" * options.explain, "--draw" * options.draw, "--verify" * options.verify)
        raise HloError(f"{next(filter(None, given))} cannot be used with --inverse")
    if options.as_bytes:
        there = buffer_bytes(array, options)
        found = read_queries(
            requested,
            lambda text, name, line: _above(options.address, read_slots(text, there.stop, name=name, line=line)),
            ("byte_offset", "byte"),
        )
        return [*found, there] if options.everything else found
    fields = ("linear_index", "linear")
    found = read_queries(
        requested, lambda text, name, line: read_slots(text, array.slots, name=name, line=line), fields
    )
    return [*found, range(array.slots)] if options.everything else found


def buffer_bytes(array: ArrayShape, options: TileIndexOptions) -> range:
    """The addresses of the buffer: from its base, with the size prefix of `M(n)`, to the end of the last position."""
    bits = options.bits or array.element_bits
    data = options.address + array.layout.dynamic_shape_metadata_prefix_bytes
    return range(options.address, data + -(-array.slots * bits // 8))


def report_of_elements(
    array: ArrayShape, requested: Sequence[Selection], options: TileIndexOptions
) -> tuple[Report, int]:
    """The positions of elements; the second value is the exit code, 1 if `--verify` finds a mismatch."""
    count = sum(selection.count for selection in requested)
    bits = options.bits or array.element_bits
    table = addresses_table(array, requested, bits=bits, base=options.address)
    parts: list[Part] = [table] if requested else []
    answer = f"{format_count(count, 'elements')} of {array}"
    numbers: dict[str, Cell] = {"elements": count, "positions": array.slots, "element_bits": bits}
    shown = [index for selection in requested for index in _first(selection)] if count <= _MAX_DRAWN else []
    if count == 1:
        place = position_of(array, shown[0], element_bits=bits)
        answer, words = _one(place, bits, options.address)
        numbers |= {"linear_index": place.linear_index, "byte_offset": place.byte_offset}
        parts = [_for_machines(table), *words]
    if options.explain:
        if not 0 < count <= _MAX_EXPLAINED:
            raise HloError(f"--explain supports 1 to {_MAX_EXPLAINED} elements, got {count:,}")
        from hlo_cli.commands.tile_index.explain import explanation

        parts = [explanation(array, position_of(array, index, element_bits=bits), named=count > 1) for index in shown]
    if options.draw:
        from hlo_cli.commands.shape.explained import figure_of

        if count > _MAX_DRAWN:
            raise HloError(f"--draw supports up to {_MAX_DRAWN} elements, got {count:,}")
        parts = [*(parts if options.explain else ()), figure_of(array, elements=shown)]
    code = 0
    if options.verify:
        result, code = _verified(array)
        answer, parts = (result, parts) if not requested else (answer, [*parts, Passage("verified", (f"{result}.",))])
        numbers["verified"] = code == 0
    following = () if options.explain or count != 1 else (f"hlo tile-index --explain '{array}' {_bare(shown[0])}",)
    facts: dict[str, Cell] = {"shape": str(array)}
    report = Report("tile-index", answer, numbers=numbers, parts=tuple(parts), next=following, input=facts)
    return report, code


def report_of_positions(array: ArrayShape, requested: Sequence[range], options: TileIndexOptions) -> Report:
    """The elements at positions or bytes."""
    bits = options.bits or array.element_bits
    table = positions_table(array, requested, as_bytes=options.as_bytes, bits=bits, base=options.address)
    noun = "bytes" if options.as_bytes else "positions"
    answer = f"{format_count(sum(map(len, requested)), noun)} of {array}"
    if len(table.rows) == 1 and not options.as_bytes:
        position = requested[0][0]
        element = element_at(array, position)
        holds = f"element ({_bare(element)})" if element is not None else f"padding: {padding_reason(array, position)}"
        answer = f"Linear index {position} is {holds}"
    return Report(
        "tile-index", answer, numbers={"positions": len(table.rows)}, parts=(table,), input={"shape": str(array)}
    )


def _one(place: ElementPosition, bits: int, base: int) -> tuple[str, list[Part]]:
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

    from hlo_cli.report.table import Table

    assert isinstance(table, Table)
    return replace(table, person=False)


def _first(selection: Selection) -> list[tuple[int, ...]]:
    return list(selection.indices)


def _bare(index: Sequence[int]) -> str:
    return ",".join(map(str, index))


def _times(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes))
