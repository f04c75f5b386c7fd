"""Tables of an array on devices: its dimensions, its devices, and the facts on its bytes, copies, and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU
from hlo_cli.analysis.sharding.meshes import axes_text, coordinates_by_device, mesh_text
from hlo_cli.analysis.sharding.placement import Shard, ShardedArray, has_parts, sharding_of_placement, spec_text
from hlo_cli.commands.shape.explained import dimension_names
from hlo_cli.ir.attributes.sharding import Mesh, ShardingType
from hlo_cli.ir.shape import UNBOUNDED
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Table

_LABEL = Column("label", "dimension", machine=False)
_NUMBER = Column("dimension", "dimension", "count", person=False)
_SIZE = Column("size", "size", "count")
_DIMENSIONS: Final = (
    _NUMBER,
    _LABEL,
    _SIZE,
    Column("tiles", "tiles", "count"),
    Column("tile_size", "tile size", "count"),
    Column("padding_elements", "padding", "count", role="waste"),
    Column("axes", "mesh axes"),
    Column("remark", "", machine=False),
)
_SLICE: Final = (
    _NUMBER,
    _LABEL,
    _SIZE,
    Column("tile", "tile", "count"),
    Column("start", "start", "count"),
    Column("limit", "limit", "count"),
    Column("tile_size", "tile size", "count"),
    Column("axes", "mesh axes"),
    Column("remark", "", machine=False),
)
_DEVICES: Final = (
    Column("device", "device", "count"),
    Column("coordinates", "coordinates", "index"),
    Column("tile", "tile", "index"),
    Column("copy", "copy", "count"),
    Column("start", "start", "index"),
    Column("limit", "limit", "index"),
)
_MOST_LISTED: Final = 12
_LONGEST: Final = 140
"""Letters of a sharding, of which those with listed devices can be long."""


def dimensions_table(array: ShardedArray) -> Table:
    """The dimensions with their tiles and axes."""
    rows = list[tuple[Cell, ...]]()
    tile_sizes = array.shard.sizes
    parts = array.placement.parts or (1,) * array.shape.rank
    for d, size in enumerate(array.shape.sizes):
        if array.shape.dimensions[d] == UNBOUNDED:
            rows.append((d, _label(d, array), UNKNOWN, parts[d], UNKNOWN, UNKNOWN, _axes(array, d), ""))
            continue
        padding = parts[d] * tile_sizes[d] - size
        remark = _uneven(size, tile_sizes[d], parts[d])
        rows.append((d, _label(d, array), size, parts[d], tile_sizes[d], padding, _axes(array, d), remark))
    is_cut = max(parts, default=1) > 1
    return Table("dimensions", _DIMENSIONS, tuple(rows), noun="dimensions", main=False, person=is_cut)


def slice_table(array: ShardedArray, shard: Shard) -> Table:
    """The part of each dimension on one device."""
    rows = list[tuple[Cell, ...]]()
    for d, size in enumerate(array.shape.sizes):
        held, tile_size = shard.limits[d] - shard.starts[d], array.shard.sizes[d]
        remark = f"{tile_size - held:,} of {tile_size:,} are padding" if held < tile_size else ""
        row = (shard.tile[d], shard.starts[d], shard.limits[d], tile_size)
        rows.append((d, _label(d, array), size, *row, _axes(array, d), remark))
    return Table("dimensions", _SLICE, tuple(rows), noun="dimensions", main=False)


def devices_table(array: ShardedArray, shards: Sequence[Shard]) -> Table:
    """What each device holds, for machines."""
    mesh = array.mesh
    places = {} if mesh is None else coordinates_by_device(mesh)
    rows = tuple(
        (each.device, places.get(each.device), each.tile, each.copy, each.starts, each.limits) for each in shards
    )
    return Table("devices", _DEVICES, rows, noun="devices", person=False)


def placement_facts(array: ShardedArray, origin: str, *, has_layout: bool, is_estimated: bool) -> Facts:
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


def coordinates_text(device: int, mesh: Mesh) -> str | None:
    """The place of a device on a mesh; None if it is not on it.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> coordinates_text(5, Mesh((MeshAxis("x", 2), MeshAxis("y", 4))))
    'x=1, y=1'
    """
    found = coordinates_by_device(mesh).get(device)
    if found is None:
        return None
    return ", ".join(f"{axis.name}={at}" for axis, at in zip(mesh.axes, found, strict=True))


def listed_devices(devices: Sequence[int]) -> str:
    """Devices in a sentence, the first ones of many.

    >>> listed_devices((1,)), listed_devices((1, 5)), listed_devices(range(20))
    ('device 1', 'devices 1 and 5', 'devices 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 8 more')
    """
    if len(devices) == 1:
        return f"device {devices[0]}"
    if len(devices) == 2:
        return f"devices {devices[0]} and {devices[1]}"
    shown = ", ".join(map(str, devices[:_MOST_LISTED]))
    if len(devices) > _MOST_LISTED:
        return f"devices {shown}, and {len(devices) - _MOST_LISTED:,} more"
    return f"devices {', '.join(map(str, devices[:-1]))}, and {devices[-1]}"


def _label(dimension: int, array: ShardedArray) -> str:
    name = dimension_names(array.shape.rank)[dimension]
    return f"{dimension} ({name})" if array.shape.rank <= len("pzyx") else str(dimension)


def _axes(array: ShardedArray, dimension: int) -> Cell:
    axes = array.dimension_axes[dimension]
    return UNKNOWN if axes is None else axes_text(axes) or None


def _uneven(size: int, tile_size: int, parts: int) -> str:
    """What the last tiles of an uneven dimension hold."""
    if parts * tile_size == size:
        return ""
    full, rest = divmod(size, tile_size) if tile_size else (0, 0)
    empty = parts - full - bool(rest)
    said = [f"1 tile holds {rest:,}"] if rest else []
    said += [f"{empty:,} empty" if said else f"{format_count(empty, 'tiles')} empty"] if empty else []
    return ", ".join(said)


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
    found = list[tuple[str, str]]()
    axes, mesh = array.axes, array.mesh
    if axes is not None:
        found += [(str(kind), f"along {axes_text(names)}") for kind, names in axes.subgroups]
    if mesh is not None:
        found.append(("mesh", f"{mesh_text(mesh)} ({'inferred from the tiles' if array.is_mesh_of_tiles else origin})"))
    if axes is not None and not axes.subgroups and not array.is_mesh_of_tiles and not has_parts(axes.dimensions):
        found.append(("spec", spec_text(axes.dimensions, rank=array.shape.rank)))
    if array.placement.kind is not ShardingType.UNKNOWN:
        text = str(sharding_of_placement(array.placement))
        found.append(("sharding", text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"))
    return found
