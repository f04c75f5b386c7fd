"""Shardings in words: how the dimensions are divided, and which device holds which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from hlo_cli.analysis.sharding.placement import Placement, placement_of
from hlo_cli.analysis.sharding.sharded_array import ShardedArray, sharded_array
from hlo_cli.analysis.sharding.shards import Shard, devices_of
from hlo_cli.ir.attributes.sharding import AnySharding, Mesh, NamedSharding, Sharding, ShardingType, TupleSharding
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError, counted

WHOLE: Final[Mapping[str, str]] = {
    ShardingType.REPLICATED: "every device holds the whole array",
    ShardingType.MANUAL: "the program decides; the shape is already that of one device",
    ShardingType.UNKNOWN: "not decided",
    ShardingType.UNREDUCED: "every device holds a partial result of the whole array, still to be reduced",
}
"""What devices hold in a sharding that divides nothing, by its kind."""
_SHARERS: Final = {
    ShardingType.REPLICATED: "hold the same part",
    ShardingType.MANUAL: "hold parts that the program decides",
    ShardingType.UNREDUCED: "hold partial results of the same part",
}


def describe_sharding(sharding: AnySharding) -> str:
    """The sharding in one sentence without a period, or why it is invalid.

    >>> from hlo_cli import sharding_of
    >>> describe_sharding(sharding_of("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"))
    'dimension 0 in 2 parts; each of the 2 parts is on 4 of 8 devices'
    """
    if isinstance(sharding, TupleSharding):
        return f"one sharding for each of {counted(len(sharding.elements), 'values')}"
    try:
        placement, devices = placement_of(sharding), devices_of(sharding)
    except HloError as error:
        return f"invalid: {error.diagnostic.message}"
    if placement.kind is ShardingType.MAXIMAL:
        return f"device {placement.devices[0]} holds the whole array, the others hold nothing"
    if not placement.is_tiled:
        return WHOLE[placement.kind] + (f" ({counted(devices, 'devices')})" if devices else "")
    if placement.tiles == 1:
        return f"no dimension is divided; {_holders(placement)}"
    return f"{describe_parts(placement.parts)}; {_holders(placement)}"


def describe_parts(parts: Sequence[int]) -> str:
    """The dimensions that are divided, with the number of parts.

    >>> describe_parts((2, 1, 4))
    'dimension 0 in 2 parts, dimension 2 in 4 parts'
    """
    listed = [f"dimension {d} in {part} parts" for d, part in enumerate(parts) if part != 1]
    return ", ".join(listed) or "no dimension is divided"


def describe_shards(shape: ArrayShape, sharding: Sharding | NamedSharding, mesh: Mesh | None = None) -> str:
    """What each device holds of a whole array, in one sentence without a period; HloError if the ranks differ.

    >>> from hlo_cli import parse_shape, sharding_of
    >>> sharding = sharding_of("{devices=[2,1,4]<=[8] last_tile_dim_replicate}")
    >>> describe_shards(parse_shape("f32[16,6]"), sharding)
    'each of 8 devices holds f32[8,6]: devices 0–3 [0:8, 0:6], devices 4–7 [8:16, 0:6]'
    """
    array = sharded_array(shape, sharding, mesh)
    if not array.placement.is_tiled or array.placement.tiles == 1:
        return describe_sharding(sharding)
    held = f"each of {counted(array.devices or 0, 'devices')} holds {array.shard.to_string(layout=False)}"
    try:
        return f"{held}: {', '.join(_held(array))}"
    except HloError:  # a size is unknown
        return held


def devices_text(devices: Sequence[int], most: int) -> str:
    """Devices with runs of three and more as ranges, and the number of those that are omitted.

    >>> devices_text((0, 4), 4), devices_text((0, 1, 2, 3, 9), 4), devices_text((0, 8, 16, 24, 32), 3)
    ('0 4', '0–3 9', '0 8 16 +2')
    """
    runs = [[device] for device in devices[:1]]
    for before, device in pairwise(devices):
        if device == before + 1:
            runs[-1].append(device)
        else:
            runs.append([device])
    texts = list[tuple[str, int]]()
    for run in runs:
        texts += [(f"{run[0]}–{run[-1]}", len(run))] if len(run) > 2 else [(str(device), 1) for device in run]
    shown = " ".join(text for text, _ in texts[:most])
    omitted = sum(count for _, count in texts[most:])
    return f"{shown} +{omitted:,}" if omitted else shown


def slice_text(shard: Shard) -> str:
    """The part as an index in Python.

    >>> slice_text(Shard(0, (1, 0), 0, (8, 0), (16, 3)))
    '[8:16, 0:3]'
    """
    return f"[{', '.join(f'{start}:{limit}' for start, limit in zip(shard.starts, shard.limits, strict=True))}]"


def _held(array: ShardedArray) -> list[str]:
    """The devices and slices of the first two tiles and of the last."""
    tiles = dict[tuple[int, ...], list[Shard]]()
    for shard in array.shards():
        tiles.setdefault(shard.tile, []).append(shard)
    ordered = [tiles[index] for index in sorted(tiles)]
    texts = [_held_tile(tile) for tile in ordered]
    return texts if len(texts) < 4 else [*texts[:2], "…", texts[-1]]


def _held_tile(tile: Sequence[Shard]) -> str:
    devices = devices_text(sorted(shard.device for shard in tile), 4)
    held = "no element" if tile[0].is_empty else slice_text(tile[0])
    return f"device{'s' if len(tile) > 1 else ''} {devices} {held}"


def _holders(placement: Placement) -> str:
    devices, tiles = len(placement.devices), placement.tiles
    sharers = placement.sharers
    if sharers == 1:
        return f"each of {counted(tiles, 'devices')} holds its own part"
    kinds = [group.kind for group in placement.subgroups]
    if kinds == [ShardingType.REPLICATED]:
        return f"each of the {tiles:,} parts is on {sharers:,} of {devices:,} devices"
    return f"{sharers:,} of {devices:,} devices {' or '.join(_SHARERS[kind] for kind in kinds)}"
