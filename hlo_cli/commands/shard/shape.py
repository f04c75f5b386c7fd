"""`hlo shard SHAPE SHARDING`: the part on each device, as a grid of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_cli.analysis.sharding.meshes import mesh_text
from hlo_cli.analysis.sharding.placement import ShardedArray, array_of, sharded_array, slice_text
from hlo_cli.commands.shard.grid import grid_figure
from hlo_cli.commands.shard.shape_tables import (
    coordinates_text,
    devices_table,
    dimensions_table,
    listed_devices,
    placement_facts,
    slice_table,
)
from hlo_cli.commands.shard.sizes import format_size, quoted_argument, size_part
from hlo_cli.ir.attributes.sharding import ShardingType, TupleSharding
from hlo_cli.ir.shape import UNBOUNDED, TupleShape
from hlo_cli.report.numbers import format_count, format_percent
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Fact, Facts
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.placement import Shard
    from hlo_cli.commands.shard.given import GivenArray
    from hlo_cli.commands.shard.options import ShardOptions


def report_of_shape(given: GivenArray, options: ShardOptions) -> Report:
    """What each device holds of an array, or one device of it; one row for each leaf of a tuple."""
    if isinstance(given.shape, TupleShape) or isinstance(given.sharding, TupleSharding):
        from hlo_cli.commands.shard.leaves import report_of_leaves

        return report_of_leaves(given, options)
    sharding = given.sharding
    array = sharded_array(array_of(given.shape), sharding, given.mesh, device_count=given.device_count)
    notes = [*given.notes, *_notes(array, given)]
    if options.device is not None:
        return _of_device(given, array, options.device, notes)
    parts: list[Part] = []
    if _has_places(array):
        shards = array.shards()
        figure = grid_figure(array, shards)
        parts += [figure] if figure is not None else []
        parts.append(devices_table(array, shards))
    parts.append(dimensions_table(array))
    parts.append(placement_facts(array, given.mesh_origin, **_layout_of(given)))
    return Report(
        "shard",
        _answer(array, is_estimated=given.is_estimated),
        version=1,
        numbers=_numbers(array, str(sharding)),
        parts=tuple(parts),
        next=_next(given, array),
        notes=tuple(notes),
    )


def _of_device(given: GivenArray, array: ShardedArray, device: int, notes: list[Diagnostic]) -> Report:
    """What one device holds; HloError if the sharding does not have the device."""
    if (array.devices or 0) > _MOST_DEVICES:
        raise HloError(f"{array.devices:,} devices are too many to list")
    if not _has_places(array):
        raise HloError(f"{array.placement.kind} sharding does not list its devices", hint="give --mesh, such as data=8")
    shards = array.shards()
    shard = next((each for each in shards if each.device == device), None)
    numbers = {**_numbers(array, str(given.sharding)), "device": device}
    if shard is None and array.placement.kind is ShardingType.MAXIMAL:
        other = array.placement.devices[0]
        answer = f"Device {device} holds nothing: device {other} holds all of {array.shape.to_string(layout=False)}"
        return Report("shard", answer, version=1, numbers=numbers, notes=tuple(notes))
    if shard is None:
        raise HloError(f"no device {device} among the {format_count(len(shards), 'devices')} of the sharding")
    figure = grid_figure(array, shards, shard)
    others = [each.device for each in shards if each.tile == shard.tile and each is not shard]
    facts = [Fact("holds", (), slice_text(shard), is_whole=True)]
    if array.mesh is not None and (place := coordinates_text(device, array.mesh)) is not None:
        facts.append(Fact("coordinates", (), place, is_whole=True))
    if others:
        facts.append(Fact(_sharing(array), (), listed_devices(others), is_whole=True))
    parts: list[Part] = [slice_table(array, shard), Facts("place", tuple(facts))]
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
    shape, size = array.shape.to_string(layout=False), format_size(array.shard.padded_bytes)
    if shard.is_empty and array.shape.elements:
        return f"Device {shard.device} holds no element of {shape}, only {size} of padding"
    held = f"{slice_text(shard)} of {shape}" if shape and array.placement.is_tiled else f"all of {shape}"
    if shard.sizes != array.shard.sizes:
        whole = array.shard.to_string(layout=False)
        return f"Device {shard.device} holds {held}; the rest of its {whole}, {size}, is padding"
    return f"Device {shard.device} holds {held}, {size}"


def _sharing(array: ShardedArray) -> str:
    kinds = {group.kind for group in array.placement.subgroups} or {array.placement.kind}
    return "same data" if kinds == {ShardingType.REPLICATED} else "same tile"


def _has_places(array: ShardedArray) -> bool:
    """Whether it is known which devices there are."""
    kind = array.placement.kind
    if UNBOUNDED in array.shape.dimensions or (array.devices or 0) > _MOST_DEVICES:
        return False
    return kind is not ShardingType.UNKNOWN and (kind is ShardingType.MAXIMAL or array.devices is not None)


def _layout_of(given: GivenArray) -> dict[str, bool]:
    return {"has_layout": given.has_layout, "is_estimated": given.is_estimated}


def _answer(array: ShardedArray, *, is_estimated: bool) -> str:
    placement, shape = array.placement, array.shape.to_string(layout=False)
    size = format_size(array.shard.padded_bytes)
    devices = f"Each of {format_count(array.devices, 'devices')}" if array.devices else "Every device"
    estimated = "est. " if is_estimated else ""
    match placement.kind:
        case ShardingType.REPLICATED:
            return f"{devices} holds all of {shape}, {estimated}{size}"
        case ShardingType.MAXIMAL:
            held = f"device {placement.devices[0]}" if placement.devices else "one device"
            return f"{held[0].upper()}{held[1:]} holds all of {shape}, {estimated}{size}; other devices hold nothing"
        case ShardingType.MANUAL:
            return f"{devices} holds {shape}, {estimated}{size}; the program decides which data"
        case ShardingType.UNREDUCED:
            return f"{devices} holds one term of a {_reduction(array)} of {shape}, {estimated}{size}"
        case ShardingType.UNKNOWN:
            return f"Not decided: the sharding of {shape} is unknown"
    if UNBOUNDED in array.shape.dimensions:
        return f"{devices} holds {array.shard.to_string(layout=False)}, whose size is unknown"
    part = size_part(array.shard.padded_bytes, array.shape.padded_bytes)
    answer = f"{devices} holds {array.shard.to_string(layout=False)}, {estimated}{part}"
    return "; ".join([answer, *_remarks(array)])


def _remarks(array: ShardedArray) -> list[str]:
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


def _numbers(array: ShardedArray, sharding: str) -> dict[str, Cell]:
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


def _notes(array: ShardedArray, given: GivenArray) -> list[Diagnostic]:
    notes = list[Diagnostic]()
    if given.mesh is not None and array.axes is None and array.placement.is_tiled:
        notes.append(Diagnostic("note", "the tiles do not follow the axes of the mesh, so dimensions have no axes"))
    if given.named is None and given.has_layout and array.shape.layout.tiles and array.shard.sizes != array.shape.sizes:
        notes.append(
            Diagnostic("note", "bytes are those of the given layout; a compiler may choose another for shards")
        )
    return notes


def _next(given: GivenArray, array: ShardedArray) -> tuple[str, ...]:
    text, found = _quoted(given), list[str]()
    if len(text) > _LONGEST or not array.placement.is_tiled:
        return ("hlo help sharding",)
    found.append(f"hlo shard {text} --device {array.placement.devices[-1]}")
    if array.is_mesh_of_tiles and array.mesh is not None and len(array.mesh.axes) <= len(_NAMES):
        names = ("data", "model") if len(array.mesh.axes) == 2 else _NAMES
        axes = ",".join(f"{name}={axis.size}" for name, axis in zip(names, array.mesh.axes, strict=False))
        found.append(f"hlo shard {text} --mesh {axes}")
    else:
        found.append(f"hlo shard {text} --to '{{replicated}}'")
    return tuple(found)


_MOST_DEVICES = 1 << 17
"""The most devices that are listed one by one."""
_LONGEST = 100
_NAMES = "abcdefgh"


def _quoted(given: GivenArray) -> str:
    """The input again, as typed on a command line."""
    mesh = given.mesh if given.mesh_origin == "--mesh" else None
    suffix = f" --mesh {mesh_text(mesh)}" if mesh is not None else ""
    return " ".join(map(quoted_argument, given.text)) + suffix
