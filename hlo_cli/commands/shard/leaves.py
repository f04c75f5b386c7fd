"""`hlo shard SHAPE SHARDING` of a tuple: one row for each leaf."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.sharding.meshes import axes_text
from hlo_cli.analysis.sharding.placement import ShardedArray, array_of, leaf_shardings, sharded_array, slice_text
from hlo_cli.commands.shard.sizes import size_part
from hlo_cli.ir.attributes.sharding import ShardingType
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.commands.shard.options import ShardOptions
    from hlo_cli.ir.shape import Shape

_COLUMNS: Final = (
    Column("index", "element", "index", align="left"),
    Column("shape", "shape", "shape"),
    Column("division", "divided along"),
    Column("shard", "shard", "shape"),
    Column("slice", "slice", person=False),
    Column("shard_bytes", "on a device", "bytes", total="sum", exact=True),
    Column("logical_bytes", "data in all", "bytes", total="sum", exact=True, from_width=120),
    Column("padding", "padding", "percent", role="waste", from_width=120),
    Column("copies", "copies", "count"),
    Column("devices", "devices", "count", from_width=120),
    Column("sharding", "sharding", rank=2, from_width=120),
)
_OMITTED: Final = frozenset(("division", "shard"))
_DEVICE_COLUMNS: Final = tuple(
    Column("slice", "slice", "range") if column.name == "slice" else replace(column, person=column.name not in _OMITTED)
    for column in _COLUMNS
)


def report_of_leaves(given: GivenArray, options: ShardOptions) -> Report:
    """The leaves of a tuple with their shards, or what one device holds of them."""
    rows, held, whole, is_on_one = list[tuple[Cell, ...]](), 0, 0, False
    for index, leaf, sharding in leaf_shardings(given.shape, given.sharding):
        if _is_weightless(leaf):
            rows.append((index, str(leaf), *(None,) * 8, str(sharding)))
            continue
        array = sharded_array(array_of(leaf), sharding, given.mesh, device_count=given.device_count)
        part = _slice_of(array, options.device)
        size = 0 if part == "" else array.shard.padded_bytes
        is_on_one |= array.placement.kind is ShardingType.MAXIMAL
        held, whole = held + size, whole + array.shape.padded_bytes
        shard = array.shard.to_string(layout=given.has_layout)
        cells = (size, array.shape.logical_bytes, array.padding, array.copies, array.devices)
        shape = array.shape.to_string(layout=given.has_layout)
        rows.append((index, shape, division_text(array), shard, part, *cells, str(sharding)))
    holder = "Each device holds" if options.device is None else f"Device {options.device} holds"
    if options.device is None and is_on_one:
        holder = "A device holds at most"
    estimated = "est. " if given.is_estimated else ""
    answer = f"{holder} {estimated}{size_part(held, whole)} in {_leaves(len(rows))}"
    columns = _COLUMNS if options.device is None else _DEVICE_COLUMNS
    return Report(
        "shard",
        answer,
        version=1,
        numbers={"leaves": len(rows), "shard_bytes": held, "padded_bytes": whole, "device": options.device},
        parts=(Table("leaves", columns, tuple(rows), noun="leaves"),),
        notes=given.notes,
    )


def _leaves(count: int) -> str:
    return "1 leaf" if count == 1 else f"{count:,} leaves"


def division_text(array: ShardedArray) -> str:
    """The axes that divide each dimension, or the kind of the sharding.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> division_text(sharded_array(parse_shape("f32[8,8]"), sharding_of("{mesh['x'=2], [{}, {'x'}]}")))
    '-, x'
    """
    if not array.placement.is_tiled:
        one = array.placement.kind is ShardingType.MAXIMAL and array.placement.devices
        return f"device {array.placement.devices[0]}" if one else str(array.placement.kind)
    axes = array.dimension_axes
    if array.is_mesh_of_tiles or any(each is None for each in axes):
        return ", ".join(f"{part} tiles" if part > 1 else "-" for part in array.placement.parts)
    return ", ".join(axes_text(each or ()) or "-" for each in axes)


def _slice_of(array: ShardedArray, device: int | None) -> str | None:
    """The part on a device, "" if it holds nothing; None without a device."""
    if device is None:
        return None
    try:
        found = next((each for each in array.shards() if each.device == device), None)
    except HloError:
        return None
    return slice_text(found) if found is not None else ""


def _is_weightless(leaf: Shape) -> bool:
    """Whether a leaf is a token or another value without an array."""
    try:
        array_of(leaf)
    except HloError:
        return True
    return False
