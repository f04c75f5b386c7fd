"""What does each device hold of an array? Its parts as a grid, in tables, and for each leaf of a tuple."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.sharding.meshes import axes_text, coordinates_by_device, mesh_text, mesh_words
from hlo_cli.analysis.sharding.placement import (
    Shard,
    ShardedArray,
    array_of,
    devices_text,
    has_parts,
    leaf_shardings,
    sharded_array,
    sharding_of_placement,
    slice_text,
    spec_text,
)
from hlo_cli.commands.shape.explained import dimension_names
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AnySharding, Mesh, ShardingType, TupleSharding
from hlo_cli.ir.shape import UNBOUNDED, Shape, ShapeIndex, TupleShape
from hlo_cli.report.figure import Figure, Grid, GridCell, Joint, Side
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Table, rows_from
from hlo_cli.report.text import Line, Run
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.commands.shard.options import ShardOptions


# --- sizes in sentences ---


_MIN_ROUNDED: Final = 10_000_000
"""Bytes below which a size is given in full."""


def _format_size(count: int) -> str:
    """Bytes, in full unless they are many.

    >>> _format_size(258_048), _format_size(1 << 30)
    ('258,048 bytes', '1 GiB')
    """
    return format_count(count, "bytes") if count < _MIN_ROUNDED else format_bytes(count)


def _size_part(part: int, whole: int) -> str:
    """Bytes out of others, in full unless they are many.

    >>> _size_part(96, 384), _size_part(1 << 21, 1 << 24), _size_part(1 << 26, 1 << 33)
    ('96 of 384 bytes', '2 of 16 MiB', '64 MiB of 8 GiB')
    """
    if whole < _MIN_ROUNDED:
        return f"{part:,} of {format_count(whole, 'bytes')}"
    shown, of = format_bytes(part), format_bytes(whole)
    # A unit that both sizes have is written once.
    return f"{shown.split()[0]} of {of}" if shown.split()[1] == of.split()[1] else f"{shown} of {of}"


def quoted_argument(text: str) -> str:
    """The text as an argument on a command line, in double quotes if it has single ones.

    >>> print(quoted_argument("{replicated}"), quoted_argument("P('x')"), quoted_argument("dump.hlo:p.1"))
    '{replicated}' "P('x')" dump.hlo:p.1
    """
    # A PartitionSpec has single quotes: in double ones it reads as typed, unless a shell would expand what is inside.
    if "'" in text and not any(mark in text for mark in '"$`\\!'):
        return f'"{text}"'
    return shlex.quote(text)


# --- the grid of devices ---


_MAX_DRAWN: Final = 8
"""The number of rows and columns that are drawn in full."""
_MAX_RULED: Final = 4
"""The number of rows that have rules between them."""
_COLUMN_COUNTS: Final = (_MAX_DRAWN, 5, 4, 3, 2)
_DEVICE_COUNTS: Final = (16, 8, 6, 4, 3, 2, 1)
"""The numbers of devices, or of runs of devices, that a cell lists, at most."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """The two dimensions that are drawn, and the tile of the others."""

    array: ShardedArray
    rows: int | None
    columns: int | None
    tile: tuple[int, ...]
    holders: dict[tuple[int, ...], list[int]]

    def parts(self, dimension: int | None) -> int:
        """The number of tiles along a dimension."""
        return 1 if dimension is None else self.array.placement.parts[dimension]

    def at(self, row: int, column: int) -> tuple[int, ...]:
        """The tile in a cell."""
        index = list(self.tile)
        for dimension, at in ((self.rows, row), (self.columns, column)):
            if dimension is not None:
                index[dimension] = at
        return tuple(index)


def grid_figure(array: ShardedArray, shards: Sequence[Shard], marked: Shard | None = None) -> Figure | None:
    """The drawing of the tiles with their devices; None if no dimension is divided."""
    if not array.placement.is_tiled or array.placement.tiles == 1:
        return None
    plane = _plane(array, shards, marked)
    return Figure("grid", lambda room: tuple(_lines(plane, room, marked)))


def _tile_range(size: int, tile_size: int, number: int) -> str:
    """The positions of a tile along a dimension, and the padding at its end.

    >>> _tile_range(10, 3, 0), _tile_range(10, 3, 3), _tile_range(4, 3, 2)
    ('0–2', '9 ·2', '·3')
    """
    start, limit = min(number * tile_size, size), min((number + 1) * tile_size, size)
    padding = f"·{tile_size - (limit - start)}" if limit - start < tile_size else ""
    if start == limit:
        return padding or "-"
    positions = str(start) if limit == start + 1 else f"{start}–{limit - 1}"
    return f"{positions} {padding}" if padding else positions


def _plane(array: ShardedArray, shards: Sequence[Shard], marked: Shard | None) -> _Plane:
    parts = array.placement.parts
    cut = [d for d, part in enumerate(parts) if part > 1]
    if len(cut) > 1:
        rows, columns = cut[0], cut[1]
    else:
        is_last = cut[0] == len(parts) - 1
        # With one divided dimension the most minor one is drawn too, or the one before it if it is that itself.
        rows, columns = (cut[0] - 1, cut[0]) if is_last else (cut[0], len(parts) - 1)
    holders: dict[tuple[int, ...], list[int]] = {}
    for shard in shards:
        holders.setdefault(shard.tile, []).append(shard.device)
    tile = marked.tile if marked is not None else (0,) * len(parts)
    return _Plane(array, rows if rows >= 0 else None, columns, tile, holders)


def _lines(plane: _Plane, room: int, marked: Shard | None) -> Iterator[Line]:
    wanted = plane.tile if marked is not None else None
    grid = _fitting(plane, room, marked, wanted)
    yield from grid.lines()
    for text in (*_padding_remarks(plane), *_omitted_words(plane, grid)):
        yield (Run(text, "quiet"),)


def _fitting(plane: _Plane, room: int, marked: Shard | None, wanted: tuple[int, ...] | None) -> Grid:
    """The grid with the most tiles and devices that fits; the smallest one if none does."""
    rows = _visible(plane.parts(plane.rows), _MAX_DRAWN, wanted[plane.rows] if wanted and plane.rows is not None else 0)
    wanted_column = wanted[plane.columns] if wanted and plane.columns is not None else 0
    grid: Grid | None = None
    for count in _COLUMN_COUNTS:
        columns = _visible(plane.parts(plane.columns), count, wanted_column)
        # More columns before more devices in each: the shape of the division is what is read first.
        for most in _DEVICE_COUNTS:
            grid = _grid(plane, rows, columns, most, marked)
            if grid.width <= room:
                return grid
    assert grid is not None
    return grid


def _visible(count: int, most: int, wanted: int) -> tuple[int, ...]:
    """All positions, or the first ones, the last one, and the wanted one."""
    if count <= most:
        return tuple(range(count))
    return tuple(sorted({*range(max(min(most, _MAX_DRAWN - 1) - 2, 1)), count - 1, wanted}))


def _grid(plane: _Plane, rows: Sequence[int], columns: Sequence[int], most: int, marked: Shard | None) -> Grid:
    names = dimension_names(plane.array.shape.rank)
    cells = tuple(
        tuple(
            _cell(plane, row, column, most, marked, (row_number + column_number) % 2 == 1)
            for column_number, column in enumerate(columns)
        )
        for row_number, row in enumerate(rows)
    )
    sides = _side(plane, plane.rows, rows, names), _side(plane, plane.columns, columns, names)
    if len(rows) > _MAX_RULED:  # without rules between rows, so that the drawing stays low
        joints: tuple[Joint, ...] = tuple("none" if joint == "tile" else joint for joint in sides[0].joints)
        return Grid(replace(sides[0], joints=joints), sides[1], cells)
    return Grid(*sides, cells)


def _cell(plane: _Plane, row: int, column: int, most: int, marked: Shard | None, is_odd: bool) -> GridCell:
    tile = plane.at(row, column)
    sizes, tile_sizes = plane.array.shape.sizes, plane.array.shard.sizes
    is_empty = any(number * part >= size > 0 for number, part, size in zip(tile, tile_sizes, sizes, strict=True))
    text = devices_text(plane.holders.get(tile, ()), most)
    return GridCell(0, is_empty, marked is not None and marked.tile == tile, is_odd, text)


def _side(plane: _Plane, dimension: int | None, shown: Sequence[int], names: Sequence[str]) -> Side:
    if dimension is None:
        return Side("", ("",), ())
    size, tile_size = plane.array.shape.sizes[dimension], plane.array.shard.sizes[dimension]
    joints: tuple[Joint, ...] = tuple("tile" if b == a + 1 else "gap" for a, b in pairwise(shown))
    return Side(names[dimension], tuple(_tile_range(size, tile_size, number) for number in shown), joints)


def _padding_remarks(plane: _Plane) -> Iterator[str]:
    """What the marks of padding mean."""
    array = plane.array
    for d, (size, tile_size) in enumerate(zip(array.shape.sizes, array.shard.sizes, strict=True)):
        if d in (plane.rows, plane.columns) and array.placement.parts[d] * tile_size > size:
            yield "· is padding past the end of the array; a device with · holds nothing else"
            return


def _omitted_words(plane: _Plane, grid: Grid) -> Iterator[str]:
    """What is not drawn: tiles along the two dimensions, those along others, and devices in a cell."""
    array, names = plane.array, dimension_names(plane.array.shape.rank)
    drawn = ((plane.rows, len(grid.rows.labels)), (plane.columns, len(grid.columns.labels)))
    cuts = [
        f"{plane.parts(d) - count:,} of {plane.parts(d):,} tiles along {names[d]}"
        for d, count in drawn
        if d is not None and plane.parts(d) > count
    ]
    if cuts:
        yield f"not shown: {' and '.join(cuts)}"
    others = [d for d, part in enumerate(array.placement.parts) if part > 1 and d not in (plane.rows, plane.columns)]
    if others:
        where = ", ".join(
            f"{names[d]} {_tile_range(array.shape.sizes[d], array.shard.sizes[d], plane.tile[d])}" for d in others
        )
        planes = prod(array.placement.parts[d] for d in others)
        yield f"drawn for {where}: 1 of {format_count(planes, 'planes')}"
    if any("+" in cell.text for row in grid.cells for cell in row):
        yield f"{array.placement.sharers:,} devices hold each tile; + counts those that are not listed"


# --- tables ---


_MAX_LISTED: Final = 12  # a line of 80 columns
_LONGEST_CELL: Final = 140
"""Letters of a sharding, of which those with listed devices can be long."""


def _dimensions_table(array: ShardedArray) -> Table:
    """The dimensions with their tiles and axes."""
    tile_sizes, sizes = array.shard.sizes, array.shape.sizes
    parts = array.placement.parts or (1,) * array.shape.rank

    def if_bounded(d: int, cell: Callable[[int], Cell], otherwise: Cell = UNKNOWN) -> Cell:
        return otherwise if array.shape.dimensions[d] == UNBOUNDED else cell(d)

    columns: tuple[Column[int], ...] = (
        Column("dimension", "dimension", "count", person=False, of=lambda d: d),
        Column("label", "dimension", machine=False, of=lambda d: _label(d, array)),
        Column("size", "size", "count", of=lambda d: if_bounded(d, lambda d: sizes[d])),
        Column("tiles", "tiles", "count", of=lambda d: parts[d]),
        Column("tile_size", "tile size", "count", of=lambda d: if_bounded(d, lambda d: tile_sizes[d])),
        Column("padding_elements", "padding", "count", role="waste",
               of=lambda d: if_bounded(d, lambda d: parts[d] * tile_sizes[d] - sizes[d])),
        Column("axes", "mesh axes", of=lambda d: _axes(array, d)),
        Column("remark", "", machine=False,
               of=lambda d: if_bounded(d, lambda d: _uneven_words(sizes[d], tile_sizes[d], parts[d]), "")),
    )  # fmt: skip
    is_cut = max(parts, default=1) > 1
    rows = rows_from(columns, range(len(sizes)))
    return Table("dimensions", columns, rows, noun="dimensions", main=False, person=is_cut)


def _slice_table(array: ShardedArray, shard: Shard) -> Table:
    """The part of each dimension on one device."""
    sizes, tile_sizes = array.shape.sizes, array.shard.sizes
    columns: tuple[Column[int], ...] = (
        Column("dimension", "dimension", "count", person=False, of=lambda d: d),
        Column("label", "dimension", machine=False, of=lambda d: _label(d, array)),
        Column("size", "size", "count", of=lambda d: sizes[d]),
        Column("tile", "tile", "count", of=lambda d: shard.tile[d]),
        Column("start", "start", "count", of=lambda d: shard.starts[d]),
        Column("limit", "limit", "count", of=lambda d: shard.limits[d]),
        Column("tile_size", "tile size", "count", of=lambda d: tile_sizes[d]),
        Column("axes", "mesh axes", of=lambda d: _axes(array, d)),
        Column(
            "remark", "", machine=False, of=lambda d: _padding_words(shard.limits[d] - shard.starts[d], tile_sizes[d])
        ),
    )
    rows = rows_from(columns, range(len(sizes)))
    return Table("dimensions", columns, rows, noun="dimensions", main=False)


def _padding_words(elements: int, tile_size: int) -> str:
    return f"{tile_size - elements:,} of {tile_size:,} are padding" if elements < tile_size else ""


def _devices_table(array: ShardedArray, shards: Sequence[Shard]) -> Table:
    """What each device holds, for machines."""
    mesh = array.mesh
    places = {} if mesh is None else coordinates_by_device(mesh)
    columns: tuple[Column[Shard], ...] = (
        Column("device", "device", "count", of=lambda device: device.device),
        Column("coordinates", "coordinates", "index", of=lambda device: places.get(device.device)),
        Column("tile", "tile", "index", of=lambda device: device.tile),
        Column("copy", "copy", "count", of=lambda device: device.copy),
        Column("start", "start", "index", of=lambda device: device.starts),
        Column("limit", "limit", "index", of=lambda device: device.limits),
    )
    rows = rows_from(columns, shards)
    return Table("devices", columns, rows, noun="devices", person=False)


def _placement_facts(array: ShardedArray, origin: str, *, has_layout: bool, is_estimated: bool) -> Facts:
    """Bytes on a device and on all, copies, mesh, and the sharding in other forms."""
    if UNBOUNDED in array.shape.dimensions:
        return Facts(
            "placement", tuple(Fact(label, (), remark, is_whole=True) for label, remark in _forms(array, origin))
        )
    facts = [_bytes_fact(array, is_estimated=is_estimated), *_total_facts(array, is_estimated=is_estimated)]
    if not has_layout and not array.shape.layout.tiles and (tiled := array.tpu_shard()) is not None:
        size = Amount("bytes", tiled.padded_bytes, "bytes")
        facts.append(Fact(f"on a TPU {USUAL_TPU}, est.", (size,), f"default layout {tiled}"))
    if (copies := _copies_fact(array)) is not None:
        facts.append(copies)
    facts += [Fact(label, (), remark, is_whole=True) for label, remark in _forms(array, origin)]
    return Facts("placement", tuple(facts))


def _coordinates_text(device: int, mesh: Mesh) -> str | None:
    """The place of a device on a mesh; None if it is not on it.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> _coordinates_text(5, Mesh((MeshAxis("x", 2), MeshAxis("y", 4))))
    'x=1, y=1'
    """
    coordinates = coordinates_by_device(mesh).get(device)
    if coordinates is None:
        return None
    return ", ".join(f"{axis.name}={coordinate}" for axis, coordinate in zip(mesh.axes, coordinates, strict=True))


def _listed_devices(devices: Sequence[int]) -> str:
    """Devices in a sentence, the first ones of many.

    >>> _listed_devices((1,)), _listed_devices((1, 5)), _listed_devices(range(20))
    ('device 1', 'devices 1 and 5', 'devices 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 8 more')
    """
    if len(devices) == 1:
        return f"device {devices[0]}"
    if len(devices) == 2:
        return f"devices {devices[0]} and {devices[1]}"
    shown = ", ".join(map(str, devices[:_MAX_LISTED]))
    if len(devices) > _MAX_LISTED:
        return f"devices {shown}, and {len(devices) - _MAX_LISTED:,} more"
    return f"devices {', '.join(map(str, devices[:-1]))}, and {devices[-1]}"


def _label(dimension: int, array: ShardedArray) -> str:
    name = dimension_names(array.shape.rank)[dimension]
    return f"{dimension} ({name})" if array.shape.rank <= len("pzyx") else str(dimension)


def _axes(array: ShardedArray, dimension: int) -> Cell:
    axes = array.dimension_axes[dimension]
    return UNKNOWN if axes is None else axes_text(axes) or None


def _uneven_words(size: int, tile_size: int, parts: int) -> str:
    """What the last tiles of an uneven dimension hold."""
    if parts * tile_size == size:
        return ""
    full, rest = divmod(size, tile_size) if tile_size else (0, 0)
    empty = parts - full - bool(rest)
    words = [f"1 tile holds {rest:,}"] if rest else []
    words += [f"{empty:,} empty" if words else f"{format_count(empty, 'tiles')} empty"] if empty else []
    return ", ".join(words)


def _bytes_fact(array: ShardedArray, *, is_estimated: bool) -> Fact:
    label = "on a device, est." if is_estimated else "on a device"
    if array.placement.kind is ShardingType.MAXIMAL:
        label = f"on device {array.placement.devices[0]}"
    return Fact(label, (Amount("bytes", array.shard.padded_bytes, "bytes"),), str(array.shard))


def _total_facts(array: ShardedArray, *, is_estimated: bool) -> list[Fact]:
    if array.devices is None or array.placement.kind is ShardingType.MAXIMAL:
        return []
    label = f"on {format_count(array.devices, 'devices')}" + (", est." if is_estimated else "")
    total = array.shard.padded_bytes * array.devices
    remark = f"for {format_bytes(array.shape.logical_bytes)} of data"
    if array.padding > 0:
        remark += f"; {format_percent(array.padding)}% is padding"
    return [Fact(label, (Amount("bytes", total, "bytes"),), remark)]


def _copies_fact(array: ShardedArray) -> Fact | None:
    if array.copies is None or array.placement.kind in (ShardingType.MANUAL, ShardingType.UNREDUCED):
        return None
    along = f"along {axes_text(array.axes.copies)}" if array.axes is not None and array.axes.copies else ""
    return Fact("copies", (Amount("count", array.copies),), along)


def _forms(array: ShardedArray, origin: str) -> list[tuple[str, str]]:
    """The mesh, the axes of subgroups, the PartitionSpec, and the sharding as HLO."""
    forms = list[tuple[str, str]]()
    axes, mesh = array.axes, array.mesh
    if axes is not None:
        forms += [(str(kind), f"along {axes_text(names)}") for kind, names in axes.subgroups]
    if mesh is not None:
        forms.append(
            ("mesh", f"{mesh_words(mesh)} ({'inferred from the tiles' if array.is_mesh_of_tiles else origin})")
        )
    if axes is not None and not axes.subgroups and not array.is_mesh_of_tiles and not has_parts(axes.dimensions):
        forms.append(("spec", spec_text(axes.dimensions, rank=array.shape.rank)))
    if array.placement.kind is not ShardingType.UNKNOWN:
        text = str(sharding_of_placement(array.placement))
        forms.append(("sharding", text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]} …"))
    return forms


# --- the leaves of a tuple ---
# `hlo shard SHAPE SHARDING` of a tuple.


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An element of a tuple with its sharding: without `array`, one that needs no memory, such as a token.

    `slice` is the part that the device of the question holds, whose bytes are `shard_bytes`.
    """

    index: ShapeIndex
    shape: Shape
    sharding: AnySharding
    has_layout: bool
    array: ShardedArray | None = None
    slice: str | None = None
    shard_bytes: int | None = None


_COLUMNS: Final[tuple[Column[_Leaf], ...]] = (
    Column("index", "element", "index", align="left", of=lambda leaf: leaf.index),
    Column("shape", "shape", "shape",
           of=lambda leaf: leaf.array.shape.to_string(layout=leaf.has_layout) if leaf.array else str(leaf.shape)),
    Column("division", "divided along", of=lambda leaf: _division_text(leaf.array) if leaf.array else None),
    Column("shard", "shard", "shape",
           of=lambda leaf: leaf.array.shard.to_string(layout=leaf.has_layout) if leaf.array else None),
    Column("slice", "slice", person=False, of=lambda leaf: leaf.slice),
    Column("shard_bytes", "on a device", "bytes", total="sum", exact=True, of=lambda leaf: leaf.shard_bytes),
    Column("logical_bytes", "data in all", "bytes", total="sum", exact=True, from_width=120,
           of=lambda leaf: leaf.array.shape.logical_bytes if leaf.array else None),
    Column("padding", "padding", "percent", role="waste", from_width=120,
           of=lambda leaf: leaf.array.padding if leaf.array else None),
    Column("copies", "copies", "count", of=lambda leaf: leaf.array.copies if leaf.array else None),
    Column("devices", "devices", "count", from_width=120, of=lambda leaf: leaf.array.devices if leaf.array else None),
    Column("sharding", "sharding", rank=2, from_width=120, of=lambda leaf: str(leaf.sharding)),
)  # fmt: skip
_WITHOUT_DEVICE: Final = frozenset(("division", "shard"))
_DEVICE_COLUMNS: Final = tuple(
    replace(column, unit="range", person=True)
    if column.name == "slice"
    else replace(column, person=column.name not in _WITHOUT_DEVICE)
    for column in _COLUMNS
)


def _report_of_leaves(given: GivenArray, options: ShardOptions) -> Report:
    """The leaves of a tuple with their shards, or what one device holds of them."""
    leaves, shard_bytes, padded_bytes, is_on_one = list[_Leaf](), 0, 0, False
    for index, leaf, sharding in leaf_shardings(given.shape, given.sharding):
        if _is_weightless(leaf):
            leaves.append(_Leaf(index, leaf, sharding, given.has_layout))
            continue
        array = sharded_array(array_of(leaf), sharding, given.mesh, device_count=given.device_count)
        part = _slice_of(array, options.device)
        size = 0 if part == "" else array.shard.padded_bytes
        is_on_one |= array.placement.kind is ShardingType.MAXIMAL
        shard_bytes, padded_bytes = shard_bytes + size, padded_bytes + array.shape.padded_bytes
        leaves.append(_Leaf(index, leaf, sharding, given.has_layout, array, part, size))
    holder = "Each device holds" if options.device is None else f"Device {options.device} holds"
    if options.device is None and is_on_one:
        # A maximal sharding gives its leaf to one device alone, so that devices hold different amounts.
        holder = "A device holds at most"
    estimated = "est. " if given.is_estimated else ""
    answer = f"{holder} {estimated}{_size_part(shard_bytes, padded_bytes)} in {_count_leaves(len(leaves))}"
    columns = _COLUMNS if options.device is None else _DEVICE_COLUMNS
    return Report(
        "shard",
        answer,
        version=1,
        numbers={
            "leaves": len(leaves),
            "shard_bytes": shard_bytes,
            "padded_bytes": padded_bytes,
            "device": options.device,
        },
        parts=(Table("leaves", columns, rows_from(columns, leaves), noun="leaves"),),
        notes=given.notes,
    )


def _count_leaves(count: int) -> str:
    return "1 leaf" if count == 1 else f"{count:,} leaves"


def _division_text(array: ShardedArray) -> str:
    """The axes that divide each dimension, or the kind of the sharding.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> _division_text(sharded_array(parse_shape("f32[8,8]"), sharding_of("{mesh['x'=2], [{}, {'x'}]}")))
    '-, x'
    """
    if not array.placement.is_tiled:
        is_on_one = array.placement.kind is ShardingType.MAXIMAL and array.placement.devices
        return f"device {array.placement.devices[0]}" if is_on_one else str(array.placement.kind)
    axes = array.dimension_axes
    if array.is_mesh_of_tiles or any(each is None for each in axes):
        return ", ".join(f"{part} tiles" if part > 1 else "-" for part in array.placement.parts)
    return ", ".join(axes_text(each or ()) or "-" for each in axes)


def _slice_of(array: ShardedArray, device: int | None) -> str | None:
    """The part on a device, "" if it holds nothing; None without a device."""
    if device is None:
        return None
    try:
        shard = next((each for each in array.shards() if each.device == device), None)
    except HloError:
        return None
    return slice_text(shard) if shard is not None else ""


def _is_weightless(leaf: Shape) -> bool:
    """Whether a leaf is a token or another value without an array."""
    try:
        array_of(leaf)
    except HloError:
        return True
    return False


# --- the report ---
# `hlo shard SHAPE SHARDING`: the part on each device, as a grid of devices.


def report_of_shape(given: GivenArray, options: ShardOptions) -> Report:
    """What each device holds of an array, or one device of it; one row for each leaf of a tuple."""
    if isinstance(given.shape, TupleShape) or isinstance(given.sharding, TupleSharding):
        return _report_of_leaves(given, options)
    sharding = given.sharding
    array = sharded_array(array_of(given.shape), sharding, given.mesh, device_count=given.device_count)
    notes = [*given.notes, *_array_notes(array, given)]
    if options.device is not None:
        return _report_of_device(given, array, options.device, notes)
    parts: list[Part] = []
    if _has_places(array):
        shards = array.shards()
        figure = grid_figure(array, shards)
        parts += [figure] if figure is not None else []
        parts.append(_devices_table(array, shards))
    parts.append(_dimensions_table(array))
    parts.append(_placement_facts(array, given.mesh_origin, **_layout_of(given)))
    return Report(
        "shard",
        _array_answer(array, is_estimated=given.is_estimated),
        version=1,
        numbers=_array_numbers(array, str(sharding)),
        parts=tuple(parts),
        next=_next_commands(given, array),
        notes=tuple(notes),
    )


def _report_of_device(given: GivenArray, array: ShardedArray, device: int, notes: list[Diagnostic]) -> Report:
    """What one device holds; HloError if the sharding does not have the device."""
    if (array.devices or 0) > _MAX_DEVICES:
        raise HloError(f"{array.devices:,} devices are too many to list")
    if not _has_places(array):
        raise HloError(f"{array.placement.kind} sharding does not list its devices", hint="give --mesh, such as data=8")
    shards = array.shards()
    shard = next((each for each in shards if each.device == device), None)
    numbers = {**_array_numbers(array, str(given.sharding)), "device": device}
    if shard is None and array.placement.kind is ShardingType.MAXIMAL:
        other = array.placement.devices[0]
        answer = f"Device {device} holds nothing: device {other} holds all of {array.shape.to_string(layout=False)}"
        return Report("shard", answer, version=1, numbers=numbers, notes=tuple(notes))
    if shard is None:
        raise HloError(f"no device {device} among the {format_count(len(shards), 'devices')} of the sharding")
    figure = grid_figure(array, shards, shard)
    others = [each.device for each in shards if each.tile == shard.tile and each is not shard]
    facts = [Fact("holds", (), slice_text(shard), is_whole=True)]
    if array.mesh is not None and (place := _coordinates_text(device, array.mesh)) is not None:
        facts.append(Fact("coordinates", (), place, is_whole=True))
    if others:
        facts.append(Fact(_kind_of_sharing(array), (), _listed_devices(others), is_whole=True))
    parts: list[Part] = [_slice_table(array, shard), Facts("place", tuple(facts))]
    numbers |= {"start": shard.starts, "limit": shard.limits, "same_tile": tuple(others)}
    return Report(
        "shard",
        _device_answer(array, shard),
        version=1,
        numbers=numbers,
        parts=tuple([figure, *parts] if figure is not None else parts),
        next=(f"hlo shard {_quoted(given)}",),
        notes=tuple(notes),
    )


def _device_answer(array: ShardedArray, shard: Shard) -> str:
    shape, size = array.shape.to_string(layout=False), _format_size(array.shard.padded_bytes)
    if shard.is_empty and array.shape.elements:
        return f"Device {shard.device} holds no element of {shape}, only {size} of padding"
    part = f"{slice_text(shard)} of {shape}" if shape and array.placement.is_tiled else f"all of {shape}"
    if shard.sizes != array.shard.sizes:
        tile = array.shard.to_string(layout=False)
        return f"Device {shard.device} holds {part}; the rest of its {tile}, {size}, is padding"
    return f"Device {shard.device} holds {part}, {size}"


def _kind_of_sharing(array: ShardedArray) -> str:
    kinds = {group.kind for group in array.placement.subgroups} or {array.placement.kind}
    # Devices of a manual subgroup share a tile, but the program decides whether its data are equal.
    return "same data" if kinds == {ShardingType.REPLICATED} else "same tile"


def _has_places(array: ShardedArray) -> bool:
    """Whether it is known which devices there are."""
    kind = array.placement.kind
    if UNBOUNDED in array.shape.dimensions or (array.devices or 0) > _MAX_DEVICES:
        return False
    return kind is not ShardingType.UNKNOWN and (kind is ShardingType.MAXIMAL or array.devices is not None)


def _layout_of(given: GivenArray) -> dict[str, bool]:
    return {"has_layout": given.has_layout, "is_estimated": given.is_estimated}


def _array_answer(array: ShardedArray, *, is_estimated: bool) -> str:
    placement, shape = array.placement, array.shape.to_string(layout=False)
    size = _format_size(array.shard.padded_bytes)
    devices = f"Each of {format_count(array.devices, 'devices')}" if array.devices else "Every device"
    estimated = "est. " if is_estimated else ""
    match placement.kind:
        case ShardingType.REPLICATED:
            return f"{devices} holds all of {shape}, {estimated}{size}"
        case ShardingType.MAXIMAL:
            holder = f"device {placement.devices[0]}" if placement.devices else "one device"
            return (
                f"{holder[0].upper()}{holder[1:]} holds all of {shape}, {estimated}{size}; other devices hold nothing"
            )
        case ShardingType.MANUAL:
            return f"{devices} holds {shape}, {estimated}{size}; the program decides which data"
        case ShardingType.UNREDUCED:
            return f"{devices} holds one term of a {_reduction(array)} of {shape}, {estimated}{size}"
        case ShardingType.UNKNOWN:
            return f"Not decided: the sharding of {shape} is unknown"
    if UNBOUNDED in array.shape.dimensions:
        return f"{devices} holds {array.shard.to_string(layout=False)}, whose size is unknown"
    part = _size_part(array.shard.padded_bytes, array.shape.padded_bytes)
    answer = f"{devices} holds {array.shard.to_string(layout=False)}, {estimated}{part}"
    return "; ".join([answer, *_array_remarks(array)])


def _array_remarks(array: ShardedArray) -> list[str]:
    """What devices with the same tile are to each other, and the share of padding."""
    remarks = list[str]()
    for group in array.placement.subgroups:
        match group.kind:
            case ShardingType.REPLICATED:
                remarks.append(f"every element is on {format_count(group.size, 'devices')}")
            case ShardingType.MANUAL:
                remarks.append(f"the program divides each tile over {format_count(group.size, 'devices')}")
            case _:
                remarks.append(
                    f"each tile is one term of a {_reduction(array)} over {format_count(group.size, 'devices')}"
                )
    if array.padding >= 0.005:
        remarks.append(f"{format_percent(array.padding)}% of it is padding")
    return remarks


def _reduction(array: ShardedArray) -> str:
    return {"max": "maximum", "min": "minimum", "mul": "product"}.get(str(array.placement.reduction or "add"), "sum")


def _array_numbers(array: ShardedArray, sharding: str) -> dict[str, Cell]:
    mesh = array.mesh
    return {
        "shape": str(array.shape),
        "sharding": sharding,
        "shard": str(array.shard),
        "devices": array.devices,
        "tiles": array.placement.tiles if array.placement.is_tiled else None,
        "copies": array.copies,
        "shard_bytes": array.shard.padded_bytes,
        "total_bytes": array.shard.padded_bytes * array.holders if array.holders is not None else None,
        "logical_bytes": array.shape.logical_bytes,
        "padding": array.padding,
        "mesh": mesh_text(mesh) if mesh is not None else None,
    }


def _array_notes(array: ShardedArray, given: GivenArray) -> list[Diagnostic]:
    notes = list[Diagnostic]()
    if given.mesh is not None and array.axes is None and array.placement.is_tiled:
        notes.append(Diagnostic("note", "the tiles do not follow the axes of the mesh, so dimensions have no axes"))
    if given.named is None and given.has_layout and array.shape.layout.tiles and array.shard.sizes != array.shape.sizes:
        notes.append(
            Diagnostic("note", "bytes are those of the given layout; a compiler may choose another for shards")
        )
    return notes


def _next_commands(given: GivenArray, array: ShardedArray) -> tuple[str, ...]:
    text, found = _quoted(given), list[str]()
    if len(text) > _LONGEST_ANSWER or not array.placement.is_tiled:
        return ("hlo help sharding",)
    found.append(f"hlo shard {text} --device {array.placement.devices[-1]}")
    if array.is_mesh_of_tiles and array.mesh is not None and len(array.mesh.axes) <= len(_NAMES):
        names = ("data", "model") if len(array.mesh.axes) == 2 else _NAMES
        axes = ",".join(f"{name}={axis.size}" for name, axis in zip(names, array.mesh.axes, strict=False))
        found.append(f"hlo shard {text} --mesh {axes}")
    else:
        found.append(f"hlo shard {text} --to '{{replicated}}'")
    return tuple(found)


_MAX_DEVICES = 1 << 17
"""The most devices that are listed one by one."""
_LONGEST_ANSWER = 100  # a sharding with listed devices would hide the answer
_NAMES = "abcdefgh"


def _quoted(given: GivenArray) -> str:
    """The input again, as typed on a command line."""
    mesh = given.mesh if given.mesh_origin == "--mesh" else None
    suffix = f" --mesh {mesh_text(mesh)}" if mesh is not None else ""
    return " ".join(map(quoted_argument, given.text)) + suffix
