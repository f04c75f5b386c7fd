"""The reports of `hlo tile-index` on one array: elements, positions, and the check of the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.layout.addresses import ElementPosition, element_at, position_of
from hlo_cli.commands.tile_index.inputs import questions
from hlo_cli.commands.tile_index.tables import addresses_table, padding_reason, slots_table
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.cell import Cell
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.indices import Selection, read_selection, read_slots

if TYPE_CHECKING:
    from hlo_cli.commands.tile_index.options import TileIndexOptions

_MOST_EXPLAINED = 20
_MOST_DRAWN = 200
_MOST_VERIFIED = 1 << 27


def selections_of(array: ArrayShape, asked: Sequence[str], options: TileIndexOptions) -> list[Selection]:
    """The selected elements, in the given order."""
    found = questions(
        asked, lambda text, name, line: read_selection(text, array.sizes, name=name, line=line), ("index", "element")
    )
    return [*found, Selection(tuple(map(range, array.sizes)))] if options.everything else found


def slots_of(array: ArrayShape, asked: Sequence[str], options: TileIndexOptions) -> list[range]:
    """The selected positions or, with `--bytes`, bytes, in the given order."""
    if options.explain or options.draw or options.verify:
        raise HloError("--inverse goes with indices alone: --explain, --draw and --verify are for elements")
    if options.as_bytes:
        there = buffer_bytes(array, options)
        found = questions(
            asked,
            lambda text, name, line: _above(options.address, read_slots(text, there.stop, name=name, line=line)),
            ("byte_offset", "byte"),
        )
        return [*found, there] if options.everything else found
    fields = ("linear_index", "linear")
    found = questions(asked, lambda text, name, line: read_slots(text, array.slots, name=name, line=line), fields)
    return [*found, range(array.slots)] if options.everything else found


def buffer_bytes(array: ArrayShape, options: TileIndexOptions) -> range:
    """The addresses of the buffer: from its base, with the size prefix of `M(n)`, to the end of the last position."""
    bits = options.bits or array.element_bits
    data = options.address + array.layout.dynamic_shape_metadata_prefix_bytes
    return range(options.address, data + -(-array.slots * bits // 8))


def report_of_elements(array: ArrayShape, asked: Sequence[Selection], options: TileIndexOptions) -> tuple[Report, int]:
    """The positions of elements; the second value is the exit code, 1 if `--verify` finds a mismatch."""
    count = sum(selection.count for selection in asked)
    bits = options.bits or array.element_bits
    table = addresses_table(array, asked, bits=bits, base=options.address)
    parts: list[Part] = [table] if asked else []
    answer = f"{format_count(count, 'elements')} of {array}"
    numbers: dict[str, Cell] = {"elements": count, "slots": array.slots, "element_bits": bits}
    shown = [index for selection in asked for index in _first(selection)] if count <= _MOST_DRAWN else []
    if count == 1:
        place = position_of(array, shown[0], element_bits=bits)
        answer, words = _one(place, bits, options.address)
        numbers |= {"linear_index": place.linear_index, "byte_offset": place.byte_offset}
        parts = [_for_machines(table), *words]
    if options.explain:
        if not 0 < count <= _MOST_EXPLAINED:
            raise HloError(f"--explain is for a few elements, not for {count:,}")
        from hlo_cli.commands.tile_index.explain import explanation

        parts = [explanation(array, position_of(array, index, element_bits=bits), named=count > 1) for index in shown]
    if options.draw:
        from hlo_cli.commands.shared.shape_figure import figure_of

        if count > _MOST_DRAWN:
            raise HloError(f"--draw marks up to {_MOST_DRAWN} elements, not {count:,}")
        parts = [*(parts if options.explain else ()), figure_of(array, elements=shown)]
    code = 0
    if options.verify:
        said, code = _verified(array)
        answer, parts = (said, parts) if not asked else (answer, [*parts, Passage("verified", (f"{said}.",))])
        numbers["agree"] = code == 0
    following = () if options.explain or count != 1 else (f"hlo tile-index --explain '{array}' {_bare(shown[0])}",)
    report = Report("tile-index", answer, numbers=numbers, parts=tuple(parts), next=following)
    return report, code


def report_of_slots(array: ArrayShape, asked: Sequence[range], options: TileIndexOptions) -> Report:
    """The elements at positions or bytes."""
    bits = options.bits or array.element_bits
    table = slots_table(array, asked, as_bytes=options.as_bytes, bits=bits, base=options.address)
    what = "bytes" if options.as_bytes else "slots"
    answer = f"{format_count(sum(map(len, asked)), what)} of {array}"
    if len(table.rows) == 1 and not options.as_bytes:
        slot = asked[0][0]
        element = element_at(array, slot)
        answer = f"Slot {slot} holds element ({_bare(element)})" if element is not None else f"Slot {slot} is padding"
        if element is None:
            answer += f": {padding_reason(array, slot)}"
    return Report("tile-index", answer, numbers={"asked": len(table.rows)}, parts=(table,))


def _one(place: ElementPosition, bits: int, base: int) -> tuple[str, list[Part]]:
    byte = place.byte_offset
    within = f", bit {place.bit_offset % 8} of it" if bits % 8 else ""
    where = f"byte {byte} ({hex(byte)}){within}"
    answer = f"{place.linear_index}: element ({_bare(place.index)}) lies at {where}"
    if base:
        answer += f", address {hex(base + byte)}"
    words = [
        f"tile ({_bare(tile.tile_index)}) of {_times(tile.tile_grid)}, "
        f"there ({_bare(tile.index_in_tile)}) of {_times(tile.sizes)}"
        for tile in place.tiles
    ]
    text = "; in it ".join(words)
    return answer, [Passage("tiles", (text[:1].upper() + text[1:],))] if words else []


def _verified(array: ArrayShape) -> tuple[str, int]:
    from hlo_cli.analysis.layout.verify_tiling import verify_index_map

    if array.slots > _MOST_VERIFIED:
        raise HloError(
            f"--verify moves the whole array about, and {array.slots:,} slots are too many for that",
            hint="the same layout with smaller sizes shows as much",
        )
    if verify_index_map(array):
        return (
            f"Both ways agree on {format_count(array.elements, 'elements')} in {format_count(array.slots, 'slots')}",
            0,
        )
    return f"The two ways differ for {array}: this is a bug of hlo", 1


def _above(base: int, numbers: range) -> range:
    if len(numbers) and min(numbers) < base:
        raise HloError(f"{min(numbers)} lies before the base {hex(base)}")
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
